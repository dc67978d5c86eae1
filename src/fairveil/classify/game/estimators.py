"""The paper's learners as scikit-learn classifiers. Importing this needs scikit-learn."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from fairveil.classify.checks import classes_of, features_of, groups_of, refuse_weights
from fairveil.classify.estimator import plain_number
from fairveil.classify.fair.score import eta, extended, fit_score
from fairveil.classify.game import hypotheses as classes_of_rules
from fairveil.classify.game.exponential import Printed, Sound
from fairveil.classify.game.fair_nr import LaplaceNoise, Play, UniformNoise, printed_scale, run_game
from fairveil.classify.game.learners import ExponentialFair, PrivateFairNR, PrivateGame
from fairveil.classify.game.oracles import make_oracle
from fairveil.classify.game.private_game import Game
from fairveil.classify.game.theory import theory_rounds
from fairveil.classify.randomised import Randomised
from fairveil.classify.spending import Spending
from fairveil.fairness.counting import Counter
from fairveil.fairness.groups import Groups, as_columns
from fairveil.fairness.metrics import gaps_of, rates_of, weighted_of
from fairveil.fairness.subgroups import Subgroups
from fairveil.privacy.events import Event
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.ledger import Ledger
from fairveil.privacy.noise import Noise
from fairveil.randomness import generator

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LedgerLike = Ledger | str | os.PathLike[str] | None


class TheoryWarning(UserWarning):
    """A theorem asks for far more than was run."""


class _People:
    """Validated training people: rows, labels 0 and 1, everybody's cell among the public intersections."""

    def __init__(self, estimator: Any, X: ArrayLike, y: ArrayLike, sensitive: Any, extra: dict[str, Any]) -> None:
        refuse_weights(extra)
        self.features, labels = features_of(estimator, X, y, reset=True)
        estimator.classes_ = classes_of(labels, estimator.classes, type(estimator).__name__)
        self.labels = (labels == estimator.classes_[1]).astype(np.int64)
        members = groups_of(sensitive, None, len(self.features))
        attributes = estimator.attributes or _attributes(sensitive, members)
        estimator.subgroups_ = Subgroups.of("intersections", {name: tuple(v) for name, v in attributes.items()})
        estimator.group_names_ = estimator.subgroups_.cells
        self.members = groups_of(sensitive, estimator.group_names_, len(self.features))
        self.rows = extended(self.features, float(estimator.norm_bound))
        self.counter = Counter(self.members.index, self.labels, len(estimator.group_names_))


def _attributes(sensitive: Any, members: Groups) -> dict[str, tuple[str, ...]]:
    """Categories that occur; a caller who states ``attributes`` keeps them public."""
    columns = as_columns(sensitive)
    if len(columns) == 1:
        return {next(iter(columns)): members.names}
    return {name: tuple(sorted({str(value) for value in values.tolist()})) for name, values in columns.items()}


