"""The uniform phase of GDP-NCB in compiled code: timed, with a sound noisy threshold, or with fresh printed tests."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairveil.bandits.environments.laws import BERNOULLI, UNIT, draw
from fairveil.compiling import njit
from fairveil.privacy.noise import compiled_laplace

TIMED, ABOVE, FRESH = range(3)


class Exploration(NamedTuple):
    """How the phase ends: after ``limit`` rounds, or when a noisy sum reaches ``tau`` (grid steps) before that.

    ``scale``: of the noise on a test and on the threshold, in grid steps, and ``success`` the same as the parameter of
    compiled draws; both 0 where nothing is tested.
    """

    kind: int
    limit: int
    tau: int = 0
    scale: float = 0.0
    success: float = 0.0


class Finish(NamedTuple):
    """What is released when the phase ends: noise on every arm's sum (parameter 0: raw sums stay the base of all later
    releases, as printed), on its count too, and whether every noisy test was published on the way.
    """

    success: float
    noisy_counts: bool
    publish_tests: bool


class Gathered(NamedTuple):
    """Raw sums (grid units) and numbers of rewards of every arm in the uniform phase."""

    sums: NDArray[np.int64]
    counts: NDArray[np.int64]


@njit(cache=True, nogil=True)
def explore_uniformly(rule, finish, known, raw, laws, sources, rounds):
    """Play the phase for at most ``rounds`` rounds; returns rounds, tests made, and whether the phase is over."""
    explore, world, noise = sources.explore, sources.world, sources.noise
    kind, chance, low, high, rows, _ = laws
    sums, counts, shown_sums, shown_counts = raw.sums, raw.counts, known.sums, known.counts  # once: rounds read them
    arms = counts.size
    threshold, drawn, tests = 0, False, 0
    now, over = 0, False
    limit = min(rounds, rule.limit)
    while now < limit and not over:
        arm = explore.integers(0, arms)
        if kind[arm] == BERNOULLI:
            sums[arm] += UNIT if world.random() < chance[arm] else 0
        else:
            sums[arm] += np.int64(draw(kind, chance, low, high, rows, arm, now, world) * UNIT)
        counts[arm] += 1
        now += 1
        if rule.kind == TIMED:
            continue
        if rule.kind == ABOVE and not drawn:
            threshold = compiled_laplace(noise, rule.success)
            drawn = True
        query = sums[arm] + compiled_laplace(noise, rule.success)
        tests += 1
        if finish.publish_tests:
            shown_sums[arm], shown_counts[arm] = query, counts[arm]
            over = query > rule.tau
        else:
            over = query >= rule.tau + threshold
    over = over or now >= rule.limit
    if not over:
        return now, tests, False
    for arm in range(arms):
        if finish.success > 0:
            shown_sums[arm] = sums[arm] + compiled_laplace(noise, finish.success)
            shown_counts[arm] = counts[arm]
            if finish.noisy_counts:
                shown_counts[arm] += compiled_laplace(noise, finish.success) / UNIT
            known.base_sums[arm], known.base_counts[arm] = shown_sums[arm], shown_counts[arm]
        else:
            shown_counts[arm] = counts[arm]
            known.base_sums[arm], known.base_counts[arm] = sums[arm], counts[arm]
        known.played[arm] = shown_counts[arm] > 0
    return now, tests, True
