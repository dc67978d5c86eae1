"""Threshold and hockey-stick attacks: find the event that separates two worlds, then measure it on fresh trials."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairveil.errors import InputError, SpecError
from fairveil.privacy.audit.bounds import epsilon_lower
from fairveil.privacy.audit.scores import Floats, Score, scores

CELLS = 512
"""A score with at most this many distinct values is cut value by value; otherwise at quantiles."""
QUANTILES = 128


@dataclass(frozen=True)
class Finding:
    """What an attack measured: ``event`` says which outputs are hits, ``likelier`` in which world they are likelier."""

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

    @property
    def violated(self) -> bool:
        return self.epsilon_lower > self.epsilon

    @property
    def verdict(self) -> str:
        return "violated" if self.violated else "consistent"


@dataclass(frozen=True)
class _Family:
    """A score cut into cells, and an order of the cells: the first j cells are an event, for every j."""

    score: Score
    cuts: Floats
    order: NDArray[np.int64]
    kind: str

    def cells(self, rows: Floats) -> NDArray[np.int64]:
        return np.searchsorted(self.cuts, self.score.of(rows), side="left")

    def counts(self, rows: Floats) -> NDArray[np.int64]:
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


def attack(
    first: ArrayLike,
    second: ArrayLike,
    *,
    epsilon: float,
    delta: float = 0.0,
    confidence: float = 0.95,
    worlds: str = "",
    statistic: str = "output",
) -> Finding:
    """Lower-bound epsilon from the outputs of world 0 and world 1, one row a trial.

    A quarter of the trials proposes events: thresholds and unions of likelihood-ratio cells (hockey stick), for each
    coordinate, the most separating linear combination and the lowest set bit of floats. A second quarter picks one
    event and the world in which it is likelier. The other half measures that one event, and only this measurement
    enters the bound: its confidence does not suffer from the search. Runtime O(n log n).
    """
    if not 0 < confidence < 1:
        raise SpecError("the confidence is wrong", path="confidence", given=confidence, allowed="above 0, below 1")
    pair = [_rows(first), _rows(second)]
    if pair[0].shape[1] != pair[1].shape[1]:
        raise InputError("outputs of the two worlds have different widths", allowed="the same shape in both worlds")
    propose = [rows[: len(rows) // 4] for rows in pair]
    choose = [rows[len(rows) // 4 : len(rows) // 2] for rows in pair]
    measure = [rows[len(rows) // 2 :] for rows in pair]
    # thousands of events compete: a far stricter confidence keeps a lucky rare event from winning the choice
    cautious = 1 - (1 - confidence) * 1e-4
    best, family, size, likelier = 0.0, None, 0, 0
    for candidate in _families(propose[0], propose[1], statistic):
        counts = [candidate.counts(rows) for rows in choose]
        for world in (0, 1):
            trials = len(choose[world]), len(choose[1 - world])
            value = epsilon_lower(counts[world], counts[1 - world], *trials, delta, cautious)
            index = int(np.argmax(value)) if len(value) else 0
            if len(value) and value[index] > best:
                best, family, size, likelier = float(value[index]), candidate, index + 1, world
    sizes = (len(measure[likelier]), len(measure[1 - likelier]))
    if family is None:
        hits, event = sizes, "every output (nothing separates the worlds)"
    else:
        hits = (family.hits(measure[likelier], size), family.hits(measure[1 - likelier], size))
        event = family.words(size)
    return Finding(
        epsilon_lower=float(epsilon_lower(hits[0], hits[1], sizes[0], sizes[1], delta, confidence)),
        event=event,
        likelier=likelier,
        hits=hits[0],
        other_hits=hits[1],
        trials=sizes[0],
        other_trials=sizes[1],
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        worlds=worlds,
        statistic=statistic,
    )


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
        raise InputError("an audit needs numbers from enough trials", allowed="at least 40 trials, no NaN")
    return rows
