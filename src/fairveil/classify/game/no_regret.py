"""FairNR and Private-FairNR as scikit-learn classifiers. Importing this needs scikit-learn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from fairveil.classify.fair.score import extended
from fairveil.classify.game.fair_nr import LaplaceNoise, Play, UniformNoise, printed_scale, run_game
from fairveil.classify.game.learners import PrivateFairNR
from fairveil.classify.game.oracles import make_oracle
from fairveil.classify.game.people import LedgerLike, People, configured
from fairveil.classify.game.theory import theory_rounds
from fairveil.classify.randomised import Randomised
from fairveil.classify.spending import Spending
from fairveil.data.inputs import features_of
from fairveil.errors import PrivacyError
from fairveil.fairness.metrics import gaps_of, rates_of, weighted_of
from fairveil.privacy.events import Event
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise
from fairveil.randomness import generator

Floats = NDArray[np.float64]


class TheoryWarning(UserWarning):
    """A theorem asks for far more than was run."""


class _NoRegret(Randomised, ClassifierMixin, BaseEstimator):
    """What FairNR and its printed private form share: rows in, a mixture of oracle answers out."""

    by_columns = True
    rounds: int
    plays: int
    bound: float
    alpha: float
    oracle: Any

    def _play(self, people: People, perturb: UniformNoise | LaplaceNoise) -> float:
        game = Play(int(self.rounds), int(self.plays), float(self.bound), float(self.alpha))
        self._oracle = make_oracle(self.oracle, people.rows)
        members = self.subgroups_.members
        found, violation = run_game(
            self._oracle, people.rows, people.members.index, people.counter, people.labels, members, game, perturb
        )
        self._oracle.forget()
        self.plays_, self.weights_ = found, np.full(len(found), 1 / len(found))
        return violation

    def decision_chance(self, X: ArrayLike, *, sensitive_features: Any = None) -> Floats:
        """Probability that `predict` says the second class: the share of the plays that accept."""
        check_is_fitted(self, "plays_")
        rows = extended(features_of(self, X, reset=False)[0], float(self.norm_bound))
        return self._oracle.accepts(self.plays_, rows).mean(axis=1)


class FairNRClassifier(_NoRegret):
    """FairNR (learner ``fair-nr``): no privacy (``guarantee_`` is None); ``violation_`` is that of the mixture on the
    training people.

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
        people = People(self, X, y, sensitive_features, extra)
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
        self.guarantee_, self.simulated_ = None, False
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
        return configured(PrivateFairNR, self, **({} if isinstance(self.oracle, str) else {"oracle": "least-squares"}))

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
        learner = self.learner()
        noise = self._source("private-fair-nr")
        if self.ledger is not None or noise.protects:
            raise PrivacyError(
                "the printed claim is not established: it runs with seeded noise and without a ledger only",
                path="noise", fix="random_state= for a simulation, or PrivateFairClassifier",
            )  # fmt: skip
        people = People(self, X, y, sensitive_features, extra)
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
        self.report_ = self.error_ = self.discrimination_ = None
        return self
