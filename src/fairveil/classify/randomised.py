"""Rules that toss a coin: probabilities first, one draw a person after that."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state


class Randomised:
    """Mixin: a class that knows `decision_chance` gets `predict` and `predict_proba` of the randomised rule."""

    classes_: NDArray[Any]

    def decision_chance(self, X: ArrayLike, *, sensitive_features: Any = None) -> NDArray[np.float64]:
        """Probability that `predict` says the second class."""
        raise NotImplementedError

    def predict_proba(self, X: ArrayLike, *, sensitive_features: Any = None) -> NDArray[np.float64]:
        """Probability that `predict` says each class."""
        second = self.decision_chance(X, sensitive_features=sensitive_features)
        return np.stack([1 - second, second], axis=1)

    def predict(self, X: ArrayLike, *, sensitive_features: Any = None, random_state: Any = None) -> NDArray[Any]:
        """One draw for every row; the same ``random_state`` draws the same."""
        chance = self.decision_chance(X, sensitive_features=sensitive_features)
        accepted = check_random_state(random_state).random_sample(len(chance)) < chance
        return self.classes_[accepted.astype(int)]

    def score(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, *, sensitive_features: Any = None
    ) -> float:
        """Expected accuracy of the randomised rule."""
        second = self.decision_chance(X, sensitive_features=sensitive_features)
        right = np.where(np.asarray(y) == self.classes_[1], second, 1 - second)
        right = np.where(np.isin(np.asarray(y), self.classes_), right, 0.0)
        return float(np.average(right, weights=None if sample_weight is None else np.asarray(sample_weight)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        tags.non_deterministic = getattr(self, "random_state", 0) is None
        return tags
