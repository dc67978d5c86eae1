"""The bandit protocol: a policy is public configuration, its state is a value.

One round: the world shows a `Round`; `decide` picks an arm; later, or never, a `Feedback` arrives and `learn` takes it.
When `due` names a block, the caller charges the ledger for it and calls `release`: only there noise meets data.
If a charged release was lost (the process died between charge and publication) the caller calls `lost` instead.

    state = policy.start()
    for t in range(rounds):
        decision = policy.decide(state, Round(t), rng)
        state = policy.learn(state, Feedback(t, decision.arm, reward))      # whenever it arrives
        while (block := policy.due(state, t + 1)) is not None:
            state = policy.release(state, noise)

Rounds are numbered 0, 1, 2, ... by decisions, which are public. The caller delivers each round's feedback at most once.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairveil.errors import PrivacyError
from fairveil.privacy.events import Event, NothingEvent
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator

State = dict[str, NDArray[Any]]
"""Plain arrays under fixed names: saving, replaying and vectorising need nothing else."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One person or item that can be chosen in a round: a group label (an index) and features (not in its repr)."""

    group: int
    features: NDArray[np.float64] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Round:
    """What a policy sees before it decides. ``candidates`` is empty for plain arms; arm i is candidate i."""

    index: int
    candidates: tuple[Candidate, ...] = ()
    agent: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """The arm, the probability with which it was chosen given the state, and the whole law where the policy has one."""

    arm: int
    propensity: float = 1.0
    probabilities: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class Feedback:
    """What came back for round ``index``: the reward of the chosen arm (not in its repr: people log reprs).

    ``round`` repeats what was shown, if needed.
    """

    index: int
    arm: int
    reward: float = field(repr=False)
    round: Round | None = None


class Policy(ABC):
    """Base of all policies; subclasses are frozen public configurations (see `fairveil.configuration`)."""

    name: ClassVar[str] = ""
    family: ClassVar[str] = ""
    horizon_free: ClassVar[bool] = True
    keeps_history: ClassVar[bool] = False
    """Decisions read the raw history by definition: memory grows with rounds, and no ledger can store the state."""
    released: ClassVar[tuple[str, ...]] = ()
    """The state arrays that hold only released values and public counters: what a ledger may store of a release."""
    seals: ClassVar[tuple[str, ...]] = ()
    """The state arrays in which `decide` notes which question the noise of a round has answered."""

    def event(self) -> Event:
        """What the whole run costs, before any data."""
        return NothingEvent()

    def guarantee(self) -> Guarantee | None:
        """The promise, None when there is none."""
        return None

    @abstractmethod
    def start(self) -> State:
        raise NotImplementedError

    @abstractmethod
    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        """Pure: neither the state nor anything else changes, except for seals.

        A policy whose state holds noise for a single question seals it with the first one, and refuses another.
        """
        raise NotImplementedError

    def report(self, feedback: Feedback, noise: Noise) -> Feedback:
        """Local policies randomise the reward here, on the user's side; the learner sees the report only."""
        return feedback

    @abstractmethod
    def learn(self, state: State, feedback: Feedback) -> State:
        """A new state that has taken the feedback in. The given state is not changed."""
        raise NotImplementedError

    def due(self, state: State, now: int) -> str | None:
        """The id of the release that is due when ``now`` rounds have been decided, None if none is."""
        return None

    def release(self, state: State, noise: Noise) -> State:
        """Make the release that is due: draw its noise, publish into the state, forget the raw block."""
        raise PrivacyError("this policy releases nothing", given=self.name)

    def lost(self, state: State, block: str) -> State:
        """The release was charged but its value is gone: drop the raw block and go on without it."""
        raise PrivacyError("this policy releases nothing", given=self.name)


def copy_state(state: State) -> State:
    return {name: array.copy() for name, array in state.items()}


def save_state(state: State) -> bytes:
    """A state as bytes (npz). `load_state` gives it back exactly."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **state)
    return buffer.getvalue()


def load_state(data: bytes) -> State:
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def settle(policy: Policy, state: State, now: int, noise: Noise) -> State:
    """Make every release that is due."""
    while policy.due(state, now) is not None:
        state = policy.release(state, noise)
    return state