class _FiniteClass(Spending, Randomised, ClassifierMixin, BaseEstimator):
    """A private choice from a finite class, perhaps over a private score; the rule is a mixture of chosen plays."""

    private = True
    by_columns = True
    hypotheses: str
    count: int
    norm_bound: float

    def event(self) -> Event:
        """What one person pays; known before any data."""
        return self.learner().event()

    def guarantee(self) -> Guarantee:
        """After a fit what was promised then (``guarantee_``), before it what these parameters would promise."""
        return self.guarantee_ if hasattr(self, "guarantee_") else self.learner().guarantee()

    def learner(self) -> Any:
        raise NotImplementedError

    def _choose(self, people: _People, table: Floats, noise: Noise) -> dict[str, Any]:
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: ArrayLike, *, sensitive_features: Any = None, **extra: Any) -> Any:
        """Charge, then a private score (threshold pairs) and a private choice: one release."""
        learner = self.learner()
        self._check_budget(learner.event())
        people = _People(self, X, y, sensitive_features, extra)
        noise = self._source(learner.name)

        def draw(source: Noise) -> dict[str, Any]:
            found: dict[str, Any] = {}
            inputs = people.features
            if learner.over_score:
                found["score"] = fit_score(learner.score_plan(), people.rows, people.labels, len(people.rows), source)
                inputs = eta(found["score"], people.rows)[:, None]
            rules = self._rules(people.features.shape[1])
            table = rules.table(inputs, people.members.index, people.counter)
            return {**found, **self._choose(people, table, source)}

        found = self._spend(learner, learner.guarantee(), learner.event(), 1, noise, draw)
        self._score_weights = found.get("score")
        self.plays_, counts = np.unique(np.asarray(found["plays"]), return_counts=True)
        self.weights_ = counts / counts.sum()
        self.report_ = self.error_ = self.discrimination_ = None
        return self

    def decision_chance(self, X: ArrayLike, *, sensitive_features: Any = None) -> Floats:
        """Probability that `predict` says the second class: the weight of the plays that accept."""
        check_is_fitted(self, "plays_")
        inputs = features_of(self, X, reset=False)[0]
        index, width = np.zeros(len(inputs), np.int64), inputs.shape[1]
        if self._score_weights is not None:
            index = groups_of(sensitive_features, self.group_names_, len(inputs), deciding=True).index
            inputs = eta(self._score_weights, extended(inputs, float(self.norm_bound)))[:, None]
        decided = self._rules(width).accepts(inputs, index, self.plays_)
        return np.minimum(self.weights_ @ decided, 1.0)

    def score_proba(self, X: ArrayLike) -> Floats:
        """The private score, where there is one (threshold pairs)."""
        check_is_fitted(self, "plays_")
        if self._score_weights is None:
            raise AttributeError("only threshold-pairs have a private score")
        rows = extended(features_of(self, X, reset=False)[0], float(self.norm_bound))
        second = eta(self._score_weights, rows)
        return np.stack([1 - second, second], axis=1)

    def _rules(self, width: int) -> classes_of_rules.Hypotheses:
        return classes_of_rules.make(self.hypotheses, width, len(self.group_names_), self.count)  # type: ignore[arg-type]


class ExponentialFairClassifier(_FiniteClass):
    """One rule of a finite class by the exponential mechanism (learner ``exponential-fair``).

    Guarantee: that of `fairveil.classify.game.learners.ExponentialFair`; every fit is a release.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.integers(0, 2, (2000, 3)).astype(float)
    >>> model = ExponentialFairClassifier(epsilon=5.0, random_state=0)
    >>> model = model.fit(x, x[:, 1].astype(int), sensitive_features=rng.choice(["a", "b"], 2000))
    >>> int(model.plays_[0]), model.guarantee_.epsilon
    (2, 5.0)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-5,
        hypotheses: str = "stumps",
        count: int = 500,
        weight: float = 1.0,
        neighbours: str = "zero-out-row",
        variant: str = "sound",
        norm_bound: float = 1.0,
        attributes: dict[str, tuple[str, ...]] | None = None,
        classes: tuple[Any, Any] | None = (0, 1),
        ledger: LedgerLike = None,
        noise: Noise | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.hypotheses = hypotheses
        self.count = count
        self.weight = weight
        self.neighbours = neighbours
        self.variant = variant
        self.norm_bound = norm_bound
        self.attributes = attributes
        self.classes = classes
        self.ledger = ledger
        self.noise = noise
        self.random_state = random_state

    def learner(self) -> ExponentialFair:
        """The public configuration; raises SpecError for a parameter out of range."""
        return _configured(ExponentialFair, self)

    def _choose(self, people: _People, table: Floats, noise: Noise) -> dict[str, Any]:
        learner, counts = self.learner(), people.counter.people.astype(np.float64)
        if learner.variant == "printed":
            chosen, _ = Printed(learner.pick_epsilon, learner.weight).pick(table, counts, len(people.rows), noise)
            return {"plays": [chosen]}
        sound = Sound(learner.pick_epsilon, learner.weight, learner.neighbours == "replace-row")
        chosen, sizes = sound.pick(table, counts, len(people.rows), noise)
        return {"plays": [chosen], "sizes": sizes}


class PrivateGameClassifier(_FiniteClass):
    """The private fairness game over a finite class (learner ``private-game``).

    Guarantee: that of `fairveil.classify.game.learners.PrivateGame`; every fit is a release.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-5,
        rounds: int = 60,
        bound: float = 5.0,
        hypotheses: str = "threshold-pairs",
        count: int = 500,
        norm_bound: float = 1.0,
        attributes: dict[str, tuple[str, ...]] | None = None,
        classes: tuple[Any, Any] | None = (0, 1),
        ledger: LedgerLike = None,
        noise: Noise | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rounds = rounds
        self.bound = bound
        self.hypotheses = hypotheses
        self.count = count
        self.norm_bound = norm_bound
        self.attributes = attributes
        self.classes = classes
        self.ledger = ledger
        self.noise = noise
        self.random_state = random_state

    def learner(self) -> PrivateGame:
        """The public configuration; raises SpecError for a parameter out of range."""
        return _configured(PrivateGame, self)

    def _choose(self, people: _People, table: Floats, noise: Noise) -> dict[str, Any]:
        learner = self.learner()
        game = Game(learner.rounds, learner.bound, learner.rho, len(people.rows))
        counts = people.counter.people.astype(np.float64)
        return {"plays": game.play(table, counts, self.subgroups_.members, noise)}


