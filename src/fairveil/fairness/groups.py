"""Groups from sensitive attributes: one attribute, several side by side, or their intersections; and counts of them.

`cells` and what is below it count by group and label: the one place where metrics, private audits and reports add
people up.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairveil.arrays import Bools, Floats, Ints
from fairveil.errors import NOT_REPEATED, InputError

Sensitive = ArrayLike | Mapping[str, ArrayLike]


@dataclass(frozen=True)
class Groups:
    """Rows assigned to named groups: ``index[i]`` is the position of row i's group in ``names``.

    >>> Groups.of(["x", "y", "x"]).counts().tolist()
    [2, 1]
    """

    names: tuple[str, ...]
    index: Ints

    @classmethod
    def of(cls, sensitive: Sensitive, names: tuple[str, ...] | None = None) -> Groups:
        """Groups by one attribute, or by the intersection of all attributes of a table.

        ``names`` fixes the groups and their order in advance (public knowledge); otherwise the sorted values are used.

        >>> Groups.of({"sex": ["f", "m", "f"], "race": [1, 1, 2]}).names
        ('sex=f, race=1', 'sex=f, race=2', 'sex=m, race=1')
        """
        found, index = _coded(sensitive)
        if not len(index):
            raise InputError("there are no rows", path="sensitive_features", allowed="at least one row")
        if names is None:
            return cls(found, index)
        position = {name: i for i, name in enumerate(names)}
        place = np.array([position.get(name, -1) for name in found], np.int64)
        if (place < 0).any():
            raise InputError(
                f"a row belongs to no known group ({NOT_REPEATED})",
                path="sensitive_features",
                allowed=", ".join(names),
                fix="name its group among the public ones (groups=...), or leave out whoever has none of them",
            )
        return cls(tuple(names), place[index])

    def counts(self) -> Ints:
        """People in each group."""
        return np.bincount(self.index, minlength=len(self.names))

    def masks(self) -> dict[str, Bools]:
        """The rows of each group."""
        return {name: self.index == i for i, name in enumerate(self.names)}


def intersections(attributes: Mapping[str, ArrayLike], order: int) -> dict[str, Bools]:
    """Masks of every non-empty subgroup fixed by at most ``order`` attributes; a group may lie inside another.

    >>> sorted(intersections({"s": ["f", "m"], "r": [1, 1]}, order=2))
    ['r=1', 's=f', 's=f, r=1', 's=m', 's=m, r=1']
    """
    if not 1 <= order <= len(attributes):
        raise InputError(
            "the order of intersections is wrong", path="order", given=order, allowed=f"1..{len(attributes)}"
        )
    found: dict[str, Bools] = {}
    for size in range(1, order + 1):
        for chosen in itertools.combinations(attributes, size):
            groups = Groups.of({name: attributes[name] for name in chosen})
            found |= groups.masks()
    return found


def as_columns(given: Any) -> dict[str, NDArray[Any]]:
    """Attributes by name: a table as it is, one vector under the empty name, columns of a matrix by their number."""
    sensitive = given
    if hasattr(given, "to_dict") and hasattr(given, "columns"):  # a pandas DataFrame, without importing pandas
        sensitive = {str(name): given[name].to_numpy() for name in given.columns}
    if isinstance(sensitive, Mapping):
        columns = {str(name): np.asarray(values) for name, values in sensitive.items()}
    else:
        values = np.asarray(sensitive)
        if values.ndim == 2 and values.shape[1] > 1:
            columns = {str(i): values[:, i] for i in range(values.shape[1])}
        else:
            columns = {"": values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values}
    if not columns or any(values.ndim != 1 for values in columns.values()):
        raise InputError("one attribute is one value a row", path="sensitive_features", allowed="a vector or a table")
    if len({len(values) for values in columns.values()}) != 1:
        raise InputError("attributes have different lengths", path="sensitive_features", allowed="one value a row each")
    return columns


def _coded(given: Any) -> tuple[tuple[str, ...], Ints]:
    """Sorted names and every row's place among them; only values that occur together make a name."""
    columns = as_columns(given)
    index = np.zeros(len(next(iter(columns.values()))), np.int64)
    seen: list[tuple[str, ...]] = [()]
    for attribute, values in columns.items():
        known: dict[str, int] = {}
        spelled: dict[Any, int] = {}
        for value in values.tolist():
            if value not in spelled:
                spelled[value] = known.setdefault(str(value), len(known))
        codes = np.fromiter(map(spelled.__getitem__, values.tolist()), np.int64, len(values))
        both, index = np.unique(index * max(len(known), 1) + codes, return_inverse=True)
        words = [f"{attribute}={word}" if attribute else word for word in known]
        seen = [(*seen[code // len(words)], words[code % len(words)]) for code in both.tolist()]
    names = [", ".join(words) for words in seen]
    order = sorted(range(len(names)), key=names.__getitem__)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return tuple(names[i] for i in order), place[index.reshape(-1)]


DECLINED, ACCEPTED = 0, 1


class Counter:
    """People sorted once by group and label, to be counted many times. O(rows) a count, no copy of the rows.

    >>> Counter(np.array([0, 0, 1]), np.array([1, 0, 1]), 2).count(np.array([1, 1, 0])).tolist()
    [[[0.0, 1.0], [0.0, 1.0]], [[0.0, 0.0], [1.0, 0.0]]]
    """

    def __init__(self, index: Ints, labels: Ints, groups: int) -> None:
        self.groups = groups
        self._place = 2 * index + labels
        self.people = np.bincount(self._place, minlength=2 * groups).reshape(groups, 2)
        """How many of each group have label 0 and 1."""

    def count(self, accepted: NDArray[np.generic], whole: float = 1.0) -> Floats:
        """Shape (groups, 2, 2): how much of each group and label is declined and accepted.

        A row counts ``accepted[i]`` as accepted and ``whole - accepted[i]`` as declined: decisions 0 and 1,
        probabilities, or how many of ``whole`` votes accept it. Whole numbers stay exact (below 2^53).
        """
        chosen = np.bincount(self._place, weights=accepted, minlength=2 * self.groups).reshape(self.groups, 2)
        return np.stack([self.people * float(whole) - chosen, chosen], axis=2)


def cells(index: Ints, labels: Ints, accepted: NDArray[np.generic], groups: int, whole: float = 1.0) -> Floats:
    """One count of `Counter`."""
    return Counter(index, labels, groups).count(accepted, whole)


def share(part: NDArray[np.generic], whole: NDArray[np.generic]) -> Floats:
    """part/whole, NaN where nobody is."""
    safe = np.where(np.asarray(whole) > 0, whole, 1)
    return np.where(np.asarray(whole) > 0, part / safe, np.nan)


def wilson(rate: Floats, count: Floats, z: float = 1.959964) -> tuple[Floats, Floats]:
    """Wilson's 95 % interval of a rate that was seen on so many people; NaN where nobody was.

    >>> [round(float(v), 3) for v in wilson(np.array(0.5), np.array(100))]
    [0.404, 0.596]
    """
    n = np.where(np.asarray(count) > 0, count, np.nan)
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    reach = z * np.sqrt(np.maximum(rate * (1 - rate), 0) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return np.maximum(centre - reach, 0.0), np.minimum(centre + reach, 1.0)
