"""What all environments of plain arms share: laws, true means (also as logarithms) and the drawn instance.

Reward laws of plain arms as arrays, and the compiled draws every simulator and the step API share.

A law is a row of numbers (kind, probability, two parameters). `draw` gives one reward, `draw_sum` gives the
sum of a whole episode on the integer grid, in one binomial draw where the law allows it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba.np.random.distributions import _binomial_btpe_squeeze as _falls_short
from numba.np.random.distributions import random_binomial_inversion as _by_inversion
from numba.np.random.generator_core import next_double, next_uint32

from fairveil.arrays import Floats, Ints
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.facts import Fact, Same
from fairveil.bandits.protocol import Round
from fairveil.compiling import inner, njit
from fairveil.configuration import configuration
from fairveil.errors import ContractError, InputError, SpecError
from fairveil.fields import Count, Natural, Probability, Vector, described
from fairveil.privacy.noise import GRID_BITS
from fairveil.randomness import Generator

UNIT = 1 << GRID_BITS
DRAWN_ARMS = 50
BERNOULLI, TWO_POINT, BETA, UNIFORM, RECORDED, RESAMPLED = range(6)


class Laws(NamedTuple):
    """One entry an arm; ``rows`` and ``prefix`` hold a recorded table (rewards, running sums in grid units)."""

    kind: Ints
    chance: Floats
    low: Floats
    high: Floats
    rows: Floats
    prefix: Ints


def make_laws(
    kind: list[int], chance: list[float], low: list[float], high: list[float], rows: Floats | None = None
) -> Laws:
    table = np.zeros((0, len(kind))) if rows is None else np.ascontiguousarray(rows, np.float64)
    units = (table * UNIT).astype(np.int64)
    prefix = np.concatenate([np.zeros((1, table.shape[1]), np.int64), np.cumsum(units, axis=0)])
    return Laws(np.array(kind, np.int64), np.array(chance), np.array(low), np.array(high), table, prefix)


@njit(nogil=True)
def below(rng, high):
    """``rng.integers(0, high)`` for 1 <= high <= 2^32 - 1: NumPy's number, in a tenth of the code and without an array.

    Lemire's multiplication: the draws whose low half would make some result likelier than others are thrown away.
    """
    if high == 1:
        return np.int64(0)
    while True:
        scaled = np.uint64(next_uint32(rng.bit_generator)) * np.uint64(high)
        rest = np.int64(scaled & np.uint64(0xFFFFFFFF))
        if rest >= high or rest >= (0x100000000 - high) % high:
            return np.int64(scaled >> np.uint64(32))


@inner
def _accepted(v, y, m, n, r, q):
    """Whether y is as likely as v asks, against the mode m: exactly where that is near, by bounds where it is far."""
    k, variance = abs(y - m), n * r * q
    if 20 < k < variance / 2.0 - 1:
        width = (k / variance) * ((k * (k / 3.0 + 0.625) + 0.16666666666666666) / variance + 0.5)
        fall, level = -k * k / (2 * variance), math.log(v)
        return level < fall - width or not (level > fall + width or _falls_short(level, m + 0.5, m, n, y, r, q))
    odds = r / q
    a, ratio = odds * (n + 1), 1.0
    for i in range(m + 1, y + 1):
        ratio = ratio * (a / i - odds)
    for i in range(y + 1, m + 1):
        ratio = ratio / (a / i - odds)
    return v <= ratio


@inner
def _by_rejection(bits, n, r):
    """BTPE (Kachitvichyanukul and Schmeiser 1988) for r <= 1/2 and n r > 30: a triangle, two parallelograms above its
    sides and two exponential tails cover the law; NumPy's draws in their order.
    """
    q = 1.0 - r
    fm = n * r + r
    m = np.int64(math.floor(fm))
    p1 = math.floor(2.195 * math.sqrt(n * r * q) - 4.6 * q) + 0.5
    xm = m + 0.5
    xl, xr = xm - p1, xm + p1
    c = 0.134 + 20.5 / (15.3 + m)
    left, right = (fm - xl) / (fm - xl * r), (xr - fm) / (xr * q)
    left, right = left * (1.0 + left / 2.0), right * (1.0 + right / 2.0)
    p2 = p1 * (1.0 + 2.0 * c)
    p3 = p2 + c / left
    p4 = p3 + c / right
    while True:
        u = next_double(bits) * p4
        v = next_double(bits)
        if u <= p1:
            return np.int64(math.floor(xm - p1 * v + u))
        if u <= p2:
            x = xl + (u - p1) / c
            v = v * c + 1.0 - math.fabs(m - x + 0.5) / p1
        elif u <= p3:
            x = xl + math.log(v) / left
            v = v * (u - p2) * left
        else:
            x = xr - math.log(v) / right
            v = v * (u - p3) * right
        y = np.int64(math.floor(x))
        if (v > 0.0 if u > p2 else v <= 1.0) and 0 <= y <= n and _accepted(v, y, m, n, r, q):
            return y


@njit(nogil=True)
def binomial(rng, n, p):
    """``rng.binomial(n, p)``: NumPy's number, in two thirds of the code that numba's own takes to be compiled."""
    if n == 0 or p == 0.0:
        return np.int64(0)
    r = p if p <= 0.5 else 1.0 - p
    drawn = np.int64(
        _by_inversion(rng.bit_generator, n, r) if r * n <= 30.0 else _by_rejection(rng.bit_generator, n, r)
    )
    return drawn if p <= 0.5 else n - drawn


@njit(cache=True, nogil=True)
def draw(kind, chance, low, high, rows, arm, index, rng):
    """One reward of an arm in round ``index``.

    Takes the arrays of the laws; loops that run every round draw Bernoulli rewards themselves (same stream), because
    handing arrays to a function costs ten times the draw.
    """
    if kind[arm] == BERNOULLI:
        return 1.0 if rng.random() < chance[arm] else 0.0
    if kind[arm] == TWO_POINT:
        return high[arm] if rng.random() < chance[arm] else low[arm]
    if kind[arm] == BETA:
        return rng.beta(low[arm], high[arm])
    if kind[arm] == UNIFORM:
        return low[arm] + (high[arm] - low[arm]) * rng.random()
    if kind[arm] == RECORDED:
        return rows[index, arm]
    return rows[below(rng, rows.shape[0]), arm]


@njit(cache=True, nogil=True)
def draw_one(laws: Laws, arm: int, index: int, rng: Generator) -> float:
    """One reward, for the step API."""
    kind, chance, low, high, rows, _ = laws
    return draw(kind, chance, low, high, rows, arm, index, rng)


@njit(cache=True, nogil=True)
def draw_sum(laws: Laws, arm: int, index: int, count: int, rng: Generator) -> Any:
    """The sum of rounds index .. index + count - 1 of one arm, in grid units: one draw where the law allows it."""
    kind, chance, low, high, rows, prefix = laws
    if kind[arm] == BERNOULLI:
        return binomial(rng, count, chance[arm]) * UNIT
    if kind[arm] == TWO_POINT:
        ups = binomial(rng, count, chance[arm])
        return ups * np.int64(high[arm] * UNIT) + (count - ups) * np.int64(low[arm] * UNIT)
    if kind[arm] == RECORDED:
        return prefix[index + count, arm] - prefix[index, arm]
    total = np.int64(0)
    for step in range(count):
        total += np.int64(draw(kind, chance, low, high, rows, arm, index + step, rng) * UNIT)
    return total


class ArmEnvironment(Environment):
    """k arms with rewards in [0, 1]; the mean of an arm is the same in every round.

    A world of one's own gives ``arms``, ``true_means`` and ``reward``. With ``laws`` policies are simulated by compiled
    code; without them their steps are played one by one, with the same decisions.
    """

    family = "nash"
    arms: Any

    @cached_property
    def laws(self) -> Laws:
        """The reward law of every arm, as arrays for compiled code."""
        raise ContractError("this world has no laws of rewards", path="environment", fix="define reward, or laws")

    def __init_subclass__(cls) -> None:
        """A world has laws for compiled code, or the steps of a policy are played in it."""
        cls.compiled = cls.laws is not ArmEnvironment.laws

    @cached_property
    @abstractmethod
    def true_means(self) -> Floats:
        """The mean of every arm's own law; regret is measured with these."""

    @cached_property
    def log_means(self) -> Floats:
        """Logarithms of the true means, exact where the means themselves underflow."""
        with np.errstate(divide="ignore"):
            return np.log(self.true_means)

    def facts(self, rounds: int) -> dict[str, Fact]:
        return {**super().facts(rounds), "arms": Same(self.arms)}

    def reward(self, round: Round, arm: int, rng: Generator) -> float:
        if not 0 <= arm < self.arms:
            raise InputError("there is no such arm", path="arm", given=arm, allowed=f"0 to {self.arms - 1}")
        return float(draw_one(self.laws, arm, round.index, rng))

    def later(self, start: int) -> Later:
        """The same world seen by a policy whose round 0 is round ``start``."""
        return Later(self, start)

    def fits(self, rounds: int, strict: bool) -> None:
        """Raise when this world cannot run that long, or would hand out rewards that a strict policy refuses."""


