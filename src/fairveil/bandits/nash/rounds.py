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

from fairveil.bandits.environments.laws import RECORDED, UNIT, Laws, draw, draw_units
from fairveil.bandits.nash.indices import LOCAL_UCB, UCB, index
from fairveil.bandits.nash.runs import Summary, Walker
from fairveil.bandits.nash.tree import make_tree, runner_up, set_key

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
            (streams.explore, streams.world, streams.noise.generator),
            start,
            stop,
            out,
            self.pulls,
        )

    def summary(self) -> Summary:
        return Summary(self.pulls, int(self.state["phase"][1]), 0, self.spent)


@njit(cache=True, nogil=True)
def take(intake, laws: Laws, means, arm, now, world, noise):  # type: ignore[no-untyped-def]
    """What the learner receives for one pull."""
    report, success, low, slope = intake
    if report == RAW:
        return draw(laws, arm, now, world)
    if report == ONE_BIT:
        # the chance of a one is linear in the reward, so a fresh reward enters through its mean alone
        value = draw(laws, arm, now, world) if laws.kind[arm] == RECORDED else means[arm]
        return 1.0 if world.random() < low + slope * value else 0.0
    units = draw_units(laws, arm, now, world)
    units += noise.geometric(success) - noise.geometric(success)
    value = units / UNIT
    if report == LAPLACE_CLIPPED:
        return min(1.0, max(0.0, value))
    return value


@njit(cache=True, nogil=True)
def absorb(report, counts, sums, phase, arm, value):  # type: ignore[no-untyped-def]
    """Add a report to an arm; the printed local rule clips the running mean itself."""
    counts[arm] += 1
    sums[arm] += value
    if report == LAPLACE_MEAN_CLIPPED and phase[0] == 1:
        sums[arm] = min(1.0, max(0.0, sums[arm] / counts[arm])) * counts[arm]


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
    arms = counts.size
    report = intake[0]
    now = start
    while now < stop and phase[0] == 0:
        arm = explore.integers(0, arms)
        absorb(report, counts, sums, phase, arm, take(intake, laws, means, arm, now, world, noise))
        pulls[arm] += 1
        out[now - start] = arms
        now += 1
        phase[1] += 1
        if phase_over(kind, limit, bar, now, sums[arm], counts[arm]):
            phase[0] = 1
    if now >= stop:
        return
    moving = rule in (UCB, LOCAL_UCB)
    keys = np.empty(arms)
    until = now  # keys hold for rounds before this one
    padded, winner = make_tree(keys)
    log_low = 0.0
    while now < stop:
        if now >= until:
            log_low = math.log(now + 1.0)
            until = now + 1 + now // 64 if moving else stop
            log_high = math.log(until + 0.0)
            for i in range(arms):
                keys[i] = index(rule, sums[i], counts[i], log_high, par)
            padded, winner = make_tree(keys)
        arm = winner[1]
        if moving:
            log_now = math.log(now + 1.0)
            arm = _exact(rule, sums, counts, log_now, par, padded, winner)
        rival, rival_key = runner_up(padded, winner, arm)
        end = min(stop, until)
        while now < end:
            absorb(report, counts, sums, phase, arm, take(intake, laws, means, arm, now, world, noise))
            pulls[arm] += 1
            out[now - start] = arm
            now += 1
            value = index(rule, sums[arm], counts[arm], log_low, par)
            if value < rival_key or (value == rival_key and (moving or rival < arm)):
                break
        set_key(padded, winner, arm, index(rule, sums[arm], counts[arm], math.log(until + 0.0), par))


@njit(cache=True, nogil=True)
def _exact(rule, sums, counts, log_now, par, padded, winner):  # type: ignore[no-untyped-def]
    """The arm a full scan would choose: only arms whose bound reaches the best exact value are evaluated."""
    best, arm = -np.inf, -1
    stack = np.empty(64, np.int64)
    stack[0], depth = 1, 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if padded[winner[node]] < best:
            continue
        if node >= padded.size:
            leaf = node - padded.size
            if leaf < counts.size:
                value = index(rule, sums[leaf], counts[leaf], log_now, par)
                if value > best or (value == best and leaf < arm):
                    best, arm = value, leaf
            continue
        left, right = 2 * node, 2 * node + 1
        if padded[winner[left]] >= padded[winner[right]]:
            stack[depth], stack[depth + 1] = right, left
        else:
            stack[depth], stack[depth + 1] = left, right
        depth += 2
    return arm
