"""The binary mechanism: noisy sums of dyadic blocks of leaves, and an estimate that also uses the blocks inside."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.compiling import njit
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fields import described
from fairveil.privacy.noise import Noise
from fairveil.privacy.sums.base import JOINT_BLOCK, BoundedSum, State
from fairveil.registry import register

PATH_BLOCK = 2048
"""Leaves whose noise is drawn in one go in a path: bounds memory."""


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
        before = stack[lowest_bit(rest)]
        for column in range(len(before)):
            stack[level, column] = before[column] + fresh[column]
    return level


@njit(cache=True, nogil=True)
def refine_step(nodes, variances, leaf, noisy):
    """Bottom-up estimate of the node that closes at ``leaf``: write it to ``nodes[level]`` and return the level.

    ``noisy[j]`` is the noisy sum of the block of 2^j leaves that ends here (all levels up to the closing one). A block
    is measured by itself (variance 1) and by its two halves (their variances added); both are weighted inversely to
    their variance. Unlike the plain tree this needs the noise of every block, two draws a leaf on average.
    """
    level = lowest_bit(leaf)
    estimate = nodes[level]
    estimate[:] = noisy[0]
    variance = 1.0
    for j in range(level):
        halves = variances[j] + variance
        for column in range(len(estimate)):
            together = noisy[j + 1, column] * halves + nodes[j, column] + estimate[column]
            estimate[column] = together / (1.0 + halves)
        variance = halves / (1.0 + halves)
    variances[level] = variance
    return level


class ClosedLeaves(NamedTuple):
    """What is kept of the leaves so far: prefixes by their lowest set bit, refined nodes and their variances."""

    stack: Floats
    nodes: Floats
    variances: Floats


@njit(cache=True, nogil=True)
def tree_path(drawn, leaf, closed, refine, unit, out):
    """Noise of the ``len(out)`` prefixes after ``leaf``, from the noises of their nodes in the order of the leaves."""
    at = 0
    for row in range(len(out)):
        leaf += 1
        if refine:
            level = refine_step(closed.nodes, closed.variances, leaf, drawn[at:])
            tree_step(closed.stack, leaf, closed.nodes[level])
            at += level + 1
        else:
            level = tree_step(closed.stack, leaf, drawn[row])
        for column in range(out.shape[1]):
            out[row, column] = unit * closed.stack[level, column]


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
        self._check_horizon(releases)
        size = PATH_BLOCK if self.grid.draws_by_row else releases
        # Leaf t closes lowest_bit(t) + 1 blocks; a refined tree draws for each of them, a plain one for the last.
        levels = self.levels if self.refine else 1
        parts = (
            self.grid.draw(noise, self.sigma, sum((last >> level) - (first >> level) for level in range(levels)))
            for first in range(0, releases, size)
            for last in [min(first + size, releases)]
        )
        return self._path(parts, releases, size)

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
        return self._path([joint], releases, releases)

    def noise_of(self, drawn: Ints) -> Floats:
        if self.refine:
            raise SpecError("a refined tree draws more than once a release", path="refine", fix="use noise_path")
        return self._path([drawn], len(drawn), len(drawn))

    def _path(self, parts: Iterable[Ints], releases: int, size: int) -> Floats:
        """The noise of all prefixes, given what their leaves drew in parts of ``size`` leaves."""
        out, shape = np.empty((releases, self.grid.width)), (self.levels, self.grid.width)
        closed, unit = ClosedLeaves(np.zeros(shape), np.zeros(shape), np.zeros(self.levels)), 2.0**-self.grid.sum_bits
        for place, drawn in enumerate(parts):
            first = place * size
            tree_path(drawn, first, closed, self.refine, unit, out[first : first + size])
        return out
