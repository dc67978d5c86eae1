"""Privacy mistakes that any policy could make, planted in its served methods; families add their own.

What is kept of a state is what the policy does not name in ``released``: raw rows and their counters.
"""

from __future__ import annotations

import copy
import json
import zlib
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from fairveil import registry
from fairveil.bandits.exposure.kernel import make_row, raw_row
from fairveil.bandits.exposure.private import PrivatePolicy
from fairveil.bandits.meritocratic.batched import BatchedPrivateFairGreedy
from fairveil.bandits.meritocratic.estimate import GROUP_WEIGHT
from fairveil.bandits.nash.base import global_guarantee
from fairveil.bandits.nash.blocks import place_of
from fairveil.bandits.nash.episodes import EpisodePolicy
from fairveil.bandits.protocol import Feedback, Policy, Report
from fairveil.configuration import describe
from fairveil.privacy.mechanisms.one_bit import OneBit
from fairveil.privacy.noise import Noise, SeededNoise
from fairveil.proof.laws.playing import FEW_BLOCKS, LONG, placed, turns
from fairveil.proof.laws.releases import SOURCES, differs, never_repeats
from fairveil.proof.mutants import Method, Mutant, function, in_its, method, no_clip, replaced, rule, together, twin
from fairveil.proof.mutants.mutant import planted, quiet
from fairveil.registry import register
from fairveil.state import State

COUNTERS = ("handed", "answered", "next", "tested")
"""Unreleased arrays that say how far a policy has come: nobody's rows."""

COINS = {"window": "the coin of a window is thrown whatever the rows are, and is public"}
"""Published arrays that depend on a source of noise and on no row."""


def raw_names(policy: Policy) -> tuple[str, ...]:
    """The arrays of a state that hold rows."""
    state = placed(policy)[0].start()
    return tuple(name for name in state if name not in policy.released and name not in COUNTERS)


def noisy_names(policy: Policy) -> dict[str, bool]:
    """The published arrays, and those a ledger stores, that depend on noise: seen in a run of its own.

    True for those with a number that no other source of noise gives; the others are choices between a few.
    """
    if policy.local or policy.keeps_history or not policy.released:
        return {}
    return _noisy_names(json.dumps(describe(policy), sort_keys=True))


@lru_cache(maxsize=64)
def _noisy_names(table: str) -> dict[str, bool]:
    policy, world = placed(registry.build("policy", json.loads(table), "policy"))
    found, checked, raw = dict[str, bool](), 0, raw_names(policy)
    for turn in turns(policy, world, LONG, SeededNoise(3)):
        turn.state = policy.learn(turn.state, turn.answer)
        while policy.due(turn.state, turn.index + 1) is not None:
            after = [policy.release(turn.state, SeededNoise(seed)) for seed in range(SOURCES)]
            stored = [policy.draw(turn.state, SeededNoise(seed)) for seed in range(SOURCES)]
            for drawn in (after, stored):
                for name in drawn[0]:
                    arrays = [one[name] for one in drawn]
                    if name not in raw and np.any(differs(arrays)):
                        found[name] = found.get(name, False) or bool(np.any(never_repeats(arrays)))
            turn.state, checked = after[0], checked + 1
        if checked >= FEW_BLOCKS:
            break
    return found


def drawn_otherwise(source: Callable[[Noise], Noise], *names: str) -> Method:
    """These arrays of a release are what another source of noise would have made them."""

    @twin
    def broken(original: Method, self: Policy, state: State, noise: Noise) -> State:
        other = source(noise)
        after: State = original(self, state, noise)
        asked = [name for name in names if name in after]
        again: State = original(self, state, other) if asked else {}
        return after | {name: again[name] for name in asked}

    return broken


def exact(name: str, policy: Policy) -> AbstractContextManager[None]:
    """One published array is what it would be without noise."""
    return _released_by(policy, drawn_otherwise(quiet, name))


def same_draw(name: str, policy: Policy) -> AbstractContextManager[None]:
    """One published array draws from a seed that was drawn once: its noise in two blocks is one and the same."""
    seeds = list[tuple[Noise, int]]()

    def seeded(noise: Noise) -> Noise:
        if not any(source is noise for source, _ in seeds):
            seeds.append((noise, int(noise.uniform_integers(2**30)[0])))
        return SeededNoise(next(seed for source, seed in seeds if source is noise))

    return _released_by(policy, drawn_otherwise(seeded, name))


def _released_by(policy: Policy, broken: Method) -> AbstractContextManager[None]:
    return together(*(method(type(policy), served, broken) for served in ("draw", "release")))


