"""How a loop asks its policy, and what it hands it: declared arms, or candidates that come with each request.

A coin of the loop's own that explores takes no round. Whether a request takes one must not depend on who sends it and
what it excludes: rounds are public, and blocks are counted in them.

An event over its person's limit, of somebody who keeps an arm, or that excludes the arm of its turn, keeps its round,
and nothing public may tell it from any other. At the release a public number stands in the place of its reward: what
the published numbers let one expect of that arm, and one half of the range before anything is published. So a row moves
by at most the width of the range, as any other reward, and estimates are drawn to nothing but themselves. Where
arrivals are public its reward is *answered* when it comes: it takes its seat at that moment, and its value is dropped
at the door. Where they are hidden the number stands there whether or not one came. Among candidates the stand-in is a
row of zeros, which adds nothing to a sum: counted where a policy counts rows exactly, left out where it does not.
"""

from __future__ import annotations

import contextlib
import copy
import struct
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.bandits.nash.closing import left_of
from fairveil.bandits.protocol import Block, Candidate, Decision, Feedback, Policy, Report, Round
from fairveil.errors import FairveilError
from fairveil.loop.events import NEVER, OF_ITS_CONTENT, Event
from fairveil.loop.guards import Guards, Thrown
from fairveil.loop.problems import Invalid
from fairveil.loop.requests import Ask
from fairveil.privacy.noise import SecureNoise, SeededNoise
from fairveil.randomness import Generator, generator
from fairveil.state import State

if TYPE_CHECKING:
    from fairveil.loop.batch import Batch
    from fairveil.loop.facts import Facts

_HEADER = struct.Struct("<HHH")


@runtime_checkable
class ByArrival(Protocol):
    """What a policy on the clock of arrivals can do for whoever keeps its rewards (`fairveil.bandits.nash.waiting`)."""

    def counted(self, state: State, came: Ints, closed: Ints, rounds: int) -> State: ...

    def alone(self, state: State, block: Block) -> State: ...

    def gather(self, state: State, feedbacks: Iterable[Feedback | Report]) -> State: ...

    def released_behind(self, state: State, block: Block, value: State | None) -> State: ...

    def begun_again(self, state: State, at: int) -> State: ...


@runtime_checkable
class ByMerit(Protocol):
    """A policy that shows in proportion to merit (`fairveil.bandits.exposure`): what it owes by what is published."""

    def deserved(self, state: State, agent: int, contexts: Floats) -> Floats: ...


class Choice(NamedTuple):
    """An action, its probability, what the policy itself would have done, and why the round is not learned (or None).

    ``own`` is its action before exploration, exclusion and anybody else's choice; ``drawn``: what the loop's own coins
    chose among; ``takes``: whether a request that excludes nothing, of somebody who is not known, takes a round here;
    ``law``: the chances of all candidates, where the policy has them.
    """

    action: int
    propensity: float
    own: int
    reason: str | None = None
    drawn: Thrown | None = None
    takes: bool = True
    law: Floats | None = None


class ArmsPlay:
    """Arms: every round of a block has the block's arm; another arm is never learned."""

    def __init__(self, policy: Policy, arms: int, guards: Guards) -> None:
        self.policy, self.arms, self.guards = policy, arms, guards

    def choose(self, state: State, round: int, ask: Ask, rng: Generator, burning: bool = False) -> Choice:
        """A decision; ``burning``: while a burn-in lasts, equal shares."""
        decision = self.policy.decide(state, Round(round), rng)
        arm, guards = decision.arm, self.guards
        share = 1.0 if burning else guards.uniform
        held = guards.held if guards.holdout is not None and ask.permits(guards.holdout) else 0.0
        if share == 0.0 and held == 0.0 and ask.allowed is None:
            return Choice(arm, decision.propensity, arm)
        left = range(self.arms) if ask.allowed is None else ask.allowed
        permitted = ask.permits(arm)
        if held > 0.0 and rng.random() < held:
            action, reason = guards.holdout or 0, "holdout"
        elif rng.random() < share or not permitted:
            action, reason = int(left[int(rng.integers(len(left)))]), _why(permitted, burning)
        else:
            action, reason = arm, ""
        # an arm that may not be chosen is exchanged for any of those that may, with equal probability
        law = np.zeros(self.arms)
        law[list(left)] = (share if permitted else 1.0) / len(left)
        law[arm] += 1.0 - share if permitted else 0.0
        law *= 1.0 - held
        law[guards.holdout or 0] += held
        refused = 1.0 - sum(_law(decision, one) for one in left)
        own = (1.0 - share) * (_law(decision, action) + refused / len(left)) + share / len(left)
        propensity = (1.0 - held) * own + (held if action == guards.holdout else 0.0)
        return Choice(action, propensity, arm, None if action == arm else reason, Thrown(law, action))

    def taken(self, state: State, round: int, ask: Ask, action: int, rng: Generator) -> Choice:
        """The same when somebody else decided: may the policy learn what was taken?"""
        arm = self.policy.decide(state, Round(round), rng).arm
        return Choice(action, 1.0, arm, None if action == arm else "baseline")

    def context(self, ask: Ask, action: int) -> bytes | None:
        """What must be kept of the round until its block is released."""
        return None

    def people(self, width: int) -> str:
        """In SQL, of how many people a learned event ``e`` holds content; ``width``: features of each."""
        return "1"

    def feedback(self, round: int, action: int, reward: float | None, context: bytes | None) -> Feedback | Report:
        if self.policy.local:
            return Report(round, action, reward)
        return Feedback(round, action, reward)


