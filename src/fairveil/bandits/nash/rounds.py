"""The compiled simulator of policies that decide every round.

Uniform exploration (phase 0) and index play (phase 1). An index changes for the pulled arm only, or for all arms
slowly through ln t, so the pulled arm keeps its turn while it stays above the runner-up, and a tournament finds the
next one in O(log arms). Where ln t moves, the keys are bounds computed for a slightly later round and only arms whose
bound reaches the best exact value are looked at: the arms are exactly those of a full scan every round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fairveil.bandits.environments.laws import BERNOULLI, RECORDED, UNIT, Laws, draw
from fairveil.bandits.nash.indices import LOCAL_UCB, UCB, index
from fairveil.bandits.nash.runs import Summary, Walker
from fairveil.bandits.nash.tree import make_tree, play_matches, runner_up, set_key, top

RAW, LAPLACE, LAPLACE_CLIPPED, ONE_BIT, LAPLACE_MEAN_CLIPPED = range(5)
FIXED, SUM_ABOVE, LOCAL_RULE = range(3)
"""How the uniform phase ends: after a number of rounds, when a sum passes a bar, or by the local stopping rule."""


@dataclass(frozen=True)
class Rules:
    """Public numbers of a sequential policy, ready for compiled code.

    ``report``: how a reward reaches the learner, with ``success`` the parameter of the discrete Laplace law and
    ``low``/``slope`` the probability of a one-bit report. ``phase``: how uniform exploration ends, with its numbers
    ``bar``; ``limit``: after so many rounds in any case (-1: there is no such phase, 0: there is no limit).
    """

    rule: int
    par: NDArray[np.float64]
    report: int = RAW
    success: float = 1.0
    low: float = 0.0
    slope: float = 1.0
    phase: int = FIXED
    bar: NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))
    limit: int = -1


class RoundWalker(Walker):
    """Advances one run of a sequential policy; its state arrays are those of the step API."""

    def __init__(self, state: dict[str, NDArray[Any]], rules: Rules, world: Any, streams: Any, spent: float) -> None:
        self.state, self.rules, self.world, self.streams, self.spent = state, rules, world, streams, spent
        self.pulls = np.zeros(world.arms, np.int64)

    def advance(self, start: int, stop: int, out: NDArray[np.int32]) -> None:
        rules, streams = self.rules, self.streams
        play(
            rules.rule,
            rules.par,
            (rules.report, rules.success, rules.low, rules.slope),
            (rules.phase, rules.limit),
            rules.bar,
            self.world.laws,
            self.world.true_means,
            (self.state["counts"], self.state["sums"], self.state["phase"]),
            (streams.explore, streams.world, streams.noise.stream),
            start,
            stop,
            out,
            self.pulls,
        )

    def summary(self) -> Summary:
        return Summary(self.pulls, int(self.state["phase"][1]), 0, self.spent)


@njit(cache=True, nogil=True)
def _report(report, success, low, slope, value, world, noise):  # type: ignore[no-untyped-def]
    """What a user sends. The chance of a one is linear in the reward, so a fresh reward may enter by its mean alone."""
    if report == ONE_BIT:
        return 1.0 if world.random() < low + slope * value else 0.0
    units = np.int64(value * UNIT) + noise.geometric(success) - noise.geometric(success)
    value = units / UNIT
    return min(1.0, max(0.0, value)) if report == LAPLACE_CLIPPED else value


@njit(cache=True, nogil=True)
def clipped_sum(report, adaptive, total, count):  # type: ignore[no-untyped-def]
    """The sum an arm keeps; the printed local rule clips the running mean itself once play is adaptive."""
    if report == LAPLACE_MEAN_CLIPPED and adaptive == 1:
        return min(1.0, max(0.0, total / count)) * count
    return total


@njit(cache=True, nogil=True)
def phase_over(kind, limit, bar, done, total, count):  # type: ignore[no-untyped-def]
    """Does uniform exploration end after ``done`` rounds, the last of which fed an arm with this sum and count?"""
    if limit > 0 and done >= limit:
        return True
    if kind == SUM_ABOVE:
        return total > bar[0]
    if kind == LOCAL_RULE and count > 0:  # bar: width factor, sum bar, squared-log over eps^2
        mean, width = total / count, bar[0] / math.sqrt(count)
        excess = mean - width
        return excess > 0 and count * mean > bar[1] + bar[2] / excess + width * count
    return False


@njit(cache=True, nogil=True)
def play(rule, par, intake, phases, bar, laws: Laws, means, state, sources, start, stop, out, pulls):  # type: ignore[no-untyped-def]
    """Rounds start .. stop - 1 of one run; ``out`` receives arms, or the number of arms for a uniform draw."""
    counts, sums, phase = state
    explore, world, noise = sources
    kind, limit = phases
    report, success, low, slope = intake
    law, chance, small, large, rows, _ = laws
    a, b, c, d, e = par[0], par[1], par[2], par[3], par[4]
    arms, now, arm = counts.size, start, 0
    tree = make_tree(arms)
    leaf = tree.size // 2
    moving = rule in (UCB, LOCAL_UCB)
    until, end = now, now  # keys hold before round ``until``; the turn of ``arm`` ends before round ``end``
    log_low, log_high, rival = 0.0, 0.0, np.inf
    stack = np.empty(64, np.int64)
    while now < stop:
        uniform = phase[0] == 0
        if uniform:
            arm = explore.integers(0, arms)
        elif now >= end:
            if now >= until:
                until = now + 1 + min(now // 64, 8 * arms) if moving else stop
                log_low, log_high = math.log(now + 1.0), math.log(until + 0.0)
                for i in range(arms):
                    tree[leaf + i] = index(rule, sums[i], counts[i], log_high, a, b, c, d, e)
                play_matches(tree)
            arm = top(tree)
            rival, end = runner_up(tree, arm), min(stop, until)
            if moving:
                log_now = math.log(now + 1.0)
                if index(rule, sums[arm], counts[arm], log_now, a, b, c, d, e) <= rival:
                    arm = _exact(rule, sums, counts, log_now, par, tree, stack)
                    rival = runner_up(tree, arm)
        value = means[arm]
        if law[arm] == BERNOULLI:
            if report != ONE_BIT:
                value = 1.0 if world.random() < chance[arm] else 0.0
        elif report != ONE_BIT or law[arm] == RECORDED:
            value = draw(law, chance, small, large, rows, arm, now, world)
        if report != RAW:
            value = _report(report, success, low, slope, value, world, noise)
        counts[arm] += 1
        sums[arm] = clipped_sum(report, phase[0], sums[arm] + value, counts[arm])
        pulls[arm] += 1
        out[now - start] = arms if uniform else arm
        now += 1
        if uniform:
            phase[1] += 1
            if phase_over(kind, limit, bar, now, sums[arm], counts[arm]):
                phase[0], until, end = 1, now, now
        elif now >= end or index(rule, sums[arm], counts[arm], log_low, a, b, c, d, e) <= rival:
            end = now  # overtaken, or a tie that the search must settle
            set_key(tree, arm, index(rule, sums[arm], counts[arm], log_high, a, b, c, d, e))


@njit(cache=True, nogil=True)
def _exact(rule, sums, counts, log_now, par, tree, stack):  # type: ignore[no-untyped-def]
    """The arm a full scan would choose: only arms whose bound reaches the best exact value are evaluated."""
    size, a, b, c, d, e = tree.size // 2, par[0], par[1], par[2], par[3], par[4]
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
                value = index(rule, sums[leaf], counts[leaf], log_now, a, b, c, d, e)
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
