"""What a report says about exposure: what each group was given, what it was owed, and how far these are apart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fairveil.arrays import Floats
from fairveil.reports.intervals import Tail, balanced, estimable, pair_alpha

if TYPE_CHECKING:
    from fairveil.reports.document import NoisyParts
    from fairveil.reports.fairness import PublicCounts


class _Exposure(NamedTuple):
    """Shares given and owed, of how many places; the noise of one sum, and of that number (0 where it is public)."""

    played: Floats
    deserved: Floats
    places: float
    own: float
    loose: float

    def noise(self, value: Floats, sums: int = 1) -> Floats:
        """The variance of the noise of shares that are made of so many sums."""
        return (sums * self.own + value**2 * self.loose) / self.places**2


def exposure(noisy: NoisyParts, public: PublicCounts) -> dict[str, Any]:
    """Shares by group, their difference, the gap between two groups and the distance over all of them."""
    report, found = noisy.report, _shares(noisy, public)
    groups, laplace, alpha = len(report.names), report.price.laplace, 1 - report.level
    known = bool(estimable(np.array([found.places]), found.loose, laplace)[0])
    tail, all_groups = Tail.at(alpha, laplace), Tail.at(alpha / groups, laplace)
    apart, n = found.played - found.deserved, found.places
    spread = np.maximum(np.clip(found.played, 0, 1) + np.clip(found.deserved, 0, 1) - apart**2, 0.0) / n
    figures = {
        "played": (found.played, _binomial(found.played, n), found.noise(found.played), 0.0),
        "deserved": (found.deserved, _binomial(found.deserved, n), found.noise(found.deserved), 0.0),
        "difference": (apart, spread, found.noise(apart, 2), -1.0),
    }
    rows = [
        {"name": name, **{key: _told(figure, g, tail, known) for key, figure in figures.items()},
         "status": "estimated" if known else "unestimable"}
        for g, name in enumerate(report.names)
    ]  # fmt: skip
    half = _half(all_groups, spread, found.noise(apart, 2))
    distance: dict[str, float | None] = {
        "value": float(np.abs(apart).sum()),
        "low": float(np.maximum(np.abs(apart) - half, 0.0).sum()),
        "high": min(2.0, float((np.abs(apart) + half).sum())),
    }
    gap = _gap(report.names, apart, spread, found, tail, Tail.at(pair_alpha(alpha, groups), laplace))
    if not known:
        gap = {"pair": None, "value": None, "low": 0.0, "high": 2.0, "left_out": list(report.names)}
        distance = {"value": None, "low": 0.0, "high": 2.0}
    margins = [_margin(word, list(cells), report.names, found, tail, known) for word, cells in report.declared.margins]
    return {"groups": rows, **({"margins": margins} if margins else {}), "gap": gap, "distance": distance}


def _margin(name: str, held: list[int], names: tuple[str, ...], found: _Exposure, tail: Tail,
            known: bool) -> dict[str, Any]:  # fmt: skip
    """One margin: the sum of its cells, whose noise adds up (and shares the public total)."""
    size, groups, n = len(held), len(names), found.places
    whole = found.own if found.loose else found.own * groups / max(groups - 1, 1) * (1 - size / groups)
    sums = found._replace(own=size * whole)
    played, deserved = (np.array([float(part[held].sum())]) for part in (found.played, found.deserved))
    apart = played - deserved
    spread = np.maximum(np.clip(played, 0, 1) + np.clip(deserved, 0, 1) - apart**2, 0.0) / n
    figures = {
        "played": (played, _binomial(played, n), sums.noise(played), 0.0),
        "deserved": (deserved, _binomial(deserved, n), sums.noise(deserved), 0.0),
        "difference": (apart, spread, sums.noise(apart, 2), -1.0),
    }
    told = {key: _told(figure, 0, tail, known) for key, figure in figures.items()}
    return {"name": name, "of": [names[cell] for cell in held], **told,
            "status": "estimated" if known else "unestimable"}  # fmt: skip


def _shares(noisy: NoisyParts, public: PublicCounts) -> _Exposure:
    """With blanks nobody says how many places count: half of both totals does, with noise of its own."""
    sums = [noisy.held(part) for part in ("played", "deserved")]
    groups, v = len(noisy.report.names), noisy.variance
    if noisy.report.blanks:
        n = max(float(sums[0].sum() + sums[1].sum()) / 2, 1.0)
        return _Exposure(sums[0] / n, sums[1] / n, n, v, groups * v / 2)
    n = float(max(public.places, 1))
    played, deserved = (balanced(one, float(public.places)) / n for one in sums)
    return _Exposure(played, deserved, n, v * (1 - 1 / groups), 0.0)


def _binomial(share: Floats, n: float) -> Floats:
    return np.clip(share * (1 - share), 0.0, None) / n


def _half(tail: Tail, sampling: Floats, noise: Floats) -> Floats:
    return tail.z * np.sqrt(sampling + tail.factor**2 * noise)


def _told(figure: tuple[Floats, Floats, Floats, float], at: int, tail: Tail, known: bool) -> dict[str, Any]:
    value, sampling, noise, bottom = figure
    if not known:
        return {"value": None, "expected": [bottom, 1.0], "realised": [bottom, 1.0]}
    middle, halves = float(value[at]), (_half(tail, sampling, noise), _half(tail, 0.0 * sampling, noise))
    ends = [
        [min(max(middle - half, bottom), 1.0), min(max(middle + half, bottom), 1.0)]
        for half in (float(one[at]) for one in halves)
    ]
    return {"value": middle, "expected": ends[0], "realised": ends[1]}


def _gap(names: tuple[str, ...], apart: Floats, spread: Floats, found: _Exposure, tail: Tail,
         shared: Tail) -> dict[str, Any]:  # fmt: skip
    """Of all pairs of groups the one whose differences are furthest apart."""
    most, least = int(apart.argmax()), int(apart.argmin())
    wide, groups = float(apart[most] - apart[least]), len(names)
    one_sum = found.own if found.loose else found.own * groups / max(groups - 1, 1)  # without the shared total
    noise = (4 * one_sum + wide**2 * found.loose) / found.places**2
    up, down = (one.z * math.sqrt(4 * float(spread.max()) + one.factor**2 * noise) for one in (tail, shared))
    return {"pair": [names[most], names[least]], "value": wide,
            "low": max(0.0, wide - down), "high": min(2.0, wide + up)}  # fmt: skip
