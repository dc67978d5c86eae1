"""The uniform phase of GDP-NCB in compiled code: timed, with a sound noisy threshold, or with fresh printed tests."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from fairveil.bandits.environments.laws import BERNOULLI, UNIT, Laws, draw
from fairveil.bandits.nash.blocks import Published

TIMED, ABOVE, FRESH = range(3)


class Exploration(NamedTuple):
    """How the phase ends: after ``limit`` rounds, or when a noisy sum reaches ``tau`` (grid steps) before that."""

    kind: int
    limit: int
    tau: int
    success: float


@njit(cache=True, nogil=True)
def explore_uniformly(rule: Exploration, known: Published, raw, laws: Laws, sources, release, rounds, pulls):  # type: ignore[no-untyped-def]
    """Play the phase for at most ``rounds`` rounds; returns rounds, tests made, and whether the phase is over.

    ``release``: (publish every noisy test, parameter of the noise on the final sums or 0, counts are noised too). With
    parameter 0 the raw sums stay the base of all later releases, as printed.
    """
    explore, world, noise = sources
    publish_tests, success, count_noise = release
    kind, chance, low, high, rows, _ = laws
    arms = known.counts.size
    threshold, drawn, tests = np.int64(0), False, 0
    now, over = 0, False
    while now < min(rounds, rule.limit) and not over:
        arm = explore.integers(0, arms)
        if kind[arm] == BERNOULLI:
            raw[0, arm] += UNIT if world.random() < chance[arm] else 0
        else:
            raw[0, arm] += np.int64(draw(kind, chance, low, high, rows, arm, now, world) * UNIT)
        raw[1, arm] += 1
        pulls[arm] += 1
        now += 1
        if rule.kind == TIMED:
            continue
        if rule.kind == ABOVE and not drawn:
            threshold = noise.geometric(rule.success) - noise.geometric(rule.success)
            drawn = True
        query = raw[0, arm] + noise.geometric(rule.success) - noise.geometric(rule.success)
        tests += 1
        if publish_tests:
            known.sums[arm], known.counts[arm] = query, raw[1, arm]
            over = query > rule.tau
        else:
            over = query >= rule.tau + threshold
    over = over or now >= rule.limit
    if not over:
        return now, tests, False
    for arm in range(arms):
        if success > 0:
            known.sums[arm] = raw[0, arm] + noise.geometric(success) - noise.geometric(success)
            known.counts[arm] = raw[1, arm]
            if count_noise:
                known.counts[arm] += (noise.geometric(success) - noise.geometric(success)) / UNIT
            known.base_sums[arm], known.base_counts[arm] = known.sums[arm], known.counts[arm]
        else:
            known.counts[arm] = raw[1, arm]
            known.base_sums[arm], known.base_counts[arm] = raw[0, arm], raw[1, arm]
    return now, tests, True
