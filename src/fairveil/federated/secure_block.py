"""A party's side of secure sums: one ``ready`` and one union a block, for ever, and what the log says of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.arrays import Ints
from fairveil.errors import PrivacyError
from fairveil.federated.journal import erase_file, replace_file
from fairveil.federated.party import Union
from fairveil.federated.plan import Plan
from fairveil.federated.secure_sum import (
    DIGEST_BYTES,
    EphemeralKey,
    add,
    chained,
    masked_numbers,
    masked_problem,
    ready_content,
    ready_key,
    ready_problem,
    ready_sums,
    union_digest,
)
from fairveil.federated.wire import Statement
from fairveil.ledger.values import decode, encode


class KeyGone(PrivacyError):
    """The secret of a ``ready`` is not there any more: this block is lost."""


class SecureBlock:
    """The block of the synchronisation that is awaited, as one party sees it.

    The ephemeral key is on disk before its ``ready`` leaves, in a file of its own, and erased once the masked numbers
    are stored. ``sums`` is the digest of all sums so far: parties that were shown different ones refuse the next union.
    """

    def __init__(self, plan: Plan, index: int, folder: Path) -> None:
        self.plan, self.index, self.file = plan, index, folder / "ephemeral"
        self.sums = bytes(DIGEST_BYTES)
        self.start()

    def start(self) -> None:
        """Begin the next block."""
        self.ready: dict[int, Statement] = {}
        self.masked: dict[int, Statement] = {}
        self.union: list[int] | None = None

    # What the log says --------------------------------------------------------------------------------------------

    def hear_ready(self, entry: Statement) -> None:
        if ready_problem(entry) or self.union is not None or entry.by in self.ready:
            raise PrivacyError("the log holds a ready that is none", path="log", given=f"party {entry.by}")
        self.ready[entry.by] = entry

    def hear_union(self, parties: list[int]) -> None:
        """Who takes part in this block: said once, of those who are ready, with one view of the sums so far."""
        if self.union is not None:
            raise PrivacyError("a second union for one block", path="log", allowed="one union a block, for ever")
        if not set(parties) <= set(self.ready) or len(parties) <= self.plan.colluding:
            raise PrivacyError("a union of parties that are not ready", path="log", given=parties)
        if any(ready_sums(self.ready[party]) != self.sums for party in parties):
            raise PrivacyError("parties were shown different sums", path="log", fix="compare the logs of all parties")
        self.union = parties

    def hear_masked(self, entry: Statement) -> None:
        if self.union is None or entry.by not in self.union or entry.union != self.digest:
            raise PrivacyError("the log holds numbers of another union", path="log", given=f"party {entry.by}")
        if masked_problem(entry, self.plan.made.numbers(entry.sync)) or entry.by in self.masked:
            raise PrivacyError("the log holds masked numbers of the wrong shape", path="log", given=f"party {entry.by}")
        self.masked[entry.by] = entry

    @property
    def statements(self) -> list[Statement]:
        """The ``ready`` of the union, in order."""
        assert self.union is not None
        return [self.ready[party] for party in self.union]

    @property
    def digest(self) -> str:
        return union_digest(self.statements)

    def total(self, sync: int) -> tuple[Ints, int]:
        """The sum over the union, and how many rows are behind it."""
        assert self.union is not None
        if set(self.masked) != set(self.union):
            raise PrivacyError("the coordinator adds numbers that are not in the log", path="log")
        rows, vectors = zip(*(masked_numbers(self.masked[party]) for party in self.union))
        total = add(vectors)
        self.sums = chained(self.sums, sync, self.digest, total)
        return total, sum(rows)

    # What this party says -----------------------------------------------------------------------------------------

    def ready_for(self, sync: int) -> bytes:
        """The content of this block's only ``ready``: a key that is stored before it leaves."""
        known = self._stored(sync)
        if known is None:
            known = EphemeralKey()
            replace_file(self.file, encode({"sync": sync, "secret": known.secret}).encode())
        return ready_content(known.public, self.sums)

    def union_for(self, sync: int) -> Union:
        """The union with this party's masks; they cannot be made once the key is gone."""
        assert self.union is not None
        statements, digest = self.statements, self.digest

        def masks(count: int) -> NDArray[np.uint64]:
            key = self._stored(sync)
            if key is None or key.public != ready_key(self.ready[self.index]):
                raise KeyGone("the key of this block is gone", path="ephemeral", given=f"synchronisation {sync}")
            return key.masks(self.index, statements, self.plan.fingerprint(), count)

        return Union(digest, tuple(self.union), masks)

    def _stored(self, sync: int) -> EphemeralKey | None:
        if not self.file.exists():
            return None
        found = decode(self.file.read_text())
        return EphemeralKey(found["secret"]) if found["sync"] == sync else None

    def erase_key(self) -> None:
        """The masked numbers are stored: nobody needs the key again."""
        if self.file.exists():
            erase_file(self.file)

    # Files --------------------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        said = {"ready": self.ready, "masked": self.masked}
        lists = {name: [entry.to_bytes() for entry in entries.values()] for name, entries in said.items()}
        return {**lists, "union": self.union, "sums": self.sums}

    def load(self, found: Mapping[str, Any]) -> None:
        for name, kept in (("ready", self.ready), ("masked", self.masked)):
            entries = [Statement.from_bytes(content) for content in found[name]]
            kept.update({entry.by: entry for entry in entries})
        self.union, self.sums = found["union"], found["sums"]
