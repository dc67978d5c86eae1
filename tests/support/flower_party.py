"""A party of a federation on Flower as a process, with seeded noise and a simulated ledger.

``python flower_party.py PLAN NAME FOLDER HOST:PORT CA``; FAIRVEIL_SPILL names a file for all bytes that leave.
"""

import json
import os
import sys
from pathlib import Path

from federations import NAMES, seeded

from fairveil.cli.federate import read_plan
from fairveil.federated import PartyHost, SigningKey
from fairveil.federated.flower.join import Joined


def main(file: str, name: str, folder: str, server: str, authority: str) -> None:
    key = SigningKey.read(Path(folder) / "signing.key")
    source = os.environ.get("FAIRVEIL_SOURCE", "environment")
    host = PartyHost(read_plan(Path(file)), name, source, Path(folder), key, noise_of=seeded(NAMES.index(name)))
    inner, spill = host.answer, os.environ.get("FAIRVEIL_SPILL")

    def recorded(request: bytes) -> bytes:
        found = inner(request)
        with open(spill, "ab") as out:
            out.write(len(found).to_bytes(4, "big") + found)
        return found

    if spill:
        host.answer = recorded
    try:
        Joined(host, server, authority=Path(authority), node_key=Path(folder) / "node.key").run()
        state = {field: array.tolist() for field, array in getattr(host.party, "state", {}).items()}
        (Path(folder) / "result.json").write_text(json.dumps({"result": host.worker.result(), "state": state}))
    finally:
        host.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
