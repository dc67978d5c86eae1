"""What late rewards cost `private-nash`: regret against what any policy must pay, over many drawn instances.

Every reward is known D decisions after its own. must-pay(D) = regret at D = 0 + D/T x regret of uniform play; for Nash
regret, which does not add up, mu* - (mu* - R0)^(1 - D/T) mbar^(D/T) with R0 the Nash regret at D = 0 and mbar the mean
of the arms. docs/guides/nash.md has these figures beside those of a policy that drops late rewards.
Run: python bench/delay.py [--quick]. What windows and missing answers cost: bench/waiting.py.
"""

from __future__ import annotations

import sys

import numpy as np

import fairveil

ROUNDS = 50_000
DELAYS = (0, 100, 1000, 10_000)
INSTANCES = {(4, 1.0): "4 arms, epsilon 1", (10, 1.0): "10 arms, epsilon 1", (50, 0.2): "50 arms, epsilon 0.2"}
MOST, MOST_MISSING, MOST_TRIAL, MOST_SILENT = 1.25, 1.8, 0.45, 1.6


def means_of(arms: int, instance: int) -> list[float]:
    return np.random.default_rng(1000 + instance).uniform(0.05, 0.95, arms).tolist()


def regrets(
    means: list[float], epsilon: float, runs: int, rounds: int = ROUNDS, release: str = "arrivals", seed: int = 7,
    **feedback: object,
) -> np.ndarray:  # fmt: skip
    """Average and Nash regret of one instance."""
    spec = {
        "task": "bandit", "rounds": rounds, "checkpoints": [rounds], "runs": runs, "seed": seed,
        "policy": {"name": "private-nash", "epsilon": epsilon, "release": release},
        "environment": {"name": "bernoulli", "means": means},
    }  # fmt: skip
    metrics = fairveil.run(spec | ({"feedback": feedback} if feedback else {}))["metrics"]
    return np.array([metrics["average_regret"][0], metrics["nash_regret"][0]])


def must_pay(means: list[float], at_once: np.ndarray, delay: int, rounds: int = ROUNDS) -> np.ndarray:
    best, average, share = max(means), float(np.mean(means)), delay / rounds
    nash = best - (best - at_once[1]) ** (1 - share) * average**share
    return np.array([at_once[0] + share * (best - average), nash])


def delays(instances: int, runs: int) -> None:
    names = ("delay", "average", "must pay", "ratio", "Nash", "ratio")
    print(f"{'instance':22}" + "".join(f" {name:>8}" for name in names))
    for (arms, epsilon), words in INSTANCES.items():
        worlds = [means_of(arms, instance) for instance in range(instances)]
        at_once = [regrets(means, epsilon, runs) for means in worlds]
        for delay in DELAYS:
            found = at_once if delay == 0 else [regrets(means, epsilon, runs, delay=delay) for means in worlds]
            paid = np.mean(found, axis=0)
            due = np.mean([must_pay(m, r, delay) for m, r in zip(worlds, at_once)], axis=0)
            ratio = paid / due
            print(
                f"{words:22} {delay:8} {paid[0]:8.4f} {due[0]:8.4f}"
                f" {ratio[0]:8.2f} {paid[1]:8.4f} {ratio[1]:8.2f}" + ("" if (ratio <= MOST).all() else "  TOO MUCH")
            )


def missing(instances: int, runs: int) -> None:
    print(f"\n30 % missing, arrivals public (at most {MOST_MISSING} x must-pay of the window)")
    for (arms, epsilon), words in INSTANCES.items():
        worlds = [means_of(arms, instance) for instance in range(instances)]
        at_once = [regrets(means, epsilon, runs) for means in worlds]
        for delay in DELAYS[1:]:
            found = np.mean([regrets(means, epsilon, runs, delay=delay, missing=0.3) for means in worlds], axis=0)
            due = np.mean([must_pay(m, r, delay) for m, r in zip(worlds, at_once)], axis=0)
            print(
                f"{words:22} {delay:6} average {found[0]:.4f} = {found[0] / due[0]:.2f} x,"
                f" Nash {found[1] / due[1]:.2f} x"
            )


def trials(runs: int) -> None:
    print(
        f"\ntrials of 3 arms (0.3, 0.5, 0.7), epsilon 1, delay 100: share of uniform play's regret "
        f"(at most {MOST_TRIAL})"
    )
    for patients in (500, 2000):
        found = regrets([0.3, 0.5, 0.7], 1.0, runs, patients, delay=100)
        print(f"{patients} patients: {found[0] / 0.2:.3f}")


if __name__ == "__main__":
    quick = "--quick" in sys.argv
    delays(*((3, 100) if quick else (10, 400)))
    missing(*((3, 100) if quick else (10, 400)))
    trials(400 if quick else 4000)
