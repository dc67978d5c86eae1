"""What one row costs a fit: every meeting of rows and noise in it is recorded, and priced in two worlds.

A fit of a fair learner is a chain: a score, counts, choices, each from what was published before. It is run in one
world and everything that its mechanisms answered is kept; then in the other world with those same answers. So both
worlds ask the same questions, and what each was asked about (counts, utilities, rows) is all that differs: counts with
Gaussian or Laplace noise are priced exactly by their draws, choices by their chances, and noise in an objective by its
density (`fairveil.proof.laws.losses`). A fit whose questions depend on rows beside the answers asks for something else
in the other world, which costs infinitely much.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.classify.fair.auditor import release_audit
from fairveil.classify.fair.learner import PrivateFair
from fairveil.classify.fair.zones import Zones, release_report, release_zones
from fairveil.classify.game.exponential import Game, Sound
from fairveil.classify.game.learners import ExponentialFair, PrivateGame
from fairveil.classify.learners import PrivateLogistic
from fairveil.classify.perturbation import Perturbation
from fairveil.privacy.mechanisms import DiscreteLaplace, Exponential
from fairveil.privacy.noise import Noise, SeededNoise
from fairveil.proof.laws import Costs, in_words
from fairveil.proof.laws.losses import Loss, choice_loss, epsilon_at, gaussian_loss, objective_loss
from fairveil.proof.laws.sums import Probe, draw_effects, priced
from fairveil.proof.mutants import Method, function, method, together, twin
from fairveil.randomness import generator

PEOPLE = 24
COUNTS = (release_zones, release_audit, release_report)
"""Functions that add Gaussian noise to counts."""


@dataclass(frozen=True)
class Meeting:
    """One answer of a mechanism: which, what it was asked about, and what it said."""

    asked: Callable[..., Any]
    about: tuple[Any, ...]
    answer: Any


def crowd(without: bool = False, changed: tuple[float, int, str] | None = None) -> tuple[Floats, Any, Any]:
    """A column, labels and groups of some people; the first is another, or is not there."""
    at = np.arange(PEOPLE)
    rows, labels, groups = np.cos(at)[:, None] * 0.9, at % 2, np.where(at // 2 % 3 == 0, "a", "b")
    if changed is not None:
        rows[0], labels[0], groups[0] = changed
    first = 1 if without else 0
    return rows[first:], labels[first:], groups[first:]


@contextmanager
def listening(found: list[Meeting], frozen: list[Meeting] | None) -> Iterator[None]:
    """Inside, every meeting is noted; with ``frozen`` the answers are those."""

    @twin
    def answered(original: Method, *given: Any, **named: Any) -> Any:
        place = len(found)
        if frozen is None:
            answer = original(*given, **named)
        else:
            answer = frozen[place].answer if place < len(frozen) else original(*given, **named)
        found.append(Meeting(original, given[:-1], answer))  # the last is the noise
        return answer

    @twin
    def rows_are_public(original: Method, self: Any, table: Any, people: Any, rows: int, noise: Noise) -> Any:
        return original(self, table, people, PEOPLE, noise)

    def game_of_all(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, *given: original(replace(self, rows=PEOPLE), *given)

    owners = (Perturbation, DiscreteLaplace, Exponential)
    with together(
        *(function(one, answered(one)) for one in COUNTS),
        *(method(owner, "release", answered) for owner in owners),
        method(Sound, "choose", rows_are_public),
        method(Game, "play", game_of_all),
    ):
        yield


class OwnUniforms(SeededNoise):
    """Uniform draws from a source of their own: a choice that no row is in is the same whatever else was drawn."""

    __slots__ = ("uniforms",)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.uniforms = SeededNoise(seed)

    def uniform_integers(self, high: int, size: int = 1) -> Ints:
        return self.uniforms.uniform_integers(high, size)


def fitted(learner: Any, people: tuple[Any, Any, Any], frozen: list[Meeting] | None = None) -> list[Meeting]:
    """All meetings of one fit."""
    found: list[Meeting] = []
    rows, labels, groups = people
    named = {} if isinstance(learner, PrivateLogistic) else {"sensitive_features": groups}
    model = learner.estimator(OwnUniforms(3), generator(1))  # imports what is listened to
    with listening(found, frozen), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rows, labels, **named)
    return found


def _numbers(answer: Any) -> Floats:
    return np.asarray(answer.counts if isinstance(answer, Zones) else answer, np.float64).ravel()


def _linear(one: Meeting, other: Meeting, pure: bool) -> float:
    base, effects = draw_effects(lambda noise: _numbers(one.asked(*one.about, noise)))
    return priced(effects, base - _numbers(other.asked(*other.about, Probe())), pure)


def parts_of(one: list[Meeting], other: list[Meeting]) -> tuple[float, float, list[Loss]]:
    """What differs between the questions of two worlds: epsilon of Laplace draws, mu of counts, and other losses."""
    if [meeting.asked for meeting in one] != [meeting.asked for meeting in other]:
        return math.inf, math.inf, []
    epsilon, square, losses = 0.0, 0.0, list[Loss]()
    for first, second in zip(one, other, strict=True):
        if first.asked in COUNTS:
            square += _linear(first, second, pure=False) ** 2
        elif isinstance(first.about[0], DiscreteLaplace):
            epsilon += _linear(first, second, pure=True)
        elif isinstance(first.about[0], Exponential):
            if first.about[0] != second.about[0]:
                return math.inf, math.inf, []
            losses.append(choice_loss(*(one.about[0].probabilities(one.about[1]) for one in (first, second))))
        else:
            losses.append(objective_loss(first.about[0], first.about[1:], second.about[1:]))
    return epsilon, math.sqrt(square), losses


def total(learner: Any, one: list[Meeting], other: list[Meeting], fits: int = 1) -> float:
    """Epsilon of so many fits, at the learner's delta, or pure."""
    epsilon, mu, losses = parts_of(one, other)
    if epsilon == math.inf:
        return math.inf
    if learner.guarantee().definition == "pure":
        return fits * (epsilon + mu + sum(float(np.max(values)) for values, _ in losses))
    held = [*losses, *([gaussian_loss(mu)] if mu else [])]
    return fits * epsilon + epsilon_at(held * fits, learner.delta)


