"""FairNR of Kearns, Neel, Roth and Wu (2018), and Private-FairNR as printed (Algorithm 3 of Cummings et al. 2019).

The learner follows the perturbed leader: an oracle's answer to cumulative costs plus fresh noise, m plays a round. The
auditor answers with the worst signed subgroup of the round's plays if its violation is above alpha. The rule is the
uniform mixture of all plays. The printed private form only changes the noise to Laplace, of scale
(2+C)/n sqrt(m T ln(1/delta))/eps; features, sums of costs and the auditor's exact rates are not protected by it, so its
claim is not established. Both are scikit-learn classifiers: importing this needs scikit-learn.

Cost-sensitive oracles: the rule of a class with the least total cost of accepting.

Rows z come with the cost of accepting each person (negative: accepting helps). A play is whatever describes the rule.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from fairveil.arrays import Bools, Floats, Ints
from fairveil.classify.fair.score import extended
from fairveil.classify.game.hypotheses import Hypotheses, Stumps
from fairveil.classify.game.learners import FALSE_POSITIVES, FairNR, PrivateFairNR
from fairveil.classify.game.theory import theory_rounds
from fairveil.classify.mixins import SPENDING, Configured, Randomised, estimator_of
from fairveil.classify.people import CLASSES, TrainingPeople
from fairveil.classify.spending import Spending
from fairveil.data.inputs import features_of
from fairveil.errors import PrivacyError, SpecError
from fairveil.fairness.groups import Counter
from fairveil.fairness.metrics import GroupReport, gaps_of, rates_of, weighted_of
from fairveil.fairness.subgroups import Kind, signed_violations
from fairveil.privacy.noise import GRID_BITS, Noise
from fairveil.randomness import Generator, generator


class LeastSquares:
    """Regress the costs on the rows and accept where the prediction is negative. One Cholesky factor for all plays."""

    def __init__(self, rows: Floats) -> None:
        self.rows = rows
        self.factor = cho_factor(rows.T @ rows + 1e-6 * max(len(rows), 1) * np.eye(rows.shape[1]))

    def best(self, costs: Floats) -> list[Any]:
        """One play for each column of ``costs``."""
        return list(cho_solve(self.factor, self.rows.T @ costs).T)

    def forget(self) -> None:
        """Keep nothing of the people the game was played on."""
        del self.rows, self.factor

    @staticmethod
    def accepts(plays: list[Any], rows: Floats) -> Bools:
        """Decisions of shape (rows, plays)."""
        return rows @ np.array(plays).T < 0


class ExactList:
    """The best of a finite list of hypotheses, by adding up its costs: exact."""

    def __init__(self, rows: Floats, hypotheses: Hypotheses) -> None:
        self.hypotheses = hypotheses
        nobody = np.zeros(len(rows), np.int64)
        self.decided = hypotheses.accepts(rows[:, :-1], nobody, np.arange(hypotheses.size)).astype(np.float32)

    def best(self, costs: Floats) -> list[Any]:
        return (self.decided @ costs.astype(np.float32)).argmin(axis=0).tolist()

    def forget(self) -> None:
        del self.decided

    def accepts(self, plays: list[Any], rows: Floats) -> Bools:
        nobody = np.zeros(len(rows), np.int64)
        return self.hypotheses.accepts(rows[:, :-1], nobody, np.array(plays)).T


class Weighted:
    """Any scikit-learn classifier with sample weights: the label is the cheaper decision, the weight what it saves."""

    def __init__(self, rows: Floats, estimator: Any) -> None:
        if not has_fit_parameter(estimator, "sample_weight"):
            raise SpecError(
                "this oracle needs a classifier that takes sample weights", path="oracle",
                given=type(estimator).__name__,
            )  # fmt: skip
        self.rows, self.estimator = rows[:, :-1], estimator

    def best(self, costs: Floats) -> list[Any]:
        found = []
        for cost in costs.T:
            wanted = (cost < 0).astype(int)
            if wanted.min() == wanted.max():
                found.append(int(wanted[0]))
                continue
            found.append(clone(self.estimator).fit(self.rows, wanted, sample_weight=np.abs(cost) / np.abs(cost).mean()))
        return found

    def forget(self) -> None:
        del self.rows

    @staticmethod
    def accepts(plays: list[Any], rows: Floats) -> Bools:
        decided = [
            np.full(len(rows), play == 1) if isinstance(play, int) else play.predict(rows[:, :-1]) == 1
            for play in plays
        ]
        return np.stack(decided, axis=1)


Oracle = LeastSquares | ExactList | Weighted


def make_oracle(oracle: Any, rows: Floats) -> Oracle:
    """``least-squares``, ``exact`` (stumps of the columns), ``logistic``, a class of hypotheses, or a classifier."""
    if oracle == "least-squares":
        return LeastSquares(rows)
    if oracle == "exact":
        return ExactList(rows, Stumps(rows.shape[1] - 1))
    if oracle == "logistic":
        return Weighted(rows, LogisticRegression(solver="newton-cholesky"))
    if hasattr(oracle, "accepts") and hasattr(oracle, "size"):
        return ExactList(rows, oracle)
    if hasattr(oracle, "fit") and hasattr(oracle, "predict"):
        return Weighted(rows, oracle)
    raise SpecError(
        "the oracle is not known", path="oracle", given=str(oracle),
        allowed="least-squares, exact, logistic, a list of hypotheses, or a classifier with sample weights",
    )  # fmt: skip


@dataclass(frozen=True)
class GameNumbers:
    """Public numbers of the game: T rounds of m plays, dual bound C, tolerated violation alpha."""

    rounds: int
    plays: int
    bound: float
    alpha: float


@dataclass(frozen=True)
class UniformNoise:
    """Perturbation of FairNR: uniform of width 2 sqrt(T)/n around zero. Protects nothing."""

    width: float
    rng: Generator

    def draw(self, rows: int, plays: int) -> Floats:
        return self.width * (self.rng.random((rows, plays)) - 0.5)


@dataclass(frozen=True)
class LaplaceNoise:
    """Perturbation as printed: Laplace of the stated scale, on a grid."""

    scale: float
    noise: Noise

    def draw(self, rows: int, plays: int) -> Floats:
        bits = GRID_BITS - math.floor(math.log2(self.scale))
        drawn = self.noise.laplace(math.ldexp(self.scale, bits), rows * plays)
        return np.ldexp(drawn.astype(np.float64), -bits).reshape(rows, plays)


def printed_scale(rows: int, game: GameNumbers, epsilon: float, delta: float) -> float:
    """1/eps' of Algorithm 3."""
    spread = (2 + game.bound) / rows
    return spread * math.sqrt(game.plays * game.rounds * math.log(1 / delta)) / epsilon


