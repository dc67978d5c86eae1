"""FairX: theorem 6 against measured regret, lemma 3 on random vectors, and what its inferences owe to open choices."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from fairveil.lab.artefact import Artefact, Chart, Claim, Line, Picture, Results, Scale, Table, last
from fairveil.lab.papers.fairx import (
    ALONE,
    BATCHED,
    FED,
    LEMMA,
    PRINTED,
    READ,
    SETTING,
    SOUND,
    Spec,
    as_read,
    batched,
    final,
    paired,
    printed,
    sound,
    spec,
)
from fairveil.lab.rates import Point, exponent, growth_below, keeps_its_constant
from fairveil.randomness import generator
from fairveil.registry import register

SAID = {"holds": "yes", "does not hold": "no", "undecided": "undecided"}
AGENTS, DIMENSION, LAMBDA = 3, 5, 1.0


def theorem_6(rounds: float, agents: int = AGENTS, d: int = DIMENSION) -> float:
    """Theorem 6 without its constant, nu, L and gamma, for the sum over agents, with beta = d ln(1 + m t)."""
    log = math.log(1 + rounds / d)
    beta = d * math.log(1 + agents * rounds)
    return math.sqrt(beta) * math.sqrt(agents * rounds * d * log + agents**2 * d**3 * log**3)


def potential(rng: np.random.Generator, count: int, d: int = DIMENSION) -> tuple[float, float, float]:
    """Lemma 3 on ``count`` vectors of norm at most 1: the sum, 2 ln of the ratio of determinants, and the last term."""
    vectors = rng.normal(size=(count, d))
    vectors *= (rng.random(count) ** (1 / d) / np.linalg.norm(vectors, axis=1))[:, None]
    gram, total = LAMBDA * np.eye(d), 0.0
    for x in vectors:
        total += min(1.0, float(x @ np.linalg.solve(gram, x)))
        gram += np.outer(x, x)
    ratio = 2 * (np.linalg.slogdet(gram)[1] - d * math.log(LAMBDA))
    return total, float(ratio), 2 * d * math.log((d * LAMBDA + count) / (d * LAMBDA))


@register("artefact", "fairx/theorems")
class FairXTheorems(Artefact):
    """Fairness regret of Fed-FairX against theorem 6 and its number of synchronisations, over the rounds."""

    title = "Theorem 6, lemma 3 and the number of synchronisations"
    source = "theorem 6, lemma 3, section 4.1"
    notes: ClassVar[tuple[str, ...]] = (
        SETTING,
        "nu is defined in neither theorem 6 nor theorem 8; it, L and gamma do not depend on T and go into the "
        "constant, which is fitted on the smaller half of the horizons",
        "theorem 8 is theorem 6 with lemma 7's radius and noise in the gram matrix; lemma 7 as printed is no "
        "confidence set (fairx/exp1), so its premise 'when lemma 7 holds' is not met and the bound is not tested",
    )
    sizes: ClassVar[dict[Scale, tuple[int, tuple[int, ...]]]] = {
        "quick": (4, (8_000, 16_000, 64_000, 128_000)),
        "standard": (8, (10_000, 30_000, 100_000, 300_000)),
        "paper": (10, (10_000, 30_000, 100_000, 300_000, 1_000_000)),
    }

    def specs(self, scale: Scale) -> dict[str, Spec]:
        runs, horizons = self.sizes[scale]
        return {f"T = {rounds}": spec({"name": "fed-fairx"}, rounds, runs, AGENTS) for rounds in horizons}

    def measured(self, results: Results, metric: str = "fairness_regret_sum") -> list[Point]:
        return [Point(one["spec"]["rounds"], *last(one, metric)) for one in results.values()]

    def pictures(self, results: Results) -> list[Picture]:
        points = self.measured(results)
        slope, error = exponent(points)
        promised, _ = exponent([Point(p.size, theorem_6(p.size), 0.0) for p in points])
        rows = tuple(
            (f"{p.size:,.0f}", round(p.value, 1), round(p.value / theorem_6(p.size), 5), synchronised(one))
            for p, one in zip(points, results.values(), strict=True)
        )
        shown = Line(FED, tuple(p.size for p in points), tuple(p.value for p in points))
        title = f"Sum over agents: exponent {slope:.2f} (band {1.96 * error:.2f}), of the bound {promised:.2f}"
        columns = ("rounds", "fairness regret, sum", "over the bound without its constant", "synchronisations")
        return [
            Chart("Fairness regret", "rounds T", "sum over agents", (shown,), log_x=True, log_y=True),
            Table(title, columns, rows),
        ]

    def claims(self, results: Results) -> list[Claim]:
        points = self.measured(results)
        spare = [most_synchronisations(one["spec"]["rounds"]) - synchronised(one) for one in results.values()]
        rng = generator(3, "lemma 3")
        sums = np.array([potential(rng, count) for count in (10, 30, 100, 300) for _ in range(25)])
        room = float(min((sums[:, 1] - sums[:, 0]).min(), (sums[:, 2] - sums[:, 1]).min()))
        return [
            keeps_its_constant("the regret of Fed-FairX is of the order of the bound", "theorem 6", points, theorem_6),
            growth_below("regret grows more slowly than the number of rounds", "theorem 6", points),
            Claim.exact("at most ceil(2 m d^2 ln^2(1 + T/d)) synchronisations", "section 4.1", min(spare) + 0.5),
            Claim.exact("sum of widths <= 2 ln det ratio <= its last term", "lemma 3", room, "100 random sequences"),
        ]


def most_synchronisations(rounds: int, agents: int = AGENTS, d: int = DIMENSION) -> int:
    """How often agents communicate by the text of section 4.1; above the number of rounds it says nothing."""
    return math.ceil(2 * agents * d**2 * math.log(1 + rounds / d) ** 2)


def synchronised(result: Spec) -> int:
    return int(result["metrics"]["synchronisations"])


@register("artefact", "fairx/readings")
class Readings(Artefact):
    """Each inference about privacy in every cell of what the paper leaves open: reward noise, contexts, lemma 7."""

    title = "Readings: reward noise x contexts x lemma 7, and the verdict of each inference"
    source = "section 6.5, first inference, and section 6.1 (noise and scale of contexts are not given)"
    notes: ClassVar[tuple[str, ...]] = (
        LEMMA,
        "the paper gives neither the deviation of the reward noise nor how contexts in [0, 1]^d keep norms of at "
        "most 1",
        "rewards are clipped to 1 + 2 x noise; 'sound' and 'batched' are ours",
        "Zhou and Chowdhury (ICLR 2024) show that the privacy claim of the protocol which FairX builds on fails, and "
        "propose a fixed schedule of synchronisations, as `batched-priv-fairx` has one",
    )
    policies: ClassVar[dict[str, Spec]] = {
        FED: {"name": "fed-fairx"},
        PRINTED: printed(),
        READ: as_read(),
        SOUND: sound(),
        BATCHED: batched(),
    }
    sizes: ClassVar[dict[Scale, tuple[int, int]]] = {
        "quick": (2_500, 3),
        "standard": (25_000, 5),
        "paper": (100_000, 5),
    }
    noises = (0.1, 1.0)
    contexts = ("uniform", "sphere")

    def specs(self, scale: Scale) -> dict[str, Spec]:
        rounds, runs = self.sizes[scale]
        found = {}
        for noise in self.noises:
            for kind in self.contexts:
                for name, policy in {ALONE: {"name": "fairx-linucb"}, **self.policies}.items():
                    bound = {} if name in (ALONE, FED) else {"reward_bound": 1 + 2 * noise}
                    made = spec({**policy, **bound}, rounds, runs, 10, noise)
                    made["environment"] = {**made["environment"], "contexts": kind}
                    found[f"{name} | noise {noise:g}, {kind}"] = made
        return found

    def cells(self) -> list[str]:
        return [f"noise {noise:g}, {kind}" for noise in self.noises for kind in self.contexts]

    def pictures(self, results: Results) -> list[Picture]:
        rows = tuple(
            (
                cell,
                round(final(results[f"{ALONE} | {cell}"])),
                *(self._cell(results, name, cell) for name in self.policies),
            )
            for cell in self.cells()
        )
        return [Table("Fairness regret, and below learning alone?", ("cell", ALONE, *self.policies), rows)]

    def _cell(self, results: Results, name: str, cell: str) -> str:
        regret = final(results[f"{name} | {cell}"])
        return f"{regret:,.0f} ({SAID[self._claim(results, name, cell).verdict]})"

    def _claim(self, results: Results, name: str, cell: str) -> Claim:
        text = f"{name} is below learning alone ({cell})"
        return paired(text, "section 6.5, first inference", results[f"{ALONE} | {cell}"], results[f"{name} | {cell}"])

    def claims(self, results: Results) -> list[Claim]:
        return [self._claim(results, name, cell) for name in self.policies for cell in self.cells()]
