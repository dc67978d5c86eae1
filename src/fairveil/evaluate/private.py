"""The private value of a rule: two noisy sums of centred, clipped importance weights, and nothing else.

Unit and neighbours. One row of the log (arm, outcome, propensity, features); two logs of the same length that differ in
one row. The number of rows n, the arms, the range of outcomes, the rule and the clip C are public.

Sensitivity. Row t enters as u = min(w, C) (y - 1/2)/C, which lies in [-1/2, 1/2] whatever the row holds, and as k u^2.
On the grid u is a whole number U with |U| <= 2^19, and the square is floor(k U^2/2^20), a function of U. Replacing U by
V: with d = |U - V| and |U + V| <= 2^20 - d both change by at most d and k d (2 - d/2^20) - k d, so that
- k = 1 (Laplace): the l1 norm is below 2^20 + 1 (rounding adds less than one unit), hence at most 2^20;
- k = 3.33 (Gaussian): k^2 <= (1 + t)/(t^2 (1 - t)) for all t = d/2^20 in (0, 1], whose least value is 11.0902, so
  the l2 norm is at most 2^20, and with rounding at most 2^20 + 1.
The second moment costs nothing beside the first, and noise is half (Laplace) or 1/sqrt 2 (Gaussian) of what the sums of
uncentred rows need.

Release. One draw for the pair. Weights have mean 1 under the logging law, so the value is 1/2 + C (sum of u)/n; value
and interval are post-processing. Under a ledger the pair is charged before it is drawn and stored before it is used;
the same question again, of a log with as many rows, is answered with the stored pair.

Clipping. No weight is above the public W. A row that is clipped loses (w - C) c with |c| <= 1/2 and
(w - C) <= w (1 - C/W), so the value is off by at most (1 - C/W)/2 to either side, whatever the log holds: both ends of
the interval make room for that. Without a W nothing is known of what was lost, and the interval says nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.errors import PrivacyError
from fairveil.evaluate.estimators import Estimate, quantile
from fairveil.fields import Delta, Epsilon, Positive, described
from fairveil.ledger import Account, Ledger, release_once
from fairveil.ledger.account import stop
from fairveil.privacy.encodings import ONE_ROW, RowEncoding, computed, noisy_vector
from fairveil.privacy.events import Event
from fairveil.privacy.grid import to_units
from fairveil.privacy.guarantee import CHOSEN, Guarantee
from fairveil.privacy.noise import Noise
from fairveil.privacy.vectors import ONE, NoisyVector, Price
from fairveil.registry import register

#: Least level of the one-sided bound on the second moment that enters the interval.
MOMENT_LEVEL = 0.95
#: One error this many times as large as another: the law of their sum is that of the larger one.
FAR = 1e4
SQUARE = Fraction(333, 100)
"""The second moment may be scaled by 3.33 under Gaussian noise before the pair's l2 sensitivity grows."""
FORM = "centred"
"""Which sums a question is answered with: part of the question, so that sums of another form never answer it."""
REFUSALS = "a log with a cell that cannot be read is refused by its line: whether it was is not covered"


