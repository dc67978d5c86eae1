"""The compiled simulator of policies that decide every round.

Uniform exploration (phase 0) and index play (phase 1). An index changes for the pulled arm only, or for all arms
slowly through ln t, so the pulled arm keeps its turn while it stays above the runner-up, and a tournament finds the
next one in O(log arms). Where ln t moves, the keys are bounds computed for a slightly later round and only arms whose
bound reaches the best exact value are looked at: the arms are exactly those of a full scan every round.

A tournament over arms: the largest key in O(1), a changed key in O(log arms), ties to the lowest arm.

Node 1 is the root, leaf i sits at ``size + i``; a node holds the largest key below it. Values rather than winners are
stored, so that climbing has no chain of dependent loads.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairveil.arrays import Floats, Ints
from fairveil.bandits.environments.arms import BERNOULLI, RECORDED, UNIT, ArmEnvironment, draw
from fairveil.bandits.nash.index import explored, index, kept, taken
from fairveil.bandits.nash.tally import Stretch
from fairveil.bandits.simulate import Simulator, Streams
from fairveil.compiling import Kernel, njit
from fairveil.privacy.noise import compiled_laplace
from fairveil.randomness import Generator
from fairveil.state import State


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


RAW, LAPLACE, ONE_BIT = range(3)
"""How a reward reaches the learner."""
STILL, RISING, ANY = range(3)
"""What time does to an index: nothing, it never falls, or whatever it likes (then every round looks at all arms)."""
NO_LIMIT = 0
"""Uniform exploration has no limit on its rounds."""


class Habits(NamedTuple):
    """How a policy plays, beside its formulas.

    ``report``: how a reward reaches the learner, with ``success`` the parameter of the Laplace law and ``low`` and
    ``slope`` the chance of a one-bit report. ``limit``: rounds after which uniform exploration ends in any case
    (`NO_LIMIT`, or -1 where there is no such phase). ``pace``: what time does to the index.
    """

    report: int = RAW
    success: float = 1.0
    low: float = 0.0
    slope: float = 1.0
    limit: int = -1
    pace: int = ANY


class Arms(NamedTuple):
    """What is known of every arm, and [adaptive or not, uniform rounds so far]: the state of the step API."""

    counts: Ints
    sums: Floats
    phase: Ints


class Sources(NamedTuple):
    """The streams of one run, as compiled code takes them."""

    explore: Generator
    world: Generator
    noise: Generator


class RoundSimulator(Simulator[Stretch]):
    """Advances one run of a sequential policy; its arrays are those of the step API."""

    def __init__(
        self, numbers: Any, habits: Habits, state: State, world: ArmEnvironment, streams: Streams, spent: float
    ) -> None:
        self.numbers, self.habits, self.world, self.spent = numbers, habits, world, spent
        self.known = Arms(state["counts"], state["sums"], state["phase"])
        noise: Any = streams.noise.stream
        self.sources = Sources(streams.explore, streams.world, noise)
        self.laws, self.means, self.now = world.laws, world.true_means, 0

    def advance(self, stop: int) -> Stretch:
        out = np.empty(stop - self.now, np.int32)
        self.play(out)
        self.now = stop
        return Stretch(out, self.known.counts.copy(), int(self.known.phase[1]))

    def play(self, out: NDArray[np.int32]) -> None:
        """Decide the next rounds, one for each entry."""
        play(self.numbers, self.habits, self.laws, self.means, self.known, self.sources, self.now, out)

    def published(self) -> State:
        return self.known._asdict()


@njit(nogil=True)
def value_of(numbers, total, count, log_now):
    """The index of an arm; without rewards it is infinite."""
    if count == 0:
        return np.inf
    n = float(count)
    return index(numbers, total / n, n, log_now, 0)


@njit(nogil=True)
def number_of(numbers, total, count, log_now):
    """The index of an arm, refused where it is no number: no comparison would ever find it smaller."""
    value = value_of(numbers, total, count, log_now)
    if math.isnan(value):
        raise ValueError("the index is not a number (a root or a logarithm of a negative number, or 0/0)")
    return value


@Kernel
def best_arm(numbers, totals, counts, log_now):
    """The lowest arm whose index is largest: the definition that faster searches must agree with."""
    arm, best = 0, -np.inf
    for i in range(counts.size):
        value = number_of(numbers, totals[i], counts[i], log_now)
        if value > best:
            arm, best = i, value
    return arm


@njit(nogil=True)
def _take_in(numbers, total, count, adaptive, value):
    """An arm's sum after one more report, which makes ``count`` of them, and whether it ends uniform exploration."""
    after = kept(numbers, total + taken(numbers, value), float(count), adaptive)
    return after, explored(numbers, after, float(count))


