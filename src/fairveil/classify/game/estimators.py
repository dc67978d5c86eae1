"""Private choices from a finite class as scikit-learn classifiers. Importing this needs scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from fairveil.arrays import Floats
from fairveil.classify.fair.score import eta, extended, fit_score
from fairveil.classify.game import hypotheses as classes_of_rules
from fairveil.classify.game.exponential import Game
from fairveil.classify.game.learners import ExponentialFair, PrivateGame
from fairveil.classify.mixins import SPENDING, Configured, Randomised, estimator_of
from fairveil.classify.people import CLASSES, TrainingPeople, groups_of
from fairveil.classify.spending import Spending
from fairveil.data.inputs import features_of
from fairveil.privacy.noise import Noise


class _FiniteClass(Configured, Spending, Randomised):
    """A private choice from a finite class, perhaps over a private score; the rule is a mixture of chosen plays."""

    private = True
    by_columns = True
    hypotheses: classes_of_rules.HypothesesName
    count: int
    norm_bound: float

    def _choose(self, people: TrainingPeople, table: Floats, noise: Noise) -> dict[str, Any]:
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: ArrayLike, *, sensitive_features: Any = None, **extra: Any) -> Any:
        """Charge, then a private score (threshold pairs) and a private choice: one release."""
        learner = self.learner()
        self._check_budget(learner.event())
        people = TrainingPeople(self, X, y, sensitive_features, extra)
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
        return classes_of_rules.make(self.hypotheses, width, len(self.group_names_), self.count)


@estimator_of(ExponentialFair, also=CLASSES | SPENDING, epsilon=1.0, norm_bound=1.0)
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

    def _choose(self, people: TrainingPeople, table: Floats, noise: Noise) -> dict[str, Any]:
        learner, counts = self.learner(), people.counter.people.astype(np.float64)
        return learner.pick().choose(table, counts, len(people.rows), noise)


@estimator_of(PrivateGame, also=CLASSES | SPENDING, epsilon=1.0, norm_bound=1.0)
class PrivateGameClassifier(_FiniteClass):
    """The private fairness game over a finite class (learner ``private-game``).

    Guarantee: that of `fairveil.classify.game.learners.PrivateGame`; every fit is a release.
    """

    def _choose(self, people: TrainingPeople, table: Floats, noise: Noise) -> dict[str, Any]:
        learner = self.learner()
        game = Game(learner.rounds, learner.bound, learner.rho, len(people.rows))
        counts = people.counter.people.astype(np.float64)
        return {"plays": game.play(table, counts, self.subgroups_.members, noise)}
