"""The routes that every decision and every reward takes: parsed, checked, queued, answered, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fairveil.errors import FairveilError
from fairveil.loop.loop import Loop
from fairveil.loop.reply import Reply
from fairveil.loop.requests import DecisionRequest, DecisionsRequest, RewardRequest, RewardsRequest
from fairveil.loop.writer import Item
from fairveil.service.messages import Receive, Scope, Send, answer, parse, read_body
from fairveil.service.problems import encode, of_error

if TYPE_CHECKING:
    from fairveil.service.app import Service

REPLAYED = (b"idempotent-replayed", b"true")
_SIMULATED = ',"simulated":true'
_quoted = json.encoder.encode_basestring_ascii


async def decide(service: Service, scope: Scope, receive: Receive, send: Send, names: Sequence[str]) -> int:
    loop = service.store.loop(names[0])
    item = loop.decision(parse(DecisionRequest, await read_body(scope, receive)))
    await service.pumps.of(loop).put([item])
    reply: Reply = item.outcome()
    if reply.replayed:
        await answer(send, 200, reply_bytes(reply), REPLAYED)
        return 200
    await answer(send, 201, reply_bytes(reply))
    return 201


async def reward(service: Service, scope: Scope, receive: Receive, send: Send, names: Sequence[str]) -> int:
    loop = service.store.loop(names[0])
    item = loop.reward_item(names[1], parse(RewardRequest, await read_body(scope, receive)).value)
    await service.pumps.of(loop).put([item])
    await answer(send, 200, encode(item.outcome().to_dict()))
    return 200


async def decide_batch(service: Service, scope: Scope, receive: Receive, send: Send, names: Sequence[str]) -> int:
    loop = service.store.loop(names[0])
    asked = parse(DecisionsRequest, await read_body(scope, receive)).decisions
    items = [_prepared(loop, request) for request in asked]
    await _all(service, loop, items)
    parts = [reply_bytes(item.result) if item.error is None else encode(of_error(item.error)) for item in items]
    await answer(send, 200, b'{"decisions":[' + b",".join(parts) + b"]}")
    return 200


async def reward_batch(service: Service, scope: Scope, receive: Receive, send: Send, names: Sequence[str]) -> int:
    loop = service.store.loop(names[0])
    asked = parse(RewardsRequest, await read_body(scope, receive)).rewards
    items = [loop.reward_item(one.event_id, one.value) for one in asked]
    await _all(service, loop, items)
    parts = [item.result.to_dict() if item.error is None else of_error(item.error) for item in items]
    await answer(send, 200, encode({"rewards": parts}))
    return 200


async def activate(service: Service, scope: Scope, receive: Receive, send: Send, names: Sequence[str]) -> int:
    loop = service.store.loop(names[0])
    item = loop.activation(names[1])
    await service.pumps.of(loop).put([item])
    await answer(send, 200, encode({"event_id": names[1], "activated": bool(item.outcome())}))
    return 200


async def _all(service: Service, loop: Loop, items: list[Item]) -> None:
    waiting = [item for item in items if not item.done]
    if waiting:
        await service.pumps.of(loop).put(waiting)


def _prepared(loop: Loop, request: DecisionRequest) -> Item:
    """An item of a batch that does not fit its loop is refused by itself."""
    try:
        return loop.decision(request)
    except FairveilError as problem:
        failed = Item(lambda batch: None)
        failed.error, failed.done = problem, True
        return failed


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
