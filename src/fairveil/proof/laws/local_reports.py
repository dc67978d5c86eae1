"""What a device tells of one reward, exactly: a number with Laplace noise, or a bit of two coins.

>>> from fairveil.bandits.nash.local_nash import LocalNash
>>> round(report_cost(LocalNash(arms=2, epsilon=1.0)), 4)
1.0
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np

from fairveil.arrays import Ints
from fairveil.bandits.protocol import Feedback, Policy
from fairveil.privacy.noise import Noise, ZeroNoise
from fairveil.proof.laws.sums import prices


def told(policy: Policy, reward: float, noise: Noise) -> float:
    """What a device reports of a reward."""
    return float(policy.report(Feedback(0, 0, reward), noise).value)  # type: ignore[union-attr, arg-type]


def sends_bits(policy: Policy) -> bool:
    """Whether its reports are bits; the others are the reward with noise."""
    return policy.local and told(policy, 0.3, ZeroNoise()) in (0.0, 1.0)


def report_cost(policy: Policy) -> float:
    """What a reward's report says of it: a number with Laplace noise, or a bit of two coins."""
    rewards = (0.0, 0.3, 1.0, 40.0, -3.0)
    if not sends_bits(policy):
        others = [np.array([told(policy, reward, ZeroNoise())]) for reward in rewards]
        return max(prices(lambda noise: np.array([told(policy, 0.0, noise)]), others, True))
    chances = np.array([chance_of_one(partial(told, policy, reward)) for reward in rewards])
    both = np.log([chances, 1 - chances])
    return float(np.ptp(both, axis=1).max())


class Coin(ZeroNoise):
    """Hands out thought-of coins."""

    __slots__ = ("coins", "highs")

    def __init__(self, coins: tuple[float, ...]) -> None:
        self.coins, self.highs = coins, list[int]()

    def uniform_integers(self, high: int, size: int = 1) -> Ints:
        self.highs.append(high)
        return np.full(size, int(self.coins[len(self.highs) - 1] * high), np.int64)


def chance_of_one(told: Callable[[Noise], float]) -> float:
    """The chance of a bit that two uniform draws decide, each by a threshold: the thresholds are looked for."""

    def threshold(at: int) -> float:
        low, high = 0.0, 1.0
        first = told(Coin((0.0, 0.0)))
        for _ in range(60):
            middle = (low + high) / 2
            same = told(Coin((middle, 0.0) if at == 0 else (0.0, middle))) == first
            low, high = (middle, high) if same else (low, middle)
        return high

    first, second = threshold(0), threshold(1)
    near = 1 - 2.0**-40
    corners = itertools.product(((0.0, first), (near, 1 - first)), ((0.0, second), (near, 1 - second)))
    return sum(one * two * told(Coin((a, b))) for (a, one), (b, two) in corners)
