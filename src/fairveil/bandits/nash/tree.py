"""A tournament over arms: the largest key in O(1), a changed key in O(log arms), ties to the lowest arm.

Node 1 is the root, leaf i sits at ``size + i``; a node holds the largest key below it. Values rather than winners are
stored, so that climbing has no chain of dependent loads.
"""

from __future__ import annotations

import numpy as np

from fairveil.compiling import njit


@njit(cache=True, nogil=True)
def make_tree(arms):
    """An empty tree; its length is twice the next power of two."""
    size = 1
    while size < arms:
        size *= 2
    return np.full(2 * size, -np.inf)


@njit(cache=True, nogil=True)
def play_matches(tree):
    """Fill the inner nodes from the leaves."""
    for node in range(tree.size // 2 - 1, 0, -1):
        tree[node] = max(tree[2 * node], tree[2 * node + 1])


@njit(cache=True, nogil=True)
def set_key(tree, arm, key):
    """Change one key and play its matches again."""
    node = tree.size // 2 + arm
    tree[node] = key
    while node > 1:
        sibling = tree[node ^ 1]
        if sibling > key:
            key = sibling
        node >>= 1
        tree[node] = key


@njit(cache=True, nogil=True)
def top(tree):
    """The lowest arm with the largest key."""
    node, size = 1, tree.size // 2
    while node < size:
        node *= 2
        if tree[node + 1] > tree[node]:
            node += 1
    return node - size


@njit(cache=True, nogil=True)
def runner_up(tree, arm):
    """The largest key of the other arms (-inf if there is none)."""
    node, key = tree.size // 2 + arm, -np.inf
    while node > 1:
        sibling = tree[node ^ 1]
        if sibling > key:
            key = sibling
        node >>= 1
    return key