def counted_twice(policy: Policy) -> AbstractContextManager[None]:
    """What a row adds to the raw arrays is added twice."""
    raw = raw_names(policy)

    @twin
    def broken(original: Method, self: Policy, state: State, *more: Any) -> State:
        after: State = original(self, state, *more)
        twice = {
            name: np.asarray(2 * after[name] - state[name])
            for name in raw
            if name in state and after[name].dtype.kind in "if" and after[name].shape == state[name].shape
        }
        return after | twice

    return _learned_by(policy, broken)


def data_bound(policy: Policy) -> AbstractContextManager[None]:
    """Rewards are divided by the largest there ever was, as if that were a public bound."""
    largest = [1.0]

    def scaled(feedback: Feedback) -> Feedback:
        if feedback.reward is None:
            return feedback
        largest.append(max(largest[-1], abs(feedback.reward)))
        return replace(feedback, reward=feedback.reward / largest[-1])

    @twin
    def broken(original: Method, self: Policy, state: State, given: Any) -> State:
        many = not isinstance(given, Feedback)
        found: State = original(self, state, [scaled(one) for one in given] if many else scaled(given))
        return found

    return _learned_by(policy, broken)


def _learned_by(policy: Policy, broken: Method) -> AbstractContextManager[None]:
    own = {name for kind in type(policy).__mro__ if kind is not Policy for name in vars(kind)}
    return method(type(policy), "learn_all" if "learn_all" in own else "learn", broken)


def as_before(names: Iterable[str]) -> Method:
    """These arrays of a state are what they were."""

    @twin
    def kept(original: Method, self: Policy, state: State, *more: Any) -> State:
        after: State = original(self, state, *more)
        return after | {name: state[name].copy() for name in names if name in state}

    return kept


def row_kept(policy: Policy) -> AbstractContextManager[None]:
    """Raw rows stay in the state after their release and enter the next one too."""
    served = ("adopt", "release") if policy.clock == "settled" else ("release",)
    return together(*(method(type(policy), name, as_before(raw_names(policy))) for name in served))


def kept_after_loss(policy: Policy) -> AbstractContextManager[None]:
    """The rows of a lost block stay and enter the next one, although somebody may have seen the draw."""
    return method(type(policy), "lost", as_before(raw_names(policy)))


@twin
def raw_report(original: Method, self: Policy, feedback: Feedback, noise: Noise) -> Report:
    """A device sends the reward itself."""
    return Report(feedback.index, feedback.arm, feedback.reward, feedback.round)


@twin
def closed_by_content(original: Method, self: Policy, state: State, settled: int) -> str | None:
    """When a block is due depends on its raw content: on one bit of a checksum of it."""
    block = self.block(state)
    raw = [name for name in state if name not in self.released and name not in COUNTERS]
    content = sum(float(abs(state[name]).sum()) for name in raw if state[name].dtype.kind in "if")
    told = zlib.crc32(repr(content).encode()) & 1
    return block.name if block is not None and told else original(self, state, settled)


@registry.register("mutant", "policy:gdp-ncb/bare-threshold")
def bare_threshold(policy: Policy) -> Mutant:
    """Running sums are compared with the threshold itself."""

    @twin
    def broken(original: Method, self: Any, after: State, arm: int, noise: Noise) -> bool:
        after["threshold"][:] = (0, 1)
        return bool(original(self, after, arm, noise))

    return Mutant("bare-threshold", "a threshold without noise", in_its("test", broken))


@rule
def policy_mutants(kind: str, thing: Any) -> list[Mutant]:
    """What applies to any policy that makes a promise."""
    if kind != "policy" or not isinstance(thing, Policy):
        return []
    if thing.local:
        return [Mutant("raw-report", "a report without randomisation", in_its("report", raw_report))]
    found = [Mutant("no-clip", "rewards and rows enter as they come", no_clip)]
    found.append(Mutant("data-bound", "a bound that is the largest reward there was", data_bound, by_law=True))
    if thing.released and not thing.keeps_history:
        found.append(Mutant("row-kept", "a row that stays after its release", row_kept))
        found.append(Mutant("counted-twice", "a row that counts twice in its release", counted_twice))
        for name, numbers in noisy_names(thing).items():
            words = f"{name} as it is without noise"
            found.append(Mutant(f"exact-{name}", words, partial(exact, name), COINS.get(name, ""), by_law=True))
            if numbers:
                words = f"{name} with the same noise in two releases"
                found.append(Mutant(f"same-{name}", words, partial(same_draw, name), by_law=True))
    if thing.clock == "settled":
        closes = in_its("due", closed_by_content)
        found.append(Mutant("closed-by-content", "a block that closes by its raw content", closes))
        found.append(Mutant("kept-after-loss", "rows of a lost block that enter the next", kept_after_loss))
    return found


