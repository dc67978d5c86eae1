"""How good are private streams? Errors against Algorithm 4 with its best weight, against theory, and coverage.

All comparisons are at equal mu with paired seeds. Weights marked best are chosen on the true error, which reads the
data: an experiment. Parts: theory, ar1, binomial, real, intervals, options; all without an argument. Every
line with a limit says whether it holds; the exit code is 1 when one does not. Data that are not there are skipped.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from fairveil import data, registry
from fairveil.privacy.conversions import gdp_mu
from fairveil.privacy.noise import SeededNoise
from fairveil.randomness import generator
from fairveil.streams import theory
from fairveil.streams.budget_shares import scheduled
from fairveil.streams.releasers.predictive import WEIGHTS
from fairveil.streams.sequences import build_sequence, draw_sequence
from fairveil.streams.task import measure, release_all

DELTA = 1e-7
failed: list[str] = []


def check(words: str, value: float, limit: float, *, below: bool = True) -> None:
    holds = value <= limit if below else value >= limit
    if not holds:
        failed.append(words)
    print(f"  {'ok  ' if holds else 'MISS'} {words}: {value:.4g} ({'at most' if below else 'at least'} {limit:g})")


def errors(table: dict, values: list, seed: int = 0) -> tuple[float, float]:
    """Root mean squared error and coverage over runs."""
    releaser = registry.build("releaser", table, "releaser")
    found = [measure(z, *release_all(releaser, z, SeededNoise(seed, "stream", run))) for run, z in enumerate(values)]
    return math.sqrt(np.mean([m["square"] for m in found])), float(np.mean([m["coverage"] for m in found]))


def best_weight(table: dict, values: list, seed: int = 0) -> tuple[float, float]:
    """The smallest error of `predictive` over its weights, and the weight."""
    return min((errors({"name": "predictive", **table, "weight": w}, values, seed)[0], w) for w in WEIGHTS)


def level(values: np.ndarray, times: float) -> dict:
    """The budget at which the plain noise is so many times the std of the sequence."""
    present = values[~np.isnan(values)]
    return {"mu": math.sqrt(len(present)) / (times * float(np.std(present))), "horizon": len(present)}


def epsilon_level(values: np.ndarray, epsilon: float) -> dict:
    return {"epsilon": epsilon, "delta": DELTA, "horizon": int((~np.isnan(values)).sum())}


def draws(table: dict, runs: int, seed: int = 11) -> list:
    source = build_sequence(table)
    return [draw_sequence(source, generator(seed, "bench", run)) for run in range(runs)]


def knowing(z: np.ndarray, correlation: float, noise: float, run: int) -> float:
    """Squared error of the Kalman filter that knows mean 0, std 1 and the correlation, on the same standard draws."""
    y = z + noise * SeededNoise(0, "stream", run).gaussian(2.0**40, len(z)) / 2.0**40
    u, p, total = 0.0, 1.0, 0.0
    for t in range(len(z)):
        if t:
            u, p = correlation * u, correlation**2 * p + 1 - correlation**2
        gain = p / (p + noise**2)
        u, p = u + gain * (y[t] - u), p * (1 - gain)
        total += (u - z[t]) ** 2
    return total / len(z)


def part_theory() -> None:
    print("theory")
    worst = 0.0
    for rho in (0.1, 0.5, 0.8, 0.95):
        z = draws({"name": "ar1", "rows": 200_000, "correlation": rho}, 1)[0]
        for noise in (0.3, 1.0, 3.0):
            for weight in (0.05, 0.2, 0.5, 0.8, 1.0):
                known = {"mean": 0.0, "std": 1.0, "correlation": rho}
                mu = math.sqrt(2 + (len(z) - 2) * weight**2) / (noise * weight)
                found, _ = errors(
                    {"name": "predictive", "mu": mu, "horizon": len(z), "weight": weight, "known": known}, [z]
                )
                exact = math.sqrt(theory.exact_error(rho, weight, noise))
                worst = max(worst, abs(found / exact - 1))
    check("stationary error against simulation, 60 settings", 2 * worst, 0.02)
    print(f"       theorem 10 at rho .95, noise 3, w .05: {theory.theorem10_error(0.95, 0.05, 3.0):.3f}", end="")
    print(f", exact {theory.exact_error(0.95, 0.05, 3.0):.3f}")
    gap = max(
        max(
            abs(theory.theorem8_epsilon(theory.corollary1_phi(e, DELTA), DELTA) / e - 1),
            abs(math.log(theory.theorem8_delta(theory.corollary1_phi(e, DELTA), e)) / math.log(DELTA) - 1),
        )
        for e in np.geomspace(1e-3, 50, 200).tolist()
    )
    check("Corollary 1 and Theorem 8 are inverse", gap, 1e-9)
    for table in ({"kind": "geometric", "ratio": 0.999}, {"kind": "power", "power": 1.1}):
        shares = scheduled(table, None)
        spent = sum(float(shares.at(start, 10**6).sum()) for start in range(0, 10**7, 10**6)) / shares.total
        check(f"share of the loss after 1e7 steps, {table['kind']}", spent, 1.0)
    releaser = registry.build(
        "releaser", {"name": "baseline-gaussian", "epsilon": 1.0, "delta": DELTA, "horizon": 5000}, ""
    )
    check(
        "noise_std against D sqrt(T)/mu",
        abs(releaser.quote().noise_std * gdp_mu(1.0, DELTA) / math.sqrt(5000) - 1),
        1e-3,
    )


def part_ar1() -> None:
    print("AR(1), told nothing, T = 2000, 20 runs: ratio to the best weight, to the knowing filter; coverage")
    worst, strong, knows = 0.0, 0.0, 0.0
    for noise in (0.3, 1.0, 3.0, 10.0):
        for rho in (0.1, 0.25, 0.5, 0.65, 0.8, 0.9, 0.95):
            values = draws({"name": "ar1", "rows": 2000, "correlation": rho}, 20)
            budget = {"mu": math.sqrt(2000) / noise, "horizon": 2000}
            ours, inside = errors({"name": "private-kalman", **budget}, values)
            best, weight = best_weight(budget, values)
            told = math.sqrt(np.mean([knowing(z, rho, noise, run) for run, z in enumerate(values)]))
            where = f"  noise {noise:4} rho {rho:4}"
            print(f"{where}: {ours / best:.3f} (w {weight})  {ours / told:.3f}  coverage {inside:.3f}")
            worst = max(worst, ours / best)
            strong = max(strong, ours / best) if rho >= 0.9 and noise in (1.0, 3.0) else strong
            knows = max(knows, ours / told) if noise <= 3 else knows
    check("worst ratio to the best weight", worst, 1.02)
    check("the same, rho >= .9, noise 1 and 3", strong, 0.90)
    check("worst ratio to the knowing filter, noise <= 3", knows, 1.06)


def part_binomial() -> None:
    print("binomial AR(1), 400 people, share .3, T = 2000, 20 runs")
    std = math.sqrt(400 * 0.3 * 0.7)
    worst, strong = 0.0, 0.0
    for noise in (0.3, 1.0, 3.0, 10.0):
        for rho in (0.1, 0.25, 0.5, 0.65, 0.8, 0.9, 0.95):
            values = draws({"name": "binomial-ar1", "rows": 2000, "people": 400, "share": 0.3, "correlation": rho}, 20)
            budget = {"mu": math.sqrt(2000) / (noise * std), "horizon": 2000}
            ours, inside = errors({"name": "private-kalman", **budget}, values)
            best, weight = best_weight(budget, values)
            where = f"  noise {noise:4} rho {rho:4}: {ours:.2f} against {best:.2f} (w {weight})"
            print(f"{where}, {ours / best:.3f}  coverage {inside:.3f}")
            worst = max(worst, ours / best)
            strong = max(strong, ours / best) if rho >= 0.9 and noise in (1.0, 3.0) else strong
    check("worst ratio to the best weight", worst, 1.02)
    check("the same, rho >= .9, noise 1 and 3", strong, 0.90)


REAL = {
    "bike hours": ({"name": "bikeshare"}, [24, 168]),
    "bike days": ({"name": "bikeshare", "every": "day"}, [7]),
    "traffic 2011-2012": ({"name": "traffic"}, [24, 168]),
    "traffic 2014-2018": ({"name": "traffic", "period": "2014-2018"}, [24, 168]),
    "drive cycle": ({"name": "drive-cycles"}, []),
}


def sequence(name: str) -> np.ndarray:
    return draws(REAL[name][0], 1)[0]


def ratio(name: str, budget: dict, seasons: object = None) -> tuple[float, float, float]:
    """Our error, its ratio to the best weight, coverage; three seeds."""
    z = sequence(name)
    own = REAL[name][1] if seasons is None else seasons
    ours, inside = errors({"name": "private-kalman", **budget, "seasons": own}, [z] * 3)
    best, weight = best_weight(budget, [z] * 3)
    where = f"  {name}, {_words(budget)}, seasons {own}: {ours:.1f} against {best:.1f} (w {weight})"
    print(f"{where}, {ours / best:.3f}  coverage {inside:.3f}")
    return ours, ours / best, inside


def _words(budget: dict) -> str:
    return f"eps {budget['epsilon']:g}" if "epsilon" in budget else f"mu {budget['mu']:.3g}"


def part_real() -> None:
    if not all(data.available(name) for name in ("bikeshare", "traffic", "drive-cycles")):
        print("real data: not there, skipped")
        return
    print("real data, 3 seeds, delta 1e-7")
    hours = sequence("bike hours")
    for epsilon, limit in ((1.0, 0.65), (3.0, 0.65), (10.0, 0.80)):
        told, found, inside = ratio("bike hours", epsilon_level(hours, epsilon))
        check(f"bike hours, eps {epsilon:g}", found, limit)
        check(f"coverage, bike hours, eps {epsilon:g}", inside, 0.85, below=False)
        check(f"coverage, bike hours, eps {epsilon:g}", inside, 0.96)
        auto, _ = errors({"name": "private-kalman", **epsilon_level(hours, epsilon), "seasons": "auto"}, [hours] * 3)
        check(f"bike hours, eps {epsilon:g}, auto against told", auto / told, 1.03)
    check(
        "traffic 2014-2018, eps .01",
        ratio("traffic 2014-2018", epsilon_level(sequence("traffic 2014-2018"), 0.01))[1],
        0.80,
    )
    check(
        "traffic 2011-2012, eps .01",
        ratio("traffic 2011-2012", epsilon_level(sequence("traffic 2011-2012"), 0.01))[1],
        0.90,
    )
    check("drive cycle, noise = 1 std", ratio("drive cycle", level(sequence("drive cycle"), 1.0))[1], 0.85)
    for name in ("bike days", "traffic 2011-2012", "traffic 2014-2018", "drive cycle"):
        found = max(ratio(name, level(sequence(name), times))[1] for times in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0))
        check(f"{name}, worst of .01 to 3 stds", found, 1.05)
    print("sequences that nothing was tuned on")
    for title, table, seasons in (
        ("traffic 2012-2013", {"name": "traffic", "period": "2012-2013"}, [24, 168]),
        ("casual riders, hours", {"name": "bikeshare", "column": "casual"}, [24, 168]),
        (
            "registered riders, days of 2012",
            {"name": "bikeshare", "every": "day", "year": 2012, "column": "registered"},
            [7],
        ),
        ("generated season", {"name": "seasonal", "rows": 4000}, [24, 168]),
    ):
        REAL[title] = (table, seasons)
        for times in (0.1, 1.0, 3.0):
            ratio(title, level(sequence(title), times))


def part_options() -> None:
    print("options pay as stated")
    slow = draws({"name": "ar1", "rows": 2000, "correlation": 0.95}, 20)
    budget = {"name": "private-kalman", "mu": math.sqrt(2000), "horizon": 2000}
    check("lag 10 against 0, rho .95, noise 1", errors({**budget, "lag": 10}, slow)[0] / errors(budget, slow)[0], 0.88)
    slower = draws({"name": "ar1", "rows": 2000, "correlation": 0.99}, 20)
    event = {"name": "private-kalman", "mu": 1.0, "unit": "event"}
    found = errors({**event, "memory": 0.7}, slower)[0] / errors(event, slower)[0]
    check("memory .7 against 0, rho .99, noise 1", found, 0.87)
    if not data.available("bikeshare"):
        return
    hours = sequence("bike hours")
    table = {"name": "private-kalman", **epsilon_level(hours, 1.0), "seasons": [24, 168]}
    halves = [errors({**table, "neighbours": "add-remove"}, [hours], seed)[0] for seed in range(6)]
    wholes = [errors(table, [hours], seed)[0] for seed in range(6)]
    print(
        "  add-remove against replace, by seed:", " ".join(f"{a / b:.3f}" for a, b in zip(halves, wholes, strict=True))
    )
    check("add-remove with 10 starts against replace, bike hours eps 1", np.mean(halves) / np.mean(wholes), 0.92)
    year = draws({"name": "bikeshare", "year": 2011}, 1)[0]
    for title, z in (
        ("bike hours 2011", year),
        ("bike days", sequence("bike days")),
        ("traffic", sequence("traffic 2011-2012")),
    ):
        count = int((~np.isnan(z)).sum())
        for epsilon in (0.5, 1.0, 2.0, 5.0):
            fast = {"name": "fast", "epsilon": epsilon, "horizon": count}
            walks = [float(np.nanvar(z) * 10**power) for power in np.arange(-6, 1.1, 0.5)]
            off = min(errors({**fast, "process_variance": q}, [z])[0] for q in walks)
            on = min(errors({**fast, "process_variance": q, "samples": max(8, count // 20)}, [z])[0] for q in walks)
            print(f"  fast, {title}, eps {epsilon:g}: sampling on {on:.1f}, off {off:.1f}, {on / off:.2f}")
            if title == "bike hours 2011" and epsilon == 1.0:
                check("fast with sampling against without, bike hours 2011, eps 1", on / off, 1.0)


def part_intervals() -> None:
    print("coverage of nominal 90 %")
    for noise in (0.3, 1.0):
        for rho in (0.1, 0.25, 0.5, 0.65, 0.8, 0.9, 0.95):
            values = draws({"name": "ar1", "rows": 2000, "correlation": rho}, 10, seed=12)
            inside = errors({"name": "private-kalman", "mu": math.sqrt(2000) / noise, "horizon": 2000}, values, 5)[1]
            check(f"noise {noise}, rho {rho}", inside, 0.85, below=False)
            check(f"noise {noise}, rho {rho}", inside, 0.96)


PARTS = {
    "theory": part_theory,
    "ar1": part_ar1,
    "binomial": part_binomial,
    "real": part_real,
    "intervals": part_intervals,
    "options": part_options,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
    print("all limits hold" if not failed else f"MISSED: {'; '.join(failed)}")
    sys.exit(1 if failed else 0)
