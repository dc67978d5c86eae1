"""What late rewards cost an exposure-fair private policy: regret at a delay of D decisions against what must be paid.

Must be paid: the regret without delay and D rounds without information. One agent, 10 actions, dimension 5, merit
e^(10 mu), epsilon 5, delta 1e-5, 20,000 rounds. Beside it the same policy whose batches end on the schedule itself
instead of ``outstanding`` decisions earlier. About a second of CPU time a run and delay.

    python bench/exposure_delay.py [--runs 12]
"""

from __future__ import annotations

import argparse
import math

import fairveil

WORLD = {"name": "exposure", "agents": 1, "actions": 10, "dimension": 5, "merit": ["exp", 10.0]}
POLICY = {"name": "batched-priv-fairx", "epsilon": 5.0, "delta": 1e-5}
ROUNDS, BLIND_ROUNDS, DELAYS = 20_000, 500, (100, 1_000, 5_000)


def regret(policy, runs, rounds=ROUNDS, **more):
    """Mean fairness regret and its standard error."""
    spec = {"task": "bandit", "policy": policy, "environment": WORLD, "rounds": rounds, "checkpoints": [rounds]}
    metrics = fairveil.run({**spec, "runs": runs, "seed": 3, **more})["metrics"]
    return metrics["fairness_regret"][-1], metrics["fairness_regret_std"][-1] / math.sqrt(runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=12)
    runs = parser.parse_args().runs
    blind = regret({"name": "random"}, runs, BLIND_ROUNDS)[0] / BLIND_ROUNDS
    known, error = regret(POLICY, runs)
    print(f"a round without information costs {blind:.3f}; without delay {known:,.0f} +- {error:.0f}")
    print(f"{'delay':>6s} {'regret':>16s} {'on the schedule':>16s} {'must pay':>9s} {'ratio':>6s}")
    for delay in DELAYS:
        (late, error), (plain, other) = (
            regret({**POLICY, **change}, runs, feedback={"delay": delay}) for change in ({}, {"outstanding": 0})
        )
        must = known + delay * blind
        print(f"{delay:6,d} {late:9,.0f} +- {error:3.0f} {plain:9,.0f} +- {other:3.0f} {must:9,.0f} {late / must:6.3f}")


if __name__ == "__main__":
    main()
