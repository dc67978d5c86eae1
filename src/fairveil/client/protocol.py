"""The calls of the service without any input or output: what to send, and when to try again."""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fairveil.client.problems import Problem

AGAIN = (429, 503)
LONGEST = 5.0
PATIENCE = 300.0
"""Seconds for a call that is sent once."""


@dataclass(frozen=True)
class Call:
    """``once``: cannot be repeated safely once it was sent, and may take long (creating a loop)."""

    method: str
    path: str
    body: Any = None
    once: bool = False


def new_event_id() -> str:
    """UUID version 7, made before the first attempt: every retry repeats it."""
    digits = ((time.time_ns() // 1_000_000).to_bytes(6, "big") + secrets.token_bytes(10)).hex()
    return (
        f"{digits[:8]}-{digits[8:12]}-7{digits[13:16]}-{'89ab'[int(digits[16], 16) & 3]}{digits[17:20]}-{digits[20:]}"
    )


def pause(attempt: int, asked: str | None) -> float:
    """Seconds before the next attempt: doubling, with full jitter so that clients do not come back together."""
    floor = float(asked) if asked is not None and asked.isdigit() else 0.0
    return min(LONGEST, max(floor, 0.05 * 2**attempt * (0.5 + random.random())))


def loop_path(name: str, *parts: str) -> str:
    return "/".join(["/v1/loops", quote(name, safe=""), *(quote(part, safe="") for part in parts)])


def decide(loop: str, event: str, request: dict[str, Any]) -> Call:
    given = {key: value for key, value in request.items() if value is not None}
    return Call("POST", loop_path(loop) + "/decisions", {"event_id": event, **given})


def reward(loop: str, event: str, value: float) -> Call:
    return Call("POST", loop_path(loop, "decisions", event, "reward"), {"value": value})


def activate(loop: str, event: str) -> Call:
    return Call("POST", loop_path(loop, "decisions", event, "activate"))


def decide_many(loop: str, requests: Iterable[dict[str, Any]]) -> Call:
    named = [{"event_id": new_event_id(), **request} for request in requests]
    return Call("POST", loop_path(loop, "decisions", "batch"), {"decisions": named})


def reward_many(loop: str, rewards: Iterable[tuple[str, float]]) -> Call:
    table = [{"event_id": event, "value": value} for event, value in rewards]
    return Call("POST", loop_path(loop, "rewards", "batch"), {"rewards": table})


def read(status: int, table: Any) -> Any:
    """The answer, or the problem that it is."""
    if status >= 400:
        raise Problem(status, table if isinstance(table, dict) else {})
    return table


def fallback_reply(event: str, action: int) -> dict[str, Any]:
    """What is played while the service cannot be reached: marked, and never learned."""
    return {
        "event_id": event,
        "action": action,
        "action_id": None,
        "propensity": 1.0,
        "round": None,
        "learning": "never",
        "reason": "fallback",
        "source": "fallback",
    }


def token_of(given: str | None) -> dict[str, str]:
    token = given if given is not None else os.environ.get("FAIRVEIL_TOKEN")
    return {} if token is None else {"authorization": f"Bearer {token}"}
