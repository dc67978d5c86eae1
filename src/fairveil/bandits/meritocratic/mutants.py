"""Privacy mistakes planted in batched-private-fair-greedy: rows that are not clipped, a scale read off the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fairveil.bandits.meritocratic.batched import BatchedPrivateFairGreedy
from fairveil.bandits.meritocratic.estimate import GROUP_WEIGHT
from fairveil.privacy.audit.mutants import Mutant, method, no_clip, together
from fairveil.privacy.noise import Noise, ZeroNoise
from fairveil.registry import register
from fairveil.state import State

Method = Callable[..., Any]


@register("mutant", "policy:batched-private-fair-greedy/no-clip")
def unclipped_rows(policy: BatchedPrivateFairGreedy) -> Mutant:
    """Rows enter the sum as long as they are; the policy and its sum both let them through."""

    def change(original: Method) -> Method:
        def broken(self: Any, features: Any, group: Any, reward: Any, shift: Any = 0.0, stretch: Any = 1.0) -> Any:
            scaled = (self.ready.apply(features) - shift) / stretch
            rows = np.zeros((len(scaled), self.ready.width + self.group_count + 1))
            rows[:, : self.ready.width] = scaled
            rows[np.arange(len(rows)), self.ready.width + group] = GROUP_WEIGHT
            rows[:, -1] = self.reward_weight * np.asarray(reward)
            return rows

        return broken

    def plant(thing: Any) -> Any:
        return together(no_clip(thing), method(type(thing), "sum_rows", change))

    return Mutant("no-clip", "features and rewards enter as they come", plant)


@register("mutant", "policy:batched-private-fair-greedy/raw-scale")
def raw_scale(policy: BatchedPrivateFairGreedy) -> Mutant:
    """Later rows are taken on the scale that the rows themselves show, not the released moments."""

    def change(original: Method) -> Method:
        def broken(self: Any, state: State, noise: Noise) -> State:
            after: State = original(self, state, noise)
            exact: State = original(self, state, ZeroNoise())
            return after | {name: exact[name] for name in ("rescaled", "shift", "stretch")}

        return broken

    words = "a scale that is taken from the rows"
    return Mutant("raw-scale", words, lambda thing: method(type(thing), "release", change))
