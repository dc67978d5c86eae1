"""Every route, once: method, path, role, channel, body and answer. The dispatcher, OpenAPI, docs and tests read this.

Channels: ``public`` handlers get a `PublicView` and nothing else; ``subject`` ones answer the caller about one person's
own decision; ``operator`` and ``audit`` ones belong to whoever runs the loop and whoever checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pydantic import BaseModel

from fairveil.loop.requests import DecisionRequest, DecisionsRequest, RewardRequest, RewardsRequest
from fairveil.service import bodies, cold, hot
from fairveil.service.problems import Refused


@dataclass(frozen=True)
class Route:
    """``role``: what a token needs, ``public`` for any, ``none`` for no token. Handlers of hot routes are async."""

    method: str
    path: str
    role: str
    channel: str
    words: str
    handler: Callable[..., Any]
    body: type[BaseModel] | None = None
    statuses: tuple[int, ...] = (200,)
    hot: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.path.strip("/").split("/")) if self.path != "/" else ("",)


LOOP = "/v1/loops/{loop}"
EVENT = f"{LOOP}/decisions/{{event}}"
ROUTES = (
    Route(
        "POST",
        f"{LOOP}/decisions",
        "decide",
        "subject",
        "ask for a decision",
        hot.decide,
        DecisionRequest,
        (201, 200),
        True,
    ),
    Route(
        "POST", f"{EVENT}/reward", "decide", "subject", "what came of an event", hot.reward, RewardRequest, (200,), True
    ),
    Route(
        "POST",
        f"{LOOP}/decisions/batch",
        "decide",
        "subject",
        "many decisions",
        hot.decide_batch,
        DecisionsRequest,
        (200,),
        True,
    ),
    Route(
        "POST",
        f"{LOOP}/rewards/batch",
        "decide",
        "subject",
        "many rewards",
        hot.reward_batch,
        RewardsRequest,
        (200,),
        True,
    ),
    Route(
        "POST",
        f"{EVENT}/activate",
        "decide",
        "subject",
        "a deferred decision was shown",
        hot.activate,
        None,
        (200,),
        True,
    ),
    Route("GET", EVENT, "decide", "subject", "the stored reply and the fate of its reward", cold.get_event),
    Route("POST", "/v1/loops", "operate", "operator", "create a loop", cold.create_loop, bodies.LoopBody, (201,)),
    Route("POST", "/v1/quote", "operate", "operator", "what a loop would cost", cold.quote_loop, bodies.LoopBody),
    Route("GET", "/v1/loops", "public", "public", "all loops", cold.list_loops),
    Route("GET", LOOP, "public", "public", "one loop", cold.get_loop),
    Route("PUT", f"{LOOP}/mode", "operate", "operator", "change the mode", cold.put_mode, bodies.ModeBody),
    Route("DELETE", LOOP, "operate", "operator", "close a loop", cold.close_loop, None, (204,)),
    Route("GET", f"{LOOP}/budget", "public", "public", "limit, spent and left", cold.get_budget),
    Route(
        "POST",
        f"{LOOP}/budget/quote",
        "public",
        "public",
        "what a release would cost",
        cold.quote_release,
        bodies.QuoteBody,
    ),
    Route(
        "POST",
        f"{LOOP}/releases",
        "operate",
        "operator",
        "make a release",
        cold.make_release,
        bodies.ReleaseBody,
        (201, 200),
    ),
    Route("GET", f"{LOOP}/releases", "public", "public", "all releases", cold.list_releases),
    Route("GET", f"{LOOP}/releases/{{release}}", "public", "public", "one release", cold.get_release),
    Route(
        "DELETE",
        f"{LOOP}/subjects",
        "operate",
        "operator",
        "erase a person's raw data",
        cold.erase_subject,
        bodies.SubjectBody,
    ),
    Route("POST", f"{LOOP}/audits", "operate", "operator", "not served yet", cold.not_yet, None, (422,)),
    Route("GET", f"{LOOP}/audits/{{audit}}", "public", "operator", "not served yet", cold.not_yet, None, (422,)),
    Route("GET", f"{LOOP}/events", "operate", "operator", "not served yet", cold.not_yet, None, (422,)),
    Route("GET", "/v1/ledgers", "audit", "audit", "all ledgers", cold.list_ledgers),
    Route("GET", "/v1/ledgers/{ledger}", "audit", "audit", "one ledger", cold.get_ledger),
    Route(
        "GET", "/v1/ledgers/{ledger}/entries", "audit", "audit", "entries with hashes, without values", cold.get_entries
    ),
    Route("GET", "/v1/ledgers/{ledger}/verify", "audit", "audit", "check chain and anchor", cold.verify_ledger),
    Route("GET", "/v1/trail", "audit", "audit", "what operators did", cold.get_trail),
    Route("GET", "/health", "none", "operator", "the process lives", cold.health),
    Route("GET", "/ready", "none", "operator", "it can serve", cold.ready, None, (200, 503)),
    Route("GET", "/metrics", "operate", "operator", "counters for Prometheus", cold.metrics),
    Route("GET", "/openapi.json", "none", "operator", "this contract as OpenAPI", cold.openapi),
    Route("GET", "/", "public", "operator", "not served yet", cold.not_yet, None, (422,)),
)
_BY_LENGTH: dict[int, list[tuple[tuple[str | None, ...], dict[str, Route]]]] = {}


def _index() -> None:
    for route in ROUTES:
        shape = tuple(None if part.startswith("{") else part for part in route.parts)
        same = _BY_LENGTH.setdefault(len(shape), [])
        for known, methods in same:
            if known == shape:
                methods[route.method] = route
                break
        else:
            same.append((shape, {route.method: route}))
    for same in _BY_LENGTH.values():
        same.sort(key=lambda entry: sum(part is None for part in entry[0]))  # a word before a name


_index()


def find(method: str, raw: bytes) -> tuple[Route, list[str]]:
    """The route of a request and the names in its path; refuses what is not served."""
    parts = raw.decode("latin-1").lstrip("/").split("/")
    served: set[str] = set()
    for shape, methods in _BY_LENGTH.get(len(parts), ()):
        if all(want is None or want == have for want, have in zip(shape, parts, strict=True)):
            route = methods.get(method)
            if route is not None:
                return route, _names(shape, parts)
            served |= set(methods)
    if served:
        allow = ", ".join(sorted(served))
        raise Refused(405, "method", "this method is not served here", {"allow": allow}, allowed=allow)
    raise Refused(404, "not-found", "there is nothing at this path", fix="see /openapi.json")


def _names(shape: Sequence[str | None], parts: Sequence[str]) -> list[str]:
    try:
        return [
            unquote(have, errors="strict") if "%" in have else have
            for want, have in zip(shape, parts, strict=True)
            if want is None
        ]
    except UnicodeDecodeError:
        raise Refused(400, "malformed", "the path is not UTF-8") from None
