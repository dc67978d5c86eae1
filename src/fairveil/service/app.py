"""The service as an ASGI application: host, access, route, answer; looks and ticks in the background.

The event loop asks no database and takes no lock that somebody may hold for long: writing threads take decisions and
rewards, a few others what operators ask for, and nobody waits for either longer than a deadline.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from fairveil.errors import FairveilError, LedgerError
from fairveil.ledger import Ledger
from fairveil.loop.audits import Auditor
from fairveil.loop.loop import Loop
from fairveil.loop.play import warm, warm_noise
from fairveil.loop.problems import EventReused, RewardDiffers, StorageFailed
from fairveil.loop.storage import Transaction, note, ready_mark
from fairveil.loop.store import Store
from fairveil.loop.tokens import Token
from fairveil.service import cold, hot
from fairveil.service.access import FRESH, Gate
from fairveil.service.cold import Attachment, Request, encode_answer
from fairveil.service.hot import Exchange
from fairveil.service.messages import (
    SAFE,
    Answer,
    Receive,
    Refused,
    Scope,
    Send,
    answer,
    check_declared,
    is_ledger_failure,
    parse,
    read_body,
    refusal,
)
from fairveil.service.metrics import Metrics, trace_of, tracing
from fairveil.service.pages import PAGES
from fairveil.service.pages.site import Site, wants_page
from fairveil.service.pumps import Pumps, Threads
from fairveil.service.routes import Route, Router, declared, document, loop_of
from fairveil.service.settings import Settings
from fairveil.service.watch import Watch, no_answer

ROUTES = declared(hot, cold)
ROUTER = Router((*ROUTES, *PAGES))
log = logging.getLogger("fairveil.service")
NOBODY = Token("none", "nobody", frozenset(), None)
TICK, SHORTEST = 1.0, 0.05
ROOM = 2**18
"""Bytes without which a store is full, although a look alone would fit."""
COLD_THREADS = 8
"""Threads for all that is not decided or rewarded."""
ASK = 30.0
"""Seconds after which a look asks all loops for their last moment again."""
STOPPING = 0.6
"""Seconds to finish what waits when the service stops."""
TOLD = "told"
"""In the scope of a request: the status that stands in metrics, traces and the log where that is not its answer's."""
T = TypeVar("T")


