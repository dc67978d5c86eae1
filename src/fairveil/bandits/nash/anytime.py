"""Doubling windows around a policy that needs a horizon: Algorithm 3 of DP-NCB."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil import registry
from fairveil.arrays import Floats, Ints
from fairveil.bandits.environments.arms import ArmEnvironment
from fairveil.bandits.estimates import CONFIDENCE
from fairveil.bandits.feedback import AT_ONCE
from fairveil.bandits.nash.base import NashPolicy, world_of
from fairveil.bandits.nash.tally import Stretch
from fairveil.bandits.protocol import Decision, Feedback, Report, Round, drawn_evenly
from fairveil.bandits.quotes import Noisy
from fairveil.bandits.simulate import Case, Simulator, Streams
from fairveil.configuration import configuration, describe
from fairveil.errors import SpecError
from fairveil.fields import Count, described
from fairveil.privacy.events import Event
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.registry import register
from fairveil.state import State, copy_state, nest, nested

SIZE, START, UNIFORM, NUMBER = range(4)
"""Entries of ``window``: its rounds, its first round, whether it is played uniformly, and how many came before."""
INNER = "inner"
Codes = tuple[NDArray[np.int32], Ints]
NO_ENDS = np.empty(0, np.int64)


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

    arms: Count = described("number of treatments", example=3)
    inner: dict[str, Any] = described(
        "the policy that is built anew for each window: its name and parameters",
        example={"name": "gdp-ncb", "epsilon": 1.0},
    )

    def __post_init__(self) -> None:
        policy = self.window(1)
        table = describe(policy)
        object.__setattr__(self, "inner", {key: table[key] for key in table if key not in ("arms", "horizon")})

    def window(self, size: int) -> NashPolicy:
        """The inner policy of a window of this many rounds."""
        return _window(json.dumps(self.inner, sort_keys=True), self.arms, size)

    @property
    def released(self) -> tuple[str, ...]:
        inner = self.window(2).released
        return ("window", "released", *nest(INNER, dict.fromkeys(inner, np.zeros(0)))) if inner else ()

    @property
    def strict(self) -> bool:
        return bool(self.window(2).strict)

    @property
    def hides_arrivals(self) -> bool:
        return self.window(2).hides_arrivals

    def event(self) -> Event:
        return self.window(2).event()

    def guarantee(self) -> Guarantee | None:
        return self.window(2).guarantee()

    def start(self) -> State:
        return self._with(self.window(1).start(), np.array([1, 0, 1, 0], np.int64), np.zeros(1, np.int64))

    def _with(self, inner: State, window: Ints, released: Ints) -> State:
        return {"window": window, "released": released, **nest(INNER, inner)}

    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        size, start, uniform, _ = (int(value) for value in state["window"])
        if uniform or round.index >= start + size:  # past the window where the release that ends it was refused
            return drawn_evenly(self.arms, rng)
        return self.window(size).decide(nested(state, INNER), Round(round.index - start), rng)

    def report(self, feedback: Feedback, noise: Noise) -> Feedback | Report:
        return self.window(2).report(feedback, noise)

    def learn(self, state: State, feedback: Feedback | Report) -> State:
        size, start, uniform, _ = (int(value) for value in state["window"])
        if uniform or not start <= feedback.index < start + size:
            return state  # a closed window is forgotten
        moved = replace(feedback, index=feedback.index - start)
        inner = self.window(size).learn(nested(state, INNER), moved)
        return self._with(copy_state(inner), state["window"].copy(), state["released"].copy())

    def due(self, state: State, settled: int) -> str | None:
        size, start, uniform, number = (int(value) for value in state["window"])
        if not uniform:
            block = self.window(size).due(nested(state, INNER), min(settled - start, size))
            if block is not None:
                return f"window-{number}/{block}"
        return f"window-{number}" if settled >= start + size else None

    def release(self, state: State, noise: Noise) -> State:
        size, start, uniform, number = (int(value) for value in state["window"])
        policy = self.window(size)
        if not uniform and policy.due(nested(state, INNER), size) is not None:
            inner = policy.release(nested(state, INNER), noise)
            return self._with(inner, state["window"].copy(), state["released"] + 1)
        following = 2 * size
        coin = int(noise.uniform_integers(following**2)[0]) == 0
        window = np.array([following, start + size, coin, number + 1], np.int64)
        return self._with(self.window(following).start(), window, state["released"].copy())

    def lost(self, state: State, block: str) -> State:
        size, start, _, number = (int(value) for value in state["window"])
        if "/" in block:
            inner = self.window(size).lost(nested(state, INNER), block.split("/", 1)[1])
            return self._with(inner, state["window"].copy(), state["released"] + 1)
        window = np.array([2 * size, start + size, 0, number + 1], np.int64)
        return self._with(self.window(2 * size).start(), window, state["released"].copy())

    def noises(self) -> tuple[Noisy, ...]:
        return self.window(2).noises()

    def arm_intervals(self, state: State, confidence: float = CONFIDENCE, anytime: bool = False) -> Floats:
        """Of the window that runs: earlier ones are forgotten."""
        return self.window(int(state["window"][SIZE])).arm_intervals(nested(state, INNER), confidence, anytime)

    def coarse(self, case: Case) -> bool:
        if case.spec["noise"] != "seeded" or case.lateness != AT_ONCE:
            return False
        return self.window(2).coarse(Case.of(self.window(2), case.environment, 2))

    def simulator(self, case: Case, streams: Streams) -> Windows | None:
        if streams.noise.stream is None or case.lateness != AT_ONCE:
            return None
        return Windows(self, world_of(case), streams, self.coarse(case))


class Windows(Simulator[Stretch]):
    """Advances a run of windows, one inner simulator after the other; coarse ones hand over a window at once."""

    def __init__(self, policy: Anytime, world: ArmEnvironment, streams: Streams, coarse: bool) -> None:
        self.policy, self.world, self.arms, self.streams, self.coarse = policy, world, world, streams, coarse
        self.pulls, self.uniform, self.closed = np.zeros(policy.arms, np.int64), 0, 0
        self.windows = self._windows()
        self.now = self.begin = self.end = 0
        self.inner: Simulator[Stretch] | None = None
        self.last: Stretch | None = None

    def _windows(self) -> Iterator[tuple[int, int, bool]]:
        """(first round, rounds, played uniformly) of every window."""
        start, size = 0, 1
        while True:
            yield start, size, size == 1 or int(self.streams.noise.uniform_integers(size**2)[0]) == 0
            start, size = start + size, 2 * size

    def _open(self) -> None:
        if self.inner is not None and self.last is not None:
            self.pulls, self.uniform = self.pulls + self.last.pulls, self.uniform + self.last.uniform
            self.closed += self.inner.releases
        start, size, uniform = next(self.windows)
        self.begin, self.end = start, start + size
        policy = self.policy.window(size)
        case = Case.of(policy, self.arms.later(start), size)
        self.inner, self.last = None if uniform else policy.simulator(case, self.streams), None

    def advance(self, stop: int) -> Stretch:
        codes: list[NDArray[np.int32]] = []
        ends: list[Ints] = []
        while self.now < stop:
            if self.now >= self.end:
                self._open()
            until = min(stop, self.end)
            part = self._at_random(until) if self.inner is None else self._inside(self.inner, until)
            codes.append(part[0])
            ends.append(part[1])
            self.now = until
        pulls, uniform = self.pulls, self.uniform
        if self.last is not None:
            pulls, uniform = pulls + self.last.pulls, uniform + self.last.uniform
        return Stretch(np.concatenate(codes), pulls, uniform, np.concatenate(ends) if self.coarse else None)

    def _inside(self, inner: Simulator[Stretch], until: int) -> Codes:
        self.last = inner.advance(until - self.begin)
        self.releases, self.spent = self.closed + inner.releases, max(self.spent, inner.spent)
        ends = NO_ENDS if self.last.ends is None else self.last.ends + self.begin
        return self.last.codes, ends

    def _at_random(self, until: int) -> Codes:
        """Uniform rounds: only their pulls are drawn."""
        arms, count = self.policy.arms, until - self.now
        self.pulls = self.pulls + np.bincount(self.streams.explore.integers(0, arms, count), minlength=arms)
        self.uniform += count
        return np.full(1 if self.coarse else count, arms, np.int32), np.array([until], np.int64)

    def published(self) -> State | None:
        inner = None if self.inner is None else self.inner.published()
        size = np.array([self.end - self.begin, self.begin, 0, 0], np.int64)
        return None if inner is None else {"window": size, **nest(INNER, inner)}


@lru_cache(maxsize=256)
def _window(inner: str, arms: int, size: int) -> NashPolicy:
    table = json.loads(inner)
    for known in ("arms", "horizon"):
        if known in table:
            raise SpecError(f"anytime sets {known} itself", path=f"inner.{known}", fix="leave it out")
    target = registry.target_of("policy", table, "inner")
    if not issubclass(target, NashPolicy) or target.horizon_free:
        raise SpecError(
            "the inner policy needs no horizon, or is of another family",
            path="inner.name",
            given=table.get("name"),
            fix="run it without anytime",
        )
    policy: NashPolicy = registry.build("policy", {**table, "arms": arms, "horizon": size}, "inner")
    return policy
