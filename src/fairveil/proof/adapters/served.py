"""The service in a process, asked without a socket, and everything that it says by channel.

Answers, errors (foreseen or not), logs, metrics, the trail, pages, event pages, reports, ledgers and what is stored:
what somebody else than a person can read of that person's requests. Two worlds that differ in what one person sends are
equal on every channel until a release; after it, at the price of the noise (`fairveil.proof.engine.replay`).
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from fairveil.loop.batch import Batch
from fairveil.loop.clock import ManualClock
from fairveil.loop.loop import Loop
from fairveil.loop.requests import Ask
from fairveil.loop.store import Store
from fairveil.proof.engine.replay import without_chance
from fairveil.proof.mutants import Method, method, twin
from fairveil.randomness import generator
from fairveil.service.app import PAGES, ROUTES, Service
from fairveil.service.settings import Settings

SPENT = re.compile(
    r"\b[0-9.]+ms\b|<code>[0-9a-f]{12}\b|20[0-9-]{8} [0-9:]{5} UTC|"
    r"^.*_(?:seconds_(?:bucket|sum)|created|commits).*$\n?",
    re.MULTILINE,
)
"""Times that requests took, in how many transactions, minutes of the wall clock, the first of a ledger's digests."""
PUBLIC_OF_EVENTS = "loop, key, round, decided, until, version, mode, queue, seat"
OF_OTHERS = "body, action, propensity, learn, reason, own, activated, reward, rewarded, context, erased"
STORED = ("blocks", "releases", "reports", "reporting", "budgets", "trail", "serving")
NAME = re.compile(r"\{(\w+)\}")
PATIENCE = 3600.0
T = TypeVar("T")
BROKEN = "BROKEN"
"""Instead of a method: the request is a decision that fails in a way that nobody foresaw."""


class Step(NamedTuple):
    """One request, or seconds that pass before the next tick (``WAIT``). ``own``: its answer is for one person.

    ``mine``: events of a batch whose part of the answer is for that person.
    """

    method: str
    path: str = ""
    body: Any = None
    own: bool = False
    mine: tuple[str, ...] = ()


def waited(seconds: int) -> Step:
    return Step("WAIT", body=seconds)


