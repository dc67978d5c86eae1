"""The Nash confidence bound with a trusted curator: Algorithm 1 of DP-NCB, corrected."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from fairveil.bandits.environments.arms import UNIT
from fairveil.bandits.feedback import ARRIVALS_IN_WORDS
from fairveil.bandits.nash.base import COUNTED_IN_WORDS, FORM_IN_WORDS, global_guarantee, laplace_scale
from fairveil.bandits.nash.index import index_of
from fairveil.bandits.nash.optimism import Evidence, block_looks
from fairveil.bandits.nash.two_phases import ABOVE, PHASE_IN_WORDS, TIMED, Exploration, Finish, TwoPhasePolicy
from fairveil.bandits.quotes import Noisy, laplace_noise
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fields import Count, Positive, described
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise, laplace_parameter
from fairveil.registry import register
from fairveil.state import State


class Numbers(NamedTuple):
    """``nash``: 2 c sqrt(2 ln T); ``bias``: how far noise may move a sum, alpha ln T (draws an arm) / epsilon."""

    nash: float
    bias: float


@index_of(Numbers)
def index(numbers, mean, n, log_now, draws):
    """mean + nash sqrt(mean / n) + (bias + nash sqrt(bias)) / n: the Nash bonus at mean + bias / n, split by
    sqrt(x + y) <= sqrt x + sqrt y.
    """
    mean = min(1.0, max(0.0, mean))
    return mean + numbers.nash * math.sqrt(mean / n) + (numbers.bias + numbers.nash * math.sqrt(numbers.bias)) / n


@register("policy", "gdp-ncb")
@configuration
class GdpNcb(TwoPhasePolicy):
    """Uniform exploration, then doubling blocks of the arm with the largest Nash confidence bound.

    Guarantee: epsilon-DP (pure, global) for one user's reward. A reward of the uniform phase enters one noisy sum of
    its arm that is kept for ever; a later reward enters one block's noisy sum. With ``phase1="threshold"`` half of
    epsilon pays for one above-threshold test of the running sums (its threshold is noised once, every query afresh; all
    queries move the same way when one reward changes), half for the sums.
    Cost: one event for the whole run, parallel over blocks. Decide O(1), release O(arms), memory O(arms); simulated in
    O(uniform rounds + arms log T). Needs its horizon T and refuses to run past it. Rewards that come after their block
    has closed are not used: `private-nash` waits for them.

    ``episodes="keep"`` adds up all noisy block sums, ``"forget"`` replaces the last one. ``variant="printed"`` and
    ``"figure"`` are Algorithm 1 as printed and as plotted.

    >>> GdpNcb(arms=5, horizon=10_000, epsilon=1.0).guarantee().established
    True

    Reference: DP-NCB, Algorithm 1 (2026); errata: docs/errata/dp-ncb.md
    """

    variant: Literal["sound"] = described(FORM_IN_WORDS, default="sound")
    phase1: Literal["fixed", "threshold"] = described(
        "how the uniform phase ends: after a fixed number of rounds, or at a noisy threshold", default="fixed"
    )
    phase_rounds: Count | None = described(PHASE_IN_WORDS, default=None)
    tau: Positive | None = described("sum of rewards at which the uniform phase ends", default=None)
    episodes: Literal["keep", "forget"] = described(
        "whether an arm's earlier episodes count on, or only the last", default="keep"
    )
    strict: bool = described("refuse a reward outside [0, 1] instead of clipping it", default=False)
    arrivals: Literal["public", "private"] = described(COUNTED_IN_WORDS, default="public")

    def __post_init__(self) -> None:
        if self.phase1 == "threshold" and self.tau is None:
            raise SpecError(
                "a threshold needs its tau", path="tau", allowed="a positive sum of rewards", fix='or phase1 = "fixed"'
            )
        if self.arrivals == "private" and self.phase1 == "threshold":
            raise SpecError(
                "arrivals cannot be private here: every arrival is tested",
                path="arrivals",
                given=self.arrivals,
                allowed='"public", or phase1 = "fixed"',
            )

    @property
    def release_epsilon(self) -> float:
        return self.epsilon / 2.0 if self.hides_arrivals else self.epsilon

    @property
    def sum_epsilon(self) -> float:
        """What is left for a noisy sum of the uniform phase after the threshold test and noisy counts."""
        return self.release_epsilon / 2 if self.phase1 == "threshold" else self.release_epsilon

    @property
    def keep(self) -> bool:
        return self.episodes == "keep"

    def numbers(self) -> Numbers:
        noisier = 2.0 if self.phase1 == "threshold" else 1.0  # noise of the uniform phase relative to a block's
        bias = self.alpha * self.log_horizon * (noisier + 1.0) / self.release_epsilon
        return Numbers(2 * self.c * math.sqrt(2 * self.log_horizon), bias)

    def exploration(self) -> Exploration:
        if self.phase1 == "threshold" and self.tau is not None:
            scale = laplace_scale(4, self.epsilon)  # queries of sensitivity 1 at epsilon/2: scale 4/epsilon
            return Exploration(ABOVE, self.horizon, round(self.tau * UNIT), scale, laplace_parameter(scale))
        return Exploration(TIMED, self.phase_rounds or math.isqrt(self.horizon) + 1)

    def finish(self) -> Finish:
        return Finish(laplace_parameter(laplace_scale(1, self.sum_epsilon)), self.hides_arrivals, False)

    def noises(self) -> tuple[Noisy, ...]:
        draws = 2 if self.hides_arrivals else 1
        return (
            laplace_noise("the sum of an arm in the uniform phase", self.sum_epsilon, draws),
            laplace_noise("the sum of a block of one arm", self.release_epsilon, draws),
        )

    def evidence(self, state: State) -> Evidence:
        """The noise of the uniform phase is in every sum too; where a threshold ended that phase, its length is one
        more thing that rewards have chosen."""
        count, base = state["counts"], state["base_counts"]
        mean = state["sums"] / UNIT / np.where(count > 0, count, 1.0)
        draws = state["draws"] + (2 if self.hides_arrivals else 1)
        looks = block_looks(state["closed"] + 1)
        if self.phase1 == "threshold":
            looks = looks + block_looks(base.astype(np.int64))
        return Evidence(mean, count, draws, self.sum_epsilon, looks)

    def guarantee(self) -> Guarantee:
        return global_guarantee(self.epsilon, ARRIVALS_IN_WORDS[self.arrivals], strict=self.strict)

    def test(self, after: State, arm: int, noise: Noise) -> bool:
        """Above-threshold: the threshold is noised once, before the first query."""
        rule = self._rule
        if after["threshold"][1] == 0:
            after["threshold"][:] = (int(noise.laplace(rule.scale)[0]), 1)
        query = int(after["raw_sums"][arm]) + int(noise.laplace(rule.scale)[0])
        return query >= rule.tau + int(after["threshold"][0])

    def publish_uniform(self, after: State, noise: Noise) -> None:
        """One noisy sum an arm, which is the base of all that follows; the raw ones are forgotten."""
        scale = laplace_scale(1, self.sum_epsilon)
        for arm in range(self.arms):
            after["sums"][arm] = after["raw_sums"][arm] + int(noise.laplace(scale)[0])
            noisy = int(noise.laplace(scale)[0]) / UNIT if self.hides_arrivals else 0.0
            after["counts"][arm] = after["raw_counts"][arm] + noisy
        after["base_sums"][:], after["base_counts"][:] = after["sums"], after["counts"]
        after["raw_sums"][:], after["raw_counts"][:] = 0, 0

    def forget_test(self, after: State) -> None:
        """The noisy threshold of a lost test is gone, and a second one on the same rewards would cost more: the test
        starts again on rewards to come, so that every person is in one test with one threshold."""
        after["raw_sums"][:], after["raw_counts"][:], after["threshold"][:] = 0, 0, 0
