"""Groups of a classifier's rows, refused in the project's shape and never with a private value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.data.inputs import InputProblem
from fairveil.errors import InputError
from fairveil.fairness.groups import Groups, as_columns

Ints = NDArray[np.int64]
MAX_ATTRIBUTES = 4
MAX_GROUPS = 1000


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
        raise InputProblem(problem.problem, path=problem.path, allowed=problem.allowed) from None
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
