"""What a learner is: public configuration that makes scikit-learn style estimators and knows what fitting them costs.

A later learner plugs in by registering a configuration of this kind; the closed loop in `fairveil.dynamics` takes it
unchanged. An estimator needs ``fit(X, y)`` and ``predict(X)``; where its methods accept ``sensitive_features`` they are
given the group of every row.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fairveil.arrays import Floats, Ints
from fairveil.configuration import unless
from fairveil.errors import DependencyError, SpecError
from fairveil.privacy.events import Event, NothingEvent
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator

ONE_ROW = "a person stands in one row of a fit: an ensemble that repeats rows (bootstrap) is not covered"
"""A note of every promise: who finds a row twice has looked at rows, so no fit refuses that."""


@dataclass(frozen=True)
class Public:
    """What is public about a learner's data: groups, a bound on the norm of a row, categories by sensitive column."""

    groups: tuple[str, ...]
    norm_bound: float
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Learner(ABC):
    """Public configuration of a binary classifier (labels 0 and 1)."""

    name: str = ""
    longterm: bool = True
    """Whether the closed loop of `fairveil.dynamics` may retrain it."""

    fairness: Any = unless("")
    """The notion that is made equal between groups; empty where none is."""

    @property
    def blind(self) -> bool:
        """Whether it must decide without the group, and be given no feature that is one."""
        return False

    @property
    def reads_group(self) -> bool:
        """Whether the rule reads a person's group when it decides."""
        return False

    @property
    def clips_rows(self) -> bool:
        """Whether rows are clipped to a public norm; a game over categories alone has none to clip."""
        return False

    def with_public(self, public: Public) -> Learner:
        """The same learner told what is public about its data, where it was not told before."""
        return self

    def planned(self, fits: int, rows: int, most: int) -> Learner:
        """The same learner for a public number of retrainings with about ``rows`` rows each, never above ``most``."""
        return self

    @abstractmethod
    def estimator(self, noise: Noise, rng: Generator) -> Any:
        """A fresh, unfitted estimator: ``noise`` for everything private, ``rng`` for everything else."""

    def event(self) -> Event:
        """What one unit pays over all planned fits, before any data."""
        return NothingEvent()

    def spent(self, fits: int) -> float | None:
        """Epsilon after this many fits; None for a learner that promises nothing."""
        return None

    def guarantee(self) -> Guarantee | None:
        """The promise over all planned fits, or None."""
        return None


class BoundedLearner(Learner):
    """A learner on rows of a public norm, whose estimator has the same parameters."""

    made: ClassVar[str] = ""
    """Place of the estimator's class: estimators import configurations, not the reverse."""
    norm_bound: float | None

    @property
    def clips_rows(self) -> bool:
        return True

    @property
    def bound_of_features(self) -> float:
        return 1.0 if self.norm_bound is None else self.norm_bound

    def parameters(self) -> dict[str, Any]:
        """Parameters of the estimator."""
        return {**vars(self), "norm_bound": self.bound_of_features}

    def estimator(self, noise: Noise, rng: Generator) -> Any:
        return estimator_class(self.made)(**self.parameters(), noise=noise)

    def changed(self, **facts: Any) -> Self:
        """The same learner with other facts."""
        return type(self)(**{**vars(self), **facts})

    def told(self, **facts: Any) -> Self:
        """The same learner with facts that it was not told before."""
        return self.changed(**{name: fact for name, fact in facts.items() if vars(self)[name] is None})


class PlannedLearner(BoundedLearner):
    """A private learner that splits its budget over a public number of retrainings with a public number of rows."""

    strength: float | None
    rows: int | None
    most_rows: int | None
    retrainings: int | None

    @property
    def fits(self) -> int:
        return 1 if self.retrainings is None else self.retrainings

    def check_numbers(self) -> None:
        """Refuse bounds and regularisation beyond floating point."""
        for name, value in {"norm_bound": self.norm_bound, "strength": self.strength}.items():
            if value is not None and not 1e-12 <= value <= 1e12:
                raise SpecError("floating point cannot keep up", path=name, given=value, allowed="in [1e-12, 1e12]")

    def planned(self, fits: int, rows: int, most: int) -> Learner:
        nominal, allowed = self.rows or rows, planned_fits(self.retrainings, fits)
        return self.changed(retrainings=allowed, rows=nominal, most_rows=max(self.most_rows or 0, most, nominal))


def planned_fits(retrainings: int | None, fits: int) -> int:
    """The larger of a plan and what will come; a smaller plan is refused."""
    if retrainings is not None and retrainings < fits:
        raise SpecError(
            "there will be more retrainings than the budget was split over",
            path="retrainings",
            given=retrainings,
            allowed=f"at least {fits}",
            fix="leave it out",
        )
    return retrainings or fits


def fit(estimator: Any, features: NDArray[Any], labels: NDArray[Any], groups: NDArray[Any]) -> Any:
    """Fit with the groups where the estimator asks for them. People of one label only get a constant decision.

    Private estimators are always fitted: whether everybody has the same label is itself private.
    """
    if not getattr(estimator, "private", False) and len(np.unique(labels)) < 2:
        return Constant(int(labels[0]) if len(labels) else 0)
    if accepts(estimator.fit, "sensitive_features"):
        return estimator.fit(features, labels, sensitive_features=groups)
    return estimator.fit(features, labels)


def predict(estimator: Any, features: NDArray[Any], groups: NDArray[Any], rng: Generator) -> Ints:
    """Decisions 0 or 1; a randomised rule draws from ``rng``."""
    extra: dict[str, Any] = {}
    if accepts(estimator.predict, "sensitive_features"):
        extra["sensitive_features"] = groups
    if accepts(estimator.predict, "random_state"):
        extra["random_state"] = int(rng.integers(2**31))
    return np.asarray(estimator.predict(features, **extra)).astype(np.int64)


def chances(estimator: Any, features: NDArray[Any], groups: Any) -> Floats:
    """Probability that each person is accepted: exact for randomised rules, 0 or 1 for the others."""
    rule = getattr(estimator, "decision_chance", None) or estimator.predict
    extra = {"sensitive_features": groups} if accepts(rule, "sensitive_features") else {}
    return np.asarray(rule(features, **extra), np.float64)


def accepts(method: Any, name: str) -> bool:
    """Whether a method has a parameter of this name."""
    return name in inspect.signature(method).parameters


class Constant:
    """The same decision for everybody."""

    def __init__(self, decision: int) -> None:
        self.decision = decision

    def predict(self, features: NDArray[Any]) -> Ints:
        return np.full(len(features), self.decision, np.int64)


def scikit_learn() -> Any:
    """The scikit-learn module, or an error that says how to get it."""
    try:
        import sklearn
    except ImportError:
        raise DependencyError("this needs scikit-learn", fix="pip install 'fairveil[lab]'") from None
    return sklearn


def estimator_class(place: str) -> Any:
    """The estimator that a configuration describes, by its place."""
    scikit_learn()
    module, _, name = place.rpartition(".")
    return getattr(import_module(module), name)
