"""Round-by-round policies against the same algorithms written naively: a full scan of all arms every round.

Compiled against compiled, one thread, process CPU time, in one process. Also the episodic policies against a compiled
loop that goes through their rounds one by one. Run: python bench/nash_rounds.py
"""

from __future__ import annotations

import math
import time

import numpy as np
from numba import njit

from fairveil.bandits.environments.bernoulli import Bernoulli
from fairveil.bandits.nash.adap_ucb import AdapUcb
from fairveil.bandits.nash.gdp_ncb import GdpNcb
from fairveil.bandits.nash.ldp_ncb_figure import FigureLdpNcb
from fairveil.bandits.nash.ncb import Ncb
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.simulate import Case, Streams


@njit
def naive_ncb(means, horizon, c, rng):
    k, log_t = means.size, math.log(horizon)
    n, s, arms = np.zeros(k), np.zeros(k), np.empty(horizon, np.int64)
    t = 0
    while t < horizon and s.max() <= c * c * log_t:
        i = rng.integers(0, k)
        s[i] += rng.random() < means[i]
        n[i] += 1
        arms[t] = i
        t += 1
    while t < horizon:
        best, i = -1.0, 0
        for j in range(k):
            m = s[j] / n[j] if n[j] > 0 else 0.0
            v = m + 2 * c * math.sqrt(2 * m * log_t / n[j]) if n[j] > 0 else np.inf
            if v > best:
                best, i = v, j
        s[i] += rng.random() < means[i]
        n[i] += 1
        arms[t] = i
        t += 1
    return arms


@njit
def naive_ldp_ncb(means, horizon, c, alpha, epsilon, rng):
    k, log_t, window = means.size, math.log(horizon), int(math.sqrt(horizon)) + 2
    log_w = math.log(window - 1)
    n, s, arms = np.zeros(k), np.zeros(k), np.empty(horizon, np.int64)
    for t in range(horizon):
        if t < window:
            i = rng.integers(0, k)
        else:
            best, i = -1.0, 0
            for j in range(k):
                if n[j] == 0:
                    v = np.inf
                else:
                    m = min(1.0, max(0.0, s[j] / n[j]))
                    v = m + 2 * c * math.sqrt(2 * m * log_t / n[j])
                    v += math.sqrt(8 * alpha * log_t / n[j]) / epsilon
                    v += 4 * c * (2 * alpha) ** 0.25 * log_w**0.75 / (math.sqrt(epsilon) * n[j] ** 0.75)
                if v > best:
                    best, i = v, j
        s[i] += (rng.random() < means[i]) + rng.laplace(0.0, 1 / epsilon)
        n[i] += 1
        arms[t] = i
    return arms


@njit
def naive_episodes(means, ends, codes, values, rng):
    """The same episodes round by round: every reward is drawn, every round's mean is added to the sum over runs."""
    total, t, size = 0.0, 0, values.size
    for j in range(ends.size):
        i = codes[j] if codes[j] < means.size else 0
        while t < ends[j]:
            total += rng.random() < means[i]
            values[t % size] += means[i]
            t += 1
    return total


def clock(work, *arguments) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    work(*arguments)
    return time.process_time() - start


def simulator(policy, world, rounds: int, run: int = 0):
    return policy.simulator(Case.of(policy, world, rounds), Streams.of(0, run))


def walk(policy, world, rounds: int) -> None:
    run = simulator(policy, world, rounds)
    for stop in range(65536, rounds + 65536, 65536):
        run.advance(min(stop, rounds))


def episodes(policy, world, rounds: int, repeats: int) -> None:
    for run in range(repeats):
        simulator(policy, world, rounds, run).advance(rounds)


def compare_rounds() -> None:
    rng = np.random.default_rng(0)
    print(f"{'policy':10} {'arms':>5} {'naive ns/round':>15} {'ours ns/round':>14} {'ratio':>7}  wanted")
    for name, arms, rounds, wanted in (
        ("ncb", 50, 2_000_000, 2),
        ("ldp-ncb", 50, 2_000_000, 8),
        ("ncb", 1000, 400_000, 20),
        ("ldp-ncb", 1000, 200_000, 20),
    ):
        world = Bernoulli(arms=arms)
        if name == "ncb":
            policy, naive, facts = Ncb(arms=arms, horizon=rounds), naive_ncb, (3.0, rng)
        else:
            policy = FigureLdpNcb(arms=arms, horizon=rounds, epsilon=0.2)
            naive, facts = naive_ldp_ncb, (3.0, 3.1, 0.2, rng)
        naive(world.true_means, 200, *facts)
        walk(policy, world, 2000)
        slow = clock(naive, world.true_means, rounds, *facts) / rounds * 1e9
        fast = min(clock(walk, policy, world, rounds) for _ in range(3)) / rounds * 1e9
        print(f"{name:10} {arms:5} {slow:15.1f} {fast:14.1f} {slow / fast:7.1f}  >= {wanted}")


def compare_episodes(rounds: int = 10**8, repeats: int = 20) -> None:
    rng, world, values = np.random.default_rng(0), Bernoulli(arms=50), np.zeros(1 << 16)
    print(f"\n{'episodic':14} {'rounds':>10} {'one by one s':>13} {'episodes s':>11} {'ratio':>8}  wanted >= 200")
    for policy in (
        AdapUcb(arms=50, epsilon=0.2),
        GdpNcb(arms=50, horizon=rounds, epsilon=0.2),
        PrivateNash(arms=50, epsilon=0.2),
    ):
        episodes(policy, world, 20_000, 1)  # past the uniform phase, so that everything is compiled
        fast = clock(episodes, policy, world, rounds, repeats) / repeats
        run = simulator(policy, world, rounds).advance(rounds)
        naive_episodes(world.true_means, run.ends[:3], run.codes[:3], values, rng)
        slow = clock(naive_episodes, world.true_means, run.ends, run.codes, values, rng)
        print(f"{policy.name:14} {rounds:10.0e} {slow:13.3f} {fast:11.5f} {slow / fast:8.0f}")


if __name__ == "__main__":
    compare_rounds()
    compare_episodes()
