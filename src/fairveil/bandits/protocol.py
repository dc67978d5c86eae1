"""The bandit protocol: a policy is public configuration, its state is a value.

One round: `open` opens the block that will hold it; the world shows a `Round`; `decide` picks an arm; later, or never,
a `Feedback` arrives and `learn` takes it (a local policy takes the `Report` that `report` made of it for the user).
When `due` names a block, the caller charges the ledger for it and calls `release`: only there noise meets data.
If a charged release was lost (the process died between charge and publication) the caller calls `lost` instead.

    state = policy.start()
    for t in range(rounds):
        state = policy.open(state, t, rng)
        decision = policy.decide(state, Round(t), rng)
        state = policy.learn(state, policy.report(Feedback(t, decision.arm, reward), noise))
        while policy.due(state, t + 1) is not None:
            state = policy.release(state, noise)

Rounds are numbered 0, 1, 2, ... by decisions, which are public. Policies live on one of three clocks:

- ``decided``: feedback is learned when it arrives, in any order, each round at most once (`fairveil.bandits.feedback`
  has the drivers' check), and ``due`` takes the number of decided rounds;
- ``settled``: a round is settled when its reward is in or can come no more. Every round is handed over once, in the
  order of rounds, when it is settled, answered or not (reward None), and only when all older blocks are released;
  ``due`` takes the number of settled rounds. A state then holds raw content of one block at a time;
- ``arrived``: every round is handed over once, when its reward is in (where arrivals are public) or its window has
  closed, in any order of rounds. Its reward joins the release that is open for its arm (`fairveil.bandits.nash.
  arrivals`); ``due`` takes the number of decided rounds.

Without delay these numbers are the same and the loop above serves all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from fairveil import registry
from fairveil.arrays import Floats, Ints
from fairveil.bandits.estimates import CONFIDENCE, Estimates, check_confidence
from fairveil.bandits.quotes import Noisy, Quote, smallest_limit, warnings_of
from fairveil.configuration import unless
from fairveil.errors import InputError, PrivacyError
from fairveil.privacy.events import Event, NothingEvent
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.state import State

if TYPE_CHECKING:
    from fairveil.bandits.quotes import TrialPlan
    from fairveil.bandits.simulate import Case, Simulator, Streams

Clock = Literal["decided", "settled", "arrived"]
HEADER = "header"
"""Name under which the numbers of a released block carry its arm, first and stop round; or arm, from, to, reach."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One person or item that can be chosen in a round: a group label (an index) and features (not in its repr)."""

    group: int
    features: Floats = field(repr=False)


@dataclass(frozen=True, slots=True)
class Round:
    """What a policy sees before it decides. ``candidates`` is empty for plain arms; arm i is candidate i."""

    index: int
    candidates: tuple[Candidate, ...] = ()
    agent: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """The arm, the probability with which it was chosen, and the whole law where the policy has one.

    ``propensity`` is the true one: 1/m where a coin decided between m arms, 1 where nothing was left to chance.
    ``symmetric``: before the first coin was thrown every arm was equally likely to stand here, whatever the data, so a
    simulator may count the round at the mean over arms.
    """

    arm: int
    propensity: float = 1.0
    probabilities: Floats | None = None
    symmetric: bool = False


