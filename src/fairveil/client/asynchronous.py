"""The same client for programs that await."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import httpx

from fairveil.client import protocol
from fairveil.client.problems import Unreachable
from fairveil.client.protocol import Call


class AsyncClient:
    """`Client` for event loops: the same calls, awaited."""

    def __init__(
        self, url: str, token: str | None = None, timeout: float = 5, retries: int = 4, **options: Any
    ) -> None:
        self.retries, self.timeout = retries, timeout
        self._http = httpx.AsyncClient(base_url=url, timeout=timeout, headers=protocol.token_of(token), **options)

    def loop(self, name: str) -> AsyncLoop:
        return AsyncLoop(self, name)

    async def loops(self) -> list[dict[str, Any]]:
        return list((await self.call(Call("GET", "/v1/loops")))["loops"])

    async def create(self, name: str, **table: Any) -> dict[str, Any]:
        """Create a loop; keys as in POST /v1/loops."""
        return dict(await self.call(Call("POST", "/v1/loops", {"name": name, **table}, once=True)))

    async def quote(self, name: str, **table: Any) -> dict[str, Any]:
        return dict(await self.call(Call("POST", "/v1/quote", {"name": name, **table})))

    async def call(self, call: Call) -> Any:
        """Send a call until it is answered, and give the answer or raise its problem."""
        for attempt in range(self.retries + 1):
            asked = None
            try:
                patience = protocol.PATIENCE if call.once else self.timeout
                answer = await self._http.request(call.method, call.path, json=call.body, timeout=patience)
            except httpx.TransportError as problem:
                last: Exception = problem
                if call.once and not isinstance(problem, httpx.ConnectError):
                    break
            else:
                if answer.status_code not in protocol.AGAIN or attempt == self.retries:
                    return protocol.read(answer.status_code, answer.json() if answer.content else None)
                asked = answer.headers.get("retry-after")
            if attempt < self.retries:
                await asyncio.sleep(protocol.pause(attempt, asked))
        raise Unreachable(
            "the service cannot be reached", given=type(last).__name__, fix="repeat with the same event id"
        ) from last

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self.close()


class AsyncLoop:
    """One loop of the service."""

    def __init__(self, client: AsyncClient, name: str) -> None:
        self.client, self.name = client, name
        self._fallen: set[str] = set()

    async def decide(self, event: str | None = None, *, fallback: int | None = None, **request: Any) -> dict[str, Any]:
        """A decision. ``fallback``: the action to take when the service cannot be reached; it is never learned."""
        made = event or protocol.new_event_id()
        try:
            return dict(await self.client.call(protocol.decide(self.name, made, request)))
        except Unreachable:
            if fallback is None:
                raise
            self._fallen.add(made)
            return protocol.fallback_reply(made, fallback)

    async def reward(self, event: str, value: float) -> dict[str, Any]:
        """What came of an event; that of a fallback is not sent."""
        if event in self._fallen:
            return {"event_id": event, "accepted": False, "learned": "never", "reason": "fallback"}
        return dict(await self.client.call(protocol.reward(self.name, event, value)))

    async def activate(self, event: str) -> dict[str, Any]:
        return dict(await self.client.call(protocol.activate(self.name, event)))

    async def decide_many(self, requests: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Many decisions at once; each is a reply or a problem."""
        return list((await self.client.call(protocol.decide_many(self.name, requests)))["decisions"])

    async def reward_many(self, rewards: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
        return list((await self.client.call(protocol.reward_many(self.name, rewards)))["rewards"])

    async def event(self, event: str) -> dict[str, Any]:
        return dict(await self.client.call(Call("GET", protocol.loop_path(self.name, "decisions", event))))

    async def state(self) -> dict[str, Any]:
        """What is public of the loop."""
        return dict(await self.client.call(Call("GET", protocol.loop_path(self.name))))

    async def budget(self) -> dict[str, Any]:
        return dict(await self.client.call(Call("GET", protocol.loop_path(self.name, "budget"))))

    async def set_mode(self, mode: str) -> dict[str, Any]:
        return dict(await self.client.call(Call("PUT", protocol.loop_path(self.name, "mode"), {"mode": mode})))

    async def release(self, kind: str = "summary", **settings: Any) -> dict[str, Any]:
        return dict(
            await self.client.call(Call("POST", protocol.loop_path(self.name, "releases"), {"kind": kind, **settings}))
        )

    async def wait_release(self, version: int, timeout: float = 60.0, every: float = 0.2) -> dict[str, Any]:
        """Wait until the policy has published at least this version; gives the state."""
        deadline = time.monotonic() + timeout
        while (found := await self.state())["version"] < version:
            if time.monotonic() > deadline:
                raise Unreachable("no release came in time", given=found["version"], allowed=f"version {version}")
            await asyncio.sleep(every)
        return found

    async def close(self) -> None:
        """End the loop; its ledger and releases stay."""
        await self.client.call(Call("DELETE", protocol.loop_path(self.name)))