class CandidatesPlay:
    """Candidates: the policy learns the row of whoever was chosen, also when a coin or the caller chose."""

    def __init__(self, policy: Policy, guards: Guards) -> None:
        self.policy, self.guards = policy, guards

    def choose(self, state: State, round: int, ask: Ask, rng: Generator, burning: bool = False) -> Choice:
        decision = self.policy.decide(state, Round(round, ask.shown), rng)
        place = pick = decision.arm
        propensity, share, drawn = decision.propensity, 1.0 if burning else self.guards.uniform, None
        law = decision.probabilities
        if share > 0.0:
            explored = rng.random() < share
            if explored:
                pick = int(rng.integers(len(ask.shown)))
            propensity = (1.0 - share) * _law(decision, pick) + share / len(ask.shown)
            law = None if law is None else (1.0 - share) * law + share / len(ask.shown)
            drawn = Thrown(np.array([1.0 - share, share]), int(explored))
        if ask.allowed is None:
            return Choice(pick, propensity, place, None, drawn, law=law)
        return Choice(ask.allowed[pick], propensity, ask.allowed[place], None, drawn, law=law)

    def taken(self, state: State, round: int, ask: Ask, action: int, rng: Generator) -> Choice:
        place = self.policy.decide(state, Round(round, ask.shown), rng).arm
        return Choice(action, 1.0, place if ask.allowed is None else ask.allowed[place])

    def context(self, ask: Ask, action: int) -> bytes | None:
        return self.context_of(ask.shown, ask.place(action))

    def context_of(self, shown: tuple[Candidate, ...], pick: int) -> bytes:
        groups = np.array([one.group for one in shown], np.int16)
        head = _HEADER.pack(len(shown), len(shown[0].features), pick)
        return b"".join([head, groups.tobytes(), *(one.features.tobytes() for one in shown)])

    def people(self, width: int) -> str:
        return f"(length(e.context) - {_HEADER.size}) / {2 + 8 * width}"

    def feedback(self, round: int, action: int, reward: float | None, context: bytes | None) -> Feedback | Report:
        if context is None:  # erased on request or by retention: the round settles as if nobody had answered
            return Feedback(round, 0, None, None)
        count, width, pick = _HEADER.unpack_from(context)
        groups = np.frombuffer(context, np.int16, count, _HEADER.size)
        rows = np.frombuffer(context, np.float64, offset=_HEADER.size + 2 * count).reshape(count, width)
        shown = tuple(Candidate(int(group), row) for group, row in zip(groups, rows, strict=True))
        return Feedback(round, pick, reward, Round(round, shown))


def play_of(policy: Policy, guards: Guards) -> ArmsPlay | CandidatesPlay:
    return CandidatesPlay(policy, guards) if policy.arms is None else ArmsPlay(policy, policy.arms, guards)


def _why(permitted: bool, burning: bool) -> str:
    """Why an arm that is not the policy's own was taken by equal chance."""
    return "burn-in" if burning else "explored" if permitted else "excluded"


def _law(decision: Decision, action: int) -> float:
    """The policy's own probability of an action; without its whole law, what it has chosen is taken as given."""
    if decision.probabilities is not None:
        return float(decision.probabilities[action])
    return 1.0 if action == decision.arm else 0.0


# Ready before the first person asks -----------------------------------------------------------------------------------


def warm_noise() -> None:
    """Draw secure noise for nobody: its library takes seconds to load, which the first release should not wait for."""
    source = SecureNoise()
    source.laplace(1.0)
    source.gaussian(1.0)


