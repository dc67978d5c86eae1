"""Reading requests and writing answers, on bare ASGI: the hot routes have no room for more.

One error shape over all routes: application/problem+json with a stable type.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from fairveil.errors import BudgetError, FairveilError, LedgerError, LedgerTampered
from fairveil.loop.problems import LoopError, StorageFailed
from fairveil.loop.requests import invalid

TITLES = {
    "malformed": "The request cannot be read",
    "unauthenticated": "No valid token",
    "forbidden": "This token may not do that",
    "not-found": "There is nothing here",
    "method": "This method is not served here",
    "media-type": "The body is not JSON",
    "too-large": "The body is too large",
    "rate-limited": "Too many requests",
    "internal": "Something went wrong",
    "invalid": "The request does not fit",
    "event-reused": "The event id was used with another body",
    "subject-twice": "One person stands at several places",
    "out-of-range": "The reward is out of range",
    "unsound-policy": "This policy cannot serve people",
    "unknown-loop": "There is no such loop",
    "unknown-event": "There is no such event",
    "unknown": "There is no such thing",
    "reward-differs": "The event has another reward",
    "name-taken": "The name is taken",
    "budget": "The budget does not allow it",
    "forgotten": "The event is forgotten",
    "closed": "The loop is closed",
    "overlap": "The range overlaps one that is reported",
    "not-due": "The range is not settled",
    "not-kept": "What is asked for is not kept",
    "no-support": "The log cannot answer this",
    "says-nothing": "The answer would say nothing",
    "busy": "Another one is under way",
    "storage": "The store cannot be written",
    "overloaded": "Too many requests wait",
    "ledger": "The ledger refused",
}


class Refused(Exception):
    """A refusal that HTTP itself makes, before any loop is asked."""

    def __init__(
        self, status: int, code: str, detail: str, headers: dict[str, str] | None = None, **facts: str
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.facts, self.headers = status, code, detail, facts, headers or {}


def problem(status: int, code: str, detail: str, **facts: Any) -> dict[str, Any]:
    """The body of an error."""
    return {
        "type": f"/problems/{code}",
        "title": TITLES[code],
        "status": status,
        "detail": detail,
        "path": facts.get("path", ""),
        "given": facts.get("given"),
        "allowed": facts.get("allowed", ""),
        "fix": facts.get("fix", ""),
        "request": facts.get("request") or secrets.token_hex(8),
    }


def of_error(error: Exception) -> dict[str, Any]:
    """An error of the library, of a loop or of HTTP as a problem. ``given`` is what an operator wrote, never a value
    that came from a person: requests about people are refused by errors that do not repeat them."""
    if isinstance(error, Refused):
        return problem(error.status, error.code, error.detail, **error.facts)
    if isinstance(error, FairveilError):
        status, code = _kind(error)
        if _is_about_the_house(error, status):
            fix = error.fix if isinstance(error, StorageFailed) else "the log of the service has the details"
            return problem(status, code, error.problem, path="store", fix=fix)
        given = None if error.given is None else error.to_dict()["given"]
        facts = {"path": error.path, "given": given, "allowed": error.allowed, "fix": error.fix}
        return problem(status, code, error.problem, **facts)
    return problem(500, "internal", "an error that was not foreseen; the log has its kind")


def _kind(error: FairveilError) -> tuple[int, str]:
    if isinstance(error, LoopError):
        return error.status, error.code
    if isinstance(error, BudgetError):
        return 409, "budget"
    if is_ledger_failure(error):
        return 503, "storage"
    if isinstance(error, LedgerError):
        return 409, "ledger"
    return 422, "invalid"


def is_ledger_failure(error: Exception) -> bool:
    """Whether a ledger could not be written because its disk or server did not do its part."""
    cause = error.__cause__
    known = isinstance(error, LedgerError) and not isinstance(error, LedgerTampered)
    return known and cause is not None and not isinstance(cause, FairveilError)


def _is_about_the_house(error: FairveilError, status: int) -> bool:
    """Whether an error speaks of files, addresses or words of a driver: these are for the operator's log alone."""
    return status == 503 or (isinstance(error, LedgerError) and ("/" in error.path or "/" in error.fix))


def encode(table: dict[str, Any]) -> bytes:
    return json.dumps(table, separators=(",", ":")).encode()


