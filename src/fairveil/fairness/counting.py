"""Counting by group and label: the one place where metrics, private audits and reports add people up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

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
