"""Noise draws per second: secure against seeded, one at a time and in batches, and releases of every mechanism.

The ratio is the price of exact sampling on OS entropy; it is printed, not judged, because it depends on the machine.
Fails if a source returns the wrong number of draws, or if many seeded Gaussian draws, a compiled loop, take more than
half of the time that NumPy needs for the same numbers.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from fairveil import registry
from fairveil.privacy.noise import Noise, SecureNoise, SeededNoise
from fairveil.randomness import generator

BATCH = 20_000
SECONDS = 0.4
FASTER = 2.0
console = Console(width=120)

DRAWS: dict[str, Callable[[Noise, int], Any]] = {
    "laplace, scale 2^20": lambda noise, size: noise.laplace(2.0**20, size),
    "laplace, scale 10": lambda noise, size: noise.laplace(10.0, size),
    "gaussian, sigma 2^26": lambda noise, size: noise.gaussian(2.0**26, size),
    "gaussian, sigma 10": lambda noise, size: noise.gaussian(10.0, size),
    "uniform integer below 2^62": lambda noise, size: noise.uniform_integers(2**62, size),
    "exponential coin exp(-1/2)": lambda noise, size: noise.exponential_coins(np.ones(size, np.int64), 2),
    "binomial, 200 coins": lambda noise, size: noise.binomial(200, size),
}

VALUES: dict[str, Any] = {
    "norm-gamma": [0.0, 0.0],
    "exponential": np.zeros(10),
    "permute-and-flip": np.zeros(10),
    "report-noisy-max": np.zeros(10),
    "above-threshold": np.zeros(10),
    "laplace": 0.0,
    "gaussian": 0.0,
    "one-bit": 0.5,
}


def rate(work: Callable[[], Any], units: int) -> float:
    """Units per second over at least SECONDS of work, after one warm-up call."""
    work()
    started, done = time.perf_counter(), 0
    while (spent := time.perf_counter() - started) < SECONDS:
        work()
        done += units
    return done / spent


def draws() -> None:
    table = Table("draw", "secure /s", "seeded /s", "seeded : secure", "secure, one a call /s", title="Noise draws")
    source = SeededNoise(1)
    for name, draw in DRAWS.items():
        for noise in (SecureNoise(), SeededNoise(1)):
            if len(draw(noise, 7)) != 7:
                sys.exit(f"{name}: {type(noise).__name__} returned the wrong number of draws")
        secure = rate(lambda draw=draw: draw(SecureNoise(), BATCH), BATCH)
        seeded = rate(lambda draw=draw, noise=source: draw(noise, BATCH), BATCH)
        single = rate(lambda draw=draw: draw(SecureNoise(), 1), 1)
        table.add_row(name, f"{secure:,.0f}", f"{seeded:,.0f}", f"{seeded / secure:,.0f}", f"{single:,.0f}")
    console.print(table)


def releases() -> None:
    table = Table("mechanism", "secure /s", "seeded /s", "seeded : secure", title="Releases, one call each")
    secure, seeded = SecureNoise(), SeededNoise(1)
    for entry in registry.entries("mechanism"):
        mechanism = registry.example(entry.target)
        value = VALUES.get(entry.name, 0)
        slow = rate(lambda m=mechanism, v=value: m.release(v, secure), 1)
        fast = rate(lambda m=mechanism, v=value: m.release(v, seeded), 1)
        table.add_row(entry.name, f"{slow:,.0f}", f"{fast:,.0f}", f"{fast / slow:.1f}")
    console.print(table)


def many() -> None:
    """The compiled loop against NumPy's own calls, best CPU time of each in turn."""
    seeded, stream, sigma = SeededNoise(1), generator(1), 2.0**26
    works = (lambda: seeded.gaussian(sigma, BATCH), lambda: np.rint(stream.normal(0.0, sigma, BATCH)).astype(np.int64))
    best = [float("inf")] * 2
    for turn in range(200):
        started = time.process_time()
        works[turn % 2]()
        best[turn % 2] = min(best[turn % 2], time.process_time() - started) if turn > 1 else best[turn % 2]
    console.print(f"many seeded Gaussian draws: {best[1] / best[0]:.1f} times as fast as NumPy's (at least {FASTER:g})")
    if best[1] < FASTER * best[0]:
        sys.exit("the compiled loop of many Gaussian draws is slow")


if __name__ == "__main__":
    many()
    draws()
    releases()
