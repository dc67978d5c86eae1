"""Private-Fair-Greedy with the noise that its paper prints: tree, positive-definite shift, counts for T queries.

Wishart noise on a binary tree of outer products: an alternative of the published implementation.

Kept to reproduce; no guarantee is claimed for it here. Degrees of freedom and shift follow Shariff and Sheffet 2018,
4.1.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Literal

import numpy as np

from fairveil.arrays import Floats
from fairveil.bandits.meritocratic.noisy_history import PUBLIC, SHAPE, UNIT, NoisyHistory, rank_event
from fairveil.bandits.meritocratic.runner import NoisyRunner, noisy_runner
from fairveil.bandits.simulate import Case, Streams
from fairveil.compiling import njit
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fields import OpenUnit, described
from fairveil.privacy.accounting import Accountant
from fairveil.privacy.events import ApproximateEvent, ComposedEvent, Event
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise, ZeroNoise
from fairveil.privacy.sums import TreeSum
from fairveil.privacy.sums.tree import lowest_bit, tree_step
from fairveil.registry import register
from fairveil.state import State


def degrees_of_freedom(width: int, levels: int, epsilon: float, delta: float) -> int:
    return width + math.ceil(224 * levels / epsilon**2 * math.log(8 * levels / delta) * math.log(2 / delta))


def prefix_shift(width: int, levels: int, degrees: int, bound: float, rounds: int) -> float:
    """Taken from the diagonal of a prefix by the shifted variant, never below zero."""
    spread = math.sqrt(width) + math.sqrt(2 * math.log(8 * rounds))
    most = math.sqrt(levels * degrees)
    return bound**2 * max(0.0, (most - spread) ** 2 - 4 * most * spread)


@njit(cache=True, nogil=True)
def wishart(rng, degrees, size, scale, flat):
    """One Wishart(degrees, scale I) draw by Bartlett's decomposition, flat: diagonal first, then above it."""
    lower = np.zeros((size, size))
    for i in range(size):
        lower[i, i] = math.sqrt(2.0 * rng.standard_gamma((degrees - i) / 2.0))
        for j in range(i):
            lower[i, j] = rng.standard_normal()
    at = size
    for i in range(size):
        for j in range(i, size):
            total = 0.0
            for k in range(i + 1):
                total += lower[i, k] * lower[j, k]
            if i == j:
                flat[i] = scale * total
            else:
                flat[at] = scale * total
                at += 1


@njit(cache=True, nogil=True)
def _prefixes(rng, levels, degrees, size, scale, out):
    """Noise of all prefixes 1..len(out): each dyadic block carries one draw."""
    width = out.shape[1]
    stack = np.zeros((levels, width))
    fresh = np.zeros(width)
    for leaf in range(1, out.shape[0] + 1):
        wishart(rng, degrees, size, scale, fresh)
        tree_step(stack, leaf, fresh)
        out[leaf - 1] = stack[lowest_bit(leaf)]