RETRY = {503: "1", 429: "1"}


Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
M = TypeVar("M", bound=BaseModel)
MAX_BODY, MAX_DEPTH, PATIENCE = 2**20, 16, 30.0
LATE = "the body did not arrive in time"
_PROBLEM = (b"content-type", b"application/problem+json")
SAFE = (
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


def check_declared(scope: Scope, declared: str = "application/json") -> None:
    """Refuse a body that is not declared as JSON or as what is given, and one that is declared as too large."""
    length = None
    kind = b""
    for key, value in scope["headers"]:
        if key == b"content-length":
            length = value
        elif key == b"content-type":
            kind = value
    if (kind != b"application/json" or declared != "application/json") and not _is(kind, declared):
        words = "JSON" if declared == "application/json" else "a form"
        allowed = f"Content-Type: {declared}, in UTF-8"
        raise Refused(415, "media-type", f"the body is not declared as {words}", allowed=allowed)
    if length is not None and (not length.isdigit() or len(length) > 20 or int(length) > MAX_BODY):
        raise _too_large()


async def read_body(scope: Scope, receive: Receive, declared: str = "application/json") -> bytes:
    """The whole body, at most 1 MiB, declared as JSON or as what is given."""
    check_declared(scope, declared)
    task = asyncio.current_task()
    assert task is not None
    late = asyncio.get_running_loop().call_later(PATIENCE, task.cancel, LATE)  # a fifth of what asyncio.timeout costs
    try:
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
    except asyncio.CancelledError as problem:
        if problem.args != (LATE,):
            raise
        task.uncancel()
        raise Refused(400, "malformed", LATE, allowed=f"{PATIENCE:g} s", headers={"connection": "close"}) from None
    finally:
        late.cancel()
    if message["type"] == "http.disconnect":
        raise Refused(400, "malformed", "the connection ended before the body did")
    if len(body) > MAX_BODY:
        raise _too_large()
    return body


def _is(kind: bytes, declared: str) -> bool:
    """The media type in any case, with whatever parameters; a charset must be UTF-8, as JSON is."""
    media, *parameters = kind.decode("latin-1").lower().split(";")
    named = dict(part.strip().partition("=")[::2] for part in parameters)
    return media.strip() == declared and named.get("charset", "utf-8").strip('"') in ("utf-8", "utf8")


def _too_large() -> Refused:
    return Refused(413, "too-large", "the body is too large", allowed="at most 1 MiB", headers={"connection": "close"})


def parse(kind: type[M], body: bytes) -> M:
    """A checked request; broken JSON and nesting that no route needs are malformed, the rest is invalid."""
    try:
        made = kind.model_validate_json(body)
    except ValidationError as problem:
        check_json(body)
        raise invalid(problem, kind) from None
    if body.count(b":") != _keys(made):  # a colon in a string, or a key that is there twice
        check_json(body)
    return made


def _keys(made: BaseModel) -> int:
    """The keys of a request as it was understood, each counted once; fewer where it holds tables of another kind."""
    found = len(made.model_fields_set)
    for value in made.__dict__.values():
        if type(value) is list and value and isinstance(value[0], BaseModel):
            found += sum(map(_keys, value))
    return found


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
        table = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_once)
        json.dumps(table, ensure_ascii=False).encode()  # a lone surrogate is no character
    except _Twice:
        raise Refused(400, "malformed", "an object has a key twice", allowed="every key once") from None
    except (ValueError, RecursionError):
        raise Refused(400, "malformed", "the body is not JSON", allowed="one JSON value in UTF-8") from None
    return table


class _Twice(Exception):
    """Two readers of such an object may understand different things."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise _Twice
    return table


def _no_constant(name: str) -> Any:
    raise ValueError(name)


Headers = tuple[tuple[bytes, bytes], ...]
Answer = tuple[int, bytes, Headers]
"""Status, body, and what stands in the head beside the length of the body."""
JSON: Headers = ((b"content-type", b"application/json"), *SAFE)


async def answer(send: Send, status: int, body: bytes, headers: Headers = JSON) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})


def refusal(error: Exception, request: str = "") -> Answer:
    """An error as an answer."""
    table = of_error(error)
    if request:
        table["request"] = request
    status = int(table["status"])
    retry = ((b"retry-after", RETRY[status].encode()),) if status in RETRY else ()
    own = error.headers.items() if isinstance(error, Refused) else ()
    return status, encode(table), (_PROBLEM, *SAFE, *retry, *((name.encode(), value.encode()) for name, value in own))
