"""Whose row it is, when it came, in which order, and from which column on: what reaches the noise of a stream.

Audits change values; these laws change identities, order and times, and count exactly what one person can then move.
"""

from __future__ import annotations

import bisect
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fairveil.errors import HorizonError, InputError, SpecError
from fairveil.proof.engine.adapter import Checks, adapter
from fairveil.proof.laws import must
from fairveil.proof.mutants import Method, Mutant, in_function, in_method, twin
from fairveil.streams import columns as columns_module
from fairveil.streams.columns import Columns
from fairveil.streams.protocol import Floats, Releaser
from fairveil.streams.serving.feed import Feed, Lines, Reading, Step
from fairveil.streams.serving.people import PersonCounts

Rows = list[tuple[str, str]]
HOURS, PEOPLE, STEPS = 12, 6, 120
STAGGERED: tuple[dict[str, Any], ...] = (
    {"name": "baseline-gaussian", "horizon": STEPS},
    {"name": "baseline-gaussian", "horizon": STEPS, "participation": 30},
    {"name": "baseline-gaussian", "schedule": {"kind": "geometric", "ratio": 0.9}},
    {"name": "private-kalman", "horizon": STEPS},
    {"name": "private-kalman", "horizon": STEPS, "first": 0.3},
    {"name": "predictive", "horizon": STEPS, "weight": 0.1},
)


@contextmanager
def fed(folder: Path, rows: Rows, people: PersonCounts, horizon: int, watermark: bool = False) -> Iterator[Feed]:
    """The counts of people's rows, hour by hour, as `fairveil release` reads them from a file."""
    (folder / "in.csv").write_text("ts,id\n" + "".join(f"{time},{who}\n" for time, who in rows))
    reading = Reading(
        ("count",), time="ts", step="1h", start="2024-01-01", person="id", horizon=horizon, watermark=watermark
    )
    reader = os.open(folder / "in.csv", os.O_RDONLY)
    try:
        yield Feed(Lines(reader), reading, people)
    finally:
        os.close(reader)


def counted(folder: Path, rows: Rows, participation: int | None = None, hours: int = HOURS) -> Floats:
    """What reaches the noise of people's rows: one count a step."""
    with fed(folder, rows, PersonCounts(1, participation), hours) as feed:
        return np.array([step.values[0] for group in feed.steps() for step in group])


def hourly(hours: int = HOURS, people: int = PEOPLE) -> Rows:
    """Everybody once an hour, in the order of time."""
    return [(f"2024-01-01T{hour:02}:{5 * who:02}", f"p{who}") for hour in range(hours) for who in range(people)]