class Later(ArmEnvironment):
    """A world from one of its rounds on."""

    def __init__(self, world: ArmEnvironment, start: int) -> None:
        self.world, self.begins, self.arms = world, start, world.arms

    @cached_property
    def laws(self) -> Laws:
        laws = self.world.laws
        if not len(laws.rows):
            return laws
        return laws._replace(rows=laws.rows[self.begins :], prefix=laws.prefix[self.begins :])

    @cached_property
    def true_means(self) -> Floats:
        return self.world.true_means


def given_means(means: tuple[float, ...]) -> Floats:
    """Means from a spec: at least one, each in [0, 1]."""
    values = np.array(means, np.float64)
    if values.size == 0:
        raise SpecError("there are no arms", path="means", given=list(means), allowed="at least one mean")
    if not ((values >= 0) & (values <= 1)).all():
        raise SpecError(
            "a mean is out of range",
            path="means",
            given=list(means),
            allowed="numbers in [0, 1]",
            fix="write shares, not percentages: 0.2 for 20 %",
        )
    return values


@configuration
class DrawnArms(ArmEnvironment):
    """Arms by a number each, given or drawn uniformly from an interval with a seed."""

    generated: ClassVar[bool] = True

    means: Vector | None = described("mean of each arm; drawn when left out", default=None)
    arms: Count | None = described("number of arms, when means are drawn", default=None, example=3)
    low: Probability = described("lower end of drawn means", default=0.005)
    high: Probability = described("upper end of drawn means", default=1.0)
    means_seed: Natural = described("seed of drawn means", default=42)

    def __post_init__(self) -> None:
        if self.means is not None:
            given_means(self.means)
            if self.arms not in (None, len(self.means)):
                raise SpecError(
                    "the number of arms differs from the number of means",
                    path="arms",
                    given=self.arms,
                    allowed=str(len(self.means)),
                )
        object.__setattr__(self, "arms", len(self.means) if self.means is not None else self.arms or DRAWN_ARMS)
        if not self.low < self.high:
            raise SpecError(
                "the interval of means is empty", path="low", given=[self.low, self.high], allowed="low < high"
            )

    @cached_property
    def labels(self) -> Floats:
        """The number of each arm. Drawn from numpy's legacy stream: seed 42, 50 arms is the published instance."""
        if self.means is not None:
            return np.array(self.means, np.float64)
        return np.random.RandomState(self.means_seed).uniform(self.low, self.high, self.arms)
