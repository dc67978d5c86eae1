"""Feature and cost distributions as small values: normal, truncated normal, beta, uniform, histogram.

A spec writes a distribution as a list, ``["normal", mean, std]``. The object evaluates arrays through the compiled
functions of `fairveil.dynamics.kernels`, the same ones the solvers use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairveil.dynamics import kernels, mixtures
from fairveil.dynamics.mixtures import Pair
from fairveil.errors import SpecError
from fairveil.randomness import Generator

SHAPES: dict[str, tuple[int, str]] = {
    "normal": (kernels.NORMAL, '["normal", mean, std]'),
    "truncnorm": (kernels.TRUNCNORM, '["truncnorm", mean, std, low, high]'),
    "beta": (kernels.BETA, '["beta", a, b]'),
    "uniform": (kernels.UNIFORM, '["uniform", low, high]'),
    "histogram": (kernels.HISTOGRAM, '["histogram", [edges], [weights]]'),
    "tempered": (kernels.TEMPERED, '["tempered", base, low, high, factor]'),
}


@dataclass(frozen=True, eq=False)
class Distribution:
    """A distribution on the line, ready for arrays and for compiled solvers.

    >>> score = distribution(["beta", 2.57, 1.24])
    >>> round(float(score.cdf(0.5)), 4), score.support
    (0.2197, (0.0, 1.0))
    """

    spec: tuple[Any, ...]
    code: int
    params: np.ndarray

    @property
    def name(self) -> str:
        return self.spec[0]

    @property
    def support(self) -> tuple[float, float]:
        """The interval that carries all mass (infinite for a normal)."""
        if self.code == kernels.NORMAL:
            return -math.inf, math.inf
        return self.reach

    @cached_property
    def reach(self) -> tuple[float, float]:
        """A finite interval outside which double precision sees no mass."""
        return kernels.ends(self.code, self.params)

    def cdf(self, x: Any) -> Any:
        """P(X <= x)."""
        return self._on(0, x)

    def sf(self, x: Any) -> Any:
        """P(X > x), accurate in the upper tail."""
        return self._on(1, x)

    def pdf(self, x: Any) -> Any:
        """Density."""
        return self._on(2, x)

    def logpdf(self, x: Any) -> Any:
        """Log density, minus infinity outside the support."""
        return self._on(3, x)

    def ppf(self, q: Any) -> Any:
        """Smallest x with P(X <= x) >= q; the ends of the support at 0 and 1."""
        levels = np.asarray(q, dtype=float)
        if np.any(~((levels >= 0.0) & (levels <= 1.0))):
            raise SpecError("a quantile level is a probability", path="q", allowed="numbers in [0, 1]")
        out = self._on(4, levels)
        low, high = self.support
        out = np.where(levels == 0.0, low, np.where(levels == 1.0, high, out))
        return out if out.ndim else float(out)

    def sample(self, rng: Generator, size: int | tuple[int, ...]) -> np.ndarray:
        """Independent draws. Normal and beta use numpy's own samplers, the others invert the distribution function."""
        p = self.params
        if self.code == kernels.NORMAL:
            return rng.normal(p[0], p[1], size)
        if self.code == kernels.BETA:
            return rng.beta(p[0], p[1], size)
        if self.code == kernels.UNIFORM:
            return rng.uniform(p[0], p[1], size)
        if self.code == kernels.HISTOGRAM:
            cells = int(p[0])
            return np.interp(rng.random(size), p[2 + cells : 3 + 2 * cells], p[1 : 2 + cells])
        return np.asarray(self._on(4, rng.random(size)))

    def to_list(self) -> list[Any]:
        """The spec form again."""
        return _lists(self.spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Distribution) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.spec)

    def _on(self, kind: int, x: Any) -> Any:
        points = np.asarray(x, dtype=float)
        out = np.empty(points.size)
        mixtures.fill(kind, self.code, self.params, np.ascontiguousarray(points).reshape(-1), out)
        return out.reshape(points.shape) if points.ndim else float(out[0])


def distribution(spec: Any, path: str = "") -> Distribution:
    """Build a distribution from its list form; a Distribution passes through.

    >>> distribution(["truncnorm", 4, 5, -8, 19]).ppf([0.0, 1.0]).tolist()
    [-8.0, 19.0]
    """
    if isinstance(spec, Distribution):
        return spec
    forms = ", ".join(form for _, form in SHAPES.values())
    if not isinstance(spec, Sequence) or isinstance(spec, str) or not spec or spec[0] not in SHAPES:
        raise SpecError("this is not a distribution", path=path, given=spec, allowed=forms)
    code, form = SHAPES[spec[0]]
    if len(spec) != form.count(",") + 1:
        raise SpecError("the distribution has the wrong number of parameters", path=path, given=spec, allowed=form)
    if code == kernels.HISTOGRAM:
        return _histogram(spec, path)
    if code == kernels.TEMPERED:
        return _tempered(spec, path)
    try:
        values = [float(value) for value in spec[1:] if not isinstance(value, str | bool)]
    except (TypeError, ValueError):
        values = []
    if len(values) != len(spec) - 1 or not all(map(math.isfinite, values)):
        raise SpecError("distribution parameters are finite numbers", path=path, given=spec, allowed=form)
    return Distribution((spec[0], *values), code, _pack(code, values, spec, path))