def warm(facts: Facts) -> None:
    """Decide, learn, draw and adopt on made-up rows of a state that is thrown away, so that compiled code is ready.

    Takes seconds on a cold machine.
    """
    if not facts.spec.simulated:
        warm_noise()
    policy, rng = facts.policy, generator(0, "warm")
    shown: tuple[Candidate, ...] = ()
    if isinstance(facts.play, CandidatesPlay):
        width = len(facts.spec.features or ())
        shown = tuple(Candidate(0, np.full(width, 0.1 * place)) for place in range(2))
    with contextlib.suppress(FairveilError):  # what does not fit shows when somebody asks
        state = policy.open(policy.start(), 0, rng)
        arm = policy.decide(state, Round(0, shown), rng).arm
        block, learn = policy.block(state), policy.learn_all
        if facts.arrived is not None:
            block, learn = Block(f"{arm}-0-1", 0, 1, arm, 1), facts.arrived.gather
            state = facts.arrived.alone(state, block)
        if block is None:
            return
        context = facts.play.context_of(shown, arm) if isinstance(facts.play, CandidatesPlay) else None
        full = learn(state, [facts.play.feedback(0, arm, facts.default, context)])
        after = policy.adopt(state, block.name, policy.draw(full, SeededNoise(0)))
        policy.decide(policy.open(after, block.stop, rng), Round(block.stop, shown), rng)


# By the loop's own coins ----------------------------------------------------------------------------------------------


def without_closed(batch: Batch, ask: Ask) -> Ask:
    """The request with the arms that are not closed."""
    left = left_of(batch.state)
    if left is None:
        return ask
    allowed = tuple(arm for arm in left.tolist() if ask.permits(arm))
    if not allowed:
        raise Invalid("every action is excluded or closed", path="exclude", allowed="at least one action left")
    return replace(ask, allowed=allowed)


def _free(batch: Batch, ask: Ask) -> Ask:
    """The request if it excluded nothing."""
    return ask if ask.allowed is None else without_closed(batch, replace(ask, allowed=None))


def own_choice(batch: Batch, ask: Ask, at: int) -> Choice:
    """The choice of the loop's own coins. The same coins, thrown for a request that excludes nothing, say whether it
    takes a round; one that cannot be learned then counts as a missing reward."""
    facts = batch.facts
    burning = facts.guards.burn_in > 0 and batch.serving.decided < facts.guards.burn_in
    free = _free(batch, ask)
    if facts.policy.arms is None or not facts.keeps_rounds or ask.allowed == free.allowed:
        choice = facts.play.choose(batch.at_state, at, ask, batch.rng, burning)
        return choice._replace(takes=choice.reason is None)
    coins = copy.deepcopy(batch.rng)
    choice = facts.play.choose(batch.at_state, at, ask, batch.rng, burning)
    anybody = facts.play.choose(batch.at_state, at, free, coins, burning)
    takes, reason = anybody.reason is None, choice.reason
    if takes != (reason is None):
        reason = "excluded" if takes else anybody.reason
    return choice._replace(reason=reason, drawn=anybody.drawn, takes=takes)


def kept_choice(batch: Batch, kept: Choice, ask: Ask, at: int) -> Choice:
    """The arm that somebody keeps, with the round and the coins of somebody who is not known."""
    made = own_choice(batch, _free(batch, ask), at)
    return kept._replace(drawn=made.drawn, takes=made.takes)


# In the place of a reward that must not be learned --------------------------------------------------------------------


ANSWERED = 0.0
"""Stored in the place of a reward whose value is not kept."""


def stands_in(facts: Facts, row: Event) -> bool:
    """Whether a reward of this round counts when it comes, with a public number in place of its value."""
    kept = row.learn == NEVER and row.round is not None and row.reason in OF_ITS_CONTENT
    return kept and facts.missing == "public"


def answer_unread(batch: Batch, row: Event) -> None:
    """Answer a round whose reward is not learned, in time or late, as that of any other; nothing keeps its value."""
    waits = row.rewarded is None and row.erased is None and stands_in(batch.facts, row)
    if waits and batch.through(row) is None:
        batch.answer(row, ANSWERED if batch.still_open(row) else None)


def stand_in(facts: Facts, state: State, place: int, arm: int, answered: bool) -> Feedback | Report | None:
    """What a release is handed of a round of this arm that is not learned; None where that is nothing at all."""
    counted = answered or facts.missing == "default"
    if facts.policy.arms is None:
        return _zeros(facts, place, counted) if facts.policy.counts_rows else None
    return facts.play.feedback(place, arm, facts.policy.expected_reward(state, arm) if counted else None, None)


def _zeros(facts: Facts, place: int, counted: bool) -> Feedback:
    nobody = Candidate(0, np.zeros(len(facts.spec.features or ())))
    return Feedback(place, 0, 0.0 if counted else None, Round(place, (nobody,)))
