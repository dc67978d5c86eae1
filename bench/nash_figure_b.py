"""Figure (b) of DP-NCB at its full size: 50 Bernoulli arms, T = 1e8, 50 runs, five policies, eps = 0.2.

Prints Nash regret, CPU seconds, wall seconds and peak memory of every policy, each in a process of its own.
Run: python bench/nash_figure_b.py [rounds] [policy ...]
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import fairveil

POLICIES = {
    "ncb": {"name": "ncb"},
    "adap-ucb": {"name": "adap-ucb", "epsilon": 0.2, "variant": "figure"},
    "gdp-ncb": {"name": "gdp-ncb", "epsilon": 0.2, "variant": "figure"},
    "ldp-ncb": {"name": "ldp-ncb", "epsilon": 0.2, "variant": "figure"},
    "ldp-ucb": {"name": "ldp-ucb", "epsilon": 0.2, "variant": "figure"},
    "private-nash": {"name": "private-nash", "epsilon": 0.2},
    "local-nash": {"name": "local-nash", "epsilon": 0.2},
}
RUNS = 50


def measure(name: str, rounds: int) -> dict:
    wall, cpu = time.perf_counter(), time.process_time()
    result = fairveil.run(
        {
            "task": "bandit",
            "policy": POLICIES[name],
            "environment": {"name": "bernoulli", "arms": 50},
            "rounds": rounds,
            "runs": RUNS,
            "checkpoints": [10**e for e in range(4, 9) if 10**e <= rounds],
        }
    )
    metrics = result["metrics"]
    return {
        "policy": name,
        "rounds": rounds,
        "nash_regret": [round(value, 5) for value in metrics["nash_regret"]],
        "standard_error": [round(value / RUNS**0.5, 6) for value in metrics["nash_regret_std"]],
        "average_regret": [round(value, 5) for value in metrics["average_regret"]],
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "wall_seconds": round(time.perf_counter() - wall, 1),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def main(arguments: list[str]) -> None:
    rounds = int(float(arguments[0])) if arguments else 10**8
    names = arguments[1:] or list(POLICIES)
    if len(names) == 1:
        print(json.dumps(measure(names[0], rounds)), flush=True)
        return
    for name in names:
        subprocess.run([sys.executable, __file__, str(rounds), name], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