def empirical(values: Any, bins: int | Sequence[float] = 50, floor: float = 0.0) -> Distribution:
    """The histogram of a sample; ``floor`` is added to every cell's count so that no cell is empty.

    >>> empirical([0.1, 0.2, 0.2, 0.9], bins=[0.0, 0.5, 1.0]).cdf(0.5)
    0.75
    """
    counts, edges = np.histogram(np.asarray(values, dtype=float), bins=bins)
    return distribution(["histogram", edges.tolist(), (counts + floor).tolist()])


def stack(distributions: Sequence[Distribution]) -> tuple[np.ndarray, np.ndarray]:
    """Codes and zero-padded parameter rows, the form compiled solvers take."""
    width = max(item.params.size for item in distributions)
    params = np.zeros((len(distributions), width))
    for row, item in enumerate(distributions):
        params[row, : item.params.size] = item.params
    return np.array([item.code for item in distributions], dtype=np.int64), params


def _lists(parts: tuple[Any, ...]) -> list[Any]:
    return [_lists(part) if isinstance(part, tuple) else part for part in parts]


def _pack(code: int, values: list[float], spec: Any, path: str) -> np.ndarray:
    def need(good: bool, problem: str) -> None:
        if not good:
            raise SpecError(problem, path=path, given=list(spec), allowed=SHAPES[spec[0]][1])

    if code == kernels.NORMAL:
        need(values[1] > 0, "the standard deviation must be positive")
        return np.array([*values, math.log(values[1]) + kernels.LOG_ROOT_TAU])
    if code == kernels.UNIFORM:
        need(values[0] < values[1], "the interval must not be empty")
        return np.array(values)
    if code == kernels.BETA:
        a, b = values
        need(a > 0 and b > 0, "both shape parameters must be positive")
        return np.array([a, b, math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)])
    mean, std, low, high = values
    need(std > 0, "the standard deviation must be positive")
    need(low < high, "the interval must not be empty")
    mass = kernels.normal_mass((low - mean) / std, (high - mean) / std)
    need(mass > 1e-290, "the normal has no mass in this interval")
    return np.array([mean, std, low, high, mass, math.log(std * mass) + kernels.LOG_ROOT_TAU])


def _histogram(spec: Any, path: str) -> Distribution:
    form = SHAPES["histogram"][1]
    try:
        edges, weights = (np.asarray(part, dtype=float) for part in spec[1:])
    except (TypeError, ValueError):
        raise SpecError("edges and weights are lists of numbers", path=path, given=spec, allowed=form) from None
    good = edges.ndim == weights.ndim == 1 and edges.size == weights.size + 1 >= 2
    good = good and bool(np.isfinite(edges).all() and np.isfinite(weights).all())
    if not good or np.any(np.diff(edges) <= 0) or np.any(weights < 0) or weights.sum() <= 0:
        raise SpecError(
            "a histogram has rising edges and one non-negative weight per cell",
            path=path,
            given=list(spec),
            allowed=form,
        )
    total = np.concatenate([[0.0], np.cumsum(weights / weights.sum())])
    params = np.concatenate([[weights.size], edges, total / total[-1]])
    return Distribution(("histogram", tuple(edges.tolist()), tuple(weights.tolist())), kernels.HISTOGRAM, params)


def _tempered(spec: Any, path: str) -> Distribution:
    """A distribution whose density is scaled by a factor on [low, high]; the rest is rescaled to keep the mass."""
    base = distribution(spec[1], path)
    low, high, factor = (float(value) for value in spec[2:])
    below, above = float(base.cdf(low)), float(base.sf(high))
    inside = 1.0 - below - above
    if base.code == kernels.TEMPERED or not low < high or not 0.0 < factor * inside < 1.0 or below + above <= 0.0:
        raise SpecError(
            "the factor must leave some mass inside and outside the interval",
            path=path,
            given=list(spec),
            allowed=SHAPES["tempered"][1],
        )
    rest = (1.0 - factor * inside) / (below + above)
    head = [base.code, low, high, factor, rest, below, above]
    full = (spec[0], tuple(base.spec), low, high, factor)
    return Distribution(full, kernels.TEMPERED, np.concatenate([head, base.params]))


def pair(unqualified: Distribution, qualified: Distribution) -> Pair:
    """The features of one group as compiled code takes them."""
    return Pair(unqualified.code, unqualified.params, qualified.code, qualified.params)
