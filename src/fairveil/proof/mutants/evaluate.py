"""Mistakes of private evaluations, planted in `fairveil.evaluate.private`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np

from fairveil.arrays import Floats
from fairveil.evaluate import private
from fairveil.evaluate.estimators import Estimate
from fairveil.evaluate.private import PrivateValue
from fairveil.privacy.grid import to_units
from fairveil.privacy.noise import Noise, ZeroNoise
from fairveil.privacy.vectors import ONE
from fairveil.proof.mutants import Mutant, function, method, rule
from fairveil.proof.mutants.mutant import Change

TAIL = 1.0809
"""What version 0.1.0 made of Laplace noise at every level: its quantile at .95 in normal ones."""


def _releases(change: Callable[[PrivateValue, Floats, Floats], tuple[PrivateValue, Floats, Floats]]) -> Change:
    """The served release of another configuration, or of another log."""

    def changed(original: Any) -> Any:
        def broken(self: PrivateValue, weights: Floats, outcomes: Floats, noise: Noise, count: int) -> Any:
            return original(*change(self, weights, outcomes), noise, count)

        return broken

    return changed


def _data_clip(value: PrivateValue, weights: Floats, outcomes: Floats) -> tuple[PrivateValue, Floats, Floats]:
    return replace(value, clip=max(float(weights[np.isfinite(weights)].max(initial=0.0)), 1e-6)), weights, outcomes


def no_clip(value: PrivateValue) -> AbstractContextManager[None]:
    """Weights count as they are."""

    def change(original: Any) -> Any:
        def broken(self: PrivateValue, weights: Floats, outcomes: Floats, noise: Noise, count: int) -> Any:
            share = np.minimum(weights, 1e6) / self.clip * (outcomes - 0.5)
            return self.mechanism.releases(to_units([share.sum(), (share**2).sum()]), noise, count)

        return broken

    return method(type(value), "releases", change)


def one_sum(value: PrivateValue) -> AbstractContextManager[None]:
    """Half of the budget's noise for each of the two sums: each alone would be covered by it."""

    def change(original: Any) -> Any:
        def broken(self: PrivateValue, weights: Floats, outcomes: Floats, noise: Noise, count: int) -> Any:
            half = replace(self.mechanism, l1=ONE // 2, square=ONE**2 // 2)
            return half.releases(self.units(weights, outcomes), noise, count)

        return broken

    return method(type(value), "releases", change)


def shown_square(value: PrivateValue) -> AbstractContextManager[None]:
    """The second moment goes out without noise: it is only for the interval."""

    def change(original: Any) -> Any:
        def broken(self: PrivateValue, weights: Floats, outcomes: Floats, noise: Noise, count: int) -> Any:
            shown = original(self, weights, outcomes, noise, count)
            shown[:, 1] = original(self, weights, outcomes, ZeroNoise(), 1)[0, 1]
            return shown

        return broken

    return method(type(value), "releases", change)


def silent_clip(value: PrivateValue) -> AbstractContextManager[None]:
    """An interval as if no row were clipped."""

    def change(original: Any) -> Any:
        def broken(self: PrivateValue, *given: Any) -> Estimate:
            found: Estimate = original(replace(self, largest_weight=self.clip), *given)
            return found

        return broken

    return method(type(value), "estimate", change)


def uncentred(value: PrivateValue) -> AbstractContextManager[None]:
    """Rewards as they are, with the noise that centred ones need."""

    def change(original: Any) -> Any:
        def broken(self: PrivateValue, weights: Floats, outcomes: Floats) -> Any:
            share = to_units(np.clip(np.minimum(weights, self.clip) / self.clip * np.clip(outcomes, 0, 1), 0, 1))
            return np.array([share.sum(), (share * share // ONE).sum()], np.int64)

        return broken

    return method(type(value), "units", change)


def large_square(value: PrivateValue) -> AbstractContextManager[None]:
    """The second moment is scaled beyond what costs nothing."""

    def change(original: Any) -> Any:
        def broken(self: PrivateValue, weights: Floats, outcomes: Floats) -> Any:
            exact = original(self, weights, outcomes)
            return exact * np.array([1, 4 if not self.price.laplace else 2])

        return broken

    return method(type(value), "units", change)


def _tail_of_95(sampling: float, noise: float, level: float) -> float:
    return private.with_gaussian(sampling, TAIL * noise, level)


@rule
def evaluation_mutants(kind: str, thing: Any) -> list[Mutant]:
    """What applies to every private evaluation by clipped weights."""
    if kind != "evaluation" or not isinstance(thing, PrivateValue):
        return []
    data_clip = _releases(_data_clip)
    return [
        Mutant("no-clip", "weights that count as they are", no_clip),
        Mutant("data-clip", "the largest weight of the log for a public clip",
               lambda value: method(type(value), "releases", data_clip), by_law=True),
        Mutant("one-sum-paid", "noise for one of the two sums", one_sum, by_law=True),
        Mutant("shown-square", "a second moment without noise", shown_square, by_law=True),
        Mutant("uncentred", "uncentred rewards with the noise of centred ones", uncentred, by_law=True),
        Mutant("large-square", "a second moment scaled beyond what it costs nothing at", large_square, by_law=True),
        Mutant("silent-clip", "an interval that leaves out what clipping hides", silent_clip, by_law=True),
        Mutant("tail-of-95", "the tail of one level at every level",
               lambda value: function(private.with_laplace, _tail_of_95), by_law=True),
    ]  # fmt: skip
