"""Exact cost in every configuration: what the worst unit costs in all that is published, computed and not estimated.

Audits look at one sample of a thing. Here each is built in every unit, with each number of steps that a person takes
part in, each first share, offset, memory, lag, range and kind of neighbours that it has, and the worst change is
written in the draws of the served methods (`fairveil.proof.laws.sums.cost_of`).

>>> from fairveil.streams.releasers.baseline_gaussian import BaselineGaussian
>>> found = list(releaser_costs(BaselineGaussian.example()))
>>> len(found) >= 20, all(cost <= claim * (1 + SLACK) for _, cost, claim in found)
(True, True)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from fairveil import registry
from fairveil.arrays import Floats
from fairveil.configuration import describe
from fairveil.errors import SpecError
from fairveil.privacy.noise import Noise, ZeroNoise
from fairveil.proof.laws.sums import draw_effects, priced, promised
from fairveil.streams.protocol import Releaser
from fairveil.streams.releasers.budget_absorption import Publishing

STEPS = 6
UNITS: tuple[dict[str, Any], ...] = (
    {"unit": "sequence", "horizon": STEPS},
    {"unit": "sequence", "horizon": STEPS, "participation": 2},
    {"unit": "window", "window": 3, "horizon": None},
    {"unit": "event", "horizon": None},
    {"unit": "event", "horizon": STEPS},
)
FORMS: tuple[dict[str, Any], ...] = (
    {},
    {"neighbours": "add-remove"},
    {"neighbours": "add-remove", "starts": 2},
    {"range": [-1.0, 3.0]},
    {"sensitivity": 2.5},
    {"first": 0.3},
    {"first": 1e-4},
    {"lag": 2},
    {"memory": 0.5},
    {"seasons": [3]},
    {"trend": False},
    {"nonnegative": True, "round": True},
    {"frequencies": 2},
)
Costs = Iterator[tuple[str, float, float]]


def built(releaser: Releaser) -> Iterator[tuple[str, Releaser]]:
    """The releaser in every unit and form that it has; what it refuses is no configuration of it."""
    table, seen = describe(releaser), set[str]()
    for unit, form in itertools.product(UNITS, FORMS):
        if not set(form) <= set(table):
            continue
        words = ", ".join(f"{key} {value}" for key, value in (unit | form).items() if value is not None)
        try:
            made: Releaser = registry.build("releaser", {**table, "participation": None, **unit, **form}, "releaser")
        except SpecError:
            continue
        if made.guarantee().established and words not in seen:
            seen.add(words)
            yield words, made


def touched(releaser: Any) -> Iterator[tuple[int, ...]]:
    """Every set of steps that one unit may be in."""
    if releaser.unit == "event":
        yield from ((step,) for step in range(STEPS))
    elif releaser.unit == "window":
        yield from (tuple(range(first, first + releaser.window)) for first in range(STEPS - releaser.window + 1))
    else:
        yield from itertools.combinations(range(STEPS), min(releaser.participation or STEPS, STEPS))


def releaser_costs(releaser: Releaser) -> Costs:
    """What the worst unit costs a releaser that is linear in its draws, and what is promised, by configuration.

    A releaser that decides by noisy distances whether to publish is not: `budgets_fit_the_window` adds up its draws.
    """
    if isinstance(releaser, Publishing):
        return
    for words, made in built(releaser):
        low, high = made.range or (0.0, made.sensitivity)
        base, effects = draw_effects(partial(published, made, np.full(STEPS, low)))
        worst = 0.0
        for steps in touched(made):
            values = np.full(STEPS, low)
            values[list(steps)] = high
            change = base - published(made, values, ZeroNoise())
            worst = max(worst, priced(effects, change, made.guarantee().definition == "pure"))
        yield words, worst, promised(made)


def published(releaser: Releaser, values: Floats, noise: Noise) -> Floats:
    """The plain releases of a stream, which everything that is shown is computed from."""
    state, track = releaser.run(releaser.start(), values.tolist(), noise)
    if releaser.real_time:
        return np.where(track.drawn == 1, track.units, 0).astype(np.float64)
    return np.array([row.plain for row in releaser.finish(state)], np.float64)
