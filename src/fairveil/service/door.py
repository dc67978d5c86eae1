"""What a connection may cost before its request is whole: headers, time, numbers. uvicorn has no such limits.

Headers: at most 64 KiB and 100 lines, complete within ten seconds, and so is what agrees on TLS before them. A body:
within thirty. A connection that is silent between requests is closed, and so is one whose client does not read. More
connections than allowed are refused.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from functools import cache
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from fairveil.errors import SpecError
from fairveil.service.hot import Exchange
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
POLITE = 32
"""Connections beyond those allowed that are told so over TLS, which costs; more are cut."""
SWEEP = 0.5
"""Seconds between two looks at all connections; one timer for all, because every request would pay for its own."""


class Flow:
    """What uvicorn asks about a connection whose client reads slowly: an event for those who wait, made for them."""

    __slots__ = ("_transport", "_writable", "read_paused", "write_paused")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._writable: asyncio.Event | None = None
        self.read_paused = self.write_paused = False

    async def drain(self) -> None:
        if self.write_paused:
            self._writable = self._writable or asyncio.Event()
            await self._writable.wait()

    def pause_reading(self) -> None:
        if not self.read_paused:
            self.read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self.read_paused:
            self.read_paused = False
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        self.write_paused = True

    def resume_writing(self) -> None:
        self.write_paused = False
        if self._writable is not None:
            self._writable.set()
            self._writable = None


class Door(HttpToolsProtocol):
    """One connection. There may be thousands that are silent: what only a request needs goes with it."""

    __slots__ = ("_began", "_begun", "_body", "_held", "_pipeline", "_read", "_refused", "_service", "_size", "_until",
                 "_whole")  # fmt: skip
    most = 4096
    """Connections of this process; set when the application is made."""

    def __init__(self, *given: Any, **more: Any) -> None:
        self._pipeline: deque[Any] | None = None
        super().__init__(*given, **more)
        self._until, self._size = 0.0, 0
        self._whole = True  # no request is on its way
        self._begun = False  # some of its headers are here
        self._began = 0  # requests that began in the bytes that are read now
        self._read = 0  # bytes since no request was on its way: no head can be larger
        self._refused = False
        self._held = False  # its head is here; whether all of it is, the bytes that are read now will tell
        self._body = b""
        served = getattr(self.app, "app", self.app)  # behind a proxy uvicorn stands between, for what no loop is asked
        self._service: Any = served if hasattr(served, "take") else None

    @property
    def pipeline(self) -> deque[Any]:
        """Requests behind one that is not answered."""
        if self._pipeline is None:
            self._pipeline = deque()
        return self._pipeline

    @pipeline.setter
    def pipeline(self, given: deque[Any]) -> None:
        """uvicorn makes one for every connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = Flow(transport)  # type: ignore[assignment]
        self._until = self.loop.time() + HEAD
        if len(self.connections) > self.most:
            self._refuse(503, "overloaded", "too many connections", allowed=f"{self.most} of this process")
        _keep_sweeping(self.server_state, self.loop)

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
        self._read = len(data) if fresh else self._read + len(data)
        super().data_received(data)
        if self._held:
            self._held = False
            if not self.transport.is_closing():
                self._start()
        if fresh and self._begun and self._began == 1:
            self._size = len(data)
        return None

    def on_message_begin(self) -> None:
        self._began += 1
        self._whole, self._begun, self._size = False, True, 0
        self._until = self.loop.time() + HEAD
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_headers_complete(self) -> None:
        self._begun = False
        self._until = self.loop.time() + BODY + CLOSING
        large = self._read > HEADERS and sum(len(name) + len(value) for name, value in self.headers) > HEADERS
        if large or len(self.headers) > LINES:
            return self._too_many()
        self._held, self._body = self._may_be_taken(), b""
        return None if self._held else self._start()

    def _may_be_taken(self) -> bool:
        """Whether this is a plain request for a loop, with nothing before it that is not answered."""
        url = self.url
        return (
            self._service is not None
            and url.startswith(b"/v1/loops/")
            and b"?" not in url
            and b"#" not in url
            and url.isascii()
            and (self.cycle is None or self.cycle.response_complete)
            and not self.expect_100_continue
            and not self.flow.write_paused
            and self.parser.get_method() == b"POST"
            and self.parser.get_http_version() == "1.1"
            and not self.parser.should_upgrade()
        )

    def _start(self) -> None:
        """The way of all requests: a task of uvicorn's, with what is here of the body."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)
        super().on_headers_complete()
        if self._body:
            super().on_body(self._body)

    def on_body(self, body: bytes) -> None:
        if self._held:
            self._body = self._body + body if self._body else body
        elif not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._refused:
            return
        self._whole, self._size = True, 0
        self._until = self.loop.time() + WHOLE
        if self._held:
            self._held, before = False, self.cycle
            scope = {"method": "POST", "raw_path": self.url, "headers": self.headers}
            self.cycle = taken = Exchange(self, self._service, scope, self.parser.should_keep_alive())  # type: ignore[assignment]
            if self._service.take(taken, self._body):
                self._body = b""  # a connection may be silent for long
                return
            self.cycle = before
            self._start()
        answered = self.cycle.response_complete
        super().on_message_complete()
        if answered:
            self._rest()

    def answer(self, status: int, lines: bytes, body: bytes, keep: bool) -> None:
        """The answer to a request that was taken, in one write."""
        end = b"" if keep else b"connection: close\r\n"
        self.transport.write(b"%s%s%scontent-length: %d\r\n\r\n%s" % (STATUS_LINE[status], lines, end, len(body), body))
        if not keep:
            self.transport.close()
        self.on_response_complete()

    def on_response_complete(self) -> None:
        """As uvicorn does, without a timer: a connection that is silent from here on is found by the sweep."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self._pipeline:
            self._start_asgi_task(*self._pipeline.pop())
        elif self._whole:
            self._rest()

    def _rest(self) -> None:
        """Nothing is under way: the last request is let go."""
        self._until = self.loop.time() + IDLE
        self.cycle = self.scope = self.headers = self._pipeline = None  # type: ignore[assignment]

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

    def send_400_response(self, msg: str) -> None:
        """What cannot be read at all. It is no answer to whatever came before it and is under way."""
        self._refuse(400, "malformed", "this is not HTTP", allowed="HTTP/1.1")

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


