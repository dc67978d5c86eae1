"""The routes that every decision and every reward takes: parsed, checked, queued, answered, and nothing else.

A handler makes items for the writer of a loop and says what the answer is once they are done; it neither waits nor
writes. A request that came whole, as from a client that sends head and body together, is begun and ended by the event
loop itself, without a task of its own (`Exchange`): what waits for the writer is a small object in the place of a
future; what it needs of HTTP is one write. Whatever is anything else (a body in parts, a loop that is not in memory,
requests one behind the other) takes the way of all others: the same checks, the same handlers, the same words.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fairveil.loop.events import Reply, RewardReply
from fairveil.loop.loop import Loop
from fairveil.loop.problems import EventReused, RewardDiffers
from fairveil.loop.requests import DecisionRequest, DecisionsRequest, RewardRequest, RewardsRequest
from fairveil.loop.writer import Item
from fairveil.service.messages import JSON, Answer, Headers, Receive, Scope, Send, answer, encode, of_error, parse
from fairveil.service.routes import EVENT, LOOP, route

if TYPE_CHECKING:
    from fairveil.loop.tokens import Token
    from fairveil.service.app import Service
    from fairveil.service.door import Door

REPLAYED = (*JSON, (b"idempotent-replayed", b"true"))
_ALIVE = b'{"status":"alive"}'
_SIMULATED = ',"simulated":true'
_quoted = json.encoder.encode_basestring_ascii


class Queued(NamedTuple):
    """Items that wait for the writer, none where all were refused before; and the answer when the last is done."""

    items: list[Item]
    answer: Callable[[], Answer]


@route(
    "POST", f"{LOOP}/decisions", "decide", "ask for a decision", body=DecisionRequest, statuses=(201, 200), queued=True
)
def decide(service: Service, loop: Loop, names: Sequence[str], body: bytes) -> Queued:
    asked = parse(DecisionRequest, body)
    item = loop.decision(asked)

    def answer() -> Answer:
        reply: Reply = _named(item, asked.event_id).outcome()
        return (200, reply_bytes(reply), REPLAYED) if reply.replayed else (201, reply_bytes(reply), JSON)

    return Queued([item], answer)


@route("POST", f"{EVENT}/reward", "decide", "what came of an event", body=RewardRequest, queued=True)
def reward(service: Service, loop: Loop, names: Sequence[str], body: bytes) -> Queued:
    value = parse(RewardRequest, body).value
    item = loop.reward_item(names[1], value)
    return Queued([item], lambda: (200, encode(_taken(loop, value, _named(item, names[1]).outcome())), JSON))


@route("POST", f"{LOOP}/decisions/batch", "decide", "many decisions", body=DecisionsRequest, queued=True)
def decide_batch(service: Service, loop: Loop, names: Sequence[str], body: bytes) -> Queued:
    asked = parse(DecisionsRequest, body).decisions
    items = [loop.item(request) for request in asked]

    def answer() -> Answer:
        _noted(service, items)
        for item, one in zip(items, asked, strict=True):
            _named(item, one.event_id)
        parts = [reply_bytes(item.result) if item.error is None else encode(of_error(item.error)) for item in items]
        return 200, b'{"decisions":[' + b",".join(parts) + b"]}", JSON

    return Queued([item for item in items if not item.done], answer)


@route("POST", f"{LOOP}/rewards/batch", "decide", "many rewards", body=RewardsRequest, queued=True)
def reward_batch(service: Service, loop: Loop, names: Sequence[str], body: bytes) -> Queued:
    asked = parse(RewardsRequest, body).rewards
    items = [loop.reward_item(one.event_id, one.value) for one in asked]

    def answer() -> Answer:
        _noted(service, items)
        parts = []
        for item, one in zip(items, asked, strict=True):
            problem = _named(item, one.event_id).error
            parts.append(_taken(loop, one.value, item.result) if problem is None else of_error(problem))
        return 200, encode({"rewards": parts}), JSON

    return Queued(items, answer)


@route("POST", f"{EVENT}/activate", "decide", "a deferred decision was shown", queued=True)
def activate(service: Service, loop: Loop, names: Sequence[str], body: bytes) -> Queued:
    item = loop.activation(names[1])
    return Queued([item], lambda: (200, encode({"event_id": names[1], "activated": bool(item.outcome())}), JSON))


@route("GET", "/health", "none", "the process lives", hot=True)
async def health(service: Service, scope: Scope, receive: Receive, send: Send, names: Sequence[str]) -> int:
    await answer(send, 200, _ALIVE)
    return 200


@route("GET", "/ready", "none", "it can serve", statuses=(200, 503), hot=True)
async def ready(service: Service, scope: Scope, receive: Receive, send: Send, names: Sequence[str]) -> int:
    if not service.watch.running:
        await service.aside(service.watch.once)
    table = service.watch.table
    status = 200 if table["ready"] else 503
    await answer(send, status, encode(table))
    return status


def _named(item: Item, event: str | None) -> Item:
    """A conflict names the event that its caller sent: of many that were sent, it says which."""
    if isinstance(item.error, EventReused | RewardDiffers):
        item.error.given = event
    return item


def _taken(loop: Loop, value: float, reply: RewardReply) -> dict[str, Any]:
    """What becomes of a reward; ``clipped`` tells its sender that it was outside the range, and is stored nowhere."""
    declared = loop.facts.spec.reward
    outside = not declared.low <= value <= declared.high and not loop.facts.policy.local
    return {**reply.to_dict(), "clipped": True} if outside else reply.to_dict()


def _noted(service: Service, items: Sequence[Item]) -> None:
    """A batch that could not be written is an answer of its own, and a line of the log."""
    if items and items[-1].error is not None:
        service.note(items[-1].error)


def reply_bytes(reply: Reply) -> bytes:
    """The body of a decision; written by hand because every request pays for it."""
    text: Any = (
        f'{{"event_id":{_quoted(reply.event_id)},"action":{reply.action},"action_id":'
        f"{'null' if reply.action_id is None else _quoted(reply.action_id)},"
        f'"propensity":{reply.propensity!r},"round":{"null" if reply.round is None else reply.round},'
        f'"policy_version":{reply.policy_version},"mode":"{reply.mode}","learning":"{reply.learning}",'
        f'"reason":{"null" if reply.reason is None else _quoted(reply.reason)},"reward_until":"{reply.reward_until}"'
        f"{_SIMULATED if reply.simulated else ''}}}"
    )
    return bytes(text.encode())


# Without a task -------------------------------------------------------------------------------------------------------


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