def a_row_moves_its_own_step(folder: Path) -> None:
    """Another time on one row moves one count here and one there, and no row stops the others."""
    rows = hourly()
    before = counted(folder, rows)
    for place in (0, len(rows) // 2, len(rows) - 1):
        for time in ("2024-01-01T11:30", "2024-01-01T00:00", "2023-01-01", "2999-01-01"):
            changed = [*rows[:place], (time, rows[place][1]), *rows[place + 1 :]]
            moved = np.abs(counted(folder, changed) - before)
            within = moved.max() <= 1 and np.count_nonzero(moved) <= 2
            must(bool(within), "one row's time moves the counts of other people", "close steps by public facts alone")


def order_moves_nothing(folder: Path) -> None:
    """The same rows in another order give the same counts."""
    rows, rng = hourly(), np.random.default_rng(1)
    before = counted(folder, rows, 3)
    for _ in range(3):
        mixed = [rows[place] for place in rng.permutation(len(rows))]
        must(np.array_equal(counted(folder, mixed, 3), before), "the order of the rows moves counts")


def a_person_stays_within_the_bounds(folder: Path) -> None:
    """All rows of one person under another name, or gone, move at most so many counts by at most one."""
    rows = hourly()
    for bound in (1, 4):
        before = counted(folder, rows, bound)
        for other in ("new", "p1", ""):
            changed = [(time, other if who == "p0" else who) for time, who in rows if who != "p0" or other]
            moved = np.abs(counted(folder, changed, bound) - before)
            within = moved.max() <= 1 and np.count_nonzero(moved) <= bound
            must(bool(within), "one person moves more counts than are enforced")


def exact_mu(columns: Columns, apart: int, each: int, steps: int = STEPS) -> float:
    """Of the person who is, at every step, where a value costs most; columns begin ``apart`` steps after each other."""
    whole: Any = columns.whole
    parts: list[Any] = list(columns.releasers)
    if whole.plan.offset > 0 and not columns.joint:  # split: each column pays for the whole of a person's sequence
        return math.sqrt(sum(one.event().mu ** 2 for one in parts))
    start = apart * np.arange(len(parts))
    clock = np.arange(steps + start[-1])[:, None]
    present = (start <= clock) & (clock < start + steps)
    present = present[: _accepted(columns, np.where(present, 0.0, np.nan))]
    loss = np.zeros(present.shape)
    for place, one in enumerate(parts):
        there = present[:, place]
        variance = one.plan.std**2 * one.plan.relative_variance(0, int(there.sum()))
        loss[there, place] = one.step_sensitivity**2 / variance
    changed = min(each * (2 if whole.neighbours == "replace" else 1), len(parts))
    total = np.sort(loss, axis=1)[:, -changed:].sum(axis=1)
    if whole.unit == "window":
        return math.sqrt(np.convolve(total, np.ones(whole.window)).max())
    if whole.participation is not None:
        total = np.sort(total)[-whole.participation :]
    return math.sqrt(total.sum())


def _accepted(columns: Columns, values: Floats) -> int:
    """How many rows are released before the horizon of the stream is used up."""

    def refused(rows: int) -> bool:
        try:
            columns.check(columns.start(), values[:rows])
        except HorizonError:
            return True
        return False

    return bisect.bisect_left(range(1, len(values) + 1), True, key=refused)


def columns_cost_what_is_claimed(folder: Path) -> None:
    """Where columns begin together, apart or one after the other, nobody meets more than the joint budget."""
    for table in STAGGERED:
        for neighbours in ("replace", "add-remove"):
            keys = {**table, "mu": 0.5, "neighbours": neighbours}
            try:
                made = Columns.build(keys, [f"c{place}" for place in range(6)], columns_per_person=1)
            except SpecError:
                continue  # refused: nobody meets anything
            for apart in (0, 1, 20, STEPS):
                within = exact_mu(made, apart, 1) <= 0.5 * (1 + 1e-9)
                must(within, "a person who moves from column to column meets more than the budget")


@twin
def _closes_what_is_before(original: Method, self: Any, picked: list[str]) -> list[Step]:
    """The rule of 0.1.0: a row of a later step closes every step before it."""
    number = min(self._clock.step(picked[0]), self._last)
    made = [self._count() for _ in range(self._next, int(number))]
    return [*made, *original(self, picked)]


@twin
def _refuses_late_rows(original: Method, self: Any, picked: list[str]) -> list[Step]:
    if not self._next <= self._clock.step(picked[0]) < self._last:
        raise InputError("a row belongs to a step that is over", path="time")
    made: list[Step] = original(self, picked)
    return made


@twin
def _only_own_counters(original: Method, self: Columns, states: Any, values: Floats) -> None:
    for place, one in enumerate(self.releasers):
        one.check(states[place], values[:, place])


def _everybody_counts(original: Callable[..., int]) -> Callable[..., int]:
    return lambda self, people: len(list(people))


def _as_it_is(whole: Releaser, table: Any) -> Releaser:
    return whole


OF_ROWS = (
    Mutant("row-closes-steps", "a row of a later step closes those before it",
           in_method(Feed, "_person", _closes_what_is_before)),
    Mutant("late-refused", "a row outside the stream stops everybody's",
           in_method(Feed, "_person", _refuses_late_rows)),
    Mutant("people-unbounded", "everybody counts in every step",
           in_method(PersonCounts, "step", _everybody_counts)),
)  # fmt: skip
"""Mistakes with people's rows, which counts show and a whole run shows too."""


@adapter("feed")
def feed_checks() -> Checks:
    """Rows and columns on their way to the noise: `fairveil.streams.serving.feed` and `fairveil.streams.columns`."""
    return Checks(
        (a_row_moves_its_own_step, order_moves_nothing, a_person_stays_within_the_bounds, columns_cost_what_is_claimed),
        (
            *OF_ROWS,
            Mutant("own-horizons", "every column has a horizon of its own",
                   in_method(Columns, "check", _only_own_counters)),
            Mutant("finest-first", "releases of columns may cost unequally",
                   in_function(columns_module._evenly, _as_it_is)),
        ),
    )  # fmt: skip