def worst(learner: Any, others: list[tuple[Any, Any, Any]], fits: int = 1) -> float:
    """The dearest neighbour, in both directions."""
    found = 0.0
    for other in others:
        for here, there in ((crowd(), other), (other, crowd())):
            recorded = fitted(learner, here)
            found = max(found, total(learner, recorded, fitted(learner, there, recorded), fits))
    return found


REPLACED = [crowd(changed=(5.0, 1, "b")), crowd(changed=(-5.0, 0, "b"))]
TAKEN = [crowd(without=True)]

OBJECTIVES: tuple[dict[str, Any], ...] = tuple(
    {"method": "objective", "definition": definition, "intercept": intercept, "rows": PEOPLE, **more}
    for intercept, definition in itertools.product((False, True), ("pure", "gaussian"))
    for more in (
        {}, {"retrainings": 3}, {"norm_bound": 2.0}, {"neighbours": "zero-out-row"}, {"epsilon": 4.0},
        {"strength": 0.5, "epsilon": 4.0},
    )
)  # fmt: skip
FAIR: dict[type, tuple[dict[str, Any], ...]] = {
    ExponentialFair: (
        {"hypotheses": "threshold-pairs", "epsilon": 4.0},
        *(
            {"hypotheses": rules, "weight": weight, "neighbours": neighbours, "epsilon": epsilon}
            for rules, weight in itertools.product(("stumps", "linear"), (0.3, 3.0))
            for neighbours, epsilon in itertools.product(("replace-row", "zero-out-row"), (1.0, 6.0))
        ),
    ),
    PrivateGame: (
        {"hypotheses": "threshold-pairs", "rounds": 6},
        *(
            {"hypotheses": rules, "rounds": rounds, "bound": bound, "epsilon": epsilon}
            for rules, rounds in itertools.product(("stumps", "linear"), (2, 12))
            for bound, epsilon in itertools.product((0.5, 5.0), (1.0, 4.0))
        ),
    ),
    PrivateFair: (
        {"neighbours": "replace-row"},
        {},
        {"fairness": "demographic-parity"},
        {"fairness": "equalized-odds"},
        {"randomised": False},
        {"retrainings": 2},
        {"count_share": 0.8},
        {"slack": 0.1, "epsilon": 4.0},
        {"awareness": "blind"},
        {"awareness": "blind", "fairness": "equalized-odds", "epsilon": 4.0},
    ),
}
ALWAYS: dict[type, dict[str, Any]] = {
    ExponentialFair: {"count": 20},
    PrivateGame: {"count": 20},
    PrivateFair: {"rounds": 20, "rows": PEOPLE},
}


def for_crowd(learner: Any, **keys: Any) -> Any:
    """The learner with a short fit, for the people of this module."""
    known = {"groups": ("a", "b")} if isinstance(learner, PrivateFair) else {}
    return replace(learner, **{"norm_bound": 1.0, **ALWAYS.get(type(learner), {}), **known, **keys})


def fit_costs(learner: Any) -> Costs:
    """Exact costs of fits that are not linear in their draws, by configuration."""
    for keys in OBJECTIVES if isinstance(learner, PrivateLogistic) else FAIR.get(type(learner), ()):
        made = for_crowd(learner, **keys)
        replaced = made.guarantee().neighbours.value == "replace-row"
        fits = keys.get("retrainings", 1)
        yield in_words(keys), worst(made, REPLACED if replaced else TAKEN, fits), made.epsilon
