"""Binomial noise for integers, with its exact privacy curve."""

from __future__ import annotations

import math
from functools import lru_cache

from numpy.typing import ArrayLike

from fairveil.arrays import Ints
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fields import Count, Delta, Epsilon, described
from fairveil.privacy.events import ApproximateEvent, Event
from fairveil.privacy.mechanisms.base import Mechanism, as_integers
from fairveil.privacy.noise import Noise
from fairveil.registry import register

MOST_COINS = 2**26


@register("mechanism", "binomial")
@configuration
class Binomial(Mechanism):
    """Add centred binomial noise, heads in n fair coins minus n/2, to an integer.

    Guarantee: (epsilon, delta)-DP for every two integers that differ by at most ``sensitivity``. n is the smallest
    even number whose exact curve allows it (see `binomial_delta`), not the closed-form bound of the literature.
    Sensitivity: an integer. A value that is not an integer is refused: integer noise would leave its fraction in sight.
    Proof: the law is log-concave, so the likelihood ratio of a shift by k falls along the line and the worst event is
    a tail; its probabilities are binomial tails. Larger shifts are worse, and the law is symmetric.
    Cost: n random bits a release (n is about 2 ln(1/delta) (sensitivity/epsilon)^2).

    >>> Binomial(sensitivity=1, epsilon=0.5, delta=1e-5).coins
    204

    Reference: Dwork, Kenthapadi, McSherry, Mironov and Naor 2006; Agarwal et al. 2018.
    """

    sensitivity: Count = described("how far two neighbouring inputs may be apart", example=1)
    epsilon: Epsilon = described("budget of one release", example=1.0)
    delta: Delta = described("chance that the budget is exceeded", example=1e-5)

    def __post_init__(self) -> None:
        if self.coins > MOST_COINS:
            raise SpecError(
                "this budget needs too many coins",
                path="epsilon",
                given=self.epsilon,
                allowed=f"a budget that {MOST_COINS} coins satisfy",
                fix="use discrete-gaussian",
            )

    @property
    def coins(self) -> int:
        return _coins(self.sensitivity, self.epsilon, self.delta)

    @property
    def std(self) -> float:
        return math.sqrt(self.coins) / 2

    def event(self) -> Event:
        return ApproximateEvent(self.epsilon, self.delta)

    def releases(self, value: ArrayLike, noise: Noise, count: int) -> Ints:
        (own,) = as_integers(value, 1)
        return own + noise.binomial(self.coins, count) - self.coins // 2


def binomial_delta(coins: int, shift: int, epsilon: float) -> float:
    """The exact delta at epsilon of adding ``coins`` fair coins to integers that differ by ``shift``, rounded up.

    >>> binomial_delta(1000, 1, 0.208) < 1e-5 < binomial_delta(1000, 1, 0.206)
    True
    """
    from scipy.stats import binom

    if shift > coins:
        return 1.0
    low, high = shift - 1, coins  # the worst event is {y <= cut}; below the shift the other world has no mass at all
    while low < high:
        cut = (low + high + 1) // 2
        if binom.logpmf(cut, coins, 0.5) > epsilon + binom.logpmf(cut - shift, coins, 0.5):
            low = cut
        else:
            high = cut - 1
    first, second = binom.cdf(low, coins, 0.5), binom.cdf(low - shift, coins, 0.5)
    if second > 0:
        first -= math.exp(min(epsilon + math.log(second), 0.0))
    return float(min(1.0, first + 1e-9 * abs(first) + 1e-18))


def binomial_epsilon(coins: int, shift: int, delta: float) -> float:
    """The exact epsilon at delta: the smallest at which `binomial_delta` is at most delta (inf if none is)."""
    if binomial_delta(coins, shift, 0.0) <= delta:
        return 0.0
    high = 1.0
    while binomial_delta(coins, shift, high) > delta:
        high *= 2
        if high > 1e6:
            return math.inf
    low = 0.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if binomial_delta(coins, shift, middle) <= delta else (middle, high)
    return high


@lru_cache(maxsize=1024)
def _coins(shift: int, epsilon: float, delta: float) -> int:
    """The smallest even number of coins, or more than `MOST_COINS`."""
    high = 2 * shift
    while binomial_delta(high, shift, epsilon) > delta:
        high *= 2
        if high > 2 * MOST_COINS:
            return high
    low = high // 2
    while high - low > 2:
        middle = (low + high) // 4 * 2
        low, high = (low, middle) if binomial_delta(middle, shift, epsilon) <= delta else (middle, high)
    return high + high % 2
