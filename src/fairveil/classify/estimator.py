"""`PrivateLogisticRegression`: the private learner as a scikit-learn classifier. Importing this needs scikit-learn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from fairveil.classify.learners import PrivateLogistic
from fairveil.privacy.events import Event
from fairveil.privacy.grid import clip_norm
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise, SecureNoise, SeededNoise


class PrivateLogisticRegression(ClassifierMixin, BaseEstimator):
    """Differentially private logistic regression with the scikit-learn interface.

    Every call of ``fit`` is one release and costs what `event` says divided by ``retrainings``: the budget covers that
    many fits, and the estimator counts them (a clone counts anew: a search over parameters fits many). Noise comes
    from the operating system unless ``random_state`` is given, which makes the result repeatable and marks it
    ``simulated_``; ``noise`` takes a source of your own (such an estimator cannot be cloned).
    ``classes`` are the two public labels; left out they are read from ``y`` and taken as public.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(500, 2))
    >>> model = PrivateLogisticRegression(epsilon=5.0, norm_bound=2.0, random_state=0).fit(x, x[:, 0] > 0)
    >>> bool(model.score(x, x[:, 0] > 0) > 0.9), model.guarantee().epsilon
    (True, 5.0)
    """

    private = True

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-5,
        method: str = "objective",
        definition: str = "gaussian",
        norm_bound: float = 1.0,
        fit_intercept: bool = True,
        strength: float | None = None,
        tolerance: float | None = None,
        rows: int | None = None,
        most_rows: int | None = None,
        retrainings: int = 1,
        classes: tuple[Any, Any] | None = None,
        noise: Noise | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.definition = definition
        self.norm_bound = norm_bound
        self.fit_intercept = fit_intercept
        self.strength = strength
        self.tolerance = tolerance
        self.rows = rows
        self.most_rows = most_rows
        self.retrainings = retrainings
        self.classes = classes
        self.noise = noise
        self.random_state = random_state

    def learner(self) -> PrivateLogistic:
        """The public configuration; raises SpecError for a parameter out of range."""
        return PrivateLogistic(
            epsilon=_number(self.epsilon),
            delta=_number(self.delta),
            method=self.method,  # type: ignore[arg-type]
            definition=self.definition,  # type: ignore[arg-type]
            norm_bound=_number(self.norm_bound),
            intercept=self.fit_intercept,
            strength=_number(self.strength),
            tolerance=_number(self.tolerance),
            rows=self.rows,
            most_rows=self.most_rows,
            retrainings=self.retrainings,
        )

    def event(self) -> Event:
        """What one person pays over all planned fits."""
        return self.learner().event()

    def guarantee(self) -> Guarantee:
        """The promise over all planned fits; not established once there were more of them."""
        learner, done = self.learner(), getattr(self, "_fits", 0)
        promise = learner.guarantee()
        if self.classes is None:
            promise = replace(promise, notes=(*promise.notes, "the two labels are read from y and taken as public"))
        if done <= learner.fits:
            return promise
        excess = f"fitted {done} times, but the budget was split over {learner.fits}"
        return replace(promise, established=False, notes=(*promise.notes, excess))

    def fit(self, X: ArrayLike, y: ArrayLike) -> PrivateLogisticRegression:
        """Clip the rows, solve, add noise. One release."""
        learner = self.learner()
        features, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        self.classes_ = self._classes(labels)
        signs = np.where(labels == self.classes_[1], 1.0, -1.0)
        rows = learner_rows(learner, features)
        noise = self._source()
        self._fits = getattr(self, "_fits", 0) + 1  # counted before anything is drawn: a fit that fails was one
        weights = learner.perturbation(len(rows), rows.shape[1]).release(rows, signs, noise)
        self.coef_ = weights[None, : features.shape[1]]
        self.intercept_ = weights[features.shape[1] :] if self.fit_intercept else np.zeros(1)
        self.simulated_ = noise.simulated
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Log odds of the second class. Rows are clipped as in training."""
        check_is_fitted(self)
        features = clip_norm(validate_data(self, X, dtype=np.float64, reset=False), self.norm_bound)
        return features @ self.coef_[0] + self.intercept_[0]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probabilities of both classes."""
        second = expit(self.decision_function(X))
        return np.stack([1 - second, second], axis=1)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The likelier class."""
        check_is_fitted(self)
        return self.classes_[(self.decision_function(X) > 0).astype(int)]

    def _classes(self, labels: NDArray[Any]) -> NDArray[Any]:
        found = np.unique(labels)
        if self.classes is not None:
            public = np.asarray(self.classes)
            if public.shape != (2,) or public[0] == public[1]:
                raise ValueError("classes must be two different labels")
            if not np.isin(found, public).all():
                raise ValueError("y has labels that are not among the two public classes")
            return public
        kind = type_of_target(labels, input_name="y", raise_unknown=True)
        if kind != "binary":
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        if len(found) != 2:
            raise ValueError(f"PrivateLogisticRegression needs two classes; y has {len(found)} class.")
        return found

    def _source(self) -> Noise:
        if self.noise is not None:
            return self.noise
        if self.random_state is None:
            return SecureNoise()
        return SeededNoise(int(check_random_state(self.random_state).randint(2**31 - 1)), "private-logistic")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        tags.non_deterministic = self.random_state is None
        return tags


def learner_rows(learner: PrivateLogistic, features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows as the solver takes them: clipped to the public bound, with the intercept entry."""
    clipped = clip_norm(features, learner.norm_bound)
    if not learner.intercept:
        return clipped
    return np.concatenate([clipped, np.ones((len(clipped), 1))], axis=1)


def _number(value: Any) -> Any:
    """Integers and numpy numbers as plain floats; anything else is left for the configuration to refuse."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return value
    return float(value)
