"""Cost-sensitive oracles: the rule of a class with the least total cost of accepting.

Rows z come with the cost of accepting each person (negative: accepting helps). A play is whatever describes the rule.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from fairveil.classify.game.hypotheses import Hypotheses
from fairveil.errors import SpecError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


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
        from sklearn.utils.validation import has_fit_parameter

        if not has_fit_parameter(estimator, "sample_weight"):
            raise SpecError(
                "this oracle needs a classifier that takes sample weights", path="oracle",
                given=type(estimator).__name__,
            )  # fmt: skip
        self.rows, self.estimator = rows[:, :-1], estimator

    def best(self, costs: Floats) -> list[Any]:
        from sklearn.base import clone

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
        from fairveil.classify.game.hypotheses import Stumps

        return ExactList(rows, Stumps(rows.shape[1] - 1))
    if oracle == "logistic":
        from sklearn.linear_model import LogisticRegression

        return Weighted(rows, LogisticRegression(solver="newton-cholesky"))
    if hasattr(oracle, "accepts") and hasattr(oracle, "size"):
        return ExactList(rows, oracle)
    if hasattr(oracle, "fit") and hasattr(oracle, "predict"):
        return Weighted(rows, oracle)
    raise SpecError(
        "the oracle is not known", path="oracle", given=str(oracle),
        allowed="least-squares, exact, logistic, a list of hypotheses, or a classifier with sample weights",
    )  # fmt: skip
