"""Rounds under a frozen rule: scores along one direction, ranks from one table per group."""

from __future__ import annotations

import math
from typing import NamedTuple

from fairveil.bandits.meritocratic.schema import Floats
from fairveil.compiling import njit


class Rule(NamedTuple):
    """Weights on raw features, offset and deviation of the scores, and a rank table per group over their normal law."""

    weights: Floats
    offset: float
    deviation: float
    tables: Floats


@njit(cache=True, nogil=True)
def normal_cdf(x):
    return 0.5 * math.erfc(-x * 0.7071067811865476)


@njit(cache=True, nogil=True)
def table_rank(position, table):
    """Linear interpolation in a table over [0, 1]; a position that is not a number ranks lowest."""
    place = position * (table.shape[0] - 1) if position >= 0.0 else 0.0
    left = min(int(place), table.shape[0] - 2)
    part = place - left
    return table[left] * (1.0 - part) + table[left + 1] * part


@njit(cache=True, nogil=True)
def best_by_table(features, group, rule, rng):
    """Slot of the highest estimated rank, that rank and how many share it (one is drawn); -1 when all are empty."""
    best, chosen, ties = -1.0, -1, 0
    for slot in range(group.shape[0]):
        if group[slot] < 0:
            continue
        score = -rule.offset
        for i in range(rule.weights.shape[0]):
            score += features[slot, i] * rule.weights[i]
        rank = table_rank(normal_cdf(score / rule.deviation), rule.tables[group[slot]])
        if rank > best:
            best, chosen, ties = rank, slot, 1
        elif rank == best:
            ties += 1
            if rng.random() * ties < 1.0:
                chosen = slot
    return chosen, best, ties


@njit(cache=True, nogil=True)
def play_frozen(features, group, rule, rng, slots, estimates):
    """Decide a block of rounds with one frozen rule."""
    for row in range(group.shape[0]):
        slot, rank, _ = best_by_table(features[row], group[row], rule, rng)
        slots[row], estimates[row] = max(slot, 0), rank
