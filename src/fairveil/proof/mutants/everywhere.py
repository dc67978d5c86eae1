"""Mutants of everything: broken noise in every served method that draws, clips that do not clip."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from fairveil.privacy import grid
from fairveil.proof.mutants.mutant import Mutant, Reused, function, halved, method, quiet, rule, together, with_noise

#: Methods that serve people and are handed a noise source, by kind of thing.
DRAWING = {
    "mechanism": ("releases", "encode", "report"),
    "sum": ("release", "measure"),
    "policy": ("draw", "release", "report"),
    "learner": ("fit",),
    "releaser": ("advance", "plain_copies"),
    "algorithm": ("draw", "send", "answer"),
    "evaluation": ("releases",),
    "report": ("draws",),
}
SWAPS = {
    "no-noise": ("no noise at all", quiet),
    "half-noise": ("half of the noise", halved),
    "reused-noise": ("noise drawn once and used for ever", Reused),
}


@rule
def broken_noise(kind: str, thing: Any) -> list[Mutant]:
    """Every served method draws from a broken source."""
    served = [name for name in DRAWING.get(kind, ()) if callable(getattr(type(thing), name, None))]
    if not served:
        return []

    def plant_with(swap: Any) -> Any:
        def plant(broken: Any) -> AbstractContextManager[None]:
            change = with_noise(swap)
            return together(*(method(type(broken), name, change) for name in served))

        return plant

    return [Mutant(name, words, plant_with(swap)) for name, (words, swap) in SWAPS.items()]


def _unclipped_unit(values: Any, *, strict: bool = False) -> Any:
    return np.asarray(values, np.float64)


def _unclipped_norm(rows: Any, bound: float) -> Any:
    return np.asarray(rows, np.float64)


def _unclipped_rows(rows: Any, bound: float, bits: int = grid.ROW_BITS) -> Any:
    return grid.to_units(rows, bits)


def _unclipped_scalars(values: Any, bound: float, bits: int = grid.GRID_BITS) -> Any:
    return grid.to_units(values, bits)


def no_clip(thing: Any) -> AbstractContextManager[None]:
    """The clips of the grid let everything through, wherever they are used."""
    return together(
        function(grid.clip_unit, _unclipped_unit),
        function(grid.scalar_units, _unclipped_scalars),
        function(grid.row_units, _unclipped_rows),
        function(grid.clip_norm, _unclipped_norm),
    )


class _Largest:
    """The largest value or row that was ever given (or is given now) stands for the bound, as if it were public."""

    def __init__(self, ever: bool) -> None:
        self.ever, self.top = ever, 0.0

    def scaled(self, values: Any, sizes: Any, bound: float) -> Any:
        self.top = max(self.top if self.ever else 0.0, float(np.max(sizes, initial=0.0)))
        return values * (bound / self.top if self.top > 0 else 1.0)

    def unit(self, values: Any, *, strict: bool = False) -> Any:
        given = np.asarray(values, np.float64)
        return self.scaled(given, np.abs(given), 1.0)

    def norm(self, rows: Any, bound: float) -> Any:
        given = np.asarray(rows, np.float64)
        return self.scaled(given, np.linalg.norm(np.atleast_2d(given), axis=-1), bound)

    def row_units(self, rows: Any, bound: float, bits: int = grid.ROW_BITS) -> Any:
        return grid.to_units(self.norm(rows, bound), bits)

    def scalar_units(self, values: Any, bound: float, bits: int = grid.GRID_BITS) -> Any:
        return grid.to_units(self.unit(values) * bound, bits)


def data_bound(thing: Any) -> AbstractContextManager[None]:
    """Values are divided by the largest one: of those there were so far in a sum, of those at once elsewhere."""
    seen = _Largest(ever=hasattr(thing, "bound"))
    return together(
        function(grid.clip_unit, seen.unit),
        function(grid.scalar_units, seen.scalar_units),
        function(grid.row_units, seen.row_units),
        function(grid.clip_norm, seen.norm),
    )


def counted_twice(sums: Any) -> AbstractContextManager[None]:
    """Every row is added twice."""

    def change(original: Any) -> Any:
        return lambda self, state, rows: original(self, original(self, state, rows), rows)

    return method(type(sums), "add", change)


def row_kept(sums: Any) -> AbstractContextManager[None]:
    """A row that was released stays in the open leaf and enters the next release too."""

    def change(original: Any) -> Any:
        def broken(self: Any, state: Any, *more: Any, **named: Any) -> Any:
            after, estimate = original(self, state, *more, **named)
            return {**after, "open": state["open"].copy()}, estimate

        return broken

    return method(type(sums), "release", change)


@rule
def broken_sums(kind: str, thing: Any) -> list[Mutant]:
    """Mistakes of running sums: rows that are not clipped, rows that are summed twice."""
    if kind != "sum":
        return []
    found = [Mutant("counted-twice", "a row that counts twice", counted_twice)]
    if not hasattr(thing, "bound"):
        return found  # a histogram has bins instead of a bound, and is read once
    found.append(Mutant("no-clip", "rows and values enter as they come", no_clip))
    found.append(Mutant("data-bound", "a bound that is the largest value there is", data_bound))
    if "open" in thing.start():
        found.append(Mutant("row-kept", "a row that stays after its release", row_kept))
    return found
