"""What a report says: a document of plain numbers and sentences, made from noisy sums and public numbers alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fairveil.arrays import Floats
from fairveil.reports.intervals import (
    Apart,
    Figure,
    GroupSums,
    Limits,
    Tail,
    averaged,
    balanced,
    estimable,
    means_apart,
    pair_alpha,
    rated,
    rates_apart,
)
from fairveil.reports.words import fairness_words

if TYPE_CHECKING:
    from fairveil.reports.fairness import FairnessReport, PublicCounts


SMALL = 0.02
"""Groups below this share of those shown are marked in an impact ratio."""


class NoisyParts(NamedTuple):
    """The parts of a vector by name, and the variance of the noise of one sum."""

    report: FairnessReport
    sums: Floats
    variance: float

    def part(self, name: Any) -> Floats | None:
        place = self.report.layout.slice(name)
        return None if place is None else self.sums[place]

    def held(self, name: Any) -> Floats:
        found = self.part(name)
        assert found is not None, f"the layout of this family holds {name}"
        return found


def written(report: FairnessReport, sums: Floats, public: PublicCounts) -> dict[str, Any]:
    noisy = NoisyParts(report, sums, report.vector.std**2)
    make = {"meritocratic": _screening, "nash": _trial, "exposure": exposure}[report.family]
    found = make(noisy, public)
    law = "laplace" if report.price.laplace else "gaussian"
    table = {
        "kind": "fairness",
        "family": report.family,
        "places": public.places,
        "level": report.level,
        "noise": {"law": law, "std": report.vector.std, "sums": report.layout.dimension},
        "charge": report.price.to_dict(),
        "guarantee": report.guarantee().to_dict(),
        **found,
    }
    table["words"] = fairness_words(table)
    return plain(table)


def _screening(noisy: NoisyParts, public: PublicCounts) -> dict[str, Any]:
    report, names, declared = noisy.report, noisy.report.names, noisy.report.declared
    chosen, chosen_noise, shared = _totalled(noisy, noisy.held("chosen"), float(public.places))
    shown, rounds, shown_noise = _shown(noisy, public)
    sums = GroupSums(chosen, shown, rounds, chosen_noise, shown_noise, shared)
    figure = rated(sums, report.level, report.price.laplace)
    gap, ratio = rates_apart(sums, figure, report.level, report.price.laplace)
    means = _means(noisy, chosen, chosen_noise)
    total = max(float(shown.sum()), 1.0)
    rows = [
        {
            "name": name,
            "shown": float(shown[g]),
            "chosen": float(chosen[g]),
            "rate": _told(figure, g),
            **({} if means is None else {"mean": _told(means, g, (report.low, report.high))}),
            "simultaneous": _ends(figure.simultaneous, g),
            "status": _status(figure, g, shown, shown_noise),
            "small": bool(shown[g] < SMALL * total),
        }
        for g, name in enumerate(names)
    ]
    margins = [
        _margin(noisy, word, cells, place, chosen, shown, rounds, shown_noise, public)
        for place, (word, cells) in enumerate(declared.margins)
    ]
    return {
        "groups": rows,
        **({"margins": margins} if margins else {}),
        "gap": _pair(gap, names, figure),
        "ratio": _pair(ratio, names, figure, turned=True),
    }


def _margin(noisy: NoisyParts, name: str, cells: Sequence[int], place: int, chosen: Floats, shown: Floats,
            rounds: Floats, shown_noise: float, public: PublicCounts) -> dict[str, Any]:  # fmt: skip
    """One margin: the sum of its cells, whose noise adds up (and shares the public total)."""
    report, held, of = noisy.report, list(cells), len(noisy.report.names)
    if public.margins is not None:
        reached = float(public.margins[place])
    else:
        reached = float(min(rounds[held].sum(), public.places))
    spread = noisy.variance * len(held) * (1 if report.blanks else 1 - len(held) / of)
    one = [np.array([float(part[held].sum())]) for part in (chosen, shown)]
    sums = GroupSums(one[0], one[1], np.array([reached]), spread, shown_noise * len(held))
    figure = rated(sums, report.level, report.price.laplace)
    row = {
        "name": name, "of": [report.names[cell] for cell in held], "shown": float(one[1][0]),
        "chosen": float(one[0][0]), "rate": _told(figure, 0), "status": _status(figure, 0, one[1], sums.shown_noise),
    }  # fmt: skip
    reward, answered = noisy.part("reward"), noisy.part("answered")
    if reward is not None:
        count = one[0] if answered is None else np.array([float(answered[held].sum())])
        count_noise = spread if answered is None else noisy.variance * len(held)
        total = np.array([float(reward[held].sum())])
        mean = averaged(total, count, noisy.variance * len(held), count_noise, report.level, report.price.laplace)
        row["mean"] = _told(mean, 0, (report.low, report.high))
    return row


def _trial(noisy: NoisyParts, public: PublicCounts) -> dict[str, Any]:
    """Means by arm and group, and by group over all arms; counts are public, or noisy with the arms' public totals."""
    report, v = noisy.report, noisy.variance
    names, arms = report.names, report.actions
    shape = (len(arms), len(names))
    total = noisy.held("reward").reshape(shape)
    counts, count_noise, shared = _counted(noisy, public, shape)
    answered = noisy.part("answered")
    if public.answered is not None:
        base, base_noise, shared = public.answered.reshape(shape).astype(float), 0.0, 0.0
    elif answered is not None:
        base, base_noise, shared = answered.reshape(shape), v, 0.0
    else:
        base, base_noise = counts, count_noise
    level, laplace = report.level, report.price.laplace
    cells = averaged(total.ravel(), base.ravel(), v, base_noise, level, laplace)
    many = len(arms)
    sums = (total.sum(axis=0), base.sum(axis=0), v * many, base_noise * many)
    figure = averaged(*sums, level, laplace)
    gap, ratio = means_apart(*sums, shared * many, figure, level, laplace)
    people, span = counts.sum(axis=0), (report.low, report.high)
    rows = [
        {
            "name": name,
            "shown": float(people[g]),
            "mean": _told(figure, g, span),
            "simultaneous": _ends(figure.simultaneous, g, span),
            "status": _status(figure, g, people, count_noise * many),
            "arms": [
                {"action": arm, "chosen": float(counts[a, g]), "mean": _told(cells, a * len(names) + g, span),
                 "status": _status(cells, a * len(names) + g, counts.ravel(), count_noise)}
                for a, arm in enumerate(arms)
            ],
        }
        for g, name in enumerate(names)
    ]  # fmt: skip
    margins = [
        _trial_margin(noisy, word, list(cells), people, sums, (base_noise, shared))
        for word, cells in report.declared.margins
    ]
    wide: dict[str, Any] = {"margins": margins} if margins else {}
    wide["gap"] = _pair(gap, names, figure, scale=report.high - report.low)
    if report.low == 0:  # a ratio of means has no meaning where zero is not nothing
        wide["ratio"] = _pair(ratio, names, figure, turned=True)
    return {"groups": rows, **wide}


