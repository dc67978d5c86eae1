"""How fast are private streams? Ratios in one run, CPU seconds, and memory of long streams."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fairveil.ledger import Ledger
from fairveil.privacy.noise import SecureNoise, SeededNoise
from fairveil.streams import (
    BaselineGaussian,
    BudgetAbsorption,
    BudgetDistribution,
    Dft,
    Fast,
    Predictive,
    PrivateKalman,
    Stream,
)
from fairveil.streams.columns import exact_limit

STEPS = 10_000
"""Values of a batch: arrays that stay in the processor's cache."""


def cpu(work: Callable[[], object], repeats: int = 3) -> float:
    """CPU seconds of the fastest of some runs."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def plain_loop(z: np.ndarray, weight: float, sigma: float, rng: np.random.Generator) -> np.ndarray:
    """Algorithm 4 with running sums in NumPy scalars, one step at a time."""
    x = np.empty(len(z))
    total = squares = products = np.float64(0.0)
    for t in range(len(z)):
        noise = rng.normal(0.0, sigma)
        if t < 2:
            x[t] = z[t] + noise
        else:
            mean = total / t
            spread = squares - t * mean * mean
            variance = max(spread / (t - 1) - sigma**2, 0.0)
            numerator = products - mean * (2 * total - x[t - 1] - x[0]) + (t - 1) * mean * mean
            rho = min(max(numerator / (spread - (x[t - 1] - mean) ** 2) + 1 / t, -1.0), 1.0)
            r = rho * variance / (variance + sigma**2)
            x[t] = (1 - weight) * (mean * (1 - r) + r * x[t - 1]) + weight * z[t] + noise
        if t:
            products += x[t - 1] * x[t]
        total += x[t]
        squares += x[t] * x[t]
    return x


def show(words: str, value: float, limit: float, *, below: bool = True) -> None:
    holds = value <= limit if below else value >= limit
    print(f"{'ok  ' if holds else 'MISS'} {words}: {value:.3g} ({'at most' if below else 'at least'} {limit:g})")


def speeds(z: np.ndarray) -> None:
    budget = {"epsilon": 1.0, "delta": 1e-7, "horizon": len(z)}
    releasers = {
        "baseline-gaussian": BaselineGaussian(**budget),
        "predictive": Predictive(**budget, weight=0.1),
        "fast": Fast(epsilon=1.0, horizon=len(z)),
        "private-kalman": PrivateKalman(**budget),
        "private-kalman, two seasons": PrivateKalman(**budget, seasons=(24, 168)),
        "private-kalman, auto": PrivateKalman(**budget, seasons="auto"),
        "private-kalman, lag 10": PrivateKalman(**budget, lag=10),
        "private-kalman, memory": PrivateKalman(epsilon=1.0, delta=1e-7, unit="event", memory=0.7),
        "dft, windows of 100": Dft(epsilon=1.0, horizon=len(z), delay=100),
        "ba": BudgetAbsorption(epsilon=1.0, unit="window", window=24),
        "bd": BudgetDistribution(epsilon=1.0, unit="window", window=24),
    }
    took = {}
    for name, releaser in releasers.items():
        few = z[: len(z) // 10] if name in ("ba", "bd", "dft, windows of 100") else z
        releaser.run(releaser.start(), few[:10].tolist(), SeededNoise(0))
        source = np.full(len(few), 0.0)
        source[:] = few

        def batch(releaser=releaser, source=source) -> object:
            return releaser.advance(releaser.start(), source, SeededNoise(0))

        took[name] = cpu(batch, 20) / len(few)
        print(f"     {name}: {1e6 * took[name]:.3g} us a step, {1 / took[name]:,.0f} steps a CPU second")
    loop = cpu(lambda: plain_loop(z, 0.1, 100.0, np.random.default_rng(0))) / len(z)
    for length in (10_000, 100_000, 1_000_000):
        many = np.resize(z, length)
        releaser = Predictive(epsilon=1.0, delta=1e-7, horizon=length, weight=0.1)

        def long(releaser=releaser, many=many) -> object:
            return releaser.advance(releaser.start(), many, SeededNoise(0))

        words = f"plain loop of Algorithm 4 against predictive in a batch of {length:,}"
        ratio = loop * length / cpu(long, 2_000_000 // length)
        if length > 100_000:  # 56 bytes a step of what is shown, far beyond any cache
            print(f"     {words}: {ratio:.3g}")
        else:
            show(words, ratio, 50, below=False)
    show("private-kalman against predictive", took["private-kalman"] / took["predictive"], 90)
    show("two seasons against none", took["private-kalman, two seasons"] / took["private-kalman"], 5)
    own = z.tolist()

    def streamed() -> None:
        stream = Stream(releasers["private-kalman"], noise=SeededNoise(0))
        for value in own:
            stream.release(value)

    show("Stream.release against its batch step", cpu(streamed, 10) / len(own) / took["private-kalman"], 4)


def secure(z: np.ndarray) -> None:
    releaser = PrivateKalman(epsilon=1.0, delta=1e-7, horizon=len(z))
    sigma = releaser.plan.reference
    SecureNoise().gaussian(sigma, 1024)
    block = cpu(lambda: [SecureNoise().gaussian(sigma, 1024) for _ in range(16)]) / (16 * 1024)
    stream = Stream(releaser)
    stream.release(1.0)
    stream.release(1.0)
    values = z[: len(z) - 2].tolist()
    took = cpu(lambda: [stream.release(value) for value in values], 1) / len(values)
    print(f"     raw block sampler {1 / block:,.0f} draws a CPU second; secure stream {1 / took:,.0f} steps")
    show("rate of a secure stream against the raw block sampler", block / took, 0.6, below=False)


def memory() -> None:
    """Peak memory of a long stream against a short one, each in a process of its own."""
    code = (
        "import resource, sys, numpy as np; from fairveil.streams import PrivateKalman\n"
        "from fairveil.privacy.noise import SeededNoise; n = int(sys.argv[1])\n"
        "r = PrivateKalman(epsilon=1.0, delta=1e-7, unit='window', window=100); s = r.start(); g = SeededNoise(0)\n"
        "z = np.zeros(10_000)\n"
        "for _ in range(n // 10_000): r.advance(s, z, g)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    peak = [
        int(subprocess.run([sys.executable, "-c", code, str(n)], capture_output=True, text=True).stdout)
        for n in (10**4, 10**7)
    ]
    show("MB that 1e7 steps need beyond 1e4", (peak[1] - peak[0]) / 1024, 1.0)


def command() -> None:
    """`fairveil release` with a ledger against one ledger release a line."""
    lines = 20_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in.csv").write_text("n\n" + "\n".join(str(100 + t % 24) for t in range(lines)) + "\n")
        words = ["release", "--in", folder / "in.csv", "--column", "n", "--epsilon", 1, "--delta", 1e-7]
        words += ["--horizon", lines, "--ledger", folder / "l.db", "--out", folder / "out.csv"]
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "fairveil.cli", *map(str, words)], check=True, capture_output=True)
        whole = time.perf_counter() - start
        releaser = PrivateKalman(epsilon=1.0, delta=1e-7, horizon=1000)
        with Ledger.create(folder / "single.db", limit=exact_limit(releaser)) as ledger:
            stream = Stream(releaser, ledger)
            stream.release(1.0)
            start = time.perf_counter()
            for _ in range(200):
                stream.release(1.0)
            single = (time.perf_counter() - start) / 200
        print(
            f"     fairveil release: {lines / whole:,.0f} lines a second; one ledger release a line: {1 / single:,.0f}"
        )
        show("lines a second against one ledger release a line", single * lines / whole, 5, below=False)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    data = 100 + np.cumsum(np.random.default_rng(0).normal(size=STEPS))
    speeds(data)
    secure(data)
    memory()
    command()
