"""Randomised response among k categories, with exact coins."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, Strict

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.errors import InputError
from fairveil.fields import Epsilon, described
from fairveil.privacy.grid import COINS, exp_below
from fairveil.privacy.mechanisms.base import LOCAL, PureMechanism
from fairveil.privacy.noise import Noise
from fairveil.registry import register


@register("mechanism", "randomized-response")
@configuration
class RandomizedResponse(PureMechanism):
    """Report a category truthfully with probability e^eps/(e^eps + k - 1), else one of the others.

    Guarantee: epsilon-DP (pure, local) for any two categories of one person.
    Sensitivity: none is needed; the categories are 0, ..., k - 1 and anything else is refused.
    Proof: the report is decided by one exactly uniform integer below t + (k - 1) o, where t integers mean the truth and
    o integers each of the other categories, and t <= e^epsilon o holds in rational arithmetic: every report has
    likelihood t or o over the same total, whatever the category was.
    Cost: one uniform integer a report; O(1) memory.

    >>> from fairveil.privacy.noise import SeededNoise
    >>> mechanism = RandomizedResponse(categories=4, epsilon=2.0)
    >>> reports = mechanism.report(np.full(100_000, 2), SeededNoise(1))
    >>> bool(abs((reports == 2).mean() - mechanism.truth) < 0.01)
    True

    Reference: Warner 1965; Kairouz, Bonawitz and Ramage 2016.
    """

    facts: ClassVar[dict[str, Any]] = {**LOCAL, "unit": "one person's category"}
    categories: Annotated[int, Strict(), Field(ge=2, le=10**9)] = described("number of possible answers", example=2)
    epsilon: Epsilon = described("budget of one report", example=1.0)

    @cached_property
    def weights(self) -> tuple[int, int]:
        """Integers (truth, each other category) whose ratio is at most e^epsilon."""
        odds = exp_below(min(self.epsilon, 43.0))
        other = max(1, math.floor(COINS / 2 / (odds + self.categories - 1)))
        truth = min(math.floor(other * odds), COINS // 2)
        return truth, other

    @property
    def truth(self) -> float:
        """P(report = category)."""
        truth, other = self.weights
        return truth / (truth + (self.categories - 1) * other)

    @property
    def lie(self) -> float:
        """P(report = c) for each other category c."""
        truth, other = self.weights
        return other / (truth + (self.categories - 1) * other)

    def report(self, categories: ArrayLike, noise: Noise) -> Ints:
        """One report for every entry (one person each)."""
        array = np.asarray(categories)
        if array.dtype.kind not in "iu" or ((array < 0) | (array >= self.categories)).any():
            allowed = f"integers in [0, {self.categories})"
            raise InputError("a category does not exist", path="value", given=str(array.dtype), allowed=allowed)
        own = array.ravel().astype(np.int64)
        truth, other = self.weights
        lies = (self.categories - 1) * other
        drawn = noise.uniform_integers(truth + lies, own.size)
        # the truth sits in the middle of the range, so that a draw in the middle (no noise) reports it
        first = lies // 2
        honest = (drawn >= first) & (drawn < first + truth)
        lie = np.where(drawn < first, drawn, drawn - truth) // other
        return np.where(honest, own, lie + (lie >= own)).reshape(array.shape)

    def estimate(self, reports: ArrayLike) -> Floats:
        """Unbiased shares of all categories from many reports."""
        array = np.asarray(reports, np.int64).ravel()
        shares = np.bincount(array, minlength=self.categories) / len(array)
        return (shares - self.lie) / (self.truth - self.lie)

    def releases(self, value: int, noise: Noise, count: int) -> Ints:
        return self.report(np.full(count, value), noise)