def run_game(
    oracle: Oracle, rows: Floats, cells: Ints, counter: Counter, labels: Ints, members: Bools, game: GameNumbers,
    perturb: UniformNoise | LaplaceNoise,
) -> tuple[list[Any], float]:  # fmt: skip
    """All plays, and the violation of their mixture on these rows. O(rounds x plays x rows x columns)."""
    count, people = len(labels), counter.people
    negatives = people[:, 0] / max(float(people[:, 0].sum()), 1.0)
    shares = members @ negatives  # Pr[g | y = 0]
    base = np.where(labels == 1, -1.0, 1.0) / count
    cost = np.zeros(count)
    found: list[Any] = []
    accepted = np.zeros(count)
    dual, sign = -1, 1.0
    for _ in range(game.rounds):
        cost += base
        if dual >= 0:  # accepting a negative raises FP by 1/N_0 overall and FP_g only inside g
            step = sign * game.bound / count * (shares[dual] - members[dual])
            cost += np.where(labels == 0, step[cells], 0.0)
        plays = oracle.best(cost[:, None] + perturb.draw(count, game.plays))
        voted = oracle.accepts(plays, rows).sum(axis=1).astype(np.float64)
        found += plays
        accepted += voted
        signed = signed_violations(members, counter.count(voted / game.plays))
        dual = int(np.argmax(np.abs(signed)))
        sign = math.copysign(1.0, float(signed[dual]))
        if abs(float(signed[dual])) <= game.alpha:
            dual = -1
    mixture = signed_violations(members, counter.count(accepted / (game.rounds * game.plays)))
    return found, float(np.abs(mixture).max())


class TheoryWarning(UserWarning):
    """A theorem asks for far more than was run."""