@register("evaluation", "clipped-importance")
@configuration
class PrivateValue:
    """The value of a rule by centred, clipped importance weights: two noisy sums.

    Guarantee: epsilon-DP, (epsilon, delta)-DP, rho-zCDP or mu-GDP for two logs of the same length that differ in one
    row. The interval covers the value at the level asked for: sampling and noise together, and what clipping may hide.
    Cost: two draws.

    >>> round(PrivateValue(1.0, clip=2.0, largest_weight=4.0).missed, 3), PrivateValue(1.0, clip=2.0).missed
    (0.25, 0.5)
    """

    epsilon: Epsilon | None = described("budget of one row, with Laplace noise", default=None, example=1.0)
    clip: Positive = described("largest weight with which a row counts", default=1.0, example=2.0)
    delta: Delta | None = described("chance that epsilon is exceeded: Gaussian noise", default=None)
    largest_weight: Positive | None = described(
        "largest weight a row can have under the logging rule, public; unknown without it", default=None, example=2.0
    )
    rho: Positive | None = described("budget in zCDP, instead of epsilon", default=None)
    mu: Positive | None = described("budget in Gaussian DP, instead of epsilon", default=None)

    def __post_init__(self) -> None:
        _ = self.price

    @property
    def missed(self) -> float:
        """The most by which clipping moves the value, on the scale [0, 1]; 1/2 where nothing is known."""
        return 0.5 if self.largest_weight is None else max(0.0, 0.5 - 0.5 * self.clip / self.largest_weight)

    @property
    def price(self) -> Price:
        return Price(self.epsilon, self.delta, self.rho, self.mu)

    @property
    def square_factor(self) -> Fraction:
        """What the second moment is multiplied by: as much as costs nothing beside the first."""
        return Fraction(1) if self.price.laplace else SQUARE

    def vector(self, rules: int = 1) -> NoisyVector:
        """The mechanism of so many rules on one log, in one release: every row moves the pair of every rule."""
        return noisy_vector(self.price, ONE_ROW, self.encoding(rules))

    def encoding(self, rules: int = 1) -> RowEncoding:
        """u in [-1/2, 1/2] and k u^2 of a row: proven together, see docs/guarantees/evaluate.md."""
        length = ONE if self.price.laplace else ONE + 1
        return RowEncoding(rules * length, rules * length**2, 2 * rules, "a clipped and centred value, with its square")

    @property
    def mechanism(self) -> NoisyVector:
        return self.vector()

    def event(self) -> Event:
        return self.mechanism.event()

    def guarantee(self) -> Guarantee:
        return self.price.guarantee(
            model="global",
            unit="one row of the log",
            neighbours="replace-row",
            notes=(
                "public: the number of rows, the arms, the range of outcomes, the rule that is valued and the clip",
                "published: the two noisy sums; value and interval are computed from them",
                computed(ONE_ROW, self.encoding()),
                CHOSEN,
                REFUSALS,
                *self._clipping,
            ),
        )

    def units(self, weights: Floats, outcomes: Floats) -> Ints:
        """The sums of u and k u^2 in grid units, exact: integers that add up over pages of a log."""
        centred = np.clip(outcomes, 0.0, 1.0) - 0.5
        share = np.minimum(np.asarray(weights, np.float64), self.clip) / self.clip * centred
        first = to_units(np.clip(share, -0.5, 0.5))
        factor = self.square_factor
        second = factor.numerator * first * first // (factor.denominator * ONE)
        return np.array([first.sum(), second.sum()], np.int64)

    def release(self, weights: Floats, outcomes: Floats, noise: Noise) -> Floats:
        """The noisy sums of u and k u^2."""
        return self.releases(weights, outcomes, noise, 1)[0]

    def releases(self, weights: Floats, outcomes: Floats, noise: Noise, count: int) -> Floats:
        """So many independent releases of the same log, one a row."""
        return self.mechanism.releases(self.units(weights, outcomes), noise, count)

    @property
    def _clipping(self) -> tuple[str, ...]:
        """What the interval cannot say; empty where no row is clipped."""
        if self.missed == 0:
            return ()
        known = (
            "how large weights can be is not declared, and the interval is the whole range"
            if self.largest_weight is None
            else f"weights reach {self.largest_weight:g}, and the interval is {self.missed:.3g} longer at both ends"
        )
        return (f"rows count with a weight of at most {self.clip:g}, so the value may be wrong: {known}",)

    def estimate(self, sums: Floats, rows: int, level: float, noise: float | None = None) -> Estimate:
        """Value and interval from the noisy sums: sampling, noise and clipping together.

        ``noise``: its standard deviation where the pair was released beside others.
        """
        sd = self.mechanism.std if noise is None else noise
        half = self.half_width(float(sums[0]), float(sums[1]), rows, level, sd)
        value = 0.5 + self.clip * float(sums[0]) / rows
        low, high = value - half, value + half
        return Estimate(value, min(low, max(0.0, low - self.missed)), max(high, min(1.0, high + self.missed)))

    def half_width(self, first: float, second: float, rows: int, level: float, noise: float) -> float:
        """Half of the interval without what clipping hides, from the two sums and the noise of each."""
        joined = with_laplace if self.price.laplace else with_gaussian
        sure = 2 * max(level, MOMENT_LEVEL) - 1  # of a one-sided bound
        mean, moment = first / rows, (second + joined(0.0, noise, sure)) / float(self.square_factor) / rows
        sampling = math.sqrt(max(0.0, min(0.25, moment) - mean * mean) / rows)
        return self.clip * joined(sampling, noise / rows, level)


