"""Exact Fair-Greedy and Private-Fair-Greedy: CPU time against the straightforward way, and memory traffic.

    python bench/meritocratic_speed.py [--rounds 50000] [--naive 1000 2000 4000]

The straightforward way keeps the history in lists and joins the window into an array in every round, as published code
does; its time is measured at small horizons and extrapolated as a T^2 law to the horizon asked for. Ours is measured.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numba import njit

from fairveil.bandits.facts import fitted
from fairveil.bandits.meritocratic import FairGreedy, PrivateFairGreedy, PrivateFairGreedyPrinted
from fairveil.bandits.simulate import Case, Streams, start_run
from fairveil.privacy.noise import SeededNoise
from fairveil.randomness import generator
from fairveil.registry import build, load


def runner_of(policy, world, seed, noise):
    return start_run(Case.of(policy, world, 1), Streams.of(seed, 0, noise))


CHUNK = 1024


def naive_seconds(world, rounds: int, private: bool) -> float:
    """One run the straightforward way: lists, a join and a full rescoring of every group's window in each round."""
    rng, features = np.random.default_rng(0), world.features
    people: list[np.ndarray] = []
    chosen_rows: list[np.ndarray] = []
    rewards: list[float] = []
    gram, moment = 0.01 * np.eye(features), np.zeros(features)
    chunk = world.draw(0, rounds, generator(1))
    start = time.process_time()
    for now in range(rounds):
        shown = chunk.features[now]
        if now < 2:
            arm = int(rng.integers(len(shown)))
        else:
            half = now // 2
            if private:
                drawn = rng.normal(size=(features + 1, features + 1))
                noise = (drawn + drawn.T)[:features, :features] / np.sqrt(2)
            else:
                noise = np.zeros((features, features))
            gram += np.outer(chosen_rows[half - 1], chosen_rows[half - 1])
            moment += rewards[half - 1] * chosen_rows[half - 1]
            theta = np.linalg.inv(gram + 1e-3 * noise) @ moment
            window = np.concatenate([row[None] for row in people[half:]])
            scores = window @ theta
            ranks = (scores <= shown @ theta).mean(axis=0)
            if private:
                ranks = ranks + rng.normal(size=len(ranks))
            arm = int(rng.choice(np.flatnonzero(ranks == ranks.max())))
        people.append(shown)
        chosen_rows.append(shown[arm])
        rewards.append(float(chunk.reward[now, arm]))
    return time.process_time() - start


def ours_seconds(world, policy, rounds: int) -> tuple[float, np.ndarray]:
    """CPU seconds of a whole run (drawing noise included, drawing candidates not), and the window's work counters."""
    made = fitted(policy, world, rounds)
    start = time.process_time()
    runner = runner_of(made, world, 1, SeededNoise(1))
    spent = time.process_time() - start
    stream = generator(1, "world")
    for first in range(0, rounds, CHUNK):
        chunk = world.draw(first, min(CHUNK, rounds - first), stream)
        start = time.process_time()
        runner.play(chunk)
        spent += time.process_time() - start
    return spent, runner.store.work.copy()


@njit(cache=True)
def read_all(array):
    total = np.float32(0.0)
    for i in range(0, array.shape[0], 16):  # one read per cache line is enough to move it
        total += array[i]
    return total


def bandwidth() -> float:
    """Bytes a second one core reads from memory, best of five."""
    array = np.ones(2**26, np.float32)
    read_all(array)
    times = []
    for _ in range(5):
        start = time.process_time()
        read_all(array)
        times.append(time.process_time() - start)
    return array.nbytes / min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50_000)
    parser.add_argument("--naive", type=int, nargs="+", default=[1000, 2000, 4000])
    asked = parser.parse_args()
    load()
    world = build("environment", {"name": "synthetic-census"}, "environment")
    bound = world.schema.bound
    speed = bandwidth()
    print(f"K = {world.groups}, d = {world.features}; one core reads {speed / 1e9:.1f} GB/s")
    policies = {
        "fair-greedy": FairGreedy(),
        "private-fair-greedy, printed": PrivateFairGreedyPrinted(epsilon=15.0, delta=0.1, bound=bound),
        "private-fair-greedy, sound": PrivateFairGreedy(epsilon=15.0, delta=0.1, bound=bound),
    }
    for name, policy in policies.items():
        private = name != "fair-greedy"
        measured = [naive_seconds(world, rounds, private) for rounds in asked.naive]
        # Least squares of a + b T^2 through the two longest runs: the quadratic part is what grows.
        last, before = asked.naive[-1], asked.naive[-2]
        slope = (measured[-1] - measured[-2]) / (last**2 - before**2)
        naive = measured[-1] + slope * (asked.rounds**2 - last**2)
        ours_seconds(world, policy, 2000)  # compile
        spent, work = ours_seconds(world, policy, asked.rounds)
        moved = 4.0 * world.features * work[0] + 4.0 * work[1] + 8.0 * world.features * work[2]
        print(
            f"{name}: naive {', '.join(f'{value:.2f}' for value in measured)} s at {asked.naive}, "
            f"about {naive:,.0f} s at T = {asked.rounds:,}; ours {spent:.1f} s: {naive / spent:.0f} times faster"
        )
        print(
            f"    millions of members scored {work[0] / 1e6:,.0f}, compared {work[1] / 1e6:,.0f}, "
            f"rechecked {work[2] / 1e6:,.1f}; {moved / 1e9:.0f} GB moved, {moved / spent / 1e9:.1f} GB/s = "
            f"{moved / spent / speed:.0%} of the bandwidth",
            flush=True,
        )


if __name__ == "__main__":
    main()
