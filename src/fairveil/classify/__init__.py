"""Classifiers as learners: plain, private, fair. Estimators follow scikit-learn; configurations are public."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairveil.classify.fair.learner import PrivateFair
from fairveil.classify.game.ftpl import FollowPerturbedLeader
from fairveil.classify.game.learners import ExponentialFair, FairNR, PrivateFairNR, PrivateGame
from fairveil.classify.game.theory import required_samples, theory_rounds
from fairveil.classify.learner import Learner
from fairveil.classify.learners import FairReductions, Logistic, PrivateLogistic, ThresholdOptimizer
from fairveil.classify.spending import RefitWarning

if TYPE_CHECKING:
    from fairveil.classify.estimator import PrivateLogisticRegression
    from fairveil.classify.fair.estimator import PrivateFairClassifier
    from fairveil.classify.game.estimators import ExponentialFairClassifier, PrivateGameClassifier
    from fairveil.classify.game.no_regret import FairNRClassifier, PrivateFairNRClassifier
    from fairveil.classify.pipelines import PublicEncoder, check_pipeline

__all__ = [
    "ExponentialFair",
    "ExponentialFairClassifier",
    "FairNR",
    "FairNRClassifier",
    "FairReductions",
    "FollowPerturbedLeader",
    "Learner",
    "Logistic",
    "PrivateFair",
    "PrivateFairClassifier",
    "PrivateFairNR",
    "PrivateFairNRClassifier",
    "PrivateGame",
    "PrivateGameClassifier",
    "PrivateLogistic",
    "PrivateLogisticRegression",
    "PublicEncoder",
    "RefitWarning",
    "ThresholdOptimizer",
    "check_pipeline",
    "required_samples",
    "theory_rounds",
]

_ESTIMATORS = {
    "PrivateLogisticRegression": "fairveil.classify.estimator",
    "PrivateFairClassifier": "fairveil.classify.fair.estimator",
    "ExponentialFairClassifier": "fairveil.classify.game.estimators",
    "FairNRClassifier": "fairveil.classify.game.no_regret",
    "PrivateFairNRClassifier": "fairveil.classify.game.no_regret",
    "PrivateGameClassifier": "fairveil.classify.game.estimators",
    "PublicEncoder": "fairveil.classify.pipelines",
    "check_pipeline": "fairveil.classify.pipelines",
}


def __getattr__(name: str) -> Any:
    """Estimators need scikit-learn, so each is imported when it is first asked for."""
    if name not in _ESTIMATORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fairveil.classify.learner import scikit_learn

    scikit_learn()
    return getattr(import_module(_ESTIMATORS[name]), name)