class _NoRegret(Randomised):
    """What FairNR and its printed private form share: rows in, a mixture of oracle answers out."""

    by_columns = True
    rounds: int
    plays: int
    bound: float
    alpha: float
    oracle: Any
    subgroups: Kind
    errors: str

    def _play(self, people: TrainingPeople, perturb: UniformNoise | LaplaceNoise) -> float:
        game = GameNumbers(int(self.rounds), int(self.plays), float(self.bound), float(self.alpha))
        self._oracle = make_oracle(self.oracle, people.rows)
        members, index, labels = self.subgroups_.members, people.members.index, people.labels
        if self._flipped:
            labels = 1 - labels
        counter = Counter(index, labels, len(self.group_names_))
        found, violation = run_game(self._oracle, people.rows, index, counter, labels, members, game, perturb)
        self._oracle.forget()
        self.plays_, self.weights_ = found, np.full(len(found), 1 / len(found))
        return violation

    @property
    def _flipped(self) -> bool:
        """Whether labels are flipped: false positives of the flipped problem are false negatives of this one."""
        return self.errors != FALSE_POSITIVES

    def _chance(self, rows: Floats) -> Floats:
        accepted: Floats = self._oracle.accepts(self.plays_, rows).mean(axis=1)
        return 1.0 - accepted if self._flipped else accepted

    def decision_chance(self, X: ArrayLike, *, sensitive_features: Any = None) -> Floats:
        """Probability that `predict` says the second class: the share of the plays that accept."""
        check_is_fitted(self, "plays_")
        return self._chance(extended(features_of(self, X, reset=False)[0], float(self.norm_bound)))


@estimator_of(FairNR, also=CLASSES | {"random_state": None}, norm_bound=1.0)
class FairNRClassifier(_NoRegret):
    """FairNR (learner ``fair-nr``): no privacy (``guarantee_`` is None); ``violation_`` is that of the mixture on the
    training people.

    ``oracle`` is ``least-squares``, ``exact``, ``logistic``, a finite class of hypotheses, or any scikit-learn
    classifier that takes sample weights.
    """

    private = False

    def fit(self, X: ArrayLike, y: ArrayLike, *, sensitive_features: Any = None, **extra: Any) -> FairNRClassifier:
        """Play the game on labels of two classes."""
        people = TrainingPeople(self, X, y, sensitive_features, extra, self.subgroups)
        rng = generator(int(check_random_state(self.random_state).randint(2**31 - 1)), "fair-nr")
        width = 2 * np.sqrt(self.rounds) / len(people.rows)
        self.violation_ = self._play(people, UniformNoise(float(width), rng))
        counted = people.counter.count(self._chance(people.rows))
        self.report_ = GroupReport(
            "raw",
            error=float((counted[:, 0, 1] + counted[:, 1, 0]).sum() / counted.sum()),
            discrimination=gaps_of(rates_of(counted, self.group_names_)),
            weighted=weighted_of(counted),
            subgroup_violation=self.violation_,
        )
        self.error_, self.discrimination_ = self.report_["error"], self.report_["discrimination"]
        self.guarantee_, self.simulated_ = None, False
        return self


@estimator_of(PrivateFairNR, also=CLASSES | SPENDING, epsilon=1.0, norm_bound=1.0)
class PrivateFairNRClassifier(Configured, Spending, _NoRegret):
    """Private-FairNR as printed (learner ``private-fair-nr``): its claim is not established and it says so."""

    private = True

    def learner(self) -> PrivateFairNR:
        """The public configuration; an oracle of your own stands in no spec."""
        own = {} if isinstance(self.oracle, str) else {"oracle": "least-squares"}
        made: PrivateFairNR = self._configured(**own)
        return made

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
        people = TrainingPeople(self, X, y, sensitive_features, extra, self.subgroups)
        n, dimension = len(people.rows), max(1, int(np.ceil(np.log2(len(self.subgroups_.names)))))
        asked = theory_rounds(max(n, 2), 0.1, 0.05, dimension, learner.epsilon, learner.delta)
        warnings.warn(
            f"Private-FairNR runs {learner.rounds} rounds of {learner.plays} plays; its theorem (alpha 0.1, beta 0.05) "
            f"asks for {asked.rounds:.1e} rounds of {asked.plays:.1e} and an epsilon of {asked.epsilon_demanded:.1e}",
            TheoryWarning,
            stacklevel=2,
        )
        game = GameNumbers(learner.rounds, learner.plays, learner.bound, learner.alpha)
        scale = printed_scale(n, game, learner.epsilon, learner.delta)

        def draw(source: Noise) -> dict[str, Any]:
            self._play(people, LaplaceNoise(scale, source))
            return {}

        self._spend(learner, learner.guarantee(), learner.event(), 1, noise, draw)
        self.report_ = self.error_ = self.discrimination_ = None
        return self
