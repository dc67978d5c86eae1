"""Simulated worlds of reports, many repetitions at once: coverage and width of every interval that a report states.

Rounds with one winner are drawn as counts of compositions (which groups stand in a round, and which one wins), so that
3,000 repetitions of thousands of rounds cost a second. The noise is that of the served mechanism, seeded.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from fairveil.evaluate.private import PrivateValue
from fairveil.privacy.noise import SeededNoise
from fairveil.privacy.vectors import ONE, NoisyVector, Price
from fairveil.reports.intervals import (
    GroupSums,
    Limits,
    Tail,
    averaged,
    balanced,
    gap,
    pair_alpha,
    rated,
    rates,
    rates_apart,
)


def share_inside(limits: Limits, truth, where=None) -> float:
    inside = (limits.low <= truth) & (truth <= limits.high)
    return float(inside.mean() if where is None else inside[where].mean())


def noisy(price: Price, l1: float, square: float, exact, seed: int) -> tuple[np.ndarray, float]:
    """Noise of the mechanism that serves, on every number of an array; and its standard deviation."""
    vector = NoisyVector(price, int(l1 * ONE), int(square * ONE**2), 1)
    drawn = vector.releases(np.zeros(1, np.int64), SeededNoise(seed, "worlds"), exact.size)
    return exact + drawn.reshape(exact.shape), vector.std


@dataclass
class Covered:
    single: float
    all: float
    width: float
    estimable: float


def binomial(price: Price, shown: int, rate: float, *, noisy_shown: bool, seed: int, runs: int = 3000) -> Covered:
    """Every one who is shown is chosen by a coin of their own."""
    rng = np.random.default_rng(seed)
    chosen = rng.binomial(shown, rate, (runs, 1)).astype(float)
    sizes = np.full((runs, 1), float(shown))
    parts = 2 if noisy_shown else 1
    seen, std = noisy(price, 2 * parts, 2 * parts, chosen, seed)
    held, held_noise = (noisy(price, 4, 4, sizes, seed + 1)[0], std**2) if noisy_shown else (sizes, 0.0)
    figure = rated(GroupSums(seen, held, np.maximum(held, 1.0), std**2, held_noise), 0.95, price.laplace)
    known = figure.known
    width = (figure.expected.high - figure.expected.low)[known]
    return Covered(
        share_inside(figure.expected, rate, known) if known.any() else math.nan,
        share_inside(figure.expected, rate), float(width.mean()) if known.any() else 1.0, float(known.mean()),
    )  # fmt: skip


def averages(price: Price, count: int, mean: float, *, seed: int, runs: int = 3000) -> Covered:
    """Mean outcomes of so many who were chosen: counts and centred sums in one vector."""
    rng = np.random.default_rng(seed)
    total = rng.binomial(count, mean, (runs, 1)) - count / 2
    counted, std = noisy(price, 3, 2.5, np.full((runs, 1), float(count)), seed)
    summed, _ = noisy(price, 3, 2.5, total, seed + 1)
    figure = averaged(summed, counted, std**2, std**2, 0.95, price.laplace)
    width = figure.expected.high - figure.expected.low
    return Covered(share_inside(figure.expected, mean, figure.known), share_inside(figure.expected, mean),
                   float(width[figure.known].mean()), float(figure.known.mean()))  # fmt: skip


def compositions(shares, strengths, candidates: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Chances of (who stands in a round, who wins), the counts that stand, and the winners."""
    chances, stood, winners = [], [], []
    for held in itertools.combinations_with_replacement(range(len(shares)), candidates):
        counts = np.bincount(held, minlength=len(shares))
        ways = math.factorial(candidates) / np.prod([math.factorial(int(count)) for count in counts])
        chance = ways * np.prod(np.power(shares, counts))
        pull = counts * np.asarray(strengths, float)
        for group in np.flatnonzero(counts):
            chances.append(chance * pull[group] / pull.sum())
            stood.append(counts)
            winners.append(group)
    return np.array(chances), np.array(stood), np.array(winners)


@dataclass
class Rounds:
    """What 3,000 reports of rounds with one winner showed."""

    single: np.ndarray
    simultaneous: float
    gap: float
    gap_width: float
    gap_if_independent: float
    ratio_low: float
    true_gap: float


