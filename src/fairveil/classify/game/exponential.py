"""Private choices from a finite class, all of them exponential: one rule (`Sound`, `Printed`) and a game (`Game`).

Algorithm 1 of Cummings et al. (2019), sound and as printed, picks a rule by fairness plus error. Noisy sizes
D_a = max(1, n_1a + discrete Laplace) stand in the denominators, so given D the utility

    u(h) = weight (largest minus smallest min(1, P_a(h)/D_a)) + errors(h)/n

has a constant sensitivity for every data set: P_a(h) counts accepted positives of group a. A replaced row changes two
P_a by at most one, so Delta = weight (sum of the two largest 1/D_a) + 1/n; a row taken out changes one, Delta = weight
max 1/D_a + 1/n. e1 pays for D (l1 sensitivity 2, or 1), e2 for the pick: pure (e1 + e2)-DP.

As printed, M = min_a n_1a + Laplace(1/eps) - sqrt(n)/eps stands for the smallest group and Delta = 2/(M - 1) + 1/n.
Where the smallest group has fewer than about sqrt(n)/eps + 1 positives M - 1 is negative: the scale changes its sign,
bad rules are preferred, and the claim of 2 eps does not hold.

The game with both players private is the sound small-T form of Algorithm 3. n Phi(h, g) = N_g0 N_h0/N_0 - N_hg0 changes
by less than one when a row is replaced or taken out, so the payoff U(h, lambda) = err(h) + C (signed Phi) changes by at
most (1 + C)/n. The learner draws h_t with weight exp(-eta sum of U so far), an exponential mechanism with
eps_t = 2 eta (t-1) (1+C)/n; the auditor picks the worst signed subgroup, or nobody, by an exponential mechanism with
score sensitivity C/n. Each pick of parameter eps costs eps^2/8 in zCDP, so half of rho to each player gives
eta = sqrt(3 rho) n/((1+C) T^1.5) and eps_A = sqrt(4 rho/T).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fairveil.arrays import Bools, Floats, Ints
from fairveil.classify.game.hypotheses import PUBLIC, UNIT, errors, violations
from fairveil.classify.learner import ONE_ROW
from fairveil.errors import PrivacyError
from fairveil.privacy.events import ApproximateEvent, Event, PureEvent
from fairveil.privacy.guarantee import Guarantee, Neighbours
from fairveil.privacy.mechanisms import DiscreteLaplace, Exponential
from fairveil.privacy.noise import GRID_BITS, Noise

SIZE_SHARE = 0.1
"""Part of the budget that pays for the noisy sizes."""
LEAST_CHOICE = 0.01
_UP = 1 + 1e-9
WHY = (
    "the printed scale 2/(M-1) is negative or far too small when a group has few positives; delta is tied to the "
    "number of rows"
)


@dataclass(frozen=True)
class Sound:
    """The pick that keeps its promise: ``epsilon`` in all, for one row replaced or taken out."""

    epsilon: float
    weight: float
    replaced: bool

    def sizes(self, positives: Ints, noise: Noise) -> Ints:
        """Noisy numbers of positives by group, at least 1."""
        mechanism = DiscreteLaplace(
            sensitivity=2 if self.replaced else 1, epsilon=SIZE_SHARE * self.epsilon, dimension=len(positives)
        )
        return np.maximum(1, np.atleast_1d(mechanism.release(positives, noise)))

    def sensitivity(self, sizes: Ints, rows: int) -> float:
        shares = np.sort(1 / sizes)[::-1]
        return (self.weight * float(shares[: 2 if self.replaced else 1].sum()) + 1 / rows) * _UP

    def mechanism(self, sizes: Ints, rows: int) -> Exponential:
        """Refuses when the noisy sizes leave nothing to choose by: a function of what was released alone."""
        spread, left = self.sensitivity(sizes, rows), (1 - SIZE_SHARE) * self.epsilon
        if left * (self.weight + 1) / (2 * spread) < LEAST_CHOICE:
            raise PrivacyError(
                "the noisy group sizes leave nothing to choose by", path="epsilon", given=self.epsilon,
                fix="a larger budget, fewer groups, or a smaller weight; the budget for the sizes is spent",
            )  # fmt: skip
        return Exponential(sensitivity=spread, epsilon=left)

    def utility(self, table: Floats, people: Floats, sizes: Ints, rows: int) -> Floats:
        """Loss of every hypothesis: unfairness by noisy sizes plus error."""
        rates = np.minimum(table[:, :, 1] / sizes, 1.0)
        return self.weight * (rates.max(axis=1) - rates.min(axis=1)) + errors(table, people) / rows

    def pick(self, table: Floats, people: Floats, rows: int, noise: Noise) -> tuple[int, Ints]:
        """The chosen hypothesis and the noisy sizes it rests on."""
        sizes = self.sizes(people[:, 1].astype(np.int64), noise)
        loss = self.utility(table, people, sizes, rows)
        return int(self.mechanism(sizes, rows).release(-loss, noise)), sizes

    def choose(self, table: Floats, people: Floats, rows: int, noise: Noise) -> dict[str, Any]:
        """What a fit publishes."""
        chosen, sizes = self.pick(table, people, rows, noise)
        return {"plays": [chosen], "sizes": sizes}

    @staticmethod
    def event(epsilon: float, delta: float, *, over_score: bool) -> Event:
        """What a fit costs; a private score under the rules needs delta."""
        return ApproximateEvent(epsilon, delta) if over_score else PureEvent(epsilon)

    @staticmethod
    def guarantee(epsilon: float, delta: float, neighbours: Neighbours, *, over_score: bool) -> Guarantee:
        facts: dict[str, Any] = {"model": "global", "unit": UNIT, "neighbours": neighbours, "notes": (PUBLIC, ONE_ROW)}
        return Guarantee.approximate(epsilon, delta, **facts) if over_score else Guarantee.pure(epsilon, **facts)


@dataclass(frozen=True)
class Printed:
    """Algorithm 1 as printed, with its epsilon so that the claimed total is ``epsilon`` = 2 eps. Not established."""

    epsilon: float
    weight: float = 1.0
    replaced: bool = True
    """The claim is for a row replaced, whatever was asked for."""

    def scale(self, positives: Ints, rows: int, noise: Noise) -> float:
        """Delta of the printed algorithm, which may be negative."""
        eps = self.epsilon / 2
        laplace = float(noise.laplace(2.0**GRID_BITS / eps)[0]) / 2.0**GRID_BITS
        margin = float(positives.min()) + laplace - math.sqrt(rows) / eps
        return 2 / (margin - 1) + 1 / rows if margin != 1 else math.inf

    def utility(self, table: Floats, people: Floats, rows: int) -> Floats:
        rates = table[:, :, 1] / np.maximum(people[:, 1], 1.0)
        return self.weight * (rates.max(axis=1) - rates.min(axis=1)) + errors(table, people) / rows

    def pick(self, table: Floats, people: Floats, rows: int, noise: Noise) -> tuple[int, float]:
        """The chosen hypothesis and the scale it was chosen with."""
        spread = self.scale(people[:, 1].astype(np.int64), rows, noise)
        loss = self.utility(table, people, rows) * math.copysign(1.0, spread)
        gaps = np.rint((loss - loss.min()) * 2.0**30).astype(np.int64)
        unit = min(max(1, round(2 * abs(spread) / (self.epsilon / 2) * 2.0**30)), 2**61)
        return int(noise.select(gaps, unit)[0]), spread

    def choose(self, table: Floats, people: Floats, rows: int, noise: Noise) -> dict[str, Any]:
        """What a fit publishes."""
        return {"plays": [self.pick(table, people, rows, noise)[0]]}

    @staticmethod
    def event(epsilon: float, delta: float, *, over_score: bool) -> Event:
        """What is claimed."""
        return ApproximateEvent(epsilon, delta)

    @staticmethod
    def guarantee(epsilon: float, delta: float, neighbours: Neighbours, *, over_score: bool) -> Guarantee:
        """The claim: rows replaced, whatever was asked for."""
        return Guarantee.approximate(
            epsilon,
            delta,
            model="global",
            unit=UNIT,
            neighbours=Neighbours.REPLACE_ROW,
            established=False,
            notes=(WHY, ONE_ROW),
        )


@lru_cache(maxsize=1024)
def _pick(sensitivity: float, epsilon: float) -> Exponential:
    """One mechanism a round: its grid is worked out once."""
    return Exponential(sensitivity=sensitivity, epsilon=epsilon)


@dataclass(frozen=True)
class Game:
    """``rounds`` T, ``bound`` C, ``rho`` of both players together, and the public number of rows."""

    rounds: int
    bound: float
    rho: float
    rows: int

    @property
    def rate(self) -> float:
        """eta: how fast the learner's weights move."""
        return math.sqrt(3 * self.rho) * self.rows / ((1 + self.bound) * self.rounds**1.5)

    @property
    def auditor_epsilon(self) -> float:
        return math.sqrt(4 * self.rho / self.rounds)

    def cost(self) -> float:
        """zCDP of all picks; at most rho."""
        steps = [2 * self.rate * t * (1 + self.bound) / self.rows for t in range(1, self.rounds)]
        return sum(step**2 for step in steps) / 8 + self.rounds * self.auditor_epsilon**2 / 8

    def auditor(self) -> Exponential:
        return _pick(self.bound / self.rows * _UP, self.auditor_epsilon)

    def learner(self, played: int) -> Exponential:
        """After ``played`` rounds the sum of payoffs changes by at most played (1 + C)/n."""
        spread = played * (1 + self.bound) / self.rows
        return _pick(spread * _UP, 2 * self.rate * spread)

    def play(self, table: Floats, people: Floats, members: Bools, noise: Noise) -> Ints:
        """The hypotheses of all rounds; the rule is their uniform mixture. O(rounds x hypotheses x subgroups)."""
        error = errors(table, people) / self.rows
        signed = violations(table, people, members, self.rows)
        both = np.concatenate([signed, -signed], axis=1)
        payoff = np.zeros(len(table))
        plays = np.empty(self.rounds, np.int64)
        auditor = self.auditor()
        for t in range(self.rounds):
            uniform = noise.uniform_integers(len(table))[0] if t == 0 else None
            plays[t] = uniform if uniform is not None else self.learner(t).release(-payoff, noise)
            scores = self.bound * np.concatenate([[0.0], both[plays[t]]])
            worst = int(auditor.release(scores, noise))
            payoff += error + (self.bound * both[:, worst - 1] if worst > 0 else 0.0)
        return plays
