"""Keyed hashes of ids: the store never holds an id of an event or a person in clear."""

from __future__ import annotations

import contextlib
import os
import secrets
from hashlib import blake2b
from pathlib import Path

from fairveil.errors import SpecError
from fairveil.loop.problems import StorageFailed

SIZE = 16


class Keys:
    """BLAKE2b under a secret of 32 bytes. Losing the secret makes old ids unrecognisable, not readable."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != 32:
            raise SpecError("the key of a store has 32 bytes", path="FAIRVEIL_KEY", allowed="64 hexadecimal digits")
        self._secret = secret
        # a copy of a hash that has the key in it already costs half of making one
        self._event = blake2b(digest_size=SIZE, key=secret, person=b"event")
        self._body = blake2b(digest_size=SIZE, key=secret, person=b"body")
        self._subject = blake2b(digest_size=SIZE, key=secret, person=b"subject")

    def __repr__(self) -> str:
        return f"Keys({self.name})"

    @property
    def name(self) -> str:
        """Tells two secrets apart without giving either away."""
        return blake2b(b"name", digest_size=8, key=self._secret, person=b"name").hexdigest()

    def event(self, id: str) -> bytes:
        made = self._event.copy()
        made.update(id.encode())
        return made.digest()

    def body(self, content: bytes) -> bytes:
        made = self._body.copy()
        made.update(content)
        return made.digest()

    def subject(self, id: str) -> bytes:
        made = self._subject.copy()
        made.update(id.encode())
        return made.digest()


def secret_beside(path: Path) -> bytes:
    """The secret in a file that only its owner may read; made when there is none."""
    with contextlib.suppress(FileNotFoundError):
        return _decoded(path.read_text(), str(path))
    fresh = secrets.token_bytes(32)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _decoded(path.read_text(), str(path))
    except OSError as problem:
        raise StorageFailed(
            "the key file cannot be written", path=str(path), fix="make its folder writable"
        ) from problem
    with open(descriptor, "w") as file:
        file.write(fresh.hex() + "\n")
        file.flush()
        os.fsync(file.fileno())
    return fresh


def secret_from_environment() -> bytes | None:
    text = os.environ.get("FAIRVEIL_KEY")
    return None if text is None else _decoded(text, "FAIRVEIL_KEY")


def _decoded(text: str, where: str) -> bytes:
    try:
        return bytes.fromhex(text.strip())
    except ValueError:
        raise SpecError("the key of a store cannot be read", path=where, allowed="64 hexadecimal digits") from None
