"""Algorithms 3 and 4 of the thesis: each release is a weighted mean of a prediction and the noisy value."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, Strict

from fairveil.arrays import Bools, Floats, Ints
from fairveil.compiling import njit
from fairveil.configuration import configuration
from fairveil.errors import SpecError, at
from fairveil.fields import Positive, described
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise
from fairveil.registry import register
from fairveil.streams import budget_shares as sharing
from fairveil.streams.budget_shares import Shares
from fairveil.streams.noise_plan import NoisePlan, binomial_plan
from fairveil.streams.protocol import MISSING, RELEASED, SEEN, TIME, USED, State, Track
from fairveil.streams.releasers.common_fields import oracle_reads
from fairveil.streams.releasers.plain_release import PlainReleaser
from fairveil.streams.theory import exact_error, theorem10_error

Weight = Annotated[float, Strict(), Field(gt=0.0, le=1.0, allow_inf_nan=False)]
Listed = Annotated[float, Strict(), Field(ge=0.0, le=1.0, allow_inf_nan=False)]
WEIGHTS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Weights an ``oracle`` chooses from."""
LEAST = 2.0**-24
"""A falling weight below this is 0: nothing could be learnt from the value."""
BASE, SUM, SQUARES, PRODUCTS, LAST = 0, 1, 2, 3, 4
"""Places in the numbers: the first release x_1; sums of x - x_1, their squares and products with the next; the last."""


class PredictionModel(NamedTuple):
    """Public numbers of the predictions, in units of the plain release's noise; ``noise``: variance that reaches x."""

    noise: float
    corrected: bool
    positive: bool
    known: bool = False
    mean: float = 0.0
    variance: float = 0.0
    correlation: float = 0.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def mix_predictions(memory, signal):
    """x = (1 - w) prediction + w y with w = 1/sqrt(r): the noise of x is then the same at every step.

    Algorithm 3 from running sums of x - x_1, which keeps their digits; all of them stay in registers for a batch.
    """
    v, r, seen, out = signal
    model, numbers, counts = memory.shared, memory.numbers, memory.counts
    noise, corrected, positive, known = model.noise, model.corrected, model.positive, model.known
    base, total, squares, products = numbers[BASE], numbers[SUM], numbers[SQUARES], numbers[PRODUCTS]
    last, n = numbers[LAST], float(counts[SEEN])
    each, one_less = 1.0 / max(n, 1.0), 1.0 / max(n - 1.0, 1.0)
    before, w = -1.0, 1.0
    for t in range(len(v)):
        if n == 0.0:
            if seen[t] == 0:
                out[t, 0] = out[t, 1] = np.nan
                continue
            base = v[t]
        guess, error = 0.0, 0.0
        if n > 0.0:
            if known:
                mean, variance, correlation = model.mean - base, model.variance, model.correlation
            else:
                mean = total * each
                spread = squares - total * mean
                without_last = spread - (last - mean) ** 2
                correlation = 0.0
                if without_last > 0:
                    correlation = (products - mean * (2 * total - last) + (n - 1) * mean * mean) / without_last
                variance = max(spread * one_less - noise, 0.0) if n > 1 else 0.0
                correlation = min(max(correlation + (each if positive else 0.0), -1.0), 1.0)
            shrink = variance / (variance + noise) if variance + noise > 0 else 0.0
            pull = correlation if corrected and not known else correlation * shrink
            guess = mean + pull * (last - mean)
            error = variance * (1 - correlation * correlation * shrink)
        if seen[t] == 0:
            out[t, 0], out[t, 1] = guess + base, error + noise
            continue
        if r[t] != before:
            before, w = r[t], 1.0 / math.sqrt(r[t])
        x = (1.0 - w) * guess + w * (v[t] - base)
        products += last * x
        total += x
        squares += x * x
        last, n = x, n + 1.0
        one_less, each = (each if n > 1.0 else 1.0), 1.0 / n
        out[t, 0], out[t, 1] = x + base, (1.0 - w) ** 2 * error + noise
    numbers[BASE], numbers[SUM], numbers[SQUARES], numbers[PRODUCTS] = base, total, squares, products
    numbers[LAST] = last
    counts[TIME] += len(v)
    counts[SEEN] = int(n)


