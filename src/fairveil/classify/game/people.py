"""What the estimators of the paper's learners share: validated people, and parameters as a public configuration."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairveil.classify.checks import groups_of
from fairveil.classify.estimator import plain_number
from fairveil.classify.fair.score import extended
from fairveil.data.inputs import classes_of, features_of, refuse_weights
from fairveil.fairness.counting import Counter
from fairveil.fairness.groups import Groups, as_columns
from fairveil.fairness.subgroups import Subgroups
from fairveil.privacy.ledger import Ledger

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LedgerLike = Ledger | str | os.PathLike[str] | None


class People:
    """Validated training people: rows, labels 0 and 1, everybody's cell among the public intersections."""

    def __init__(self, estimator: Any, X: ArrayLike, y: ArrayLike, sensitive: Any, extra: dict[str, Any]) -> None:
        refuse_weights(extra)
        self.features, labels = features_of(estimator, X, y, reset=True)
        estimator.classes_ = classes_of(labels, estimator.classes, type(estimator).__name__)
        self.labels = (labels == estimator.classes_[1]).astype(np.int64)
        members = groups_of(sensitive, None, len(self.features))
        attributes = estimator.attributes or _attributes(sensitive, members)
        estimator.subgroups_ = Subgroups.of("intersections", {name: tuple(v) for name, v in attributes.items()})
        estimator.group_names_ = estimator.subgroups_.cells
        self.members = groups_of(sensitive, estimator.group_names_, len(self.features))
        self.rows = extended(self.features, float(estimator.norm_bound))
        self.counter = Counter(self.members.index, self.labels, len(estimator.group_names_))


def _attributes(sensitive: Any, members: Groups) -> dict[str, tuple[str, ...]]:
    """Categories that occur; a caller who states ``attributes`` keeps them public."""
    columns = as_columns(sensitive)
    if len(columns) == 1:
        return {next(iter(columns)): members.names}
    return {name: tuple(sorted({str(value) for value in values.tolist()})) for name, values in columns.items()}


def configured(kind: Any, estimator: Any, **instead: Any) -> Any:
    """The public configuration with an estimator's parameters, numbers as plain floats where floats are meant."""
    floats = ("epsilon", "delta", "weight", "bound", "alpha", "norm_bound")
    given = estimator.get_params(deep=False)
    fields = kind.__dataclass_fields__
    table = {name: plain_number(value) if name in floats else value for name, value in given.items() if name in fields}
    return kind(**{**table, **instead})