def _trial_margin(noisy: NoisyParts, name: str, held: list[int], people: Floats, sums: tuple[Any, ...],
                  counted: tuple[float, float]) -> dict[str, Any]:  # fmt: skip
    """One margin over all arms: the sum of its cells. ``counted``: the noise of one count, and what two share."""
    report, many, size = noisy.report, len(noisy.report.actions), len(held)
    total, base = (np.array([float(part[held].sum())]) for part in sums[:2])
    spread = many * size * (counted[0] + (size - 1) * counted[1])
    figure = averaged(total, base, noisy.variance * many * size, spread, report.level, report.price.laplace)
    shown = np.array([float(people[held].sum())])
    return {
        "name": name, "of": [report.names[cell] for cell in held], "shown": float(shown[0]),
        "mean": _told(figure, 0, (report.low, report.high)), "status": _status(figure, 0, shown, spread),
    }  # fmt: skip


def _counted(noisy: NoisyParts, public: PublicCounts, shape: tuple[int, int]) -> tuple[Floats, float, float]:
    """Counts by arm and group, the variance of their noise, and its covariance inside an arm."""
    if public.cells is not None:
        return public.cells.reshape(shape).astype(float), 0.0, 0.0
    arms = 0.0 if public.arms is None else np.asarray(public.arms, np.float64)
    return _totalled(noisy, noisy.held("chosen").reshape(shape), arms)


