"""Privacy losses as they are: the law of log P/P' under P, point by point, and what independent ones cost together.

Where a release is not linear in its draws (coins, a choice, noise in an objective) its two laws are written down and
their losses added up on a fine grid, by no formula that anything was calibrated with.

>>> from scipy.stats import norm
>>> round(epsilon_at([gaussian_loss(1.0)], norm.cdf(-0.5) - math.e * norm.cdf(-1.5)), 2)
1.0
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.signal import fftconvolve
from scipy.special import expit
from scipy.stats import binom, laplace, norm

from fairveil.arrays import Floats, Ints
from fairveil.classify.perturbation import Perturbation
from fairveil.proof.laws import ThoughtOf

Loss = tuple[Floats, Floats]
"""Losses and the chance of each."""
POINTS = 2**15
"""Points of the grid on which losses are added up."""
REACH = 9.0
"""Standard deviations to each side that a law is written down for: what lies beyond is below 1e-18."""
BY_WIDTH = {1: 4001, 2: 91, 3: 21}
"""Points a coordinate of the noise in an objective."""


def gaussian_loss(mu: float) -> Loss:
    """The loss of mu-GDP."""
    at = np.linspace(-REACH, REACH, 8001)
    return mu * at + mu * mu / 2, norm.pdf(at) / norm.pdf(at).sum()


def binomial_loss(coins: int, shift: int) -> Loss:
    """Heads of so many fair coins, moved by ``shift``."""
    reach = int(min(coins / 2, REACH * math.sqrt(coins) / 2 + 2))
    at = np.arange(coins // 2 - reach, coins // 2 + reach + 1)
    here = binom.logpmf(at, coins, 0.5)
    return here - binom.logpmf(at - shift, coins, 0.5), np.exp(here)


def choice_loss(first: Floats, second: Floats) -> Loss:
    """A choice with these chances in two worlds."""
    with np.errstate(divide="ignore"):
        return np.log(first) - np.log(second), first


def stopping_cost(one: Floats, other: Floats, stops: bool) -> float:
    """Queries without noise, from the threshold and in numbers of their level: what the answers of an above-threshold
    test cost that says "no" to all of them, or to all but the last. One draw of the threshold meets all queries, so
    their chances are added up over it."""
    at = np.linspace(-40.0, 40.0, 20_001)

    def chance(queries: Floats) -> float:
        over = laplace.sf(at[:, None] - queries)
        over[:, -1] = 1 - over[:, -1] if stops else over[:, -1]
        return float((laplace.pdf(at) * (1 - over).prod(axis=1)).sum())

    return abs(math.log(chance(one) / chance(other)))


def epsilon_at(parts: Sequence[Loss], delta: float) -> float:
    """The least epsilon at which independent losses together keep this delta; a grid that keeps the means."""
    if not all(np.isfinite(values).any() for values, _ in parts):
        return math.inf
    spread = sum(float(np.ptp(values[np.isfinite(values)])) for values, _ in parts)
    step, kept = max(spread, 1e-9) / POINTS, 1.0
    total, low = np.ones(1), 0.0
    for values, chances in parts:
        finite = np.isfinite(values)
        kept *= float(chances[finite].sum())
        start = float(values[finite].min())
        at = (values[finite] - start) / step
        below = np.floor(at).astype(np.int64)
        size = int(below.max()) + 2
        made = np.bincount(below, chances[finite] * (1 - (at - below)), size)
        made += np.bincount(below + 1, chances[finite] * (at - below), size)
        total, low = np.maximum(fftconvolve(total, made), 0.0), low + start
    losses = low + step * np.arange(len(total))

    def beyond(epsilon: float) -> float:
        above = losses > epsilon
        return float((total[above] * -np.expm1(epsilon - losses[above])).sum()) + 1 - kept

    least, most = 0.0, max(float(losses[-1]), 0.0)
    if beyond(most) > delta:
        return math.inf
    for _ in range(50):
        middle = (least + most) / 2
        least, most = (least, middle) if beyond(middle) <= delta else (middle, most)
    return most


# Noise in the objective of a fit --------------------------------------------------------------------------------------


class Given(ThoughtOf):
    """Hands out draws that were thought of before, in numbers of the level; the last noise of a fit is nothing."""

    __slots__ = ("draws", "scale")

    def __init__(self, draws: Floats) -> None:
        self.draws, self.scale = draws, 0.0

    def drawn(self, levels: Floats) -> Ints:
        if self.scale > 0.0:
            return np.zeros(levels.size, np.int64)
        self.scale = float(levels[0])
        return np.rint(self.draws.ravel() * self.scale).astype(np.int64)


def objective_loss(made: Perturbation, one: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> Loss:
    """The loss of weights that are fitted with noise in the objective, by the law of that noise, last noise included.

    The served fit is asked for its weights at every point of the noise. In the other world another noise gives the same
    weights: that of this world and the gradient that the rows differ by. The fit of that world is asked whether it
    does; how far it is off is what the last noise hides.
    """
    width, gaussian = one[0].shape[1], made.definition == "gaussian"
    side = np.linspace(-REACH, REACH, BY_WIDTH[width]) * (1 if gaussian else 4)
    draws = np.stack([axis.ravel() for axis in np.meshgrid(*[side] * width, indexing="ij")], axis=1)
    noise, scale = Given(draws), made._main_scale(width)
    weights = made.release(*one, noise, copies=len(draws))
    drawn = np.rint(draws * noise.scale) / noise.scale * scale
    moved = drawn + _gradient(weights, *one) - _gradient(weights, *other)
    found = made.release(*other, Given(moved / scale), copies=len(draws))
    far = 2 * math.sqrt(width) * (made.tolerance + math.sqrt(width) * scale / noise.scale) / made.strength
    if np.abs(found - weights).sum(axis=1).max() > 1.01 * far:
        return np.full(1, math.inf), np.ones(1)  # no noise of the other world gives these weights
    less, more = (
        np.square(at / scale).sum(axis=1) / 2 if gaussian else np.abs(at / scale).sum(axis=1) for at in (drawn, moved)
    )
    turned = _determinant(weights, *one, made.strength) - _determinant(weights, *other, made.strength)
    chances = np.exp(less.min() - less)
    return more - less + turned + made.tail_epsilon, chances / chances.sum()


def _gradient(weights: Floats, rows: Floats, signs: Floats) -> Floats:
    """Of the sum of losses, at many weights."""
    found: Floats = (-signs * expit(-signs * (weights @ rows.T))) @ rows
    return found


def _determinant(weights: Floats, rows: Floats, signs: Floats, strength: float) -> Floats:
    """The logarithm of that of the curvature, at many weights."""
    at = expit(weights @ rows.T)
    curved = np.einsum("pi,ij,ik->pjk", at * (1 - at), rows, rows, optimize=True)
    found: Any = np.linalg.slogdet(curved + strength * np.eye(rows.shape[1]))[1]
    return np.asarray(found, np.float64)
