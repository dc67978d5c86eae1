"""Routes stand on their handlers; from there the dispatcher, access, OpenAPI, docs and tests have them.

Channels: ``public`` handlers get a `PublicView` and nothing else; ``subject`` ones answer the caller about one person's
own decision; ``operator`` and ``audit`` ones belong to whoever runs the loop and whoever checks it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from types import ModuleType
from typing import Any, TypeVar
from urllib.parse import unquote

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from fairveil._version import __version__
from fairveil.service.messages import TITLES, Refused

Handler = TypeVar("Handler", bound=Callable[..., Any])
LOOP = "/v1/loops/{loop}"
EVENT = f"{LOOP}/decisions/{{event}}"
CHANNELS = {"decide": "subject", "operate": "operator", "audit": "audit", "public": "public", "none": "operator"}
"""Whom a role speaks for, unless a route says otherwise."""
SLOW = 60.0
"""Seconds for routes that create or report."""
AFTER: dict[str, dict[str, Any]] = {
    **{end: {"type": "string", "maxLength": 200} for end in ("loops", "ledgers")},
    **{end: {"type": "integer", "minimum": -1} for end in ("entries", "trail")},
}
"""What listings go on after: ends of their paths."""
COMMON = (400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 429, 503)


@dataclass(frozen=True)
class Route:
    """``role``: what a token needs, ``public`` for any, ``none`` for no token. Handlers of ``hot`` routes are async and
    answer by themselves; those of ``queued`` ones make items for the writer of a loop (`fairveil.service.hot`); a
    ``page`` is for people: its handler gets a `fairveil.service.pages.visit.Visit`."""

    method: str
    path: str
    role: str
    channel: str
    words: str
    handler: Callable[..., Any]
    body: type[BaseModel] | None = None
    statuses: tuple[int, ...] = (200,)
    hot: bool = False
    queued: bool = False
    page: bool = False
    deadline: float = 0.0
    """Seconds for one that takes long; others have the service's own."""

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.path.strip("/").split("/")) if self.path != "/" else ("",)


def route(
    method: str, path: str, role: str, words: str, *, channel: str = "", **facts: Any
) -> Callable[[Handler], Handler]:
    """Declare a route on its handler; ``facts`` are the further fields of `Route`."""

    def declare(handler: Handler) -> Handler:
        made = Route(method, path, role, channel or CHANNELS[role], words, handler, **facts)
        handler.__dict__.setdefault("routes", []).insert(0, made)  # decorators nearest to the function come first
        return handler

    return declare


def declared(*modules: ModuleType) -> tuple[Route, ...]:
    """Every route of the handlers of some modules, in the order in which they are written."""
    return tuple(
        made
        for module in modules
        for handler in vars(module).values()
        if getattr(handler, "__module__", None) == module.__name__
        for made in getattr(handler, "routes", ())
    )


Names = tuple[int, ...]
"""Where in a path names stand."""


class Router:
    """Finds the route of a request by method and path."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._by_length: dict[int, list[tuple[Callable[[Sequence[str]], Any], Names, dict[Any, dict[str, Route]]]]] = {}
        for one in routes:
            names = tuple(place for place, part in enumerate(one.parts) if part.startswith("{"))
            same = self._by_length.setdefault(len(one.parts), [])
            found = next((entry for entry in same if entry[1] == names), None)
            if found is None:
                words = itemgetter(*(place for place in range(len(one.parts)) if place not in names))
                same.append(found := (words, names, {}))
            found[2].setdefault(found[0](one.parts), {})[one.method] = one
        for same in self._by_length.values():
            same.sort(key=lambda entry: len(entry[1]))  # a word before a name

    def find(self, method: str, raw: bytes) -> tuple[Route, list[str]]:
        """The route of a request and the names in its path; refuses what is not served."""
        parts = raw.decode("latin-1").lstrip("/").split("/")
        served: set[str] = set()
        for words, names, known in self._by_length.get(len(parts), ()):
            methods = known.get(words(parts))
            if methods is not None:
                found = methods.get(method)
                if found is not None:
                    return found, [_name(parts[place]) for place in names]
                served |= set(methods)
        if served:
            allow = ", ".join(sorted(served))
            raise Refused(405, "method", "this method is not served here", {"allow": allow}, allowed=allow)
        raise Refused(404, "not-found", "there is nothing at this path", fix="see /openapi.json")


def loop_of(route: Route, names: Sequence[str]) -> str | None:
    """The loop that a path is about; ledgers are named after their loop unless they are shared."""
    return names[0] if names and ("{loop}" in route.path or "{ledger}" in route.path) else None


def _name(part: str) -> str:
    try:
        return unquote(part, errors="strict") if "%" in part else part
    except UnicodeDecodeError:
        raise Refused(400, "malformed", "the path is not UTF-8") from None


# OpenAPI -------------------------------------------------------------------------------------------------------------


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """The contract as OpenAPI 3.1."""
    models = sorted({route.body for route in routes if route.body is not None}, key=lambda model: model.__name__)
    _, definitions = models_json_schema(
        [(model, "validation") for model in models], ref_template="#/components/schemas/{model}"
    )
    schemas = {**definitions.get("$defs", {}), "Problem": _PROBLEM}
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "fairveil", "version": __version__, "description": "Private, fair decision loops."},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    names = re.findall(r"\{([a-z]+)\}", route.path)
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1, "maxLength": 200}}
        for name in names
    ]
    after = AFTER.get(route.path.rpartition("/")[2])
    if after is not None and route.method == "GET":
        parameters.append({"name": "after", "in": "query", "required": False, "schema": after})
    problems = {
        str(status): {
            "description": "refused",
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in COMMON
    }
    kind = "text/plain" if route.path == "/metrics" else "application/json"
    content: dict[str, Any] = {"content": {kind: {"schema": {}}}}
    done = {str(code): {"description": route.words, **({} if code == 204 else content)} for code in route.statuses}
    made: dict[str, Any] = {
        "operationId": f"{route.method.lower()}{re.sub('[^a-z]+', '_', route.path)}",
        "summary": route.words,
        "parameters": parameters,
        "responses": {**problems, **done},
    }
    if route.role == "none":
        made["security"] = []
    if route.body is not None:
        schema = {"$ref": f"#/components/schemas/{route.body.__name__}"}
        made["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return made


_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "path", "given", "allowed", "fix", "request"],
    "properties": {
        "type": {"type": "string", "enum": [f"/problems/{code}" for code in TITLES]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "path": {"type": "string"},
        "given": {"type": ["string", "null"]},
        "allowed": {"type": "string"},
        "fix": {"type": "string"},
        "request": {"type": "string"},
    },
}
