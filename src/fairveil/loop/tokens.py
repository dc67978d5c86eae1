"""Access tokens: 256 random bits, of which only a hash is kept; shown once."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Any

from fairveil.errors import SpecError
from fairveil.loop.problems import Unknown
from fairveil.loop.storage import Transaction, adding

ROLES = ("decide", "operate", "audit")
_FORM = re.compile(r"fv_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True)
class Token:
    """Who somebody is: a name, roles, and the loop they are limited to (None: all)."""

    id: str
    name: str
    roles: frozenset[str]
    loop: str | None
    expires: int | None = None

    def permits(self, role: str, loop: str | None) -> bool:
        return role in self.roles and (self.loop is None or loop == self.loop)


def add(
    tx: Transaction, name: str, roles: list[str], now: int, loop: str | None = None, expires: int | None = None
) -> str:
    """A new token; the text is given once and cannot be read back."""
    wrong = [role for role in roles if role not in ROLES]
    if wrong or not roles:
        raise SpecError("these are not roles", path="role", given=", ".join(wrong) or None, allowed=", ".join(ROLES))
    if not 0 < len(name) <= 100 or not name.isprintable():
        raise SpecError("a token has a name", path="name", allowed="1 to 100 printable characters")
    id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    tx.execute(
        adding("tokens", "id, name, roles, loop, hash, created, expires"),
        (id, name, ",".join(sorted(set(roles))), loop, _hash(secret), now, expires),
    )
    return f"fv_{id}_{secret}"


def revoke(tx: Transaction, id: str, now: int) -> None:
    if not tx.execute("SELECT 1 FROM tokens WHERE id = ?", (id,)):
        raise Unknown("there is no token with this id", path="id", given=id, fix="see fairveil token list")
    tx.execute("UPDATE tokens SET revoked = ? WHERE id = ? AND revoked IS NULL", (now, id))


def every(tx: Transaction) -> list[dict[str, Any]]:
    rows = tx.execute("SELECT id, name, roles, loop, created, expires, revoked FROM tokens ORDER BY created, id")
    names = ("id", "name", "roles", "loop", "created", "expires", "revoked")
    return [dict(zip(names, row, strict=True)) for row in rows]


def exist(tx: Transaction) -> bool:
    """Whether there ever was a token."""
    return bool(tx.execute("SELECT 1 FROM tokens LIMIT 1"))


def any_valid(tx: Transaction, now: int) -> bool:
    query = "SELECT 1 FROM tokens WHERE revoked IS NULL AND (expires IS NULL OR expires > ?) LIMIT 1"
    return bool(tx.execute(query, (now,)))


def table(tx: Transaction) -> dict[str, tuple[Token, bytes]]:
    """Every token that was not revoked, with the hash of its secret, by id."""
    rows = tx.execute("SELECT id, name, roles, loop, hash, expires FROM tokens WHERE revoked IS NULL")
    return {
        id: (Token(id, name, frozenset(roles.split(",")), loop, expires), bytes(hash))
        for id, name, roles, loop, hash, expires in rows
    }


def find(known: dict[str, tuple[Token, bytes]], text: str) -> Token | None:
    """The token behind a text, also when it has expired; compared in constant time."""
    form = _FORM.fullmatch(text)
    found = None if form is None else known.get(form[1])
    if form is None or found is None or not hmac.compare_digest(found[1], _hash(form[2])):
        return None
    return found[0]


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
