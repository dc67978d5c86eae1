"""What a connection may cost before its request is whole: headers, time, numbers. uvicorn has no such limits.

Headers: at most 64 KiB and 100 lines, complete within ten seconds. A body: within thirty. A connection that is silent
between requests is closed, and so is one whose client does not read. More connections than allowed are refused.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from fairveil.service.messages import encode, problem

HEADERS, LINES = 2**16, 100
"""Bytes and lines of the headers of a request."""
MESSAGE = 2**23
"""Bytes of a whole request as it travels: a body of 1 MiB in the smallest useful chunks, and no more."""
HEAD, BODY, WHOLE = 10.0, 30.0, 100.0
"""Seconds for the headers, then for the body, then for the answer."""
IDLE = 30
"""Seconds between two requests of a connection."""
CLOSING = 2.0
"""Seconds to take the last answer before the connection is cut."""
LEAVING = 0.5
"""Seconds to take an answer when the service stops."""
SWEEP = 0.5
"""Seconds between two looks at all connections; one timer for all, because every request would pay for its own."""


class Door(HttpToolsProtocol):
    """One connection."""

    most = 4096
    """Connections of this process; set when the application is made."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._until, self._size = 0.0, 0
        self._whole = True  # no request is on its way
        self._begun = False  # some of its headers are here
        self._began = 0  # requests that began in the bytes that are read now
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._until = self.loop.time() + HEAD
        if len(self.connections) > self.most:
            self._refuse(503, "overloaded", "too many connections", allowed=f"{self.most} of this process")
        if not getattr(self.server_state, "swept", False):
            self.server_state.swept = True  # type: ignore[attr-defined]
            self.loop.call_later(SWEEP, _sweep, self.server_state, self.loop)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return None
        if self._whole or self._begun:
            left = HEADERS - (self._size if self._begun else 0)
            if len(data) > left and data.find(b"\r\n\r\n", 0, left + 4) < 0:
                return self._too_many()
        self._size += len(data)
        if self._size > MESSAGE:
            return self._refuse(413, "too-large", "the request is too large", allowed="a body of at most 1 MiB")
        fresh, self._began = self._whole, 0
        super().data_received(data)
        if fresh and self._begun and self._began == 1:
            self._size = len(data)
        return None

    def on_message_begin(self) -> None:
        self._began += 1
        self._whole, self._begun, self._size = False, True, 0
        self._until = self.loop.time() + HEAD
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._begun = False
        self._until = self.loop.time() + BODY + CLOSING
        if len(self.headers) > LINES or sum(len(name) + len(value) for name, value in self.headers) > HEADERS:
            return self._too_many()
        super().on_headers_complete()
        return None

    def on_body(self, body: bytes) -> None:
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._refused:
            self._whole, self._size = True, 0
            self._until = self.loop.time() + (IDLE + CLOSING if self.cycle.response_complete else WHOLE)
            super().on_message_complete()

    def on_response_complete(self) -> None:
        if self._whole and not self.pipeline:
            self._until = self.loop.time() + IDLE + CLOSING
        super().on_response_complete()

    def shutdown(self) -> None:
        """What has not come whole has begun nothing: its caller repeats it."""
        if self._whole:
            super().shutdown()
        else:
            self.transport.close()
        self.loop.call_later(LEAVING, self.transport.abort)  # TLS would wait for a word of goodbye

    def expire(self) -> None:
        """Time is over: an answer where one can be given, then the end, and the cut if even that is not taken."""
        if self.transport.is_closing():
            self.transport.abort()
        elif self._begun:
            self._refuse(408, "malformed", "the headers did not arrive in time", allowed=f"{HEAD:g} s")
        else:
            self._until = self.loop.time() + CLOSING
            self.transport.close()

    def _too_many(self) -> None:
        self._refuse(431, "too-large", "the headers are too large", allowed=f"{HEADERS // 1024} KiB and {LINES} lines")

    def _refuse(self, status: int, code: str, words: str, **facts: str) -> None:
        """Answer, unless another answer is under way, and close."""
        self._refused = True
        self._until = self.loop.time() + CLOSING
        if self.cycle is None or self.cycle.response_complete:
            body = encode(problem(status, code, words, **facts))
            retry = b"retry-after: 1\r\n" if status == 503 else b""
            self.transport.write(
                b"%scontent-type: application/problem+json\r\ncontent-length: %d\r\n%sconnection: close\r\n\r\n%s"
                % (STATUS_LINE[status], len(body), retry, body)
            )
        self.transport.close()


def _sweep(state: Any, loop: asyncio.AbstractEventLoop) -> None:
    now = loop.time()
    for connection in [one for one in state.connections if one._until < now]:
        connection.expire()
    if state.connections:
        loop.call_later(SWEEP, _sweep, state, loop)
    else:
        state.swept = False
