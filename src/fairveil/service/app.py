"""The service as an ASGI application: host, access, route, answer; ticks in the background."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from typing import Any

from fairveil.errors import FairveilError
from fairveil.loop.clock import SECOND, SystemClock, clock_state
from fairveil.loop.public import public_view
from fairveil.loop.store import Store
from fairveil.loop.tokens import Token
from fairveil.loop.warm import warm, warm_noise
from fairveil.privacy.ledger import Ledger
from fairveil.service.access import Gate
from fairveil.service.cold import Call, encode_answer
from fairveil.service.messages import Receive, Scope, Send, answer, answer_error, parse, read_body
from fairveil.service.metrics import Metrics
from fairveil.service.openapi import document
from fairveil.service.problems import Refused
from fairveil.service.pump import Pumps
from fairveil.service.routes import ROUTES, Route, find
from fairveil.service.settings import Settings

log = logging.getLogger("fairveil.service")
NOBODY = Token("none", "nobody", frozenset(), None)
TICK, SHORTEST = 1.0, 0.05
READY_FOR = 1.0
_MARK = "INSERT INTO meta (key, value) VALUES ('ready', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"


class Service:
    """One process of the service over one store."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store, self.settings = store, settings
        self.gate, self.pumps, self.metrics = Gate(store, settings), Pumps(), Metrics()
        self.document = document(ROUTES)
        self._stop = threading.Event()
        self._ticker: threading.Thread | None = None
        self._tick_problem: str | None = None
        self._verified, self._began = False, time.monotonic()
        self._ready: tuple[float, dict[str, Any]] = (0.0, {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)

    # Requests --------------------------------------------------------------------------------------------------------

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        template, token, request = "none", NOBODY, ""
        try:
            self.gate.check_host(scope)
            route, names = find(scope["method"], scope["raw_path"])
            template = route.path
            if route.role != "none":
                token = self.gate.check(scope, route.role, _loop_of(route, names))
            if route.hot:
                status = await route.handler(self, scope, receive, send, names)
            else:
                status = await self._cold(route, names, token, scope, receive, send)
        except Exception as error:  # of whatever kind: one request fails, with an answer, and nothing else
            request = secrets.token_hex(8)
            if not isinstance(error, Refused | FairveilError):
                log.error("request %s: %s", request, type(error).__name__)  # its words may be about a person
            status = await answer_error(send, error, request)
        taken = time.perf_counter() - began
        self.metrics.answered(template, status, taken)
        if log.isEnabledFor(logging.INFO):
            log.info("%s %s %d %.1fms %s %s", scope["method"], template, status, taken * 1e3, request or "-", token.id)

    async def _cold(
        self, route: Route, names: list[str], token: Token, scope: Scope, receive: Receive, send: Send
    ) -> int:
        body = None if route.body is None else parse(route.body, await read_body(scope, receive))
        call = Call(tuple(names), body, token, scope.get("query_string", b""))
        status, value = await asyncio.to_thread(self._call, route, call)
        if isinstance(value, bytes):
            await send(
                {
                    "type": "http.response.start",
                    "status": status,
                    "headers": [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")],
                }
            )
            await send({"type": "http.response.body", "body": value})
        elif value is None:
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await answer(send, status, encode_answer(value))
        return int(status)

    def _call(self, route: Route, call: Call) -> tuple[int, Any]:
        """Public handlers get a view of published data; the others the service."""
        if route.channel == "public":
            return route.handler(public_view(self.store, call.names[0] if call.names else None), call)
        return route.handler(self, call)

    # Operation -------------------------------------------------------------------------------------------------------

    def ledger(self, name: str) -> Ledger:
        """A ledger for looking at, whoever it belongs to."""
        for loop in self.store.loops():
            if (loop.facts.spec.budget.ledger or loop.name) == name:
                return loop.ledger
        return self.store.ledger(name)

    def readiness(self) -> dict[str, Any]:
        """Whether it can serve: the store takes a write, ledgers were looked at, time is not behind what is stored."""
        now = time.monotonic()
        if now - self._ready[0] > READY_FOR or not self._ready[1].get("ready"):
            self._ready = now, self._look()
        return self._ready[1]

    def _look(self) -> dict[str, Any]:
        table: dict[str, Any] = {"store": "writable", "clock": "unknown", "ledgers": "unknown"}
        now = self.store.clock.now()
        try:
            with self.store.writing() as tx:
                tx.execute(_MARK, (str(now),))
                [(latest,)] = tx.execute("SELECT max(clock) FROM loops")
                [(stopped,)] = tx.execute("SELECT count(*) FROM loops WHERE stopped IS NOT NULL")
        except FairveilError as problem:
            return {"ready": False, **table, "store": problem.code, "ticks": self._tick_problem or "well"}
        elapsed = now - self.store.started - round((time.monotonic() - self._began) * SECOND)
        table["clock"] = clock_state(now, latest, elapsed if isinstance(self.store.clock, SystemClock) else 0)
        table["ledgers"] = "verified" if self._verified else "not yet"
        ready = table["clock"] in ("sane", "ahead") and (self._verified or self._ticker is None)
        return {"ready": ready, **table, "ticks": self._tick_problem or "well", "learning_stopped": stopped}

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await asyncio.to_thread(self.start)
                await send({"type": "lifespan.startup.complete"})
            else:
                await asyncio.to_thread(self.stop)
                await send({"type": "lifespan.shutdown.complete"})
                return

    def start(self) -> None:
        """Make every loop ready, then start ticking."""
        warm_noise()
        for loop in self.store.loops():
            warm(loop.facts)
        self._ticker = threading.Thread(target=self._tick_on, name="ticker", daemon=True)
        self._ticker.start()

    def stop(self) -> None:
        """Finish what waits and stop; at most ten seconds."""
        self._stop.set()
        self.store.due.add()
        if self._ticker is not None:
            self._ticker.join(10)
        self.pumps.stop()

    def _tick_on(self) -> None:
        """Every loop once in a while; one whose block may be due at once, and again after a moment if it was not."""
        everything = time.monotonic()
        while not self._stop.is_set():
            woken = self.store.due.wait(max(everything - time.monotonic(), 0.0))
            whole, made = time.monotonic() >= everything, 0
            try:
                if not self._verified:
                    for loop in self.store.loops():
                        loop.verify()
                    self._verified = True
                made = self.store.tick(None if whole else woken)
                self.metrics.releases.inc(made)
                self._tick_problem = None
                if whole:
                    everything = time.monotonic() + self._pause()
            except Exception as problem:  # of whatever kind: it is tried again, and decisions go on
                self.metrics.failures.inc()
                self._tick_problem = getattr(problem, "code", type(problem).__name__)
                log.error("tick: %s", self._tick_problem)
                everything = time.monotonic() + TICK
            if not made:
                self._stop.wait(SHORTEST)

    def _pause(self) -> float:
        """Seconds from one tick of all loops to the next: one, or a tenth of the shortest window."""
        windows = [loop.facts.wait / SECOND for loop in self.store.loops()]
        return max(SHORTEST, min([TICK, *(window / 10 for window in windows)]))


def _loop_of(route: Route, names: list[str]) -> str | None:
    """The loop that a path is about; ledgers are named after their loop unless they are shared."""
    return names[0] if names and ("{loop}" in route.path or "{ledger}" in route.path) else None
