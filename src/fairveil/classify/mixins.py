"""What scikit-learn sees of every estimator: parameters from a public configuration, draws of a randomised rule.

Parameters are written once, as fields of the learner's configuration; `estimator_of` makes the estimator a dataclass of
the same fields, and `Configured` leads back from its parameters to the configuration, which checks them.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state

from fairveil.arrays import Floats
from fairveil.privacy.events import Event
from fairveil.privacy.guarantee import Guarantee

SPENDING: dict[str, Any] = {"ledger": None, "noise": None, "random_state": None}
"""Parameters of every private estimator beside those of its configuration."""


def estimator_of(
    configuration: Any,
    *,
    also: Mapping[str, Any] = MappingProxyType({}),
    renamed: Mapping[str, str] = MappingProxyType({}),
    by_place: tuple[str, ...] = ("epsilon",),
    **defaults: Any,
) -> Callable[[Any], Any]:
    """Make an estimator a dataclass whose parameters are the fields of ``configuration``, then those in ``also``.

    ``defaults`` stand where the estimator's differ from the configuration's, ``renamed`` maps its names to the
    estimator's. ``by_place`` may be given by position, the rest by name. Nothing is checked or changed on
    construction, as scikit-learn asks; ``learner()`` does that.
    """

    def made(cls: Any) -> Any:
        notes = inspect.get_annotations(cls)
        for item in dataclasses.fields(configuration):
            name = renamed.get(item.name, item.name)
            default = defaults.get(name, item.default)
            setattr(cls, name, dataclasses.field(default=default, kw_only=name not in by_place))
            notes[name] = item.type
        for name, default in also.items():
            setattr(cls, name, dataclasses.field(default=default, kw_only=True))
            notes[name] = Any
        cls.__annotations__ = notes
        cls.configuration, cls.renamed = configuration, renamed
        return dataclasses.dataclass(eq=False, repr=False)(cls)

    return made


class Configured:
    """Mixin of a private estimator made by `estimator_of`."""

    configuration: ClassVar[Any]
    renamed: ClassVar[Mapping[str, str]]

    def learner(self) -> Any:
        """The public configuration; raises SpecError for a parameter out of range."""
        return self._configured()

    def _configured(self, **instead: Any) -> Any:
        given = {
            name: _plain(getattr(self, self.renamed.get(name, name)), hint)
            for name, hint in _hints(self.configuration).items()
            if name not in instead
        }
        return self.configuration(**given, **instead)

    def event(self) -> Event:
        """What one person pays over all planned fits; known before any data."""
        event: Event = self.learner().event()
        return event

    def guarantee(self) -> Guarantee:
        """After a fit what was promised then (``guarantee_``), before it what these parameters would promise."""
        return self.guarantee_ if hasattr(self, "guarantee_") else self._promise(self.learner())

    def _promise(self, learner: Any) -> Guarantee:
        promise: Guarantee = learner.guarantee()
        return promise


@cache
def _hints(configuration: Any) -> dict[str, Any]:
    known = typing.get_type_hints(configuration, include_extras=True)
    return {item.name: known[item.name] for item in dataclasses.fields(configuration)}


def _plain(value: Any, hint: Any) -> Any:
    """Integers and numpy numbers as plain floats where floats are meant; the rest is the configuration's to refuse."""
    if hint is float:
        number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
        return float(value) if number else value
    origin, kinds = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _plain(value, kinds[0])
    if origin is tuple:
        return tuple(_plain(part, kinds[0]) for part in value) if isinstance(value, tuple | list) else value
    for kind in kinds:
        value = _plain(value, kind)
    return value


class Binary(ClassifierMixin, BaseEstimator):
    """A classifier of two classes that draws when it is fitted."""

    classes_: NDArray[Any]
    random_state: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        tags.non_deterministic = self.random_state is None
        return tags


class Randomised(Binary):
    """A class that knows `decision_chance` gets `predict` and `predict_proba` of the randomised rule."""

    def decision_chance(self, X: ArrayLike, *, sensitive_features: Any = None) -> Floats:
        """Probability that `predict` says the second class."""
        raise NotImplementedError

    def predict_proba(self, X: ArrayLike, *, sensitive_features: Any = None) -> Floats:
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
