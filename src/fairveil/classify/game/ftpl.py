"""FTPL* (Algorithm 2 of Cummings et al. 2019): the perturbed leader over a finite class, sound and as printed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fairveil.arrays import Floats
from fairveil.errors import InputError, SpecError
from fairveil.privacy.conversions import zcdp_rho
from fairveil.privacy.events import ApproximateEvent, Event, ZcdpEvent
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise

FINE = 2.0**30
"""Noise is at least this many grid units wide."""
PUBLIC = "features are public; labels and groups are protected"
FACTS: dict[str, Any] = {"model": "global", "unit": "one person's label and group", "neighbours": "replace-row"}
_rho = lru_cache(maxsize=64)(zcdp_rho)


@dataclass(frozen=True)
class NoisedOnce:
    """Each loss vector is noised when it is observed (discrete Gaussian, zCDP); only noisy ones are kept and summed."""

    epsilon: float
    delta: float
    rounds: int
    sensitivity: float

    @property
    def rho(self) -> float:
        """zCDP of all rounds together."""
        return _rho(self.epsilon, self.delta)

    def event(self) -> Event:
        return ZcdpEvent(self.rho)

    def guarantee(self, public: str, **facts: Any) -> Guarantee:
        return Guarantee.zcdp(self.rho, self.delta, **facts, notes=(public,))

    def observed(self, vector: Floats, noise: Noise) -> Floats:
        """On a grid; rounding moves each coordinate by half a unit, so the vector by sqrt(people) units at most."""
        people = len(vector)
        sigma = self.sensitivity * math.sqrt(self.rounds / (2 * self.rho))
        bits = math.ceil(math.log2(FINE / sigma))
        units = (math.ldexp(self.sensitivity, bits) + math.sqrt(people)) * math.sqrt(self.rounds / (2 * self.rho))
        drawn = noise.gaussian(units * (1 + 1e-12), people)
        return np.ldexp((np.rint(np.ldexp(vector, bits)).astype(np.int64) + drawn).astype(np.float64), -bits)

    def played(self, total: Floats, noise: Noise) -> Floats:
        """A play is a function of what was noised before."""
        return total


@dataclass(frozen=True)
class NoisedEveryRound:
    """As printed: fresh Laplace noise on the raw cumulative sum in every round.

    A person is in t terms of the sum of round t, so the noise hides too little; the claim is not established.
    """

    epsilon: float
    delta: float
    rounds: int
    sensitivity: float

    @property
    def laplace_scale(self) -> float:
        """1/eps' as printed: Delta sqrt(T ln(1/delta))/epsilon."""
        return self.sensitivity * math.sqrt(self.rounds * math.log(1 / self.delta)) / self.epsilon

    def event(self) -> Event:
        return ApproximateEvent(self.epsilon, self.delta)

    def guarantee(self, public: str, **facts: Any) -> Guarantee:
        why = "round t adds noise for one loss vector to a sum of t raw ones, and the oracle reads raw features"
        return Guarantee.approximate(self.epsilon, self.delta, **facts, established=False, notes=(public, why))

    def observed(self, vector: Floats, noise: Noise) -> Floats:
        """Raw losses are kept."""
        return vector

    def played(self, total: Floats, noise: Noise) -> Floats:
        bits = 30 - math.floor(math.log2(self.laplace_scale))
        drawn = noise.laplace(math.ldexp(self.laplace_scale, bits), len(total))
        return total + np.ldexp(drawn.astype(np.float64), -bits)


FORMS: dict[str, type[NoisedOnce] | type[NoisedEveryRound]] = {"sound": NoisedOnce, "printed": NoisedEveryRound}


@dataclass(frozen=True)
class Leader:
    """What has been seen: the sum of losses (printed: raw; sound: noised once each) and the rounds left."""

    total: Floats
    left: int


@dataclass(frozen=True)
class FollowPerturbedLeader:
    """Play the hypothesis (a row of ``hypotheses``, 0 or 1 by person) with the least perturbed sum of losses.

    ``sound``: features are public and each loss vector is noised once (discrete Gaussian, zCDP) when it is observed;
    the noisy vectors are kept and summed. ``sensitivity`` bounds the l2 change of one loss vector. Guarantee: rho-zCDP,
    stated as (epsilon, delta), one person's label and group, features public, whatever the number of plays.
    ``printed``: fresh Laplace noise on the raw cumulative sum in every round (`NoisedEveryRound`); not established.
    Cost: observe O(people), play O(hypotheses x people); memory O(people).

    >>> from fairveil.privacy.noise import ZeroNoise
    >>> leader = FollowPerturbedLeader(np.eye(2), epsilon=1.0, delta=1e-5, rounds=3, sensitivity=1.0)
    >>> state = leader.observe(leader.start(), [1.0, 0.0], ZeroNoise())
    >>> leader.play(state, ZeroNoise())
    1
    """

    hypotheses: ArrayLike = field(repr=False)
    epsilon: float
    delta: float
    rounds: int
    sensitivity: float
    variant: Literal["sound", "printed"] = "sound"

    def __post_init__(self) -> None:
        table = np.asarray(self.hypotheses, np.float64)
        if table.ndim != 2 or not np.isin(table, (0.0, 1.0)).all():
            raise SpecError("hypotheses are rows of zeros and ones", path="hypotheses", allowed="a finite list")
        object.__setattr__(self, "hypotheses", table)
        good = self.rounds >= 1 and 0 < self.sensitivity < math.inf and 0 < self.delta < 1 and 0 < self.epsilon < 1e6
        if not good or self.variant not in FORMS:
            raise SpecError(
                "this leader cannot be made", path="rounds", given=self.rounds,
                allowed="rounds >= 1, sensitivity > 0, epsilon > 0, delta in (0, 1), variant sound or printed",
            )  # fmt: skip

    @property
    def people(self) -> int:
        return int(np.asarray(self.hypotheses).shape[1])

    @property
    def form(self) -> NoisedOnce | NoisedEveryRound:
        """Where the noise goes, and what that promises."""
        return FORMS[self.variant](self.epsilon, self.delta, self.rounds, self.sensitivity)

    def event(self) -> Event:
        return self.form.event()

    def guarantee(self) -> Guarantee:
        return self.form.guarantee(PUBLIC, **FACTS)

    def start(self) -> Leader:
        return Leader(np.zeros(self.people), self.rounds)

    def observe(self, state: Leader, loss: ArrayLike, noise: Noise) -> Leader:
        """Take one loss vector (sound: this is where it is noised)."""
        vector = np.asarray(loss, np.float64)
        if vector.shape != (self.people,) or not np.isfinite(vector).all():
            raise InputError("a loss vector has one number a person", path="loss", allowed=f"{self.people} numbers")
        if state.left == 0:
            raise InputError("all planned rounds are over", path="rounds", allowed=f"{self.rounds} loss vectors")
        return replace(state, total=state.total + self.form.observed(vector, noise), left=state.left - 1)

    def play(self, state: Leader, noise: Noise) -> int:
        """The leader. Printed: with fresh noise; sound: a function of what was noised when it was observed."""
        return int(np.argmin(np.asarray(self.hypotheses) @ self.form.played(state.total, noise)))