class Heard(logging.Handler):
    """What is logged, with its words."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@contextmanager
def equal_coins() -> Iterator[None]:
    """Every event has the same coins in both worlds: what differs then differs for another reason."""

    @twin
    def decided(original: Method, self: Batch, ask: Ask) -> Any:
        self.rng = generator(5, "coins", ask.event)
        return original(self, ask)

    with method(Batch, "_decided", decided):
        yield


class Patient(Service):
    """A service whose callers wait: a slow machine is no other answer."""

    async def aside(self, work: Callable[[], T], seconds: float | None = None) -> T:
        return await super().aside(work, PATIENCE)


class Served:
    """One service over one store."""

    def __init__(self, url: str) -> None:
        self.clock, self.heard = ManualClock(), Heard()
        self.store = Store.open(url, clock=self.clock, key=bytes(32))
        self.service, self.server = Patient(self.store, Settings(deadline=60.0)), asyncio.new_event_loop()
        self.answers: list[str] = []
        self.heads: list[str] = []

    @contextmanager
    def hearing(self) -> Iterator[None]:
        log = logging.getLogger("fairveil")
        level, passed = log.level, log.propagate
        log.addHandler(self.heard)
        log.setLevel(logging.DEBUG)
        log.propagate = False
        try:
            yield
        finally:
            log.removeHandler(self.heard)
            log.setLevel(level)
            log.propagate = passed

    def close(self) -> None:
        self.service.stop()
        self.store.close()
        self.server.close()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def call(self, verb: str, path: str, body: Any = None) -> tuple[int, str]:
        """The status and the text of an answer."""
        sent = b"" if body is None else json.dumps(body).encode()
        headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), (b"accept", b"*/*")]
        headers.append((b"content-length", str(len(sent)).encode()))
        scope = {"type": "http", "method": verb, "path": path, "raw_path": path.encode(), "query_string": b"",
                 "headers": headers, "client": ("127.0.0.1", 1), "scheme": "http"}  # fmt: skip
        status, parts = [0], list[bytes]()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": sent, "more_body": False}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                status[0] = message["status"]
                head = [pair for pair in message["headers"] if pair[0] != b"content-length"]  # that of the body
                self.heads.append(f"{path} {head}")
            else:
                parts.append(message.get("body", b""))

        self.server.run_until_complete(self.service(scope, receive, send))
        return status[0], b"".join(parts).decode()

    def run(self, steps: Sequence[Step]) -> None:
        with self.hearing():
            for step in steps:
                self._take(step)

    def _take(self, step: Step) -> None:
        if step.method == "WAIT":
            self.clock.advance(step.body)
            self.store.tick()
            return
        if step.method == BROKEN:
            with method(Loop, "decision", unforeseen), method(Loop, "reward_item", unforeseen):
                told = self.call("POST", step.path, step.body)
        else:
            told = self.call(step.method, step.path, step.body)
        if step.own:
            self.heads.pop()
        else:
            words = _of_others(told[1], step.mine) if told[0] == 200 else told[1]
            self.answers.append(f"{step.method} {step.path} {told[0]} {words}")

    def channels(self, loop: str, others: Sequence[str], own: Sequence[str] = ()) -> dict[str, str]:
        """Everything that is said about a loop. ``others``: events whose pages are read; ``own``: that person's."""
        with self.hearing():
            self.service.watch.once()
        said: dict[str, Any] = {"answers": self.answers, "log": self.heard.lines}
        names = {"loop": loop, "ledger": loop}
        for route in (*ROUTES, *PAGES):
            if route.method != "GET" or "{event}" in route.path or "{name}" in route.path:
                continue
            said[f"{route.role} {route.path}"] = self.call(
                "GET", NAME.sub(lambda found: names.get(found[1], "none"), route.path)
            )[1]
        keys = [self.store.keys.event(event) for event in own]
        export = "operate /v1/loops/{loop}/events"
        said[export] = [
            line for line in said[export].splitlines() if json.loads(line)["seq"] not in self._numbers(keys)
        ]
        said["event pages"] = [self.call("GET", f"/v1/loops/{loop}/decisions/{event}") for event in others]
        releases = json.loads(self.call("GET", f"/v1/loops/{loop}/releases")[1])["releases"]
        said["release pages"] = [self.call("GET", f"/loops/{loop}/releases/{one['id']}") for one in releases]
        said["stored"], said["heads"] = self._stored(loop, keys), self.heads
        return {name: SPENT.sub("*", without_chance(words)) for name, words in said.items()}

    def _numbers(self, own: Sequence[bytes]) -> set[int]:
        with self.store.reading() as tx:
            return {seq for seq, key in tx.execute("SELECT seq, key FROM events") if bytes(key) in own}

    def _stored(self, loop: str, own: Sequence[bytes]) -> list[Any]:
        """Rows of tables, with keyed hashes; of that person's events what is public alone."""
        id = self.store.loop(loop).facts.id
        with self.store.reading() as tx:
            events = tx.execute(
                f"SELECT key, {PUBLIC_OF_EVENTS}, {OF_OTHERS} FROM events WHERE loop = ? ORDER BY seq", (id,)
            )
            found: list[Any] = [row[:10] if bytes(row[0]) in own else row for row in events]
            for table in STORED:
                where = ("", ()) if table in ("trail", "budgets") else (" WHERE loop = ?", (id,))
                found.append(tx.execute(f"SELECT * FROM {table}{where[0]}", where[1]))
            found.append(
                tx.execute("SELECT place, decided, until, mode FROM places WHERE loop = ? ORDER BY place", (id,))
            )
        return [[_plain(cell) for cell in row] for row in found]


def _of_others(text: str, mine: Sequence[str]) -> str:
    """The answer to a batch without the parts of one person."""
    if not mine:
        return text
    return json.dumps({key: [one for one in held if one.get("event_id") not in mine]
                       for key, held in json.loads(text).items()})  # fmt: skip


def _plain(cell: Any) -> Any:
    if isinstance(cell, tuple):
        return [_plain(one) for one in cell]
    return "x" + bytes(cell).hex() if isinstance(cell, bytes | memoryview) else cell


@twin
def unforeseen(original: Method, self: Loop, *given: Any) -> Any:
    raise RuntimeError(f"unforeseen, about {given}")
