"""Premises recomputed from densities by brute force: nothing here calls a solver that a conclusion is found with.

Decisions are found by trying every level on a grid, equilibria by looking at every cell of a grid of rates. That is
good to about three digits, which is enough to say whether a premise holds; what is too close to call counts as not met.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
from scipy import ndimage, special

#: Places at which densities are tabulated, and common levels that are tried.
PLACES, LEVELS = 1601, 801
#: Qualification rates tried per group, and the largest cluster of cells that is taken for one crossing.
RATES, CLUSTER = 41, 16
#: A response or a Lipschitz constant must be below this to count as below one.
BELOW_ONE = 0.97
SCORES = special.ndtr(np.linspace(-5.2, 5.2, LEVELS))


@dataclass(frozen=True)
class Law:
    """A normal, truncated normal, beta or uniform distribution in SciPy's special functions."""

    spec: tuple[Any, ...]

    def ends(self) -> tuple[float, float]:
        """An interval with all but a negligible part of the mass."""
        kind, *p = self.spec
        if kind == "normal":
            return p[0] - 8.0 * p[1], p[0] + 8.0 * p[1]
        return {"beta": (0.0, 1.0), "uniform": tuple(p[:2]), "truncnorm": tuple(p[2:4])}[kind]

    def cdf(self, x: Any) -> Any:
        kind, *p = self.spec
        if kind == "normal":
            return special.ndtr((x - p[0]) / p[1])
        low, high = self.ends()
        x = np.clip(x, low, high)
        if kind == "beta":
            return special.betainc(p[0], p[1], x)
        if kind == "uniform":
            return (x - low) / (high - low)
        first, all_, last = (special.ndtr((v - p[0]) / p[1]) for v in (low, x, high))
        return (all_ - first) / (last - first)

    def pdf(self, x: Any) -> Any:
        kind, *p = self.spec
        low, high = self.ends()
        if kind == "uniform":
            return np.where((x >= low) & (x <= high), 1.0 / (high - low), 0.0)
        if kind == "beta":
            inner = np.clip(x, 1e-12, 1.0 - 1e-12)
            logs = special.xlogy(p[0] - 1.0, inner) + special.xlog1py(p[1] - 1.0, -inner) - special.betaln(*p)
            return np.where((x >= 0.0) & (x <= 1.0), np.exp(logs), 0.0)
        bell = np.exp(-0.5 * ((x - p[0]) / p[1]) ** 2) / (p[1] * math.sqrt(2.0 * math.pi))
        if kind == "normal":
            return bell
        mass = special.ndtr((high - p[0]) / p[1]) - special.ndtr((low - p[0]) / p[1])
        return np.where((x >= low) & (x <= high), bell / mass, 0.0)


def ratio_rises(f0: Sequence[Any], f1: Sequence[Any]) -> bool:
    """Does f1/f0 rise strictly? In closed form: normals of one deviation, betas with ordered parameters.

    >>> ratio_rises(["normal", 0, 1], ["normal", 1, 1]), ratio_rises(["normal", 0, 1], ["normal", 1, 2])
    (True, False)
    """
    (kind, *p), (other, *q) = f0, f1
    if kind != other:
        return False
    if kind == "normal":
        return bool(p[1] == q[1] and q[0] > p[0])
    return bool(kind == "beta" and q[0] >= p[0] and q[1] <= p[1] and p != q)


def case_of(transitions: Any) -> str:
    """Condition 1a or 1b, met by all groups, or nothing."""
    tables = np.asarray(transitions, dtype=float)
    effect = tables[..., 1] - tables[..., 0]
    return "1a" if np.all(effect <= 0.0) else "1b" if np.all(effect >= 0.0) else ""


def zoom(value: Callable[[np.ndarray], Any], low: float, high: float, rounds: int = 10) -> float:
    """Where a function of one variable is largest: the best of a grid, looked at ever more closely."""
    for points in (401, *[41] * (rounds - 1)):
        x = np.linspace(low, high, points)
        best = int(np.argmax(value(x)))
        low, high = float(x[max(best - 1, 0)]), float(x[min(best + 1, points - 1)])
    return 0.5 * (low + high)


