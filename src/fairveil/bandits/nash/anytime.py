"""Doubling windows around a policy that needs a horizon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil import registry
from fairveil.bandits.environments.arms import ArmEnvironment
from fairveil.bandits.nash.base import NashPolicy
from fairveil.bandits.nash.runs import Intervals, Summary, Walker
from fairveil.bandits.protocol import Decision, Feedback, Report, Round
from fairveil.bandits.simulate import Streams
from fairveil.configuration import configuration, describe
from fairveil.errors import SpecError
from fairveil.fields import Count
from fairveil.privacy.events import Event
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.registry import register
from fairveil.state import State, copy_state

SIZE, START, UNIFORM, NUMBER = range(4)
PREFIX = "inner_"


@register("policy", "anytime")
@configuration
class Anytime(NashPolicy):
    """Windows of 1, 2, 4, ... rounds, each a fresh inner policy built for that horizon.

    With probability 1/W^2 a window of W rounds is played uniformly instead; the coin does not depend on data.
    Guarantee: that of the inner policy, because windows are disjoint blocks and nothing is carried over.
    Cost: the inner event, once. Time and memory of the inner policy. Needs no horizon.

    >>> Anytime(arms=3, inner={"name": "gdp-ncb", "epsilon": 1.0}).guarantee().epsilon
    1.0

    Reference: DP-NCB, Algorithm 3 (2026), after Barman, Khan, Maiti and Sawarni 2023.
    """

    arms: Count
    inner: dict[str, Any]

    def __post_init__(self) -> None:
        policy = self.window(1)
        table = describe(policy)
        object.__setattr__(self, "inner", {key: table[key] for key in table if key not in ("arms", "horizon")})

    def window(self, size: int) -> NashPolicy:
        """The inner policy of a window of this many rounds."""
        return _window(json.dumps(self.inner, sort_keys=True), self.arms, size)

    @property
    def episodic(self) -> bool:  # type: ignore[override]
        return self.window(2).episodic

    @property
    def released(self) -> tuple[str, ...]:  # type: ignore[override]
        inner = self.window(2).released
        return ("window", "released", *(PREFIX + name for name in inner)) if inner else ()

    @property
    def strict(self) -> bool:
        return bool(getattr(self.window(2), "strict", False))

    def event(self) -> Event:
        return self.window(2).event()

    def guarantee(self) -> Guarantee | None:
        return self.window(2).guarantee()

    def start(self) -> State:
        return self._with(self.window(1).start(), np.array([1, 0, 1, 0], np.int64), np.zeros(1, np.int64))

    def _with(self, inner: State, window: NDArray[np.int64], released: NDArray[np.int64]) -> State:
        return {"window": window, "released": released, **{PREFIX + name: array for name, array in inner.items()}}

    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        size, start, uniform, _ = (int(value) for value in state["window"])
        if uniform:
            law = np.full(self.arms, 1.0 / self.arms)
            return Decision(int(rng.integers(0, self.arms)), 1.0 / self.arms, law, symmetric=True)
        return self.window(size).decide(_inner(state), Round(round.index - start), rng)

    def report(self, feedback: Feedback, noise: Noise) -> Feedback | Report:
        return self.window(2).report(feedback, noise)

    def learn(self, state: State, feedback: Feedback | Report) -> State:
        size, start, uniform, _ = (int(value) for value in state["window"])
        if uniform or feedback.index < start:
            return state  # a closed window is forgotten
        moved = replace(feedback, index=feedback.index - start)
        inner = self.window(size).learn(_inner(state), moved)
        return self._with(copy_state(inner), state["window"].copy(), state["released"].copy())

    def due(self, state: State, now: int) -> str | None:
        size, start, uniform, number = (int(value) for value in state["window"])
        if not uniform:
            block = self.window(size).due(_inner(state), min(now - start, size))
            if block is not None:
                return f"window-{number}/{block}"
        return f"window-{number}" if now >= start + size else None

    def release(self, state: State, noise: Noise) -> State:
        size, start, uniform, number = (int(value) for value in state["window"])
        policy = self.window(size)
        if not uniform and policy.due(_inner(state), size) is not None:
            inner = policy.release(_inner(state), noise)
            return self._with(inner, state["window"].copy(), state["released"] + 1)
        following = 2 * size
        coin = int(noise.uniform_integers(following**2)[0]) == 0
        window = np.array([following, start + size, coin, number + 1], np.int64)
        return self._with(self.window(following).start(), window, state["released"].copy())

    def lost(self, state: State, block: str) -> State:
        size, start, _, number = (int(value) for value in state["window"])
        if "/" in block:
            inner = self.window(size).lost(_inner(state), block.split("/", 1)[1])
            return self._with(inner, state["window"].copy(), state["released"] + 1)
        window = np.array([2 * size, start + size, 0, number + 1], np.int64)
        return self._with(self.window(2 * size).start(), window, state["released"].copy())

    def _windows(self, rounds: int, noise: Generator) -> Iterator[tuple[int, int, bool]]:
        """(start, size, uniform) of the windows that begin before the last round."""
        start, size = 0, 1
        while start < rounds:
            yield start, size, size == 1 or int(noise.integers(0, size**2, 1)[0]) == 0
            start, size = start + size, 2 * size

    def intervals(self, world: ArmEnvironment, rounds: int, streams: Streams) -> Intervals:
        noise: Any = streams.noise.stream
        ends: list[NDArray[np.int64]] = []
        codes: list[NDArray[np.int32]] = []
        total = Summary(np.zeros(self.arms, np.int64))
        for start, size, uniform in self._windows(rounds, noise):
            count = min(size, rounds - start)
            if uniform:
                part = _uniform(self.arms, count, streams.explore)
            else:
                part = self.window(size).intervals(_moved(world, start), count, streams)
            ends.append(part.ends + start)
            codes.append(part.codes)
            _add(total, part.summary)
        return Intervals(np.concatenate(ends), np.concatenate(codes), total)

    def walker(self, world: ArmEnvironment, rounds: int, streams: Streams) -> Walker:
        return WindowWalker(self, world, rounds, streams)


class WindowWalker(Walker):
    """Advances an anytime run whose inner policy decides every round."""

    def __init__(self, policy: Anytime, world: ArmEnvironment, rounds: int, streams: Streams) -> None:
        self.policy, self.world, self.streams = policy, world, streams
        self.total = Summary(np.zeros(policy.arms, np.int64))
        noise: Any = streams.noise.stream
        self.windows = policy._windows(rounds, noise)
        self.begin, self.end = 0, 0
        self.walker: Walker | None = None

    def _open(self) -> None:
        if self.walker is not None:
            _add(self.total, self.walker.summary())
        start, size, uniform = next(self.windows)
        self.begin, self.end = start, start + size
        inner = self.policy.window(size)
        self.walker = None if uniform else inner.walker(_moved(self.world, start), size, self.streams)

    def advance(self, start: int, stop: int, out: NDArray[np.int32]) -> None:
        while start < stop:
            if start >= self.end:
                self._open()
            until = min(stop, self.end)
            part, out = out[: until - start], out[until - start :]
            if self.walker is None:
                part[:] = self.policy.arms
                _add(self.total, _uniform(self.policy.arms, until - start, self.streams.explore).summary)
            else:
                self.walker.advance(start - self.begin, until - self.begin, part)
            start = until

    def summary(self) -> Summary:
        if self.walker is not None:
            _add(self.total, self.walker.summary())
            self.walker = None
        return self.total


@lru_cache(maxsize=256)
def _window(inner: str, arms: int, size: int) -> NashPolicy:
    table = json.loads(inner)
    for known in ("arms", "horizon"):
        if known in table:
            raise SpecError(f"anytime sets {known} itself", path=f"inner.{known}", fix="leave it out")
    target = registry.get("policy", table.get("name", ""), "inner.name")
    if getattr(target, "horizon_free", True) or not issubclass(target, NashPolicy):
        raise SpecError(
            "the inner policy needs no horizon, or is of another family",
            path="inner.name",
            given=table.get("name"),
            fix="run it without anytime",
        )
    policy: NashPolicy = registry.build("policy", {**table, "arms": arms, "horizon": size}, "inner")
    return policy


def _inner(state: State) -> State:
    return {name.removeprefix(PREFIX): array for name, array in state.items() if name.startswith(PREFIX)}


def _moved(world: ArmEnvironment, start: int) -> Any:
    """The same world seen by a policy whose round 0 is round ``start``."""
    laws = world.laws
    later = laws._replace(rows=laws.rows[start:], prefix=laws.prefix[start:]) if len(laws.rows) else laws
    return SimpleNamespace(arms=world.arms, laws=later, true_means=world.true_means)


def _uniform(arms: int, count: int, explore: Generator) -> Intervals:
    pulls = np.bincount(explore.integers(0, arms, count), minlength=arms).astype(np.int64)
    return Intervals(np.array([count], np.int64), np.array([arms], np.int32), Summary(pulls, count))


def _add(total: Summary, part: Summary) -> None:
    total.pulls += part.pulls
    total.phase_rounds += part.phase_rounds
    total.releases += part.releases
    total.spent = max(total.spent, part.spent)
