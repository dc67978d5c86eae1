"""A mark outside the ledger that only moves forward: it shows when the ledger itself was set back.

Order of every write: the ledger commits and is on disk, then the anchor moves, then the caller goes on (draws, or sees
the value). So the anchor is never ahead of an honest ledger, and it may be behind only by entries of which nobody saw
anything yet: a crash in between is not a false alarm, the next opening moves the anchor on. A ledger that is shorter
than its anchor, or has another hash at that place, was restored from an older copy, cut, or rewritten.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fairveil.errors import LedgerTampered
from fairveil.storage.faults import point


@dataclass(frozen=True)
class Mark:
    """Which ledger, how many entries, and the hash of the last."""

    ledger: str
    sequence: int
    head: str


class Anchor(Protocol):
    """Where marks are kept. Anything with these two methods will do, such as a client of another machine.

    ``write`` returns only when the mark is durable and replaces the old mark at once or not at all.
    """

    def read(self) -> Mark | None: ...

    def write(self, mark: Mark) -> None: ...


class FileAnchor:
    """A mark in a small file, best on another disk: a new file is written, synced and renamed over the old one."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __str__(self) -> str:
        return str(self.path)

    def read(self) -> Mark | None:
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            text = ""
        try:
            table = json.loads(text)
            mark = Mark(table["ledger"], table["sequence"], table["head"])
            if table["format"] != 1 or not isinstance(mark.sequence, int) or not isinstance(mark.head, str):
                raise ValueError
        except (ValueError, KeyError, TypeError):
            raise LedgerTampered(
                "the anchor file is damaged",
                path=str(self.path),
                fix="restore it, one line of JSON, or reanchor",
            ) from None
        return mark

    def write(self, mark: Mark) -> None:
        """Processes that share an anchor take turns, and the mark of the slower one never takes it back."""
        folder = os.open(self.path.parent, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)  # a server's writer lock has ended with its transaction
            known = self.read()
            if known is None or known.ledger != mark.ledger or known.sequence < mark.sequence:
                self._write(mark)
        finally:
            os.close(folder)

    def put_aside(self) -> None:
        """A file that holds no mark makes room for a new one; what was in it stays beside it."""
        try:
            self.read()
        except LedgerTampered:
            os.replace(self.path, self.path.with_name(self.path.name + ".damaged"))

    def _write(self, mark: Mark) -> None:
        text = json.dumps({"format": 1, "ledger": mark.ledger, "sequence": mark.sequence, "head": mark.head}) + "\n"
        fresh = self.path.with_name(self.path.name + ".new")
        point("anchor-open")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                point("anchor-written")
                os.fsync(file.fileno())
            point("anchor-synced")
            os.replace(fresh, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                fresh.unlink()
            raise
        point("anchor-renamed")
        sync_folder(self.path.parent)
        point("anchor-done")


def sync_folder(folder: Path) -> None:
    """Make a rename or a new file in this folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
