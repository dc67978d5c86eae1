"""Laws of a private learner: what a fit does with a row that is too long, what it hands out, what it draws, and that
the order of rows moves nothing.

>>> from fairveil.classify.learners import PrivateLogistic
>>> check_learner(PrivateLogistic(epsilon=1.0))
['long_rows_are_clipped', 'nothing_exact_is_handed_out', 'draws_fit_the_budget', 'order_moves_nothing', 'exact_cost']
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from fairveil.arrays import Floats, Ints
from fairveil.classify.fair.learner import PrivateFair
from fairveil.classify.game.learners import ExponentialFair, FiniteLearner, PrivateGame
from fairveil.classify.learner import Learner
from fairveil.privacy.conversions import zcdp_epsilon
from fairveil.privacy.mechanisms import DiscreteLaplace, Exponential
from fairveil.privacy.noise import Noise, SeededNoise
from fairveil.proof.engine.replay import leaves
from fairveil.proof.laws import Asked, check_laws, must
from fairveil.proof.laws.costs import learner_costs
from fairveil.proof.laws.fits import crowd, fitted, for_crowd, total
from fairveil.proof.mutants import Method, Weakened, method, together, twin
from fairveil.proof.pairs.classify import EXCESS
from fairveil.randomness import generator
from fairveil.registry import register

Law = Callable[[Learner], Any]
PEOPLE = 40
WIDER = (1.0, 1.0, 4.0, 4.0, 16.0, 16.0, 64.0, 64.0)
"""How much wider noise is drawn where a law asks whether a number depends on it."""
ROUNDED = 1 + 1e-4
"""Slack for the grid of orders in a conversion."""
FEW_FORMS = 20
CLOSE = 1e-6
"""Relative difference that rounding may make in weights."""
FEW = {"rounds": 20, "groups": ("a", "b"), "rows": PEOPLE}
"""Fields, where a learner has them, that make a fit short and keep everything public fixed."""
STUMPS = {"hypotheses": "stumps", "attributes": None}
"""Fields of a game whose rules are over columns, not over a private score."""


class Crowd(NamedTuple):
    """People to fit."""

    features: Floats
    labels: Ints
    groups: NDArray[Any]


def _people() -> Crowd:
    """Two yes-or-no features; labels and groups in all combinations."""
    place = np.arange(PEOPLE)
    features = 0.6 * np.stack([place % 2, place // 2 % 2], axis=1)
    return Crowd(features.astype(np.float64), (place // 4 % 2 ^ place % 2), np.where(place // 8 % 2, "a", "b"))


def _neighbours(table: Crowd) -> list[Crowd]:
    """The first person is another: other features, another label, another group, all of it."""
    turned, other, moved = table.features.copy(), table.labels.copy(), table.groups.copy()
    turned[0], other[0] = 0.6 - turned[0], 1 - other[0]
    moved[0] = "a" if table.groups[0] == "b" else "b"
    return [
        table._replace(features=turned), table._replace(labels=other), table._replace(groups=moved),
        Crowd(turned, other, moved),
    ]  # fmt: skip


def _short(learner: Any) -> Any:
    """The same learner with a short fit and everything public fixed."""
    given = FEW if isinstance(learner, FiniteLearner) and learner.over_score else FEW | STUMPS
    return replace(learner, **{name: value for name, value in given.items() if name in learner.__dataclass_fields__})


def _fitted(learner: Any, table: Crowd, noise: Noise) -> dict[str, float]:
    """All numbers that a fit hands out, by where they stand."""
    model = _short(learner).estimator(noise, generator(1))
    groups = {} if learner.name == "private-logistic" else {"sensitive_features": table.groups}
    model.fit(table.features, table.labels, **groups)
    shown = {name: value for name, value in vars(model).items() if name.endswith("_") and not name.startswith("_")}
    return {path: float(value) for path, value in leaves(shown) if isinstance(value, int | float | np.number)}


def long_rows_are_clipped(learner: Learner) -> None:
    """A row far longer than the public bound counts as the row of that direction within it; no other row changes."""
    if not hasattr(learner, "bound_of_features"):
        return
    table, bound = _people(), learner.bound_of_features
    long, within = table.features.copy(), table.features.copy()
    direction = np.array([0.6, -0.8])
    long[0], within[0] = EXCESS * bound * direction, bound * direction
    first, second = (_fitted(learner, table._replace(features=rows), SeededNoise(1)) for rows in (long, within))
    same = first.keys() == second.keys() and all(
        np.isclose(first[name], second[name], rtol=CLOSE, atol=CLOSE, equal_nan=True) for name in first
    )
    must(same, "a row that is too long counts for more than its bound", "clip rows to the public bound")


def nothing_exact_is_handed_out(learner: Learner) -> None:
    """A number of a fitted model that depends on one person also depends on the noise of the fit."""
    table = _people()
    of_worlds = [_fitted(learner, one, SeededNoise(0)) for one in (table, *_neighbours(table))]
    of_noises = [_fitted(learner, table, Weakened(SeededNoise(seed), factor)) for seed, factor in enumerate(WIDER)]
    for name in of_worlds[0]:
        told, hidden = (len({repr(found.get(name)) for found in all}) > 1 for all in (of_worlds, of_noises))
        must(hidden or not told, f"{name.lstrip('.')} shows a person without noise", "draw noise for it")


def draws_fit_the_budget(learner: Learner) -> None:
    """What one fit draws costs the promise at most, added up by formulas that calibrate nothing.

    A fit by perturbation alone is one release: its audits compare it with its promise.
    """
    if isinstance(learner, PrivateFair):
        _counts_fit(_short(learner))
    if isinstance(learner, ExponentialFair | PrivateGame):
        _picks_fit(_short(learner))


def _counts_fit(learner: PrivateFair) -> None:
    """The score, and counts of zones (12 cells), audits and report (8 cells of two groups)."""
    noise, plan = Asked(1), learner.plan(2)
    _fitted(learner, _people(), noise)
    zones, eights = ([level for level, size in noise.gaussian_levels if size == cells] for cells in (12, 8))
    must(len(zones) == 1 and len(eights) == learner.rounds + 1, "a fit counts people more often than it says")
    plays = learner.rounds - learner.rounds // 2
    gaussian = sum(level**-2 for level in (*zones, *eights[:-1])) + (plays / eights[-1]) ** 2
    determinant, root = math.log1p(plan.bound**2 / (4 * plan.strength)), plan.score_root
    excess = np.geomspace(1e-2, 1e5, 20_000)
    fold = (math.log(2) + log_ndtr(excess * root)) / excess
    curve = determinant + fold + (excess + 1) * (gaussian + root**2) / 2
    epsilon, delta = plan.inner
    spent = curve + (math.log(1 / delta) - excess * np.log1p(1 / excess) - np.log1p(excess)) / excess
    must(spent.min() + plan.tail <= epsilon * ROUNDED, "counts and score cost more than was promised")


def _picks_fit(learner: ExponentialFair | PrivateGame) -> None:
    """Picks and noisy sizes by their own budgets; over a private score, beside that of the score."""
    paid = list[float]()

    @twin
    def watched(original: Method, self: Any, *given: Any, **named: Any) -> Any:
        paid.append(self.epsilon)
        return original(self, *given, **named)

    with together(method(Exponential, "release", watched), method(DiscreteLaplace, "release", watched)):
        _fitted(learner, _people(), SeededNoise(1))
    score = learner.score_plan().epsilon if learner.over_score else 0.0
    if isinstance(learner, PrivateGame):
        left = learner.delta / 2 if learner.over_score else learner.delta
        spent = zcdp_epsilon(sum(epsilon**2 for epsilon in paid) / 8, left)
    else:
        spent = sum(paid)
    must(score + spent <= learner.epsilon * ROUNDED, "what is picked costs more than was promised")


def order_moves_nothing(learner: Learner) -> None:
    """The same rows in another order ask mechanisms for the same, whatever they have answered before."""
    made = for_crowd(learner)
    here = fitted(made, crowd())
    rows, labels, groups = crowd()
    there = fitted(made, (rows[::-1], labels[::-1], groups[::-1]), here)
    must(total(made, here, there) <= total(made, here, here) + CLOSE, "the order of rows reaches the noise")


def exact_cost(learner: Learner) -> None:
    """No row costs a fit more than is promised: the first configurations; a test prices all."""
    for words, cost, claim in itertools.islice(learner_costs(learner), FEW_FORMS):
        must(cost <= claim * ROUNDED, f"the worst row costs more than is promised ({words})")


LAWS: dict[str, Law] = {
    law.__name__: law
    for law in (
        long_rows_are_clipped,
        nothing_exact_is_handed_out,
        draws_fit_the_budget,
        order_moves_nothing,
        exact_cost,
    )
}


@register("laws", "learner")
def check_learner(learner: Learner) -> list[str]:
    """Run every law; returns their names, raises ContractError at the first that is broken."""
    return check_laws(LAWS, learner)
