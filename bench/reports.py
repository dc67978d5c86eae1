"""Coverage and width of every interval of a private report, against the limits that are promised for them.

Prints one line a cell and exits 1 where a limit is missed. About a minute; 3,000 repetitions a cell.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import report_worlds as worlds

from fairveil.privacy.vectors import Price

MISSED: list[str] = []
EQUAL, SHARES = (0.5, 0.5), (0.6, 0.3, 0.08, 0.02)
TEN = (0.1,) * 10


def line(words: str, found: float, low: float = -1.0, high: float = 9.0) -> None:
    fine = low <= found <= high
    if not fine:
        MISSED.append(words)
    limits = " ".join(f"{word} {end:g}" for word, end in ((">=", low), ("<=", high)) if -1 < end < 9)
    print(f"{'  ' if fine else '! '}{words:<62} {found:.4f}  {limits}", flush=True)


def rates() -> None:
    cells = itertools.product(
        (Price(rho=0.02), Price(epsilon=0.2)), (100, 1000, 20_000), (0.02, 0.2, 0.5), (False, True)
    )
    for seed, (price, shown, rate, hidden) in enumerate(cells):
        found = worlds.binomial(price, shown, rate, noisy_shown=hidden, seed=seed)
        words = f"rate S {shown} p {rate} {'noisy' if hidden else 'public'} S, {price.words}"
        if found.estimable > 0.05:
            line(f"{words}: estimable ({found.estimable:.3f})", found.single, 0.93, 0.98)
        line(f"{words}: all", found.all, 0.94 if found.estimable < 1 else 0.93)
    line("width of a rate, S 1000 p .2 rho .02",
         worlds.binomial(Price(rho=0.02), 1000, 0.2, noisy_shown=False, seed=77).width, high=0.060)  # fmt: skip
    for price in (Price(rho=0.02), Price(epsilon=0.2)):
        empty = worlds.binomial(price, 0, 0.0, noisy_shown=True, seed=5, runs=30_000)
        line(f"an empty group passes, {price.words}", empty.estimable, high=1 / 500)


def means() -> None:
    for price, limit in ((Price(rho=0.04), 0.31), (Price(epsilon=0.4), 0.53)):
        found = worlds.averages(price, 100, 0.5, seed=3)
        line(f"width of a mean, A 100 p .5 {price.words}", found.width, high=limit)
        line(f"coverage of a mean, A 100 p .5 {price.words}", found.single, 0.93)


def winners() -> None:
    rho, pure = Price(rho=0.02), Price(epsilon=0.2)
    cells = [
        (rho, 2000, EQUAL, (1, 1), 0.033), (rho, 2000, EQUAL, (1, 1.62), 0.050),
        (rho, 5000, SHARES, (1, 1, 1, 1), 0.098), (pure, 5000, SHARES, (1, 1, 1, 1), 0.130),
        (rho, 5000, SHARES, (1, 1, 0.6, 0.3), 9), (rho, 20_000, TEN, (1,) * 10, 9),
        (pure, 5000, (0.5, 0.3, 0.2), (1, 1.2, 0.8), 9),
    ]  # fmt: skip
    for seed, (price, rounds, shares, strengths, limit) in enumerate(cells):
        found = worlds.one_winner(price, rounds, shares, strengths, seed=seed)
        words = f"{len(shares)} groups, n {rounds}, true gap {found.true_gap:.3f}, {price.words}"
        line(f"single, lowest: {words}", float(found.single.min()), 0.93)
        line(f"single, highest: {words}", float(found.single.max()), high=0.985)
        line(f"simultaneous: {words}", found.simultaneous, 0.94)
        line(f"gap: {words}", found.gap, 0.95)
        line(f"gap width: {words}", found.gap_width, high=limit)
        line(f"ratio, lower limit: {words}", found.ratio_low, 0.965)
        print(f"     gap if groups were independent: {found.gap_if_independent:.4f}")


def evaluations() -> None:
    rho, pure = {"rho": 0.01}, {"epsilon": 0.2}
    cells = [
        (rho, 50_000, "uniform", False, 0.027), (pure, 50_000, "uniform", False, 0.027),
        (rho, 50_000, "general", False, 0.042), (pure, 50_000, "general", False, 0.045),
        (rho, 5000, "uniform", False, 0.104), (rho, 50_000, "uniform", True, 0.0135),
    ]  # fmt: skip
    for seed, (price, rows, target, graded, limit) in enumerate(cells):
        cover, width = worlds.evaluation(price, rows, target=target, graded=graded, seed=seed)
        words = f"{target} n {rows} {price}{' graded' if graded else ''}"
        line(f"value, coverage: {words}", cover, 0.93, 0.99)
        line(f"value, width: {words}", width, high=limit)
    for level, least in ((0.90, 0.88), (0.99, 0.98)):
        for price in (rho, pure):
            cover, _ = worlds.evaluation(price, 5000, level=level, seed=9)
            line(f"value, level {level}: uniform n 5000 {price}", cover, least)


if __name__ == "__main__":
    rates()
    means()
    winners()
    evaluations()
    print("all limits are kept" if not MISSED else f"{len(MISSED)} limits are missed: " + "; ".join(MISSED))
    sys.exit(bool(MISSED))
