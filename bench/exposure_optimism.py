"""Optimality gap of the optimistic step against a brute-force global search, and its speed, by size of the ellipsoid.

The gap is relative to the largest half-width of a mean, the unit in which optimism is measured. The global search takes
random points of the ball and of its surface, every action's maximiser, and polishes the best of them.

    python bench/exposure_optimism.py [--problems 60]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numba import njit

from fairveil.bandits.exposure.optimism import optimistic, value_and_slope
from fairveil.fairness.exposure import AffineMerit, ExpMerit, PowerMerit

ACTIONS, DIMENSION = 10, 5
MERITS = {"exp 10": ExpMerit(10.0), "affine": AffineMerit(1.0, 0.9), "power 3": PowerMerit(3.0, 1.0)}


@njit
def search(base, slopes, kind, numbers, table, points, polish):
    """The best value over all points, each improved by ``polish`` ascent steps."""
    actions = len(base)
    means, law, slope = np.empty(actions), np.empty(actions), np.empty(actions)
    best = -np.inf
    for p in range(len(points)):
        z = points[p].copy()
        value = value_and_slope(base + slopes @ z, kind, numbers, table, law, slope)
        for _ in range(polish):
            gradient = slopes.T @ slope
            norm = np.sqrt((gradient**2).sum())
            share = 1.0
            better = False
            while norm > 0 and share > 1e-4 and not better:
                trial = z + share * (gradient / norm - z)
                means[:] = base + slopes @ trial
                found = value_and_slope(means, kind, numbers, table, law, slope)
                better = found > value + 1e-14
                share *= 0.5
            if not better:
                break
            value, z = found, trial
        best = max(best, value)
    return best


@njit
def many(bases, slopes, kind, numbers, table, values, work):
    means, law = np.empty(bases.shape[1]), np.empty(bases.shape[1])
    for i in range(len(bases)):
        values[i] = optimistic(bases[i], slopes[i], kind, numbers, table, means, law, work)


def problems(size, count, rng):
    contexts = rng.random((count, ACTIONS, DIMENSION)) / np.sqrt(DIMENSION)
    theta = np.abs(rng.normal(size=(count, DIMENSION)))
    theta /= np.linalg.norm(theta, axis=1, keepdims=True)
    roots = np.array([np.linalg.qr(m)[0] for m in rng.normal(size=(count, DIMENSION, DIMENSION))])
    roots = size * roots * rng.uniform(0.1, 1, (count, 1, DIMENSION))
    return np.einsum("nkd,nd->nk", contexts, theta), np.ascontiguousarray(contexts @ roots)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=60)
    count = parser.parse_args().problems
    rng = np.random.default_rng(0)
    ball = rng.normal(size=(400, DIMENSION))
    ball /= np.linalg.norm(ball, axis=1, keepdims=True)
    ball[:100] *= rng.random((100, 1))
    work = np.empty((6, max(ACTIONS, 2 * DIMENSION)))
    worst = 0.0
    print(f"{'merit':8s} {'size':>6s} {'largest gap':>12s} {'mean gap':>10s} {'above 1e-3':>11s} {'us a step':>10s}")
    for name, merit in MERITS.items():
        for size in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0):
            bases, slopes = problems(size, count, rng)
            values = np.empty(count)
            many(bases, slopes, *merit.code(), values, work)
            gaps = []
            for i in range(count):
                own = slopes[i] / np.linalg.norm(slopes[i], axis=1, keepdims=True)
                best = search(bases[i], slopes[i], *merit.code(), np.vstack([ball, own]), 40)
                gaps.append((best - values[i]) / np.linalg.norm(slopes[i], axis=1).max())
            many_bases, many_slopes = problems(size, 10_000, rng)
            start = time.process_time()
            many(many_bases, many_slopes, *merit.code(), np.empty(10_000), work)
            speed = (time.process_time() - start) / 10_000 * 1e6
            gaps = np.array(gaps)
            worst = max(worst, gaps.max())
            share = (gaps > 1e-3).mean()
            print(f"{name:8s} {size:6.2f} {gaps.max():12.2e} {gaps.mean():10.2e} {share:11.3f} {speed:10.2f}")
    print(f"\nlargest gap of all: {worst:.2e} of the half-width")


if __name__ == "__main__":
    main()
