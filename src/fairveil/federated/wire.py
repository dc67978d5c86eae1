"""What travels between a coordinator and a party: statements, signed by who made them, in requests and answers.

A statement is a short header and its content as raw bytes. Nothing that is read here runs anything; what cannot be read
is refused in words that repeat nothing of it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairveil.errors import InputError
from fairveil.federated.signing import SigningKey, verify

VERSION = 1
COORDINATOR = -1
"""The coordinator's own statements carry no signature: it holds no secret, and parties check what they imply."""
HELLO, MESSAGE, READY, MASKED, LOST, RETIRE = "hello", "message", "ready", "masked", "lost", "retire"
UNION, CLOSE, VOID = "union", "close", "void"
BY_PARTIES = (HELLO, MESSAGE, READY, MASKED, LOST, RETIRE)
BY_COORDINATOR = (UNION, CLOSE, VOID)
_LENGTH = 4
_written = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True)
class Statement:
    """One thing that was said, for ever: purpose, who, synchronisation, digest of the union it belongs to, content.

    >>> key = SigningKey.new()
    >>> said = Statement(HELLO, 0, 0, b"{}").signed(key, "plan")
    >>> said.is_by(key.public, "plan"), said.is_by(key.public, "another plan")
    (True, False)
    """

    purpose: str
    by: int
    sync: int
    content: bytes
    union: str = ""
    signature: bytes = field(default=b"", repr=False)

    def _signed_part(self, plan: str) -> bytes:
        content = hashlib.sha256(self.content).hexdigest()
        facts = ["fairveil statement", VERSION, self.purpose, plan, self.by, self.sync, self.union, content]
        return json.dumps(facts).encode()

    def signed(self, key: SigningKey, plan: str) -> Statement:
        signature = key.sign(self._signed_part(plan))
        return Statement(self.purpose, self.by, self.sync, self.content, self.union, signature)

    def is_by(self, public: str, plan: str) -> bool:
        return verify(public, self._signed_part(plan), self.signature)

    @property
    def place(self) -> tuple[str, int, int]:
        """Said once: by whom, for what, at which synchronisation."""
        return self.purpose, self.by, self.sync

    def to_bytes(self) -> bytes:
        signature = base64.b64encode(self.signature).decode()
        header = _written([self.purpose, self.by, self.sync, self.union, signature]).encode()
        return _framed(header) + self.content

    @classmethod
    def from_bytes(cls, data: bytes) -> Statement:
        header, content = _cut(data)
        purpose, by, sync, union, signature = json.loads(header)
        whole = all(isinstance(number, int) and not isinstance(number, bool) for number in (by, sync))
        if purpose not in (*BY_PARTIES, *BY_COORDINATOR) or not whole or not isinstance(union, str):
            raise ValueError("header")
        return cls(purpose, by, sync, content, union, base64.b64decode(signature, validate=True))


@dataclass(frozen=True)
class LogPart:
    """What the coordinator asks: here are statements of the log from ``first`` on; what do you say?

    ``total``: how long the log is; a party that has not all of it yet follows and says nothing.
    """

    plan: str
    first: int
    total: int
    entries: tuple[Statement, ...]

    def to_bytes(self) -> bytes:
        header = {"version": VERSION, "plan": self.plan, "first": self.first, "total": self.total}
        return _packed(header, self.entries)

    @classmethod
    def from_bytes(cls, data: bytes) -> LogPart:
        header, entries = _unpacked(data, {"version": int, "plan": str, "first": int, "total": int})
        return cls(header["plan"], header["first"], header["total"], entries)


@dataclass(frozen=True)
class Answer:
    """What a party says: its statements, how much of the log it has stored, and a word where it refused."""

    plan: str
    have: int
    says: tuple[Statement, ...] = ()
    word: str = ""
    progress: dict[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        header = {"version": VERSION, "plan": self.plan, "have": self.have, "word": self.word}
        return _packed({**header, "progress": self.progress}, self.says)

    @classmethod
    def from_bytes(cls, data: bytes) -> Answer:
        header, says = _unpacked(data, {"version": int, "plan": str, "have": int, "word": str, "progress": dict})
        return cls(header["plan"], header["have"], says, header["word"], header["progress"])


def within(data: bytes, most: int, path: str) -> bytes:
    """Refuse what is longer than the plan allows, before it is read."""
    if len(data) > most:
        raise InputError("this is too large", path=path, given=f"{len(data)} bytes", allowed=f"{most} bytes")
    return data


def table(content: bytes) -> dict[str, Any]:
    """The content of a coordinator's statement; ValueError where it is none."""
    found = json.loads(content)
    if not isinstance(found, dict):
        raise ValueError("content")
    return found


def _packed(header: dict[str, Any], statements: Iterable[Statement]) -> bytes:
    parts = [_framed(_written(header).encode())]
    return b"".join([*parts, *(_framed(statement.to_bytes()) for statement in statements)])


def _unpacked(data: bytes, types: Mapping[str, type]) -> tuple[dict[str, Any], tuple[Statement, ...]]:
    try:
        first, rest = _cut(data)
        header, found = json.loads(first), []
        if {name: type(value) for name, value in header.items()} != types or header["version"] != VERSION:
            raise ValueError("header")
        while rest:
            one, rest = _cut(rest)
            found.append(Statement.from_bytes(one))
        return header, tuple(found)
    except Exception:  # whatever a stranger sends: refuse it, and repeat nothing of it
        raise InputError(
            "this cannot be read", path="federation", allowed=f"a request or answer of version {VERSION}"
        ) from None


def _framed(part: bytes) -> bytes:
    return len(part).to_bytes(_LENGTH, "big") + part


def _cut(data: bytes) -> tuple[bytes, bytes]:
    length = int.from_bytes(data[:_LENGTH], "big")
    if len(data) < _LENGTH + length:
        raise ValueError("cut off")
    return data[_LENGTH : _LENGTH + length], data[_LENGTH + length :]
