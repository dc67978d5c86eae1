"""Who may do what: tokens, roles, the loop a token is limited to, hosts and rates."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from fairveil.loop import tokens
from fairveil.loop.store import Store
from fairveil.loop.tokens import Token
from fairveil.service.messages import Scope, header
from fairveil.service.problems import Refused
from fairveil.service.settings import Settings

FRESH = 1.0
"""Seconds for which a token that was read is believed: adding and revoking need no restart."""
ANYBODY = Token("open", "anybody", frozenset(tokens.ROLES), None)
MOST_KNOWN = 10_000


@dataclass
class Bucket:
    """Requests of one token: so many a second, bursts of one second."""

    left: float
    since: float


@dataclass
class Gate:
    """Checks every request before its body is read."""

    store: Store
    settings: Settings
    _known: dict[bytes, tuple[float, Token | None]] = field(default_factory=dict)
    _open: tuple[float, bool] = (0.0, False)
    _buckets: dict[str, Bucket] = field(default_factory=dict)

    def check_host(self, scope: Scope) -> None:
        """Only names that this service was told it has, and only pages that came from there.

        A page elsewhere can neither rebind a name nor let a browser send a request that needs no body.
        """
        host = origin = None
        for key, value in scope["headers"]:
            if key == b"host":
                host = value
            elif key == b"origin":
                origin = value
        if _name(host) not in self.settings.hosts:
            raise Refused(400, "malformed", "this host name is not served here", fix="see --allow-host")
        if origin is not None and _name(origin.rpartition(b"//")[2]) not in self.settings.hosts:
            raise Refused(403, "forbidden", "a page from elsewhere may not ask", fix="see --allow-host")

    def check(self, scope: Scope, role: str, loop: str | None) -> Token:
        """The token of a request, which may use the role (``public``: any valid token) for this loop."""
        token = self.token(scope)
        if token is None:
            if role == "public" and self.settings.public:
                return Token("public", "anybody", frozenset(), None)
            raise Refused(
                401,
                "unauthenticated",
                "a valid token is needed",
                {"www-authenticate": "Bearer"},
                fix="send Bearer fv_...",
            )
        if self.settings.rate_limit is not None:
            self._count(token)
        if role == "public":
            if token.loop is not None and loop != token.loop:
                raise _forbidden()
        elif not token.permits(role, loop):
            raise _forbidden()
        return token

    def token(self, scope: Scope) -> Token | None:
        given = header(scope, b"authorization")
        now = time.monotonic()
        if given is None:
            return ANYBODY if self._is_open(now) else None
        known = self._known.get(given)
        if known is None or now - known[0] > FRESH:
            known = now, self._read(given)
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[given] = known
        return known[1]

    def _read(self, given: bytes) -> Token | None:
        kind, _, text = given.decode("latin-1").partition(" ")
        if kind.lower() != "bearer":
            return None
        with self.store.reading() as tx:
            token = tokens.find(tx, text.strip())
        if token is None or token.revoked or (token.expires is not None and token.expires <= self.store.clock.now()):
            return None
        return token

    def _is_open(self, now: float) -> bool:
        """No token in the store, and nobody but this machine can reach it."""
        if not self.settings.loopback:
            return False
        if now - self._open[0] > FRESH:
            with self.store.reading() as tx:
                self._open = now, not tokens.every(tx)
        return self._open[1]

    def _count(self, token: Token) -> None:
        rate, now = float(self.settings.rate_limit or 0), time.monotonic()
        bucket = self._buckets.setdefault(token.id, Bucket(rate, now))
        bucket.left = min(rate, bucket.left + (now - bucket.since) * rate) - 1.0
        bucket.since = now
        if bucket.left < 0.0:
            bucket.left += 1.0
            raise Refused(429, "rate-limited", "too many requests of this token", allowed=f"{rate:g} a second")


def _name(given: bytes | None) -> str:
    """A host without its port."""
    if given is None:
        return ""
    return (given if given.endswith(b"]") else given.rsplit(b":", 1)[0]).decode("latin-1").lower()


def _forbidden() -> Refused:
    return Refused(403, "forbidden", "this token may not do that", fix="use a token with the role, for this loop")
