"""A request that came whole, and its answer: begun and ended by the event loop itself, without a task of its own.

Every decision and every reward comes so, from a client that sends head and body together. What waits for the writer is
a small object in the place of a future; what it needs of HTTP is one write. Whatever is anything else (a body in
parts, a loop that is not in memory, requests one behind the other) takes the way of all others: the same checks, the
same handlers, the same words.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from fairveil.service.messages import JSON, Answer, Headers, Scope

if TYPE_CHECKING:
    from fairveil.loop.tokens import Token
    from fairveil.service.app import Service
    from fairveil.service.door import Door
    from fairveil.service.hot import Queued


def _lines(headers: Headers) -> bytes:
    return b"".join(b"%s: %s\r\n" % pair for pair in headers)


_JSON_LINES = _lines(JSON)


class _Nobody:
    """What uvicorn tells when a connection ends; nobody waits for it here."""

    def set(self) -> None:
        pass


class Exchange:
    """One request at a door: what uvicorn asks of a request that is under way, and what a pump asks of a future."""

    __slots__ = (
        "asked", "began", "disconnected", "door", "keep_alive", "response_complete", "scope", "service", "template",
        "token",
    )  # fmt: skip
    message_event = _Nobody()
    token: Token
    template: str

    def __init__(self, door: Door, service: Service, scope: Scope, keep_alive: bool) -> None:
        self.door, self.service, self.scope, self.keep_alive = door, service, scope, keep_alive
        self.asked: Queued | None = None
        self.response_complete = self.disconnected = False
        self.began = time.perf_counter()

    def done(self) -> bool:
        return self.response_complete

    def set_result(self, result: None) -> None:
        """The last item is done."""
        try:
            assert self.asked is not None
            found = self.asked.answer()
        except Exception as error:  # of whatever kind: one request fails, with an answer, and nothing else
            self.set_exception(error)
        else:
            self._end(found, "")

    def set_exception(self, error: Exception) -> None:
        found, request = self.service.failed(error, self.scope)
        self._end(found, request)

    def _end(self, found: Answer, request: str) -> None:
        status, body, headers = found
        self.response_complete, self.asked = True, None  # the connection holds this until its next request
        door: Any = self.door
        if not door.transport.is_closing():
            lines = _JSON_LINES if headers is JSON else _lines(headers)
            door.answer(status, lines, body, self.keep_alive and b"connection: close\r\n" not in lines)
        self.service.told(self.scope, self.template, status, self.began, request, self.token)
