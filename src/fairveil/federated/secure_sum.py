"""Sums that nobody can take apart: pairwise masks that cancel in the sum of one union, and in nothing else.

Two statements a synchronisation. ``ready``: a fresh X25519 key, signed. Once the coordinator has fixed the union U from
them, a party adds to its noisy numbers, modulo 2^64, one key stream for every other party of U: plus towards larger
indices, minus towards smaller ones. Summed over U the masks vanish; without one vector of U they hide everything.

    mask of i = sum_{j in U, j > i} stream(i, j) - sum_{j in U, j < i} stream(j, i)      (mod 2^64)

stream(i, j) is ChaCha20 under HKDF-SHA256 of the shared secret, with plan, synchronisation and the digest of U in its
context: one stream for all numbers of a pair and block, never used again. The digest of U is over all (party, key,
signature), so who sees another U gets other masks, and nothing cancels.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.arrays import Ints
from fairveil.errors import InputError, PrivacyError
from fairveil.federated.signing import KEY_BYTES, primitives
from fairveil.federated.wire import Statement

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
