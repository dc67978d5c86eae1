"""The binary mechanism: noisy sums of dyadic blocks of leaves, and an estimate that also uses the blocks inside."""

from __future__ import annotations

import numpy as np

from fairveil.compiling import njit
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fields import described
from fairveil.privacy.noise import Noise
from fairveil.privacy.sums.base import JOINT_BLOCK, BoundedSum, State
from fairveil.privacy.sums.shapes import Floats, Ints
from fairveil.registry import register


@njit(cache=True, nogil=True)
def lowest_bit(number):
    """Index of the lowest set bit: the level of the node that closes at this leaf."""
    level = 0
    while not (number >> level) & 1:
        level += 1
    return level


@njit(cache=True, nogil=True)
def tree_step(stack, leaf, fresh):
    """Close the leaf number ``leaf`` (from 1): put the prefix estimate into ``stack[level]`` and return the level.

    ``stack[k]`` holds the estimate of the latest prefix whose lowest set bit is k; ``fresh`` is the noisy node that
    closes now (or, to simulate noise alone, its noise: one draw a leaf). One addition of ``width`` numbers a leaf.
    """
    level = lowest_bit(leaf)
    rest = leaf ^ (1 << level)
    if rest == 0:
        stack[level] = fresh
    else:
        stack[level] = stack[lowest_bit(rest)] + fresh
    return level


@njit(cache=True, nogil=True)
def refine_step(nodes, variances, leaf, noisy):
    """Bottom-up estimate of the node that closes at ``leaf``: write it to ``nodes[level]`` and return the level.

    ``noisy[j]`` is the noisy sum of the block of 2^j leaves that ends here (all levels up to the closing one). A block
    is measured by itself (variance 1) and by its two halves (their variances added); both are weighted inversely to
    their variance. Unlike the plain tree this needs the noise of every block, two draws a leaf on average.
    """
    level = lowest_bit(leaf)
    estimate = noisy[0].astype(np.float64)
    variance = 1.0
    for j in range(level):
        halves = variances[j] + variance
        estimate = (noisy[j + 1] * halves + nodes[j] + estimate) / (1.0 + halves)
        variance = halves / (1.0 + halves)
    nodes[level] = estimate
    variances[level] = variance
    return level


@njit(cache=True, nogil=True)
def tree_path(drawn, levels, refine, out):
    """Noise of all prefixes 1..len(out) as one array, from the noises of the nodes in the order of their leaves."""
    width = out.shape[1]
    stack = np.zeros((levels, width))
    nodes = np.zeros((levels, width))
    variances = np.zeros(levels)
    noisy = np.zeros((levels, width))
    at = 0
    for leaf in range(1, out.shape[0] + 1):
        level = lowest_bit(leaf)
        for j in range(level + 1 if refine else 1):
            for k in range(width):
                noisy[j, k] = drawn[at, k]
            at += 1
        if refine:
            refine_step(nodes, variances, leaf, noisy)
            tree_step(stack, leaf, nodes[level])
        else:
            tree_step(stack, leaf, noisy[0])
        out[leaf - 1] = stack[level]


