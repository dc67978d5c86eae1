"""Audits of a loop: attacks on its policy as it is declared, on made-up rows. Nothing of the loop's own rows is read.

One runs at a time in a store, in a process of its own at the lowest priority, ten minutes at most. What became of each
stands in the store, so it outlives the process that ran it; an audit whose process is gone was interrupted, and says
so.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairveil.configuration import describe
from fairveil.loop import trail
from fairveil.loop.clock import SECOND, in_words
from fairveil.loop.problems import OneAtATime
from fairveil.loop.requests import new_event_id
from fairveil.loop.storage import adding

if TYPE_CHECKING:
    from fairveil.loop.loop import Loop
    from fairveil.loop.store import Store

LONGEST = 600
"""Seconds that an audit may take."""
SPARE = 60
"""Seconds after which a process that says nothing about its end is taken for gone, wherever it ran."""
RUNNING, DONE, FAILED, STOPPED, INTERRUPTED = "running", "done", "failed", "stopped", "interrupted"
NICE = 19
_KEPT = ("verdict", "epsilon_lower", "claimed", "confidence", "pair", "statistic", "hits", "trials")
_COLUMNS = "id, settings, status, value, created, ended"


def begin(loop: Loop, trials: int, actor: str) -> dict[str, Any]:
    """A new audit, or a refusal while another one runs; gives its row, with the spec that is to be run."""
    store, now = loop.store, loop.store.clock.now()
    target = {"kind": "policy", **describe(loop.facts.policy)}
    spec = {"task": "audit", "target": target, "trials": trials}
    row = {"id": new_event_id(), "spec": spec}
    owner = json.dumps({"host": platform.node(), "pid": os.getpid()})
    with store.writing() as tx:
        for other, id, created, value in tx.execute(
            "SELECT l.name, a.id, a.created, a.value FROM audits a JOIN loops l ON l.id = a.loop WHERE a.status = ?",
            (RUNNING,),
        ):
            if not _gone(created, value, now):
                raise OneAtATime(
                    "another audit runs", path="audits", given=f"{id} of {other}", fix="wait until it has ended"
                )
        tx.execute(
            "UPDATE audits SET status = ?, ended = ?, value = '{}' WHERE status = ?", (INTERRUPTED, now, RUNNING)
        )
        tx.execute(
            adding("audits", "loop, id, settings, status, value, created"),
            (loop.facts.id, row["id"], json.dumps(spec), RUNNING, owner, now),
        )
        trail.note(tx, now, actor, "audit", loop.name, {"audit": row["id"], "trials": trials})
    return row


def end(store: Store, id: str, status: str, value: dict[str, Any]) -> None:
    """What became of an audit; the first word about it stands."""
    with store.writing() as tx:
        tx.execute(
            "UPDATE audits SET status = ?, value = ?, ended = ? WHERE id = ? AND status = ?",
            (status, json.dumps(value), store.clock.now(), id, RUNNING),
        )


def audit_tables(loop: Loop) -> list[dict[str, Any]]:
    """All audits of a loop, the latest last; public."""
    now = loop.store.clock.now()
    rows = loop.store.read(f"SELECT {_COLUMNS} FROM audits WHERE loop = ? ORDER BY created, id", (loop.facts.id,))
    return [_table(row, now) for row in rows]


def _table(row: tuple[Any, ...], now: int) -> dict[str, Any]:
    id, settings, status, value, created, ended = row
    if status == RUNNING:
        status = INTERRUPTED if _gone(created, value, now) else RUNNING
        value = "{}"
    return {
        "id": id,
        "status": status,
        "spec": json.loads(settings),
        "value": json.loads(value),
        "created": in_words(created),
        "ended": None if ended is None else in_words(ended),
    }


def _gone(created: int, owner: str, now: int) -> bool:
    """Whether the process of a running audit has ended without a word."""
    if now - created > (LONGEST + SPARE) * SECOND:
        return True
    who = json.loads(owner)
    if who.get("host") != platform.node():
        return False
    with contextlib.suppress(PermissionError):
        try:
            os.kill(int(who["pid"]), 0)
        except ProcessLookupError:
            return True
    return False


# Running one ----------------------------------------------------------------------------------------------------------


class Auditor:
    """At most one audit of this process; the store knows whether another one has any."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.longest: float = LONGEST
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def start(self, loop: Loop, trials: int, actor: str) -> str:
        """Begin an audit and give its id; its end is written to the store."""
        row = begin(loop, trials, actor)
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
            end(self.store, id, status, value)

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
                return STOPPED, {"words": f"it took longer than {self.longest:g} s"}
            finally:
                self._process = None
        if self._stopped.is_set() and process.returncode < 0:
            return INTERRUPTED, {}
        try:
            metrics = json.loads(out)["metrics"]
        except (ValueError, KeyError):
            words = err.decode(errors="replace").strip().splitlines()
            return FAILED, {"words": words[-1] if words else f"it ended with code {process.returncode}"}
        return DONE, {key: metrics[key] for key in _KEPT}
