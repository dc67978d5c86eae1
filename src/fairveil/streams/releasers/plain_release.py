"""Releasers that are one noisy release a step and post-processing of it: y_t = z_t + noise_t, then a filter on y.

Everything that is shown after y reads y and public facts only, so all of them have the same guarantee, and a crash only
has to protect y. A filter is one compiled kernel for a step, a stream and a batch: `fairveil.streams.filters.kernel`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import ndtri

from fairveil.arrays import Floats, Ints
from fairveil.compiling import njit
from fairveil.configuration import configuration
from fairveil.errors import PrivacyError, SpecError, undetermined_budget
from fairveil.fields import described
from fairveil.privacy.events import Event
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise
from fairveil.streams import budget_shares as sharing
from fairveil.streams.budget_shares import Shares
from fairveil.streams.filters.kernel import Memory, Signal
from fairveil.streams.noise_plan import (
    NoisePlan,
    binomial_plan,
    gaussian_plan,
    integer_plan,
    laplace_plan,
    offset_plan,
)
from fairveil.streams.protocol import (
    COUNTERS,
    MISSING,
    RELEASED,
    SEEN,
    STARTS,
    TIME,
    USED,
    Quote,
    State,
    Track,
    blank_track,
)
from fairveil.streams.releasers.common_fields import StreamKeys
from fairveil.streams.theory import kalman_error

Law = Literal["gaussian", "discrete-gaussian", "laplace", "binomial"]
Kernel = Callable[..., None]
Step = Callable[..., tuple[int, float, float, float, float]]
OFFSET, STARTED, RAW = 0, 1, 2
"""Places in the raw part of a state: the common offset (grid units), whether this process began; then raw data."""
CHUNK = 24_576
"""Steps that are worked on at once."""
QUOTED = ((0.5, 0.3), (0.9, 0.3), (0.5, 1.0), (0.9, 1.0), (0.5, 3.0), (0.9, 3.0))
"""Correlation and size of the data (in noise stds) that a quote shows errors for."""


@njit(cache=True, nogil=True)
def in_own_units(out, std, reach, shown):
    """Value, low and high from mean and variance of the signal, which count in stds of the noise."""
    value, low, high = shown
    for t in range(len(out)):
        value[t], half = out[t, 0] * std, math.sqrt(max(out[t, 1], 0.0)) * reach
        low[t], high[t] = value[t] - half, value[t] + half


@configuration
class PlainReleaser(StreamKeys):
    """What releasers with one noisy release a step share: law, schedule, accounting and the way through the grid."""

    law: Law = described("law of the noise", default="gaussian")
    schedule: str | dict[str, Any] = described("how the budget is spread over the steps", default="even")

    laws: ClassVar[tuple[str, ...]] = ("gaussian", "discrete-gaussian", "laplace", "binomial")
    """Laws that it may have, its own one first."""
    kernel: ClassVar[Kernel]
    quick: ClassVar[Step | None] = None
    """The kernel for one value of a stream, see `fairveil.streams.filters.kernel`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.law not in self.laws:
            raise SpecError("this releaser has no such law", path="law", given=self.law, allowed=", ".join(self.laws))
        self._check_budget()
        sharing.scheduled(self._schedule, None)
        self.plan  # noqa: B018  (an impossible budget is refused here, not at the first step)

    @classmethod
    def example(cls) -> Any:
        if cls.laws[0] == "laplace":
            return cls(epsilon=1.0, horizon=2)
        return cls(epsilon=1.0, delta=1e-5, horizon=8)

    @property
    def _schedule(self) -> str | Mapping[str, Any]:
        return self.schedule

    def _check_budget(self) -> None:
        if self.law == "laplace":
            self.check_pure()
            return
        given = tuple(number is not None for number in (self.epsilon, self.delta, self.mu, self.rho))
        ways = [(True, True, False, False), (False, False, True, False), (False, False, False, True)]
        if self.law == "binomial":
            ways = ways[:1]
        if given not in ways:
            raise undetermined_budget(
                "delta" if given[0] and not given[1] else "epsilon",
                "epsilon and delta" + ("" if self.law == "binomial" else ", or mu, or rho"),
                epsilon=self.epsilon, delta=self.delta, mu=self.mu, rho=self.rho,
            )  # fmt: skip

    @cached_property
    def shares(self) -> Shares:
        """How the budget is divided among the releases."""
        falling = sharing.scheduled(self._schedule, self.touched)
        if falling is not None:
            if self.unit != "sequence":
                raise SpecError(
                    "a falling schedule bounds the loss of whole sequences",
                    path="schedule",
                    given=self.unit,
                    allowed='unit = "sequence"',
                    fix="leave the schedule out: windows and events last for ever with even noise",
                )
            return falling
        if self.touched is None:
            raise self.need_horizon()
        return sharing.even(self.touched, self._first_share)

    @property
    def _first_share(self) -> float:
        return 0.0

    @cached_property
    def plan(self) -> NoisePlan:
        """Noise on the grid."""
        sensitivity = self.step_sensitivity
        if self.law == "laplace":
            return laplace_plan(float(self.epsilon or 0.0), sensitivity, self.shares)
        if self.law in ("binomial", "discrete-gaussian"):
            return self._integer_plan(sensitivity)
        plain = gaussian_plan(self.budget, sensitivity, self.shares, self.draws)
        if not self._may_have_offset:
            return plain
        assert self.horizon is not None
        assert self.starts is not None
        hidden = offset_plan(self.budget, sensitivity, self.horizon, self.starts)
        return hidden if hidden.std < plain.std else plain

    def _integer_plan(self, sensitivity: float) -> NoisePlan:
        if sensitivity != int(sensitivity):
            raise SpecError(
                f"the law {self.law} counts in whole numbers",
                path="sensitivity",
                given=sensitivity,
                allowed="a whole number",
            )
        if self.law == "discrete-gaussian":
            return integer_plan(self.budget, int(sensitivity), self.shares)
        if self.shares.kind != "even" or self.touched is None:
            raise SpecError("Binomial noise is the same at every step", path="schedule", allowed="even")
        return binomial_plan(self.budget, int(sensitivity), self.touched)

    @property
    def _may_have_offset(self) -> bool:
        whole = self.unit == "sequence" and self.neighbours == "add-remove" and self.horizon is not None
        return whole and self.starts is not None and self.shares.kind == "even"

    @property
    def draws(self) -> int:
        """Noisy numbers that one unit meets; those of a falling schedule in numbers of the first, finest one."""
        if self.shares.kind in ("geometric", "power"):
            return math.ceil(self.shares.total / float(self.shares.at(0, 1)[0])) + 1
        assert self.touched is not None
        return self.touched

    def event(self) -> Event:
        return self.plan.event

    def guarantee(self) -> Guarantee:
        plan = self.plan
        if self.law == "laplace":
            return self.pure_guarantee()
        if self.law == "binomial":
            exact = "coins are counted by the exact composition of the Binomial law"
            return Guarantee.approximate(*self.budget.pair, **self.facts(exact))
        delta = 1e-5 if self.delta is None else self.delta
        facts = self.facts(*self._plan_notes())
        if self.epsilon is not None:
            facts["epsilon"] = self.epsilon
        if plan.mu is None:
            return Guarantee.zcdp(float(plan.rho or 0.0), delta, **facts)
        return Guarantee.gaussian(plan.mu, delta, **facts)

    def _plan_notes(self) -> tuple[str, ...]:
        notes: tuple[str, ...] = ()
        if self.variant == "printed":
            notes += ("calibrated by Corollary 1, which asks for more noise than this guarantee needs",)
        if self.plan.offset > 0:
            notes += (f"{self.starts} starts of the process are paid in advance, each with an offset of its own",)
        return notes

    def quote(self) -> Quote:
        plan = self.plan
        ends = [self.noise_std_at(place) for place in (0, 0 if self.horizon is None else self.horizon - 1)]
        rows = tuple(
            (size * plan.std, rho, plan.std, math.sqrt(kalman_error(rho, plan.std, size * plan.std)))
            for rho, size in QUOTED
        )
        width = 2 * self.quantile * ends[1]
        return Quote(plan.std, ends[0], ends[1], self.interval, width, rows, self.guarantee().to_dict())

    def noise_std_at(self, release: int) -> float:
        return math.sqrt(float(self.plan.relative_variance(release, 1)[0])) * self.plan.std

    @property
    def quantile(self) -> float:
        """Half the width of an interval, in stds."""
        return float(ndtri(0.5 + self.interval / 2))

    # --- state and steps ---------------------------------------------------------------------------------------

    @cached_property
    def shape(self) -> Ints:
        """Whole numbers the kernel reads."""
        return np.zeros(1, np.int64)

    @cached_property
    def shared(self) -> Any:
        """Numbers the kernel reads: an array, or a struct of them."""
        return np.zeros(1)

    def numbers(self) -> Floats:
        """What the filter remembers, before anything is seen."""
        return np.zeros(2)

    def work(self) -> Floats:
        """Memory that the kernel writes on and nobody reads."""
        return np.empty(0)

    def memory_of(self, state: State) -> Memory:
        """What the kernel is given of a state."""
        return Memory(self.shape, self.shared, state["numbers"], state["counts"], self.work())

    def start(self) -> State:
        return {"numbers": self.numbers(), "counts": np.zeros(COUNTERS, np.int64), "raw": np.zeros(RAW)}

    def check(self, state: State, values: Floats) -> None:
        seen = ~np.isnan(values)
        self.check_horizon(state, int(seen.sum()))
        self.plan.to_grid(values[seen] if self.range is None else np.clip(values[seen], *self.range))
        self.plan.stretches(int(state["counts"][USED]), int(seen.sum()))

    def advance(self, state: State, values: Floats, noise: Noise) -> Track:
        self.check_horizon(state, int(np.count_nonzero(~np.isnan(values))))
        if len(values) <= CHUNK:
            return self._advance(state, values, noise)
        made = blank_track(len(values), self.behind > 0)
        for at in range(0, len(values), CHUNK):
            made.put(at, self._advance(state, values[at : at + CHUNK], noise))
        return made

    def _advance(self, state: State, values: Floats, noise: Noise) -> Track:
        """So few steps that all arrays stay in the processor's cache."""
        seen = ~np.isnan(values)
        count = int(np.count_nonzero(seen))
        if count and self.has_starts and state["raw"][STARTED] == 0:
            self.begin(state)
            state["raw"][OFFSET] = noise.gaussian(self.plan.offset, 1)[0] if self.plan.offset > 0 else 0.0
        units = self._raw_units(state, values, seen)
        if count:
            units += self.plan.noise(int(state["counts"][USED]), count, noise)
            if self.plan.offset > 0:
                units += int(state["raw"][OFFSET])
        if count < len(values):
            present, units = units, np.zeros(len(values), np.int64)
            units[seen] = present
        return self.replay(state, units, seen.astype(np.int64))  # 1: released, 0: missing

    def plain_copies(self, values: Floats, count: int, noise: Noise) -> Floats:
        """Plain releases of ``count`` independent streams of the same values, one row each: for audits."""
        state, seen = self.start(), ~np.isnan(values)
        grid = self._raw_units(state, values, seen)
        units = np.stack([z + self.plan.copies(step, count, noise) for step, z in enumerate(grid.tolist())], axis=1)
        if self.plan.offset > 0:
            units = units + noise.gaussian(self.plan.offset, count)[:, None]
        return np.ldexp(units.astype(np.float64), -self.plan.bits)

    def _raw_units(self, state: State, values: Floats, seen: Any) -> Ints:
        """The present values in their public range and on the grid, before any noise."""
        present = values if seen.all() else values[seen]
        if self.range is not None:
            present = np.clip(present, *self.range)
        return self.plan.to_grid(present)

    @property
    def has_starts(self) -> bool:
        """Whether a process that goes on begins something anew: an offset, or a leaky sum."""
        return self.plan.offset > 0

    def begin(self, state: State) -> None:
        """Count a start of the process and tell the filter, in place. Offsets are paid for ``starts`` of them."""
        counts = state["counts"]
        if self.plan.offset > 0 and counts[STARTS] >= (self.starts or 0):
            raise PrivacyError(
                "all starts that were paid for are used up",
                path="starts",
                given=self.starts,
                fix="this stream cannot go on: a new offset would not be paid for",
            )
        counts[STARTS] += 1
        if len(state["raw"]) > STARTED:
            state["raw"][:] = 0.0
            state["raw"][STARTED] = 1.0
        if counts[SEEN] > 0:
            self.restart(state)

    def restart(self, state: State) -> None:
        """What a filter takes note of when its process begins anew: a new offset moves the level."""

    def replay(self, state: State, units: Ints, status: Ints) -> Track:
        plain = np.ldexp(units.astype(np.float64), -self.plan.bits)
        plain[status != RELEASED] = np.nan
        return self.show(state, units / self.plan.reference, plain, status, units)

    def show(self, state: State, v: Floats, plain: Floats, status: Ints, units: Ints) -> Track:
        """Put plain releases (in units of the reference noise) through the filter, in place."""
        counts, seen = state["counts"], (status == RELEASED).astype(np.float64)
        r = self._variances(int(counts[USED]), status)
        out = np.empty((len(v), 2))
        begin = int(counts[TIME])
        self.kernel(self.memory_of(state), Signal(v, r, seen, out))
        counts[USED] += np.count_nonzero(status != MISSING)
        step = np.arange(begin, begin + len(v)) - self.behind
        return self._track(step, out, plain, status, units)

    def _track(self, step: Ints, out: Floats, plain: Floats, status: Ints, units: Ints) -> Track:
        value, low, high = np.empty((3, len(out)))
        in_own_units(out, self.plan.std, self.plan.std * self.quantile, (value, low, high))
        if self.nonnegative:
            value, low, high = np.maximum(value, 0.0), np.maximum(low, 0.0), np.maximum(high, 0.0)
        if self.round:
            value, low, high = np.rint(value), np.floor(low), np.ceil(high)
        return Track(step, value, low, high, plain, status, units, status)

    def _variances(self, first: int, status: Ints) -> Floats:
        """Variance of the noise of each step, in units of the reference; 1 where nothing was released."""
        if self.shares.kind == "even" and (first > 0 or self.shares.first == 0):
            return np.ones(len(status))
        used = status != MISSING
        count = int(np.count_nonzero(used))
        if count == len(status):
            return self.plan.relative_variance(first, count)
        made = np.ones(len(status))
        made[used] = self.plan.relative_variance(first, count)
        return made

    @property
    def adds_steps(self) -> bool:
        return self.plan.offset == 0

    @property
    def steady(self) -> bool:
        """Whether all releases (but perhaps the first) have the reference noise and nothing raw is remembered."""
        return self.shares.kind == "even" and self.plan.offset == 0
