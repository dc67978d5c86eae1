"""Who may do what: tokens, roles, the loop a token is limited to, hosts and rates."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from fairveil.loop import tokens
from fairveil.loop.problems import StorageFailed
from fairveil.loop.store import Store
from fairveil.loop.tokens import Token
from fairveil.service.messages import Refused, Scope, header
from fairveil.service.settings import Settings

FRESH, LOST = 1.0, 10.0
"""Seconds between two readings of the tokens, and seconds after which the last one is not believed any more."""
MOST_HEADERS = 10_000
ANYBODY = Token("open", "anybody", frozenset(tokens.ROLES), None)
PROBES = (b"/health", b"/ready")
LISTS = ("/v1/loops", "/v1/ledgers", "/v1/trail")
"""Routes that show a token which is limited to one loop what concerns that loop, and nothing else."""


@dataclass
class Bucket:
    """Requests of one token: so many a second, bursts of one second."""

    left: float
    since: float


@dataclass
class Gate:
    """Checks every request before its body is read, from a table in memory: no request asks the store who somebody is.

    The table is read once a second beside the requests. Where that fails for ten seconds everybody is refused, because
    a token may have been revoked meanwhile: one that was lives for at most eleven.
    """

    store: Store
    settings: Settings
    _known: dict[str, tuple[Token, bytes]] = field(default_factory=dict)
    _headers: dict[bytes, Token] = field(default_factory=dict)
    _host: bytes | None = None
    _any: bool = True
    _read: float = float("-inf")
    _buckets: dict[str, Bucket] = field(default_factory=dict)

    def renew(self) -> None:
        """Read the tokens; called beside requests, never by one."""
        began = time.monotonic()
        with self.store.reading() as tx:
            known, anything = tokens.table(tx), tokens.exist(tx)
        if known != self._known:
            self._headers = {}
        self._known, self._any, self._read = known, anything, began

    @property
    def age(self) -> float:
        """Seconds since the tokens were read."""
        return time.monotonic() - self._read

    def check_host(self, scope: Scope) -> None:
        """Only names that this service was told it has, and only pages that came from there.

        A page elsewhere can neither rebind a name nor let a browser send a request that needs no body. Who looks after
        processes asks by an address, whatever names are served: that is answered, and tells nothing of any loop.
        """
        host = origin = None
        for key, value in scope["headers"]:
            if key == b"host":
                if host is not None:
                    raise Refused(400, "malformed", "there are two Host headers", allowed="one")
                host = value
            elif key == b"origin":
                origin = value
        if host is None or host != self._host:
            if _name(host) in self.settings.hosts:
                self._host = host
            elif scope["raw_path"] not in PROBES:
                raise Refused(400, "malformed", "this host name is not served here", fix="see --allow-host")
        if origin is not None and _name(origin.rpartition(b"//")[2]) not in self.settings.hosts:
            raise Refused(403, "forbidden", "a page from elsewhere may not ask", fix="see --allow-host")

    def check(self, scope: Scope, role: str, loop: str | None, path: str = "") -> Token:
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
                fix="send Authorization: Bearer fv_...; the client takes it from token= or FAIRVEIL_TOKEN, the command "
                "line from --token or FAIRVEIL_TOKEN",
            )
        self.count(token)
        self.permit(token, role, token.loop if path in LISTS else loop)
        return token

    def permit(self, token: Token, role: str, loop: str | None) -> None:
        """Refuse what a token may not do."""
        if role == "public":
            if token.loop is not None and loop != token.loop:
                raise _forbidden()
        elif role != "none" and not token.permits(role, loop):
            raise _forbidden()

    def token(self, scope: Scope) -> Token | None:
        """Who sends this; refuses everybody while nobody can be told from one whose token was revoked."""
        given = header(scope, b"authorization")
        if self.age > LOST:
            raise StorageFailed("tokens cannot be checked now", fix="repeat in a moment")
        if given is None:
            return ANYBODY if self.is_open() else None
        token = self._headers.get(given)
        if token is None:
            kind, _, text = given.decode("latin-1").partition(" ")
            token = tokens.find(self._known, text.strip()) if kind.lower() == "bearer" else None
            if token is None:
                return None
            if len(self._headers) >= MOST_HEADERS:
                self._headers.clear()
            self._headers[given] = token
        if token.expires is not None and token.expires <= self.store.clock.wall():
            return None
        return token

    def valid(self, id: str) -> Token | None:
        """The token with this id, unless it was revoked or has expired."""
        if self.age > LOST:
            raise StorageFailed("tokens cannot be checked now", fix="repeat in a moment")
        token = self._known[id][0] if id in self._known else None
        expired = token is not None and token.expires is not None and token.expires <= self.store.clock.wall()
        return None if expired else token

    def is_open(self) -> bool:
        """No token in the store, and nobody but this machine can reach it: whoever asks may do everything."""
        return not self._any and self.settings.loopback and not self.settings.behind_proxy

    def count(self, token: Token) -> None:
        """Refuse more requests of a token than its rate allows."""
        if self.settings.rate_limit is None:
            return
        rate, now = float(self.settings.rate_limit), time.monotonic()
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