@dataclass(frozen=True, slots=True)
class Feedback:
    """What came back for round ``index``: the reward of the chosen arm (not in its repr: people log reprs).

    ``reward`` is None for a round that has settled without an answer. ``round`` repeats what was shown, if needed.
    """

    index: int
    arm: int
    reward: float | None = field(repr=False)
    round: Round | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What a user's device sends to a local policy for round ``index``: the reward after randomisation, never before.

    Made by the policy's `report`; ``value`` is None for a round that has settled without a report.
    """

    index: int
    arm: int
    value: float | None = field(repr=False)
    round: Round | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """Rounds [first, stop) that are released together; ``arm`` is -1 where a block holds several arms.

    Of a release by arrival: seats [first, stop) of its arm, and ``reach``, a public number of rounds behind which every
    round of the release lies.
    """

    name: str
    first: int
    stop: int
    arm: int = -1
    reach: int | None = None

    @property
    def header(self) -> Ints:
        return np.array([self.arm, self.first, self.stop, *([] if self.reach is None else [self.reach])], np.int64)


class Policy(ABC):
    """Base of all policies; subclasses are frozen public configurations (see `fairveil.configuration`)."""

    name: ClassVar[str] = ""
    family: ClassVar[str] = ""
    local: ClassVar[bool] = False
    """Users randomise their own rewards: `learn` takes a `Report` and refuses a raw `Feedback`."""
    arms: int | None = unless(None)
    """Declared arms; None for a policy that chooses between the candidates of each round."""
    agents: int = unless(1)
    """Agents that learn together."""
    horizon: int | None = unless(None)
    """Rounds for which it is made, None where it needs no such number."""
    horizon_free: ClassVar[bool] = True
    released_by: Any = unless("blocks")
    """What is released together: what came since the last release (arrivals), or a stretch of decisions (blocks)."""
    keeps_history: ClassVar[bool] = False
    """Decisions read the raw history by definition: memory grows with rounds, and no ledger can store the state."""
    closes_arms: ClassVar[bool] = False
    """Arms can be closed, and published numbers taken over by other arms (`fairveil.bandits.nash.closing`)."""
    counts_rows: ClassVar[bool] = False
    """The number of rows in a release is published as it is."""
    strict: Any = unless(False)
    """A reward outside its range is refused instead of clipped."""
    totals: Any = unless(None)
    """``public`` where the number of candidates in a release is published as it is; None where none is released."""
    seals: ClassVar[tuple[str, ...]] = ()
    """The state arrays in which `decide` notes which question the noise of a round has answered."""

    @property
    def clock(self) -> Clock:
        """When feedback is learned and what `due` counts (see above)."""
        return "decided"

    @property
    def released(self) -> tuple[str, ...]:
        """The state arrays that hold only released values and public counters: what a ledger may store of a release."""
        return ()

    def event(self) -> Event:
        """What the whole run costs, before any data."""
        return NothingEvent()

    def guarantee(self) -> Guarantee | None:
        """The promise, None when there is none."""
        return None

    @cached_property
    def promise(self) -> Guarantee | None:
        """The guarantee, made once: a policy is a value."""
        return self.guarantee()

    @property
    def hides_arrivals(self) -> bool:
        """The number of rewards is released with noise, so whether one arrived may be private."""
        return False

    @property
    def by_seat(self) -> bool:
        """Settled clock: rounds are handed over in the order in which they settle, under their seats in that order."""
        return bool(self.released_by == "arrivals")

    @property
    def uses_local(self) -> bool:
        """Decisions of an agent read its own raw rows, not releases alone."""
        return False

    def expected_reward(self, state: State, arm: int) -> float:
        """What published numbers let one expect of a reward of an arm, in [0, 1]; one half where they say nothing."""
        return 0.5

    @abstractmethod
    def start(self) -> State:
        raise NotImplementedError

    def open(self, state: State, now: int, rng: Generator) -> State:
        """Open the block that will hold round ``now``, before it is decided; reads public numbers and coins only."""
        return state

    @abstractmethod
    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        """Pure: neither the state nor anything else changes, except for seals.

        A policy whose state holds noise for a single question seals it with the first one, and refuses another.
        """

    def report(self, feedback: Feedback, noise: Noise) -> Feedback | Report:
        """Local policies randomise the reward here, on the user's side; the learner sees the report only."""
        return feedback

    @abstractmethod
    def learn(self, state: State, feedback: Feedback | Report) -> State:
        """A new state that has taken the feedback in. The given state is not changed."""

    def learn_all(self, state: State, feedbacks: Iterable[Feedback | Report]) -> State:
        """The same as `learn` one by one; policies override it where many rows at once are cheaper."""
        for feedback in feedbacks:
            state = self.learn(state, feedback)
        return state

    def block(self, state: State) -> Block | None:
        """The oldest open block of a policy on the settled clock, None while none is open."""
        return None

    def open_blocks(self, state: State) -> list[Block]:
        """Every block whose rounds are fixed, oldest first; releasing or losing one leaves the others as they are."""
        block = self.block(state)
        return [] if block is None else [block]

    def reach(self, state: State) -> int:
        """The first round that no block holds yet; 0 for a schedule that is fixed in advance.

        A policy whose `open` opens blocks one after the other says so here, also when none of them is open.
        """
        return 0

    def releases_at(self, most: int) -> list[int]:
        """The rounds at which the first releases fall, at most so many, where the schedule is fixed in advance."""
        return []

    def reopen(self, state: State, block: Block) -> State:
        """Open the next block as a stored release says that it was; nothing to do where the schedule is fixed."""
        return state

    def due(self, state: State, settled: int) -> str | None:
        """The name of the release that is due at this number of settled (or decided) rounds, None if none is."""
        block = self.block(state)
        return block.name if block is not None and block.stop <= settled else None

    def draw(self, state: State, noise: Noise) -> State:
        """The numbers of the block that is due, with their noise: what a ledger stores of its release."""
        after = self.release(state, noise)
        return {name: after[name] for name in self.released}

    def adopt(self, state: State, block: str, value: State) -> State:
        """Put drawn numbers in: of a release just made, after a crash, or made beside decisions."""
        return {**self.lost(state, block), **value}

    def release(self, state: State, noise: Noise) -> State:
        """Make the release that is due: draw its noise, publish into the state, forget the raw block."""
        raise PrivacyError("this policy releases nothing", given=self.name)

    def lost(self, state: State, block: str) -> State:
        """The release was charged but its value is gone: drop the raw block and go on without it."""
        raise PrivacyError("this policy releases nothing", given=self.name)

    def noises(self) -> tuple[Noisy, ...]:
        """The noise of each kind of release, from public numbers alone."""
        return ()

    def assumptions(self) -> tuple[str, ...]:
        """What its estimates rest on beside the data, in words: declared and never checked."""
        return ()

    def quote(self, rounds: int | None = None, people: int | None = None) -> Quote:
        """What this policy costs and how noisy it is, before any data; `fairveil quote` adds a quick simulation.

        ``rounds``: how long it will run; ``people``: how many take part, if not one a round.
        """
        promise, noise = self.guarantee(), self.noises()
        found = warnings_of(promise, noise, rounds, people)
        planned = None if self.horizon_free else self.horizon
        if rounds is not None and planned is not None and rounds > planned:
            found.append(f"it is built for {planned:,} rounds and refuses to decide after them")
        table = None if promise is None else promise.to_dict()
        return Quote(self.name, table, smallest_limit(self), noise, tuple(found), assumes=self.assumptions())

    def plan(
        self,
        guess: Any,
        runs: int = 400,
        *,
        people: int,
        difference: float = 0.15,
        chance: float = 0.8,
        level: float = CONFIDENCE,
        silence: Literal["any", "independent"] = "any",
        feedback: Mapping[str, Any] | None = None,
        names: Sequence[str] | None = None,
        say: Callable[[str], None] | None = None,
    ) -> TrialPlan:
        """What so many people may expect, simulated on a declared guess: people on each arm, who gets a worse one, how
        surely the best arm is named and separated, by budget and by number of people.

        ``guess``: means by name, a list of means, or an environment's table; ``difference``, ``chance``: how many
        people separate such a lead so often; ``level``, ``silence``: of the stopping rule; ``feedback``: late and
        missing rewards as in a spec; ``say`` hears of every run. Cost: nothing, no data are read.
        """
        family = registry.get("family", self.family or "nash")()
        made: TrialPlan = family.plan(
            self, guess, runs, people=people, difference=difference, wanted=chance, level=level, silence=silence,
            feedback=feedback, names=names, say=say,
        )  # fmt: skip
        return made

    def restored(self, releases: Iterable[tuple[str, State | None]]) -> State:
        """The state that a ledger's releases lead to (None: charged and lost), enough for `estimates`."""
        state = self.start()
        for block, value in releases:
            if self.clock == "settled":
                state = self.lost(state, block) if value is None else self.adopt(state, block, value)
            elif value is not None:
                state = {**state, **value}
        return state

    def estimates(self, state: State, confidence: float = CONFIDENCE) -> Estimates:
        """What the releases in a state say, with intervals: post-processing, so it costs nothing.

        Reads the arrays named in ``released`` alone. Empty for a policy that publishes decisions and nothing else.
        """
        return Estimates((), check_confidence(confidence), notes=("this policy publishes decisions and nothing else",))

    def simulator(self, case: Case, streams: Streams) -> Simulator[Any] | None:
        """This policy's compiled simulator for a case, None where the step API plays it."""
        return None