def wishart_path(noise: Noise, leaves: int, size: int, degrees: int, bound: float) -> Floats:
    """Noise of all prefixes, from seeded noise alone: this law has no exact sampler here, and nothing is promised."""
    if isinstance(noise, ZeroNoise):
        return np.zeros((leaves, 0))
    if noise.stream is None:
        raise SpecError("Wishart noise is simulated only", path="noise", given=type(noise).__name__, allowed="seeded")
    out = np.empty((leaves, size * (size + 1) // 2))
    _prefixes(noise.stream, int(leaves).bit_length(), degrees, size, bound**2, out)
    return out


@register("policy", "private-fair-greedy", variant="printed")
@configuration
class PrivateFairGreedyPrinted(NoisyHistory):
    """Private-Fair-Greedy as printed: advanced composition over a tree, a positive-definite shift, T rank queries.

    Guarantee: private for a fixed public ``bound`` and far noisier than it need be; `guarantee` states the mu that the
    noise really gives, for one candidate of one round. (eps alpha_eps, delta alpha_delta) is the paper's budget of the
    regression, the rest that of the ranks (``ranks``: zcdp or approx). ``shift``: once per prefix, or in every node as
    in the authors' runs. ``regression`` wishart and shifted-wishart: simulated with seeded noise only, not established.
    Cost: one event for the horizon ``rounds``. Time and memory as Fair-Greedy, and O(features^2) numbers a leaf.

    >>> policy = PrivateFairGreedyPrinted(epsilon=15.0, delta=0.1, bound=5.0, rounds=50_000)
    >>> policy.guarantee().epsilon < 2
    True

    Reference: An, Palacci and Paschalidis 2025, Algorithm 1; docs/errata/private-fair-greedy.md.
    """

    variant: Literal["printed"] = described("the printed algorithm", default="printed")
    regression: Literal["gaussian", "wishart", "shifted-wishart"] = described(
        "law of the noise of the regression", default="gaussian"
    )
    ranks: Literal["zcdp", "approx"] = described("how the noise of the counts is calibrated", default="zcdp")
    shift: Literal["prefix", "node"] = described(
        "a shift of the moments once a prefix, or in every node", default="node"
    )
    alpha_delta: OpenUnit = described("share of delta for the regression", default=0.9)

    # The printed formulas ---------------------------------------------------------------------------------------------

    @property
    def regression_budget(self) -> tuple[float, float]:
        return self.epsilon * self.alpha_eps, self.delta * self.alpha_delta

    @property
    def rank_budget(self) -> tuple[float, float]:
        return self.epsilon * (1 - self.alpha_eps), self.delta * (1 - self.alpha_delta)

    @property
    def levels(self) -> int:
        """Levels of the tree: m = 1 + ceil(log2 of the leaves)."""
        return 1 + math.ceil(math.log2(max(self.leaves, 2)))

    @property
    def node_std(self) -> float:
        """Off-diagonal standard deviation of a node: 4 sqrt(m) L^2 ln(4/delta) / epsilon."""
        epsilon, delta = self.regression_budget
        return 4 * math.sqrt(self.levels) * self.bound**2 * math.log(4 / delta) / epsilon

    def count_std(self, now: int) -> float:
        epsilon, delta = self.rank_budget
        if self.ranks == "zcdp":
            rho = (math.sqrt(math.log(1 / delta) + epsilon) - math.sqrt(math.log(1 / delta))) ** 2
            return math.sqrt(self.last_round / (2 * rho))
        # Ours: advanced composition over T queries of the classical Gaussian mechanism; the authors' program has half.
        each = epsilon / math.sqrt(8 * self.last_round * math.log(2 / delta))
        return math.sqrt(2 * math.log(1.25 * 2 * self.last_round / delta)) / each

    def ridges(self, leaves: int) -> Floats:
        """Shift 2 Gamma of a prefix, Gamma = std sqrt(2m) (4 sqrt d + 2 ln 2T), or one in every node of the prefix."""
        if self.regression == "wishart":
            return np.full(leaves, self.ridge)
        if self.regression == "shifted-wishart":
            taken = prefix_shift(self.width, self.levels, self.degrees, self.bound, self.last_round)
            return np.full(leaves, self.ridge - taken)
        gamma = self.node_std * math.sqrt(2 * self.levels)
        gamma *= 4 * math.sqrt(self.width - 1) + 2 * math.log(2 * self.last_round)
        nodes = np.bitwise_count(np.arange(1, leaves + 1)) if self.shift == "node" else np.ones(leaves)
        return 2 * gamma * nodes.astype(np.float64)

    @property
    def degrees(self) -> int:
        """Degrees of freedom of Wishart noise."""
        return degrees_of_freedom(self.width, self.levels, *self.regression_budget)

    # What it really costs ---------------------------------------------------------------------------------------------

    @cached_property
    def sums(self) -> TreeSum:
        """The tree with the printed noise in every node; its mu is what that noise really costs."""
        levels = int(self.leaves).bit_length()
        mu = self.bound**2 * math.sqrt(levels) / self.node_std
        return TreeSum(self.leaves, mu=mu, shape="symmetric", dimension=self.width, bound=self.bound)

    @property
    def counted(self) -> int:
        """Noises that one candidate meets: it is counted in at most half of the rounds."""
        return self.draws_a_count * self.queries * max(self.last_round // 2, 1)

    @property
    def rank_mu(self) -> float:
        """What the counts cost one candidate."""
        return math.sqrt(self.counted) / self.count_std(0)

    def event(self) -> Event:
        if self.regression != "gaussian":
            return ApproximateEvent(self.epsilon, self.delta)
        return ComposedEvent((self.sums.event(), rank_event(self.rank_mu, self.counted, self.count_std(0) * UNIT)))

    def guarantee(self) -> Guarantee:
        unproved = ""
        if self.regression != "gaussian":
            unproved = "Wishart noise on a tree: the published claim was not re-proved"
        elif self.rounds is None:
            unproved = "the printed noise depends on the number of rounds, which is not given"
        if unproved:
            return Guarantee.approximate(self.epsilon, self.delta, established=False, notes=(unproved,), **SHAPE)
        total = math.hypot(self.sums.budget.first_mu(), self.rank_mu)
        claim = f"the paper claims ({self.epsilon:g}, {self.delta:g}); its noise gives mu = {total:.4g}"
        accountant = Accountant()
        accountant.compose(self.event())
        epsilon = accountant.at_delta(self.delta).epsilon
        notes = (claim, "holds for a fixed public bound only", PUBLIC)
        return Guarantee.approximate(epsilon, self.delta, mu=total, notes=notes, **SHAPE)

    # Wishart noise is drawn by the simulator alone --------------------------------------------------------------------

    def close_leaf(self, state: State, fresh: Floats, leaf: int, noise: Noise) -> State:
        if self.regression != "gaussian":
            raise SpecError("Wishart noise runs in the simulator only", path="regression", given=self.regression)
        return super().close_leaf(state, fresh, leaf, noise)

    def simulator(self, case: Case, streams: Streams) -> NoisyRunner | None:
        made = noisy_runner(self, case, streams)
        if made is not None and self.regression != "gaussian":
            made.moments = wishart_path(streams.noise, self.leaves, self.width, self.degrees, self.bound)
        return made
