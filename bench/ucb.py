"""UCB simulation: rounds per second against the same loop in plain NumPy and against a hand-written compiled loop.

One thread, process CPU time, same instance (50 Bernoulli arms). Run: python bench/ucb.py
"""

from __future__ import annotations

import math
import time

import numpy as np
from numba import njit

from fairveil.bandits.environments.bernoulli import Bernoulli
from fairveil.bandits.nash.ucb import Ucb
from fairveil.bandits.simulate import Case, Streams


def numpy_loop(means, rounds, rng):
    counts, sums = np.zeros(means.size), np.zeros(means.size)
    for t in range(rounds):
        if t < means.size:
            arm = t
        else:
            arm = int(np.argmax(sums / counts + np.sqrt(2 * math.log(t + 1) / counts)))
        sums[arm] += rng.random() < means[arm]
        counts[arm] += 1
    return counts


@njit
def compiled_loop(means, rounds, rng, arms):
    counts, sums = np.zeros(means.size), np.zeros(means.size)
    for t in range(rounds):
        log_t, best, arm = math.log(t + 1.0), -1.0, 0
        for i in range(means.size):
            value = np.inf if counts[i] == 0 else sums[i] / counts[i] + math.sqrt(2 * log_t / counts[i])
            if value > best:
                best, arm = value, i
        sums[arm] += rng.random() < means[arm]
        counts[arm] += 1
        arms[t] = arm
    return counts


def clock(work) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    world, rounds = Bernoulli(arms=50), 1_000_000
    means, out = world.true_means, np.empty(rounds, np.int32)

    def simulate(count: int) -> None:
        policy = Ucb(arms=50)
        run = policy.simulator(Case.of(policy, world, count), Streams.of(0, 0))
        for stop in range(65536, count + 65536, 65536):
            run.advance(min(stop, count))

    simulate(1000)
    compiled_loop(means, 1000, np.random.default_rng(0), out)
    ours = min(clock(lambda: simulate(rounds)) for _ in range(3)) / rounds
    hand = min(clock(lambda: compiled_loop(means, rounds, np.random.default_rng(0), out)) for _ in range(3)) / rounds
    plain = clock(lambda: numpy_loop(means, 100_000, np.random.default_rng(0))) / 100_000
    print(f"rounds per second: fairveil {1 / ours:,.0f}, hand-written compiled {1 / hand:,.0f}, NumPy {1 / plain:,.0f}")
    print(f"against NumPy: {plain / ours:.0f}x (wanted >= 25)")
    print(f"time against the compiled loop: {ours / hand:.2f} (wanted <= 1.5)")


if __name__ == "__main__":
    main()
