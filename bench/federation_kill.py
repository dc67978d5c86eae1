"""Federations on Flower whose processes are killed with -9 at random moments: ``python bench/federation_kill.py``.

Ten kills of a party's side (its SuperNode or its `join`), three of the coordinator's (SuperLink or `coordinate`), each
in a run of its own with seeded noise. A run must finish by itself (killed commands are started again, as an operator
would; SuperNodes and SuperLinks come back alone, within 120 s) with the beliefs of the run without a transport to the
last bit, with as much spent in as many releases, and with the same rows behind every message of the log, each said
once. Loopback only. ``--kills 3 1`` for fewer; ends with 1 if one came back late.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from federations import EXPOSURE, plan_of, rows_of, run
from flower_runs import FlowerRun, wait_for

from fairveil.federated.journal import read_statements
from fairveil.federated.wire import MASKED
from fairveil.ledger import Ledger

POLICY = {**EXPOSURE["policy"], "schedule": {"name": "growing", "factor": 3.0, "first": 8}}
FACTS = {"sums": "secure", "colluding": 1, "policy": POLICY}
MOST_BACK = 120.0
PATIENCE = 1800.0
"""Seconds for one event: a busy machine is slow, and that is not what is looked for."""


def spent(folder: Path) -> object:
    """What a party has spent, and in how many releases."""
    with Ledger.open(folder / "ledger.db", simulated=True) as ledger:
        return ledger.spent, sum(entry["kind"] == "publish" for entry in ledger.entries())


def rows(folder: Path) -> dict[object, int]:
    """How many rows are behind each party's numbers at each synchronisation; each was said once."""
    entries = read_statements(folder / "log")
    said = {entry.place: entry for entry in entries}
    assert len(said) == len(entries)
    return {place: rows_of(said, *place[1:]) for place in said if place[0] == MASKED}


def one(folder: Path, victim: str, program: str, answers: int, late: float, reference: list, inline: Path) -> float:
    """A run in which one process is killed; seconds until its side answers again."""
    made = FlowerRun(folder, **FACTS)
    party = "east" if victim == "coordinate" else victim
    try:
        made.coordinate()
        for name in made.names:
            made.join(name)
        wait_for("an answer", lambda: made.alive(party) and made.answered(party) >= answers, PATIENCE)
        time.sleep(late)
        before, at = made.answered(party), time.monotonic()
        made.kill("coordinator" if victim == "coordinate" and program else victim, program)
        if not program:
            made.coordinate() if victim == "coordinate" else made.join(victim)
        done = folder / party / "result.json"
        wait_for("an answer again", lambda: made.answered(party) > before or done.exists(), PATIENCE)
        back = time.monotonic() - at
        made.finish(PATIENCE)
    finally:
        made.stop()
    for host, name in zip(reference, made.names):
        assert made.result(name)["result"] == host.worker.result(), name
        assert spent(folder / name) == spent(inline / name), name
    assert rows(folder / "coordinator") == rows(inline / "coordinator")
    return back


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, nargs=2, default=[10, 3], metavar=("PARTIES", "COORDINATORS"))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    cases = [(chance.choice(["north", "east", "south"]), ["supernode", ""][i % 2]) for i in range(options.kills[0])]
    cases += [("coordinate", ["superlink", ""][i % 2]) for i in range(options.kills[1])]
    with tempfile.TemporaryDirectory() as place:
        inline = Path(place) / "inline"
        _, reference = run(plan_of(**FACTS), inline)
        late_ones = 0
        for number, (victim, program) in enumerate(cases):
            start, answers, late = time.monotonic(), chance.randint(1, 4), chance.uniform(0.0, 5.0)
            folder = Path(place) / f"run{number}"
            back = one(folder, victim, program, answers, late, reference, inline)
            late_ones += back > MOST_BACK
            what = program or ("coordinate" if victim == "coordinate" else "join")
            print(
                f"{number + 1:2}: {what} of {victim} after answer {answers} + {late:.1f} s: answers again after"
                f" {back:.0f} s{'' if back <= MOST_BACK else ' (above 120 s)'}, run {time.monotonic() - start:.0f} s,"
                f" same bits, same spent, same rows (load {os.getloadavg()[0]:.0f})",
                flush=True,
            )
    return int(late_ones > 0)


if __name__ == "__main__":
    sys.exit(main())