def _totalled(noisy: NoisyParts, counts: Floats, total: Floats | float) -> tuple[Floats, float, float]:
    """Counts by group with their public total, the variance of their noise and its covariance; blanks have none."""
    v, groups = noisy.variance, counts.shape[-1]
    if noisy.report.blanks:
        return counts, v, 0.0
    return balanced(counts, total), v * (1 - 1 / groups), -v / groups


def _shown(noisy: NoisyParts, public: PublicCounts) -> tuple[Floats, Floats, float]:
    """Candidates and rounds by group, and the variance of their noise."""
    if public.shown is not None and public.rounds is not None:
        return public.shown.astype(float), public.rounds.astype(float), 0.0
    shown = noisy.held("shown")
    return shown, np.clip(noisy.held("rounds"), 1.0, max(public.places, 1)), noisy.variance


def _means(noisy: NoisyParts, chosen: Floats, chosen_noise: float) -> Figure | None:
    reward, answered = noisy.part("reward"), noisy.part("answered")
    if reward is None:
        return None
    count, noise = (chosen, chosen_noise) if answered is None else (answered, noisy.variance)
    return averaged(reward, count, noisy.variance, noise, noisy.report.level, noisy.report.price.laplace)


class _Exposure(NamedTuple):
    """Shares given and owed, of how many places; the noise of one sum, and of that number (0 where it is public)."""

    played: Floats
    deserved: Floats
    places: float
    own: float
    loose: float

    @property
    def apart(self) -> Floats:
        return self.played - self.deserved

    @property
    def spread(self) -> Floats:
        """The variance by sampling of what they differ by."""
        given, owed = np.clip(self.played, 0, 1), np.clip(self.deserved, 0, 1)
        return np.maximum(given + owed - self.apart**2, 0.0) / self.places

    def noise(self, value: Floats, sums: int = 1) -> Floats:
        """The variance of the noise of shares that are made of so many sums."""
        return (sums * self.own + value**2 * self.loose) / self.places**2

    def alone(self, groups: int) -> float:
        """The noise of one sum without the public total that all groups share."""
        return self.own if self.loose else self.own * groups / max(groups - 1, 1)

    def told(self, at: int, tail: Tail, known: bool) -> dict[str, Any]:
        """One group's shares and their difference, and whether they can be estimated."""
        figures = {
            "played": (self.played, _binomial(self.played, self.places), self.noise(self.played), 0.0),
            "deserved": (self.deserved, _binomial(self.deserved, self.places), self.noise(self.deserved), 0.0),
            "difference": (self.apart, self.spread, self.noise(self.apart, 2), -1.0),
        }
        told = {key: _share(figure, at, tail, known) for key, figure in figures.items()}
        return {**told, "status": "estimated" if known else "unestimable"}


def exposure(noisy: NoisyParts, public: PublicCounts) -> dict[str, Any]:
    """Shares by group, their difference, the gap between two groups and the distance over all of them."""
    report, found = noisy.report, _shares(noisy, public)
    groups, laplace, alpha = len(report.names), report.price.laplace, 1 - report.level
    known = bool(estimable(np.array([found.places]), found.loose, laplace)[0])
    tail, all_groups = Tail.at(alpha, laplace), Tail.at(alpha / groups, laplace)
    apart, spread = found.apart, found.spread
    rows = [{"name": name, **found.told(g, tail, known)} for g, name in enumerate(report.names)]
    half = _half(all_groups, spread, found.noise(apart, 2))
    distance: dict[str, float | None] = {
        "value": float(np.abs(apart).sum()),
        "low": float(np.maximum(np.abs(apart) - half, 0.0).sum()),
        "high": min(2.0, float((np.abs(apart) + half).sum())),
    }
    gap = _exposure_gap(report.names, found, tail, Tail.at(pair_alpha(alpha, groups), laplace))
    if not known:
        gap = {"pair": None, "value": None, "low": 0.0, "high": 2.0, "left_out": list(report.names)}
        distance = {"value": None, "low": 0.0, "high": 2.0}
    margins = [
        _exposure_margin(word, list(cells), report.names, found, tail, known) for word, cells in report.declared.margins
    ]
    return {"groups": rows, **({"margins": margins} if margins else {}), "gap": gap, "distance": distance}


