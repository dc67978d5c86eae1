"""fairlearn's fair classifiers with explicit ``sensitive_features``: reductions and thresholds. Needs fairlearn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from fairlearn import postprocessing, reductions
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state

from fairveil.arrays import Floats, Ints
from fairveil.classify.learners import FairReductions, ThresholdOptimizer
from fairveil.classify.mixins import estimator_of
from fairveil.fairness.notions import Notion, by_constraint


@estimator_of(FairReductions, by_place=("constraint", "slack", "strength", "iterations"))
class ReductionsClassifier(ClassifierMixin, BaseEstimator):
    """A randomised mixture of logistic regressions under a fairness constraint; no privacy.

    Groups that a constraint cannot speak about (nobody in them, or for ``eqopt`` nobody qualified, for ``fp`` nobody
    unqualified) do not bind it; with fewer than two groups left, plain logistic regression is fitted.
    """

    def fit(self, X: ArrayLike, y: ArrayLike, *, sensitive_features: ArrayLike) -> ReductionsClassifier:
        """Fit on labels 0 and 1."""
        labels, groups = np.asarray(y), np.asarray(sensitive_features)
        self.classes_ = np.unique(labels)
        base = LogisticRegression(C=1 / self.strength, solver="newton-cholesky")
        notion = by_constraint(self.constraint)
        concerned = [groups[np.isin(labels, bound)] for bound in notion.labels]
        if min(len(np.unique(some)) for some in concerned) < 2:
            self.model_: Any = base.fit(X, labels)
            return self
        moment = getattr(reductions, notion.fairlearn)(difference_bound=self.slack)
        mixture = reductions.ExponentiatedGradient(base, constraints=moment, max_iter=self.iterations)
        with warnings.catch_warnings():  # fairlearn's own use of pandas, nothing a caller can change
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", FutureWarning)
            self.model_ = mixture.fit(X, labels, sensitive_features=groups)
        return self

    def decision_chance(self, X: ArrayLike) -> Floats:
        """Probability that the mixture accepts each row."""
        if isinstance(self.model_, LogisticRegression):
            return self.model_.predict(X).astype(np.float64)
        return np.asarray(self.model_._pmf_predict(X))[:, 1]

    def predict(self, X: ArrayLike, random_state: Any = None) -> Ints:
        """One draw from the mixture for every row."""
        if isinstance(self.model_, LogisticRegression):
            return self.model_.predict(X)
        return np.asarray(self.model_.predict(X, random_state=random_state))


@estimator_of(ThresholdOptimizer, by_place=("fairness", "strength"))
class ThresholdClassifier(ClassifierMixin, BaseEstimator):
    """Logistic regression with thresholds per group, chosen on the training rows; no privacy.

    Groups with people of one label only cannot be post-processed: they get the plain decision. With fewer than two
    groups left, or ``fairness="none"``, everybody does.
    """

    def fit(self, X: ArrayLike, y: ArrayLike, *, sensitive_features: ArrayLike) -> ThresholdClassifier:
        """Fit on labels 0 and 1."""
        features, labels, groups = np.asarray(X), np.asarray(y).astype(int), np.asarray(sensitive_features).astype(str)
        self.classes_ = np.unique(labels)
        self.base_ = LogisticRegression(C=1 / self.strength, solver="newton-cholesky").fit(features, labels)
        self.kept_ = [g for g in np.unique(groups) if len(np.unique(labels[groups == g])) == 2]
        self.model_ = None
        if self.fairness != "none" and len(self.kept_) >= 2:
            kept = np.isin(groups, self.kept_)
            made = postprocessing.ThresholdOptimizer(
                estimator=self.base_,
                constraints=Notion.of(self.fairness).optimizer,
                prefit=True,
                predict_method="predict_proba",
            )
            self.model_ = made.fit(features[kept], labels[kept], sensitive_features=groups[kept])
        return self

    def decision_chance(self, X: ArrayLike, *, sensitive_features: ArrayLike) -> Floats:
        """Probability that each row is accepted."""
        features, groups = np.asarray(X), np.asarray(sensitive_features).astype(str)
        chance = self.base_.predict(features).astype(np.float64)
        kept = np.isin(groups, self.kept_)
        if self.model_ is not None and kept.any():
            both = self.model_._pmf_predict(features[kept], sensitive_features=groups[kept])
            chance[kept] = np.clip(both[:, 1], 0.0, 1.0)
        return chance

    def predict(self, X: ArrayLike, *, sensitive_features: ArrayLike, random_state: Any = None) -> Ints:
        """One draw for every row."""
        chance = self.decision_chance(X, sensitive_features=sensitive_features)
        return (check_random_state(random_state).random_sample(len(chance)) < chance).astype(np.int64)
