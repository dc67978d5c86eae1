"""The routes that every decision and every reward takes: parsed, checked, queued, answered, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fairveil.loop.events import Reply, RewardReply
from fairveil.loop.loop import Loop
from fairveil.loop.problems import EventReused, RewardDiffers
from fairveil.loop.requests import DecisionRequest, DecisionsRequest, RewardRequest, RewardsRequest
from fairveil.loop.writer import Item
from fairveil.service.messages import Receive, Scope, Send, answer, encode, of_error, parse, read_body
from fairveil.service.routes import EVENT, LOOP, route

if TYPE_CHECKING:
    from fairveil.service.app import Service

REPLAYED = (b"idempotent-replayed", b"true")
_ALIVE = b'{"status":"alive"}'
_SIMULATED = ',"simulated":true'
_quoted = json.encoder.encode_basestring_ascii


@route("POST", f"{LOOP}/decisions", "decide", "ask for a decision", body=DecisionRequest, statuses=(201, 200), hot=True)
async def decide(service: Service, scope: Scope, receive: Receive, send: Send, names: Sequence[str]) -> int:
    loop = await service.loop(names[0])
    asked = parse(DecisionRequest, await read_body(scope, receive))
    item = loop.decision(asked)
    await service.pumps.run(loop, [item])
    reply: Reply = _named(item, asked.event_id).outcome()
    if reply.replayed:
        await answer(send, 200, reply_bytes(reply), REPLAYED)
        return 200
    await answer(send, 201, reply_bytes(reply))
    return 201


@route("POST", f"{EVENT}/reward", "decide", "what came of an event", body=RewardRequest, hot=True)
async def reward(service: Service, scope: Scope, receive: Receive, send: Send, names: Sequence[str]) -> int:
    loop = await service.loop(names[0])
    value = parse(RewardRequest, await read_body(scope, receive)).value
    item = loop.reward_item(names[1], value)
    await service.pumps.run(loop, [item])
    await answer(send, 200, encode(_taken(loop, value, _named(item, names[1]).outcome())))
    return 200


@route("POST", f"{LOOP}/decisions/batch", "decide", "many decisions", body=DecisionsRequest, hot=True)
async def decide_batch(service: Service, scope: Scope, receive: Receive, send: Send, names: Sequence[str]) -> int:
    loop = await service.loop(names[0])
    asked = parse(DecisionsRequest, await read_body(scope, receive)).decisions
    items = [loop.item(request) for request in asked]
    await _all(service, loop, items)
    for item, one in zip(items, asked, strict=True):
        _named(item, one.event_id)
    parts = [reply_bytes(item.result) if item.error is None else encode(of_error(item.error)) for item in items]
    await answer(send, 200, b'{"decisions":[' + b",".join(parts) + b"]}")
    return 200


@route("POST", f"{LOOP}/rewards/batch", "decide", "many rewards", body=RewardsRequest, hot=True)
async def reward_batch(service: Service, scope: Scope, receive: Receive, send: Send, names: Sequence[str]) -> int:
    loop = await service.loop(names[0])
    asked = parse(RewardsRequest, await read_body(scope, receive)).rewards
    items = [loop.reward_item(one.event_id, one.value) for one in asked]
    await _all(service, loop, items)
    parts = []
    for item, one in zip(items, asked, strict=True):
        problem = _named(item, one.event_id).error
        parts.append(_taken(loop, one.value, item.result) if problem is None else of_error(problem))
    await answer(send, 200, encode({"rewards": parts}))
    return 200


@route("POST", f"{EVENT}/activate", "decide", "a deferred decision was shown", hot=True)
async def activate(service: Service, scope: Scope, receive: Receive, send: Send, names: Sequence[str]) -> int:
    loop = await service.loop(names[0])
    item = loop.activation(names[1])
    await service.pumps.run(loop, [item])
    await answer(send, 200, encode({"event_id": names[1], "activated": bool(item.outcome())}))
    return 200


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


async def _all(service: Service, loop: Loop, items: list[Item]) -> None:
    waiting = [item for item in items if not item.done]
    if waiting:
        await service.pumps.run(loop, waiting)
        if waiting[-1].error is not None:
            service.note(waiting[-1].error)


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