class _NoRegret(Randomised, ClassifierMixin, BaseEstimator):
    """What FairNR and its printed private form share: rows in, a mixture of oracle answers out."""

    by_columns = True
    rounds: int
    plays: int
    bound: float
    alpha: float
    oracle: Any

    def _play(self, people: _People, perturb: UniformNoise | LaplaceNoise) -> float:
        game = Play(int(self.rounds), int(self.plays), float(self.bound), float(self.alpha))
        self._oracle = make_oracle(self.oracle, people.rows)
        members = self.subgroups_.members
        found, violation = run_game(
            self._oracle, people.rows, people.members.index, people.counter, people.labels, members, game, perturb
        )
        self.plays_, self.weights_ = found, np.full(len(found), 1 / len(found))
        return violation

    def decision_chance(self, X: ArrayLike, *, sensitive_features: Any = None) -> Floats:
        """Probability that `predict` says the second class: the share of the plays that accept."""
        check_is_fitted(self, "plays_")
        rows = extended(features_of(self, X, reset=False)[0], float(self.norm_bound))
        return self._oracle.accepts(self.plays_, rows).mean(axis=1)


class FairNRClassifier(_NoRegret):
    """FairNR (learner ``fair-nr``): no privacy; ``violation_`` is that of the mixture on the training people.

    ``oracle`` is ``least-squares``, ``exact``, ``logistic``, a finite class of hypotheses, or any scikit-learn
    classifier that takes sample weights.
    """

    private = False

    def __init__(
        self,
        *,
        rounds: int = 300,
        plays: int = 3,
        bound: float = 10.0,
        alpha: float = 0.001,
        oracle: Any = "least-squares",
        norm_bound: float = 1.0,
        attributes: dict[str, tuple[str, ...]] | None = None,
        classes: tuple[Any, Any] | None = (0, 1),
        random_state: Any = None,
    ) -> None:
        self.rounds = rounds
        self.plays = plays
        self.bound = bound
        self.alpha = alpha
        self.oracle = oracle
        self.norm_bound = norm_bound
        self.attributes = attributes
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, *, sensitive_features: Any = None, **extra: Any) -> FairNRClassifier:
        """Play the game on labels of two classes."""
        people = _People(self, X, y, sensitive_features, extra)
        rng = generator(int(check_random_state(self.random_state).randint(2**31 - 1)), "fair-nr")
        width = 2 * np.sqrt(self.rounds) / len(people.rows)
        self.violation_ = self._play(people, UniformNoise(float(width), rng))
        counted = people.counter.count(self._oracle.accepts(self.plays_, people.rows).mean(axis=1))
        self.report_ = {
            "error": float((counted[:, 0, 1] + counted[:, 1, 0]).sum() / counted.sum()),
            "discrimination": gaps_of(rates_of(counted, self.group_names_)),
            "weighted": weighted_of(counted),
            "subgroup_violation": self.violation_,
        }
        self.error_, self.discrimination_ = self.report_["error"], self.report_["discrimination"]
        return self


