"""Sums that nobody can take apart: pairwise masks that cancel in the sum of one union, and in nothing else.

Two statements a synchronisation. ``ready``: a fresh X25519 key, signed. Once the coordinator has fixed the union U from
them, a party adds to its noisy numbers, modulo 2^64, one key stream for every other party of U: plus towards larger
indices, minus towards smaller ones. Summed over U the masks vanish; without one vector of U they hide everything.

    mask of i = sum_{j in U, j > i} stream(i, j) - sum_{j in U, j < i} stream(j, i)      (mod 2^64)

stream(i, j) is ChaCha20 under HKDF-SHA256 of the shared secret, with plan, synchronisation and the digest of U in its
context: one stream for all numbers of a pair and block, never used again. The digest of U is over all (party, key,
signature), so who sees another U gets other masks, and nothing cancels.

A party has one ``ready`` and one union a block, for ever: `SecureBlock` is what the log says of them, `release_masked`
how its numbers leave.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.arrays import Ints
from fairveil.errors import InputError, PrivacyError
from fairveil.federated.journal import erase_file, replace_file
from fairveil.federated.party import Union
from fairveil.federated.plan import Plan
from fairveil.federated.signing import KEY_BYTES, primitives
from fairveil.federated.wire import Statement
from fairveil.ledger import Account, Released, ReleaseLost, release_once
from fairveil.ledger.values import decode, encode
from fairveil.privacy.noise import Noise

Words = NDArray[np.uint64]
DIGEST_BYTES = 32
COUNT_BYTES = 8
WORD_BYTES = 8
CONTEXT = b"fairveil secure sum 1"


class EphemeralKey:
    """The secret half of a ``ready``: made for one block, kept until its masked numbers are stored, then erased."""

    def __init__(self, secret: bytes | None = None) -> None:
        self.secret = os.urandom(KEY_BYTES) if secret is None else secret
        self._key = primitives().x25519.X25519PrivateKey.from_private_bytes(self.secret)

    @property
    def public(self) -> bytes:
        return bytes(self._key.public_key().public_bytes_raw())

    def masks(self, own: int, union: Sequence[Statement], plan: str, count: int) -> Words:
        """The masks of one party for ``count`` numbers of the block that these ``ready`` statements fix."""
        total = np.zeros(count, np.uint64)
        context = json.dumps([plan, union[0].sync, union_digest(union)]).encode()
        for other in union:
            if other.by != own:
                stream = self._stream(own, other, context, count)
                total = total + stream if own < other.by else total - stream
        return total

    def _stream(self, own: int, other: Statement, context: bytes, count: int) -> Words:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        public = primitives().x25519.X25519PublicKey.from_public_bytes(ready_key(other))
        try:
            shared = self._key.exchange(public)
        except ValueError:
            raise PrivacyError("a party's key is no key", path="ready", given=f"party {other.by}") from None
        pair = json.dumps(sorted((own, other.by))).encode()
        key = HKDF(SHA256(), 32, None, CONTEXT + context + pair).derive(shared)
        encryptor = Cipher(algorithms.ChaCha20(key, bytes(16)), None).encryptor()
        return np.frombuffer(encryptor.update(bytes(WORD_BYTES * count)), "<u8").astype(np.uint64)

    def __repr__(self) -> str:
        return "EphemeralKey()"

    def __reduce__(self) -> Any:
        raise InputError("an ephemeral key does not leave its process", path="key")


# Contents of statements ---------------------------------------------------------------------------------------------


def ready_content(key: bytes, sums: bytes) -> bytes:
    """A fresh key, and the digest of all sums so far: parties that were shown different ones part here."""
    return key + sums


def ready_key(statement: Statement) -> bytes:
    return statement.content[:KEY_BYTES]


def ready_sums(statement: Statement) -> bytes:
    return statement.content[KEY_BYTES:]


def ready_problem(statement: Statement) -> str:
    """Why this is not a ``ready``; empty where it is one."""
    whole = len(statement.content) == KEY_BYTES + DIGEST_BYTES and not statement.union
    return "" if whole else "of the wrong shape"


def masked_content(rows: int, numbers: Words) -> bytes:
    """How many rows are behind the numbers, which is public, and the masked numbers, 8 bytes each."""
    return rows.to_bytes(COUNT_BYTES, "little") + numbers.astype("<u8").tobytes()


def masked_numbers(statement: Statement) -> tuple[int, Words]:
    rows = int.from_bytes(statement.content[:COUNT_BYTES], "little")
    return rows, np.frombuffer(statement.content[COUNT_BYTES:], "<u8").astype(np.uint64)


def masked_problem(statement: Statement, count: int) -> str:
    """Why these are not the masked numbers of a party; empty where they are."""
    return "" if len(statement.content) == COUNT_BYTES + WORD_BYTES * count else "of the wrong shape"


def union_digest(union: Sequence[Statement]) -> str:
    """Of who takes part, with which keys, under which signatures, in order."""
    digest = hashlib.sha256(b"union")
    for ready in union:
        for part in (ready.by.to_bytes(8, "little"), ready_key(ready), ready.signature):
            digest.update(len(part).to_bytes(4, "big") + part)
    return digest.hexdigest()


def add(vectors: Sequence[Words]) -> Ints:
    """The sum of all masked vectors of a union as signed integers; the masks are gone.

    >>> add([np.array([2**64 - 3], np.uint64), np.array([1], np.uint64)]).tolist()
    [-2]
    """
    total = np.zeros(len(vectors[0]), np.uint64)
    for vector in vectors:
        total = total + vector
    return total.view(np.int64)


def as_words(units: Ints) -> Words:
    """Signed integers modulo 2^64."""
    return np.ascontiguousarray(units, np.int64).view(np.uint64)


def chained(before: bytes, sync: int, union: str, total: Ints) -> bytes:
    """The digest of all sums so far, with one more."""
    facts = json.dumps([before.hex(), sync, union]).encode()
    return hashlib.sha256(facts + total.astype("<i8").tobytes()).digest()


# A party's side ---------------------------------------------------------------------------------------------------


def release_masked(
    account: Account, block: str, union: Union, units: Callable[[Noise], Ints], noise: Noise | None, *,
    resume: bool = True, **public: int,
) -> Released:  # fmt: skip
    """Charge, draw, mask and store a block's numbers in one step: what is under the mask is never stored.

    A stored block belongs to its union for ever, and another one is refused.
    """

    def draw(source: Noise) -> dict[str, Any]:
        drawn = units(source)
        return {"masked": as_words(drawn) + union.masks(len(drawn)), "union": union.digest, **public}

    found = release_once(account, account.block(block), draw, noise, resume=resume)
    if not isinstance(found.value, ReleaseLost):
        check_union(found.value["union"], union, block)
    return found


def check_union(stored: str, union: Union, block: str) -> None:
    """Refuse another union for a block whose numbers are stored."""
    if stored != union.digest:
        raise PrivacyError(
            "this block is in another union for ever", path="union", given=block, allowed="one union a block"
        )


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
