"""How differently a classifier treats groups: selection, error and hit rates by group, and the gaps between them.

Labels and decisions are 0 or 1. A rate over an empty set of people is NaN and takes no part in a gap. The definitions
agree with fairlearn's ``MetricFrame`` and its difference metrics; a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairveil.errors import InputError
from fairveil.fairness.groups import Groups, Sensitive
from fairveil.registry import register


@dataclass(frozen=True)
class GroupRates:
    """Rates of every group in the order of ``names``; ``count`` is how many people each rests on.

    >>> rates = group_rates([1, 0, 1, 0], [1, 0, 0, 0], ["a", "a", "b", "b"])
    >>> rates.names, rates.selected.tolist(), rates.error.tolist()
    (('a', 'b'), [0.5, 0.0], [0.0, 0.5])
    """

    names: tuple[str, ...]
    count: NDArray[np.int64]
    selected: NDArray[np.float64]
    error: NDArray[np.float64]
    true_positive: NDArray[np.float64]
    false_positive: NDArray[np.float64]
    positives: NDArray[np.int64]

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Plain numbers by group."""
        return {
            name: {
                "count": int(self.count[i]),
                "selected": float(self.selected[i]),
                "error": float(self.error[i]),
                "true_positive": float(self.true_positive[i]),
                "false_positive": float(self.false_positive[i]),
            }
            for i, name in enumerate(self.names)
        }


def group_rates(truth: ArrayLike, decision: ArrayLike, sensitive: Sensitive | Groups) -> GroupRates:
    """Count once, divide once: every rate of every group in one pass."""
    y, d = _binary(truth, "truth"), _binary(decision, "decision")
    groups = sensitive if isinstance(sensitive, Groups) else Groups.of(sensitive)
    if not len(y) == len(d) == len(groups.index):
        raise InputError("labels, decisions and groups have different lengths", allowed="one of each per person")
    cells = np.zeros((len(groups.names), 2, 2), np.int64)
    np.add.at(cells, (groups.index, y, d), 1)
    count, positives = cells.sum(axis=(1, 2)), cells[:, 1].sum(axis=1)
    return GroupRates(
        groups.names,
        count,
        _share(cells[:, :, 1].sum(axis=1), count),
        _share(cells[:, 0, 1] + cells[:, 1, 0], count),
        _share(cells[:, 1, 1], positives),
        _share(cells[:, 0, 1], count - positives),
        positives,
    )


@register("metric", "demographic-parity")
def demographic_parity_gap(truth: ArrayLike, decision: ArrayLike, sensitive: Sensitive | Groups) -> float:
    """Largest difference of acceptance rates between groups.

    >>> demographic_parity_gap([0, 1, 0, 1], [1, 1, 0, 1], ["a", "a", "b", "b"])
    0.5
    """
    return _gap(group_rates(truth, decision, sensitive).selected)


@register("metric", "equal-opportunity")
def equal_opportunity_gap(truth: ArrayLike, decision: ArrayLike, sensitive: Sensitive | Groups) -> float:
    """Largest difference of true positive rates between groups."""
    return _gap(group_rates(truth, decision, sensitive).true_positive)


@register("metric", "equalized-odds")
def equalized_odds_gap(truth: ArrayLike, decision: ArrayLike, sensitive: Sensitive | Groups) -> float:
    """The larger of the true positive gap and the false positive gap."""
    rates = group_rates(truth, decision, sensitive)
    return max(_gap(rates.true_positive), _gap(rates.false_positive))


@register("metric", "error-gap")
def error_gap(truth: ArrayLike, decision: ArrayLike, sensitive: Sensitive | Groups) -> float:
    """Largest difference of error rates between groups."""
    return _gap(group_rates(truth, decision, sensitive).error)


GAPS: dict[str, Callable[..., float]] = {
    "demographic-parity": demographic_parity_gap,
    "equal-opportunity": equal_opportunity_gap,
    "equalized-odds": equalized_odds_gap,
    "error-gap": error_gap,
}


def _share(part: NDArray[np.int64], whole: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)


def _gap(rates: NDArray[np.float64]) -> float:
    known = rates[~np.isnan(rates)]
    return float(known.max() - known.min()) if len(known) else 0.0


def _binary(values: ArrayLike, name: str) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim != 1 or not np.isin(array, (0, 1)).all():
        raise InputError("labels and decisions are 0 or 1", path=name, allowed="a vector of zeros and ones")
    return array.astype(np.int64)
