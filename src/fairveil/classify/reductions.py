"""fairlearn's exponentiated gradient with explicit ``sensitive_features``. Importing this needs fairlearn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from fairlearn.reductions import (
    DemographicParity,
    EqualizedOdds,
    ExponentiatedGradient,
    FalsePositiveRateParity,
    TruePositiveRateParity,
)
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

CONSTRAINTS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "dp": (DemographicParity, ()),
    "eqopt": (TruePositiveRateParity, (1,)),
    "odds": (EqualizedOdds, (0, 1)),
    "fp": (FalsePositiveRateParity, (0,)),
}
"""fairlearn's constraint, and the labels that every group it binds must have."""


class ReductionsClassifier(ClassifierMixin, BaseEstimator):
    """A randomised mixture of logistic regressions under a fairness constraint; no privacy.

    Groups that a constraint cannot speak about (nobody in them, or for ``eqopt`` nobody qualified, for ``fp`` nobody
    unqualified) do not bind it; with fewer than two groups left, plain logistic regression is fitted.
    """

    def __init__(
        self, constraint: str = "dp", slack: float = 0.02, strength: float = 1.0, iterations: int = 30
    ) -> None:
        self.constraint = constraint
        self.slack = slack
        self.strength = strength
        self.iterations = iterations

    def fit(self, X: ArrayLike, y: ArrayLike, *, sensitive_features: ArrayLike) -> ReductionsClassifier:
        """Fit on labels 0 and 1."""
        labels, groups = np.asarray(y), np.asarray(sensitive_features)
        self.classes_ = np.unique(labels)
        base = LogisticRegression(C=1 / self.strength, solver="newton-cholesky")
        kind, needed = CONSTRAINTS[self.constraint]
        concerned = [groups[labels == label] for label in needed] or [groups]
        if min(len(np.unique(some)) for some in concerned) < 2:
            self.model_: Any = base.fit(X, labels)
            return self
        mixture = ExponentiatedGradient(base, constraints=kind(difference_bound=self.slack), max_iter=self.iterations)
        with warnings.catch_warnings():  # fairlearn's own use of pandas, nothing a caller can change
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", FutureWarning)
            self.model_ = mixture.fit(X, labels, sensitive_features=groups)
        return self

    def decision_chance(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probability that the mixture accepts each row."""
        if isinstance(self.model_, LogisticRegression):
            return self.model_.predict(X).astype(np.float64)
        return np.asarray(self.model_._pmf_predict(X))[:, 1]

    def predict(self, X: ArrayLike, random_state: Any = None) -> NDArray[np.int64]:
        """One draw from the mixture for every row."""
        if isinstance(self.model_, LogisticRegression):
            return self.model_.predict(X)
        return np.asarray(self.model_.predict(X, random_state=random_state))
