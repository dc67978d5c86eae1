"""Whole federations of five parties on Flower, on loopback: ``python bench/federation_full.py [--only adult]``.

Bandits: secure sums, d = 5, T = 20,000, all synchronisations. Adult: private-admm, epsilon 1, secure sums, 8 rounds
(``--rounds``; left to itself the algorithm takes 32 and errs .004 less). With seeded noise every party must have
learned what it learns without a transport, to the last bit. With the noise of the operating system what was learned
(distance of the belief from the true weights; test error) is compared with runs without a transport.

Every run is a line of ``DIR/NAME.jsonl`` once it is made (``--out DIR``): stopped and started again, it goes on.
``--flower 3 --inline 60`` asks for more runs with the noise of the operating system than one and twenty.
"""

from __future__ import annotations

import argparse
import json
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
SEEDED, SYSTEM, INLINE = "seeded noise on Flower", "system noise on Flower", "system noise without a transport"


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


class Full:
    """The runs of one kind that are made so far, in a file, and those that are still to be made."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, (self.kind, self.facts) = name, KINDS[name]
        self.plan = plan_of(self.kind, PARTIES, ROWS, sums="secure", colluding=1, **self.facts)
        self.words, self.measure = MEASURES[self.kind]
        self.file = folder / f"{name}.jsonl"
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        self.public = json.loads(json.dumps(self.plan.made.table()))
        self.made = [one for one in map(json.loads, lines) if one["plan"] == self.public]

    def runs(self, what: str) -> list[dict[str, Any]]:
        return [one for one in self.made if one["what"] == what]

    def keep(self, what: str, value: float, **facts: Any) -> None:
        one = {"what": what, "value": value, "load": os.getloadavg()[0], **facts, "plan": self.public}
        self.made.append(one)
        with open(self.file, "a", encoding="utf-8") as out:
            out.write(json.dumps(one) + "\n")
        print(f"{self.name}, {what}, run {len(self.runs(what))}: {self.words} {value:.4f}", file=sys.stderr, flush=True)

    def on_flower(self, what: str) -> None:
        """A whole run; seeded ones are compared with the run without a transport, to the last bit."""
        with tempfile.TemporaryDirectory() as place:
            facts = {"sums": "secure", "colluding": 1, **self.facts}
            made, start = FlowerRun(Path(place) / "flower", self.kind, PARTIES, ROWS, **facts), time.monotonic()
            try:
                made.coordinate()
                for name in made.names:
                    made.join(name, FAIRVEIL_NOISE="seeded" if what == SEEDED else "secure")
                made.finish(HOURS)
            finally:
                made.stop()
            table = costs(made, time.monotonic() - start)
            results = [made.result(name)["result"] for name in made.names]
            if what == SEEDED:
                _, hosts = run(self.plan, Path(place) / "inline")
                assert results == [host.worker.result() for host in hosts], "other bits than without a transport"
        self.keep(what, self.measure(self.plan, results[0]), **table)

    def without_transport(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            _, hosts = run(self.plan, Path(place), secure=True)
        self.keep(INLINE, self.measure(self.plan, hosts[0].worker.result()))

    def rows(self) -> list[str]:
        """Lines of the table, and whether what was learned lies where it should."""
        known, lines = [one["value"] for one in self.runs(INLINE)], []
        for one in [*self.runs(SEEDED), *self.runs(SYSTEM)]:
            inside = min(known) <= one["value"] <= max(known)
            place = f"{'in' if inside else 'NOT in'} {min(known):.4f} to {max(known):.4f} of {len(known)} runs"
            words = "same bits" if one["what"] == SEEDED else f"{self.words} {one['value']:.4f}, {place}"
            lines.append(
                f"| {self.name}, {one['what'].removesuffix(' on Flower')}: {words} | {self.plan.made.syncs} |"
                f" {one['wall']:.0f} s | {one['messages']} | {one['bytes']:,} | {one['round']:.1f} s |"
                f" {one['waiting']:.3f} | {one['load']:.0f} |"
            )
        return lines


def costs(made: FlowerRun, wall: float) -> dict[str, float]:
    """Wall, requests and answers, bytes, seconds a round, and the share of the wall in which a party waits."""
    times = [made.result(name)["times"] for name in made.names]
    answers = [one for party in times for one in party]
    busy = sum(one[1] for one in answers)
    return {
        "wall": wall, "messages": 2 * len(answers), "bytes": sum(one[2] + one[3] for one in answers),
        "round": made.round_seconds(), "waiting": 1 - busy / (PARTIES * wall),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--rounds", type=int, default=8, help="rounds of private-admm")
    parser.add_argument("--seeded", type=int, default=1, help="runs on Flower with seeded noise")
    parser.add_argument("--flower", type=int, default=1, help="runs on Flower with the noise of the operating system")
    parser.add_argument("--inline", type=int, default=20, help="runs without a transport")
    parser.add_argument("--out", type=Path, default=Path("out/federation-full"), help="folder of the runs made so far")
    options = parser.parse_args()
    ADULT["algorithm"]["rounds"] = options.rounds
    options.out.mkdir(parents=True, exist_ok=True)
    made = [Full(name, options.out) for name in KINDS if options.only in (None, name)]
    for one in made:
        for what, wanted in ((SEEDED, options.seeded), (SYSTEM, options.flower)):
            while len(one.runs(what)) < wanted:
                one.on_flower(what)
        while len(one.runs(INLINE)) < options.inline:
            one.without_transport()
    lines = [line for one in made if one.runs(INLINE) for line in one.rows()]
    print("| run | synchronisations | wall | messages | bytes | a round | share of waiting | load |")
    print("|---|---|---|---|---|---|---|---|", *lines, sep="\n", flush=True)
    return int(any("NOT in" in line for line in lines))


if __name__ == "__main__":
    sys.exit(main())
