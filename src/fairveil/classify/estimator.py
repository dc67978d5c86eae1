"""`PrivateLogisticRegression`: the private learner as a scikit-learn classifier. Importing this needs scikit-learn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from fairveil.arrays import Floats
from fairveil.classify.learners import PrivateLogistic
from fairveil.classify.mixins import SPENDING, Binary, Configured, estimator_of
from fairveil.classify.spending import Spending
from fairveil.data.inputs import classes_of, features_of, refuse_weights
from fairveil.privacy.grid import clip_norm
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise


@estimator_of(
    PrivateLogistic, also={"classes": None, **SPENDING}, renamed={"intercept": "fit_intercept"}, epsilon=1.0,
    norm_bound=1.0, retrainings=1,
)  # fmt: skip
class PrivateLogisticRegression(Configured, Spending, Binary):
    """Differentially private logistic regression with the scikit-learn interface.

    Every call of ``fit`` is one release; the budget covers ``retrainings`` of them. ``ledger`` (or the path of one) is
    charged before noise meets data. Without it the estimator and its clones share a counter: ``guarantee_`` belongs to
    the fit and says when there were more fits than planned, as in a search over parameters, whose held-out scores are
    not protected either. Neighbours are rows replaced in every variant; ``neighbours="zero-out-row"`` is for rows taken
    out. Noise comes from the operating system unless ``random_state`` is given, which makes the result repeatable and
    marks it ``simulated_``; ``noise`` takes a source of your own (such an estimator cannot be cloned).
    ``classes`` are the two public labels; left out they are read from ``y`` and taken as public.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(500, 2))
    >>> model = PrivateLogisticRegression(epsilon=5.0, norm_bound=2.0, random_state=0).fit(x, x[:, 0] > 0)
    >>> bool(model.score(x, x[:, 0] > 0) > 0.9), model.guarantee_.epsilon
    (True, 5.0)
    """

    private = True

    def _promise(self, learner: PrivateLogistic) -> Guarantee:
        promise = learner.guarantee()
        if self.classes is not None:
            return promise
        return replace(promise, notes=(*promise.notes, "the two labels are read from y and taken as public"))

    def fit(self, X: ArrayLike, y: ArrayLike, **extra: Any) -> PrivateLogisticRegression:
        """Clip the rows, solve, add noise. One release."""
        refuse_weights(extra)
        learner = self.learner()
        self._check_budget(learner.event())
        features, labels = features_of(self, X, y, reset=True)
        self.classes_ = classes_of(labels, self.classes, type(self).__name__)
        signs = np.where(labels == self.classes_[1], 1.0, -1.0)
        rows = learner_rows(learner, features)

        def draw(source: Noise) -> dict[str, Any]:
            return {"weights": learner.perturbation(len(rows), rows.shape[1]).release(rows, signs, source)}

        noise = self._source("private-logistic")
        weights = self._spend(learner, self._promise(learner), learner.event(), learner.fits, noise, draw)["weights"]
        self.coef_ = weights[None, : features.shape[1]]
        self.intercept_ = weights[features.shape[1] :] if self.fit_intercept else np.zeros(1)
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Log odds of the second class. Rows are clipped as in training."""
        check_is_fitted(self)
        features = clip_norm(features_of(self, X, reset=False)[0], self.norm_bound)
        return features @ self.coef_[0] + self.intercept_[0]

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probabilities of both classes."""
        second = expit(self.decision_function(X))
        return np.stack([1 - second, second], axis=1)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The likelier class."""
        check_is_fitted(self)
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


def learner_rows(learner: PrivateLogistic, features: Floats) -> Floats:
    """Rows as the solver takes them: clipped to the public bound, with the intercept entry."""
    clipped = clip_norm(features, learner.bound_of_features)
    if not learner.intercept:
        return clipped
    return np.concatenate([clipped, np.ones((len(clipped), 1))], axis=1)
