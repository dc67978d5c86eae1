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
from fairveil.arrays import Floats, Ints
from fairveil.classify.learners import PrivateLogistic
from fairveil.configuration import describe
from fairveil.errors import SpecError
from fairveil.privacy.noise import Noise, ZeroNoise
from fairveil.proof.laws import Costs, in_words
from fairveil.proof.laws.fits import fit_costs
from fairveil.proof.laws.losses import binomial_loss, epsilon_at
from fairveil.proof.laws.sums import prices, promised
from fairveil.randomness import generator
from fairveil.streams.protocol import SEEN, Releaser
from fairveil.streams.releasers.budget_absorption import Publishing
from fairveil.streams.releasers.plain_release import PlainReleaser

WHERE = {
    "sum": "noise_is_enough",
    "releaser": "exact cost",
    "learner": "exact_cost",
    "algorithm": "exact_cost",
    "evaluation": "noise_is_enough",
    "report": "noise_is_enough",
    "policy": "exact_cost",
}
"""The law of each kind that computes exact costs."""
BESIDE = {
    "mechanism": "the exact law of its output, in tests/privacy/mechanisms",
    "adapter": "draws nothing; its paths are recorded and replayed",
}
"""Kinds without such a law, and what stands in its place."""
NO_EXACT_COST = {
    "sums secure": "masks hide the parts computationally, not by a loss; the sum that is opened is priced",
    "local_raw": "own decisions read raw rows, which its neighbours take as fixed; its messages are priced",
}
"""Configurations without one number, and why; what holds them instead."""
STEPS = 6
FAR = 2**50
"""A draw beyond every threshold."""
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
    {"smallest": 0.1},
    {"law": "discrete-gaussian"},
    {"law": "laplace", "delta": None},
    {"law": "binomial"},
    {"law": "binomial", "sensitivity": 3.0, "epsilon": 3.0},
)


def built(releaser: Releaser) -> Iterator[tuple[str, Any]]:
    """The releaser in every unit and form that it has; what it refuses is no configuration of it."""
    table, seen = describe(releaser), set[str]()
    for unit, form in itertools.product(UNITS, FORMS):
        if not set(form) <= set(table):
            continue
        words = in_words(unit | form)
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
    """What the worst unit costs a releaser, and what is promised, by configuration.

    Releases that are linear in their draws are priced by them; coins by the losses of their law, added up on a grid;
    a releaser that decides by noisy distances whether to publish by the dearest of all that it may decide.
    """
    for words, made in built(releaser):
        if isinstance(made, Publishing):
            yield words, dearest_decisions(made), promised(made)
        elif isinstance(made, PlainReleaser) and made.law == "binomial":
            yield words, coins_cost(made), float(made.epsilon or 0.0)
        else:
            yield words, linear_cost(made), promised(made)


def linear_cost(made: Any) -> float:
    low, high = made.range or (0.0, made.sensitivity)
    still = np.full(STEPS, low)
    others = [published(made, met(still, steps, high), ZeroNoise()) for steps in touched(made)]
    return max(prices(partial(published, made, still), others, made.guarantee().definition == "pure"))


def met(still: Floats, steps: tuple[int, ...], value: float) -> Floats:
    """A stream with the steps that a unit is in at another value."""
    values = still.copy()
    values[list(steps)] = value
    return values


class EvenCoins(ZeroNoise):
    """As many heads as tails; remembers how many coins were asked for."""

    __slots__ = ("asked",)

    def __init__(self) -> None:
        self.asked = list[int]()

    def binomial(self, trials: int, size: int = 1) -> Ints:
        self.asked += [trials] * size
        return np.full(size, trials // 2, np.int64)


def coins_cost(made: Any) -> float:
    """The epsilon at its delta of the steps that a unit meets, each a sum of coins that the unit moves."""
    low, high = made.range or (0.0, made.sensitivity)
    noise, worst, still = EvenCoins(), 0.0, np.full(STEPS, low)
    base = published(made, still, noise)
    for steps in touched(made):
        moved = np.abs(published(made, met(still, steps, high), EvenCoins()) - base)
        pairs = {(noise.asked[step], round(moved[step])) for step in np.flatnonzero(moved).tolist()}
        if len(pairs) != 1:
            return math.inf  # every step has the same coins, and is moved as far as another
        worst = max(worst, len(np.flatnonzero(moved)))
    [(coins, shift)] = pairs
    return epsilon_at([binomial_loss(coins, shift)] * int(worst), float(made.delta))


class Decided(ZeroNoise):
    """Makes a releaser publish or not, as it is told; remembers the levels of its draws, the distance's first."""

    __slots__ = ("levels", "publish", "test")

    def __init__(self) -> None:
        self.publish, self.test, self.levels = True, False, list[float]()

    def laplace(self, scale: float, size: int = 1) -> Ints:
        self.levels.append(scale)
        far, self.test = (FAR if self.publish else -FAR) if self.test else 0, False
        return np.full(size, far, np.int64)


def dearest_decisions(made: Any) -> float:
    """The most that the steps of a unit cost, over everything that a releaser may decide to publish.

    A discrete Laplace draw that is compared with a threshold costs what it would cost to show it: in the tails the
    chances of both worlds differ by exactly that factor. A distance that nothing hangs on (there is no budget left to
    publish with) is not seen.
    """
    low, high = made.range or (0.0, made.sensitivity)
    shift = abs(int(np.diff([made.run(made.start(), [value], Decided())[1].units[0] for value in (low, high)])[0]))
    steps, worst = min(STEPS if made.unit == "sequence" else STEPS + 2, made.horizon or STEPS), 0.0
    for decisions in itertools.product((False, True), repeat=steps):
        state, noise, spent = made.start(), Decided(), list[float]()
        for publish in decisions:
            noise.levels.clear()
            noise.publish, noise.test = publish, bool(state["counts"][SEEN])
            seen = made.offered(state) > 0
            state = made.run(state, [low], noise)[0]
            spent.append(sum(shift / level for level in noise.levels) if seen else 0.0)
        worst = max(worst, max(sum(spent[first : first + made.width]) for first in range(steps)))
    return worst


def published(releaser: Releaser, values: Floats, noise: Noise) -> Floats:
    """The plain releases of a stream, which everything that is shown is computed from."""
    state, track = releaser.run(releaser.start(), values.tolist(), noise)
    if releaser.real_time:
        return np.where(track.drawn == 1, track.units, 0).astype(np.float64)
    return np.array([row.plain for row in releaser.finish(state)], np.float64)


# Learners -------------------------------------------------------------------------------------------------------------

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

    Noise in the objective, choices and counts: `fairveil.proof.laws.fits`.
    """
    for keys in FITS if isinstance(learner, PrivateLogistic) else ():
        one = replace(learner, **keys)

        def shown(noise: Noise, changed: Any = None, one: Any = one) -> Floats:
            model = one.estimator(noise, generator(1))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(*people(changed))
            return np.concatenate([model.coef_.ravel(), model.intercept_.ravel() if one.intercept else []])

        others = [shown(ZeroNoise(), changed) for changed in WORST]
        yield in_words(keys), max(prices(shown, others, one.guarantee().definition == "pure")), promised(one)
    yield from fit_costs(learner)
