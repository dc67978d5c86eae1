"""What the handler of a page gets and gives: somebody's visit, and a page, a way on, or a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fairveil.loop.public import PublicView
from fairveil.loop.tokens import Token
from fairveil.service.access import LISTS
from fairveil.service.cold import HISTORY, STREAMS, Request
from fairveil.service.messages import parse
from fairveil.service.pages.words import url
from fairveil.service.routes import Router, loop_of

if TYPE_CHECKING:
    from fairveil.service.app import Service

REACH = {
    "public": frozenset({"public"}),
    "operator": frozenset({"public", "operator"}),
    "audit": frozenset({"public", "audit"}),
}
"""The channels whose routes a page of a channel may ask."""
OWN_VIEW = (HISTORY, STREAMS, f"{STREAMS}/{{stream}}")
"""Public routes whose handlers see another view than the others of their loop."""
PEOPLE = frozenset({"operate", "audit"})
"""Roles that pages are for; a token that only decides belongs to a program."""


@dataclass(frozen=True)
class Visitor:
    """Who looks at a page: a token, what forms are bound to, and the session if there is one."""

    token: Token
    binding: bytes
    session: bytes | None = None
    how: str = "session"

    def may(self, role: str, loop: str | None = None) -> bool:
        return self.token.permits(role, loop)


class Asking:
    """The JSON routes of a channel, as one visitor may use them; public tables are read once a page."""

    def __init__(self, service: Service, router: Router, channel: str, token: Token) -> None:
        self._service, self._router, self._channel, self._token = service, router, channel, token
        self._views: dict[tuple[tuple[str, ...], str, str], PublicView] = {}

    def __call__(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer of a route as plain data; refusals are raised."""
        plain, _, query = path.partition("?")
        route, names = self._router.find(method, plain.encode())
        if route.page or route.hot or route.channel not in REACH[self._channel]:
            raise PermissionError(f"a page of the channel {self._channel} may not ask {method} {route.path}")
        loop = self._token.loop if route.path in LISTS else loop_of(route, names)
        self._service.gate.permit(self._token, route.role, loop)
        parsed = None if route.body is None else parse(route.body, json.dumps(body or {}).encode())
        call = Request(tuple(names), parsed, self._token, query.encode())
        if route.channel == "public":
            return route.handler(self._view(call, route.path), call)[1]
        self._views.clear()
        return route.handler(self._service, call)[1]

    def _view(self, call: Request, path: str) -> PublicView:
        asked = call.names[:1], call.after_name, path if path in OWN_VIEW else ""
        if asked not in self._views:
            self._views[asked] = call.view(self._service.store, path, self._service.settings.streams)
        return self._views[asked]


@dataclass(frozen=True)
class Visit:
    """One request for a page: names from its path, its query, its form, and how to ask."""

    ask: Asking
    names: tuple[str, ...]
    query: dict[str, str]
    form: dict[str, str]
    visitor: Visitor
    behind: Service | None = None
    """The service, for pages of operators and auditors; public pages have None."""

    @property
    def loop(self) -> str:
        return f"/v1/loops/{url(self.names[0])}"

    @property
    def service(self) -> Service:
        if self.behind is None:
            raise PermissionError("a public page has no way to the service")
        return self.behind

    def without_form(self) -> Visit:
        return replace(self, form={})


@dataclass(frozen=True)
class Page:
    """A template and what it says."""

    template: str
    context: dict[str, Any] = field(default_factory=dict)
    status: int = 200
    headers: Sequence[tuple[bytes, bytes]] = ()
    visitor: Visitor | None = None
    """Whom it is for, where that changed while it was made (a login)."""
    path: str | None = None
    """Its own path, where it stands at another one."""


@dataclass(frozen=True)
class Onward:
    """See another page (303)."""

    path: str
    headers: Sequence[tuple[bytes, bytes]] = ()


@dataclass(frozen=True)
class File:
    """Bytes with their kind; ``name`` makes it a download."""

    content: bytes
    kind: str
    name: str | None = None
    headers: Sequence[tuple[bytes, bytes]] = ()
    packed: bytes | None = None
    """The same bytes in gzip, for who can read it."""