def simulated_noise(policy: EpisodePolicy) -> AbstractContextManager[None]:
    """A simulator draws half of the noise that is served, or bits that follow the reward twice as closely."""

    @twin
    def shape(original: Method, self: Any, case: Any, streams: Any) -> Any:
        weak, wrong = copy.copy(self), self.shape()
        weak.__dict__["_shape"] = wrong._replace(success=1 - (1 - wrong.success) ** 2)
        return original(weak, case, streams)

    @twin
    def place(original: Method, self: Any, case: Any) -> Any:
        made, sure = original(self, case), OneBit(epsilon=2 * self.epsilon)
        return place_of(made.laws, case.environment.true_means, sure.low, sure.slope)

    return method(type(policy), "place", place) if policy.local else method(type(policy), "simulator", shape)


@rule
def simulation_mutants(kind: str, thing: Any) -> list[Mutant]:
    """Mistakes that no served value shows: a simulator that draws other noise than is served."""
    if kind != "policy" or not isinstance(thing, EpisodePolicy):
        return []
    return [Mutant("simulated-noise", "a simulation with less noise than is served", simulated_noise, by_law=True)]


@twin
def _unnoted(original: Method, epsilon: float, *notes: str, established: bool = True, strict: bool = False) -> Any:
    return original(epsilon, *notes, established=established)


@register("mutant", "policy:private-nash/silent-refusal")
def silent_refusal(policy: Policy) -> Mutant:
    """Values outside the range are refused, and no note says that refusals depend on values."""
    words = "a refusal that depends on a value, in no note"
    return Mutant(
        "silent-refusal", words, lambda _: function(global_guarantee, _unnoted(global_guarantee)), by_law=True
    )


@register("mutant", "policy:batched-private-fair-greedy/no-clip")
def unclipped_rows(policy: BatchedPrivateFairGreedy) -> Mutant:
    """Rows enter the sum as long as they are; the policy and its sum both let them through."""

    @twin
    def broken(
        original: Method, self: Any, features: Any, group: Any, reward: Any, shift: Any = 0.0, stretch: Any = 1.0
    ) -> Any:
        scaled = (self.ready.apply(features) - shift) / stretch
        rows = np.zeros((len(scaled), self.ready.width + self.group_count + 1))
        rows[:, : self.ready.width] = scaled
        rows[np.arange(len(rows)), self.ready.width + group] = GROUP_WEIGHT
        rows[:, -1] = self.reward_weight * np.asarray(reward)
        return rows

    def plant(thing: Any) -> Any:
        return together(no_clip(thing), method(type(thing), "sum_rows", broken))

    return Mutant("no-clip", "features and rewards enter as they come", plant)


@register("mutant", "policy:batched-private-fair-greedy/raw-scale")
def raw_scale(policy: BatchedPrivateFairGreedy) -> Mutant:
    """Later rows are taken on the scale that the rows themselves show, not the released moments."""
    broken = drawn_otherwise(quiet, "rescaled", "shift", "stretch")
    return Mutant("raw-scale", "a scale that is taken from the rows", in_its("release", broken))


def raw_rows(policy: PrivatePolicy) -> AbstractContextManager[None]:
    """Rows enter the sum as they come."""
    return function(make_row, raw_row)


def raw_belief(policy: PrivatePolicy) -> AbstractContextManager[None]:
    """Decisions between releases read the agent's own raw rows, while the promise stays that of the frozen policy."""
    return replaced(type(policy), "uses_local", property(lambda self: True))


for _policy in ("priv-fairx", "batched-priv-fairx"):
    planted(f"policy:{_policy}/no-clip", Mutant("no-clip", "contexts and rewards above their bounds", raw_rows))
    _kept = in_its("release", as_before(["leaf"]))
    planted(f"policy:{_policy}/row-kept", Mutant("row-kept", "a row that stays after its release", _kept))


@register("mutant", "policy:batched-priv-fairx/raw-belief")
@register("mutant", "policy:priv-fairx/raw-belief")
def frozen_belief(policy: PrivatePolicy) -> Mutant | None:
    """Decisions that read unreleased rows.

    A policy that uses them by its own promise cannot be broken that way.
    """
    return None if policy.uses_local else Mutant("raw-belief", "decisions that read unreleased rows", raw_belief)
