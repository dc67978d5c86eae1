"""The clients, for programs that wait and for programs that await: two drivers of the same verbs.

Local loops: the reward is randomised on this machine, once per event, and only the bit is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import httpx

from fairveil.client import verbs
from fairveil.client.problems import Unreachable
from fairveil.client.verbs import Call, LoopPath, Pause, Sender, Steps

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound=Any)


def _waits(verb: Callable[Concatenate[S, P], Steps[T]]) -> Callable[Concatenate[S, P], T]:
    """A verb as a method that returns when it is done."""

    @functools.wraps(verb)
    def method(self: S, *args: P.args, **given: P.kwargs) -> T:
        steps = verb(self, *args, **given)
        go_on = functools.partial(next, steps)
        while True:
            try:
                step = go_on()
            except StopIteration as done:
                return done.value
            try:
                go_on = functools.partial(steps.send, self._do(step))
            except httpx.TransportError as problem:
                go_on = functools.partial(steps.throw, problem)

    return method


def _awaits(verb: Callable[Concatenate[S, P], Steps[T]]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The same verb as a method that is awaited."""

    @functools.wraps(verb)
    async def method(self: S, *args: P.args, **given: P.kwargs) -> T:
        steps = verb(self, *args, **given)
        go_on = functools.partial(next, steps)
        while True:
            try:
                step = go_on()
            except StopIteration as done:
                return done.value
            try:
                go_on = functools.partial(steps.send, await self._do(step))
            except httpx.TransportError as problem:
                go_on = functools.partial(steps.throw, problem)

    return method


class Client(Sender):
    """A connection to the service. Repeats after connection errors, 429 and 503, with jitter, never another refusal.

    ``token``: else ``FAIRVEIL_TOKEN``. ``timeout``: seconds for one attempt. ``patience``: seconds in which new
    attempts begin, 60 unless given, and 75 more where the service took a call that may take long (creating, quoting,
    releasing); then it ends in one sentence. ``retries``: at most so many after the first.
    """

    connection = httpx.Client
    loops, create, quote, call = _waits(verbs.loops), _waits(verbs.create), _waits(verbs.quote), _waits(verbs.call)

    def loop(self, name: str) -> RemoteLoop:
        """A loop of the service; nothing is sent yet."""
        return RemoteLoop(self, name)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def _do(self, step: Call | Pause) -> httpx.Response | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        return self._http.request(step.method, step.path, json=step.body, timeout=step.timeout)


class RemoteLoop(LoopPath[Client]):
    """One loop of the service."""

    decide, reward, activate = _waits(verbs.decide), _waits(verbs.reward), _waits(verbs.activate)
    decide_many, reward_many = _waits(verbs.decide_many), _waits(verbs.reward_many)
    event, state, budget = _waits(verbs.event), _waits(verbs.state), _waits(verbs.budget)
    set_mode, release, close = _waits(verbs.set_mode), _waits(verbs.release), _waits(verbs.close)
    wait_release, releases = _waits(verbs.wait_release), _waits(verbs.releases)
    quote_release = _waits(verbs.quote_release)
    audit, audits = _waits(verbs.audit), _waits(verbs.audits)
    erase, close_action = _waits(verbs.erase), _waits(verbs.close_action)


class AsyncClient(Sender):
    """`Client` for event loops: the same calls, awaited."""

    connection = httpx.AsyncClient
    loops, create, quote, call = _awaits(verbs.loops), _awaits(verbs.create), _awaits(verbs.quote), _awaits(verbs.call)

    def loop(self, name: str) -> AsyncLoop:
        """A loop of the service; nothing is sent yet."""
        return AsyncLoop(self, name)

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self.close()

    async def _do(self, step: Call | Pause) -> httpx.Response | None:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        return await self._http.request(step.method, step.path, json=step.body, timeout=step.timeout)


class AsyncLoop(LoopPath[AsyncClient]):
    """One loop of the service, awaited."""

    decide, reward, activate = _awaits(verbs.decide), _awaits(verbs.reward), _awaits(verbs.activate)
    decide_many, reward_many = _awaits(verbs.decide_many), _awaits(verbs.reward_many)
    event, state, budget = _awaits(verbs.event), _awaits(verbs.state), _awaits(verbs.budget)
    set_mode, release, close = _awaits(verbs.set_mode), _awaits(verbs.release), _awaits(verbs.close)
    wait_release, releases = _awaits(verbs.wait_release), _awaits(verbs.releases)
    quote_release = _awaits(verbs.quote_release)
    audit, audits = _awaits(verbs.audit), _awaits(verbs.audits)
    erase, close_action = _awaits(verbs.erase), _awaits(verbs.close_action)


class LocalClient:
    """A person's side of a local loop. The service never sees a reward.

    Guarantee: that of the loop's policy, for one reward, against the service itself. A retry sends the same bit again:
    the reward of an event is randomised once, because two draws would tell more. ``memory``: a file that remembers the
    bits also when this program dies between two attempts; a bit is on disk before it is sent. Needs fairveil's own
    dependencies.
    """

    def __init__(self, loop: RemoteLoop, memory: str | os.PathLike[str] | None = None) -> None:
        from fairveil import registry
        from fairveil.privacy.noise import SecureNoise

        self.loop = loop
        facts = loop.state()
        self.policy: Any = registry.build("policy", facts["policy"], "policy")
        if not self.policy.local:
            raise Unreachable("this loop takes rewards, not reports", given=facts["policy"]["name"], fix="use Client")
        self._low, self._high = float(facts["reward"]["low"]), float(facts["reward"]["high"])
        self._noise = SecureNoise()
        self._memory = None if memory is None else Path(memory)
        self._bits: dict[str, float] = {} if self._memory is None else _remembered(self._memory)
        self._arms: dict[str, int] = {}
        self._guard = threading.Lock()

    def decide(self, event: str | None = None, **request: Any) -> dict[str, Any]:
        reply = self.loop.decide(event, **request)
        self._arms[reply["event_id"]] = int(reply["action"])
        return reply

    def reward(self, event: str, value: float) -> dict[str, Any]:
        """Randomise the reward here, remember the bit, send the bit."""
        from fairveil.bandits.protocol import Feedback

        with self._guard:
            if event not in self._bits:
                unit = (min(max(float(value), self._low), self._high) - self._low) / (self._high - self._low)
                report = self.policy.report(Feedback(0, self._arms.get(event, 0), unit), self._noise)
                self._remember(event, float(report.value))
        return self.loop.reward(event, self._bits[event])

    def _remember(self, event: str, bit: float) -> None:
        if self._memory is not None:
            descriptor = os.open(self._memory, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with open(descriptor, "ab") as file:
                file.write(b"\n" + json.dumps([event, bit]).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        self._bits[event] = bit


def _remembered(memory: Path) -> dict[str, float]:
    """The bits of a file; a line that is not whole was never sent."""
    bits: dict[str, float] = {}
    if memory.exists():
        for line in memory.read_bytes().splitlines():
            with contextlib.suppress(ValueError):
                event, bit = json.loads(line)
                bits.setdefault(event, bit)
    return bits
