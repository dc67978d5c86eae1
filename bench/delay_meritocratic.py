"""What late rewards cost `batched-private-fair-greedy`: every reward known after D more decisions.

    python bench/delay_meritocratic.py [--rounds 50000] [--runs 10] [--epsilon 1 5] [--delay 0 100 1000 10000]

Must-pay(D) = regret without delay + D/T of the regret of uniform choice: nothing can be known before the first reward.
Prints fair pseudo-regret with its standard error, must-pay and their ratio; ends with an error above 1.1.
"""

from __future__ import annotations

import argparse
import math
import sys

from rich.console import Console
from rich.table import Table

import fairveil

ALLOWED = 1.1


def regret(policy: dict[str, object], asked: argparse.Namespace, delay: int) -> tuple[float, float]:
    """Mean fair pseudo-regret at the horizon and its standard error."""
    spec = {
        "task": "bandit",
        "policy": policy,
        "environment": {"name": "synthetic-census"},
        "rounds": asked.rounds,
        "checkpoints": [asked.rounds],
        "runs": asked.runs,
        "seed": asked.seed,
    }
    metrics = fairveil.run({**spec, "feedback": {"delay": delay}} if delay else spec)["metrics"]
    return metrics["fair_regret"][-1], metrics["fair_regret_std"][-1] / math.sqrt(asked.runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50_000)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 5.0])
    parser.add_argument("--delay", type=int, nargs="+", default=[0, 100, 1000, 10_000])
    asked = parser.parse_args()
    uniform, _ = regret({"name": "random"}, asked, 0)
    table = Table(title=f"fair pseudo-regret, T = {asked.rounds:,}, {asked.runs} runs; uniform choice {uniform:,.0f}")
    for heading in ("epsilon", "D", "regret", "must pay", "ratio"):
        table.add_column(heading, justify="right")
    worst = 0.0
    for epsilon in asked.epsilon:
        policy = {"name": "batched-private-fair-greedy", "epsilon": epsilon, "delta": 1e-5}
        at_once, _ = regret(policy, asked, 0)
        for delay in asked.delay:
            found, error = regret(policy, asked, delay)
            must = at_once + delay / asked.rounds * uniform
            worst = max(worst, found / must)
            table.add_row(
                f"{epsilon:g}", f"{delay:,}", f"{found:,.0f} ± {error:,.0f}", f"{must:,.0f}", f"{found / must:.3f}"
            )
    Console(width=100).print(table)
    if worst > ALLOWED:
        sys.exit(f"a delay costs {worst:.2f} times what it must")


if __name__ == "__main__":
    main()
