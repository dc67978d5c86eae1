"""A tournament over arms: the largest key in O(1), a changed key in O(log arms), ties to the lowest arm."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def make_tree(keys):  # type: ignore[no-untyped-def]
    """Keys padded to a power of two, and the winner of every node (node 1 is the root)."""
    size = 1
    while size < keys.size:
        size *= 2
    padded = np.full(size, -np.inf)
    padded[: keys.size] = keys
    winner = np.zeros(2 * size, np.int64)
    for leaf in range(size):
        winner[size + leaf] = leaf
    for node in range(size - 1, 0, -1):
        left, right = winner[2 * node], winner[2 * node + 1]
        winner[node] = left if padded[left] >= padded[right] else right
    return padded, winner


@njit(cache=True, nogil=True)
def set_key(padded, winner, arm, key):  # type: ignore[no-untyped-def]
    """Change one key and play its matches again."""
    padded[arm] = key
    node = (padded.size + arm) // 2
    while node >= 1:
        left, right = winner[2 * node], winner[2 * node + 1]
        winner[node] = left if padded[left] >= padded[right] else right
        node //= 2


@njit(cache=True, nogil=True)
def runner_up(padded, winner, arm):  # type: ignore[no-untyped-def]
    """The best other arm, and its key, in O(log arms); (-1, -inf) if there is none."""
    best, key = -1, -np.inf
    node = padded.size + arm
    while node > 1:
        rival = winner[node ^ 1]
        if padded[rival] > key or (padded[rival] == key and key > -np.inf and rival < best):
            best, key = rival, padded[rival]
        node //= 2
    return best, key
