"""Four ways to value a rule from another rule's log, without privacy: each gives a value with its interval.

Notation: row t was decided with probability p_t for its arm a_t, the rule to be valued gives that arm pi_t; the weight
is w_t = pi_t/p_t and y_t in [0, 1] is the outcome. Each function returns the mean outcome the rule would have had.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from fairveil.arrays import Floats
from fairveil.data.logs import Log
from fairveil.errors import DependencyError, SpecError
from fairveil.randomness import Generator


@dataclass(frozen=True)
class Estimate:
    """Value of a rule with a two-sided interval; ``rows`` is how many rows carry it, None where that is not said."""

    value: float
    low: float
    high: float
    rows: int | None = None

    def scaled(self, low: float, high: float) -> Estimate:
        """From [0, 1] to outcomes in [low, high]."""
        width = high - low
        value, bottom, top = (low + width * part for part in (self.value, self.low, self.high))
        return Estimate(value, bottom, top, self.rows)

    def to_dict(self) -> dict[str, Any]:
        table: dict[str, Any] = {"value": self.value, "low": self.low, "high": self.high}
        if self.rows is not None:
            table["rows"] = self.rows
        return table


def quantile(level: float) -> float:
    """Normal quantile of a two-sided interval at this level."""
    return NormalDist().inv_cdf(0.5 + level / 2)


def around(terms: Floats, level: float) -> Estimate:
    """Mean of independent terms with its normal interval."""
    n = len(terms)
    value = float(terms.mean()) if n else math.nan
    half = quantile(level) * float(terms.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return Estimate(value, value - half, value + half, n)


def wilson(outcomes: Floats, level: float) -> Estimate:
    """Mean of outcomes in [0, 1] with Wilson's interval, which holds its own where few rows or no successes are left.

    A variable in [0, 1] with mean p has variance at most p (1 - p): the interval is at least as wide as needed.
    """
    n, z = len(outcomes), quantile(level)
    if n == 0:
        return Estimate(math.nan, 0.0, 1.0, 0)
    mean, room = float(outcomes.mean()), z * z / n
    centre = (mean + room / 2) / (1 + room)
    half = math.sqrt(max(0.0, mean * (1 - mean)) * room + room * room / 4) / (1 + room)
    return Estimate(mean, centre - half, centre + half, n)


#: Parts into which the log is cut when a model of the outcome is fitted on the others.
FOLDS = 5


class Question(NamedTuple):
    """Everything an estimator reads: the log, the rule's law, and public settings."""

    log: Log
    law: Floats
    weights: Floats
    clip: float
    level: float
    rng: Generator
    regressor: Any = None


def replay(question: Question) -> Estimate:
    """Rejection: keep row t with probability w_t / max w; what is kept is a run of the rule itself.

    Unbiased for any known logging law. With uniform logging and a rule that always plays one arm it keeps the rows of
    that arm. Reference: Li, Chu, Langford and Wang 2011.
    """
    bound = float(question.weights.max())
    kept = question.rng.random(len(question.weights)) * bound < question.weights
    return wilson(question.log.outcomes[kept], question.level)


def clipped_importance(question: Question) -> Estimate:
    """Mean of min(w, clip) y: unbiased without clipping, low by at most what the clipped rows lose.

    Reference: Horvitz and Thompson 1952; clipping as in Ionides 2008.
    """
    return around(np.minimum(question.weights, question.clip) * question.log.outcomes, question.level)


def self_normalised(question: Question) -> Estimate:
    """Sum of w y over sum of w: never outside the range of the outcomes; bias of order 1/n.

    The interval is that of a ratio (delta method). Reference: Swaminathan and Joachims 2015.
    """
    w, y = question.weights, question.log.outcomes
    value = float((w * y).sum() / w.sum())
    half = quantile(question.level) * float(np.sqrt((w * w * (y - value) ** 2).sum())) / float(w.sum())
    return Estimate(value, value - half, value + half, len(w))


def doubly_robust(question: Question) -> Estimate:
    """A model of the outcome, corrected by weighted residuals: right when the model or the propensities are.

    The model q(x, a) is fitted on the other folds, so that no row is valued by a model that has seen it.
    Reference: Dudik, Langford and Li 2011; cross-fitting as in Chernozhukov et al. 2018.
    """
    log, n = question.log, len(question.log)
    folds = question.rng.permutation(n) % FOLDS
    modelled = np.empty((n, len(log.arms)))
    for fold in range(FOLDS):
        train, test = folds != fold, folds == fold
        modelled[test] = _predict(question.regressor, log, train, test)
    own = modelled[np.arange(n), log.chosen]
    weights = np.minimum(question.weights, question.clip)
    return around((question.law * modelled).sum(axis=1) + weights * (log.outcomes - own), question.level)


def _predict(regressor: Any, log: Log, train: Floats, test: Floats) -> Floats:
    """Outcomes of every arm for the rows of a fold. Inputs are the features, one column an arm, and their products."""
    model = _regressor(regressor)
    model.fit(_design(log, log.chosen)[train], log.outcomes[train])
    arms = range(len(log.arms))
    return np.stack([model.predict(_design(log, np.full(len(log), arm))[test]) for arm in arms], axis=1)


def _design(log: Log, arms: Any) -> Floats:
    one_hot = np.eye(len(log.arms))[arms]
    products = (one_hot[:, :, None] * log.features[:, None, :]).reshape(len(log), -1)
    return np.concatenate([log.features, one_hot, products], axis=1)


def _regressor(given: Any) -> Any:
    try:
        from sklearn.base import clone
        from sklearn.linear_model import Ridge
    except ImportError:
        raise DependencyError("a model of the outcome needs scikit-learn", fix="pip install 'fairveil[lab]'") from None
    if given is None:
        return Ridge(alpha=1.0)
    if not (hasattr(given, "fit") and hasattr(given, "predict")):
        raise SpecError(
            "this is not a regressor", path="regressor", given=type(given).__name__, allowed="fit and predict"
        )
    return clone(given)


ESTIMATORS: dict[str, Callable[[Question], Estimate]] = {
    "replay": replay,
    "clipped-importance": clipped_importance,
    "self-normalised": self_normalised,
    "doubly-robust": doubly_robust,
}
