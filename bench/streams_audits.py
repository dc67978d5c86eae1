"""Are private streams as private as they say, and no more? Every releaser and unit at three budgets, and broken twins.

Tight: where a pair of worlds is the worst case, what an observer of many streams finds is within 5 % of the claim: mu
for Gaussian noise, epsilon for Laplace noise (from the outputs whose likelihood ratio is the largest there is).
Consistent: no audit finds more than is promised. `ba`, `bd` and `dft` with several frequencies promise more than any
one pair of worlds can show (they share a budget among things that no neighbour moves fully at once): bounds only.
The exit code is 1 when a limit does not hold.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from fairveil import registry
from fairveil.privacy.conversions import gdp_mu
from fairveil.privacy.noise import SeededNoise, ZeroNoise
from fairveil.proof import audit, estimate_mu
from fairveil.proof.engine.everything import BUDGETS, QUICK, SURE, examine, things
from fairveil.proof.pairs import find_pair
from fairveil.proof.pairs.streams import worlds_of
from fairveil.streams.releasers.plain_release import PlainReleaser

TRIALS, DELTA = 200_000, 1e-5
"""Streams at epsilon 1 and above; below, as many more as the same relative precision of mu needs."""
UNITS: dict[str, dict[str, Any]] = {
    "sequence": {"horizon": 8},
    "participation": {"horizon": 12, "participation": 3},
    "participation, add-remove": {"horizon": 12, "participation": 3, "neighbours": "add-remove"},
    "offset": {"horizon": 16, "neighbours": "add-remove", "starts": 1},
    "window": {"unit": "window", "window": 4},
    "event": {"unit": "event"},
    "memory": {"unit": "event", "memory": 0.7},
    "window with memory": {"unit": "window", "window": 4, "memory": 0.7},
}
PURE_UNITS: dict[str, dict[str, Any]] = {
    "sequence": {"horizon": 2},
    "participation": {"horizon": 4, "participation": 1},
    "window": {"unit": "window", "window": 2},
    "event": {"unit": "event"},
}
GAUSSIAN: dict[str, dict[str, Any]] = {
    "baseline-gaussian": {"name": "baseline-gaussian"},
    "baseline-gaussian, whole numbers": {"name": "baseline-gaussian", "law": "discrete-gaussian"},
    "baseline-gaussian, coins": {"name": "baseline-gaussian", "law": "binomial"},
    "predictive": {"name": "predictive", "weight": 0.5},
    "fast, Gaussian": {"name": "fast", "law": "gaussian"},
    "private-kalman": {"name": "private-kalman"},
}
LAPLACE: dict[str, dict[str, Any]] = {
    "baseline-laplace": {"name": "baseline-laplace"},
    "predictive, Laplace": {"name": "predictive", "law": "laplace"},
    "fast": {"name": "fast"},
    "private-kalman, Laplace": {"name": "private-kalman", "law": "laplace"},
}
failed: list[str] = []


def check(words: str, value: float, limit: float) -> None:
    holds = value <= limit
    if not holds:
        failed.append(words)
    print(f"  {'ok  ' if holds else 'MISS'} {words}: {value:.4g} (at most {limit:g})", flush=True)


def fits(keys: dict[str, Any], name: str, unit: str) -> bool:
    """Whether this releaser knows this unit; coins have no mu, and few of them are not near any Gaussian law."""
    if "memory" in keys:
        return name == "private-kalman"
    if name.endswith("coins"):
        return unit in ("sequence", "participation")
    return (name, unit) != ("predictive", "offset")


def claimed_mu(releaser: PlainReleaser) -> float:
    """mu of the plan; where the budget is counted otherwise, the mu with the same rho, or epsilon and delta."""
    plan = releaser.plan
    if plan.mu is not None:
        return plan.mu
    return math.sqrt(2 * plan.rho) if plan.rho is not None else gdp_mu(float(releaser.epsilon or 0), DELTA)


def copies(releaser: PlainReleaser) -> tuple[np.ndarray, np.ndarray]:
    """Plain releases of many streams in both worlds."""
    count = round(TRIALS / min(1.0, float(releaser.epsilon or 1.0)) ** 2)
    worlds = enumerate(worlds_of(releaser))
    zero, one = (releaser.plain_copies(z, count, SeededNoise(3, world)) for world, z in worlds)
    return zero, one


def found_mu(releaser: PlainReleaser) -> float:
    """From the best direction: what one unit moves, weighed by the noise."""
    zero, one = copies(releaser)
    still, moved = (releaser.plain_copies(z, 1, ZeroNoise())[0] for z in worlds_of(releaser))
    direction = np.linalg.solve(np.atleast_2d(np.cov(zero.T)), moved - still)
    return estimate_mu(zero @ direction, one @ direction).mu


def found_epsilon(releaser: PlainReleaser) -> float:
    """From the outputs that lie beyond both worlds wherever these differ: no outputs have a larger ratio."""
    low, high = worlds_of(releaser)
    zero, one = copies(releaser)
    return math.log(beyond(zero, low, high) / beyond(one, low, high))


def beyond(shown: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    """Share of streams that lie on the far side of world 0 at every step where the worlds differ."""
    moved = low != high
    side = np.sign(low - high)[moved]
    return float(np.mean(((shown[:, moved] - low[moved]) * side >= 0).all(axis=1)))


def tight() -> None:
    print("the worst pair against its claim: mu (Gaussian noise), epsilon (Laplace noise)")
    for epsilon in BUDGETS:
        for name, table in GAUSSIAN.items():
            for unit, keys in UNITS.items():
                if not fits(keys, name, unit):
                    continue
                releaser = registry.build("releaser", {**table, "epsilon": epsilon, "delta": DELTA, **keys}, "")
                gap = abs(found_mu(releaser) / claimed_mu(releaser) - 1)
                check(f"{name}, {unit}, eps {epsilon:g}: mu", gap, 0.05)
        for name, table in LAPLACE.items():
            for unit, keys in PURE_UNITS.items():
                if "predictive" in name and unit in ("window", "event"):
                    keys = {**keys, "horizon": 6}
                releaser = registry.build("releaser", {**table, "epsilon": epsilon, **keys}, "")
                check(f"{name}, {unit}, eps {epsilon:g}: epsilon", abs(found_epsilon(releaser) / epsilon - 1), 0.05)
        check(f"dft, one frequency, eps {epsilon:g}: epsilon", abs(dft_epsilon(epsilon) / epsilon - 1), 0.05)


def dft_epsilon(epsilon: float, trials: int = 40_000) -> float:
    """With one frequency the only coefficient is the sum, and a person who is always there moves it fully."""
    releaser = registry.build("releaser", {"name": "dft", "epsilon": epsilon, "horizon": 2, "frequencies": 1}, "")

    def below(world: int) -> float:
        noise, hits = SeededNoise(5, world), 0
        for _ in range(trials):
            state = releaser.start()
            releaser.advance(state, np.full(2, float(world)), noise)
            hits += releaser.finish(state)[0].value <= 0
        return hits / trials

    return math.log(below(0) / below(1))


def consistent() -> None:
    print("no audit finds more than is promised; lower bounds as shares of the claim")
    for epsilon in BUDGETS:
        tables = [
            *({**table, "delta": DELTA, **keys} for name, table in GAUSSIAN.items() for unit, keys in UNITS.items()
              if fits(keys, name, unit)),
            *({**table, **keys} for table in LAPLACE.values() for keys in PURE_UNITS.values()),
            *({"name": name, **keys} for name in ("ba", "bd") for keys in PURE_UNITS.values()),
            {"name": "dft", "horizon": 8, "frequencies": 3},
            {"name": "dft", "horizon": 8, "frequencies": 2, "delay": 4},
            {"name": "fast", "horizon": 8, "samples": 6},
        ]  # fmt: skip
        for table in tables:
            if table["name"] == "predictive" and table.get("unit") in ("window", "event"):
                table = {**table, "horizon": 6}
            if table["name"] in ("ba", "bd") and ("participation" in table or table.get("unit") == "event"):
                continue
            _, pair = find_pair({"kind": "releaser", **table, "epsilon": epsilon})
            found = audit(pair, trials=pair.trials, confidence=SURE, seed=6)
            share = found.epsilon_lower / found.epsilon
            words = ", ".join(str(value) for key, value in table.items() if key != "delta")
            check(f"{words}, eps {epsilon:g}: bound {share:.2f} of the claim; violated", float(found.violated), 0.0)


def twins() -> None:
    print("broken copies, and releasers as their examples are")
    for thing in things(("releaser",)):
        verdict = examine(thing, QUICK, seed=5)
        check(f"{thing.title} is violated", float(verdict.violated), 0.0)
        for name, by in verdict.caught.items():
            check(f"{thing.title}, mutant {name} escapes", float(not by), 0.0)


PARTS = {"tight": tight, "consistent": consistent, "twins": twins}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
    print("all limits hold" if not failed else f"MISSED: {'; '.join(failed)}")
    sys.exit(1 if failed else 0)
