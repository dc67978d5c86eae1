"""Sessions of people: a token is exchanged for a random cookie, of which only a hash is kept, bound to the token."""

from __future__ import annotations

import hashlib
import re
import secrets
from http.cookies import CookieError, SimpleCookie

from fairveil.loop import tokens
from fairveil.loop.clock import SECOND
from fairveil.loop.storage import Transaction, adding
from fairveil.loop.tokens import Token
from fairveil.service.messages import Scope, header
from fairveil.service.settings import Settings

LASTS = 12 * 3600
"""Seconds."""
_FORM = re.compile(r"[A-Za-z0-9_-]{43}")


def begin(tx: Transaction, token: Token, now: int) -> str:
    """A new session; the text is for its cookie and cannot be read back. Sessions that are over are removed."""
    tx.execute("DELETE FROM sessions WHERE expires <= ?", (now,))
    text = secrets.token_urlsafe(32)
    tx.execute(adding("sessions", "hash, token, created, expires"), (digest(text), token.id, now, now + LASTS * SECOND))
    return text


def find(tx: Transaction, hash: bytes, now: int) -> Token | None:
    """The token behind a session; none when the session is over, or its token was revoked or has expired."""
    found = tx.execute("SELECT token FROM sessions WHERE hash = ? AND expires > ?", (hash, now))
    token, _ = tokens.table(tx).get(found[0][0], (None, b"")) if found else (None, b"")
    return token if alive(token, now) else None


def alive(token: Token | None, now: int) -> bool:
    return token is not None and (token.expires is None or token.expires > now)


def end(tx: Transaction, hash: bytes) -> None:
    tx.execute("DELETE FROM sessions WHERE hash = ?", (hash,))


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


# Cookies -------------------------------------------------------------------------------------------------------------


def _encrypted(settings: Settings) -> bool:
    return settings.tls_cert is not None or settings.behind_proxy


def cookie_name(settings: Settings) -> str:
    return "__Host-fairveil" if _encrypted(settings) else "fairveil"


def cookie_of(scope: Scope, settings: Settings) -> bytes | None:
    """The hash of the session that a request carries."""
    given = header(scope, b"cookie")
    if given is None:
        return None
    try:
        found = SimpleCookie(given.decode("latin-1")).get(cookie_name(settings))
    except CookieError:
        return None
    return None if found is None or _FORM.fullmatch(found.value) is None else digest(found.value)


def set_cookie(settings: Settings, text: str | None) -> tuple[bytes, bytes]:
    """The header that gives a session to a browser, or takes it away."""
    lasts = LASTS if text else 0
    rules = f"Max-Age={lasts}; Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if _encrypted(settings) else "")
    return b"set-cookie", f"{cookie_name(settings)}={text or ''}; {rules}".encode()
