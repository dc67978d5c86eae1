"""People whom estimators learn from: groups and rows, refused in the project's shape, never with a private value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairveil.classify.fair.score import extended
from fairveil.data.inputs import InputProblem, classes_of, features_of, refuse_weights
from fairveil.errors import InputError
from fairveil.fairness.groups import Counter, Groups, as_columns
from fairveil.fairness.subgroups import Kind, Subgroups

MAX_ATTRIBUTES = 4
MAX_GROUPS = 1000
CLASSES: dict[str, Any] = {"classes": (0, 1)}
"""The two public labels, a parameter that stands in no spec."""


def groups_of(sensitive: Any, names: Sequence[str] | None, rows: int, *, deciding: bool = False) -> Groups:
    """Every row's group: one attribute, or the intersections of up to four; ``names`` are the public groups."""
    if sensitive is None:
        raise InputProblem(
            "the groups are missing", path="sensitive_features", allowed="one value a row for each sensitive column",
            fix='this rule reads the group when it decides; awareness="blind" makes one that does not' if deciding
            else "pass sensitive_features",
        )  # fmt: skip
    columns = as_columns(sensitive)
    if len(columns) > MAX_ATTRIBUTES:
        raise InputProblem(
            "there are too many sensitive columns", path="sensitive_features", given=len(columns),
            allowed=f"1 to {MAX_ATTRIBUTES}",
        )  # fmt: skip
    if {len(values) for values in columns.values()} != {rows}:
        raise InputProblem("groups and rows have different lengths", path="sensitive_features", allowed=f"{rows} rows")
    if any(_missing(values) for values in columns.values()):
        raise InputProblem("a group is missing", path="sensitive_features", fix="drop or fill the incomplete rows")
    given = next(iter(columns.values())) if len(columns) == 1 else columns
    try:
        found = Groups.of(given, None if names is None else tuple(str(name) for name in names))
    except InputError as problem:
        raise InputProblem(problem.problem, path=problem.path, allowed=problem.allowed, fix=problem.fix) from None
    if len(found.names) > MAX_GROUPS:
        raise InputProblem(
            "there are too many groups", path="sensitive_features", given=len(found.names),
            allowed=f"at most {MAX_GROUPS}",
        )  # fmt: skip
    return found


def _missing(values: NDArray[Any]) -> bool:
    if values.dtype.kind == "f":
        return bool(np.isnan(values).any())
    return values.dtype.kind == "O" and any(v is None or v != v for v in values.tolist())


class TrainingPeople:
    """Validated training people: rows, labels 0 and 1, everybody's cell among the public intersections."""

    def __init__(
        self,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        sensitive: Any,
        extra: dict[str, Any],
        kind: Kind = "intersections",
    ) -> None:
        refuse_weights(extra)
        self.features, labels = features_of(estimator, X, y, reset=True)
        estimator.classes_ = classes_of(labels, estimator.classes, type(estimator).__name__)
        self.labels = (labels == estimator.classes_[1]).astype(np.int64)
        members = groups_of(sensitive, None, len(self.features))
        attributes = estimator.attributes or _attributes(sensitive, members)
        estimator.subgroups_ = Subgroups.of(kind, {name: tuple(v) for name, v in attributes.items()})
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
