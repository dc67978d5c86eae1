"""What the private score, the block models and all counts cost together, and the noise that keeps to the budget.

One accountant adds Renyi curves. A fit by Gaussian objective perturbation with noise std L/r costs, at order a,
j + a r^2/2 + ln(2 Phi((a-1) r))/(a-1) with j = ln(1 + L^2/(4 strength)); all counts together cost a mu^2/2. One scale s
fixes every noise: r_i = s sqrt(share_i), mu = s sqrt(count share), and s is the largest for which the whole, over all
planned retrainings, converts to (epsilon, delta). One per cent of epsilon is kept for the fits' last noise, and what
their grid adds is taken off delta first. Everything here is public and known before any data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from scipy.special import log_ndtr

from fairveil.classify.perturbation import Perturbation
from fairveil.errors import SpecError
from fairveil.privacy.calibration import fits as budget
from fairveil.privacy.events import ApproximateEvent, Event

NeighboursName = Literal["zero-out-row", "replace-row"]


@dataclass(frozen=True)
class Plan:
    """The public plan of one learner: ``models`` block models beside the score, counts or none, so many retrainings.

    >>> plan = Plan(1.0, 1e-5, bound=15**0.5)
    >>> round(plan.strength, 1), round(plan.score_root, 3), round(plan.mu, 3)
    (28.2, 0.168, 0.123)
    """

    epsilon: float
    delta: float
    bound: float
    """L: norm of the longest row with its intercept entry."""
    neighbours: NeighboursName = "zero-out-row"
    retrainings: int = 1
    models: int = 0
    rounds: int = 200
    count_share: float = 0.35
    count_parts: tuple[float, float, float] = (0.2, 0.65, 0.15)
    score_share: float = 0.5
    fixed_strength: float | None = None

    @property
    def inner(self) -> tuple[float, float]:
        """(epsilon, delta) for one row taken out: replacing a row is two such steps."""
        return zero_out_budget(self.epsilon, self.delta, self.neighbours)

    @property
    def fits(self) -> int:
        return 1 + self.models

    @property
    def widest(self) -> float:
        """La: block models see the label beside the features."""
        return math.hypot(self.bound, 1.0) if self.models else self.bound

    @property
    def strength(self) -> float:
        """So strong that all determinants together cost an eighth of epsilon."""
        if self.fixed_strength is not None:
            return self.fixed_strength
        share = self.inner[0] / (8 * self.fits * self.retrainings)
        return max(1.0, self.widest**2 / (4 * math.expm1(min(share, 100.0))))

    @property
    def score_root(self) -> float:
        """r of the score: its noise in the objective has std L/r."""
        if self.count_share == 0:
            return self._scale
        return self._scale * math.sqrt((1 - self.count_share) * (self.score_share if self.models else 1.0))

    @property
    def block_root(self) -> float:
        left = (1 - self.count_share) * (1 - self.score_share)
        return self._scale * math.sqrt(left / max(self.models, 1))

    @property
    def mu(self) -> float:
        """All counts of one fit together cost mu^2/2 in zCDP."""
        return self._scale * math.sqrt(self.count_share)

    @property
    def zone_sigma(self) -> float:
        return _up(1 / (self.mu * math.sqrt(self.count_parts[0])))

    @property
    def audit_sigma(self) -> float:
        """Of each count of each round; the mean over all rounds has noise 1/(mu sqrt(part)) whatever their number."""
        return _up(math.sqrt(self.rounds) / (self.mu * math.sqrt(self.count_parts[1])))

    def report_sigma(self, plays: int) -> float:
        """Of each report count: one row has at most ``plays`` votes in two cells, which is its l2 weight at most."""
        return _up(plays / (self.mu * math.sqrt(self.count_parts[2])))

    def curve(self, order: float) -> float:
        """Renyi cost of one fit at this order: score, block models and counts."""
        return _curve(order, self._roots, self._determinants, self.mu)

    def spent(self, fits: int) -> float:
        """Epsilon after so many of the planned retrainings, at the guarantee's own delta."""
        if not 0 <= fits <= self.retrainings:
            raise SpecError(
                "the budget was split over fewer fits", path="fits", given=fits,
                allowed=f"from 0 to {self.retrainings}", fix="plan them: retrainings",
            )  # fmt: skip
        if fits == 0:
            return 0.0
        steps = 2 if self.neighbours == "replace-row" else 1
        found = _epsilon(self._roots, self._determinants, self.mu, fits, self._ideal_delta)
        return min(self.epsilon, steps * (fits * self.fits * self.tail + found))

    def score_epsilon(self) -> float:
        """Epsilon of one score alone, for one row taken out, at the delta of `inner`."""
        return _epsilon((self.score_root,), self._determinants[:1], 0.0, 1, self._ideal_delta) + self.tail

    def event(self) -> Event:
        """What one person pays over all planned fits."""
        return ApproximateEvent(self.epsilon, self.delta)

    @property
    def tail(self) -> float:
        """Epsilon of the last noise of one fit."""
        return budget.TOLERANCE_SHARE * self.inner[0] / (self.fits * self.retrainings)

    def perturbation(self, rows: int, width: int, *, block: bool = False) -> Perturbation:
        """How the score (or a block model) is fitted. ``rows`` is the public number of rows, ``width`` all columns."""
        bound = self.widest if block else self.bound
        epsilon, delta = self.inner
        made = Perturbation(
            "objective", "gaussian", epsilon, delta, self.fits * self.retrainings, bound, self.strength, 1.0,
            root=self.block_root if block else self.score_root, tail=self.tail,
        )  # fmt: skip
        return made.tolerant(rows, width)

    @property
    def _ideal_delta(self) -> float:
        epsilon, delta = self.inner
        return budget.ideal_delta(epsilon, delta, self.fits * self.retrainings)

    @property
    def _determinants(self) -> tuple[float, ...]:
        sides = [self.bound] + [self.widest] * self.models
        return tuple(math.log1p(side * side * (1 + 1e-9) / (4 * self.strength)) * (1 + 1e-12) for side in sides)

    @property
    def _shares(self) -> tuple[float, ...]:
        if not self.models:
            return (1 - self.count_share,)
        left = 1 - self.count_share
        return (left * self.score_share,) + (left * (1 - self.score_share) / self.models,) * self.models

    @property
    def _roots(self) -> tuple[float, ...]:
        return tuple(self._scale * math.sqrt(share) for share in self._shares)

    @cached_property
    def _scale(self) -> float:
        epsilon = self.inner[0] - self.fits * self.retrainings * self.tail
        if self.count_share == 0 and not self.models:
            return budget.objective_root(epsilon, self._ideal_delta, self.retrainings, self._determinants[0])
        return _largest_scale(
            epsilon, self._ideal_delta, self.retrainings, self._shares, self._determinants, self.count_share
        )


