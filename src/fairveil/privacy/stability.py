"""Sensitivity that is computed: from whom the data protect to the numbers that noise is added to, one bound a step.

A transformation takes rows to rows, and proves how far all rows of one unit can reach behind it. Each looks at the rows
of one person alone (what a row becomes never depends on another person's rows), so what a unit can change is what its
own rows can be. A `Chain` composes them from a declared unit, applies them to rows, and ends in sums of cells (a step
and a column each): `Chain.sensitivity` bounds how far the sums of two neighbouring inputs are apart.

What is tracked. For one person: how many rows at most, in a cell, in a step, in a column and in all; in how many steps
and columns; the range of a value; and how many steps and columns exist, where that is public. A household of h persons
has h times as many rows in each.

Presence (a unit's rows are there or not). With n_c <= c rows in a cell, each at most m in absolute value, one cell
moves by c m, and all cells together by m sum n_c <= m R in l1, with R the most rows in all. In l2, sum n_c^2 is convex
in the n_c, so with a sum of at most T and each at most c it is at most q c^2 + r^2, T = q c + r, 0 <= r < c. That holds
for all rows (T = R), in each of the steps, and in each of the columns, and the least of the three is a bound.

Replacement (a unit's rows become any others). A cell moves by at most c w, w the width of [low, high] with 0. l1 moves
by at most twice that of presence, and by at most c w in each of N cells that exist. In l2, values of one sign in a cell
move it by at most max(a, b), whose square is at most a^2 + b^2; opposite signs by at most a + b with a <= n high and
b <= n |low|. So l2 is at most max(sqrt 2, w/m) times that of presence, and at most c w sqrt N.

>>> visits = Chain(PERSON, AtMost(1, STEP), AtMostGroups(3, "step"), Clip(0.0, 1.0))
>>> visits.sensitivity.cell, visits.sensitivity.l1, round(visits.sensitivity.l2, 4)
(1.0, 3.0, 1.7321)
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol

from fairveil.errors import PrivacyError, SpecError

Key = tuple[str, ...]
ALL: Key = ()
STEP: Key = ("step",)
COLUMN: Key = ("column",)
CELL: Key = ("step", "column")
Group = Literal["step", "column"]


class Contribution(NamedTuple):
    """Whose row it is, where it counts and as what; ``came``: the step at which it arrived (never before its own)."""

    person: Hashable
    step: int
    column: int = 0
    value: float = 1.0
    came: int = 0


@dataclass(frozen=True)
class Unit:
    """Whom a promise is for: one row, all rows of a person, or of a household of at most ``persons``."""

    name: str
    rows: float = math.inf
    persons: int = 1

    def __post_init__(self) -> None:
        if self.persons < 1:
            raise SpecError("a household has people", path="persons", given=self.persons, allowed="at least 1")


ROW = Unit("row", rows=1)
PERSON = Unit("person")


def household(persons: int) -> Unit:
    """All rows of at most so many people."""
    return Unit(f"household of at most {persons}", persons=persons)


@dataclass(frozen=True)
class Reach:
    """What the rows of one person can be at most, behind some transformations. ``inf``: nothing is known."""

    cell: float = math.inf
    step: float = math.inf
    column: float = math.inf
    all: float = math.inf
    steps: float = math.inf
    columns: float = math.inf
    low: float = -math.inf
    high: float = math.inf
    of_steps: float = math.inf
    of_columns: float = math.inf

    def tight(self) -> Reach:
        """The same with what the numbers say about each other; one pass down and up is a fixed point."""
        steps, columns = min(self.steps, self.of_steps), min(self.columns, self.of_columns)
        step, column = min(self.step, self.all), min(self.column, self.all)
        cell = min(self.cell, step, column)
        step, column = min(step, columns * cell), min(column, steps * cell)
        total = min(self.all, steps * step, columns * column)
        step, column = min(step, total), min(column, total)
        steps, columns = min(steps, total), min(columns, total)
        return replace(self, cell=min(cell, total), step=step, column=column, all=total, steps=steps, columns=columns)

    def many(self, persons: int) -> Reach:
        """Of so many people together."""
        more = {name: persons * getattr(self, name) for name in ("cell", "step", "column", "all", "steps", "columns")}
        return replace(self, **more)


@dataclass(frozen=True)
class Sensitivity:
    """How far sums of cells move for one unit: one cell, all together in l1, the sum of their squares, and l2."""

    cell: float
    l1: float
    squares: float

    @property
    def l2(self) -> float:
        return math.sqrt(self.squares)


class Transformation(Protocol):
    """Rows to rows, person by person, and what that does to the bound of one person."""

    def apply(self, rows: Sequence[Contribution]) -> list[Contribution]: ...

    def bound(self, before: Reach) -> Reach: ...

    def words(self) -> str: ...


@dataclass(frozen=True)
class OwnStep:
    """A row counts in the step of its own time, ``length`` times to a step, whatever came before it.

    Proof: the step of a row is a function of that row. Rows of several times may share a step: as `MergeSteps`.
    """

    length: int = 1

    def apply(self, rows: Sequence[Contribution]) -> list[Contribution]:
        return [row._replace(step=row.step // self.length) for row in rows]

    def bound(self, before: Reach) -> Reach:
        return MergeSteps(self.length).bound(before)

    def words(self) -> str:
        return "every row in the step of its own time"


@dataclass(frozen=True)
class AtMost:
    """The first ``rows`` rows of each person in each group: ``STEP``, ``COLUMN``, ``CELL`` or ``ALL`` (a release).

    Proof: which are kept depends on the person's own rows, and no more of them are left.
    """

    rows: int
    per: Key = ALL

    def __post_init__(self) -> None:
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 1:
            raise SpecError("people are counted", path="rows", given=self.rows, allowed="a whole number from 1 on")

    def apply(self, rows: Sequence[Contribution]) -> list[Contribution]:
        seen: dict[Hashable, int] = {}
        kept = []
        for row in rows:
            group = (row.person, *(getattr(row, name) for name in self.per))
            seen[group] = seen.get(group, 0) + 1
            if seen[group] <= self.rows:
                kept.append(row)
        return kept

    def bound(self, before: Reach) -> Reach:
        name = {ALL: "all", STEP: "step", COLUMN: "column", CELL: "cell"}[self.per]
        return replace(before, **{name: min(getattr(before, name), self.rows)})

    def words(self) -> str:
        where = {ALL: "in all", STEP: "a step", COLUMN: "a column", CELL: "a step and column"}[self.per]
        return f"at most {self.rows} row(s) of a person {where}"


@dataclass(frozen=True)
class AtMostGroups:
    """Rows of each person in the first so many steps, or columns, that the person appears in.

    Proof: as `AtMost`; the groups that a person's rows are left in are at most so many.
    """

    groups: int
    of: Group = "step"

    def apply(self, rows: Sequence[Contribution]) -> list[Contribution]:
        seen: dict[Hashable, set[int]] = {}
        kept = []
        for row in rows:
            known, group = seen.setdefault(row.person, set()), getattr(row, self.of)
            if group in known or len(known) < self.groups:
                known.add(group)
                kept.append(row)
        return kept

    def bound(self, before: Reach) -> Reach:
        name = f"{self.of}s"
        return replace(before, **{name: min(getattr(before, name), self.groups)})

    def words(self) -> str:
        return f"a person in at most {self.groups} {self.of}s"


@dataclass(frozen=True)
class Clip:
    """Values between two public numbers. Proof: a value behind it is one of these."""

    low: float
    high: float

    def apply(self, rows: Sequence[Contribution]) -> list[Contribution]:
        return [row._replace(value=min(max(row.value, self.low), self.high)) for row in rows]

    def bound(self, before: Reach) -> Reach:
        low, high = max(before.low, self.low), min(before.high, self.high)
        return replace(before, low=min(low, self.high), high=max(high, self.low))

    def words(self) -> str:
        return f"values in [{self.low:g}, {self.high:g}]"


@dataclass(frozen=True)
class MergeColumns:
    """So many columns become one: what a group-by does to finer groups.

    Proof: a new cell holds the rows of ``width`` old ones of one step; steps and totals stay.
    """

    width: int

    def apply(self, rows: Sequence[Contribution]) -> list[Contribution]:
        return [row._replace(column=row.column // self.width) for row in rows]

    def bound(self, before: Reach) -> Reach:
        cell, column = min(before.step, self.width * before.cell), min(before.all, self.width * before.column)
        return replace(before, cell=cell, column=column, of_columns=_groups(before.of_columns, self.width))

    def words(self) -> str:
        return f"{self.width} columns in one"


@dataclass(frozen=True)
class MergeSteps:
    """So many steps become one. Proof: as `MergeColumns`, with steps and columns exchanged."""

    width: int

    def apply(self, rows: Sequence[Contribution]) -> list[Contribution]:
        return [row._replace(step=row.step // self.width) for row in rows]

    def bound(self, before: Reach) -> Reach:
        cell, step = min(before.column, self.width * before.cell), min(before.all, self.width * before.step)
        return replace(before, cell=cell, step=step, of_steps=_groups(before.of_steps, self.width))

    def words(self) -> str:
        return f"{self.width} steps in one"


@dataclass(frozen=True)
class JoinLate:
    """A row counts in the step in which it came, if that is later than its own: late rows join a later block.

    A row that came after the last of the steps that exist is dropped before.

    Proof: where a row goes is a function of that row. Rows of any of a person's steps may meet in one, and rows of one
    step may go to as many as there are rows; so nothing is left of limits a step, and they have to come behind it.
    """

    def apply(self, rows: Sequence[Contribution]) -> list[Contribution]:
        return [row._replace(step=max(row.step, row.came)) for row in rows]

    def bound(self, before: Reach) -> Reach:
        return replace(before, cell=before.column, step=before.all, steps=before.all)

    def words(self) -> str:
        return "late rows join the step in which they came"


@dataclass(frozen=True)
class FanOut:
    """A row becomes one row in each of ``columns`` new columns (its value and its square, a sum and a count).

    Proof: a new cell holds the rows of one old cell; rows of a step, and in all, are so many times as many.
    """

    columns: int

    def apply(self, rows: Sequence[Contribution]) -> list[Contribution]:
        return [row._replace(column=row.column * self.columns + place) for row in rows for place in range(self.columns)]

    def bound(self, before: Reach) -> Reach:
        many = self.columns
        more = {name: many * getattr(before, name) for name in ("step", "all", "columns", "of_columns")}
        return replace(before, **more)

    def words(self) -> str:
        return f"a row counts in {self.columns} columns"


@dataclass(frozen=True, init=False)
class Chain:
    """Transformations from a declared unit to sums of cells.

    ``replaced``: neighbours differ in what a unit's rows are, not in whether they are there. ``steps``, ``columns``:
    how many the data have at first, where that is public.
    """

    unit: Unit
    parts: tuple[Transformation, ...]
    replaced: bool
    steps: float
    columns: float

    def __init__(
        self,
        unit: Unit,
        *parts: Transformation,
        replaced: bool = False,
        steps: float = math.inf,
        columns: float = math.inf,
    ) -> None:
        vars(self).update(unit=unit, parts=parts, replaced=replaced, steps=steps, columns=columns)

    def apply(self, rows: Iterable[Contribution]) -> list[Contribution]:
        found = list(rows)
        for part in self.parts:
            found = part.apply(found)
        return found

    def sums(self, rows: Iterable[Contribution]) -> dict[tuple[int, int], float]:
        """The numbers that noise is added to."""
        found: dict[tuple[int, int], float] = {}
        for row in self.apply(rows):
            key = row.step, row.column
            found[key] = found.get(key, 0.0) + row.value
        return found

    @property
    def bound(self) -> Reach:
        """What one person's rows can be behind all parts."""
        found = Reach(all=self.unit.rows, of_steps=self.steps, of_columns=self.columns).tight()
        for part in self.parts:
            found = part.bound(found).tight()
        return found

    @property
    def sensitivity(self) -> Sensitivity:
        """PrivacyError where no bound follows: a limit or a clip is missing."""
        one = self.bound
        reach = one.many(self.unit.persons).tight()
        largest, width = max(abs(reach.low), abs(reach.high)), max(reach.high, 0.0) - min(reach.low, 0.0)
        if not (math.isfinite(reach.all) and math.isfinite(width)):
            missing = "rows" if math.isfinite(width) else "values"
            raise PrivacyError(
                f"nothing bounds the {missing} of one {self.unit.name}",
                path="sensitivity",
                allowed="AtMost rows, in all or a step and in so many steps; Clip for values",
            )
        squares = largest**2 * _most_squares(reach)
        if not self.replaced:
            return Sensitivity(reach.cell * largest, reach.all * largest, squares)
        cells, moved = reach.of_steps * reach.of_columns, reach.cell * width
        ratio = max(2.0, (width / largest) ** 2) if largest else 0.0
        return Sensitivity(moved, min(2 * reach.all * largest, moved * cells), min(ratio * squares, moved**2 * cells))

    def words(self) -> str:
        """What was proven, for a guarantee."""
        found = self.sensitivity
        done = "; ".join(part.words() for part in self.parts)
        return (
            f"the sensitivity is computed for one {self.unit.name}: {done}; one number moves by at most {found.cell:g}"
            f", all by {found.l1:g} in l1 and {found.l2:.6g} in l2"
        )


def _groups(count: float, width: int) -> float:
    return math.ceil(count / width) if math.isfinite(count) else count


def _packed(each: float, total: float) -> float:
    """The largest sum of squares of numbers that are at most ``each`` and add up to at most ``total``."""
    whole = total // each
    return whole * each**2 + (total - whole * each) ** 2


def _most_squares(reach: Reach) -> float:
    squares = [_packed(reach.cell, reach.all)]
    if math.isfinite(reach.steps):
        squares.append(reach.steps * _packed(reach.cell, reach.step))
    if math.isfinite(reach.columns):
        squares.append(reach.columns * _packed(reach.cell, reach.column))
    return min(squares)