class PrivateFairNRClassifier(Spending, _NoRegret):
    """Private-FairNR as printed (learner ``private-fair-nr``): its claim is not established and it says so."""

    private = True

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-5,
        rounds: int = 30,
        plays: int = 3,
        bound: float = 10.0,
        alpha: float = 0.001,
        oracle: Any = "least-squares",
        variant: str = "printed",
        norm_bound: float = 1.0,
        attributes: dict[str, tuple[str, ...]] | None = None,
        classes: tuple[Any, Any] | None = (0, 1),
        ledger: LedgerLike = None,
        noise: Noise | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rounds = rounds
        self.plays = plays
        self.bound = bound
        self.alpha = alpha
        self.oracle = oracle
        self.variant = variant
        self.norm_bound = norm_bound
        self.attributes = attributes
        self.classes = classes
        self.ledger = ledger
        self.noise = noise
        self.random_state = random_state

    def learner(self) -> PrivateFairNR:
        """The public configuration; an oracle of your own stands in no spec."""
        return _configured(PrivateFairNR, self, **({} if isinstance(self.oracle, str) else {"oracle": "least-squares"}))

    def event(self) -> Event:
        """What is claimed."""
        return self.learner().event()

    def guarantee(self) -> Guarantee:
        """The claim, which is not established."""
        return self.guarantee_ if hasattr(self, "guarantee_") else self.learner().guarantee()

    def fit(
        self, X: ArrayLike, y: ArrayLike, *, sensitive_features: Any = None, **extra: Any
    ) -> PrivateFairNRClassifier:
        """Play the printed game; warns with what the theorem would ask for."""
        from fairveil.errors import PrivacyError

        learner = self.learner()
        noise = self._source("private-fair-nr")
        if self.ledger is not None or noise.protects:
            raise PrivacyError(
                "the printed claim is not established: it runs with seeded noise and without a ledger only",
                path="noise", fix="random_state= for a simulation, or PrivateFairClassifier",
            )  # fmt: skip
        people = _People(self, X, y, sensitive_features, extra)
        n, dimension = len(people.rows), max(1, int(np.ceil(np.log2(len(self.subgroups_.names)))))
        asked = theory_rounds(max(n, 2), 0.1, 0.05, dimension, learner.epsilon, learner.delta)
        warnings.warn(
            f"Private-FairNR runs {learner.rounds} rounds of {learner.plays} plays; its theorem (alpha 0.1, beta 0.05) "
            f"asks for {asked.rounds:.1e} rounds of {asked.plays:.1e} and an epsilon of {asked.epsilon_demanded:.1e}",
            TheoryWarning,
            stacklevel=2,
        )
        game = Play(learner.rounds, learner.plays, learner.bound, learner.alpha)
        scale = printed_scale(n, game, learner.epsilon, learner.delta)

        def draw(source: Noise) -> dict[str, Any]:
            self._play(people, LaplaceNoise(scale, source))
            return {}

        self._spend(learner, learner.guarantee(), learner.event(), 1, noise, draw)
        self.report_ = None
        return self


def _configured(kind: Any, estimator: Any, **instead: Any) -> Any:
    """The public configuration with an estimator's parameters, numbers as plain floats where floats are meant."""
    floats = ("epsilon", "delta", "weight", "bound", "alpha", "norm_bound")
    given = estimator.get_params(deep=False)
    fields = kind.__dataclass_fields__
    table = {name: plain_number(value) if name in floats else value for name, value in given.items() if name in fields}
    return kind(**{**table, **instead})


__all__ = [
    "ExponentialFairClassifier",
    "FairNRClassifier",
    "PrivateFairNRClassifier",
    "PrivateGameClassifier",
    "TheoryWarning",
]