@register("sum", "tree")
@configuration
class TreeSum(BoundedSum):
    """Binary tree: each prefix is the sum of at most log2 n noisy dyadic blocks.

    Guarantee: mu-GDP (rho-zCDP, (epsilon, delta)) for one row over all ``releases``. A leaf lies in at most one block
    per level and there are h = floor(log2 releases) + 1 levels, so with node noise of std sensitivity sqrt(h)/mu it
    pays h (mu/sqrt h)^2 = mu^2. Rows may depend on earlier releases (adaptive composition of Gaussian steps).
    Error: std sensitivity sqrt(h popcount(t))/mu at release t. ``refine=True`` draws the noise of every block and
    weights each block against its two halves: the same guarantee, and popcount(t) becomes the sum over the set bits
    of v_j, v_0 = 1, v_j = 1/(1 + 1/(2 v_{j-1})), which tends to 1/2.
    Time O(width log n) a release, memory O(width log n).

    >>> round(TreeSum(7, mu=1.0).expected_std(7), 6), round(TreeSum(7, mu=1.0, refine=True).expected_std(7), 6)
    (3.0, 2.591194)

    Reference: Dwork et al. 2010; Chan, Shi and Song 2011; Honaker 2015.
    """

    refine: bool = described(
        "whether estimates combine every node that helps (smaller error, more work)", default=False
    )

    @property
    def levels(self) -> int:
        return int(self.releases).bit_length()

    def _factor(self) -> float:
        return float(np.sqrt(self.levels))

    def _draws(self) -> int:
        return self.levels

    def _node_variances(self) -> list[float]:
        variances = [1.0]
        for _ in range(self.levels - 1):
            variances.append(1 / (1 + 1 / (2 * variances[-1])) if self.refine else 1.0)
        return variances

    def _relative_variance(self, releases: int) -> float:
        return sum(variance for level, variance in enumerate(self._node_variances()) if (releases >> level) & 1)

    def worst_release(self) -> int:
        """The prefix with the largest error: the candidate that keeps n's high bits, drops one, and sets all below."""
        last = int(self.releases)
        lower = [((last >> level) << level) - 1 for level in range(last.bit_length()) if (last >> level) & 1]
        return max([last, *(t for t in lower if t > 0)], key=self._relative_variance)

    def start(self) -> State:
        shape = (self.levels, self.grid.width)
        kind = np.float64 if self.refine else np.int64
        state = self._common_state() | {
            "raw": np.zeros(shape, np.int64),
            "stack": np.zeros(shape, kind),
            "published": np.zeros(self.grid.width, kind),
        }
        if self.refine:
            state |= {"nodes": np.zeros(shape), "variances": np.zeros(self.levels)}
        return state

    def release(self, state: State, noise: Noise) -> tuple[State, Floats]:
        leaf, level, after = self._close(state, state["open"])
        if self.refine:
            blocks = state["open"] + np.concatenate(
                [np.zeros((1, self.grid.width), np.int64), np.cumsum(state["raw"][:level], axis=0)]
            )
            refine_step(after["nodes"], after["variances"], leaf, blocks + self.grid.draw(noise, self.sigma, level + 1))
            fresh = after["nodes"][level]
        else:
            fresh = after["raw"][level] + self.draws(noise)[0]
        tree_step(after["stack"], leaf, fresh)
        after["published"] = after["stack"][level].copy()
        return after, self.grid.publish(after["published"])

    def lost(self, state: State) -> State:
        # The open leaf becomes empty, which is public: the prefix keeps its last estimate and nothing is drawn again.
        _, level, after = self._close(state, np.zeros_like(state["open"]))
        after["stack"][level] = state["published"]
        if self.refine:
            after["nodes"][level] = state["nodes"][:level].sum(axis=0)
            after["variances"][level] = state["variances"][:level].sum()
        return after

    def _close(self, state: State, value: Ints) -> tuple[int, int, State]:
        """The state with the leaf closed but nothing released: its raw blocks are merged up to the closing level."""
        leaf = int(state["releases"]) + 1
        self._check_horizon(leaf)
        level = lowest_bit(leaf)
        after = {name: array.copy() for name, array in state.items()}
        after["raw"][level] = value + state["raw"][:level].sum(axis=0)
        after["raw"][:level] = 0
        after["open"] = np.zeros_like(state["open"])
        after["releases"] = np.asarray(state["releases"] + 1)
        return leaf, level, after

    def noise_path(self, noise: Noise, releases: int) -> Floats:
        if not self.refine:
            return super().noise_path(noise, releases)
        self._check_horizon(releases)
        # Leaf t closes lowest_bit(t) + 1 blocks, and a refined tree draws for each of them.
        blocks = sum(releases >> level for level in range(self.levels))
        return self._path(self.grid.draw(noise, self.sigma, blocks), releases)

    def joint_noise_path(self, noise: Noise, releases: int, parties: int) -> Floats:
        if not self.refine:
            return super().joint_noise_path(noise, releases, parties)
        self._check_horizon(releases)
        # Party i draws for the closing[t] blocks of leaf t after the parties before it have drawn for theirs.
        closing = np.array([lowest_bit(leaf) + 1 for leaf in range(1, releases + 1)])
        joint = np.empty((int(closing.sum()), self.grid.width), np.int64)
        done = 0
        for first in range(0, releases, JOINT_BLOCK):
            some = closing[first : first + JOINT_BLOCK]
            before = np.cumsum(some) - some
            leaf, total = np.repeat(np.arange(len(some)), some), int(some.sum())
            drawn = self.grid.draw(noise, self.sigma, total * parties)
            at = parties * before[leaf] + (np.arange(total) - before[leaf])
            joint[done : done + total] = sum(drawn[at + party * some[leaf]] for party in range(parties))
            done += total
        return self._path(joint, releases)

    def noise_of(self, drawn: Ints) -> Floats:
        if self.refine:
            raise SpecError("a refined tree draws more than once a release", path="refine", fix="use noise_path")
        return self._path(drawn, len(drawn))

    def _path(self, drawn: Ints, releases: int) -> Floats:
        out = np.empty((releases, self.grid.width))
        tree_path(drawn, self.levels, self.refine, out)
        return self._in_own_units(out)
