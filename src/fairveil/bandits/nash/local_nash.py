"""Our local policy: one random bit leaves each user, and the learner is optimistic about the bits."""

from __future__ import annotations

from typing import Literal

from fairveil.bandits.environments.laws import UNIT
from fairveil.bandits.nash.base import check_arm, local_guarantee, one_bit_report, reported
from fairveil.bandits.nash.blocks import LOCAL, Recipe, close
from fairveil.bandits.nash.episodes import ARM, EpisodePolicy, episode_rounds, published
from fairveil.bandits.nash.indices import parameters
from fairveil.bandits.protocol import Feedback, Report
from fairveil.configuration import configuration
from fairveil.fields import Count, Epsilon, Positive
from fairveil.privacy.events import Event, NothingEvent
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.mechanisms.one_bit import OneBit
from fairveil.privacy.noise import Noise
from fairveil.registry import register
from fairveil.state import State, copy_state


@register("policy", "local-nash")
@configuration
class LocalNash(EpisodePolicy):
    """One-bit reports, a random first order, and a Kullback-Leibler bound on the mean of the bits.

    Guarantee: epsilon-DP (pure, local) for one user's reward: `report` turns it into one bit on the user's side and the
    learner never sees anything else. Whether a report was sent is not hidden.
    Cost: nothing is spent by the learner. Decide O(1), choice of an arm O(arms), memory O(arms). Needs no horizon.

    The mean of an arm's bits rises with its mean reward, so the index needs no decoding: it is the largest bit mean at
    level ``exploration`` ln(t / (arms n)). The choice is made anew when an arm's reports have grown by ``growth``,
    which costs nothing in privacy and lets the simulator draw an episode's bits at once. Late reports are used.

    >>> LocalNash(arms=3, epsilon=1.0).guarantee().model.value
    'local'

    Reference: Warner 1965 (reports); Garivier, Hadiji, Menard and Stoltz 2022 (level).
    """

    arms: Count
    epsilon: Epsilon
    exploration: Positive = 0.7
    growth: Positive = 0.2
    strict: bool = False

    @property
    def arrivals(self) -> Literal["public"]:  # type: ignore[override]
        return "public"

    @property
    def mechanism(self) -> OneBit:
        return OneBit(epsilon=self.epsilon)

    def recipe(self) -> Recipe:
        mechanism = self.mechanism
        return Recipe(
            rule=LOCAL,
            par=parameters(self.exploration, self.epsilon, mechanism.low, mechanism.slope),
            success=0.0,
            raw_first=False,
            private_counts=False,
            keep=True,
            shuffle=True,
            first=1,
            growth=self.growth,
        )

    def event(self) -> Event:
        return NothingEvent()

    def guarantee(self) -> Guarantee:
        return local_guarantee(self.epsilon, "whether and when a report was sent is public")

    def report(self, feedback: Feedback, noise: Noise) -> Report:
        return one_bit_report(self.mechanism, feedback, self.strict, noise)

    def learn(self, state: State, feedback: Feedback | Report) -> State:
        check_arm(feedback, self.arms)
        bit = reported(feedback, one_bit=True)
        if bit is None:
            return state
        after = copy_state(state)
        if after["open"][ARM] < 0:
            after["open"][ARM] = feedback.arm
        after["sums"][feedback.arm] += int(bit) * UNIT
        after["counts"][feedback.arm] += 1
        return after

    def _publish(self, after: State, arm: int, noise: Noise) -> None:
        close(published(after), arm, episode_rounds(after))  # reports are public already; an episode only ends

    def due(self, state: State, now: int) -> str | None:
        due = super().due(state, now)
        return due.replace("episode", "choice") if due is not None else None
