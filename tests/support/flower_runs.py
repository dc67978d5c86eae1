"""A federation on Flower in processes of its own, on loopback, for tests and `make federation-kill`."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from federations import KINDS, NAMES

from fairveil.federated import SigningKey
from fairveil.federated.flower.certificates import make_node_key, node_public

HERE = Path(__file__).parent
PATIENCE = 480.0
"""Seconds for one event on a machine that is busy with everything else."""


def wait_for(what: str, ready: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """What ``ready`` gives, once it gives something."""
    end = time.monotonic() + patience
    while not (found := ready()):
        assert time.monotonic() < end, f"waited {patience:g} s for {what}"
        time.sleep(0.2)
    return found


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


class FlowerRun:
    """A coordinator and parties as processes; each can be killed and started again."""

    def __init__(self, folder: Path, kind: str = "exposure", parties: int = 3, rows: int = 30, **facts: Any) -> None:
        self.folder, self.names = folder, NAMES[:parties]
        public = {"rows": rows} if kind == "consensus" else {}
        lines = [f"{key} = {toml(value)}" for key, value in {"run": "trial", "kind": kind, "timeout": 600.0}.items()]
        lines += [f"{key} = {toml(value)}" for key, value in {**KINDS[kind], **facts}.items()]
        for name in self.names:
            (folder / name).mkdir(parents=True, mode=0o700)
            SigningKey.new().write(folder / name / "signing.key")
            make_node_key(folder / name / "node.key")
            signing, node = (
                SigningKey.read(folder / name / "signing.key").public,
                node_public(folder / name / "node.key"),
            )
            own = {"name": name, "signing_key": signing, "node_key": node, **public}
            lines += ["[[party]]", *(f"{key} = {toml(value)}" for key, value in own.items())]
        self.plan = folder / "plan.toml"
        self.plan.write_text("\n".join(lines) + "\n")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.port = 0

    def _start(self, name: str, command: list[str], **env: str) -> None:
        with open(self.folder / f"{name}.log", "ab") as out:
            self.processes[name] = subprocess.Popen(
                [sys.executable, *command], stdout=out, stderr=out, env={**os.environ, **env}, cwd=self.folder
            )

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def coordinate(self) -> None:
        where = ["--folder", "coordinator", "--port", str(self.port)]  # relative, as people type it
        self._start("coordinate", ["-m", "fairveil.cli", "federate", "coordinate", "plan.toml", *where])
        if not self.port:
            words = wait_for("a port", lambda: self.alive("coordinate") and "port " in self.log("coordinate"))
            assert words
            self.port = int(self.log("coordinate").split("port ")[1].split(",")[0])

    def join(self, name: str, **env: str) -> None:
        authority = str(Path("coordinator") / "trial" / "ca.pem")
        script = [str(HERE / "flower_party.py"), "plan.toml", name, name]
        spill = {"FAIRVEIL_SPILL": str(self.folder / f"{name}.spill")}
        if "FAIRVEIL_CLOCK" in env:
            known = os.environ.get("PYTHONPATH")
            spill["PYTHONPATH"] = os.pathsep.join([str(HERE / "clock"), *([known] if known else [])])
        self._start(name, [*script, f"127.0.0.1:{self.port}", authority], **spill, **env)

    def alive(self, name: str) -> bool:
        code = self.processes[name].poll()
        assert code is None, f"{name} ended with {code}: {self.log(name)[-2000:]}"
        return True

    def answered(self, name: str) -> int:
        """How many answers have left a party."""
        data, count, place = (self.folder / f"{name}.spill"), 0, 0
        content = data.read_bytes() if data.exists() else b""
        while place < len(content):
            place += 4 + int.from_bytes(content[place : place + 4], "big")
            count += 1
        return count

    def pid(self, name: str, program: str) -> int:
        return int((self.folder / name / "flower" / f"{program}.pid").read_text())

    def kill(self, name: str, program: str = "") -> None:
        """``kill -9`` of a process of ours, or of the SuperNode or SuperLink that it watches, by its id."""
        if program:
            os.kill(self.pid(name, program), signal.SIGKILL)
            return
        self.processes[name].kill()
        self.processes[name].wait()

    def finish(self, patience: float = PATIENCE) -> None:
        """Wait until the coordinator and all parties have ended by themselves."""
        end = time.monotonic() + patience
        for name, process in self.processes.items():
            try:
                code = process.wait(max(1.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                logs = "\n".join(f"== {one}\n{self.log(one)[-1500:]}" for one in self.processes)
                raise AssertionError(f"{name} did not end in {patience:g} s\n{logs}") from None
            assert code == 0, f"{name} ended with {code}: {self.log(name)[-2000:]}"

    def stop(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def result(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / name / "result.json").read_text())
        return found

    def round_seconds(self) -> float:
        """Median time from one answer of a party to its next, over all parties that ended."""
        starts = [[start for start, *_ in self.result(name)["times"]] for name in self.names]
        return statistics.median(later - first for one in starts for first, later in pairwise(one))
