"""Mutants of everything: broken noise in every served method that draws, clips that do not clip."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from fairveil.privacy import grid
from fairveil.proof.mutants.mutant import (
    Change,
    Method,
    Mutant,
    Plant,
    Reused,
    function,
    halved,
    in_its,
    method,
    quiet,
    rule,
    together,
    twin,
    with_noise,
)

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
SWAPS: dict[str, tuple[str, Change]] = {
    "no-noise": ("no noise at all", with_noise(quiet)),
    "half-noise": ("half of the noise", with_noise(halved)),
    "reused-noise": ("noise drawn once and used for ever", with_noise(Reused)),
}
Broken = Callable[[Any, Change], AbstractContextManager[None]]
"""``broken(thing, change)``: the served methods of a thing that draw are changed."""


def noise_mutants(broken: Broken) -> list[Mutant]:
    """A thing whose served methods draw from a broken source."""

    def plant_with(change: Change) -> Plant:
        return lambda thing: broken(thing, change)

    return [Mutant(name, words, plant_with(change)) for name, (words, change) in SWAPS.items()]


@rule
def broken_noise(kind: str, thing: Any) -> list[Mutant]:
    """Every served method draws from a broken source."""
    served = [name for name in DRAWING.get(kind, ()) if callable(getattr(type(thing), name, None))]
    if not served:
        return []
    return noise_mutants(lambda one, change: together(*(method(type(one), name, change) for name in served)))


def entering(how: Callable[[Any, Any, float], Any]) -> AbstractContextManager[None]:
    """Instead of being clipped by the grid, wherever it is used, values enter as ``how(values, sizes, bound)``."""

    def unit(values: Any, *, strict: bool = False) -> Any:
        return scalars(values, 1.0)

    def scalars(values: Any, bound: float) -> Any:
        given = np.asarray(values, np.float64)
        return how(given, np.abs(given), bound)

    def norm(rows: Any, bound: float) -> Any:
        given = np.asarray(rows, np.float64)
        return how(given, np.linalg.norm(np.atleast_2d(given), axis=-1), bound)

    def row_units(rows: Any, bound: float, bits: int = grid.ROW_BITS) -> Any:
        return grid.to_units(norm(rows, bound), bits)

    def scalar_units(values: Any, bound: float, bits: int = grid.GRID_BITS) -> Any:
        return grid.to_units(scalars(values, bound), bits)

    return together(
        function(grid.clip_unit, unit),
        function(grid.scalar_units, scalar_units),
        function(grid.row_units, row_units),
        function(grid.clip_norm, norm),
    )


def no_clip(thing: Any) -> AbstractContextManager[None]:
    """The clips of the grid let everything through."""
    return entering(lambda values, sizes, bound: values)


def data_bound(thing: Any) -> AbstractContextManager[None]:
    """Values are divided by the largest one, as if it were public: so far in a sum, of those at once elsewhere."""
    ever, top = hasattr(thing, "bound"), [0.0]

    def divided(values: Any, sizes: Any, bound: float) -> Any:
        top[0] = max(top[0] if ever else 0.0, float(np.max(sizes, initial=0.0)))
        return values * (bound / top[0] if top[0] > 0 else 1.0)

    return entering(divided)


@twin
def counted_twice(original: Method, self: Any, state: Any, rows: Any) -> Any:
    """Every row is added twice."""
    return original(self, original(self, state, rows), rows)


@twin
def row_kept(original: Method, self: Any, state: Any, *more: Any, **named: Any) -> Any:
    """A row that was released stays in the open leaf and enters the next release too."""
    after, estimate = original(self, state, *more, **named)
    return {**after, "open": state["open"].copy()}, estimate


@rule
def broken_sums(kind: str, thing: Any) -> list[Mutant]:
    """Mistakes of running sums: rows that are not clipped, rows that are summed twice."""
    if kind != "sum":
        return []
    found = [Mutant("counted-twice", "a row that counts twice", in_its("add", counted_twice))]
    if not hasattr(thing, "bound"):
        return found  # a histogram has bins instead of a bound, and is read once
    found.append(Mutant("no-clip", "rows and values enter as they come", no_clip))
    found.append(Mutant("data-bound", "a bound that is the largest value there is", data_bound))
    if "open" in thing.start():
        found.append(Mutant("row-kept", "a row that stays after its release", in_its("release", row_kept)))
    return found
