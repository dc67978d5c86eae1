"""A Bayesian bank of small Kalman filters on the plain release: learns level, size, speed, trend and season from y."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, Strict

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fields import OpenUnit, described
from fairveil.registry import register
from fairveil.streams import budget_shares as sharing
from fairveil.streams.budget_shares import Shares
from fairveil.streams.filters.experts import AUTO, ExpertModels, plain_experts, season_experts
from fairveil.streams.filters.kalman_bank import (
    OWN,
    RING,
    WORK,
    BankShape,
    Beliefs,
    Places,
    filter_bank,
    flush,
    places_of,
    step_bank,
)
from fairveil.streams.filters.leaky_sum import CLIP, filter_leaky, forget_sum, leak, slack
from fairveil.streams.filters.leaky_sum import OWN as OWN_LEAKY
from fairveil.streams.filters.leaky_sum import WORK as WORK_LEAKY
from fairveil.streams.noise_plan import NoisePlan, gaussian_plan
from fairveil.streams.protocol import TIME, Released, State, Track
from fairveil.streams.releasers.plain_release import RAW, PlainReleaser
from fairveil.streams.theory import memory_norm, reach_of

Share = Annotated[float, Strict(), Field(ge=0.0, lt=1.0, allow_inf_nan=False)]
Lag = Annotated[int, Strict(), Field(ge=0, le=1000)]
MOST = 10**6
"""Experts times phases: more would not fit a state that is saved and replayed."""
LONG = 100
"""The first release has a share of its own in streams longer than this."""


@register("releaser", "private-kalman")
@configuration
class PrivateKalman(PlainReleaser):
    """A bank of Kalman filters, weighted by evidence: told nothing about the data, and reads none of it raw.

    Guarantee: that of the plain release, mu-GDP and (epsilon, delta)-DP for ``unit``; everything after y is
    post-processing. The first release has the share ``first`` of mu^2 (whole sequences longer than 100 only), because
    it anchors the unknown level.
    ``seasons``: one or two periods in steps (public calendar knowledge), ``"auto"`` or none; phases follow the public
    clock. ``lag``: a value is shown that many steps later, and better. ``trend``: with damped trends. ``memory``
    (units event and window): releases a leaky sum, for slow signals. ``forget``: how fast old evidence fades.
    ``interval``: mean and variance of the mixture.
    Cost: one event for the whole stream. O(experts) time a step (88, and 96 a season candidate), constant memory.

    >>> from fairveil.privacy.noise import SeededNoise
    >>> releaser = PrivateKalman(epsilon=1.0, delta=1e-7, horizon=200, seasons=(7,))
    >>> state, shown = releaser.run(releaser.start(), [100.0 + t % 7 for t in range(200)], SeededNoise(1))
    >>> bool(abs(shown.value[-1] - 103) < abs(releaser.plan.std))
    True

    Reference: Kalman 1960; Magill 1965 (banks of filters); West and Harrison 1997 (discounting).
    """

    seasons: Annotated[tuple[int, ...], Strict(False)] | Literal["auto"] = described(
        "periods in steps, like 24,168, or auto", default=()
    )
    lag: Lag = described("show a value so many steps later, and better", default=0)
    trend: bool = described("whether the level has a slope", default=True)
    memory: Share = described("leaky sum for slow signals (unit event or window)", default=0.0)
    forget: OpenUnit = described("how fast old values lose weight", default=0.999)
    first: Share = described("share of the budget for the first values", default=0.01)

    quick = staticmethod(step_bank)

    def __post_init__(self) -> None:
        self._check_seasons()
        self._check_memory()
        super().__post_init__()

    def _check_seasons(self) -> None:
        given = self.seasons if self.seasons != "auto" else ()
        if len(given) > 2 or any(period < 2 for period in given):
            raise SpecError(
                "seasons are one or two periods in steps",
                path="seasons",
                given=self.seasons,
                allowed='at most two whole numbers from 2 on, or "auto"',
            )
        phases = sum(given) * len(season_experts())
        if phases > MOST:
            raise SpecError(
                "these seasons have too many phases",
                path="seasons",
                given=self.seasons,
                allowed=f"experts times phases at most {MOST}",
                fix="use shorter periods",
            )

    def _check_memory(self) -> None:
        if self.memory == 0:
            return
        if self.unit == "sequence":
            raise SpecError(
                "memory pays for events and windows only: for whole sequences no correlated noise beats independent "
                "noise by more than a constant",
                path="memory",
                given=self.memory,
                allowed='0, or unit = "event" or "window"',
            )
        if self.seasons or self.lag > 0 or self.law != "gaussian":
            raise SpecError("memory goes without seasons and lag, with Gaussian noise", path="memory", allowed="0")

    @property
    def _first_share(self) -> float:
        long = self.unit == "sequence" and (self.touched or 0) > LONG
        # Who takes part in some steps only can avoid the first: it then has no less than the others.
        small = self.touched != self.horizon and self.first * (self.touched or 0) < 1
        return self.first if long and not small and self.law in ("gaussian", "discrete-gaussian") else 0.0

    @cached_property
    def shares(self) -> Shares:
        return super().shares if self.memory == 0 else sharing.even(1)

    @property
    def draws(self) -> int:
        return super().draws if self.memory == 0 else int(self.touched or 1) + self._reach

    @cached_property
    def plan(self) -> NoisePlan:
        if self.memory == 0:
            return super().plan
        width, reach = int(self.touched or 1), self._reach
        norm = memory_norm(self.memory, width, reach) * (1 + 1e-12)

        def units(bits: int) -> float:
            moved = np.ldexp(self.step_sensitivity, bits) * norm
            return float(moved + np.sqrt(width + reach) * slack(reach))

        return gaussian_plan(self.budget, self.step_sensitivity * norm, self.shares, self.draws, units)

    @property
    def steady(self) -> bool:
        return super().steady and self.memory == 0

    @property
    def _may_have_offset(self) -> bool:
        return super()._may_have_offset and self.memory == 0

    @cached_property
    def _reach(self) -> int:
        return reach_of(self.memory)

    # --- the bank ------------------------------------------------------------------------------------------------

    @property
    def behind(self) -> int:
        return self.lag

    @property
    def kernel(self) -> Any:  # type: ignore[override]
        return filter_bank if self.memory == 0 else filter_leaky

    def work(self) -> Floats:
        plain, season = len(self._experts[0]), len(self._experts[1])
        if self.memory > 0:
            return np.empty(WORK_LEAKY * plain)
        return np.empty(WORK * (plain + season * len(self._candidates)) + 2 * season)

    @cached_property
    def _candidates(self) -> tuple[tuple[int, ...], ...]:
        if self.seasons == "auto":
            return AUTO
        return (self.seasons,) if self.seasons else ()

    @cached_property
    def _experts(self) -> tuple[list[ExpertModels], list[ExpertModels]]:
        return [one for one in plain_experts() if self.trend or one.trend == 0.0], season_experts()

    @cached_property
    def _shape(self) -> BankShape:
        plain, season = self._experts
        periods = np.array([(*given, 0)[:2] for given in self._candidates], np.int64).ravel()
        return BankShape(len(plain), len(season), len(self._candidates), self.lag, periods)

    @cached_property
    def shape(self) -> Ints:
        return self._shape.packed()

    @property
    def _places(self) -> Places:
        """Where things are in the numbers of a state; the compiled form is for kernels."""
        found: Places = places_of.py_func(self._shape)
        return found

    @cached_property
    def shared(self) -> Floats:
        plain, season = self._experts
        every = np.array(plain + season * len(self._candidates))
        head = [self.forget] if self.memory == 0 else [self.forget, self.memory]
        return np.concatenate([head, every.T.ravel()])

    def numbers(self) -> Floats:
        plain, season = self._experts
        if self.memory > 0:
            return np.zeros(OWN_LEAKY * len(plain))
        experts, tables, ring = self._places
        made = np.zeros(ring + (self.lag + 1) * RING * experts * (self.lag > 0))
        place = tables
        for periods in self._candidates:
            for period in periods:
                width = 2 * len(season) * period
                made[place : place + width].reshape(period, 2, -1)[:, 1] = [one.table for one in season]
                place += width
        made[ring:] = np.nan
        return made

    def start(self) -> State:
        state = super().start()
        if self.memory > 0:
            state["raw"] = np.zeros(RAW + 1 + self._reach)
        if self.lag > 0:
            state["recent"] = np.tile([np.nan, 0.0, 0.0], (self.lag, 1))
        return state

    def _raw_units(self, state: State, values: Floats, seen: Any) -> Ints:
        if self.memory == 0:
            return super()._raw_units(state, values, seen)
        bound = np.ldexp(CLIP, -self.plan.bits)
        low, high = self.range if self.range is not None else (-bound, bound)
        sums = np.empty(len(values))
        coefficients = np.sqrt(1 - self.memory**2) * self.memory ** np.arange(self._reach)
        leak(state["raw"][RAW:], np.clip(values, max(low, -bound), min(high, bound)), coefficients, sums)
        return self.plan.to_grid(sums[seen])

    @property
    def has_starts(self) -> bool:
        return super().has_starts or self.memory > 0

    def restart(self, state: State) -> None:
        if self.memory > 0:
            forget_sum(state["numbers"], len(self._experts[0]))
            return
        experts, tables, _ = self._places
        level = Beliefs(*state["numbers"][:tables].reshape(OWN, experts)).c
        level += 2 * (self.plan.offset / self.plan.reference) ** 2

    def show(self, state: State, v: Floats, plain: Floats, status: Ints, units: Ints) -> Track:
        track = super().show(state, v, plain, status, units)
        if self.lag == 0:
            return track
        now = np.stack([plain, status.astype(np.float64), units.astype(np.float64)], axis=1)
        line = np.concatenate([state["recent"], now])
        state["recent"][:] = line[len(v) :]
        then = line[: len(v)]
        return track._replace(plain=then[:, 0], status=then[:, 1].astype(np.int64))

    def finish(self, state: State) -> list[Released]:
        held = min(self.lag, int(state["counts"][TIME]))
        if held == 0:
            return []
        out = np.empty((self.lag, 2))
        flush(self.memory_of(state), out)
        recent = state["recent"]
        step = np.arange(self.lag) + int(state["counts"][TIME]) - self.lag
        track = self._track(step, out, recent[:, 0], recent[:, 1].astype(np.int64), step)
        return track.rows()
