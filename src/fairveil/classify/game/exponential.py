"""Algorithm 1 of Cummings et al. (2019): pick a rule by fairness plus error with the exponential mechanism.

Sound. Noisy sizes D_a = max(1, n_1a + discrete Laplace) stand in the denominators, so given D the utility

    u(h) = weight (largest minus smallest min(1, P_a(h)/D_a)) + errors(h)/n

has a constant sensitivity for every data set: P_a(h) counts accepted positives of group a. A replaced row changes two
P_a by at most one, so Delta = weight (sum of the two largest 1/D_a) + 1/n; a row taken out changes one, Delta = weight
max 1/D_a + 1/n. e1 pays for D (l1 sensitivity 2, or 1), e2 for the pick: pure (e1 + e2)-DP.

Printed. M = min_a n_1a + Laplace(1/eps) - sqrt(n)/eps stands for the smallest group and Delta = 2/(M - 1) + 1/n. Where
the smallest group has fewer than about sqrt(n)/eps + 1 positives M - 1 is negative: the scale changes its sign, bad
rules are preferred, and the claim of 2 eps does not hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairveil.classify.game.hypotheses import errors
from fairveil.errors import PrivacyError
from fairveil.privacy.mechanisms import DiscreteLaplace, Exponential
from fairveil.privacy.noise import GRID_BITS, Noise

Floats = NDArray[np.float64]
SIZE_SHARE = 0.1
"""Part of the budget that pays for the noisy sizes."""
LEAST_CHOICE = 0.01
_UP = 1 + 1e-9


@dataclass(frozen=True)
class Sound:
    """The pick that keeps its promise: ``epsilon`` in all, for one row replaced or taken out."""

    epsilon: float
    weight: float
    replaced: bool

    def sizes(self, positives: NDArray[np.int64], noise: Noise) -> NDArray[np.int64]:
        """Noisy numbers of positives by group, at least 1."""
        mechanism = DiscreteLaplace(
            sensitivity=2 if self.replaced else 1, epsilon=SIZE_SHARE * self.epsilon, dimension=len(positives)
        )
        return np.maximum(1, np.atleast_1d(mechanism.release(positives, noise)))

    def sensitivity(self, sizes: NDArray[np.int64], rows: int) -> float:
        shares = np.sort(1 / sizes)[::-1]
        return (self.weight * float(shares[: 2 if self.replaced else 1].sum()) + 1 / rows) * _UP

    def mechanism(self, sizes: NDArray[np.int64], rows: int) -> Exponential:
        """Refuses when the noisy sizes leave nothing to choose by: a function of what was released alone."""
        spread, left = self.sensitivity(sizes, rows), (1 - SIZE_SHARE) * self.epsilon
        if left * (self.weight + 1) / (2 * spread) < LEAST_CHOICE:
            raise PrivacyError(
                "the noisy group sizes leave nothing to choose by", path="epsilon", given=self.epsilon,
                fix="a larger budget, fewer groups, or a smaller weight; the budget for the sizes is spent",
            )  # fmt: skip
        return Exponential(sensitivity=spread, epsilon=left)

    def utility(self, table: Floats, people: Floats, sizes: NDArray[np.int64], rows: int) -> Floats:
        """Loss of every hypothesis: unfairness by noisy sizes plus error."""
        rates = np.minimum(table[:, :, 1] / sizes, 1.0)
        return self.weight * (rates.max(axis=1) - rates.min(axis=1)) + errors(table, people) / rows

    def pick(self, table: Floats, people: Floats, rows: int, noise: Noise) -> tuple[int, NDArray[np.int64]]:
        """The chosen hypothesis and the noisy sizes it rests on."""
        sizes = self.sizes(people[:, 1].astype(np.int64), noise)
        loss = self.utility(table, people, sizes, rows)
        return int(self.mechanism(sizes, rows).release(-loss, noise)), sizes


@dataclass(frozen=True)
class Printed:
    """Algorithm 1 as printed, with its epsilon so that the claimed total is ``epsilon`` = 2 eps. Not established."""

    epsilon: float
    weight: float = 1.0

    def scale(self, positives: NDArray[np.int64], rows: int, noise: Noise) -> float:
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