@configuration
class KnownSequence:
    """Mean, standard deviation and lag-one correlation that an analyst knows (they are public)."""

    mean: Annotated[float, Field(allow_inf_nan=False)]
    std: Positive
    correlation: Annotated[float, Field(ge=-1.0, le=1.0)]


@register("releaser", "predictive")
@configuration
class Predictive(PlainReleaser):
    """A weighted mean of a learnt AR(1) prediction and the noisy value (Algorithms 3 and 4).

    x_t = (1 - w_t) prediction + w_t z_t + n_t = (1 - w_t) prediction + w_t y_t with y_t = z_t + n_t/w_t: one plain
    release and post-processing. The first two steps have weight 1 at the same n_t.
    Guarantee: mu-GDP, hence (epsilon, delta)-DP, for ``unit``; mu^2 = D^2 sum w_t^2/sigma_n^2 with the two ones in the
    sum. ``variant = "printed"`` calibrates by Corollary 1; with Binomial noise it adds integers to a fraction, which
    shows the data (not established).
    ``estimator``: ``printed`` shrinks the correlation twice, ``corrected`` once. ``known``: mean, std, correlation.
    Where a list of weights has 0 nothing is released and the prediction is shown (a value that is not sampled). With a
    ``ratio`` w_t = weight ratio^(t-3) from the third step on; then sum w_t^2 converges and no horizon is needed.
    Cost: one event for the whole stream. Running sums: O(1) time and memory a step.

    >>> releaser = Predictive(epsilon=1.0, delta=1e-7, horizon=100, weight=0.1)
    >>> round(releaser.noise_in_shown, 2)                       # D sqrt(2 + 98/100)/mu
    8.08
    >>> endless = Predictive(epsilon=1.0, delta=1e-7, weight=0.6, ratio=0.8)
    >>> round(endless.noise_in_shown, 2)                       # D sqrt(2 + .36/(1 - .64))/mu, for ever
    8.1

    Reference: thesis sections 3.4 to 3.6.
    """

    weight: Weight | Annotated[tuple[Listed, ...], Strict(False)] | Literal["oracle"] = described(
        "weight of the fresh value against the prediction; in a list 0 where a step is not sampled", default=0.5
    )
    ratio: Annotated[float, Strict(), Field(gt=0.0, lt=1.0)] | None = described(
        "ratio of falling geometric weights, with which a stream may be endless", default=None
    )
    estimator: Literal["printed", "corrected"] = described(
        "how the model is estimated: as printed, or corrected", default="printed"
    )
    known: dict[str, Any] | None = described("public numbers of the model, instead of estimates", default=None)
    positive_correlation: bool = described("whether neighbours in time are known to move together", default=True)

    kernel = staticmethod(mix_predictions)

    def __post_init__(self) -> None:
        if isinstance(self.weight, tuple) and (self.horizon is None or len(self.weight) != self.horizon):
            raise SpecError(
                "a list of weights has one weight a step",
                path="weight",
                given=f"{len(self.weight)} weights",
                allowed="as many as the horizon",
            )
        if isinstance(self.weight, tuple) and 0.0 in self.weight[:2]:
            raise SpecError("the first two steps are always sampled", path="weight", given=list(self.weight[:2]))
        if self.ratio is not None and (not isinstance(self.weight, float) or self.law in ("binomial", "laplace")):
            raise SpecError(
                "falling weights start from one weight and have Gaussian noise",
                path="ratio",
                given=self.ratio,
                allowed='one number as weight, law "gaussian" or "discrete-gaussian"',
            )
        if self.known is not None:
            try:
                KnownSequence(**self.known)
            except SpecError as problem:
                raise at(problem, "known") from None
        super().__post_init__()

    @property
    def _weights(self) -> tuple[float, ...]:
        if isinstance(self.weight, tuple):
            return tuple(weight for weight in self.weight if weight > 0)
        return (1.0 if self.weight == "oracle" else float(self.weight),)

    @cached_property
    def shares(self) -> Shares:
        if self._schedule != "even":
            raise SpecError("the weights are the schedule here", path="schedule", allowed="even")
        if self.touched is None and self.ratio is None:
            raise self.need_horizon()
        if self.law in ("binomial", "laplace"):
            assert self.touched is not None
            return sharing.even(self.touched)
        return sharing.weighted(self._weights, self.horizon, self.touched, self.unit != "sequence", self.ratio or 0.0)

    @property
    def draws(self) -> int:
        return super().draws if self.ratio is None else math.ceil(self.shares.total) + 1

    def _sampled(self, state: State, present: Bools) -> Bools:
        """Which of these values have a weight above 0: nothing reads the others."""
        if isinstance(self.weight, tuple) and 0.0 in self.weight:
            own = self.weight[int(state["counts"][TIME]) :][: len(present)]
            return present & np.array([*(weight > 0 for weight in own), *[False] * (len(present) - len(own))])
        if self.ratio is None:
            return present
        release = int(state["counts"][USED]) + np.cumsum(present) - 1
        return present & (self._weights[0] * self.ratio ** np.maximum(release - 2.0, 0.0) >= LEAST)

    def _read(self, state: State, values: Floats) -> Floats:
        return np.where(self._sampled(state, ~np.isnan(values)), values, np.nan)

    def check(self, state: State, values: Floats) -> None:
        super().check(state, self._read(state, values))

    def replay(self, state: State, units: Ints, status: Ints) -> Track:
        return super().replay(state, units, np.where(self._sampled(state, status != MISSING), status, MISSING))

    @property
    def steady(self) -> bool:
        return False

    @property
    def _may_have_offset(self) -> bool:
        return False

    @property
    def noise_in_shown(self) -> float:
        """Std of n_t, the noise that reaches x_t."""
        return self.plan.std * (1.0 if self.shares.kind == "weights" else self._weights[0])

    @cached_property
    def plan(self) -> NoisePlan:
        if self.law == "binomial" and self.variant == "printed":
            assert self.touched is not None
            return binomial_plan(self.budget, int(self.step_sensitivity), self.touched, min(self._weights))
        return super().plan

    def guarantee(self) -> Guarantee:
        if self.law == "binomial" and self.variant == "printed":
            why = "integer noise on a weighted, fractional value leaves its fraction in sight (Theorem 9 fails)"
            facts = self.facts(why, established=self._weights == (1.0,))
            return Guarantee.approximate(*self.budget.pair, **facts)
        return super().guarantee()

    @cached_property
    def shared(self) -> PredictionModel:
        std = self.plan.std
        made = PredictionModel(
            (self.noise_in_shown / std) ** 2, self.estimator == "corrected", self.positive_correlation
        )
        if self.known is None:
            return made
        known = KnownSequence(**self.known)
        return made._replace(
            known=True,
            mean=float(known.mean / std),
            variance=(known.std / std) ** 2,
            correlation=float(known.correlation),
        )

    def numbers(self) -> Floats:
        return np.zeros(5)

    def advance(self, state: State, values: Floats, noise: Noise) -> Track:
        if self.weight == "oracle":
            raise oracle_reads("weight", "give a weight")
        values = self._read(state, values)
        if self.law != "binomial" or self.variant != "printed":
            return super().advance(state, values, noise)
        # As printed: w z + N with an integer N, that is y = z + N/w, which is not on any grid.
        seen = ~np.isnan(values)
        self.check_horizon(state, int(seen.sum()))
        status = np.where(seen, RELEASED, MISSING)
        v = np.zeros(len(values))
        drawn = self.plan.noise(0, int(seen.sum()), noise)
        weights = 1.0 / np.sqrt(self._variances(int(state["counts"][USED]), status)[seen])
        v[seen] = values[seen] + drawn / weights
        plain = np.where(seen, v, np.nan)
        return self.show(state, v / self.plan.reference, plain, status, np.zeros(len(values), np.int64))

    def _variances(self, first: int, status: Ints) -> Floats:
        if self.shares.kind == "weights":
            return super()._variances(first, status)
        made = np.ones(len(status))
        used = np.flatnonzero(status != MISSING)
        weights = sharing.Shares("weights", 1.0, weights=self._weights).at(first, len(used))
        made[used] = 1.0 / weights
        return made

    def expected_error(self, std: float, correlation: float) -> tuple[float, float]:
        """Root mean squared error for AR(1) data with known parameters: exact, and as Theorem 10 states it."""
        weight = self._weights[0]
        noise = self.noise_in_shown / weight
        found = exact_error(correlation, weight, noise, std), theorem10_error(correlation, weight, noise, std)
        return math.sqrt(found[0]), math.sqrt(found[1])
