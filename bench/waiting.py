"""What waiting costs where outcomes come late or never, and what it may cost: every figure with its limit.

    python bench/waiting.py [windows people coverage fixed grid batched speed] [--quick] [--seed N]

``windows``: a trial of 500 patients, three arms, by arrival and by blocks, and an arm that never answers. ``people``:
how many patients of a trial of 296 one arm gets on at most one release. ``coverage``: how often 95 % intervals miss,
where delays do not depend on rewards, and bounds where they do. ``fixed``: nothing missing, fixed delays, by arrival
against blocks. ``grid``: rounds, arms, laws, windows and shares missing on drawn instances (``--seed``: others, and
other runs everywhere) against what must be paid: the regret of blocks without delay at the same share missing, plus the
mean delay of those who answer over all rounds times the regret of uniform play. ``batched``: the policies with one
line. ``speed``: CPU seconds. ``--quick``: fewer runs, nothing is judged. Ends with an error where a limit is broken.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

import numpy as np

import fairveil
from delay import means_of, regrets
from fairveil.bandits.environments.bernoulli import Bernoulli
from fairveil.bandits.lateness import Lateness
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.simulate import Case, Streams, walk

Line = tuple[str, float, float]
"""Words, what was measured, and its limit."""
TRIAL = [0.45, 0.6, 0.3]
LATE = {"delay": ["uniform", 4, 20]}
WIDE = ((10, 1.0), (50, 0.2))
FIXED = {5000: (100, 500, 1000), 50_000: (100, 500, 1000, 2000, 5000, 10_000, 20_000)}


def windows(quick: bool, seed: int) -> Iterator[Line]:
    """Average regret of T = 500 whatever the window; one in ten never answers. Then an arm that never does."""
    runs = 200 if quick else 2000
    for window in (20, 120, 360):
        late = {**LATE, "window": window, "missing": 0.1}
        new, old = (regrets(TRIAL, 1.0, runs, 500, rule, 7 + seed, **late)[0] for rule in ("arrivals", "blocks"))
        yield f"T 500, window {window}: average regret (blocks {old:.4f})", new, 0.050
    spec = {
        "task": "bandit", "rounds": 5000, "checkpoints": [5000], "runs": runs // 10, "seed": 7 + seed,
        "policy": {"name": "private-nash", "epsilon": 1.0}, "environment": {"name": "bernoulli", "means": TRIAL},
        "feedback": {**LATE, "window": 360, "missing": [0.0, 0.0, 1.0]},
    }  # fmt: skip
    found = fairveil.run(spec)["metrics"]
    yield "T 5,000, the worst arm silent: its share", found["pull_share"][2], 0.03
    yield "T 5,000, the worst arm silent: average regret", found["average_regret"][0], 0.012


def people(quick: bool, seed: int) -> Iterator[Line]:
    """Patients of one arm on at most one release, 95th percentile, share of all."""
    late = Lateness.of({**LATE, "window": 120, "missing": 0.1})
    policy, largest = PrivateNash(arms=3, epsilon=1.0, release="arrivals"), []
    for run in range(20 if quick else 200):
        got = np.zeros(3)
        for step in walk(policy, Bernoulli(means=tuple(TRIAL)), 296, Streams.of(9 + seed, run), late):
            got[step.decision.arm] += step.state["looks"][step.decision.arm] <= 1
        largest.append(got.max() / 296)
    yield "T 296, window 120: one arm on at most one release", float(np.quantile(largest, 0.95)), 0.12


def coverage(quick: bool, seed: int) -> Iterator[Line]:
    """Share of runs of T = 500 whose intervals (delays do not read rewards) or bounds (they do) miss; the worst arm."""
    for words, late in {
        "delays do not read rewards": {**LATE, "window": 120, "missing": 0.1},
        "success ten times slower": {**LATE, "window": 200, "delay_if": {"reward": 10.0}},
        "success ten times faster": {"delay": ["uniform", 40, 200], "window": 200, "delay_if": {"reward": 0.1}},
        "success never answers": {**LATE, "window": 20, "delay_if": {"reward": 1000.0}},
    }.items():
        spec = {
            "task": "bandit", "rounds": 500, "checkpoints": [500], "runs": 200 if quick else 2000, "seed": 5 + seed,
            "policy": {"name": "private-nash", "epsilon": 1.0}, "environment": {"name": "bernoulli", "means": TRIAL},
            "feedback": late,
        }  # fmt: skip
        lab = fairveil.run(spec)["metrics"]["lab"]
        if "delay_if" not in late:
            yield f"{words}: intervals miss", 1.0 - min(lab["interval_coverage"]), 0.05
        yield f"{words}: bounds miss", 1.0 - min(lab["bounds_coverage"]), 0.05


def fixed(quick: bool, seed: int) -> Iterator[Line]:
    """Nothing missing: regret by arrival over that of blocks."""
    for arms, epsilon in ((4, 1.0), *WIDE):
        worlds = [means_of(arms, seed + instance) for instance in range(2 if quick else 10)]
        for rounds, delays in FIXED.items():
            for delay in delays:
                new, old = (
                    np.mean([regrets(m, epsilon, 20 if quick else 40, rounds, rule, delay=delay)[0] for m in worlds])
                    for rule in ("arrivals", "blocks")
                )
                words = f"T {rounds:,}, {arms} arms, delay {delay:,}: {new:.4f}, blocks {old:.4f}, ratio"
                yield words, float(new / old), 1.08


def grid(quick: bool, seed: int) -> Iterator[Line]:
    """Regret over what must be paid, cell by cell."""
    for rounds, delay in ((5000, 100), (50_000, 500)):
        for arms, epsilon in WIDE:
            for share in (0.0, 0.1, 0.3):
                yield from cells(rounds, delay, arms, epsilon, share, quick, seed)


def cells(rounds: int, delay: int, arms: int, epsilon: float, share: float, quick: bool, seed: int) -> Iterator[Line]:
    """The nine cells of one number of rounds, one of arms and one share missing."""
    instances, runs = (2, 5) if quick else (10, 10)
    worlds = [means_of(arms, seed + instance) for instance in range(instances)]
    uniform = float(np.mean([max(means) - np.mean(means) for means in worlds]))
    at_once = [regrets(m, epsilon, 4 * runs, rounds, "blocks", delay=0, missing=share)[0] for m in worlds]
    due = float(np.mean(at_once)) + delay / rounds * uniform
    for law, longest in ((delay, 1.0), (["uniform", 0, 2 * delay], 2.0), (["geometric", delay], 4.6)):
        for factor in (1, 6, 30):
            window = int(max(factor, longest) * delay)
            late = {"delay": law, "window": window, "missing": share}
            paid = float(np.mean([regrets(m, epsilon, runs, rounds, **late)[0] for m in worlds]))
            words = f"T {rounds:,}, {arms} arms, {law}, window {window:,}, missing {share}: {paid:.4f}"
            yield f"{words}, must pay {due:.4f}, ratio", paid / due, 1.25


def batched(quick: bool, seed: int) -> Iterator[Line]:
    """Fair regret of the policies that release one line in batches; one in ten never answers."""
    runs = 2 if quick else 10
    greedy = {"name": "batched-private-fair-greedy", "epsilon": 5.0, "delta": 1e-5}
    for window, most in ((3000, 200.0), (200, 190.0)):
        spec = {
            "task": "bandit", "rounds": 5000, "checkpoints": [5000], "runs": runs, "seed": 7 + seed, "policy": greedy,
            "environment": {"name": "synthetic-census"},
            "feedback": {"delay": ["uniform", 0, 200], "window": window, "missing": 0.1},
        }  # fmt: skip
        found = fairveil.run(spec)["metrics"]["fair_regret"][-1]
        yield f"batched-private-fair-greedy, T 5,000, window {window:,}: fair regret", found, most
    spec = {
        "task": "bandit", "rounds": 20_000, "checkpoints": [20_000], "runs": 1 if quick else 16, "seed": 3 + seed,
        "policy": {"name": "batched-priv-fairx", "epsilon": 5.0, "delta": 1e-5},
        "environment": {"name": "exposure", "agents": 1, "actions": 10, "dimension": 5, "merit": ["exp", 10.0]},
        "feedback": {"delay": ["uniform", 0, 200], "window": 6000, "missing": 0.1},
    }  # fmt: skip
    found = fairveil.run(spec)["metrics"]["fairness_regret"][-1]
    yield "batched-priv-fairx, T 20,000, window 6,000: fairness regret", found, 9000.0


SLOWER = {100: 1.05, 500: 1.05, 1000: 1.05, 10_000: 1.35}
"""At a delay of 10,000 some 3,300 short turns are decided before anything can be answered, where blocks decide a few.
Their coins alone cost .08 of a run by blocks, so that 1.05 is out of reach with these decisions."""


def speed(quick: bool, seed: int) -> Iterator[Line]:
    """CPU seconds of 100 runs of 50,000 rounds and ten arms; with a fixed delay beside those of blocks."""
    world, runs = Bernoulli(means=tuple(means_of(10, seed))), 10 if quick else 100
    for late in ({"delay": ["uniform", 0, 1000], "window": 3000, "missing": 0.1}, {"delay": ["geometric", 500.0]}):
        yield f"100 runs, {late['delay']}: CPU seconds", 100 / runs * _seconds(world, "arrivals", late, runs), 5.0
    few = runs // 10
    for delay, most in SLOWER.items():  # the quickest of ten short turns each, side by side
        turns = [[_seconds(world, rule, {"delay": delay}, few) for rule in ("arrivals", "blocks")] for _ in range(10)]
        new, old = np.min(turns, axis=0) / few
        yield f"delay {delay:,}: {1e3 * new:.3f} ms a run, blocks {1e3 * old:.3f}; ratio", float(new / old), most


def _seconds(world: Bernoulli, rule: str, late: dict[str, object], runs: int) -> float:
    policy = PrivateNash(arms=10, epsilon=1.0, release=rule)
    case = Case.of(policy, world, 50_000, lateness=Lateness.of(late))
    policy.simulator(case, Streams.of(1, 0)).advance(50_000)  # compiled before the clock starts
    start = time.process_time()
    for run in range(runs):
        policy.simulator(case, Streams.of(1, run)).advance(50_000)
    return time.process_time() - start


PARTS = {part.__name__: part for part in (windows, people, coverage, fixed, grid, batched, speed)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=list(PARTS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    broken = 0
    for name in asked.parts:
        worst = 0.0
        for words, found, most in PARTS[name](asked.quick, asked.seed):
            broken += found > most
            worst = max(worst, found / most)
            print(
                f"{name}: {words} {found:.4g} (at most {most:g})" + ("  TOO MUCH" if found > most else ""), flush=True
            )
        print(f"{name}: at most {worst:.2f} of the limit", flush=True)
    if broken and not asked.quick:
        sys.exit(f"{broken} figures above their limits")


if __name__ == "__main__":
    main()
