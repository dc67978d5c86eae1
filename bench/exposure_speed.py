"""Agent-rounds per second of the exposure simulator against plain NumPy, and where the time goes.

Every policy is compared with its own NumPy twin (bench/exposure_numpy.py), which makes the same random draws, the same
synchronisations and the same ascent steps over the same rounds; their regrets must agree, which is checked.
CPU time of this process, so that a shared machine does not matter much. Policies are sized for the published horizon,
so that the paper's schedule synchronises every fifth round.

    python bench/exposure_speed.py [--rounds 2000]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import exposure_numpy
from fairveil import registry
from fairveil.bandits.environments.exposure import ExposureWorld
from fairveil.bandits.exposure.family import ExposureFamily
from fairveil.bandits.feedback import AT_ONCE
from fairveil.bandits.simulate import Case, simulate

AGENTS, DIMENSION, HORIZON = 10, 5, 100_000
BUDGET = {"epsilon": 2.0, "delta": 0.1}
POLICIES = {
    "fairx-linucb": {"name": "fairx-linucb"},
    "fed-fairx": {"name": "fed-fairx"},
    "priv-fairx": {"name": "priv-fairx", **BUDGET},
    "batched-priv-fairx": {"name": "batched-priv-fairx", **BUDGET},
    "batched-priv-fairx personal": {"name": "batched-priv-fairx", "personal": True, **BUDGET},
}


def build(**table):
    return registry.build("policy", {"agents": AGENTS, "dimension": DIMENSION, "horizon": HORIZON, **table}, "policy")


def compiled(rounds, table):
    """Regret of every agent and CPU seconds of one run; the policy is built inside, as a spec would."""
    start = time.process_time()
    spec = {"seed": 1, "rounds": rounds, "checkpoints": [rounds], "noise": "seeded"}
    part = simulate(Case(spec, build(**table), ExposureWorld(), ExposureFamily(), AT_ONCE), {"first": 0, "last": 1})
    return part["fairness"][-1], time.process_time() - start


def fastest(rounds, table, times=3):
    return min(compiled(rounds, table)[1] for _ in range(times))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2_000)
    rounds = parser.parse_args().rounds
    decisions = AGENTS * rounds
    print(f"{'policy':30s} {'agent-rounds/s':>15s} {'us each':>8s} {'NumPy, us each':>15s} {'ratio':>6s}")
    for name, table in POLICIES.items():
        compiled(50, table)  # compile first
        start = time.process_time()
        twin = exposure_numpy.play(build(**table), rounds, 1)
        slow = time.process_time() - start
        np.testing.assert_allclose(compiled(rounds, table)[0], twin, rtol=1e-6)
        fast = fastest(rounds, table)
        each, other = 1e6 * fast / decisions, 1e6 * slow / decisions
        print(f"{name:30s} {decisions / fast:15,.0f} {each:8.2f} {other:15.1f} {slow / fast:6.0f}")

    print("\nwhere the time of priv-fairx goes (us an agent-round, differences of runs):")
    private = {"name": "priv-fairx", **BUDGET}
    never = fastest(rounds, {**private, "schedule": "never", "width": 0.0})
    lazy, whole = (fastest(rounds, {**private, "width": width}) for width in (0.0, 1.0))
    parts = (
        ("contexts, fair law, arm, row, tallies", never),
        ("noise and beliefs at synchronisations", lazy - never),
        ("optimistic step", whole - lazy),
    )
    for name, cost in parts:
        print(f"  {name:40s} {100 * cost / whole:5.1f} %  {1e6 * cost / decisions:6.2f}")


if __name__ == "__main__":
    main()