take_in = Kernel(_take_in.py_func)


@njit(nogil=True)
def _reported(habits, value, world, noise):
    """What a user sends. The chance of a one is linear in the reward, so a fresh reward may enter by its mean alone."""
    if habits.report == ONE_BIT:
        return 1.0 if world.random() < habits.low + habits.slope * value else 0.0
    return (np.int64(value * UNIT) + compiled_laplace(noise, habits.success)) / UNIT


@Kernel
def play(numbers, habits, laws, means, known, sources, start, out):
    """Rounds from ``start`` on; ``out`` receives arms, or the number of arms for a uniform draw."""
    counts, sums, phase = known.counts, known.sums, known.phase
    explore, world, noise = sources.explore, sources.world, sources.noise
    law, chance, small, large, rows, _ = laws
    arms, now, stop, arm = counts.size, start, start + out.size, 0
    tree = make_tree(arms)
    leaf = tree.size // 2
    moving = habits.pace != STILL
    until, end = now, now  # keys hold before round ``until``; the turn of ``arm`` ends before round ``end``
    log_low, log_high, rival = 0.0, 0.0, np.inf
    stack = np.empty(64, np.int64)
    while now < stop:
        uniform = phase[0] == 0
        if uniform:
            arm = explore.integers(0, arms)
        elif now >= end:
            if now >= until:
                ahead = min(now // 64, 8 * arms) if habits.pace == RISING else 0
                until = now + 1 + ahead if moving else stop
                log_low, log_high = math.log(now + 1.0), math.log(until + 0.0)
                for i in range(arms):
                    tree[leaf + i] = number_of(numbers, sums[i], counts[i], log_high)
                play_matches(tree)
            arm = top(tree)
            rival, end = runner_up(tree, arm), min(stop, until)
            if moving:
                log_now = math.log(now + 1.0)
                if value_of(numbers, sums[arm], counts[arm], log_now) <= rival:
                    arm = _exact(numbers, sums, counts, log_now, tree, stack)
                    rival = runner_up(tree, arm)
        value = means[arm]
        if law[arm] == BERNOULLI:
            if habits.report != ONE_BIT:
                value = 1.0 if world.random() < chance[arm] else 0.0
        elif habits.report != ONE_BIT or law[arm] == RECORDED:
            value = draw(law, chance, small, large, rows, arm, now, world)
        if habits.report != RAW:
            value = _reported(habits, value, world, noise)
        counts[arm] += 1
        sums[arm], over = _take_in(numbers, sums[arm], counts[arm], not uniform, value)
        out[now - start] = arms if uniform else arm
        now += 1
        if uniform:
            phase[1] += 1
            if over or now == habits.limit:
                phase[0], until, end = 1, now, now
        elif now >= end or value_of(numbers, sums[arm], counts[arm], log_low) <= rival:
            end = now  # overtaken, or a tie that the search must settle
            set_key(tree, arm, value_of(numbers, sums[arm], counts[arm], log_high))
    for i in range(arms):
        number_of(numbers, sums[i], counts[i], math.log(max(stop, 1.0)))


@njit(nogil=True)
def _exact(numbers, sums, counts, log_now, tree, stack):
    """The arm a full scan would choose: only arms whose bound reaches the best exact value are evaluated."""
    size = tree.size // 2
    best, arm = -np.inf, -1
    stack[0], depth = 1, 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if tree[node] < best:
            continue
        if node >= size:
            leaf = node - size
            if leaf < counts.size:
                value = value_of(numbers, sums[leaf], counts[leaf], log_now)
                if value > best or (value == best and leaf < arm):
                    best, arm = value, leaf
            continue
        left, right = 2 * node, 2 * node + 1
        if tree[left] >= tree[right]:
            stack[depth], stack[depth + 1] = right, left
        else:
            stack[depth], stack[depth + 1] = left, right
        depth += 2
    return arm
