"""Laws of propensities: the probability that a decision reports is how often its coins fall that way.

Whoever evaluates another rule from a log divides by propensities; a policy that reports 1.0 and flips coins makes every
such figure wrong in silence. A policy declares its coins by drawing whole numbers (``rng.integers(n)``) or comparing
uniform ones (``rng.random() < p``): the law then walks through all of them, and the numbers must agree exactly. Any
other draw is thrown 4,000 times, and a count outside the exact binomial band of one in a million is a broken law.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from fairveil.bandits.environments.base import Environment
from fairveil.bandits.protocol import Decision, Policy, Round, settle
from fairveil.errors import InputError
from fairveil.loop.guards import UNIFORM, Guards, fallback
from fairveil.loop.play import play_of
from fairveil.loop.requests import Ask
from fairveil.privacy.noise import SeededNoise
from fairveil.proof.laws import must
from fairveil.proof.laws.playing import ROUNDS, turns
from fairveil.randomness import generator
from fairveil.state import State, copy_state, same_state

COINS = 4_000
"""How often a coin is thrown that cannot be walked through."""
BAND = 1e-6
"""How rarely an honest count may lie outside its band."""
BRANCHES = 5_000
"""Outcomes of declared coins that are walked through at most."""
LOOKED = (0, 12, ROUNDS - 1)
"""Rounds that are looked at, beside the first ones of a few blocks."""
OPENINGS = 4
EXPLORE = 0.25
CLOSE = 1e-9


class Told(NamedTuple):
    """What one throw of all coins chose, and what was said about it."""

    arm: int
    propensity: float
    law: Any = None


Throw = Callable[[Any], Told]


class Undeclared(AttributeError):
    """A draw that cannot be walked through."""


class Script:
    """A generator whose coins fall as a script says: whole numbers, and uniform numbers that are compared.

    ``weight`` is the probability that they fall so; ``sizes`` says between how many outcomes each coin chose.
    """

    def __init__(self, script: tuple[int, ...]) -> None:
        self.script, self.weight = script, 1.0
        self.chosen, self.sizes = list[int](), list[int]()

    def fall(self, chances: tuple[float, ...]) -> int:
        """Which of these outcomes comes next."""
        place = len(self.chosen)
        self.chosen.append(self.script[place] if place < len(self.script) else 0)
        self.sizes.append(len(chances))
        self.weight *= chances[self.chosen[-1]]
        return self.chosen[-1]

    def integers(self, low: int, high: int | None = None, size: None = None, *, endpoint: bool = False) -> int:
        low, high = (0, low) if high is None else (low, high)
        count = int(high) - int(low) + endpoint
        if size is not None or not 1 <= count <= BRANCHES:
            raise Undeclared
        return int(low) + (self.fall((1.0 / count,) * count) if count > 1 else 0)

    def random(self) -> ThrownUniform:
        return ThrownUniform(self)

    def __getattr__(self, name: str) -> Any:
        raise Undeclared(name)


class ThrownUniform:
    """A number in [0, 1) of which only comparisons are known: each throws a coin and leaves a smaller interval."""

    def __init__(self, script: Script) -> None:
        self.script, self.low, self.high = script, 0.0, 1.0

    def __lt__(self, other: float) -> bool:
        cut = min(max(float(other), self.low), self.high)
        below = (cut - self.low) / (self.high - self.low)
        found = below == 1.0 if below in (0.0, 1.0) else self.script.fall((below, 1.0 - below)) == 0
        self.low, self.high = (self.low, cut) if found else (cut, self.high)
        return found

    def __ge__(self, other: float) -> bool:
        return not self < other

    __le__, __gt__ = __lt__, __ge__  # a single value has no probability


def walked(throw: Throw) -> list[tuple[float, Told]] | None:
    """Every outcome of declared coins with its probability; None where some draw is of another kind."""
    rng = generator(13, "coins")
    before = rng.bit_generator.state
    told = throw(rng)
    if rng.bit_generator.state == before:
        return [(1.0, told)]  # nothing was drawn
    found, scripts = list[tuple[float, Told]](), list[tuple[int, ...]]([()])
    while scripts:
        script = Script(scripts.pop())
        try:
            told = throw(script)
        except Exception:  # compiled code and plug-ins refuse what is no numpy generator in many ways: throw coins then
            return None
        found.append((script.weight, told))
        for place in range(len(script.script), len(script.sizes)):
            scripts += [(*script.chosen[:place], value) for value in range(1, script.sizes[place])]
        if len(found) + len(scripts) > BRANCHES:
            return None
    return found


def thrown(throw: Throw) -> list[tuple[float, Told]]:
    """What many throws of real coins choose."""
    rng = generator(17, "coins")
    return [(1.0 / COINS, throw(rng)) for _ in range(COINS)]


def compare(throw: Throw) -> None:
    """The reported propensities are the probabilities of the outcomes: exactly, or within the band."""
    exact = walked(throw)
    outcomes = thrown(throw) if exact is None else exact
    share, said = defaultdict[int, float](float), dict[int, float]()
    for weight, told in outcomes:
        share[told.arm] += weight
        first = said.setdefault(told.arm, told.propensity)
        must(abs(first - told.propensity) < CLOSE, "two coins that fell alike report two propensities")
    laws = [told.law for _, told in outcomes if told.law is not None]
    if laws:
        said |= {arm: float(chance) for arm, chance in enumerate(laws[0])}
    for arm, chance in said.items():
        must(
            abs(share[arm] - chance) < CLOSE if exact is not None else inside(round(share[arm] * COINS), COINS, chance),
            f"a reported propensity of {chance:.4g} is in truth {share[arm]:.4g}",
            "report the probability with which the arm was chosen, over all coins of the decision",
        )
    rest = 1.0 - sum(said.values())
    # a band of (1 - rest)^coins for arms that never came
    must(rest < CLOSE or COINS * math.log1p(-min(rest, 0.999)) > math.log(BAND), "reported propensities leave some out")


def inside(count: int, coins: int, chance: float) -> bool:
    """Whether an honest count of coins with this chance may be so large or so small."""
    from scipy.stats import binomtest

    return bool(binomtest(count, coins, min(max(chance, 0.0), 1.0)).pvalue >= BAND)


@dataclass(frozen=True)
class Moment:
    """A round: the state before its block was opened, what was shown, and whether `open` threw coins for it."""

    policy: Policy
    before: State
    round: Round
    decision: Decision
    opened: bool

    @property
    def doubled(self) -> Moment:
        """The same with every candidate twice, so that each choice is a tie."""
        return replace(self, round=replace(self.round, candidates=self.round.candidates * 2))

    @property
    def taken(self) -> bool:
        """Whether so many candidates are within the policy's public limits."""
        try:
            self.decide(generator(5, "limits"))
        except InputError as problem:
            return problem.path != "round.candidates"
        return True

    def state(self, rng: Any) -> State:
        """The state in which the round is decided, with these coins; a copy, because decisions may seal it."""
        return copy_state(self.policy.open(self.before, self.round.index, rng))

    def decide(self, rng: Any) -> Told:
        decision = self.policy.decide(self.state(rng), self.round, rng)
        return Told(decision.arm, decision.propensity, decision.probabilities)


