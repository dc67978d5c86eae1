"""The stopping rule, looked at after every release: coverage until the stop, wrong verdicts, people at the stop, and
the chance to name the best arm as a plan quotes it. 12 cells of 2,000 runs; --quick: 200. Exits 1 where a limit
is missed.
"""

from __future__ import annotations

import sys
from itertools import product

import numpy as np

from fairveil import registry
from fairveil.bandits.feedback import AT_ONCE, Lateness
from fairveil.bandits.nash.planning import NEVER, PlanQuestion, follow, guessed_world
from fairveil.bandits.simulate import Case, start_run

PEOPLE = 20_000
POLICIES = ({"name": "private-nash", "exploration": 8.0}, {"name": "local-nash", "exploration": 8.0})
EPSILONS = (0.2, 1.0, 5.0)
ARMS = {"spread": [0.3, 0.5, 0.7], "equal": [0.5, 0.5, 0.5]}
LEVEL, WRONG, QUOTED = 0.95, 0.05, 0.03
LATE = Lateness.of({"delay": ["uniform", 0, 100], "missing": 0.1})


def cell(table: dict[str, object], epsilon: float, means: list[float], runs: int, late: Lateness) -> list[float]:
    policy = registry.build("policy", {**table, "arms": len(means), "epsilon": epsilon}, "policy")
    world, names = guessed_world(means)
    question = PlanQuestion(policy, world, names, PEOPLE, runs, late, LEVEL, "any")
    case = Case.of(policy, world, PEOPLE, lateness=late, seed=11)
    truth, held, wrong, stops = np.array(means), 0, 0, []
    best = set(np.flatnonzero(truth == truth.max()))
    for run in range(runs):
        found = follow(case, question, policy, run)
        rows = found.ruled[found.at <= found.stopped]
        held += bool(((rows[:, :, 1] <= truth) & (truth <= rows[:, :, 2])).all())
        wrong += found.stopped < NEVER and found.verdict not in best
        stops.append(found.stopped)
    stopped = np.array(stops) < NEVER
    return [held / runs, wrong / runs, stopped.mean(), np.median(stops) if stopped.mean() > 0.5 else np.nan]


def quoted(runs: int) -> float:
    """How far the chance to name the best arm in a plan is from runs of another seed, played to the end at once."""
    policy, means = (
        registry.build("policy", {"name": "private-nash", "arms": 3, "epsilon": 0.1}, "policy"),
        [0.4, 0.55, 0.45],
    )
    world, names = guessed_world(means)
    case = Case.of(policy, world, 2_000, seed=12)
    question = PlanQuestion(policy, world, names, 2_000, runs, AT_ONCE, LEVEL, "any")
    planned = [follow(case, question, policy, run).rows[-1] for run in range(runs)]
    again, hits = Case.of(policy, world, 2_000, seed=13), 0
    for run in range(runs):
        simulator = start_run(again, again.streams(run))
        simulator.advance(2_000)
        hits += int(np.nanargmax(policy.arm_intervals(simulator.published())[:, 0])) == 1
    return abs(np.mean([int(np.nanargmax(rows[:, 0])) == 1 for rows in planned]) - hits / runs)


def main() -> None:
    runs, good = 200 if "--quick" in sys.argv else 2_000, True
    print(f"{'policy':13} {'eps':>4} {'arms':7} {'late':>5} {'covered':>8} {'wrong':>7} {'stops':>6} {'people':>8}")
    for place, (table, epsilon, (words, means)) in enumerate(product(POLICIES, EPSILONS, ARMS.items())):
        late = LATE if place % 2 else AT_ONCE
        covered, wrong, stops, people = cell(table, epsilon, means, runs, late)
        fine = covered >= LEVEL and wrong <= WRONG
        good &= fine
        print(
            f"{table['name']!s:13} {epsilon:4g} {words:7} {'yes' if late is LATE else 'no':>5} {covered:8.4f} "
            f"{wrong:7.4f} {stops:6.3f} {people:8.0f}" + ("" if fine else "  MISSED"),
            flush=True,
        )
    gap = quoted(max(runs, 2_000))  # fewer cannot show a difference of .03
    good &= bool(gap <= QUOTED)
    print(f"chance to name the best arm: plan and independent runs differ by {gap:.4f} (limit {QUOTED})")
    sys.exit(not good)


if __name__ == "__main__":
    main()
