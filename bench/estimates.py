"""Do published intervals cover? Nash policies over epsilon, arms, rounds and delays, and rank tables of a census.

Every line: the smallest coverage over arms of nominal 95 % intervals (default and anytime), of a normal interval that
knows nothing of noise, and the width of the best arm's interval relative to the plain non-private interval of the same
count, 2 x 1.96 sqrt(mean (1 - mean) / n). docs/guides/estimates.md has the figures.
Run: python bench/estimates.py [--quick]
"""

from __future__ import annotations

import sys
from itertools import product
from typing import Any

import numpy as np

from fairveil.bandits.simulate import start_run
from fairveil.bandits.task import case_of
from fairveil.randomness import generator

POLICIES, EPSILONS = ("private-nash", "local-nash", "adap-ucb"), (0.2, 1.0, 5.0)
ARMS = {
    "3 arms": [0.3, 0.5, 0.6],
    "20 arms": np.linspace(0.05, 0.95, 20).tolist(),
    "3 equal": [0.5] * 3,
    "20 equal": [0.5] * 20,
}
ROUNDS = {2_000: 100, 50_000: 1_000}
"""Rounds, and the delay that is tried with them."""
LEAST, LEAST_RANKS = 0.94, 0.90
PEOPLE = 20_000


def coverage(name: str, epsilon: float, means: list[float], rounds: int, delay: int, runs: int) -> list[float]:
    spec: dict[str, Any] = {
        "task": "bandit", "rounds": rounds, "runs": runs, "seed": 11,
        "policy": {"name": name, "epsilon": epsilon},
        "environment": {"name": "bernoulli", "means": means},
    }  # fmt: skip
    if delay:
        spec["feedback"] = {"delay": delay}
    case: Any = case_of(spec)
    true, held, width = np.array(means), np.zeros((3, len(means))), np.zeros((runs, 3))
    best = int(true.argmax())
    for run in range(runs):
        simulator = start_run(case, case.streams(run))
        simulator.advance(rounds)
        state = simulator.published()
        evidence = case.policy.evidence(state)
        value = np.clip((evidence.mean - evidence.low) / evidence.slope, 0.0, 1.0)
        reach = 1.96 * np.sqrt(value * (1 - value) / np.maximum(evidence.size, 1.0))
        normal = np.stack([value, value - reach, value + reach], axis=1)
        found = (case.policy.arm_intervals(state), case.policy.arm_intervals(state, anytime=True), normal)
        for place, rows in enumerate(found):
            held[place] += (rows[:, 1] <= true) & (true <= rows[:, 2])
        plain = 2 * 1.96 * np.sqrt(true[best] * (1 - true[best]) / max(evidence.size[best], 1.0))
        width[run] = [*((rows[best, 2] - rows[best, 1]) / min(plain, 1.0) for rows in found[:2]), plain]
    return [*(held.min(axis=1) / runs), *np.median(width, axis=0)]


def nash(runs: int, rounds: list[int]) -> bool:
    good = True
    names = ("cover", "anytime", "normal", "width", "anytime", "plain")
    print(f"{'policy':13} {'eps':>4} {'arms':9} {'rounds':>6} {'delay':>5}" + "".join(f" {n:>8}" for n in names))
    for name, epsilon, (words, means), total, late in product(POLICIES, EPSILONS, ARMS.items(), rounds, (False, True)):
        delay = ROUNDS[total] if late else 0
        found = coverage(name, epsilon, means, total, delay, runs)
        fine = min(found[0], found[1]) >= LEAST
        good &= fine
        print(
            f"{name:13} {epsilon:4g} {words:9} {total:6} {delay:5}"
            + "".join(f" {number:8.3f}" for number in found)
            + ("" if fine else "  TOO LOW"),
            flush=True,
        )
    return good


def ranks(runs: int, rounds: int, epsilon: float) -> bool:
    """Share of group-runs whose table is within 2 rank_std of the true ranks: at the middle, by root mean square over
    the table, and at its worst edge."""
    spec: dict[str, Any] = {
        "task": "bandit", "rounds": rounds, "runs": runs, "seed": 5,
        "policy": {"name": "batched-private-fair-greedy", "epsilon": epsilon, "delta": 1e-5},
        "environment": {"name": "synthetic-census"},
    }  # fmt: skip
    case: Any = case_of(spec)
    world, errors = case.environment, []
    for run in range(runs):
        runner: Any = start_run(case, case.streams(run))
        for stop in range(1_000, rounds + 1, 1_000):
            runner.advance(stop)
        state = runner.published()
        weights = case.policy.rule(state, len(world.schema.names)).weights
        for place, table in enumerate(case.policy.estimates(state).tables):
            people, _, _ = world.people(np.full(PEOPLE, place), generator(run, "people", place))
            true = np.searchsorted(np.sort(people @ weights), table.scores, side="right") / PEOPLE
            off = np.abs(np.array(table.ranks) - true) / table.std
            errors.append([off[len(off) // 2], np.sqrt((off**2).mean()), off.max(), table.std])
    kept = np.array(errors)
    middle, typical, worst = (kept[:, :3] <= 2).mean(axis=0)
    print(
        f"rank tables, epsilon {epsilon:g}, {rounds} rounds, {len(kept)} group-runs: within 2 rank_std {middle:.3f} "
        f"(middle), {typical:.3f} (rms over the table), {worst:.3f} (worst edge); rank_std {kept[:, 3].mean():.4f}",
        flush=True,
    )
    return bool(typical >= LEAST_RANKS)


def main() -> None:
    quick = "--quick" in sys.argv
    good = [ranks(4 if quick else 25, 5_000 if quick else 50_000, epsilon) for epsilon in (1.0, 5.0)]
    good.append(nash(50 if quick else 2_000, [2_000] if quick else list(ROUNDS)))
    print("all limits hold" if all(good) else "a limit is missed")
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
