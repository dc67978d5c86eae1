"""One error shape over all routes: application/problem+json with a stable type."""

from __future__ import annotations

import json
import secrets
from typing import Any

from fairveil.errors import BudgetError, FairveilError, LedgerError
from fairveil.loop.problems import LoopError

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
        given = None if error.given is None else error.to_dict()["given"]
        facts = {"path": error.path, "given": given, "allowed": error.allowed, "fix": error.fix}
        return problem(status, code, error.problem, **facts)
    return problem(500, "internal", "an error that was not foreseen; the log has its kind")


def _kind(error: FairveilError) -> tuple[int, str]:
    if isinstance(error, LoopError):
        return error.status, error.code
    if isinstance(error, BudgetError):
        return 409, "budget"
    if isinstance(error, LedgerError):
        return 409, "ledger"
    return 422, "invalid"


def encode(table: dict[str, Any]) -> bytes:
    return json.dumps(table, separators=(",", ":")).encode()


RETRY = {503: "1", 429: "1"}
