"""How a budget is divided among the steps of a stream: public numbers c_0, c_1, ... and the total a person can meet.

Release t may use the share c_t/total: of mu^2 with Gaussian noise, of epsilon with Laplace noise. ``total`` is the
largest sum of c_t over the steps that one unit (a person's sequence, a window, an event) can touch, so the loss of that
unit never exceeds the budget, for ever where the sum is infinite but converges.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import zeta

from fairveil.arrays import Floats
from fairveil.errors import SpecError


@dataclass(frozen=True)
class Shares:
    """Shares of one stream; ``first`` is the share of release 0 in all (0: as the others)."""

    kind: str
    total: float
    ratio: float = 0.0
    power: float = 0.0
    offset: float = 0.0
    first: float = 0.0
    weights: tuple[float, ...] = ()

    def at(self, start: int, count: int) -> Floats:
        """c_start, ..., c_(start + count - 1)."""
        index = np.arange(start, start + count, dtype=np.float64)
        if self.kind == "geometric":
            return self.ratio**index
        if self.kind == "power":
            return (index + 1 + self.offset) ** -self.power
        if self.kind == "weights":
            return self._weights(start, count) ** 2
        made = np.ones(count)
        if self.first > 0 and start == 0 and count > 0:
            made[0] = self.first_size
        return made

    def runs(self, start: int, count: int) -> list[tuple[int, float]]:
        """The same as lengths of equal shares, where they are equal; a stretch is (how many, c)."""
        if self.kind == "even" or (len(self.weights) == 1 and self.ratio == 0):
            own = 2 if self.kind == "weights" else 1 if self.first > 0 else 0
            head = self.at(start, min(count, max(0, own - start))).tolist()
            rest = [(count - len(head), self.weights[0] ** 2 if self.weights else 1.0)] if count > len(head) else []
            return [*((1, share) for share in head), *rest]
        made = self.at(start, count)
        edges = [0, *(np.flatnonzero(np.diff(made) != 0) + 1).tolist(), count]
        return [(last - first, float(made[first])) for first, last in pairwise(edges) if last > first]

    def _weights(self, start: int, count: int) -> Floats:
        if len(self.weights) > 1:
            made = np.asarray(self.weights[start : start + count], np.float64)
        else:
            made = np.full(count, self.weights[0])
            if self.ratio > 0:
                made *= self.ratio ** np.maximum(np.arange(start, start + count) - 2.0, 0.0)
        made[: max(0, 2 - start)] = 1.0  # the first two steps show the plain release
        return made

    @property
    def first_size(self) -> float:
        """c_0 where release 0 has a share of its own; the other releases have 1."""
        return self.first * self.total


def even(steps: float, first: float = 0.0) -> Shares:
    """The same for every release; with ``first`` that share of the whole for release 0.

    >>> shares = even(101, first=0.01)
    >>> round(float(shares.at(0, 101).sum()) / shares.total, 12)
    1.0
    """
    return Shares("even", steps) if first == 0 else Shares("even", (steps - 1) / (1 - first), first=first)


def weighted(
    weights: tuple[float, ...], steps: int | None, touched: int | None, near: bool, ratio: float = 0.0
) -> Shares:
    """Shares w_t^2 of Algorithm 4, the first two with weight 1; ``near``: a unit touches successive steps only.

    With a ``ratio`` weights fall geometrically from the third step on, and a unit may touch every step for ever.

    >>> round(weighted((0.1,), 100, 100, False).total, 12)
    2.98
    >>> round(weighted((0.6,), None, None, False, ratio=0.8).total, 9)              # 2 + .36/(1 - .64)
    3.0
    """
    if ratio > 0:
        rest = math.inf if touched is None else max(touched - 2, 0)
        falling = weights[0] ** 2 * (1 - ratio ** (2 * rest)) / (1 - ratio**2)
        total = (2 if touched is None else min(touched, 2)) + falling * (1 + 1e-12)
        return Shares("weights", total, ratio=ratio, weights=weights)
    assert touched is not None
    if len(weights) == 1:
        largest = min(touched, 2) + max(touched - 2, 0) * weights[0] ** 2
        return Shares("weights", largest, weights=weights)
    squares = np.asarray(weights, np.float64)[:steps] ** 2
    squares[:2] = 1.0
    if near:
        sums = np.convolve(squares, np.ones(min(touched, len(squares))), mode="valid")
        return Shares("weights", float(sums.max()) * (1 + 1e-12), weights=weights)
    return Shares("weights", float(np.sort(squares)[-touched:].sum()), weights=weights)


def scheduled(schedule: str | Mapping[str, Any], touched: int | None) -> Shares | None:
    """Shares of a falling schedule, None for ``even``; ``touched`` None: a unit may touch every step for ever.

    >>> round(scheduled({"kind": "geometric", "ratio": 0.5}, None).total, 9)
    2.0
    """
    table = {"kind": schedule} if isinstance(schedule, str) else dict(schedule)
    kind = table.pop("kind", None)
    if kind == "even" and not table:
        return None
    if kind == "geometric":
        ratio = _number(table, "ratio", 0.999, 0.0, 1.0)
        gone = 0.0 if touched is None else ratio**touched
        return _complete(Shares("geometric", (1 - gone) / (1 - ratio) * (1 + 1e-12), ratio=ratio), table)
    if kind == "power":
        power = _number(table, "power", 1.1, 1.0, 100.0)
        offset = _number(table, "offset", 0.0, -1e-9, 1e12)
        rest = 0.0 if touched is None else float(zeta(power, 1 + offset + touched))
        total = (float(zeta(power, 1 + offset)) - rest) * (1 + 1e-12)
        return _complete(Shares("power", total, power=power, offset=offset), table)
    raise SpecError("this schedule is not known", path="schedule.kind", given=kind, allowed="even, geometric, power")


def _number(table: dict[str, Any], name: str, default: float, above: float, below: float) -> float:
    value = table.pop(name, default)
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not above < value < below:
        raise SpecError(
            "a schedule needs numbers in their range",
            path=f"schedule.{name}",
            given=value,
            allowed=f"above {max(above, 0.0):g}, below {below:g}",
        )
    return float(value)


def _complete(shares: Shares, left: dict[str, Any]) -> Shares:
    if left:
        raise SpecError("this key is not known", path=f"schedule.{next(iter(left))}", fix="leave it out")
    return shares
