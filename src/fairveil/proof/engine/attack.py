"""Threshold and hockey-stick attacks: find the event that separates two worlds, then measure it on fresh trials."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairveil.arrays import Floats, Ints
from fairveil.errors import InputError, SpecError
from fairveil.frames import frame_of
from fairveil.proof.engine.bounds import CurveClaim, FinerClaim, epsilon_lower

CELLS = 512
"""A score with at most this many distinct values is cut value by value; otherwise at quantiles."""
QUANTILES = 128


@dataclass(frozen=True)
class Finer:
    """What was measured of a claim in mu or rho (``name``), on an event of its own."""

    name: str
    claimed: float
    lower: float
    event: str
    hits: int
    other_hits: int


@dataclass(frozen=True)
class Finding:
    """What an attack measured: ``event`` says which outputs are hits, ``likelier`` in which world they are likelier.

    ``finer``: the same for a claim in mu or rho, if there is one. Both bounds hold together with the confidence.
    """

    epsilon_lower: float
    event: str
    likelier: int
    hits: int
    other_hits: int
    trials: int
    other_trials: int
    epsilon: float
    delta: float
    confidence: float
    worlds: str = ""
    statistic: str = "output"
    finer: Finer | None = None

    @property
    def violated(self) -> bool:
        return self.epsilon_lower > self.epsilon or (self.finer is not None and self.finer.lower > self.finer.claimed)

    @property
    def verdict(self) -> str:
        return "violated" if self.violated else "consistent"

    def to_frame(self) -> Any:
        """One row: the verdict, what was claimed and what was measured, as a pandas table."""
        row = {
            "verdict": self.verdict, "claimed_epsilon": self.epsilon, "claimed_delta": self.delta,
            "epsilon_lower": self.epsilon_lower, "confidence": self.confidence, "event": self.event,
            "hits": self.hits, "trials": self.trials, "other_hits": self.other_hits, "other_trials": self.other_trials,
        }  # fmt: skip
        return frame_of([row], "audit", "simulated")


@dataclass(frozen=True)
class _Family:
    """A score cut into cells, and an order of the cells: the first j cells are an event, for every j."""

    score: Score
    cuts: Floats
    order: Ints
    kind: str

    def cells(self, rows: Floats) -> Ints:
        return np.searchsorted(self.cuts, self.score.of(rows), side="left")

    def counts(self, rows: Floats) -> Ints:
        """Hits of the events 1, 2, ..., all cells but one."""
        return np.cumsum(np.bincount(self.cells(rows), minlength=len(self.cuts) + 1)[self.order])[:-1]

    def hits(self, rows: Floats, size: int) -> int:
        chosen = np.zeros(len(self.cuts) + 1, bool)
        chosen[self.order[:size]] = True
        return int(chosen[self.cells(rows)].sum())

    def words(self, size: int) -> str:
        name = self.score.words
        if self.kind == "below":
            return f"{name} <= {self.cuts[size - 1]:.6g}"
        if self.kind == "above":
            return f"{name} > {self.cuts[len(self.cuts) - size]:.6g}"
        return f"{name} in the {size} of {len(self.cuts) + 1} cells with the highest likelihood ratio"


@dataclass(frozen=True)
class _Measured:
    """The event that was chosen for one claim, and its hits on fresh trials in the likelier world and in the other."""

    lower: float
    event: str
    likelier: int
    hits: int
    other_hits: int


def attack(
    first: ArrayLike,
    second: ArrayLike,
    *,
    epsilon: float,
    delta: float = 0.0,
    confidence: float = 0.95,
    worlds: str = "",
    statistic: str = "output",
    finer: FinerClaim | CurveClaim | None = None,
) -> Finding:
    """Lower-bound epsilon from the outputs of world 0 and world 1, one row a trial.

    A quarter of the trials proposes events: thresholds and unions of likelihood-ratio cells (hockey stick), for each
    coordinate, the most separating linear combination and the lowest set bit of floats. A second quarter picks one
    event and the world in which it is likelier. The other half measures that one event, and only this measurement
    enters the bound: its confidence does not suffer from the search. With a ``finer`` claim (mu or rho) another event
    is picked and measured for it, and the two bounds share the error. Runtime O(n log n).
    """
    if not 0 < confidence < 1:
        raise SpecError("the confidence is wrong", path="confidence", given=confidence, allowed="above 0, below 1")
    pair = [_rows(first), _rows(second)]
    if pair[0].shape[1] != pair[1].shape[1]:
        raise InputError("outputs of the two worlds have different widths", allowed="the same shape in both worlds")

    def loss(hits: Any, other_hits: Any, trials: int, other_trials: int, confidence: float) -> Any:
        return epsilon_lower(hits, other_hits, trials, other_trials, delta, confidence)

    bounds = [loss] if finer is None else [loss, finer.lower]
    found = _measured(pair, bounds, 1 - (1 - confidence) / len(bounds), statistic)
    halves = [len(rows) - len(rows) // 2 for rows in pair]
    main = found[0]
    return Finding(
        epsilon_lower=main.lower,
        event=main.event,
        likelier=main.likelier,
        hits=main.hits,
        other_hits=main.other_hits,
        trials=halves[main.likelier],
        other_trials=halves[1 - main.likelier],
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        worlds=worlds,
        statistic=statistic,
        finer=None
        if finer is None
        else Finer(finer.name, finer.value, found[1].lower, found[1].event, found[1].hits, found[1].other_hits),
    )


def _measured(pair: list[Floats], bounds: list[Any], confidence: float, statistic: str) -> list[_Measured]:
    """For each bound its best event, proposed and chosen on the first half of the trials, measured on the second."""
    propose = [rows[: len(rows) // 4] for rows in pair]
    choose = [rows[len(rows) // 4 : len(rows) // 2] for rows in pair]
    measure = [rows[len(rows) // 2 :] for rows in pair]
    # Thousands of events compete: a far stricter confidence keeps a lucky rare event from winning the choice. Where no
    # event shows anything at that confidence the choice is made at 99 %; the measurement is as strict as ever.
    levels = (1 - (1 - confidence) * 1e-4, 0.99)
    best: dict[tuple[int, float], tuple[float, _Family, int, int]] = {}
    for candidate in _families(propose[0], propose[1], statistic):
        counts = [candidate.counts(rows) for rows in choose]
        if len(counts[0]) == 0:
            continue
        for world in (0, 1):
            trials = len(choose[world]), len(choose[1 - world])
            for key in product(range(len(bounds)), levels):
                value = bounds[key[0]](counts[world], counts[1 - world], *trials, key[1])
                index = int(np.argmax(value))
                if value[index] > (best[key][0] if key in best else 0.0):
                    best[key] = (float(value[index]), candidate, index + 1, world)
    nothing = (0.0, None, 0, 0)
    chosen = [
        next((best[place, level] for level in levels if (place, level) in best), nothing)
        for place in range(len(bounds))
    ]
    found = []
    for bound, (_, family, size, likelier) in zip(bounds, chosen, strict=True):
        own, other = measure[likelier], measure[1 - likelier]
        hits = (len(own), len(other)) if family is None else (family.hits(own, size), family.hits(other, size))
        event = "every output (nothing separates the worlds)" if family is None else family.words(size)
        lower = float(bound(hits[0], hits[1], len(own), len(other), confidence))
        found.append(_Measured(lower, event, likelier, *hits))
    return found


def _families(zero: Floats, one: Floats, statistic: str) -> Iterator[_Family]:
    for score in scores(zero, one, statistic):
        values = [score.of(zero), score.of(one)]
        cuts = _cuts(np.concatenate(values))
        natural = np.arange(len(cuts) + 1)
        yield _Family(score, cuts, natural, "below")
        yield _Family(score, cuts, natural[::-1], "above")
        seen = [np.bincount(np.searchsorted(cuts, value, side="left"), minlength=len(cuts) + 1) for value in values]
        ratio = np.log(seen[0] + 0.5) - np.log(seen[1] + 0.5)
        order = np.argsort(-ratio, kind="stable")
        yield _Family(score, cuts, order, "ratio")
        yield _Family(score, cuts, order[::-1], "ratio")


def _cuts(values: Floats) -> Floats:
    """Cell limits: cell j holds (cuts[j-1], cuts[j]]. Quantile cuts are denser in both tails."""
    distinct = np.unique(values)
    if len(distinct) <= CELLS:
        return distinct
    tail = np.geomspace(10 / len(values), 0.05, 24)
    levels = np.concatenate([tail, np.linspace(0.05, 0.95, QUANTILES), 1 - tail[::-1]])
    return np.unique(np.quantile(values, levels, method="inverted_cdf"))


def _rows(outputs: ArrayLike) -> Floats:
    rows = np.asarray(outputs, np.float64)
    rows = rows[:, None] if rows.ndim == 1 else rows.reshape(len(rows), -1)
    if len(rows) < 40 or np.isnan(rows).any():
        given = f"{len(rows)} trials, {np.isnan(rows).any(axis=1).sum()} of them with NaN"
        raise InputError("an audit needs numbers from enough trials", given=given, allowed="at least 40 trials, no NaN")
    return rows


COORDINATES = 16
"""Coordinates attacked one by one; wider outputs are attacked through their best linear combination only."""


@dataclass(frozen=True)
class Score:
    """One number a trial, with the words that name it in a finding."""

    words: str
    of: Callable[[Floats], Floats]


def scores(zero: Floats, one: Floats, statistic: str) -> Iterator[Score]:
    """Every score worth trying, fixed by looking at these (proposal) trials only."""
    width = zero.shape[1]
    for column in range(min(width, COORDINATES)):
        name = statistic if width == 1 else f"{statistic}[{column}]"
        yield Score(name, _coordinate(column))
        if (np.rint(zero[:, column]) != zero[:, column]).any():
            yield Score(f"lowest set bit of {name}", _bit_of(column))
    if width > 1:
        weights = separating_direction(zero, one)
        yield Score(f"a linear combination of {statistic}", lambda rows: rows @ weights)


def _coordinate(column: int) -> Callable[[Floats], Floats]:
    return lambda rows: rows[:, column]


def _bit_of(column: int) -> Callable[[Floats], Floats]:
    return lambda rows: lowest_bit(rows[:, column])


def separating_direction(zero: Floats, one: Floats) -> Floats:
    """Fisher's direction: large mean shift against small spread. Noise that cancels in a combination is found here."""
    shift = one.mean(0) - zero.mean(0)
    scale = np.maximum(np.concatenate([zero, one]).std(0), 1e-300)
    centred = np.concatenate([zero - zero.mean(0), one - one.mean(0)]) / scale
    values, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
    # a direction without spread separates perfectly if the means differ there: keep it, but bounded
    strength = (vectors.T @ (shift / scale)) / np.maximum(values, 1e-12)
    return (vectors @ strength) / scale


def lowest_bit(values: Floats) -> Floats:
    """log2 of the lowest set bit of each float: which grid it lies on. Zero counts as the coarsest grid.

    >>> lowest_bit(np.array([1.0, 0.75, 6.0, 0.0])).tolist()
    [0.0, -2.0, 1.0, 2000.0]
    """
    mantissa, exponent = np.frexp(values)
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    low = (whole & -whole).astype(np.float64)
    with np.errstate(divide="ignore"):
        bit = np.log2(low) + exponent - 53
    return np.where(whole == 0, 2000.0, bit)
