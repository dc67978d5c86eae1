"""Margin losses of linear classifiers: convex, with a public bound on slope and curvature.

A loss is a function of the margin z = y f.x. The compiled kernels know it by a code and one number: a NamedTuple whose
type picks the formulas would cost 7 to 11 per cent of a solve on fifty rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Annotated, Any

from pydantic import Field, Strict

from fairveil.compiling import njit
from fairveil.configuration import configuration, describe
from fairveil.fields import Positive, described
from fairveil.registry import build, register

LOGISTIC, HUBER_HINGE, CLIPPED_LOGISTIC = 0, 1, 2


class Loss(ABC):
    """Public configuration of a loss. ``slope`` bounds |L'|, ``curvature`` bounds L''."""

    name: str = ""
    code: int = LOGISTIC

    @property
    def number(self) -> float:
        """The parameter that the kernels read."""
        return 0.0

    @property
    def steepest(self) -> float:
        """The largest |L'(z)|."""
        return 1.0

    @property
    @abstractmethod
    def curvature(self) -> float:
        """The largest L''(z)."""


@register("loss", "logistic")
@configuration
class Logistic(Loss):
    """log(1 + exp(-z)): slope at most 1, curvature at most 1/4."""

    code = LOGISTIC

    @property
    def curvature(self) -> float:
        return 0.25


@register("loss", "huber-hinge")
@configuration
class HuberHinge(Loss):
    """The hinge, rounded over 1 - width .. 1 + width: slope at most 1, curvature at most 1/(2 width).

    >>> HuberHinge(width=0.25).curvature
    2.0
    """

    width: Positive = described("how wide the corner of the hinge is rounded", default=0.5)

    code = HUBER_HINGE

    @property
    def number(self) -> float:
        return self.width

    @property
    def curvature(self) -> float:
        return 1 / (2 * self.width)


@register("loss", "clipped-logistic")
@configuration
class ClippedLogistic(Loss):
    """The logistic loss, continued as a straight line where its slope would exceed ``slope``.

    Convex and classification-calibrated (L'(0) < 0): logistic to the right of ln((1 - s)/s), linear to its left. A
    person whose label surprises the classifier pulls with at most ``slope``, so replacing a row moves a gradient by at
    most 2 s instead of 2.

    >>> ClippedLogistic(slope=0.5).steepest
    0.5
    """

    slope: Annotated[float, Strict(), Field(gt=0.0, le=1.0, allow_inf_nan=False)] = described(
        "where the slope of the loss is cut off", default=0.5
    )

    code = CLIPPED_LOGISTIC

    @property
    def number(self) -> float:
        return self.slope

    @property
    def steepest(self) -> float:
        return self.slope

    @property
    def curvature(self) -> float:
        return 0.25 if self.slope >= 0.5 else self.slope * (1 - self.slope)


def make_loss(table: Any, path: str = "loss") -> Loss:
    """A loss from its name or its table."""
    made: Loss = build("loss", {"name": table} if isinstance(table, str) else table, path)
    return made


def loss_table(table: Any) -> dict[str, Any]:
    """The complete table of a loss: the same whether a name or a table was given."""
    return describe(make_loss(table))


@njit(cache=True, nogil=True)
def slope_at(code, number, z):
    """L'(z)."""
    if code == HUBER_HINGE:
        return -min(1.0, max(0.0, (1.0 + number - z) / (2.0 * number)))
    chance = 1.0 / (1.0 + math.exp(z))
    if code == CLIPPED_LOGISTIC and chance > number:
        return -number
    return -chance


@njit(cache=True, nogil=True)
def curvature_at(code, number, z):
    """L''(z); at a kink the value from the right."""
    if code == HUBER_HINGE:
        return 0.5 / number if abs(1.0 - z) <= number else 0.0
    chance = 1.0 / (1.0 + math.exp(z))
    if code == CLIPPED_LOGISTIC and chance > number:
        return 0.0
    return chance * (1.0 - chance)


@njit(cache=True, nogil=True)
def loss_at(code, number, z):
    """L(z)."""
    if code == HUBER_HINGE:
        if z > 1.0 + number:
            return 0.0
        return 1.0 - z if z < 1.0 - number else (1.0 + number - z) ** 2 / (4.0 * number)
    if code == CLIPPED_LOGISTIC and number < 1.0:
        turn = math.log((1.0 - number) / number)
        if z < turn:
            return -math.log1p(-number) + number * (turn - z)
    return math.log1p(math.exp(-abs(z))) + max(-z, 0.0)
