"""What late rewards cost `private-nash`: regret against what any policy must pay, over many drawn instances.

Every reward is known D decisions after its own. must-pay(D) = regret at D = 0 + D/T x regret of uniform play; for Nash
regret, which does not add up, mu* - (mu* - R0)^(1 - D/T) mbar^(D/T) with R0 the Nash regret at D = 0 and mbar the mean
of the arms. docs/guides/nash.md has these figures beside those of a policy that drops late rewards.
Run: python bench/delay.py [--quick | --windows | --grid]

``--windows``: what a window and missing outcomes cost by arrival and by blocks, T = 500. ``--grid``: T, arms, laws,
windows and shares missing, drawn instances; must-pay is the landed regret without delay at the same share missing, plus
the mean delay of those who answer over T times the regret of uniform play (``--seed N``: other instances).
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
    means: list[float], epsilon: float, runs: int, rounds: int = ROUNDS, release: str = "arrivals", **feedback: object
) -> np.ndarray:
    """Average and Nash regret of one instance."""
    spec = {
        "task": "bandit", "rounds": rounds, "checkpoints": [rounds], "runs": runs, "seed": 7,
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


TRIAL = [0.45, 0.6, 0.3]


def windows(runs: int) -> None:
    """Average regret of a trial of 500 and of 296 patients, by arrival and by blocks."""
    print(f"three arms {TRIAL}, epsilon 1, outcomes after 4 to 20 decisions, one in ten never, {runs} runs")
    for patients, window in ((500, 20), (500, 120), (500, 360), (296, 120)):
        late = {"delay": ["uniform", 4, 20], "window": window, "missing": 0.1}
        new, old = (regrets(TRIAL, 1.0, runs, patients, rule, **late)[0] for rule in ("arrivals", "blocks"))
        print(f"T {patients}, window {window:4}: arrivals {new:.4f}, blocks {old:.4f}")
    silent = {"delay": ["uniform", 4, 20], "window": 360, "missing": [0.0, 0.0, 1.0]}
    new = regrets(TRIAL, 1.0, max(runs // 10, 20), 5000, **silent)[0]
    print(f"the worst arm silent, T 5000, window 360: arrivals {new:.4f}")


def grid(quick: bool, seed: int) -> None:
    """Ratio to must-pay of every cell."""
    worst = 0.0
    for rounds, delay in ((5000, 100), (50_000, 500)):
        for arms, epsilon in ((10, 1.0), (50, 0.2)):
            instances, runs = (2, 20) if quick else (10, 10 if rounds > 5000 else 30)
            worlds = [means_of(arms, seed + instance) for instance in range(instances)]
            uniform = float(np.mean([max(means) - np.mean(means) for means in worlds]))
            for share in (0.0, 0.1, 0.3):
                at_once = float(np.mean(
                    [regrets(m, epsilon, runs, rounds, "blocks", delay=0, missing=share)[0] for m in worlds]
                ))  # fmt: skip
                due = at_once + delay / rounds * uniform
                for law, longest in ((delay, 1.0), (["uniform", 0, 2 * delay], 2.0), (["geometric", delay], 4.6)):
                    for factor in (1, 6, 30):
                        window = int(max(factor, longest) * delay)
                        late = {"delay": law, "window": window, "missing": share}
                        paid = float(np.mean([regrets(m, epsilon, runs, rounds, **late)[0] for m in worlds]))
                        worst = max(worst, paid / due)
                        print(
                            f"T {rounds} k {arms} eps {epsilon} {law!s:22} window {window:6} missing {share}: "
                            f"{paid:.4f} = {paid / due:.2f} x must-pay {due:.4f}"
                            + ("" if paid <= MOST * due else "  TOO MUCH"), flush=True,
                        )  # fmt: skip
    print(f"worst {worst:.2f} x must-pay (at most {MOST})")


if __name__ == "__main__":
    if "--windows" in sys.argv:
        windows(2000)
        sys.exit()
    if "--grid" in sys.argv:
        first = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 0
        grid("--quick" in sys.argv, first)
        sys.exit()
    quick = "--quick" in sys.argv
    delays(*((3, 100) if quick else (10, 400)))
    missing(*((3, 100) if quick else (10, 400)))
    trials(400 if quick else 4000)
