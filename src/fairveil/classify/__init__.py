"""Classifiers as learners: plain, private, fair. Estimators follow scikit-learn; configurations are public."""

from typing import TYPE_CHECKING, Any

from fairveil.classify.learner import Learner
from fairveil.classify.learners import FairReductions, Logistic, PrivateLogistic

if TYPE_CHECKING:
    from fairveil.classify.estimator import PrivateLogisticRegression

__all__ = [
    "FairReductions",
    "Learner",
    "Logistic",
    "PrivateLogistic",
    "PrivateLogisticRegression",
]


def __getattr__(name: str) -> Any:
    """`PrivateLogisticRegression` needs scikit-learn, so it is imported when it is first asked for."""
    if name == "PrivateLogisticRegression":
        from fairveil.classify.learner import scikit_learn

        scikit_learn()
        from fairveil.classify.estimator import PrivateLogisticRegression

        return PrivateLogisticRegression
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
