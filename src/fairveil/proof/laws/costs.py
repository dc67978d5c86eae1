"""Exact cost in every configuration: what the worst unit costs in all that is published, computed and not estimated.

Audits look at one sample of a thing. Here each is built in every unit, with each number of steps that a person takes
part in, each first share, offset, memory, lag, range and kind of neighbours that it has, and the worst change is
written in the draws of the served methods (`fairveil.proof.laws.sums.cost_of`).

>>> from fairveil.proof.laws.sums import SLACK
>>> from fairveil.streams.releasers.baseline_gaussian import BaselineGaussian
>>> found = list(releaser_costs(BaselineGaussian.example()))
>>> len(found) >= 20, all(cost <= claim * (1 + SLACK) for _, cost, claim in found)
(True, True)
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fairveil import registry
from fairveil.arrays import Floats
from fairveil.classify.learners import PrivateLogistic
from fairveil.configuration import describe
from fairveil.consensus.algorithm import Setting
from fairveil.consensus.graphs import make_graph
from fairveil.consensus.private_admm import PrivateAdmm
from fairveil.consensus.rows import Rows
from fairveil.errors import SpecError
from fairveil.privacy.noise import Noise, ZeroNoise
from fairveil.proof.laws.sums import draw_effects, priced, promised
from fairveil.randomness import generator
from fairveil.streams.protocol import Releaser
from fairveil.streams.releasers.budget_absorption import Publishing

WHERE = {
    "sum": "noise_is_enough",
    "releaser": "exact cost",
    "learner": "exact_cost",
    "algorithm": "exact_cost",
    "evaluation": "noise_is_enough",
    "report": "noise_is_enough",
}
"""The law of each kind that computes exact costs."""
BESIDE = {
    "mechanism": "one draw for one number: the claim of its event",
    "policy": "record and replay of the loop that serves it, and audits of its blocks",
    "adapter": "draws nothing; its paths are recorded and replayed",
}
"""Kinds without such a law, and what stands in its place."""
STEPS = 6
SETTING = Setting(make_graph("star", 2), (20, 20), 2, 1, 2)
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


def built(releaser: Releaser) -> Iterator[tuple[str, Any]]:
    """The releaser in every unit and form that it has; what it refuses is no configuration of it."""
    table, seen = describe(releaser), set[str]()
    for unit, form in itertools.product(UNITS, FORMS):
        if not set(form) <= set(table):
            continue
        words = ", ".join(f"{key} {value}" for key, value in (unit | form).items() if value is not None)
        try:
            made: Any = registry.build("releaser", {**table, "participation": None, **unit, **form}, "releaser")
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

    A releaser that decides by noisy distances whether to publish is not: `budgets_fit_the_window` adds up its draws;
    sums of coins have a plan of their own, whose claim is proven with it.
    """
    if isinstance(releaser, Publishing) or getattr(releaser, "law", "") == "binomial":
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


# Learners and algorithms ----------------------------------------------------------------------------------------------

ROWS = 24
KINDS_OF_FITS: tuple[dict[str, Any], ...] = (
    {},
    {"retrainings": 3},
    {"norm_bound": 2.0},
    {"neighbours": "zero-out-row"},
)
FITS: tuple[dict[str, Any], ...] = tuple(
    {"method": "output", "definition": definition, "intercept": intercept, **more}
    for definition in ("pure", "gaussian")
    for intercept in (True, False)
    for more in KINDS_OF_FITS
)
ROUNDS: tuple[dict[str, Any], ...] = tuple(
    {"definition": definition, "rounds": rounds, "share": share, "slope": slope}
    for definition, rounds, share, slope in itertools.product(("pure", "gaussian"), (1, 9), (0.1, 0.5), (0.3, 1.0))
)


def people(changed: tuple[float, float, int] | None = None) -> tuple[Floats, Any]:
    """Rows on a circle and their labels; the first may be another."""
    at = np.arange(ROWS)
    rows, labels = np.stack([np.cos(at), np.sin(2 * at)], axis=1), at % 2
    if changed is not None:
        rows[0], labels[0] = changed[:2], changed[2]
    return rows, labels


WORST: tuple[tuple[float, float, int], ...] = tuple(
    (9 * x, 9 * y, label) for x, y, label in itertools.product((-1.0, 0.0, 1.0), (-1.0, 0.0, 1.0), (0, 1))
)


def learner_costs(learner: Any) -> Costs:
    """A fit whose weights are published with noise: weights of every other first row, in every definition and form.

    Noise in the objective is not linear; its audits and `draws_fit_the_budget` hold it.
    """
    if not isinstance(learner, PrivateLogistic):
        return
    for keys in FITS:
        one, words = replace(learner, **keys), ", ".join(f"{key} {value}" for key, value in keys.items())

        def shown(noise: Noise, changed: Any = None, one: Any = one) -> Floats:
            model = one.estimator(noise, generator(1))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(*people(changed))
            return np.concatenate([model.coef_.ravel(), model.intercept_.ravel() if one.intercept else []])

        base, effects = draw_effects(shown)
        others = [base - shown(ZeroNoise(), changed) for changed in WORST]
        pure = one.guarantee().definition == "pure"
        yield words, max(priced(effects, other, pure) for other in others), promised(one)


def algorithm_costs(algorithm: Any) -> Costs:
    """The first message of a node, which holds two sums: every other first row, in every definition and plan."""
    if not isinstance(algorithm, PrivateAdmm):
        return
    for keys in ROUNDS:
        full = replace(algorithm, **keys).complete(SETTING)
        plan, words = full.plan(SETTING), ", ".join(f"{key} {value}" for key, value in keys.items())

        def shown(noise: Noise, changed: Any = None, full: Any = full) -> Floats:
            rows, labels = people(changed)
            held = Rows.dense(
                rows[:20] / np.maximum(1.0, np.linalg.norm(rows[:20], axis=1))[:, None], 2.0 * labels[:20] - 1
            )
            sent = full.local(SETTING, 0).draw(1, held, noise)
            return np.concatenate([np.asarray(sent[name], np.float64).ravel() for name in sorted(sent)])

        base, effects = draw_effects(shown)
        pure = plan.definition == "pure"
        worst = max(priced(effects, base - shown(ZeroNoise(), changed), pure) for changed in WORST)
        yield words, worst, plan.curvature_part * (2 if pure else math.sqrt(2))