def with_gaussian(sampling: float, noise: float, level: float) -> float:
    """Half of the interval that holds a normal error and Gaussian noise (standard deviations) at this level."""
    return quantile(level) * math.hypot(sampling, noise)


def with_laplace(sampling: float, noise: float, level: float) -> float:
    """Half of the interval that holds a normal error and Laplace noise (standard deviations) at this level.

    >>> round(with_laplace(0.0, math.sqrt(2.0), 0.95) / math.log(20), 9), round(with_laplace(1.0, 1e-9, 0.95), 4)
    (1.0, 1.96)
    """
    from scipy.optimize import brentq
    from scipy.special import log_ndtr

    scale = noise / math.sqrt(2.0)
    alone = scale * math.log(1 / (1 - level))
    if sampling < scale / FAR:
        return alone
    if sampling > scale * FAR:  # the sum is normal to more digits than the formula below keeps there
        return with_gaussian(sampling, noise, level)

    def beyond(half: float) -> float:
        """Chance that the sum of both is further away than ``half``."""
        ratio, at, far = sampling / scale, half / sampling, half / scale
        inside, outside = (ratio**2 / 2 + s * far + float(log_ndtr(-s * at - ratio)) for s in (-1, 1))
        return 2 * math.exp(float(log_ndtr(-at))) + math.exp(inside) - math.exp(outside) - (1 - level)

    return float(brentq(beyond, 0.0, alone + quantile(level) * sampling + 40 * (scale + sampling)))


def account_of(value: PrivateValue, ledger: Ledger, question: Mapping[str, Any]) -> Account:
    """One release, bound to the complete question: another one has an account, and a charge, of its own.

    How large weights can be changes no sum, so that declaring it later asks the same question.
    """
    question = {"form": FORM} | {key: value for key, value in question.items() if key != "largest_weight"}
    digest = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:32]
    return Account(ledger, f"evaluate-{digest}", value.event(), digest, releases=1)


def release_under(
    ledger: Ledger, value: PrivateValue, question: Mapping[str, Any], weights: Floats, outcomes: Floats, noise: Noise
) -> Floats:
    """The noisy sums through a ledger: charged, drawn and stored once for a question; ReleaseLost if they are gone."""
    rows = len(weights)

    def draw(source: Noise) -> dict[str, Any]:
        return {"sums": value.release(weights, outcomes, source), "rows": rows}

    def answers(found: dict[str, Any]) -> Floats:
        """What was stored for this log: the number of rows is public, and one that has changed is another log."""
        if found["rows"] != rows:
            raise PrivacyError(
                "this question was answered already, for a log with another number of rows", path="log",
                given=rows, allowed=f"{found['rows']} rows",
                fix="another log is another question, with its own charge: give the spec another seed",
            )  # fmt: skip
        return np.asarray(found["sums"], np.float64)

    account = account_of(value, ledger, question)
    return release_once(account, account.block("sums"), draw, noise).answer(drawn=answers, stored=answers, lost=stop)
