"""Reading requests and writing answers, on bare ASGI: the hot routes have no room for more."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from fairveil.loop.requests import invalid
from fairveil.service.problems import RETRY, Refused, encode, of_error

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
M = TypeVar("M", bound=BaseModel)
MAX_BODY, MAX_DEPTH, PATIENCE = 2**20, 16, 30.0
_JSON = (b"content-type", b"application/json")
_PROBLEM = (b"content-type", b"application/problem+json")
_SAFE = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
)
_MARK = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
"""Strings, also one that never ends, and brackets; possessive, so that a hostile body is read once."""


def header(scope: Scope, name: bytes) -> bytes | None:
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return None


async def read_body(scope: Scope, receive: Receive) -> bytes:
    """The whole body, at most 1 MiB, declared as JSON."""
    length = None
    kind = b""
    for key, value in scope["headers"]:
        if key == b"content-length":
            length = value
        elif key == b"content-type":
            kind = value
    if not kind.startswith(b"application/json"):
        raise Refused(415, "media-type", "the body is not declared as JSON", allowed="Content-Type: application/json")
    if length is not None and (not length.isdigit() or len(length) > 20 or int(length) > MAX_BODY):
        raise _too_large()
    try:
        async with asyncio.timeout(PATIENCE):
            message = await receive()
            body: bytes = message.get("body", b"")
            if message.get("more_body"):
                parts, size = [body], len(body)
                while message.get("more_body"):
                    message = await receive()
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > MAX_BODY:
                        raise _too_large()
                body = b"".join(parts)
    except TimeoutError:
        words = "the body did not arrive in time"
        raise Refused(400, "malformed", words, allowed=f"{PATIENCE:g} s", headers={"connection": "close"}) from None
    if message["type"] == "http.disconnect":
        raise Refused(400, "malformed", "the connection ended before the body did")
    if len(body) > MAX_BODY:
        raise _too_large()
    return body


def _too_large() -> Refused:
    return Refused(413, "too-large", "the body is too large", allowed="at most 1 MiB", headers={"connection": "close"})


def parse(kind: type[M], body: bytes) -> M:
    """A checked request; broken JSON and nesting that no route needs are malformed, the rest is invalid."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as problem:
        check_json(body)
        raise invalid(problem, kind) from None


def parse_table(body: bytes) -> dict[str, Any]:
    """An object whose keys are checked later."""
    table = check_json(body)
    if not isinstance(table, dict):
        raise Refused(422, "invalid", "the body is an object", allowed="{...}")
    return table


def check_json(body: bytes) -> Any:
    """Parsed JSON, or the refusal that says what is wrong with it."""
    depth = deepest = 0
    for mark in _MARK.finditer(body):
        first = mark[0][:1]
        if first in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif first in b"]}":
            depth -= 1
    if deepest > MAX_DEPTH:
        raise Refused(400, "malformed", "the JSON is nested too deeply", allowed=f"at most {MAX_DEPTH} levels")
    try:
        text = body.decode()
        table = json.loads(text, parse_constant=_no_constant)
        json.dumps(table, ensure_ascii=False).encode()  # a lone surrogate is no character
    except (ValueError, RecursionError):
        raise Refused(400, "malformed", "the body is not JSON", allowed="one JSON value in UTF-8") from None
    return table


def _no_constant(name: str) -> Any:
    raise ValueError(name)


async def answer(send: Send, status: int, body: bytes, *more: tuple[bytes, bytes]) -> None:
    headers = [_JSON, (b"content-length", str(len(body)).encode()), *_SAFE, *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def answer_error(send: Send, error: Exception, request: str = "") -> int:
    """The problem as an answer; gives its status."""
    table = of_error(error)
    if request:
        table["request"] = request
    status = int(table["status"])
    body = encode(table)
    headers = [_PROBLEM, (b"content-length", str(len(body)).encode()), *_SAFE]
    if status in RETRY:
        headers.append((b"retry-after", RETRY[status].encode()))
    for name, value in getattr(error, "headers", {}).items():
        headers.append((name.encode(), value.encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
    return status