@dataclass(frozen=True)
class Side:
    """One group: features of both labels, qualification rate, gain and loss of a decision, manipulation cost."""

    f0: Law
    f1: Law
    rate: float
    gain: float = 1.0
    loss: float = 1.0
    cost: Law | None = None

    @cached_property
    def reach(self) -> tuple[float, float]:
        lows, highs = zip(self.f0.ends(), self.f1.ends(), strict=True)
        return min(lows), max(highs)

    @property
    def rising(self) -> bool:
        return ratio_rises(self.f0.spec, self.f1.spec)

    @property
    def break_even(self) -> float:
        return self.loss / (self.gain + self.loss)

    def benefit(self, x: Any) -> Any:
        return self.f0.cdf(x) - self.f1.cdf(x)

    @cached_property
    def peak(self) -> float:
        """x*, where manipulation is worth most."""
        return zoom(self.benefit, *self.reach)

    def marginal(self, x: Any) -> Any:
        """Marginal manipulation gain at a threshold."""
        return self.loss * (1.0 - self.rate) * self._pressure(self.benefit(np.asarray(x, dtype=float)))

    def _pressure(self, z: Any) -> Any:
        assert self.cost is not None
        density = np.where(z > 0.0, self.cost.pdf(np.maximum(z, 1e-12)), 0.0)
        return self.cost.cdf(z) + z * density

    @property
    def rising_gain(self) -> bool:
        """Assumption 12, on a grid up to the largest benefit."""
        gains = self._pressure(np.linspace(0.0, float(self.benefit(self.peak)), 2001))
        return bool(np.all(np.diff(gains) >= -1e-9))

    def utility(self, x: Any, aware: bool = True) -> Any:
        benefit = self.benefit(x)
        fraud = self.cost.cdf(benefit) if aware and self.cost is not None else 0.0
        bad = 1.0 - self.f0.cdf(x) + fraud * benefit
        return self.gain * self.rate * (1.0 - self.f1.cdf(x)) - self.loss * (1.0 - self.rate) * bad

    @cached_property
    def naive(self) -> float:
        return zoom(lambda x: self.utility(x, aware=False), *self.reach)

    @cached_property
    def strategic(self) -> float:
        return zoom(self.utility, *self.reach)

    @property
    def single_peaked(self) -> bool:
        """Does the slope of the utility change its sign once? Where it is flat to rounding it is not asked."""
        x = np.linspace(*self.reach, 4001)[1:-1]
        f0, f1 = self.f0.pdf(x), self.f1.pdf(x)
        slope = self.loss * (1.0 - self.rate) * f0 - self.gain * self.rate * f1 - self.marginal(x) * (f0 - f1)
        signs = np.sign(slope[np.abs(slope) > 1e-10 * np.abs(slope).max()])
        return bool(np.count_nonzero(np.diff(signs)) == 1)

    def level(self, criterion: str, x: Any) -> float:
        """Share of the qualified (eqopt) or of everybody (dp) below a threshold."""
        if criterion == "eqopt":
            return float(self.f1.cdf(x))
        return float(self.rate * self.f1.cdf(x) + (1.0 - self.rate) * self.f0.cdf(x))

    def mirror(self, x: float) -> float:
        """The threshold on the other side of x* that is worth as much to manipulators."""
        low, high = (self.peak, self.reach[1]) if x < self.peak else (self.reach[0], self.peak)
        height = float(self.benefit(x))
        return zoom(lambda y: -np.abs(self.benefit(y) - height), low, high)


