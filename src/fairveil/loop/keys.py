"""Keyed hashes of ids: the store never holds an id of an event or a person in clear."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

from fairveil.errors import SpecError
from fairveil.loop.problems import StorageFailed

SIZE = 16


class Keys:
    """BLAKE2b under a secret of 32 bytes. Losing the secret makes old ids unrecognisable, not readable.

    ``old``: secrets of before a change. What is stored under one of them is found by it, and goes by the new one from
    then on (`fairveil.loop.aliases`).
    """

    def __init__(self, secret: bytes, *old: bytes) -> None:
        self.old = tuple(Keys(one) for one in old)
        if len(secret) != 32:
            raise SpecError("the key of a store has 32 bytes", path="FAIRVEIL_KEY", allowed="64 hexadecimal digits")
        self._secret = secret
        # a copy of a hash that has the key in it already costs half of making one
        self._event = blake2b(digest_size=SIZE, key=secret, person=b"event")
        self._body = blake2b(digest_size=SIZE, key=secret, person=b"body")
        self._subject = blake2b(digest_size=SIZE, key=secret, person=b"subject")
        self._page = blake2b(digest_size=32, key=secret, person=b"page")

    def __iter__(self) -> Iterator[Keys]:
        """These and the old ones."""
        yield self
        yield from self.old

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

    def page(self, block: str, events: Sequence[bytes]) -> str:
        """The digest of the keys of a block's events."""
        made = self._page.copy()
        made.update(b"".join([block.encode(), b"\0", *events]))
        return made.hexdigest()

    def form(self, binding: bytes) -> str:
        """What a form carries to show that it came from a page of this service, made for whom it is bound to."""
        return blake2b(binding, digest_size=SIZE, key=self._secret, person=b"form").hexdigest()

    def subject(self, id: str) -> bytes:
        made = self._subject.copy()
        made.update(id.encode())
        return made.digest()


BESIDE = "beside the store"
BESIDE_WORDS = (
    "the key of ids lies beside the store: whoever copies the folder has both; "
    "`fairveil store move-key --to FILE` takes it elsewhere"
)
CREDENTIAL = "fairveil-key"
"""The name of the key among the credentials that systemd hands to a service."""


def find_secret(beside: Path | None, file: Path | None, fresh: bool) -> tuple[list[bytes], str]:
    """The secrets of a store, the one that counts first and old ones behind it, and where they lie: a file, the
    environment, a credential of systemd, or beside the store.

    ``file``: where it was said to be (else ``FAIRVEIL_KEY_FILE``). ``fresh``: the store is new, or its secret is lost
    and that was said aloud: then one is made where there is none.
    """
    named = os.environ.get("FAIRVEIL_KEY_FILE")
    file = file or (Path(named) if named else None)
    if file is not None:
        if not file.exists() and beside is not None and beside.exists():
            raise SpecError(
                "the key of this store lies beside it", path="--key-file", fix="fairveil store move-key takes it there"
            )
        return _in_file(file, fresh), "in a file"
    text = os.environ.get("FAIRVEIL_KEY")
    if text is not None:
        return _decoded(text, "FAIRVEIL_KEY"), "in the environment"
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    if folder and (credential := Path(folder) / CREDENTIAL).exists():
        return _in_file(credential, fresh=False), "a credential of systemd"
    if beside is None:
        raise SpecError(
            "a store on a server needs the key of its ids",
            path="FAIRVEIL_KEY",
            fix="set it to 64 hexadecimal digits, the same in every process, or give --key-file; keep a copy",
        )
    return _in_file(beside, fresh), BESIDE


def _in_file(path: Path, fresh: bool) -> list[bytes]:
    """The secrets in a file that only its owner may read; made when there is none and that is allowed."""
    with contextlib.suppress(FileNotFoundError):
        return _decoded(path.read_text(), str(path))
    if not fresh:
        raise StorageFailed(
            "the key of this store is not there",
            path="--key-file",
            fix="say where it is; with a new one (--new-key) old ids are unknown for ever",
        )
    made = secrets.token_bytes(32)
    try:
        write_secret(path, made)
    except FileExistsError:
        return _decoded(path.read_text(), str(path))
    except OSError as problem:
        raise StorageFailed(
            "the key file cannot be written", path="--key-file", fix="make its folder writable"
        ) from problem
    return [made]


def changed_secret(path: Path) -> tuple[list[bytes], Path]:
    """Another secret for a key file, and the old ones behind it, in a new file that is to take its place."""
    held = [secrets.token_bytes(32), *_decoded(path.read_text(), str(path))]
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    write_secret(fresh, *held)
    return held, fresh


def write_secret(path: Path, *held: bytes) -> None:
    """A new file that only its owner may read, on disk when this returns."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w") as file:
        file.write("".join(f"{secret.hex()}\n" for secret in held))
        file.flush()
        os.fsync(file.fileno())


def move_secret(beside: Path, to: Path) -> None:
    """Take the secret away from its store: written elsewhere first, then overwritten and removed here."""
    if to.absolute().parent == beside.absolute().parent:
        raise SpecError("this is the folder of the store", path="--to", given=str(to), allowed="another folder")
    try:
        held = _decoded(beside.read_text(), str(beside))
    except FileNotFoundError:
        raise SpecError(
            "no key lies beside this store", path="--store", fix="it was moved, or never was there"
        ) from None
    try:
        write_secret(to, *held)
    except FileExistsError:
        raise SpecError("there is a file already", path="--to", given=str(to), allowed="a new file") from None
    with open(beside, "r+b", buffering=0) as file:
        file.write(bytes(beside.stat().st_size))
        os.fsync(file.fileno())
    beside.unlink()


def _decoded(text: str, where: str) -> list[bytes]:
    """Secrets, one a line (in the environment: one a word)."""
    try:
        return [bytes.fromhex(one) for one in text.split()] or [b""]
    except ValueError:
        raise SpecError("the key of a store cannot be read", path=where, allowed="64 hexadecimal digits") from None
