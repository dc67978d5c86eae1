"""Fair pseudo-regret of the batched policy over eps x delta, beside OFUL, random and the printed algorithm.

    python bench/meritocratic_table.py [--rounds 50000] [--runs 5] [--environment census synthetic-census]

Prints one Markdown table per environment: mean and 95 % band over the runs, and the floors that must hold.
"""

from __future__ import annotations

import argparse
import math

import fairveil
from fairveil.bandits.meritocratic.world import MeritocraticEnvironment
from fairveil.registry import build, load

EPSILONS, DELTAS = (0.1, 0.5, 1.0, 5.0, 15.0), (1e-5, 0.1)


def regret(environment: str, policy: dict, rounds: int, runs: int) -> tuple[float, float]:
    """Mean fair regret at the end and the half-width of its 95 % band."""
    spec = {
        "task": "bandit", "policy": policy, "environment": {"name": environment}, "rounds": rounds, "runs": runs,
        "seed": 11, "checkpoints": [rounds],
    }  # fmt: skip
    metrics = fairveil.run(spec)["metrics"]
    return metrics["fair_regret"][-1], 1.96 * metrics["fair_regret_std"][-1] / math.sqrt(runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--environment", nargs="+", default=["synthetic-census", "census"])
    asked = parser.parse_args()
    load()
    for environment in asked.environment:
        world: MeritocraticEnvironment = build("environment", {"name": environment}, "environment")
        base = {
            name: regret(environment, {"name": name}, asked.rounds, asked.runs)
            for name in ("random", "oful", "fair-greedy")
        }
        printed = {"name": "private-fair-greedy", "variant": "printed", "epsilon": 15.0, "delta": 0.1}
        base["printed (15, 0.1)"] = regret(environment, {**printed, "bound": world.schema.bound}, asked.rounds, 2)
        print(f"\n## {environment}, T = {asked.rounds}, {asked.runs} runs, printed L = {world.schema.bound:.2f}\n")
        for name, (mean, band) in base.items():
            print(f"- {name}: {mean:,.0f} ± {band:,.0f}")
        ours = {}
        for kind in ("declared", "bounds"):
            print(f"\n| batched, scaling {kind} | " + " | ".join(f"eps = {e:g}" for e in EPSILONS) + " |")
            print("|---" * (len(EPSILONS) + 1) + "|")
            for delta in DELTAS:
                cells = []
                for epsilon in EPSILONS:
                    policy = {"name": "batched-private-fair-greedy", "epsilon": epsilon, "delta": delta}
                    ours[kind, epsilon, delta] = regret(
                        environment, {**policy, "scaling": {"kind": kind}}, asked.rounds, asked.runs
                    )
                    cells.append("{:,.0f} ± {:,.0f}".format(*ours[kind, epsilon, delta]))
                print(f"| delta = {delta:g} | " + " | ".join(cells) + " |", flush=True)
        strict, loose = ours["declared", 1.0, 1e-5][0], ours["declared", 15.0, 0.1][0]
        print(f"\nat (1, 1e-5): {strict / base['oful'][0]:.2f} of OFUL, {strict / base['random'][0]:.3f} of random")
        print(
            f"at (15, 0.1): {loose / base['oful'][0]:.3f} of OFUL, "
            f"{loose / base['printed (15, 0.1)'][0]:.4f} of the printed algorithm"
        )


if __name__ == "__main__":
    main()