@dataclass(frozen=True)
class Two:
    """Two groups, their shares and, where decisions move people, their transitions[s, y, d]."""

    sides: tuple[Side, Side]
    share: tuple[float, float]
    transitions: np.ndarray | None = None
    rate: str = "tpr"
    kept: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    """Decisions that were found already: they do not depend on transitions, so copies with other ones share them."""

    @property
    def rising(self) -> bool:
        return all(side.rising for side in self.sides)

    @property
    def same_features(self) -> bool:
        first, second = self.sides
        return (first.f0, first.f1) == (second.f0, second.f1)

    @property
    def case(self) -> str:
        return case_of(self.transitions)

    @property
    def inner(self) -> bool:
        return self.transitions is not None and bool(np.all((self.transitions > 0.0) & (self.transitions < 1.0)))

    def accepted(self, kind: str, rates: np.ndarray, aware: bool = False) -> list[np.ndarray]:
        """For every pair of these rates, the shares (label, rate of a, rate of b) of each group that are accepted.

        Before manipulation, which the decision maker is ``aware`` of or not.
        """
        tables = [self._kept((s, kind, rates.tobytes()), partial(self._table, s, kind, rates)) for s in (0, 1)]
        worth = []
        for side, part, (above0, above1) in zip(self.sides, self.share, tables, strict=True):
            benefit = above1 - above0
            fraud = side.cost.cdf(benefit) if aware and side.cost is not None else 0.0
            good, bad = rates[:, None] * above1, (1.0 - rates[:, None]) * (above0 + fraud * benefit)
            worth.append(part * (side.gain * good - side.loss * bad))
        if kind == "none":
            own = [np.repeat(_best(worth[s])[:, None], len(rates), axis=1) for s in (0, 1)]
            places = [own[0], own[1].T]
        else:
            places = [best_pairs(*worth)] * 2
        return [_read(tables[s], places[s], s) for s in (0, 1)]

    def _kept(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        key = (*key, self.sides, self.rate)
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]

    def thresholds(self, kind: str, aware: bool) -> tuple[float, float]:
        """Thresholds at the groups' own rates that are best under a criterion."""
        found = self.accepted(kind, np.array([side.rate for side in self.sides]), aware)

        def place(s: int) -> float:
            side, below = self.sides[s], 1.0 - float(found[s][1][0, 1])
            return zoom(lambda x: -np.abs(side.f1.cdf(x) - below), *side.reach)

        return place(0), place(1)

    def _table(self, s: int, kind: str, rates: np.ndarray) -> np.ndarray:
        """Acceptance of both labels (label, rate, place): by common level, or by threshold where there is none."""
        side = self.sides[s]
        low, high = side.reach
        if kind == "simple":
            low, high = min(g.reach[0] for g in self.sides), max(g.reach[1] for g in self.sides)
        x = low + (high - low) * np.sin(0.5 * np.pi * np.linspace(0.0, 1.0, PLACES)) ** 2
        chosen = np.stack([1.0 - side.f0.cdf(x), 1.0 - side.f1.cdf(x)])
        if kind in ("none", "simple"):
            return np.repeat(chosen[:, None], len(rates), axis=1)
        weights = rates if kind == "dp" else np.full(len(rates), 1.0 if self.rate == "tpr" else 0.0)
        out = np.empty((2, len(rates), LEVELS))
        for k, weight in enumerate(weights):
            if k and weight == weights[k - 1]:
                out[:, k] = out[:, k - 1]
                continue
            level = weight * chosen[1] + (1.0 - weight) * chosen[0]
            for y in (0, 1):
                out[y, k] = np.interp(SCORES, level[::-1], chosen[y][::-1])
        return out

    def _moves(self, kind: str, rates: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Chances to be qualified next, for the unqualified and the qualified of each group."""
        assert self.transitions is not None
        found = []
        accepted = self._kept((kind, self.share, rates.tobytes()), lambda: self.accepted(kind, rates))
        for s, (above0, above1) in enumerate(accepted):
            (t00, t01), (t10, t11) = self.transitions[s]
            found.append((t00 + (t01 - t00) * above0, t10 + (t11 - t10) * above1))
        return found

    def _next(self, kind: str, rates: np.ndarray) -> list[np.ndarray]:
        grids = np.meshgrid(rates, rates, indexing="ij")
        return [
            gain * (1.0 - now) + keep * now for (gain, keep), now in zip(self._moves(kind, rates), grids, strict=True)
        ]

    def lone(self, kind: str) -> bool:
        """Is there exactly one equilibrium? Cells of the grid in which both rates can stand still form one cluster."""
        rates = np.linspace(0.008, 0.992, RATES)
        drift = [
            later - now
            for later, now in zip(self._next(kind, rates), np.meshgrid(rates, rates, indexing="ij"), strict=True)
        ]
        if kind == "none":
            signs = np.sign(drift[0][:, 0]), np.sign(drift[1][0])
            return all(np.count_nonzero(np.diff(sign)) == 1 for sign in signs)
        still = np.ones((RATES - 1, RATES - 1), dtype=bool)
        for d in drift:
            corners = np.stack([d[:-1, :-1], d[1:, :-1], d[:-1, 1:], d[1:, 1:]])
            still &= (corners.min(axis=0) <= 0.0) & (corners.max(axis=0) >= 0.0)
        marked, clusters = ndimage.label(still, np.ones((3, 3)))
        return clusters == 1 and int(np.count_nonzero(marked)) <= CLUSTER

    def responses(self, kind: str) -> tuple[float, float]:
        """Theorem 18: the largest |dh_s/dalpha_s| and |dh_s/dalpha_r| of h = (1 - g1)/g0."""
        rates = np.linspace(0.005, 0.995, 2 * RATES - 1)
        steep = [np.gradient((1.0 - keep) / gain, rates, rates) for gain, keep in self._moves(kind, rates)]
        own, cross = (steep[0][0], steep[1][1]), (steep[0][1], steep[1][0])
        return max(float(np.abs(d).max()) for d in own), max(float(np.abs(d).max()) for d in cross)

    def meets_18(self, kind: str) -> bool:
        own, cross = self.responses(kind)
        return cross < BELOW_ONE and (self.case == "1a" or own < BELOW_ONE)

    def lipschitz(self, kind: str) -> float:
        """The largest change of a rate when both rates move by at most one unit, to first order."""
        rates = np.linspace(0.005, 0.995, 2 * RATES - 1)
        return max(
            float(np.abs(np.stack(np.gradient(later, rates, rates))).sum(axis=0).max())
            for later in self._next(kind, rates)
        )


def best_pairs(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """`_best` of first[j] + second[k] for every pair of rows, without keeping all the sums."""
    k = np.clip(np.stack([(row + second).argmax(axis=-1) for row in first]), 1, first.shape[-1] - 2)
    rows, columns = np.arange(len(first))[:, None], np.arange(len(second))
    return _vertex(k, *(first[rows, k + d] + second[columns, k + d] for d in (-1, 0, 1)))


def _best(worth: np.ndarray) -> np.ndarray:
    """Where the rows are largest, between places by the parabola through three of them."""
    k = np.clip(worth.argmax(axis=-1), 1, worth.shape[-1] - 2)
    return _vertex(k, *(np.take_along_axis(worth, (k + d)[..., None], -1)[..., 0] for d in (-1, 0, 1)))


def _vertex(k: np.ndarray, left: np.ndarray, middle: np.ndarray, right: np.ndarray) -> np.ndarray:
    bend = left - 2.0 * middle + right
    shift = np.where(bend < 0.0, 0.5 * (left - right) / np.where(bend < 0.0, bend, -1.0), 0.0)
    return np.asarray(k + np.clip(shift, -0.5, 0.5))


def _read(table: np.ndarray, places: np.ndarray, s: int) -> np.ndarray:
    """A table (label, rate, place) of group s at the places (rate of a, rate of b)."""
    below = np.floor(places).astype(int)
    part = places - below
    rows = np.arange(table.shape[1])
    own = rows[:, None] if s == 0 else rows[None, :]
    return np.asarray(table[:, own, below] * (1.0 - part) + table[:, own, below + 1] * part)


def of_scene(scene: Any) -> Two:
    """The groups of a strategic scene, made once for each scene: what was found about them is kept with them."""
    found = vars(scene).get("_by_brute_force")
    if found is None:
        found = vars(scene)["_by_brute_force"] = _of_scene(scene)
    return cast("Two", found)


def _of_scene(scene: Any) -> Two:
    def side(group: dict[str, Any]) -> Side:
        low, high, cost = (Law(tuple(spec)) for spec in (*map(group["features"].get, "01"), group["cost"]))
        return Side(low, high, group["qualified"], scene.gain, scene.loss, cost)

    first, second = scene.groups.values()
    return Two((side(first), side(second)), (first["share"], second["share"]))


def of_model(system: Any) -> Two:
    """The first instance of a model of qualification or participation."""
    people = system.people

    def side(s: int) -> Side:
        low, high = (Law(people.feature(0, s, y).spec) for y in (0, 1))
        return Side(low, high, float(people.qualified[0, s]), float(people.gain[0]), float(people.loss[0]))

    moves = system.transitions[0] if hasattr(system, "transitions") else None
    first, second = people.share[0].tolist()
    return Two((side(0), side(1)), (first, second), moves, system.rate)
