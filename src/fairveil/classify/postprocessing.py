"""fairlearn's threshold optimizer with explicit groups. Importing this needs fairlearn."""

from __future__ import annotations

from typing import Any

import numpy as np
from fairlearn.postprocessing import ThresholdOptimizer
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state

CONSTRAINTS = {
    "demographic-parity": "demographic_parity",
    "equal-opportunity": "true_positive_rate_parity",
    "equalized-odds": "equalized_odds",
    "false-positive": "false_positive_rate_parity",
}


class ThresholdClassifier(ClassifierMixin, BaseEstimator):
    """Logistic regression with thresholds per group, chosen on the training rows; no privacy.

    Groups with people of one label only cannot be post-processed: they get the plain decision. With fewer than two
    groups left, or ``fairness="none"``, everybody does.
    """

    def __init__(self, fairness: str = "equal-opportunity", strength: float = 1.0) -> None:
        self.fairness = fairness
        self.strength = strength

    def fit(self, X: ArrayLike, y: ArrayLike, *, sensitive_features: ArrayLike) -> ThresholdClassifier:
        """Fit on labels 0 and 1."""
        features, labels, groups = np.asarray(X), np.asarray(y).astype(int), np.asarray(sensitive_features).astype(str)
        self.classes_ = np.unique(labels)
        self.base_ = LogisticRegression(C=1 / self.strength, solver="newton-cholesky").fit(features, labels)
        self.kept_ = [g for g in np.unique(groups) if len(np.unique(labels[groups == g])) == 2]
        self.model_ = None
        if self.fairness != "none" and len(self.kept_) >= 2:
            kept = np.isin(groups, self.kept_)
            made = ThresholdOptimizer(
                estimator=self.base_,
                constraints=CONSTRAINTS[self.fairness],
                prefit=True,
                predict_method="predict_proba",
            )
            self.model_ = made.fit(features[kept], labels[kept], sensitive_features=groups[kept])
        return self

    def decision_chance(self, X: ArrayLike, *, sensitive_features: ArrayLike) -> NDArray[np.float64]:
        """Probability that each row is accepted."""
        features, groups = np.asarray(X), np.asarray(sensitive_features).astype(str)
        chance = self.base_.predict(features).astype(np.float64)
        kept = np.isin(groups, self.kept_)
        if self.model_ is not None and kept.any():
            both = self.model_._pmf_predict(features[kept], sensitive_features=groups[kept])
            chance[kept] = np.clip(both[:, 1], 0.0, 1.0)
        return chance

    def predict(self, X: ArrayLike, *, sensitive_features: ArrayLike, random_state: Any = None) -> NDArray[np.int64]:
        """One draw for every row."""
        chance = self.decision_chance(X, sensitive_features=sensitive_features)
        return (check_random_state(random_state).random_sample(len(chance)) < chance).astype(np.int64)
