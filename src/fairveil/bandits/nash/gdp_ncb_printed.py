"""The Nash confidence bound with a trusted curator: Algorithm 1 of DP-NCB as printed."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from fairveil.bandits.environments.arms import UNIT
from fairveil.bandits.nash.base import COUNTED_IN_WORDS, FORM_IN_WORDS, global_guarantee
from fairveil.bandits.nash.index import index_of
from fairveil.bandits.nash.two_phases import FRESH, PHASE_IN_WORDS, Exploration, Finish, TwoPhasePolicy
from fairveil.configuration import configuration
from fairveil.fields import Count, Positive, described
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise, laplace_parameter
from fairveil.registry import register
from fairveil.state import State

ENOUGH = 1600.0
"""The printed constant of the threshold."""


class Numbers(NamedTuple):
    """Constants of Algorithm 1."""

    c: float
    alpha: float
    epsilon: float
    log_horizon: float


@index_of(Numbers)
def index(numbers, mean, n, log_now, draws):
    """Equation (4): mean + 2 c sqrt(2 mean ln T / n) + alpha ln^2 T / (eps n) + 4 sqrt(2 alpha ln^1.5 T / (eps n))."""
    mean, log_t = min(1.0, max(0.0, mean)), numbers.log_horizon
    nash = 2.0 * numbers.c * math.sqrt(2.0 * log_t) * math.sqrt(mean / n)
    privacy = numbers.alpha * log_t * log_t / numbers.epsilon / n
    cross = 4.0 * math.sqrt(2.0 * numbers.alpha / numbers.epsilon) * log_t**0.75 / math.sqrt(n)
    return mean + nash + privacy + cross


class PublishedGdpNcb(TwoPhasePolicy):
    """What both published forms share: a release costs epsilon / ln T, and raw uniform sums are the base of all."""

    @property
    def release_epsilon(self) -> float:
        return self.epsilon / self.log_horizon

    def publish_uniform(self, after: State, noise: Noise) -> None:
        """Raw sums are the base of every later release; what was tested stays as it was shown, other means are 0."""
        after["counts"][:] = after["base_counts"][:] = after["raw_counts"]
        after["base_sums"][:] = after["raw_sums"]


@register("policy", "gdp-ncb", variant="printed")
@configuration
class PrintedGdpNcb(PublishedGdpNcb):
    """Algorithm 1 as printed: a fresh noisy test at every uniform pull, and all uniform rewards in every later release.

    Guarantee: not established. Every pull of the uniform phase is a release of its own, and a reward of that phase
    enters every later release of its arm, while each costs epsilon / ln T.
    Cost: one event is claimed. Time and memory as `gdp-ncb`. The uniform phase outlasts any horizon that a machine can
    run, unless ``tau`` or ``phase_rounds`` ends it.

    >>> PrintedGdpNcb(arms=5, horizon=10_000, epsilon=1.0).guarantee().established
    False

    Reference: DP-NCB, Algorithm 1 (2026); errata: docs/errata/dp-ncb.md
    """

    variant: Literal["printed"] = described(FORM_IN_WORDS, default="printed")
    phase_rounds: Count | None = described(PHASE_IN_WORDS, default=None)
    tau: Positive | None = described("sum of rewards at which the uniform phase ends", default=None)
    strict: bool = described("refuse a reward outside [0, 1] instead of clipping it", default=False)
    arrivals: Literal["public"] = described(COUNTED_IN_WORDS, default="public")

    def numbers(self) -> Numbers:
        return Numbers(self.c, self.alpha, self.epsilon, self.log_horizon)

    def exploration(self) -> Exploration:
        tau = self.tau or ENOUGH * (self.c**2 * self.log_horizon + self.log_horizon**2 / self.epsilon)
        limit = self.phase_rounds or self.horizon
        return Exploration(FRESH, limit, round(tau * UNIT), self.scale, laplace_parameter(self.scale))

    def finish(self) -> Finish:
        return Finish(0.0, False, True)

    def guarantee(self) -> Guarantee:
        return global_guarantee(
            self.epsilon,
            "not established: every pull of the uniform phase is a release of its own, and a reward of the uniform "
            "phase enters every later release of its arm, up to log2 T of them, while each costs epsilon / ln T: up to "
            "1.44 epsilon from this alone",
            established=False,
            strict=self.strict,
        )

    def test(self, after: State, arm: int, noise: Noise) -> bool:
        """A fresh noisy mean at every pull, published."""
        query = int(after["raw_sums"][arm]) + int(noise.laplace(self.scale)[0])
        after["sums"][arm], after["counts"][arm] = query, after["raw_counts"][arm]
        return query > self._rule.tau

    def cost(self, closed: int, uniform_pulls: int, releases: int) -> float:
        """Every release a reward of the uniform phase entered, and every test."""
        return (closed + uniform_pulls) * self.epsilon / self.log_horizon
