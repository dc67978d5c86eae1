"""The contract as OpenAPI 3.1, made from the table of routes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import models_json_schema

from fairveil._version import __version__
from fairveil.service.problems import TITLES

if TYPE_CHECKING:
    from fairveil.service.routes import Route

COMMON = (400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 429, 503)


def document(routes: Sequence[Route]) -> dict[str, Any]:
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
    if route.path.endswith(("/entries", "/trail")):
        whole = {"type": "integer", "minimum": -1}
        parameters.append({"name": "after", "in": "query", "required": False, "schema": whole})
    problems = {
        str(status): {
            "description": "refused",
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in COMMON
    }
    kind = "text/plain" if route.path == "/metrics" else "application/json"
    done: dict[str, Any] = {}
    for status in route.statuses:
        empty = status in (204, 422)
        done[str(status)] = {"description": route.words} | ({} if empty else {"content": {kind: {"schema": {}}}})
    made: dict[str, Any] = {
        "operationId": f"{route.method.lower()}{re.sub('[^a-z]+', '_', route.path)}",
        "summary": route.words,
        "parameters": parameters,
        "responses": {**problems, **{code: table for code, table in done.items() if code not in ("422", "503")}},
    }
    if "503" in done:
        made["responses"]["503"] = {**done["503"], "content": {"application/json": {"schema": {}}}}
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
