"""Decisions learned from the users still there: fewer users of a group, worse decisions for it (figure 4.10)."""

from __future__ import annotations

import numpy as np

from fairveil.dynamics.measures import measure
from fairveil.dynamics.participation.model import History, Model
from fairveil.errors import SpecError
from fairveil.randomness import Generator

LEVELS = 400


def empirical_thresholds(fairness: str, rate: str, samples: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
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
    chosen = source["dp" if fairness == "dp" else rate]
    places = np.array([np.quantile(x, levels) for x in chosen])
    loss = np.sum([weight[s] * errors(s, places[s]) for s in range(len(samples))], axis=0)
    return places[:, int(np.argmin(loss))]


def _lowest(grid: np.ndarray, loss: np.ndarray) -> float:
    return float(grid[int(np.argmin(loss))])


def simulate_learned(system: Model, steps: int, rng: Generator, smallest: int = 4) -> History:
    """Like `simulate` for one instance, but each decision is learned from a sample of the users present.

    Users are drawn from the true features, as many as there are (at least ``smallest`` of each label, so that a nearly
    empty group still has a decision). Losses are the true ones.
    """
    if system.people.size != 1 or system.stay is None:
        raise SpecError("learned decisions follow one instance with group retention", path="decisions", given="learned")
    people = system.people
    now = np.array(system.arrivals, dtype=float)
    keep: dict[str, list[np.ndarray]] = {key: [] for key in ("numbers", "thresholds", "loss", "retention", "qualified")}
    for _ in range(steps):
        samples = []
        for s in range(people.groups):
            size = max(int(now[0, s]), 2 * smallest)
            ones = int(np.clip(rng.binomial(size, people.qualified[0, s]), smallest, size - smallest))
            draw = [people.feature(0, s, y).sample(rng, count) for y, count in ((0, size - ones), (1, ones))]
            samples.append((np.sort(draw[0]), np.sort(draw[1])))
        theta = empirical_thresholds(system.fairness, system.rate, samples)[None]
        seen = measure(people, theta)
        stay = system.stay(seen)
        for key, value in zip(keep, (now, theta, seen.loss, stay, people.qualified), strict=True):
            keep[key].append(value)
        drawn = np.ones_like(now) if system.draw is None else system.draw(seen)
        now = system.growth.step(now, stay, drawn, system.arrivals)
    numbers, thresholds, loss, stays, qualified = (np.array(values) for values in keep.values())
    return History(numbers, thresholds, loss, stays, qualified)