class Service:
    """One process of the service over one store."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store, self.settings = store, settings
        self.gate, self.metrics = Gate(store, settings), Metrics()
        self.watch = Watch(self._look, self.gate.renew)
        self.pumps, self.threads = Pumps(self.watch, settings.deadline), Threads("cold", COLD_THREADS)
        self.pumps.timed = self.metrics.commit.observe
        self.document, self.auditor = document(ROUTES), Auditor(store)
        self.traced = tracing(os.environ)
        self.site = Site(self, ROUTER)
        self._stop = threading.Event()
        self._ticker: threading.Thread | None = None
        self._tick_problem: str | None = None
        self._said: str | None = None
        self._noted = (0.0, "")
        self._looked = False
        self._asked: tuple[float, int | None] = (float("-inf"), None)

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
            route, names = ROUTER.find(scope["method"], scope["raw_path"])
            template = route.path
            if (route.page or route.role != "none") and not self.watch.running and self.gate.age > FRESH:
                await self.aside(self.gate.renew)  # without a lifespan nobody looks beside requests
            if route.page:
                status, token = await self.site.answer(route, names, scope, receive, send)
            elif route.role != "none":
                token = self.gate.check(scope, route.role, loop_of(route, names), route.path)
            if route.queued:
                loop = await self.loop(names[0])
                asked = route.handler(self, loop, names, b"" if route.body is None else await read_body(scope, receive))
                if asked.items:
                    await self.pumps.run(loop, asked.items)
                status, body, headers = asked.answer()
                await answer(send, status, body, headers)
            elif route.hot:
                status = await route.handler(self, scope, receive, send, names)
            elif not route.page:
                status = await self._cold(route, names, token, scope, receive, send)
        except asyncio.CancelledError:  # only the end of the service cancels a request
            status, body, headers = refusal(no_answer())
            await answer(send, status, body, headers)
        except Exception as error:  # of whatever kind: one request fails, with an answer, and nothing else
            (status, body, headers), request = self.failed(error, scope)
            if isinstance(error, Refused) and error.code == "not-found" and wants_page(scope):
                status = await self.site.refuse(error, scope, send)
            else:
                await answer(send, status, body, headers)
        self.told(scope, template, status, began, request, token)

    def take(self, exchange: Exchange, body: bytes) -> bool:
        """Begin a request that came whole; False, and nothing is done, where it must take the way of the others."""
        scope = exchange.scope
        try:
            route, names = ROUTER.find(scope["method"], scope["raw_path"])
        except Refused:
            return False
        loop = self.store.memory.known(names[0]) if route.queued else None
        if loop is None or not self.watch.running:
            return False
        exchange.template, exchange.token = route.path, NOBODY
        try:
            self.gate.check_host(scope)
            exchange.token = self.gate.check(scope, route.role, names[0], route.path)
            if route.body is not None:
                check_declared(scope)
            exchange.asked = asked = route.handler(self, loop, names, body)
            if asked.items:
                self.pumps.put(loop, asked.items, exchange)
            else:
                exchange.set_result(None)
        except Exception as error:  # of whatever kind: one request fails, with an answer, and nothing else
            exchange.set_exception(error)
        return True

    def failed(self, error: Exception, scope: Scope) -> tuple[Answer, str]:
        """The answer to a request that failed, and the id under which the log has it."""
        request = trace_of(scope) or secrets.token_hex(8)
        if isinstance(error, EventReused | RewardDiffers):  # what an event has already is for its sender alone
            scope[TOLD] = 200
        if not isinstance(error, Refused | FairveilError):
            log.error("request %s: %s", request, type(error).__name__)  # its words may be about a person
        self.note(error, request)
        return refusal(error, request), request

    def told(self, scope: Scope, template: str, status: int, began: float, request: str, token: Token) -> None:
        """An answer was given: metrics, traces, log."""
        taken = time.perf_counter() - began
        status, request = (scope[TOLD], "") if TOLD in scope else (status, request)
        self.metrics.routes.add(template, status, taken)
        if self.traced is not None:
            self.traced(scope, template, status, taken)
        if log.isEnabledFor(logging.INFO):
            request = request or trace_of(scope) or "-"
            log.info("%s %s %d %.1fms %s %s", scope["method"], template, status, taken * 1e3, request, token.id)

    async def _cold(
        self, route: Route, names: list[str], token: Token, scope: Scope, receive: Receive, send: Send
    ) -> int:
        body = None if route.body is None else parse(route.body, await read_body(scope, receive))
        call = Request(tuple(names), body, token, scope.get("query_string", b""))
        self.watch.check()
        status, value = await self.aside(lambda: self._call(route, call), max(route.deadline, self.settings.deadline))
        if isinstance(value, bytes | Attachment):
            kind = b"text/plain; version=0.0.4; charset=utf-8" if isinstance(value, bytes) else value.media
            data = value if isinstance(value, bytes) else value.data
            await answer(send, status, data, ((b"content-type", kind), *SAFE))
        elif value is None:
            await send({"type": "http.response.start", "status": status, "headers": SAFE})
            await send({"type": "http.response.body", "body": b""})
        else:
            await answer(send, status, encode_answer(value))
        return int(status)

    def _call(self, route: Route, call: Request) -> tuple[int, Any]:
        """Public handlers get a view of published data; the others the service."""
        if route.channel == "public":
            return route.handler(call.view(self.store, route.path, self.settings.streams), call)
        return route.handler(self, call)

    async def loop(self, name: str) -> Loop:
        """A loop; one that is not in memory is read in another thread."""
        known = self.store.memory.known(name)
        return known if known is not None else await self.aside(lambda: self.store.loop(name))

    async def aside(self, work: Callable[[], T], seconds: float | None = None) -> T:
        """The result of work in another thread. After the deadline: 503, and the work goes on to its end."""
        server, limit = asyncio.get_running_loop(), seconds or self.settings.deadline
        future: asyncio.Future[T] = server.create_future()

        def done(result: Any, problem: Exception | None) -> None:
            if not future.done():
                future.set_result(result) if problem is None else future.set_exception(problem)

        def run() -> None:
            try:
                result, problem = work(), None
            except Exception as caught:  # of whatever kind: raised again where the request waits
                result, problem = None, caught
            server.call_soon_threadsafe(done, result, problem)

        self.threads.submit(run)
        try:
            async with asyncio.timeout(limit):
                return await future
        except TimeoutError:
            self.watch.missed()
            raise no_answer(limit) from None

    # Operation -------------------------------------------------------------------------------------------------------

    def ledger(self, name: str) -> Ledger:
        """A ledger for looking at, whoever it belongs to."""
        found = self.store.read("SELECT name FROM loops WHERE ledger = ? LIMIT 1", (name,))
        return self.store.loop(found[0][0]).ledger if found else self.store.ledger(name)

    def _look(self) -> dict[str, Any]:
        """Whether it can serve: the store takes a write, ledgers were looked at, time is not behind what is stored."""
        now = self.store.clock.now()
        self._check_space()
        with self.store.writing() as tx:
            latest = self._latest(tx)
            note(tx, "ready", str(now) + " " * (ROOM if self.watch.doubtful else 0))
            [(stopped,)] = tx.execute("SELECT count(*) FROM loops WHERE stopped IS NOT NULL")
            [(failed,)] = tx.execute("SELECT count(*) FROM loops WHERE stopped = 'ledger'")
        clock = self.store.clock.state(latest)
        ready = clock == "sane" and not failed
        unchecked = self.store.unchecked
        ledgers = "verified" if self._looked and not unchecked else "not yet"
        table = {
            "store": "writable",
            "clock": clock,
            "ledgers": "failed" if failed else ledgers,
            "anchors": self.store.anchoring,
        }
        return {
            "ready": ready,
            **table,
            "unchecked": unchecked,
            "ticks": self._tick_problem or "well",
            "learning_stopped": stopped,
        }

    def _latest(self, tx: Transaction) -> int | None:
        """The last moment that is stored. All loops are asked once in a while, or while the answer is in doubt; between
        that, what the process that looked last wrote: one whose clock is ahead writes it there too."""
        marked, now = ready_mark(tx), time.monotonic()
        if now - self._asked[0] >= ASK or self.store.clock.state(self._asked[1]) != "sane":
            [(latest,)] = tx.execute("SELECT max(clock) FROM loops")
            self._asked = now, latest
        return max((one for one in (marked, self._asked[1]) if one is not None), default=None)

    def _check_space(self) -> None:
        """A disk that takes one more row may take no decision any more."""
        path = self.store.driver.path
        if path is not None:
            disk = os.statvfs(path.parent)
            if disk.f_bavail * disk.f_frsize < ROOM:
                raise self.store.driver.explain(OSError(errno.ENOSPC, "no space left"))

    def note(self, error: Exception, request: str = "-") -> None:
        """What the caller is not told, for the operator's log: files, addresses and words of the database."""
        if isinstance(error, LedgerError) or (isinstance(error, StorageFailed) and error.kind != "storage"):
            full = isinstance(error, StorageFailed) and error.kind == "full"
            self.watch.doubtful |= full or is_ledger_failure(error)
            now, words = time.monotonic(), str(error)
            if words != self._noted[1] or now - self._noted[0] > 1.0:  # one outage is one line a second
                self._noted = now, words
                log.error("request %s: %s", request, words)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await asyncio.to_thread(self.start)
                gc.freeze()  # what is here now stays: no collection needs to look at it again
                await send({"type": "lifespan.startup.complete"})
            else:
                await asyncio.to_thread(self.stop)
                await send({"type": "lifespan.shutdown.complete"})
                return

    def start(self) -> None:
        """Make every loop ready, then start ticking."""
        self.store.serve_first()
        warm_noise()
        for name in self.store.kinds():
            warm(self.store.loop(name).facts)
        self._ticker = threading.Thread(target=self._tick_on, name="ticker", daemon=True)
        self._ticker.start()
        self.watch.start()

    def stop(self) -> None:
        """Finish what waits and stop; in less than two seconds, also where the store does not answer."""
        self._stop.set()
        self.store.due.add()
        self.watch.stop()
        self.auditor.stop()
        self.pumps.stop(STOPPING)
        self.threads.stop(0.1)
        if self._ticker is not None:
            self._ticker.join(0.3)

    def _tick_on(self) -> None:
        """Every loop once in a while; one whose block may be due at once, and again after a moment if it was not."""
        everything = time.monotonic()
        while not self._stop.is_set():
            woken = self.store.due.wait(max(everything - time.monotonic(), 0.0))
            whole, made = time.monotonic() >= everything, 0
            try:
                made = self.store.tick(None if whole else woken)
                self._looked |= whole
                self.metrics.releases.inc(made)
                self._tick_problem = None
                self._say_why_learning_stopped()
                if whole:
                    everything = time.monotonic() + self._pause()
            except Exception as problem:  # of whatever kind: it is tried again, and decisions go on
                self.metrics.failures.inc()
                self.note(problem, "tick")
                self._tick_problem = problem.code if isinstance(problem, FairveilError) else type(problem).__name__
                log.error("tick: %s", self._tick_problem)
                everything = time.monotonic() + TICK
            if not made:
                self._stop.wait(SHORTEST)

    def _say_why_learning_stopped(self) -> None:
        """Once a reason, with the command that helps: it is about files of the operator, never about a person."""
        if self.store.last_problem not in (None, self._said):
            self._said = self.store.last_problem
            log.error("learning stopped: %s", self._said)

    def _pause(self) -> float:
        """Seconds from one tick of all loops to the next: one, or less where something is due before that."""
        return max(SHORTEST, min(TICK, self.store.ticks.next()))
