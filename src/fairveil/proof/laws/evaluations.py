"""Laws of private evaluations: their noise is enough in every configuration, and their intervals keep their word.

>>> round(exact_cost(PrivateValue(epsilon=0.5, clip=3.0)), 4)
0.5
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fairveil.arrays import Floats
from fairveil.evaluate.private import PrivateValue
from fairveil.privacy.noise import Noise, ZeroNoise
from fairveil.proof.engine.everything import check_audited
from fairveil.proof.laws import check_laws, must
from fairveil.proof.laws.sums import SLACK, cost_of, promised
from fairveil.proof.pairs.reports import logs
from fairveil.registry import register

GOLDEN = (math.sqrt(5) - 1) / 2
WEIGHTS, OUTCOMES = (0.0, 0.5, 1.0, 3.0, math.inf), (-2.0, 0.0, 0.3, 1 - GOLDEN, 1.0, 7.0)
"""Weights of a row in clips, and outcomes: what a log may hold, and beyond; the golden section is where a second moment
that is scaled by more than 3.33 first costs more than the first one."""
CONFIGURATIONS: tuple[dict[str, Any], ...] = tuple(
    {"epsilon": epsilon, "clip": clip, "delta": delta, "rho": None, "mu": None}
    for epsilon, clip, delta in itertools.product((0.1, 1.0, 5.0), (0.5, 2.0, 50.0), (None, 1e-5))
) + tuple({"epsilon": None, "delta": None, "rho": None, "mu": None} | budget for budget in ({"rho": 0.02}, {"mu": 0.3}))
LEVELS = (0.5, 0.8, 0.95, 0.99)


def exact_cost(value: PrivateValue) -> float:
    """What the worst change of a row costs: mu, or epsilon with Laplace noise.

    All pairs of rows are compared: the one that is furthest apart, and the one that is in each sum alone.
    """
    rows = [(weight * value.clip, outcome) for weight, outcome in itertools.product(WEIGHTS, OUTCOMES)]
    exact = np.array([value.release(*logs(value, *row), ZeroNoise()) for row in rows])
    moved = exact[:, None] - exact[None]
    apart = np.abs(moved).sum(axis=-1) if value.price.laplace else (moved**2).sum(axis=-1)
    worst = [np.unravel_index(int(np.argmax(far)), far.shape) for far in (apart, *np.moveaxis(np.abs(moved), -1, 0))]

    def cost(pair: tuple[Any, ...]) -> float:
        def shown(world: int, noise: Noise) -> Floats:
            return value.release(*logs(value, *rows[pair[world]]), noise)

        return cost_of(shown, value.price.laplace)

    return max(cost(pair) for pair in worst)


def noise_is_enough(value: PrivateValue) -> None:
    """No change of a row costs more than is promised, with any budget and clip."""
    for keys in ({}, *CONFIGURATIONS):
        one = replace(value, **keys)
        must(exact_cost(one) <= promised(one) * (1 + SLACK), "the worst row costs more than is promised")


def rows_enter_by_themselves(value: PrivateValue) -> None:
    """What a row adds is the same whatever the other rows hold, for a row at its clip and for one far below it."""
    for own in ((value.clip, 0.5), (0.25 * value.clip, 1.0)):
        adds = []
        for weight, outcome in itertools.product(WEIGHTS, OUTCOMES):
            others, results = np.array([weight * value.clip, own[0]]), np.array([outcome, own[1]])
            whole = value.release(others, results, ZeroNoise())
            adds.append(whole - value.release(others[:1], results[:1], ZeroNoise()))
        must(np.allclose(adds, adds[0], rtol=0, atol=1e-9), "what a row counts for depends on another", "a public clip")


def clipping_is_said(value: PrivateValue) -> None:
    """A rule whose rows are clipped has an interval that holds its value, and a note.

    Reduced from a clip of 2.185 where weights reach 4: value .2185, truth .4, covered 0 times of 200, in silence.
    """
    rows, largest = 40_000, 4.0
    weights = np.where(np.arange(rows) % 4 == 0, largest, 0.0)
    outcomes = (np.arange(rows) // 4 % 10 < 4).astype(float)
    for known in (largest, None):
        one = replace(value, clip=2.185, largest_weight=known)
        found = one.estimate(one.release(weights, outcomes, ZeroNoise()), rows, 0.95)
        must(found.low <= 0.4 <= found.high, "an interval leaves out what clipping hides")
        must(any("may be wrong" in note for note in one.guarantee().notes), "clipped rows are in no note")
    whole = replace(value, clip=largest, largest_weight=largest)
    must(
        not any("may be wrong" in note for note in whole.guarantee().notes),
        "a note on clipping where nothing is clipped",
    )


def levels_are_kept(value: PrivateValue) -> None:
    """Where noise is all there is, the half width is the quantile of its law at the level that was asked for."""
    rows, one = 10, replace(value, largest_weight=value.clip)
    for level in LEVELS:
        found = one.estimate(np.zeros(2), rows, level)
        still = one.estimate(np.array([0.0, -1e12]), rows, level)  # no second moment, so no sampling error
        half = (still.high - still.low) / 2 / one.clip * rows / one.mechanism.std
        must(found.high >= still.high, "a second moment makes an interval narrower")
        laplace = math.log(1 / (1 - level)) / math.sqrt(2)
        normal = {0.5: 0.67449, 0.8: 1.28155, 0.95: 1.95996, 0.99: 2.57583}[level]
        wanted = laplace if one.price.laplace else normal
        must(abs(half / wanted - 1) < 1e-4, "an interval has another level than was asked for")


def audited(value: PrivateValue) -> None:
    """It has pairs of worlds that call its served methods, and mutants."""
    check_audited("evaluation", value)


LAWS: dict[str, Callable[[PrivateValue], None]] = {
    law.__name__: law for law in (noise_is_enough, rows_enter_by_themselves, clipping_is_said, levels_are_kept, audited)
}


@register("laws", "evaluation")
def check_evaluation(value: PrivateValue) -> list[str]:
    """Run every law; returns their names, raises ContractError at the first that is broken."""
    return check_laws(LAWS, value)
