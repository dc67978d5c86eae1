"""Tables that live in memory, under names that a spec can hold."""

from __future__ import annotations

import hashlib
import os

from fairveil.data.frames import Frame
from fairveil.errors import DataError

PREFIX = "table in memory "


class Shelf:
    """Tables that were handed over in memory, under names that a spec can hold.

    A name says nothing about the rows (it is a digest with a key of this process) and is the same for the same table.
    """

    LIMIT = 32

    def __init__(self) -> None:
        self._key, self._frames = os.urandom(16), dict[str, Frame]()

    def put(self, frame: Frame) -> str:
        digest = hashlib.blake2b(key=self._key, digest_size=8)
        for name, values in frame.columns.items():
            digest.update(repr((name, values.tolist())).encode())
        name = PREFIX + digest.hexdigest()
        self._frames.pop(name, None)
        self._frames[name] = frame
        for oldest in list(self._frames)[: -self.LIMIT]:
            del self._frames[oldest]
        return name

    def get(self, name: str) -> Frame | None:
        if not name.startswith(PREFIX):
            return None
        if name not in self._frames:
            raise DataError(
                "this table was in the memory of another process",
                path="file",
                given=name,
                allowed="a file, or a table with the engine serial",
                fix="write the table to a CSV or parquet file and name that",
            )
        return self._frames[name]


SHELF = Shelf()
