"""Long runs of the batched policy: regret per round keeps falling, memory does not grow.

    python bench/meritocratic_horizon.py [--rounds 1000000 10000000] [--environment synthetic-census]

Each horizon runs in a fresh process, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

ONE = """
import resource, fairveil, numpy as np
rounds = {rounds}
points = sorted({{int(p) for p in np.geomspace(1000, rounds, 9)}} | {{rounds}})
result = fairveil.run({{"task": "bandit", "rounds": rounds, "seed": 2, "checkpoints": points,
    "policy": {{"name": "batched-private-fair-greedy", "epsilon": {epsilon}, "delta": 1e-5}},
    "environment": {{"name": {environment!r}}}}})
regret = np.array(result["metrics"]["fair_regret"])
rate = np.diff(regret, prepend=0) / np.diff(points, prepend=0)
print(f"T = {{rounds:,}}, eps = {epsilon}: regret {{regret[-1]:,.0f}}, CPU {{result['meta']['cpu_seconds']:.1f}} s, "
      f"peak {{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}} MB")
for point, value in zip(points, rate):
    print(f"  up to {{point:>12,}}: regret a round {{value:.6f}}")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--environment", default="synthetic-census")
    parser.add_argument("--epsilon", type=float, default=1.0)
    asked = parser.parse_args()
    for rounds in asked.rounds:
        script = ONE.format(rounds=rounds, environment=asked.environment, epsilon=asked.epsilon)
        subprocess.run([sys.executable, "-c", script], check=True)


if __name__ == "__main__":
    main()
