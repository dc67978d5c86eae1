"""Keyed hashes of ids: the store never holds an id of an event or a person in clear.

After a change of keys rows that stand under an old key are found by it, and go by the new one from then on. Ids are not
stored, so nothing can be hashed again at once. Whoever comes back brings the id: in the transaction of that request the
rows of the event and of the people in it get their new names, before anything is looked up. All processes write under
the new key, so no row under an old one is ever added.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fairveil.errors import SpecError
from fairveil.loop import trail
from fairveil.loop.problems import StorageFailed
from fairveil.loop.storage import Driver, Transaction, note, noted

if TYPE_CHECKING:
    from fairveil.loop.pages import Pages
    from fairveil.loop.requests import Ask

SIZE = 16


class Keys:
    """BLAKE2b under a secret of 32 bytes. Losing the secret makes old ids unrecognisable, not readable.

    ``old``: secrets of before a change. What is stored under one of them is found by it, and goes by the new one from
    then on (`renamed`).
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


# The key of a store ---------------------------------------------------------------------------------------------------


def key_beside(driver: Driver) -> Path | None:
    """Where the key of a store lies that has no other place for it; None for a store on a server."""
    return None if driver.path is None else driver.path.with_name(driver.path.name + ".key")


def check_key(tx: Transaction, keys: Keys, new_key: bool, now: int) -> None:
    """Another secret than before is a mistake unless it is said aloud."""
    found = noted(tx, "key")
    if found is None:
        note(tx, "store", secrets.token_hex(16))
        note(tx, "key", keys.name)
    elif found != keys.name:
        if found in {one.name for one in keys.old}:
            raise StorageFailed(
                "a change of the key of this store is not finished", path="FAIRVEIL_KEY", fix="fairveil store rekey"
            )
        if not new_key:
            raise StorageFailed(
                "the key of this store is another one",
                path="FAIRVEIL_KEY",
                fix="restore the key file; with a new one (--new-key) old ids are unknown for ever",
            )
        change_key(tx, keys, "new-key", now, "fairveil")
    elif missing := set((noted(tx, "old-keys") or "").split()) - {one.name for one in keys}:
        raise StorageFailed(
            "an older key of this store is not there",
            path="FAIRVEIL_KEY",
            given=", ".join(sorted(missing)),
            fix="keep old keys below the new one: people who were counted under them are known by them alone",
        )


def change_key(tx: Transaction, keys: Keys, what: str, now: int, actor: str) -> None:
    """From now on ids go by this key; old ones, under which somebody may still be stored, are asked for too."""
    note(tx, "key", keys.name)
    note(tx, "old-keys", " ".join(one.name for one in keys.old))
    trail.note(tx, now, actor, what, "store", {"key": keys.name})


# After a change -------------------------------------------------------------------------------------------------------


Pair = tuple[bytes, bytes]
EVENTS = (("events", "key"), ("appearances", "event"), ("places", "event"))
PEOPLE = (
    ("subjects", "key"), ("appearances", "subject"), ("place_people", "key"), ("place_appearances", "subject")
)  # fmt: skip
"""Where events and people stand under keyed hashes."""


class Aliases(NamedTuple):
    """New and old key, of events and of people."""

    events: tuple[Pair, ...] = ()
    people: tuple[Pair, ...] = ()


NO_ALIASES = Aliases()


def aliases_of(ask: Ask) -> Aliases:
    events = tuple((ask.key, old.key) for old in ask.older)
    return Aliases(events, tuple(pair for old in ask.older for pair in zip(ask.mentioned, old.mentioned, strict=True)))


def aliases_of_event(keys: Keys, id: str) -> Aliases:
    return Aliases(events=tuple((keys.event(id), old.event(id)) for old in keys.old))


def aliases_of_person(keys: Keys, id: str) -> Aliases:
    return Aliases(people=tuple((keys.subject(id), old.subject(id)) for old in keys.old))


def renamed(tx: Transaction, loop: int, given: Iterable[Aliases]) -> Aliases:
    """Give rows their new names; gives all aliases together."""
    known = [one for one in given if one is not NO_ALIASES]
    if not known:
        return NO_ALIASES
    events = tuple(dict.fromkeys(pair for one in known for pair in one.events))
    people = tuple(dict.fromkeys(pair for one in known for pair in one.people))
    for places, pairs in ((EVENTS, events), (PEOPLE, people)):
        for table, column in places if pairs else ():
            statement = f"UPDATE {table} SET {column} = ? WHERE loop = ? AND {column} = ?"
            tx.many(statement, [(new, loop, old) for new, old in pairs])
    return Aliases(events, people)


def released(pages: Pages, tx: Transaction, fresh: Sequence[bytes], aliases: Aliases) -> frozenset[bytes]:
    """Which of these events a lost copy of the store has released under an old key."""
    wanted = {old: new for new, old in aliases.events if new in set(fresh)}
    return frozenset(wanted[old] for old in pages.among(tx, wanted)) if wanted else frozenset()
