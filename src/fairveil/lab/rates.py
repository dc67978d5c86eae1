"""How a measured quantity grows with a size: its exponent, and whether an O(.) statement keeps its constant.

A statement with a free constant cannot fail. So the constant is fitted on the smaller half of the sizes and tested on
the larger half.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fairveil.lab.artefact import Claim, Line, Results, last


class Point(NamedTuple):
    """A size, what was measured there, and the standard error of that."""

    size: float
    value: float
    error: float


def by_size(results: Results, start: str, metric: str) -> list[Point]:
    """A metric at the last round of every result whose label is ``start`` and a size, by size."""
    found = [(label.removeprefix(start), one) for label, one in results.items() if label.startswith(start)]
    return sorted(Point(float(size), *last(one, metric)) for size, one in found)


def curve(name: str, points: Sequence[Point], band: bool = True) -> Line:
    """A curve through points, with the 95 % bands of their means."""
    x, y = tuple(point.size for point in points), tuple(point.value for point in points)
    if not band:
        return Line(name, x, y)
    low, high = (tuple(point.value + side * point.error for point in points) for side in (-1.96, 1.96))
    return Line(name, x, y, low, high)


def exponent(points: Sequence[Point]) -> tuple[float, float]:
    """Least-squares slope of log value over log size, and its standard error from the errors of the values.

    >>> exponent([Point(n, 3.0 * n**-0.5, 0.0) for n in (10, 100, 1000)])
    (-0.5, 0.0)
    """
    x = np.log([point.size for point in points])
    y = np.log([point.value for point in points])
    relative = np.array([point.error / point.value for point in points])
    away = x - x.mean()
    slope = float(away @ y / (away @ away))
    return round(slope, 12), float(np.sqrt(((away * relative) ** 2).sum()) / (away @ away))


def keeps_its_constant(
    text: str, where: str, points: Sequence[Point], bound: Callable[[float], float], note: str = ""
) -> Claim:
    """'``value`` is O(``bound``)': the largest ratio over the smaller sizes is not passed at any larger one.

    Needs four sizes. The note has the ratios.
    """
    ratios = _ratios(points, bound)
    shown = ", ".join(f"{ratio.value:.3g}" for ratio in ratios)
    said = f"measured over bound at {len(ratios)} sizes: {shown}; the constant is the largest of the first"
    return _kept(text, where, [ratios], f"{said} {len(ratios) // 2}; {note}".removesuffix("; "))


def keeps_one_constant(
    text: str, where: str, instances: Sequence[tuple[Sequence[Point], Callable[[float], float]]]
) -> Claim:
    """'``value`` is O(``bound``) on all instances': one constant for all, the largest ratio over their smaller sizes.

    The note has the constant and the largest ratio of each instance at the larger sizes.
    """
    ratios = [_ratios(points, bound) for points, bound in instances]
    constant = max(ratio.value for one in ratios for ratio in one[: len(one) // 2])
    later = ", ".join(f"{max(ratio.value for ratio in one[len(one) // 2 :]):.3g}" for one in ratios)
    said = f"constant {constant:.3g}, the largest at the smaller half of the sizes; at the larger half at most {later}"
    return _kept(text, where, ratios, said)


def _ratios(points: Sequence[Point], bound: Callable[[float], float]) -> list[Point]:
    """Measured over bound, by size."""
    if len(points) < 4:
        raise ValueError(f"{len(points)} sizes cannot test a constant that was fitted on half of them; take at least 4")
    return [
        Point(size, value / bound(size), error / bound(size))
        for size, value, error in sorted(points, key=lambda p: p[0])
    ]


def _kept(text: str, where: str, instances: list[list[Point]], note: str) -> Claim:
    """No ratio at a larger size is above the largest at the smaller ones."""
    smaller = [ratio for ratios in instances for ratio in ratios[: len(ratios) // 2]]
    fitted = max(smaller, key=lambda ratio: ratio.value)
    tested = [
        Claim.difference("", "", fitted.value, fitted.error, ratio.value, ratio.error)
        for ratios in instances
        for ratio in ratios[len(ratios) // 2 :]
    ]
    found = Claim.every(text, where, tested, note)
    return replace(found, refuted_by="a larger ratio to the bound at one of the larger sizes")


def growth_below(text: str, where: str, points: Sequence[Point], limit: float = 1.0) -> Claim:
    """'the value grows more slowly than size ** ``limit``'."""
    slope, error = exponent(points)
    against = f"an exponent above {limit:g}"
    return Claim.around(text, where, limit - slope, 1.96 * error, f"exponent {slope:.2f}", refuted_by=against)


def within(text: str, where: str, values: Sequence[float], factor: float, note: str = "") -> Claim:
    """'these are of one order': the largest over the smallest is below ``factor``."""
    spread = max(values) / min(values)
    said = f"largest over smallest {spread:.3f}, must be below {factor:g}"
    found = Claim.exact(text, where, math.log(factor / spread), f"{said}; {note}" if note else said)
    return replace(found, refuted_by=f"a largest value more than {factor:g} times the smallest")
