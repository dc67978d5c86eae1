"""A party of a federation on Flower as a process, with seeded noise and a simulated ledger.

``python flower_party.py PLAN NAME FOLDER HOST:PORT CA``; FAIRVEIL_SPILL names a file for all bytes that leave, and
FAIRVEIL_NOISE=secure gives it a real ledger and the operating system's noise; FAIRVEIL_CLOCK sets its clock, and those
of all processes it starts, so many seconds ahead. What it learned, and when it answered how long, is in ``result.json``
at the end.
"""

import json
import os
import sys
import time
from pathlib import Path

from federations import NAMES, seeded

from fairveil.cli.federate import read_plan
from fairveil.federated import PartyHost, SigningKey
from fairveil.federated.flower import join
from fairveil.federated.flower.join import Joined


def set_clock(ahead: str) -> None:
    """All Python processes of this party, its pipe too, load `clock/sitecustomize.py` first."""
    known, programs = join.environment, join.own_programs
    shifted = {"FAIRVEIL_CLOCK": ahead, "PYTHONPATH": str(Path(__file__).parent / "clock")}

    def with_clock(folder: Path) -> Path:
        found = programs(folder) / "flwr-clientapp"
        found.write_text(found.read_text().replace(" -I ", " "))
        return found.parent

    join.environment = lambda *where, **more: {**known(*where, **more), **shifted}
    join.own_programs = with_clock


def main(file: str, name: str, folder: str, server: str, authority: str) -> None:
    if "FAIRVEIL_CLOCK" in os.environ:
        set_clock(os.environ["FAIRVEIL_CLOCK"])
    key = SigningKey.read(Path(folder) / "signing.key")
    source = os.environ.get("FAIRVEIL_SOURCE", "environment")
    noise_of = None if os.environ.get("FAIRVEIL_NOISE") == "secure" else seeded(NAMES.index(name))
    host = PartyHost(read_plan(Path(file)), name, source, Path(folder), key, noise_of=noise_of)
    inner, spill, times = host.answer, os.environ["FAIRVEIL_SPILL"], []

    def recorded(request: bytes) -> bytes:
        start = time.monotonic()
        found = inner(request)
        with open(spill, "ab") as out:
            out.write(len(found).to_bytes(4, "big") + found)
        times.append((start, time.monotonic() - start, len(request), len(found)))
        return found

    host.answer = recorded
    try:
        Joined(host, server, authority=Path(authority), node_key=Path(folder) / "node.key").run()
        state = {field: array.tolist() for field, array in getattr(host.party, "state", {}).items()}
        found = {"result": host.worker.result(), "state": state, "times": times}
        (Path(folder) / "result.json").write_text(json.dumps(found))
    finally:
        host.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
