"""Private-Fair-Greedy: continual private regression and noisy rank counts in every round, calibrated exactly."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Literal

import numpy as np

from fairveil.arrays import Floats
from fairveil.bandits.meritocratic.noisy_history import PUBLIC, SHAPE, UNIT, NoisyHistory, rank_event
from fairveil.bandits.meritocratic.runner import NoisyRunner, noisy_runner
from fairveil.bandits.simulate import Case, Streams
from fairveil.configuration import configuration
from fairveil.fields import described
from fairveil.privacy.calibration import Total, calibrated
from fairveil.privacy.events import ComposedEvent, Event, ZcdpEvent
from fairveil.privacy.guarantee import UNRELEASED, Guarantee
from fairveil.privacy.sums import ToeplitzSum
from fairveil.registry import register

SAFETY = 4.0
"""Ridge in sqrt(width) deviations of the noise: twice its typical operator norm; less lets noise through."""


@register("policy", "private-fair-greedy")
@configuration
class PrivateFairGreedy(NoisyHistory):
    """Fair-Greedy with joint privacy: every round a noisy rank per candidate, every second round a noisy regression.

    Guarantee: (epsilon, delta) joint privacy for one candidate of one round, with mu^2 = mu_reg^2 + mu_rank^2;
    ``alpha_eps`` is the share of mu^2 that the regression gets. Regression: rows [x, y] clipped to the public ``bound``
    L, prefix sums of outer products by the square-root Toeplitz factorisation, one replaced leaf of Frobenius
    sensitivity sqrt(2) L^2. Ranks: count noise of variance t ln 2 / mu_rank^2 in round t; a candidate of round s is
    counted in rounds s+1..2s only and pays sum mu_rank^2/(t ln 2) <= mu_rank^2, without a horizon. Every candidate of a
    group asks a count of its own: with at most ``per_group`` of them in a round (public, 1 unless given; more are
    refused) the noise grows by sqrt(per_group). Unless ``totals`` are declared public each query is a pair (count,
    total) and both noises grow by sqrt 2. Noise is discrete, so where delta cannot pay for that (large epsilon) the
    budget is rho = mu^2/2 of zCDP. ``bound`` has no default.

    Each round has count noise of its own, drawn by `release`: `decide` refuses a round without it and rounds past the
    horizon, and a round whose release was lost is played uniformly at random. The noise serves one question: the first
    decision seals it, and another one of the same round, with other candidates or after more people became known, is
    refused. The seal is the one array of a state that `decide` writes.

    ``variant="printed"`` is a class of its own, `PrivateFairGreedyPrinted`.

    Cost: one event for the horizon ``rounds``. Time and memory as Fair-Greedy, and O(features^2) numbers a leaf.

    >>> PrivateFairGreedy(epsilon=1.0, delta=1e-5, bound=2.0, rounds=1000).guarantee().epsilon
    1.0

    Reference: An, Palacci and Paschalidis 2025; corrections in docs/errata/private-fair-greedy.md.
    """

    variant: Literal["sound"] = described("the sound algorithm, or the printed one", default="sound")

    @cached_property
    def total(self) -> Total:
        """The budget that its own event allows at (epsilon, delta)."""
        return calibrated(self.epsilon, self.delta, self._event_of)

    @property
    def mu(self) -> float:
        return self.total.mu

    @property
    def rank_mu(self) -> float:
        """What the counts cost one candidate."""
        return self.mu * math.sqrt(1 - self.alpha_eps)

    @cached_property
    def sums(self) -> ToeplitzSum:
        return self._sums_of(self.total)

    def _sums_of(self, total: Total) -> ToeplitzSum:
        share = total.share(self.alpha_eps)
        return ToeplitzSum(self.leaves, shape="symmetric", dimension=self.width, bound=self.bound, **share)

    def count_std(self, now: int) -> float:
        return math.sqrt(self.draws_a_count * self.queries * (now + 1) * math.log(2)) / self.rank_mu

    def ridges(self, leaves: int) -> Floats:
        # Std of a prefix grows with the square root of the decoder's squares; beyond the horizon nothing is asked.
        growth = np.sqrt(np.cumsum(self.sums.decoder**2))
        std = self.sums.expected_std(1) * growth[np.minimum(np.arange(leaves), self.leaves - 1)]
        return self.ridge + SAFETY * math.sqrt(self.width) * std

    def event(self) -> Event:
        return self._event_of(self.total)

    def _event_of(self, total: Total) -> Event:
        """Regression and counts (with totals).

        Variances grow with the round and with the number of queries: together the discreteness of the noises that a
        candidate meets weighs no more than that of one draw (one pair of draws) of variance 1/mu_rank^2.
        """
        mu = total.mu * math.sqrt(1 - self.alpha_eps)
        ranks = ZcdpEvent(mu * mu / 2) if total.concentrated else rank_event(mu, self.draws_a_count, UNIT / mu)
        return ComposedEvent((self._sums_of(total).event(), ranks))

    def guarantee(self) -> Guarantee:
        stated = {} if self.rounds is None else self.total.stated
        return Guarantee.approximate(self.epsilon, self.delta, **stated, notes=(PUBLIC, UNRELEASED), **SHAPE)

    def simulator(self, case: Case, streams: Streams) -> NoisyRunner | None:
        return noisy_runner(self, case, streams)