def one_winner(price: Price, rounds: int, shares, strengths, *, candidates: int = 4, seed: int = 1,
               runs: int = 3000) -> Rounds:  # fmt: skip
    rng, groups = np.random.default_rng(seed), len(shares)
    chances, stood, winners = compositions(shares, strengths, candidates)
    counts = rng.multinomial(rounds, chances / chances.sum(), runs)
    wins = np.eye(groups)[winners]
    chosen, shown, reached = (counts @ part for part in (wins, stood, stood > 0))
    truth = (chances @ wins) / (chances @ stood)
    seen, std = noisy(price, 2, 2, chosen.astype(float), seed)
    v = std**2
    sums = GroupSums(balanced(seen, np.full(runs, float(rounds))), shown.astype(float), reached.astype(float),
                v * (1 - 1 / groups), 0.0, -v / groups)  # fmt: skip
    figure = rated(sums, 0.95, price.laplace)
    wide, ratio = rates_apart(sums, figure, 0.95, price.laplace)
    apart, quotient = truth.max() - truth.min(), truth.min() / truth.max()
    both = rates(sums, Tail.at(pair_alpha(0.05, groups), price.laplace), sampling=True)
    low, high = gap(figure.expected, both, 0.0, figure.known)
    inside = (figure.expected.low <= truth) & (truth <= figure.expected.high)
    shared = (figure.simultaneous.low <= truth) & (truth <= figure.simultaneous.high)
    return Rounds(
        inside.mean(axis=0), float(shared.all(axis=1).mean()),
        float(((wide.low <= apart) & (apart <= wide.high)).mean()), float((wide.high - wide.low).mean()),
        float(((low <= apart) & (apart <= high)).mean()), float((ratio.low <= quotient).mean()), float(apart),
    )  # fmt: skip


MEANS = np.array([0.2, 0.4, 0.6, 0.3])
MIXTURE = np.array([0.05, 0.25, 0.6, 0.1])
"""The general rule: mostly the best arm. Its weights have the second moment (13.2) that the specified width implies;
always one arm (30.3) is out of reach of every estimate by weights: its sampling error alone is .048 wide."""


def evaluation(price: dict, rows: int, *, target: str = "uniform", explore: float = 0.1, level: float = 0.95,
               graded: bool = False, clip: float | None = None, seed: int = 1,
               runs: int = 2000) -> tuple[float, float]:  # fmt: skip
    """Coverage and width of the value of another rule, from a log with known propensities: counts of kinds of rows.

    PlaceRows are of 4 x 4 x outcomes kinds (the policy's own arm, the arm taken, what came of it), drawn as counts.
    """
    rng, arms = np.random.default_rng(seed), len(MEANS)
    largest = (1 if target == "uniform" else arms) / explore
    law = np.full(arms, 1 / arms) if target == "uniform" else MIXTURE
    value = PrivateValue(clip=clip or largest, largest_weight=largest, **price)
    outcomes = np.linspace(0, 1, 21) if graded else np.array([0.0, 1.0])
    kinds = []
    for own, arm in itertools.product(range(arms), range(arms)):
        chance = (1 - explore) * (own == arm) + explore / arms
        spread = np.exp(-0.5 * ((outcomes - MEANS[arm]) / 0.1) ** 2) if graded else None
        held = spread / spread.sum() if spread is not None else np.array([1 - MEANS[arm], MEANS[arm]])
        kinds += [(chance / arms * p, law[arm] / chance, y) for p, y in zip(held, outcomes, strict=True)]
    chances, weights, rewards = (np.array(column) for column in zip(*kinds, strict=True))
    units = np.array([value.units(np.array([w]), np.array([y])) for w, y in zip(weights, rewards, strict=True)])
    truth = float((chances * weights * rewards).sum())
    hits = width = 0.0
    sums = rng.multinomial(rows, chances / chances.sum(), runs) @ units
    drawn = value.mechanism.releases(np.zeros(2, np.int64), SeededNoise(seed, "evaluation"), runs)
    for exact, noise in zip(sums / ONE, drawn, strict=True):
        found = value.estimate(exact + noise, rows, level)
        hits += found.low <= truth <= found.high
        width += found.high - found.low
    return hits / runs, width / runs
