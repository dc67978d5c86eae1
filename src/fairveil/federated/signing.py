"""Who said what: Ed25519 keys, and statements that name their purpose, their plan and their place.

Needs the extra ``federation`` (the package `cryptography`).
"""

from __future__ import annotations

import base64
import binascii
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairveil.errors import DependencyError, InputError, SpecError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

KEY_BYTES = 32


def primitives() -> Any:
    """The module of `cryptography` that holds asymmetric keys; an error that says what to install where it is not."""
    try:
        from cryptography.hazmat.primitives import asymmetric
        from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
    except ImportError:
        raise DependencyError("a federation signs its messages", fix="pip install 'fairveil[federation]'") from None
    assert ed25519 is not None
    assert x25519 is not None
    return asymmetric


def write_private(file: Path, content: bytes) -> None:
    """A new file that its owner alone may read."""
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


class SigningKey:
    """A party's own signing key. Its repr shows nothing of it, and it cannot be pickled.

    >>> key = SigningKey.new()
    >>> verify(key.public, b"numbers", key.sign(b"numbers")), verify(key.public, b"other", key.sign(b"numbers"))
    (True, False)
    """

    def __init__(self, secret: bytes) -> None:
        self._key: Ed25519PrivateKey = primitives().ed25519.Ed25519PrivateKey.from_private_bytes(secret)

    @classmethod
    def new(cls) -> SigningKey:
        return cls(os.urandom(KEY_BYTES))

    @classmethod
    def read(cls, file: Path) -> SigningKey:
        """The key of a file that `write` made."""
        try:
            return cls(_bytes(file.read_text(encoding="ascii").strip()))
        except (OSError, ValueError):
            raise InputError(
                "there is no signing key in this file", path=str(file), fix="make one: fairveil federate keys DIR"
            ) from None

    def write(self, file: Path) -> None:
        """Keep it in a new file that its owner alone may read."""
        write_private(file, base64.b64encode(self._key.private_bytes_raw()) + b"\n")

    @property
    def public(self) -> str:
        """What goes into a plan."""
        return base64.b64encode(self._key.public_key().public_bytes_raw()).decode()

    def sign(self, content: bytes) -> bytes:
        return self._key.sign(content)

    def __repr__(self) -> str:
        return f"SigningKey(public={self.public!r})"

    def __reduce__(self) -> Any:
        raise InputError("a signing key does not leave its process", path="key")


def verify(public: str, content: bytes, signature: bytes) -> bool:
    """Whether the owner of this public key signed this content."""
    asymmetric = primitives()
    from cryptography.exceptions import InvalidSignature

    key: Ed25519PublicKey = asymmetric.ed25519.Ed25519PublicKey.from_public_bytes(_bytes(public))
    try:
        key.verify(signature, content)
    except InvalidSignature:
        return False
    return True


def check_public(public: Any, path: str) -> str:
    """A public key as a plan writes it, or SpecError."""
    try:
        _bytes(public)
    except (ValueError, TypeError):
        raise SpecError(
            "this is not a public key", path=path, allowed="44 characters of base64",
            fix="fairveil federate keys DIR shows it",
        ) from None  # fmt: skip
    return str(public)


def _bytes(text: str) -> bytes:
    try:
        found = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("base64") from None
    if len(found) != KEY_BYTES:
        raise ValueError("length")
    return found
