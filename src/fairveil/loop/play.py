"""How a loop asks its policy: declared arms, or candidates that come with each request."""

from __future__ import annotations

import struct
from typing import NamedTuple, Protocol

import numpy as np

from fairveil.bandits.protocol import Candidate, Decision, Feedback, Policy, Report, Round
from fairveil.loop.ask import Ask
from fairveil.randomness import Generator
from fairveil.state import State

_HEADER = struct.Struct("<HHH")


class Choice(NamedTuple):
    """An action, its probability, and whether the policy may learn the round (``reason`` when not)."""

    action: int
    propensity: float
    learned: bool
    reason: str | None = None


class Play(Protocol):
    """The two kinds of loops. ``own`` is what the policy would do, before exploration and exclusion."""

    def choose(self, state: State, round: int, ask: Ask, rng: Generator) -> tuple[Choice, int]: ...

    def taken(self, state: State, round: int, ask: Ask, action: int, rng: Generator) -> tuple[Choice, int]:
        """The same when somebody else decided: may the policy learn what was taken?"""

    def context(self, ask: Ask, action: int) -> bytes | None:
        """What must be kept of the round until its block is released."""

    def feedback(self, round: int, action: int, reward: float | None, context: bytes | None) -> Feedback | Report: ...


class ArmsPlay:
    """Arms: every round of a block has the block's arm; another arm is never learned."""

    def __init__(self, policy: Policy, explore: float) -> None:
        self.policy, self.explore = policy, explore
        self.arms: int = policy.arms  # type: ignore[attr-defined]

    def choose(self, state: State, round: int, ask: Ask, rng: Generator) -> tuple[Choice, int]:
        decision = self.policy.decide(state, Round(round), rng)
        arm, share = decision.arm, self.explore
        if share == 0.0 and ask.allowed is None:
            return Choice(arm, decision.propensity, True), arm
        left = range(self.arms) if ask.allowed is None else ask.allowed
        permitted = ask.permits(arm)
        if rng.random() < share or not permitted:
            action = int(left[int(rng.integers(len(left)))])
        else:
            action = arm
        own = (_law(decision, action, self.arms) if permitted else 1.0 / len(left)) * (1.0 - share)
        reason = None if action == arm else ("explored" if permitted else "excluded")
        return Choice(action, own + share / len(left), action == arm, reason), arm

    def taken(self, state: State, round: int, ask: Ask, action: int, rng: Generator) -> tuple[Choice, int]:
        arm = self.policy.decide(state, Round(round), rng).arm
        return Choice(action, 1.0, action == arm, None if action == arm else "baseline"), arm

    def context(self, ask: Ask, action: int) -> bytes | None:
        return None

    def context_of(self, shown: tuple[Candidate, ...], pick: int) -> bytes | None:
        return None

    def feedback(self, round: int, action: int, reward: float | None, context: bytes | None) -> Feedback | Report:
        if self.policy.local:
            return Report(round, action, reward)
        return Feedback(round, action, reward)


class CandidatesPlay:
    """Candidates: the policy learns the row of whoever was chosen, also when a coin or the caller chose."""

    def __init__(self, policy: Policy, explore: float) -> None:
        self.policy, self.explore = policy, explore

    def choose(self, state: State, round: int, ask: Ask, rng: Generator) -> tuple[Choice, int]:
        decision = self.policy.decide(state, Round(round, ask.shown), rng)
        place = pick = decision.arm
        propensity = decision.propensity
        if self.explore > 0.0:
            if rng.random() < self.explore:
                pick = int(rng.integers(len(ask.shown)))
            own = _law(decision, pick, len(ask.shown))
            propensity = (1.0 - self.explore) * own + self.explore / len(ask.shown)
        if ask.allowed is None:
            return Choice(pick, propensity, True), place
        return Choice(ask.allowed[pick], propensity, True), ask.allowed[place]

    def taken(self, state: State, round: int, ask: Ask, action: int, rng: Generator) -> tuple[Choice, int]:
        place = self.policy.decide(state, Round(round, ask.shown), rng).arm
        return Choice(action, 1.0, True), place if ask.allowed is None else ask.allowed[place]

    def context(self, ask: Ask, action: int) -> bytes | None:
        return self.context_of(ask.shown, action if ask.allowed is None else ask.allowed.index(action))

    def context_of(self, shown: tuple[Candidate, ...], pick: int) -> bytes:
        groups = np.array([one.group for one in shown], np.int16)
        head = _HEADER.pack(len(shown), len(shown[0].features), pick)
        return b"".join([head, groups.tobytes(), *(one.features.tobytes() for one in shown)])

    def feedback(self, round: int, action: int, reward: float | None, context: bytes | None) -> Feedback | Report:
        if context is None:  # erased on request or by retention: the round settles as if nobody had answered
            return Feedback(round, 0, None, None)
        count, width, pick = _HEADER.unpack_from(context)
        groups = np.frombuffer(context, np.int16, count, _HEADER.size)
        rows = np.frombuffer(context, np.float64, offset=_HEADER.size + 2 * count).reshape(count, width)
        shown = tuple(Candidate(int(group), row) for group, row in zip(groups, rows, strict=True))
        return Feedback(round, pick, reward, Round(round, shown))


def play_of(policy: Policy, explore: float) -> ArmsPlay | CandidatesPlay:
    if policy.family in ("meritocratic", "exposure"):
        return CandidatesPlay(policy, explore)
    return ArmsPlay(policy, explore)


def _law(decision: Decision, action: int, count: int) -> float:
    """The policy's own probability of an action."""
    if decision.probabilities is not None:
        return float(decision.probabilities[action])
    return decision.propensity if action == decision.arm else 0.0
