"""Our local policy: one random bit leaves each user, and the learner is optimistic about the bits."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, Literal

from fairveil.bandits.nash.arrivals import PRIOR, Prior
from fairveil.bandits.nash.base import (
    REPORTS_ARE_PUBLIC,
    bit_noise,
    local_guarantee,
    one_bit_report,
    reported,
    world_of,
)
from fairveil.bandits.nash.blocks import Place, Shape, place_of
from fairveil.bandits.nash.optimism import Evidence, report_looks
from fairveil.bandits.nash.private_nash import Numbers
from fairveil.bandits.nash.rounds import RISING
from fairveil.bandits.nash.waiting import RULE_IN_WORDS, Rule, WaitingPolicy, by_arrival
from fairveil.bandits.protocol import HEADER, Feedback, Report
from fairveil.bandits.quotes import Noisy
from fairveil.bandits.simulate import Case
from fairveil.configuration import configuration
from fairveil.fields import Count, Epsilon, Positive, described
from fairveil.privacy.events import Event, NothingEvent
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.mechanisms.one_bit import OneBit
from fairveil.privacy.noise import Noise
from fairveil.registry import register
from fairveil.state import State, nested


@register("policy", "local-nash")
@configuration
class LocalNash(WaitingPolicy):
    """One-bit reports, a random first order, and a Kullback-Leibler bound on the mean of the bits.

    Guarantee: epsilon-DP (pure, local) for one user's reward: `report` turns it into one bit on the user's side and the
    learner never sees anything else. Whether a report was sent is not hidden.
    Cost: nothing is spent by the learner. Decide O(log blocks), choice of an arm O(arms), memory O(arms + open blocks).
    Needs no horizon.

    The mean of an arm's bits rises with its mean reward, so the index needs no decoding: it is that of `private-nash`
    without noise draws, the largest bit mean at level ``exploration`` ln(t / (arms n)). The choice is made anew when an
    arm's rounds have grown by ``growth``, which costs nothing in privacy and lets the simulator draw a block's bits at
    once. With ``release="arrivals"`` reports are learned as they come, without pools; by blocks they wait until all of
    a block are in or can come no more. What is under way is credited as in `private-nash`.

    >>> LocalNash(arms=3, epsilon=1.0).guarantee().model.value
    'local'

    Reference: Warner 1965 (reports); Garivier, Hadiji, Menard and Stoltz 2022 (level).
    """

    local: ClassVar[bool] = True

    arms: Count = described("number of treatments", example=3)
    epsilon: Epsilon = described("budget of one report", example=1.0)
    exploration: Positive = described("level of the index: 1 is the textbook's, less explores less", default=0.7)
    growth: Positive = described("length of an episode relative to the rounds its arm has had", default=0.2)
    strict: bool = described("refuse a reward outside [0, 1] instead of clipping it", default=False)
    released_by: Rule = described(RULE_IN_WORDS, default="blocks", key="release", later=True)

    @property
    def arrivals(self) -> Literal["public"]:
        return "public"

    @property
    def mechanism(self) -> OneBit:
        return OneBit(epsilon=self.epsilon)

    def numbers(self) -> Numbers:
        return Numbers(self.exploration, 1.0, self.arms)  # of the bits as they are: no noise is drawn into their sum

    def shape(self) -> Shape:
        return Shape(success=0.0, keep=True, shuffle=True, growth=self.growth, pace=RISING)

    def noises(self) -> tuple[Noisy, ...]:
        return (bit_noise(self.mechanism),)

    def event(self) -> Event:
        return NothingEvent()

    def guarantee(self) -> Guarantee:
        return local_guarantee(self.epsilon, REPORTS_ARE_PUBLIC, strict=self.strict)

    def report(self, feedback: Feedback, noise: Noise) -> Report:
        return one_bit_report(self.mechanism, feedback, self.strict, noise)

    def _reward(self, feedback: Feedback | Report) -> float | None:
        return reported(feedback, one_bit=True)

    def evidence(self, state: State) -> Evidence:
        plain, mechanism = super().evidence(state), self.mechanism
        return plain._replace(looks=report_looks(plain.size), low=mechanism.low, slope=mechanism.slope)

    @cached_property
    def prior(self) -> Prior:
        return Prior(PRIOR * self.mechanism.slope**2, self.epsilon)

    def draw(self, state: State, noise: Noise) -> State:
        """The number of ones in the oldest block: reports carry their noise, so none is added."""
        if by_arrival(state):
            return super().draw(state, noise)
        count = state["answered"].astype(float)
        return {HEADER: self._oldest(state).header, "total": nested(state, "sum")["open"].copy(), "count": count}

    def place(self, case: Case) -> Place:
        world = world_of(case)
        return place_of(world.laws, world.true_means, self.mechanism.low, self.mechanism.slope)