def _exposure_margin(name: str, held: list[int], names: tuple[str, ...], found: _Exposure, tail: Tail,
            known: bool) -> dict[str, Any]:  # fmt: skip
    """One margin: the sum of its cells, whose noise adds up (and shares the public total)."""
    size, groups = len(held), len(names)
    whole = found.own if found.loose else found.alone(groups) * (1 - size / groups)
    played, deserved = (np.array([float(part[held].sum())]) for part in (found.played, found.deserved))
    summed = found._replace(played=played, deserved=deserved, own=size * whole)
    return {"name": name, "of": [names[cell] for cell in held], **summed.told(0, tail, known)}


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


def _share(figure: tuple[Floats, Floats, Floats, float], at: int, tail: Tail, known: bool) -> dict[str, Any]:
    value, sampling, noise, bottom = figure
    if not known:
        return {"value": None, "expected": [bottom, 1.0], "realised": [bottom, 1.0]}
    middle, halves = float(value[at]), (_half(tail, sampling, noise), _half(tail, 0.0 * sampling, noise))
    ends = [
        [min(max(middle - half, bottom), 1.0), min(max(middle + half, bottom), 1.0)]
        for half in (float(one[at]) for one in halves)
    ]
    return {"value": middle, "expected": ends[0], "realised": ends[1]}


def _exposure_gap(names: tuple[str, ...], found: _Exposure, tail: Tail, shared: Tail) -> dict[str, Any]:
    """Of all pairs of groups the one whose differences are furthest apart."""
    apart = found.apart
    most, least = int(apart.argmax()), int(apart.argmin())
    wide = float(apart[most] - apart[least])
    noise = (4 * found.alone(len(names)) + wide**2 * found.loose) / found.places**2
    up, down = (one.z * math.sqrt(4 * float(found.spread.max()) + one.factor**2 * noise) for one in (tail, shared))
    return {"pair": [names[most], names[least]], "value": wide,
            "low": max(0.0, wide - down), "high": min(2.0, wide + up)}  # fmt: skip


UNIT = (0.0, 1.0)


def _told(figure: Figure, at: int, span: tuple[float, float] = UNIT) -> dict[str, Any]:
    """One group's figure, mapped from [0, 1] to the range of the rewards where it is a mean."""
    value = span[0] + (span[1] - span[0]) * float(figure.expected.value[at])
    return {"value": value, "expected": _ends(figure.expected, at, span), "realised": _ends(figure.realised, at, span)}


def _ends(limits: Limits, at: int, span: tuple[float, float] = UNIT) -> list[float]:
    return [span[0] + (span[1] - span[0]) * float(end[at]) for end in (limits.low, limits.high)]


def _status(figure: Figure, at: int, shown: Floats, noise: Floats | float) -> str:
    if bool(figure.known[at]):
        return "estimated"
    return "nobody was shown" if noise == 0 and shown[at] == 0 else "unestimable"


def _pair(apart: Apart, names: Sequence[str], figure: Figure, turned: bool = False,
          scale: float = 1.0) -> dict[str, Any]:  # fmt: skip
    left_out = [name for name, known in zip(names, figure.known.tolist(), strict=True) if not known]
    enough = len(names) - len(left_out) >= 2
    pair = [names[int(apart.most)], names[int(apart.least)]]
    found = {
        "pair": (pair[::-1] if turned else pair) if enough else None,
        "value": scale * apart.value,
        "low": scale * apart.low,
        "high": scale * apart.high,
    }
    return found | ({"left_out": left_out} if left_out else {})


def plain(value: Any) -> Any:
    """Plain JSON: numbers that are none become null."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.item() if value.ndim == 0 else value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
