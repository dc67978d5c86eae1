"""Files that survive a crash at any point: an append-only log, a state that is replaced, a folder with one holder."""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path

from fairveil.errors import InputError, StoreError
from fairveil.federated.wire import Statement
from fairveil.ledger.anchor import sync_folder
from fairveil.storage.faults import point

_HEAD = 4 + 32


class StatementLog:
    """Statements in the order in which they were said. Each is on disk before anybody is told of it.

    A record is its length, its sha256 and its bytes; one that a crash or a full disk cut off at the end is dropped.
    Cost: one fsync a statement.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.entries: list[Statement] = []
        fresh = not file.exists()
        self._out = open(file, "ab+", buffering=0)  # noqa: SIM115  closed by `close`
        if fresh:
            sync_folder(file.parent)
        self._read()

    def _read(self) -> None:
        data = self.file.read_bytes()
        self.entries, self._end = _whole_records(data)
        if self._end < len(data):
            if self._goes_on(data[self._end :]):
                raise StoreError("the log is damaged", path=str(self.file), fix="restore it from a copy")
            self._out.truncate(self._end)
            os.fsync(self._out.fileno())

    @staticmethod
    def _goes_on(rest: bytes) -> bool:
        """A record with another digest and more behind it was changed; the last one was cut off by a crash."""
        length = int.from_bytes(rest[:4], "big")
        return len(rest) > _HEAD + length

    def append(self, statement: Statement) -> None:
        said = statement.to_bytes()
        record = len(said).to_bytes(4, "big") + hashlib.sha256(said).digest() + said
        point("journal-append")
        try:
            written = 0
            while written < len(record):
                written += self._out.write(record[written:])
            point("journal-written")
            os.fsync(self._out.fileno())
        except OSError:
            self._out.truncate(self._end)  # the next record begins where the last whole one ends
            raise
        point("journal-synced")
        self._end += len(record)
        self.entries.append(statement)

    def close(self) -> None:
        self._out.close()


def _whole_records(data: bytes) -> tuple[list[Statement], int]:
    """The statements of a log up to the first record that is not whole, and where that begins."""
    entries, place = list[Statement](), 0
    while len(data) - place >= _HEAD:
        length = int.from_bytes(data[place : place + 4], "big")
        record = data[place + _HEAD : place + _HEAD + length]
        if len(record) < length or hashlib.sha256(record).digest() != data[place + 4 : place + _HEAD]:
            break
        entries.append(Statement.from_bytes(record))
        place += _HEAD + length
    return entries, place


def read_statements(file: Path) -> list[Statement]:
    """What a log holds so far, without writing to it or waiting for its holder."""
    return _whole_records(file.read_bytes())[0]


def replace_file(file: Path, data: bytes) -> None:
    """Write, sync, rename, sync the folder: the old content or the new one, never half of it. Its owner alone reads."""
    fresh = file.with_name(f".{file.name}.new")
    point("state-open")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as out:
        out.write(data)
        out.flush()
        point("state-written")
        os.fsync(out.fileno())
    point("state-synced")
    os.replace(fresh, file)
    point("state-renamed")
    sync_folder(file.parent)
    point("state-done")


def erase_file(file: Path) -> None:
    """Take a file away for good; one that is not there is no error."""
    file.unlink(missing_ok=True)
    sync_folder(file.parent)


class FolderLock:
    """One holder of a folder at a time, in this process or another; a dead one's hold ends with it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise InputError(
                "this folder is in use", path=str(folder), allowed="one process a folder",
                fix="stop the other one, or give this one a folder of its own",
            ) from None  # fmt: skip

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