class Entrance(asyncio.Protocol):
    """A connection that has not agreed on TLS yet: counted and swept like any other. What comes too early waits."""

    def __init__(self, certificate: tuple[str, str | None], **given: Any) -> None:
        self._door, self._context = Door(**given), tls_context(*certificate)
        self._said, self._lost = list[bytes](), list[Exception | None]()
        self._early: bytes | None = b""
        self._state, self._until = self._door.server_state, 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        loop, known = self._door.loop, self._state.connections
        self._raw, self._until = transport, loop.time() + HEAD
        if len(known) >= Door.most + POLITE:
            return transport.abort()
        known.add(self)  # type: ignore[arg-type]
        _keep_sweeping(self._state, loop)
        self._task = loop.create_task(self._agree())
        return None

    async def _agree(self) -> None:
        early, self._early = self._early, None
        try:
            if self._raw.is_closing():
                return None
            if early:
                self._door.loop.call_soon(self._hand_over, early)  # to whom `start_tls` puts in its place, then waits
            secure: Any = await self._door.loop.start_tls(
                self._raw, self, self._context, server_side=True, ssl_handshake_timeout=2 * HEAD
            )
        except (OSError, EOFError):  # it went, spoke something else, or was cut by the sweep
            return self._raw.abort()
        finally:
            self._state.connections.discard(self)
        if self._raw.is_closing():  # whoever waits for TLS is told so too when the connection has gone
            return None
        secure.set_protocol(self._door)
        self._door.connection_made(secure)
        if self._said:
            self._door.data_received(b"".join(self._said))
        if self._lost:
            self._door.connection_lost(self._lost[0])
        return None

    def _hand_over(self, early: bytes) -> None:
        there: Any = self._raw.get_protocol()
        while early:
            place = there.get_buffer(len(early))
            count = min(len(early), len(place))
            place[:count], early = early[:count], early[count:]
            there.buffer_updated(count)

    def data_received(self, data: bytes) -> None:
        if self._early is None:
            self._said.append(data)
        else:
            self._early += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost.append(exc)

    def expire(self) -> None:
        self._raw.abort()

    shutdown = expire


@cache
def tls_context(certificate: str, key: str | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as problem:  # SSLError is one
        raise SpecError(
            "certificate and key cannot be used", path="--tls-cert", given=f"{type(problem).__name__}: {problem}",
            allowed="a chain of certificates and its key without a password, as PEM", fix="check both files",
        ) from None  # fmt: skip
    return context


def _keep_sweeping(state: Any, loop: asyncio.AbstractEventLoop) -> None:
    if not getattr(state, "swept", False):
        state.swept = True
        loop.call_later(SWEEP, _sweep, state, loop)


def _sweep(state: Any, loop: asyncio.AbstractEventLoop) -> None:
    now = loop.time()
    for connection in [one for one in state.connections if one._until < now]:
        connection.expire()
    if state.connections:
        loop.call_later(SWEEP, _sweep, state, loop)
    else:
        state.swept = False
