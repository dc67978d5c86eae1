"""Pairs of worlds in which service goes wrong: draws that are lost, states that come back, windows that change.

As in `fairveil.proof.pairs.nash` everything runs through the methods that serve people. An observer is given the
benefit of the doubt: they see a draw that was lost as well, because nobody knows who saw it before the crash.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from fairveil.arrays import Floats
from fairveil.bandits.environments.arms import UNIT
from fairveil.bandits.nash.anytime import INNER, NUMBER, SIZE, START, UNIFORM, Anytime
from fairveil.bandits.nash.episodes import EpisodePolicy
from fairveil.bandits.protocol import Feedback
from fairveil.privacy.noise import Noise, SeededNoise
from fairveil.proof import AuditPair
from fairveil.proof.pairs.nash import BLOCKS, FAR, block_pair, evidence, one_path, play_block, uniform_pair
from fairveil.randomness import Generator, generator
from fairveil.registry import register
from fairveil.state import State, load_state, nested, save_state

SMALL_WINDOW, WINDOW = 16, 1024
"""Windows of `anytime` that are looked at; all smaller ones have been passed."""


def recovered_pair(policy: EpisodePolicy, fate: str) -> AuditPair:
    """The first block is drawn and then the process dies: its value is ``stored`` and comes back, or it is ``lost``.

    The state is the one that was saved before the draw, its rewards are delivered once more, and the run goes on.
    """

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        coins, changed = generator(0, "coins"), 0.0 if world else FAR
        twin = copy.copy(policy)
        twin.__dict__["sum"] = policy.sum.many(trials)
        state, columns, total = twin.start(), list[Floats](), np.zeros(trials)
        for number in range(BLOCKS):
            state = play_block(twin, state, changed, coins)
            block, value = twin.block(state), twin.draw(state, noise)
            name = "" if block is None else block.name
            seen = value["total"] / UNIT
            columns.append(seen)
            total += evidence(seen, policy.sum.sigma / UNIT)
            state = load_state(save_state(state))
            state = twin.learn(state, Feedback(0, 0, changed))  # a queue delivers user 0 once more
            if fate == "lost" and number == 0:
                state = twin.lost(state, name)
            else:
                state = twin.adopt(state, name, one_path(value))
        return np.stack([*columns, total], axis=1)

    how = "drawn and lost" if fate == "lost" else "drawn, stored and put in after a restart"
    worlds = f"user 0's reward is {FAR:g} (clipped to 1) or 0; their block is {how}"
    return AuditPair(run, worlds, "all draws and their log-likelihood ratio", policy.epsilon)


@register("audit-pair", "policy:adap-ucb/stored")
@register("audit-pair", "policy:private-nash/stored")
def stored_pair(policy: EpisodePolicy) -> AuditPair:
    """A block is drawn before a crash and stored."""
    return recovered_pair(policy, "stored")


@register("audit-pair", "policy:adap-ucb/lost")
@register("audit-pair", "policy:private-nash/lost")
def lost_pair(policy: EpisodePolicy) -> AuditPair:
    """A block is drawn before a crash and lost."""
    return recovered_pair(policy, "lost")


class InWindow:
    """One window of `anytime`, told in the words of its inner policy; every step is one of `anytime` itself."""

    def __init__(self, outer: Anytime, size: int) -> None:
        self.outer, self.size = outer, size
        self.inner: Any = outer.window(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def _shown(self, state: State) -> dict[str, Any]:
        """The inner state, and the whole one beside it."""
        return {**nested(state, INNER), "outer": state}

    def start(self) -> dict[str, Any]:
        """After all smaller windows, whose users never answered."""
        state, coins = self.outer.start(), SeededNoise(0, "windows")
        while state["window"][SIZE] < self.size or state["window"][UNIFORM]:
            state = self.outer.release(state, coins)
        return self._shown(state)

    def two_windows(self, state: Any, noise: Noise) -> tuple[float, float, float]:
        """What the uniform phase of this window and of the next release about arm 0, and their likelihood ratio."""
        seen: list[float] = []
        while len(seen) < 2:
            exploring = bool(nested(state, INNER)["exploring"][0])
            after = self.outer.release(state, noise)
            if after["window"][NUMBER] == state["window"][NUMBER] and exploring:
                seen.append(float(nested(after, INNER)["sums"][0]) / UNIT)
            state = after
        return seen[0], seen[1], float(evidence(np.array(seen), self.inner.scale / UNIT).sum())

    def learn_all(self, state: dict[str, Any], feedbacks: Iterable[Feedback]) -> dict[str, Any]:
        first = int(state["outer"]["window"][START])
        shifted = [replace(feedback, index=feedback.index + first) for feedback in feedbacks]
        return self._shown(self.outer.learn_all(state["outer"], shifted))

    def release(self, state: dict[str, Any], noise: Noise) -> dict[str, Any]:
        return self._shown(self.outer.release(state["outer"], noise))


def in_window(policy: Anytime, make: Callable[[Any], AuditPair]) -> AuditPair:
    """A pair of the inner policy, told of one window of the outer one."""
    pair = make(InWindow(policy, WINDOW))
    return replace(pair, worlds=f"in the window of {WINDOW} rounds {pair.worlds}")


@register("audit-pair", "policy:anytime")
def anytime_pair(policy: Anytime) -> AuditPair:
    """A reward of the uniform phase of one window, after all the windows before it, through `anytime` itself."""
    return in_window(policy, uniform_pair)


@register("audit-pair", "policy:anytime/windows")
def next_window(policy: Anytime) -> AuditPair:
    """A reward of one window, as the end of its uniform phase and that of the next window show it."""
    inside = InWindow(policy, SMALL_WINDOW)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        state = inside.learn_all(inside.start(), [Feedback(0, 0, 0.0 if world else FAR)])
        return np.array([inside.two_windows(state["outer"], noise) for _ in range(trials)])

    words = f"in a window of {SMALL_WINDOW} rounds a reward is {FAR:g} (clipped to 1) or 0; nobody else answers"
    statistic = "the released sum of arm 0 in this window and in the next, and their log-likelihood ratio"
    return AuditPair(run, words, statistic, inside.inner.epsilon, trials=4_000)


@register("audit-pair", "policy:anytime/block")
def block_in_window(policy: Anytime) -> AuditPair:
    """A reward of the first block after the uniform phase of one window, through `anytime` itself."""
    return in_window(policy, block_pair)
