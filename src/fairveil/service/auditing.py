"""Runs audits beside the service: one process of their own at the lowest priority, ten minutes at most."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairveil.loop import audits

if TYPE_CHECKING:
    from fairveil.loop.loop import Loop
    from fairveil.loop.store import Store

NICE = 19
_KEPT = ("verdict", "epsilon_lower", "claimed", "confidence", "pair", "statistic", "hits", "trials")


class Auditor:
    """At most one audit of this process; the store knows whether another one has any."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.longest: float = audits.LONGEST
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def start(self, loop: Loop, trials: int, actor: str) -> str:
        """Begin an audit and give its id; its end is written to the store."""
        row = audits.begin(loop, trials, actor)
        self._thread = threading.Thread(target=self._run, args=(row["id"], row["spec"]), name="audit", daemon=True)
        self._thread.start()
        return str(row["id"])

    def stop(self) -> None:
        """End what runs; it says that it was interrupted."""
        self._stopped.set()
        process = self._process
        if process is not None:
            process.kill()
        if self._thread is not None:
            self._thread.join(1.0)

    def _run(self, id: str, spec: dict[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "audit.json"
            file.write_text(json.dumps(spec))
            status, value = self._watched([sys.executable, "-m", "fairveil.cli", "audit", str(file), "--json"])
        with contextlib.suppress(Exception):  # a store that is gone learns later that nobody runs it
            audits.end(self.store, id, status, value)

    def _watched(self, command: list[str]) -> tuple[str, dict[str, Any]]:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            self._process = process
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
            if self._stopped.is_set():
                process.kill()
            try:
                out, err = process.communicate(timeout=self.longest)
            except subprocess.TimeoutExpired:
                process.kill()
                return audits.STOPPED, {"words": f"it took longer than {self.longest:g} s"}
            finally:
                self._process = None
        if self._stopped.is_set() and process.returncode < 0:
            return audits.INTERRUPTED, {}
        try:
            metrics = json.loads(out)["metrics"]
        except (ValueError, KeyError):
            words = err.decode(errors="replace").strip().splitlines()
            return audits.FAILED, {"words": words[-1] if words else f"it ended with code {process.returncode}"}
        return audits.DONE, {key: metrics[key] for key in _KEPT}