def drawn_evenly(arms: int, rng: Generator) -> Decision:
    """Any of the arms with the same chance."""
    law = np.full(arms, 1.0 / arms)
    return Decision(int(rng.integers(0, arms)), 1.0 / arms, law, symmetric=True)


def raw_feedback(feedback: Feedback | Report) -> Feedback:
    """What a policy with a curator learns; a report of a local policy is refused."""
    if isinstance(feedback, Feedback):
        return feedback
    raise InputError(
        "this policy learns rewards, not reports",
        path="feedback",
        given=type(feedback).__name__,
        allowed="Feedback",
        fix="report is for local policies",
    )


def check_header(block: Block | None, name: str, value: State) -> Block:
    """The open block that stored numbers belong to; numbers of another block, arm or range of rounds are refused."""
    if block is None or block.name != name or not np.array_equal(value.get(HEADER, ()), block.header):
        raise PrivacyError(
            "the stored release belongs to another block",
            path="block",
            given=name,
            allowed="the oldest open block, with the arm and the rounds it was opened with",
            fix="this state is not the one whose blocks the ledger holds: load that one, or use another account",
        )
    return block


def settle(policy: Policy, state: State, settled: int, noise: Noise) -> State:
    """Make every release that is due."""
    while policy.due(state, settled) is not None:
        state = policy.release(state, noise)
    return state