def moments(policy: Policy, world: Environment) -> Iterator[Moment]:
    """A run without delay, round by round."""
    noise = SeededNoise(3)
    for turn in turns(policy, world, ROUNDS, noise):
        same_turn = policy.clock == "arrived" and policy.reach(turn.before) == policy.reach(turn.state)
        opened = not (same_turn or same_state(turn.before, turn.state))
        yield Moment(policy, turn.before, turn.shown, turn.decision, opened)
        turn.state = settle(policy, policy.learn(turn.state, turn.answer), turn.index + 1, noise)


def propensities_are_frequencies(policy: Policy, world: Environment) -> None:
    """A reported propensity is the frequency over coins; every round of a block reports what its first one does."""
    first, openings = None, 0
    for moment in moments(policy, world):
        block = policy.block(policy.open(moment.before, moment.round.index, generator(5, "open")))
        of_one_arm = policy.clock == "arrived" or (block is not None and block.arm >= 0)
        inside = first is not None and not moment.opened and of_one_arm
        if inside and first is not None and first.arm == moment.decision.arm:
            same = abs(first.propensity - moment.decision.propensity) < CLOSE
            must(same, "rounds of one block report several propensities", "report the coin that chose the block's arm")
            continue
        first, openings = moment.decision, openings + moment.opened
        if moment.round.index in LOOKED or (moment.opened and openings <= OPENINGS):
            compare(moment.decide)
        if moment.round.index == LOOKED[-1] and moment.round.candidates and moment.doubled.taken:
            compare(moment.doubled.decide)


def replies_are_frequencies(policy: Policy, world: Environment) -> None:
    """What a loop replies is the frequency over coins too: with exploration, with excluded arms, with ties.

    For policies that a loop takes (settled clock). One that leaves something to chance in `decide` gives its whole law
    (``Decision.probabilities``): without it nobody can say how likely the arms are that it did not choose.
    """
    if policy.clock != "settled":
        return
    for moment in moments(policy, world):
        if moment.round.index not in (0, ROUNDS - 1) or not (moment.opened or moment.round.index):
            continue
        for guards, allowed in _served(policy, moment):
            moment = moment.doubled
            ask = Ask("", b"", b"", b"", (), (), (), allowed, moment.round.candidates, None, False, ())
            play = play_of(policy, guards)
            for burning in (False, True) if guards.burn_in else (False,):

                def reply(
                    rng: Any, moment: Moment = moment, ask: Ask = ask, play: Any = play, burning: bool = burning
                ) -> Told:
                    choice = play.choose(moment.state(rng), moment.round.index, ask, rng, burning)
                    return Told(choice.action, choice.propensity)

                compare(reply)
            if guards.fallback is not None:
                compare(partial(_paused, policy, guards, ask))


def _paused(policy: Policy, guards: Guards, ask: Ask, rng: Any) -> Told:
    return Told(*fallback(guards, ask, len(ask.shown) if policy.arms is None else policy.arms, rng))


def _served(policy: Policy, moment: Moment) -> list[tuple[Guards, tuple[int, ...] | None]]:
    """Guard rails and what is allowed: the policy's own arm left out, another one, the arm of the holdout."""
    plain, explores = Guards(), Guards(EXPLORE, burn_in=1, fallback=UNIFORM)
    if policy.arms is None:
        return [(plain, None), (explores, None)]
    arms, own = range(policy.arms), moment.decision.arm
    without = [tuple(arm for arm in arms if arm != left) for left in (own, (own + 1) % len(arms))]
    held = [
        Guards(share, own if place else (own + 1) % len(arms), 0.125, 1, own)
        for place, share in ((0, 0.0), (1, EXPLORE))
    ]
    rails = [explores, *held]
    return [*((one, None) for one in rails), *((one, left) for one in (plain, *rails) for left in without if left)]
