"""Running sums at 2^16 releases: measured error against formula and against each other; speed of streams and paths.

Fails if a measured standard deviation is more than 2 % from its formula, or if a ratio that the documentation promises
does not hold. Fixed seeds: the figures repeat on one machine.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from fairveil.privacy.histograms import Histogram
from fairveil.privacy.noise import Noise, SecureNoise, SeededNoise
from fairveil.privacy.sums import BatchSum, HybridSum, RunningSum, ToeplitzSum, TreeSum, doubling_ends

LAST = 2**16
STREAMS = {TreeSum: 65_536, BatchSum: 16_384, ToeplitzSum: 8_192, HybridSum: 8_192}
SIDE_BY_SIDE = 128
CLOSE = 0.02
console = Console(width=120)
failures: list[str] = []


def check(holds: bool, words: str) -> None:
    if not holds:
        failures.append(words)


def measure(sums: RunningSum, release: int, streams: int, seed: int) -> float:
    """Root mean square error of one prefix over many independent streams of the whole length."""
    wide, squares = sums.many(SIDE_BY_SIDE), 0.0
    for block in range(streams // SIDE_BY_SIDE):
        path = wide.noise_path(SeededNoise(seed, "sums", block), release)
        squares += float(np.sum(path[-1] ** 2))
    return (squares / streams) ** 0.5


def errors() -> None:
    common = {"mu": 1.0}
    plain = TreeSum(LAST, **common)
    batches = len(doubling_ends(LAST))
    sums: list[tuple[str, RunningSum, int]] = [
        ("tree", plain, plain.worst_release()),
        ("tree, refined (Honaker)", refined := TreeSum(LAST, refine=True, **common), refined.worst_release()),
        ("square-root Toeplitz", ToeplitzSum(LAST, **common), LAST),
        ("hybrid (no horizon), Toeplitz", HybridSum(**common), LAST - 2),
        (f"{batches} doubling batches", BatchSum(**common), batches),
    ]
    table = Table(title=f"largest std of a prefix, {LAST} releases, mu = 1, values in [0, 1]")
    for heading in ("sum", "at release", "formula", "measured", "measured/formula", "std. error", "tree/this"):
        table.add_column(heading, justify="left" if heading == "sum" else "right")
    reference = plain.expected_std(plain.worst_release())
    ratios = {}
    for seed, (name, kind, release) in enumerate(sums):
        streams = STREAMS[type(kind)]
        expected, found = kind.expected_std(release), measure(kind, release, streams, seed)
        ratios[name] = reference / expected
        check(abs(found / expected - 1) <= CLOSE, f"{name}: measured error is not within 2 % of its formula")
        cells = [f"{expected:.4f}", f"{found:.4f}", f"{found / expected:.4f}", f"{(2 * streams) ** -0.5:.4f}"]
        table.add_row(name, str(release), *cells, f"{ratios[name]:.2f}")
    console.print(table)
    check(ratios["square-root Toeplitz"] >= 2.5, "Toeplitz is not 2.5 times better than the plain tree")
    check(ratios["tree, refined (Honaker)"] > 1.0, "the refined tree is not better than the plain one")


def histograms() -> None:
    table = Table(title="largest std of a cumulative count, mu = 1")
    for heading in ("bins", "raw tree nodes", "tree, least squares", "Toeplitz", "raw/Toeplitz"):
        table.add_column(heading, justify="right")
    for bins in (16, 64, 256, 1024):
        levels = (bins - 1).bit_length()
        raw = (2 * levels * levels) ** 0.5
        worst = [
            max(Histogram(bins, method=method, mu=1.0).expected_std(k) for k in range(1, bins))
            for method in ("tree", "toeplitz")
        ]
        check(worst[0] < raw and worst[1] < raw, f"{bins} bins: consistency does not help")
        table.add_row(str(bins), f"{raw:.2f}", f"{worst[0]:.2f}", f"{worst[1]:.2f}", f"{raw / worst[1]:.2f}")
    console.print(table)


def stream_rate(sums: RunningSum, noise: Noise, releases: int) -> float:
    """Rows added and released, per second, after what is loaded once."""
    rows = np.random.default_rng(0).standard_normal((releases, sums.dimension))
    sums.release(sums.add(sums.start(), rows[0]), noise)
    state, start = sums.start(), time.perf_counter()
    for row in rows:
        state, _ = sums.release(sums.add(state, row), noise)
    return releases / (time.perf_counter() - start)


def timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def speed() -> None:
    shape = {"shape": "symmetric", "dimension": 25, "mu": 1.0}
    leaves = 24_999
    table = Table(title="25 x 25 symmetric sums, one row a release")
    for heading in ("sum", "streamed, seeded (1/s)", "streamed, secure (1/s)", f"path of {leaves} (s)"):
        table.add_column(heading, justify="left" if heading == "sum" else "right")
    sums: list[tuple[str, RunningSum]] = [
        ("batch", BatchSum(**shape)),
        ("tree", TreeSum(leaves, **shape)),
        ("tree, refined", TreeSum(leaves, refine=True, **shape)),
        ("Toeplitz", ToeplitzSum(leaves, **shape)),
        ("Toeplitz, band 512", ToeplitzSum(leaves, band=512, **shape)),
    ]
    for name, kind in sums:
        kind.noise_path(SeededNoise(0, "warm"), 200)
        path = min(timed(lambda kind=kind: kind.noise_path(SeededNoise(0, "path"), leaves)) for _ in range(3))
        seeded, secure = stream_rate(kind, SeededNoise(1), 1000), stream_rate(kind, SecureNoise(), 100)
        table.add_row(name, f"{seeded:,.0f}", f"{secure:,.0f}", f"{path:.2f}")
    console.print(table)


if __name__ == "__main__":
    errors()
    histograms()
    speed()
    for failure in failures:
        console.print(f"[red]{failure}")
    sys.exit(1 if failures else 0)
