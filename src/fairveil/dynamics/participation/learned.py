"""Decisions learned from the users still there: fewer users of a group, worse decisions for it (figure 4.10)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairveil.dynamics.distributions import Distribution, distribution
from fairveil.dynamics.participation.model import History, Participation
from fairveil.dynamics.population import best_thresholds, measure, population
from fairveil.errors import SpecError
from fairveil.fairness.notions import by_rule
from fairveil.randomness import Generator

LEVELS = 400
#: Cells of a kernel estimate, and thresholds scanned on it.
CELLS = 512


Samples = list[tuple[np.ndarray, np.ndarray]]
Learn = Callable[[str, str, Samples], np.ndarray]
"""(criterion, rate, sorted features of the unqualified and of the qualified by group) -> thresholds (groups,)."""


def empirical_thresholds(fairness: str, rate: str, samples: Samples) -> np.ndarray:
    """Thresholds (groups,) that minimise the error on samples under a criterion that holds on the samples.

    ``samples[s]`` are the sorted features of the unqualified and of the qualified users of group s.
    """
    total = float(sum(len(x0) + len(x1) for x0, x1 in samples))

    def errors(s: int, theta: np.ndarray) -> np.ndarray:
        x0, x1 = samples[s]
        return (len(x0) - np.searchsorted(x0, theta) + np.searchsorted(x1, theta)) / max(len(x0) + len(x1), 1)

    weight = [(len(x0) + len(x1)) / total for x0, x1 in samples]
    pooled = [np.sort(np.concatenate(pair)) for pair in samples]
    if fairness in ("none", "eqloss"):
        own = np.array([_lowest(pooled[s], errors(s, pooled[s])) for s in range(len(samples))])
        if fairness == "none":
            return own
        least = [float(errors(s, own[s : s + 1])[0]) for s in range(len(samples))]
        for s in range(len(samples)):
            below = pooled[s][pooled[s] <= own[s]]
            own[s] = below[np.argmin(np.abs(errors(s, below) - max(least)))]
        return own
    if fairness == "simple":
        grid = np.quantile(np.concatenate(pooled), np.linspace(0.0, 1.0, 8 * LEVELS))
        loss = np.sum([weight[s] * errors(s, grid) for s in range(len(samples))], axis=0)
        return np.full(len(samples), _lowest(grid, loss))
    levels = np.linspace(0.0, 1.0, 4 * LEVELS)
    source = {"dp": pooled, "fpr": [x0 for x0, _ in samples], "tpr": [x1 for _, x1 in samples]}
    level = by_rule(fairness, rate).level
    if level not in source:
        raise SpecError(
            "this criterion has no learned thresholds", path="fairness", given=fairness,
            allowed="none, simple, eqloss, " + ", ".join(source), fix='decisions = "kernel" takes every criterion',
        )  # fmt: skip
    chosen = source[level]
    places = np.array([np.quantile(x, levels) for x in chosen])
    loss = np.sum([weight[s] * errors(s, places[s]) for s in range(len(samples))], axis=0)
    return places[:, int(np.argmin(loss))]


def kernel_thresholds(fairness: str, rate: str, samples: Samples) -> np.ndarray:
    """Thresholds (groups,) that would be optimal if every label's features had the law a kernel estimate gives them.

    Gaussian kernels of width 1.06 deviations n^(-1/5): the fewer people, the smoother and the more biased the estimate.
    """
    groups = {}
    for s, pair in enumerate(samples):
        sizes = [len(x) for x in pair]
        groups[str(s)] = {
            "share": float(sum(sizes)),
            "qualified": sizes[1] / sum(sizes),
            "features": {str(label): _kernel_estimate(x) for label, x in enumerate(pair)},
        }
    return best_thresholds(population(groups), fairness, rate, CELLS)[0]


def _kernel_estimate(sample: np.ndarray) -> Distribution:
    """The estimate as a histogram of many cells, three kernel widths beyond the sample on both sides."""
    width = max(1.06 * float(np.std(sample)) * len(sample) ** -0.2, 1e-6 * (1.0 + float(np.abs(sample).max())))
    edges = np.linspace(sample.min() - 3.0 * width, sample.max() + 3.0 * width, CELLS + 1)
    counts, _ = np.histogram(sample, edges)
    apart = np.arange(1 - CELLS, CELLS) * (edges[1] - edges[0]) / width
    weights = np.convolve(counts, np.exp(-0.5 * apart**2), mode="valid")
    return distribution(["histogram", edges.tolist(), weights.tolist()])


def _lowest(grid: np.ndarray, loss: np.ndarray) -> float:
    return float(grid[int(np.argmin(loss))])


#: Learners by the name that a spec gives them.
LEARNERS: dict[str, Learn] = {"learned": empirical_thresholds, "kernel": kernel_thresholds}


def simulate_learned(
    system: Participation, steps: int, rng: Generator, smallest: int = 4, learn: Learn = empirical_thresholds
) -> History:
    """Like `simulate` for one instance, but each decision is learned from a sample of the users present.

    Users are drawn from the true features, as many as there are (at least ``smallest`` of each label, so that a nearly
    empty group still has a decision). Losses are the true ones. ``learn`` makes thresholds from the samples.
    """
    if system.people.size != 1 or system.stay is None:
        raise SpecError("learned decisions follow one instance with group retention", path="decisions", given="learned")
    people = system.people
    now = np.array(system.arrivals, dtype=float)
    rows: list[tuple[np.ndarray, ...]] = []
    for _ in range(steps):
        samples = []
        for s in range(people.groups):
            size = max(int(now[0, s]), 2 * smallest)
            ones = int(np.clip(rng.binomial(size, people.qualified[0, s]), smallest, size - smallest))
            draw = [people.feature(0, s, y).sample(rng, count) for y, count in ((0, size - ones), (1, ones))]
            samples.append((np.sort(draw[0]), np.sort(draw[1])))
        theta = learn(system.fairness, system.rate, samples)[None]
        seen = measure(people, theta)
        stay = system.stay(seen)
        rows.append((now, theta, seen.loss, stay, people.qualified))
        now = system.growth.step(now, stay, system.attracted(seen), system.arrivals)
    numbers, thresholds, loss, stays, qualified = map(np.array, zip(*rows, strict=True))
    return History(numbers, thresholds, loss, stays, qualified)
