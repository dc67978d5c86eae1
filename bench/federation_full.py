"""Whole federations of five parties on Flower, on loopback: ``python bench/federation_full.py [--only adult]``.

Bandits: secure sums, d = 5, T = 20,000, all synchronisations. Adult: private-admm, epsilon 1, secure sums, 8 rounds
(``--rounds``; left to itself the algorithm takes 32 and errs .004 less). Each runs twice. With seeded noise every party
must have learned what it learns without a transport, to the last bit. With the noise of the operating system what was
learned (distance of the belief from the true weights; test error) is compared with twenty runs without a transport.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
os.environ.setdefault("FAIRVEIL_DATA", str(Path(__file__).resolve().parents[2] / "shared" / "data"))

import numpy as np
from federations import plan_of, run
from flower_runs import FlowerRun

from fairveil.consensus.task import error
from fairveil.federated import Plan

PARTIES = 5
HOURS = 2 * 3600.0
BANDITS: dict[str, Any] = {
    "policy": {"name": "batched-priv-fairx", "dimension": 5, "horizon": 20_000, "epsilon": 2.0, "delta": 0.1},
    "environment": {"seed": 3, "actions": 10},
}
ADULT: dict[str, Any] = {
    "algorithm": {"name": "private-admm", "epsilon": 1.0, "delta": 1e-5, "rounds": 8},
    "data": {"name": "adult", "seed": 1},
}
KINDS = {"bandits": ("exposure", BANDITS), "adult": ("consensus", ADULT)}
ROWS = 6_000


def distance(plan: Plan, result: dict[str, Any]) -> float:
    """Of an agent's belief from the true weights of the simulated world."""
    world, _ = plan.made._world()
    return float(np.linalg.norm(np.array(result["belief"]) - np.asarray(world.theta)))


def test_error(plan: Plan, result: dict[str, Any]) -> float:
    return error(plan.made._dealt.test, np.array(result["weights"]))


MEASURES: dict[str, tuple[str, Callable[[Plan, dict[str, Any]], float]]] = {
    "exposure": ("distance of the belief", distance),
    "consensus": ("test error", test_error),
}


def on_flower(folder: Path, kind: str, facts: dict[str, Any], noise: str) -> tuple[FlowerRun, float]:
    """A finished run, and how long it took."""
    made, start = FlowerRun(folder, kind, PARTIES, ROWS, sums="secure", colluding=1, **facts), time.monotonic()
    try:
        made.coordinate()
        for name in made.names:
            made.join(name, FAIRVEIL_NOISE=noise)
        made.finish(HOURS)
    finally:
        made.stop()
    return made, time.monotonic() - start


def row(label: str, made: FlowerRun, wall: float, syncs: int) -> str:
    """Wall, requests and answers, bytes, seconds a round, and the share of the wall in which a party waits."""
    times = [made.result(name)["times"] for name in made.names]
    answers = sum(map(len, times))
    bytes_in, bytes_out = (sum(one[k] for party in times for one in party) for k in (2, 3))
    busy = sum(one[1] for party in times for one in party)
    return (
        f"| {label} | {syncs} | {wall:.0f} s | {2 * answers} | {bytes_in + bytes_out:,} |"
        f" {made.round_seconds():.1f} s | {1 - busy / (PARTIES * wall):.3f} |"
    )


def measured(name: str, place: Path, inline_runs: int) -> list[str]:
    kind, facts = KINDS[name]
    plan = plan_of(kind, PARTIES, ROWS, sums="secure", colluding=1, **facts)
    words, measure = MEASURES[kind]
    _, hosts = run(plan, place / "inline")
    seeded, wall = on_flower(place / "seeded", kind, facts, "seeded")
    for host, party in zip(hosts, seeded.names, strict=True):
        assert seeded.result(party)["result"] == host.worker.result(), party
    lines = [row(f"{name}, seeded: same bits", seeded, wall, plan.made.syncs)]
    print(lines[-1], flush=True)
    found, wall = on_flower(place / "secure", kind, facts, "secure")
    value = measure(plan, found.result(found.names[0])["result"])
    known = []
    for number in range(inline_runs):
        _, hosts = run(plan, place / f"inline-{number}", secure=True)
        known.append(measure(plan, hosts[0].worker.result()))
    inside = min(known) <= value <= max(known)
    place_of = f"{words} {value:.4f}, {'in' if inside else 'NOT in'} {min(known):.4f} to {max(known):.4f}"
    lines.append(row(f"{name}, system noise: {place_of}", found, wall, plan.made.syncs))
    print(lines[-1], flush=True)
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--rounds", type=int, default=8, help="rounds of private-admm")
    parser.add_argument("--runs", type=int, default=20, help="runs without a transport")
    options = parser.parse_args()
    ADULT["algorithm"]["rounds"] = options.rounds
    print("| run | synchronisations | wall | messages | bytes | a round | share of waiting |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        names = [name for name in KINDS if options.only in (None, name)]
        lines = [line for name in names for line in measured(name, Path(folder) / name, options.runs)]
    return int(any("NOT in" in line for line in lines))


if __name__ == "__main__":
    sys.exit(main())
