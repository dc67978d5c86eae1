"""Classifiers as learners: plain, private, fair. Estimators follow scikit-learn; configurations are public."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairveil.classify.fair.learner import PrivateFair
from fairveil.classify.learner import Learner
from fairveil.classify.learners import FairReductions, Logistic, PrivateLogistic

if TYPE_CHECKING:
    from fairveil.classify.estimator import PrivateLogisticRegression
    from fairveil.classify.fair.estimator import PrivateFairClassifier

__all__ = [
    "FairReductions",
    "Learner",
    "Logistic",
    "PrivateFair",
    "PrivateFairClassifier",
    "PrivateLogistic",
    "PrivateLogisticRegression",
]

_ESTIMATORS = {
    "PrivateLogisticRegression": "fairveil.classify.estimator",
    "PrivateFairClassifier": "fairveil.classify.fair.estimator",
}


def __getattr__(name: str) -> Any:
    """Estimators need scikit-learn, so each is imported when it is first asked for."""
    if name not in _ESTIMATORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fairveil.classify.learner import scikit_learn

    scikit_learn()
    return getattr(import_module(_ESTIMATORS[name]), name)
