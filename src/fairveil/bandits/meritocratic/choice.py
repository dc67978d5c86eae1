"""Choosing a candidate: the highest estimated rank, ties broken uniformly, or any of them with equal probability."""

from __future__ import annotations

import numpy as np

from fairveil.bandits.protocol import Decision
from fairveil.compiling import njit
from fairveil.randomness import Generator


@njit(cache=True, nogil=True)
def best_rank(ranks, group, rng):
    """Slot of the largest estimated rank among the filled ones and how many share it; -1 when all are empty."""
    best, chosen, ties = -np.inf, -1, 0
    for slot in range(group.shape[0]):
        if group[slot] < 0:
            continue
        if ranks[slot] > best:
            best, chosen, ties = ranks[slot], slot, 1
        elif ranks[slot] == best:
            ties += 1
            if rng.random() * ties < 1.0:
                chosen = slot
    return chosen, ties


@njit(cache=True, nogil=True)
def uniform_slot(group, rng):
    """A filled slot, uniformly; -1 when all are empty."""
    filled = 0
    chosen = -1
    for slot in range(group.shape[0]):
        if group[slot] >= 0:
            filled += 1
            if rng.random() * filled < 1.0:
                chosen = slot
    return chosen


@njit(cache=True, nogil=True)
def uniform_slots(group, rng, slots):
    """One uniform choice for every row of ``group``; rows without anybody get slot 0."""
    for row in range(group.shape[0]):
        slots[row] = max(uniform_slot(group[row], rng), 0)


def uniform_decision(candidates: int, rng: Generator) -> Decision:
    """Any of the candidates with the same probability."""
    arm = int(uniform_slot(np.zeros(candidates, np.int64), rng))
    return Decision(arm, 1.0 / candidates, np.full(candidates, 1.0 / candidates))
