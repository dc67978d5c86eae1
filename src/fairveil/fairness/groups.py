"""Groups from sensitive attributes: one attribute, several side by side, or their intersections."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairveil.errors import InputError

Sensitive = ArrayLike | Mapping[str, ArrayLike]


@dataclass(frozen=True)
class Groups:
    """Rows assigned to named groups: ``index[i]`` is the position of row i's group in ``names``.

    >>> Groups.of(["x", "y", "x"]).counts().tolist()
    [2, 1]
    """

    names: tuple[str, ...]
    index: NDArray[np.int64]

    @classmethod
    def of(cls, sensitive: Sensitive, names: tuple[str, ...] | None = None) -> Groups:
        """Groups by one attribute, or by the intersection of all attributes of a table.

        ``names`` fixes the groups and their order in advance (public knowledge); otherwise the sorted values are used.

        >>> Groups.of({"sex": ["f", "m", "f"], "race": [1, 1, 2]}).names
        ('sex=f, race=1', 'sex=f, race=2', 'sex=m, race=1')
        """
        labels = _labels(sensitive)
        if not len(labels):
            raise InputError("there are no rows", path="sensitive_features", allowed="at least one row")
        if names is None:
            found, index = np.unique(labels, return_inverse=True)
            return cls(tuple(str(name) for name in found), index.reshape(-1).astype(np.int64))
        position = {name: i for i, name in enumerate(names)}
        index = np.array([position.get(str(label), -1) for label in labels], np.int64)
        if (index < 0).any():
            raise InputError("a row belongs to no known group", path="sensitive_features", allowed=", ".join(names))
        return cls(tuple(names), index)

    def counts(self) -> NDArray[np.int64]:
        """People in each group."""
        return np.bincount(self.index, minlength=len(self.names))

    def masks(self) -> dict[str, NDArray[np.bool_]]:
        """The rows of each group."""
        return {name: self.index == i for i, name in enumerate(self.names)}


def intersections(attributes: Mapping[str, ArrayLike], order: int) -> dict[str, NDArray[np.bool_]]:
    """Masks of every non-empty subgroup fixed by at most ``order`` attributes; a group may lie inside another.

    >>> sorted(intersections({"s": ["f", "m"], "r": [1, 1]}, order=2))
    ['r=1', 's=f', 's=f, r=1', 's=m', 's=m, r=1']
    """
    if not 1 <= order <= len(attributes):
        raise InputError(
            "the order of intersections is wrong", path="order", given=order, allowed=f"1..{len(attributes)}"
        )
    found: dict[str, NDArray[np.bool_]] = {}
    for size in range(1, order + 1):
        for chosen in itertools.combinations(attributes, size):
            groups = Groups.of({name: attributes[name] for name in chosen})
            found |= groups.masks()
    return found


def _labels(given: Any) -> NDArray[Any]:
    sensitive = given
    if hasattr(given, "to_dict") and hasattr(given, "columns"):  # a pandas DataFrame, without importing pandas
        sensitive = {str(name): given[name].to_numpy() for name in given.columns}
    if not isinstance(sensitive, Mapping):
        values = np.asarray(sensitive)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1:
            raise InputError(
                "one attribute is one value a row", path="sensitive_features", allowed="a vector or a table"
            )
        return values.astype(str)
    columns = {name: np.asarray(values).astype(str) for name, values in sensitive.items()}
    if len({len(values) for values in columns.values()}) != 1:
        raise InputError("attributes have different lengths", path="sensitive_features", allowed="one value a row each")
    rows = zip(*columns.values(), strict=True)
    return np.array([", ".join(f"{name}={value}" for name, value in zip(columns, row, strict=True)) for row in rows])
