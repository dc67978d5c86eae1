"""Rows of people that were read before: the same when a stream goes on, or it does not go on.

In how many steps somebody was counted is raw data and lives as long as a process; a stream that goes on counts again
from the beginning of its input. On another input, as the next file of a rotated log, everybody would be new. So a
salted digest of what was read lies beside the ledger, its owner's alone, on disk before the release of these rows.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

from fairveil.errors import InputError
from fairveil.federated.journal import replace_file
from fairveil.streams.serving.feed import CHUNK, Lines

UNKNOWN = (
    "not established: what was read before is not known any more, so somebody may have been counted in as many steps "
    "again"
)


class ReadAgain:
    """The record of one stream; ``known`` is False where a part of the stream was released without one."""

    def __init__(self, ledger: Path, lines: Lines) -> None:
        self.path, self.lines = Path(f"{ledger}.rows"), lines
        self._salt, self.known = secrets.token_hex(16), True

    def check(self) -> None:
        """Refuse an input that does not begin as the one that was read."""
        if not self.path.exists():
            self.known = False
            return
        table: dict[str, Any] = json.loads(self.path.read_text())
        self._salt, self.known = table["salt"], table["known"]
        if self._salted(_beginning(self.lines.descriptor, table["bytes"])) != table["digest"]:
            raise InputError(
                "these are not the rows that were read before", path="in",
                allowed="the same input, longer or as it was",
                fix="put the parts of a rotated log together: who was counted before is known from the rows alone",
            )  # fmt: skip

    def keep(self) -> None:
        """Put what was read so far on disk."""
        table = {"salt": self._salt, "bytes": self.lines.read, "digest": self._salted(self.lines.digest())}
        replace_file(self.path, json.dumps({**table, "known": self.known}).encode())

    def _salted(self, digest: bytes) -> str:
        return hashlib.blake2b(digest, key=bytes.fromhex(self._salt), digest_size=16).hexdigest()


def _beginning(descriptor: int, size: int) -> bytes:
    """The digest of so many bytes of a file; of all of it where it is shorter."""
    found, place = hashlib.sha256(), 0
    while place < size and (data := os.pread(descriptor, min(CHUNK, size - place), place)):
        found.update(data)
        place += len(data)
    return found.digest()
