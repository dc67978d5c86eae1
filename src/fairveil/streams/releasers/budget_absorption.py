"""BA and BD: publish when the data moved, else show the last publication again; budgets follow a sliding window."""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.privacy.grid import grid_bits, to_units, units_above
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import MAX_SCALE, Noise
from fairveil.registry import register
from fairveil.streams.protocol import (
    COUNTERS,
    LOST,
    MISSING,
    RELEASED,
    SEEN,
    STATUS,
    TIME,
    USED,
    Quote,
    Released,
    State,
    Track,
    join_tracks,
    single_track,
)
from fairveil.streams.releasers.common_fields import PureStream

VALUE, ERROR, SINCE, NULLIFIED, BUDGETS = 0, 1, 2, 3, 4
"""Places in the numbers: last publication (grid units), its noise scale, its release index, steps it used up after it.

The budgets of the last w publications follow.
"""
ROUND_UP = 1 + 1e-9


class Publishing(PureStream):
    """What BA and BD share: a noisy dissimilarity, and a publication when it exceeds the publication's own error."""

    real_time: ClassVar[bool] = True

    def _check_unit(self) -> None:
        if self.window is not None and self.unit == "sequence":  # a window is whom they protect
            object.__setattr__(self, "unit", "window")
        super()._check_unit()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unit == "event" or self.participation is not None or self.neighbours != "replace":
            raise SpecError("BA and BD protect windows of steps", path="unit", given=self.unit, allowed="window")
        if self.unit == "sequence" and self.horizon is None:
            raise self.need_horizon()

    @property
    def width(self) -> int:
        """Steps one unit touches: the window, or the whole horizon."""
        return int(self.touched or 1)

    @cached_property
    def bits(self) -> int:
        return grid_bits(self.step_sensitivity)

    @cached_property
    def _units(self) -> float:
        return float(units_above(self.step_sensitivity, self.bits))

    def scale_of(self, epsilon: float) -> float:
        """Scale of Laplace noise, in grid units, for one value at this budget."""
        return self._units / epsilon * ROUND_UP

    @property
    def _half(self) -> float:
        return float(self.epsilon or 0.0) / 2

    def offered(self, state: State) -> float:
        """What a publication at this step could spend; 0 where none is possible."""
        raise NotImplementedError

    def start(self) -> State:
        numbers = np.zeros(BUDGETS + self.width)
        numbers[SINCE] = -1.0
        return {"numbers": numbers, "counts": np.zeros(COUNTERS, np.int64), "raw": np.zeros(0)}

    def advance(self, state: State, values: Floats, noise: Noise) -> Track:
        self.check(state, values)
        return join_tracks([self._one(state, float(value), noise) for value in values])

    def _one(self, state: State, value: float, noise: Noise) -> Track:
        if math.isnan(value):
            return self.replay(state, np.zeros(1, np.int64), np.array([MISSING]))
        z = int(to_units(self.in_range(value), self.bits))
        numbers, budget = state["numbers"], self.offered(state)
        error = self.scale_of(budget) if budget > 0 else math.inf
        apart = math.inf  # the first step always publishes
        if state["counts"][SEEN] > 0:
            apart = self.moved(abs(z - int(numbers[VALUE])), noise)
        if error > MAX_SCALE or apart <= error:
            return self.replay(state, np.full(1, NOTHING), np.array([RELEASED]))
        return self.replay(state, z + noise.laplace(error, 1), np.array([RELEASED]))

    def moved(self, distance: int, noise: Noise) -> int:
        """How far the data are from the last publication, with noise: of sensitivity D, at epsilon/(2 w)."""
        return distance + int(noise.laplace(self.scale_of(self._half / self.width), 1)[0])

    def replay(self, state: State, units: Ints, status: Ints) -> Track:
        return join_tracks([self._show(state, int(u), int(s)) for u, s in zip(units, status, strict=True)])

    def _show(self, state: State, units: int, status: int) -> Track:
        """Note a stored step: published (units), approximated (`NOTHING`), missing or lost; show the last value."""
        numbers, counts = state["numbers"], state["counts"]
        step = int(counts[TIME])
        counts[TIME] += 1
        published = status == RELEASED and units != NOTHING
        if status in (RELEASED, LOST):
            budget = self.offered(state) if published or status == LOST else 0.0
            self.note(state, budget)
            if published:
                numbers[VALUE], numbers[ERROR] = units, self.scale_of(budget)
                counts[SEEN] += 1
            counts[USED] += 1
        known = counts[SEEN] > 0
        value = math.ldexp(numbers[VALUE], -self.bits) if known else math.nan
        reach = math.ldexp(numbers[ERROR], -self.bits) * self.laplace_reach if known else math.nan
        plain = math.ldexp(units, -self.bits) if published else math.nan
        shown = self.as_asked(value, value - reach, value + reach)
        return single_track(Released(step, *shown, plain, STATUS[status]), units)

    def note(self, state: State, budget: float) -> None:
        """Enter what this step spent on publication."""
        numbers, at = state["numbers"], int(state["counts"][USED])
        numbers[BUDGETS + at % self.width] = budget
        if budget > 0:
            numbers[SINCE] = at
            numbers[NULLIFIED] = round(budget / (self._half / self.width)) - 1

    def guarantee(self) -> Guarantee:
        return self.pure_guarantee("half of the budget measures how far the data moved, half publishes")

    def quote(self) -> Quote:
        """Of the first publication; later ones depend on how often the data move."""
        return self.quote_of(math.sqrt(2.0) * math.ldexp(self.scale_of(self.offered(self.start())), -self.bits))


NOTHING = -(2**62)
"""Stands for a step that shows the last publication again."""


@register("releaser", "ba")
@configuration
class BudgetAbsorption(Publishing):
    """Budget absorption: a publication takes over the unused budgets before it and uses up as many after it.

    Guarantee: epsilon-DP (pure) for one person's contributions inside any ``window`` successive steps; with unit
    ``sequence`` the window is the horizon. Every step spends epsilon/(2 w) on the dissimilarity |z_t - last|, of
    sensitivity D; publications spend at most epsilon/2 in any window.
    Cost: one event for the whole stream. One or two draws a step; O(1) time, O(window) memory.

    >>> BudgetAbsorption(epsilon=1.0, unit="window", window=24).width
    24

    Reference: Kellaris, Papadopoulos, Xiao and Papadias 2014.
    """

    def offered(self, state: State) -> float:
        numbers, at = state["numbers"], int(state["counts"][USED])
        since = at - int(numbers[SINCE]) if numbers[SINCE] >= 0 else at + 1
        if numbers[SINCE] >= 0 and since <= numbers[NULLIFIED]:
            return 0.0
        absorbed = since - (int(numbers[NULLIFIED]) if numbers[SINCE] >= 0 else 0)
        return self._half / self.width * min(absorbed, self.width)