def zero_out_budget(epsilon: float, delta: float, neighbours: str) -> tuple[float, float]:
    """The budget of one row taken out that promises (epsilon, delta) for these neighbours.

    Replacing a row is taking it out and putting another in: two steps of (epsilon/2, delta/(1 + e^(epsilon/2))).
    """
    if neighbours == "zero-out-row":
        return epsilon, delta
    return epsilon / 2, delta / (1 + math.exp(min(epsilon / 2, 700.0)))


def _curve(order: float, roots: tuple[float, ...], determinants: tuple[float, ...], mu: float) -> float:
    excess = order - 1
    cost = order * mu * mu / 2
    for root, determinant in zip(roots, determinants, strict=True):
        fold = (math.log(2) + float(log_ndtr(excess * root))) / excess
        cost += determinant + order * root * root / 2 + fold
    return cost


def _epsilon(roots: tuple[float, ...], determinants: tuple[float, ...], mu: float, fits: int, delta: float) -> float:
    """Epsilon at delta of so many fits, by the best order."""
    total = fits * (sum(root * root for root in roots) + mu * mu)
    return budget.curve_epsilon(lambda order: fits * _curve(order, roots, determinants, mu), delta, total)


@lru_cache(maxsize=256)
def _largest_scale(
    epsilon: float, delta: float, fits: int, shares: tuple[float, ...], determinants: tuple[float, ...], counts: float
) -> float:
    def fine(scale: float) -> bool:
        roots = tuple(scale * math.sqrt(share) for share in shares)
        return _epsilon(roots, determinants, scale * math.sqrt(counts), fits, delta) <= epsilon

    low = high = 1e-6
    if fits * sum(determinants) >= epsilon or not fine(low):
        raise budget.too_weak(epsilon, fits)
    while fine(high):
        low, high = high, high * 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if fine(middle) else (low, middle)
    return low


def _up(sigma: float) -> float:
    return sigma * (1 + 1e-12)
