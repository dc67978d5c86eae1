"""Relative ranks: where a person stands within their own group, and how fairly choices follow it.

The relative rank of a score in group g is F_g(score), the share of the group at or below it. Choosing by relative
rank is group meritocratic fairness (Grazzi et al. 2022): relative ranks are uniform in every group, so such choices
satisfy demographic parity however different the groups' scores are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fairveil.arrays import Floats
from fairveil.errors import InputError


def relative_rank(population: ArrayLike, scores: ArrayLike) -> Floats:
    """Share of a sorted population at or below each score.

    >>> relative_rank([1.0, 2.0, 2.0, 4.0], [0.0, 2.0, 9.0]).tolist()
    [0.0, 0.75, 1.0]
    """
    ordered = np.asarray(population, np.float64)
    if ordered.ndim != 1 or not len(ordered) or (np.diff(ordered) < 0).any():
        raise InputError("a population is a sorted list of scores", path="population", allowed="at least one, rising")
    return np.searchsorted(ordered, np.asarray(scores, np.float64), side="right") / len(ordered)


def fair_regret(ranks: ArrayLike, chosen: ArrayLike) -> Floats:
    """Best relative rank of each round minus the chosen one; ``ranks`` is (rounds, candidates), -inf where empty.

    >>> fair_regret([[0.2, 0.9], [0.5, 0.4]], [0, 0]).tolist()
    [0.7, 0.0]
    """
    table = np.asarray(ranks, np.float64)
    picked = table[np.arange(len(table)), np.asarray(chosen, np.int64)]
    return np.where(np.isfinite(table.max(axis=1)), table.max(axis=1) - np.maximum(picked, -1e300), 0.0)


def parity_gap(chosen: ArrayLike, shown: ArrayLike) -> float:
    """Largest minus smallest chance of a shown person to be chosen, over the groups that were shown at all.

    >>> parity_gap([3, 1, 0], [4, 4, 0])
    0.5
    """
    picks, people = np.asarray(chosen, np.float64), np.asarray(shown, np.float64)
    if picks.shape != people.shape or (picks > people).any() or (picks < 0).any():
        raise InputError("nobody can be chosen more often than shown", path="chosen", allowed="0 <= chosen <= shown")
    seen = people > 0
    if not seen.any():
        return 0.0
    rates = picks[seen] / people[seen]
    return float(rates.max() - rates.min())


def within_group_correlation(estimated: ArrayLike, true: ArrayLike) -> float:
    """Mean over groups of the correlation of estimated and true scores; both (groups, people).

    >>> round(within_group_correlation([[1.0, 2.0, 3.0], [9.0, 8.0, 7.0]], [[0.0, 1.0, 2.0], [4.0, 3.0, 2.0]]), 12)
    1.0
    """
    first, second = (np.array(scores, np.float64) for scores in (estimated, true))
    for scores in (first, second):
        scores -= scores.mean(axis=1, keepdims=True)
    scale = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
    return float(((first * second).sum(axis=1) / np.maximum(scale, 1e-300)).mean())
