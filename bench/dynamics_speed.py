"""Speed of the long-term models against their limits, and accuracy of thresholds against 40-digit arithmetic.

    python bench/dynamics_speed.py [--engine processes] [--workers 2]

Prints seconds and the ratio to the limit: ten thousand qualification equilibria in 30 s, a heat map of one hundred by
one hundred strategic fair policies in 120 s, thresholds to 1e-8. Compilation is done before the clock starts.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import mpmath as mp
import numpy as np

import fairveil
from fairveil.dynamics import fico_groups, optimal_thresholds, population
from fairveil.dynamics.draws import random_transitions
from fairveil.dynamics.qualification import model
from fairveil.randomness import generator


def equilibria_spec(count: int) -> dict[str, Any]:
    """Gaussian groups under demographic parity, 200 steps: random features, rates and transitions."""
    rng = generator(1, "speed")
    cases = []
    for _ in range(count):
        change: dict[str, Any] = {}
        for name in "ab":
            low, high, std = -rng.uniform(2, 6), rng.uniform(2, 6), float(rng.uniform(3, 6))
            change[f"groups.{name}.qualified"] = float(rng.uniform(0.1, 0.9))
            change[f"groups.{name}.features.0"] = ["normal", float(low), std]
            change[f"groups.{name}.features.1"] = ["normal", float(high), std]
            change[f"groups.{name}.transitions"] = random_transitions(rng, str(rng.choice(["1a", "1b", "1c", "1d"])))
        cases.append(change)
    base = {
        "qualified": 0.5,
        "features": {"0": ["normal", -5, 5], "1": ["normal", 5, 5]},
        "transitions": [[0.4, 0.5], [0.5, 0.9]],
    }
    groups = {"a": base, "b": base}
    return {"task": "qualification", "groups": groups, "fairness": "dp", "steps": 200, "grid": {"case": cases}}


def heatmap_spec(side: int) -> dict[str, Any]:
    groups = {name: {**group, "cost": ["beta", 10, 2]} for name, group in fico_groups(["caucasian", "asian"]).items()}
    values = np.linspace(1.0, 15.0, side).tolist()
    grid = {"groups.caucasian.cost.2": values, "groups.asian.cost.2": values}
    return {"task": "strategic", "groups": groups, "fairness": "dp", "grid": grid}


def every_step(count: int, steps: int = 200) -> float:
    """Seconds for all steps of all instances, without stopping those that have settled."""
    spec = equilibria_spec(count)
    from fairveil.dynamics.instances import expand

    tables = [item["groups"] for item in expand({**spec, "utility": {"gain": 1.0, "loss": 1.0}})]
    system = model(tables, fairness="dp")
    now, theta = system.people.qualified, None
    start = time.perf_counter()
    for _ in range(steps):
        now, theta = system.advance(now, theta)
    return time.perf_counter() - start


def accuracy(count: int) -> float:
    """Largest difference from thresholds solved in 40 digits, over random Gaussian and beta pairs."""
    rng = generator(2, "accuracy")
    worst = 0.0
    for k in range(count):
        groups = {}
        for name in "ab":
            if k % 2:
                a, b = float(rng.uniform(0.8, 2)), float(rng.uniform(4, 14))
                features = {
                    "0": ["beta", a, b],
                    "1": ["beta", a + float(rng.uniform(0.5, 2)), float(rng.uniform(1, 3))],
                }
            else:
                std = float(rng.uniform(2, 6))
                features = {
                    "0": ["normal", float(rng.uniform(-6, -2)), std],
                    "1": ["normal", float(rng.uniform(2, 6)), std],
                }
            groups[name] = {
                "share": float(rng.uniform(0.2, 0.8)),
                "qualified": float(rng.uniform(0.2, 0.8)),
                "features": features,
            }
        people = population(groups)
        ours = optimal_thresholds(people, "dp")[0]
        worst = max(worst, float(np.abs(ours - _reference(groups, people.share[0], ours)).max()))
    return worst


def _reference(groups: dict[str, Any], share: np.ndarray, start: np.ndarray) -> np.ndarray:
    with mp.workdps(40):
        rows = []
        for n, table in zip(share, groups.values(), strict=True):
            pair = []
            for y in "01":
                kind, p, q = table["features"][y]
                if kind == "normal":
                    pair.append((lambda x, p=p, q=q: mp.npdf(x, p, q), lambda x, p=p, q=q: mp.ncdf(x, p, q)))
                else:
                    norm = mp.beta(p, q)
                    pair.append(
                        (
                            lambda x, p=p, q=q, norm=norm: x ** (mp.mpf(p) - 1) * (1 - x) ** (mp.mpf(q) - 1) / norm,
                            lambda x, p=p, q=q: mp.betainc(p, q, 0, x, regularized=True),
                        )
                    )
            rows.append((mp.mpf(float(n)), mp.mpf(table["qualified"]), pair))

        def level(row: Any, x: Any) -> Any:
            _, alpha, (f0, f1) = row
            return alpha * f1[1](x) + (1 - alpha) * f0[1](x)

        def profile(row: Any, x: Any) -> Any:
            n, alpha, (f0, f1) = row
            return n * alpha * f1[0](x) / (alpha * f1[0](x) + (1 - alpha) * f0[0](x))

        found = mp.findroot(
            lambda x, y: (
                level(rows[0], x) - level(rows[1], y),
                profile(rows[0], x) + profile(rows[1], y) - mp.mpf("0.5"),
            ),
            tuple(mp.mpf(float(v)) for v in start.round(5)),
            tol=1e-30,
        )
    return np.array([float(v) for v in found])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="serial")
    parser.add_argument("--workers", type=int, default=None)
    options = parser.parse_args()
    fairveil.run(equilibria_spec(4))
    fairveil.run(heatmap_spec(2))
    how = {"engine": options.engine, "workers": options.workers}
    start = time.perf_counter()
    found = fairveil.run(equilibria_spec(10_000), **how)["metrics"]
    seconds = time.perf_counter() - start
    print(
        f"10,000 equilibria, stability, uniqueness by one spec:  {seconds:6.1f} s   ({seconds / 30:.2f} of the limit)"
    )
    print(f"   oscillating {np.mean(found['oscillates']):.4f}, unique {np.mean(found['unique']):.4f}")
    seconds = every_step(10_000)
    print(
        f"10,000 x 200 steps, none left out:                     {seconds:6.1f} s   ({seconds / 30:.2f} of the limit)"
    )
    start = time.perf_counter()
    fairveil.run(heatmap_spec(100), **how)
    seconds = time.perf_counter() - start
    print(
        f"100 x 100 strategic fair policies:                     {seconds:6.1f} s   ({seconds / 120:.2f} of the limit)"
    )
    print(f"thresholds against 40 digits, 60 pairs: largest difference {accuracy(60):.1e} (limit 1e-8)")


if __name__ == "__main__":
    main()
