"""FairX: every inference of section 6.5 in each cell of what the paper leaves open."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from fairveil.lab.artefact import Artefact, Claim, Picture, Results, Scale, Spec, Table
from fairveil.lab.papers.fairx import (
    ALONE,
    BATCHED,
    FED,
    LEMMA,
    POLICIES,
    PRINTED,
    READ,
    SOUND,
    final,
    paired,
    spec,
)
from fairveil.registry import register

SAID = {"holds": "yes", "does not hold": "no", "undecided": "undecided"}
READINGS = (PRINTED, READ)
"""The private algorithm with lemma 7 as printed, and as its source has it."""
FIRST = (FED, *READINGS, SOUND, BATCHED)
"""Policies of the first inference, with ours."""
ORDINALS = ("first", "second", "third", "fourth")


@register("artefact", "fairx/readings")
class Readings(Artefact):
    """Each inference in every cell of what the paper leaves open: reward noise, contexts, lemma 7."""

    title = "Readings: reward noise x contexts x lemma 7, and the verdict of each inference"
    source = "section 6.5, and section 6.1 (noise and scale of contexts are not given)"
    notes: ClassVar[tuple[str, ...]] = (
        LEMMA,
        "the paper gives neither the deviation of the reward noise nor how contexts in [0, 1]^d keep norms of at "
        "most 1",
        "rewards are clipped to 1 + 2 x noise; 'sound' and 'batched' are ours",
        "'comparable to B2' is read as at most 10 % above it, 'scales as expected' as less regret for each of ten "
        "agents than for one alone with the same policy, 'reasonable performance for eps >= 1' as below learning alone",
        "Zhou and Chowdhury (ICLR 2024) show that the privacy claim of the protocol which FairX builds on fails, and "
        "propose a fixed schedule of synchronisations, as `batched-priv-fairx` has one",
    )
    sizes: ClassVar[dict[Scale, tuple[int, int]]] = {
        "quick": (1_500, 8),
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
                for name, (policy, agents) in players(1 + 2 * noise).items():
                    made = spec(policy, rounds, runs, agents, noise)
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
                *(self._cell(results, name, cell) for name in FIRST),
            )
            for cell in self.cells()
        )
        title = "Fairness regret, and below learning alone? (first inference)"
        others = [self._verdicts(results, which) for which in (1, 2, 3)]
        return [Table(title, ("cell", ALONE, *FIRST), rows), *others]

    def _cell(self, results: Results, name: str, cell: str) -> str:
        seen = paired("", "", results[f"{ALONE} | {cell}"], results[f"{name} | {cell}"]).verdict
        return f"{final(results[f'{name} | {cell}']):,.0f} ({SAID[seen]})"

    def _verdicts(self, results: Results, which: int) -> Table:
        found = inferences(results, self.cells()[0])[which]
        rows = tuple(
            (cell, *(SAID[claim.verdict] for claim in inferences(results, cell)[which])) for cell in self.cells()
        )
        return Table(f"The {ORDINALS[which]} inference", ("cell", *(claim.text for claim in found)), rows)

    def claims(self, results: Results) -> list[Claim]:
        """The first inference cell by cell; of the others what holds in every cell: the tables have the cells."""
        found = {cell: inferences(results, cell) for cell in self.cells()}
        each = [replace(one, text=f"{one.text} ({cell})") for cell in self.cells() for one in found[cell][0]]
        for which in (1, 2, 3):
            for parts in zip(*(found[cell][which] for cell in self.cells()), strict=True):
                each.append(Claim.every(f"{parts[0].text}, in every cell", parts[0].where, parts))
        return each


def players(bound: float) -> dict[str, tuple[Spec, int]]:
    """Policy and number of agents by label: those of experiments 1 to 4, as few as the inferences need."""
    fed = POLICIES[FED]
    found = {ALONE: (POLICIES[ALONE], 10), FED: (fed, 10), f"{FED}, one agent": (fed, 1)}
    for name in READINGS:
        policy = {**POLICIES[name], "reward_bound": bound}
        found[name] = (policy, 10)
        found[f"{name}, B1"] = ({**policy, "schedule": {"name": "determinant", "raw": True}}, 10)
        found[f"{name}, B2"] = ({**policy, "schedule": "doubling"}, 10)
        found[f"{name}, one agent"] = (policy, 1)
        for epsilon in (0.2, 1.0, 10.0):
            found[f"{name}, eps {epsilon:g}"] = ({**policy, "epsilon": epsilon}, 10)
    return found | {name: ({**POLICIES[name], "reward_bound": bound}, 10) for name in (SOUND, BATCHED)}


def inferences(results: Results, cell: str) -> list[list[Claim]]:
    """What the four inferences say in one cell."""

    def one(which: int, text: str, larger: str, smaller: str, factor: float = 1.0) -> Claim:
        where = f"section 6.5, {ORDINALS[which]} inference"
        return paired(text, where, results[f"{larger} | {cell}"], results[f"{smaller} | {cell}"], factor)

    first = [one(0, f"{name} is below learning alone", ALONE, name) for name in FIRST]
    third = [
        one(2, f"{name}: ten agents have less regret each than one", f"{name}, one agent", name)
        for name in (FED, *READINGS)
    ]
    second, fourth = [], []
    for name in READINGS:
        second += [
            one(1, f"{name}: the paper's protocol is below B1", f"{name}, B1", name),
            one(1, f"{name}: the paper's protocol is comparable to B2", f"{name}, B2", name, 1.1),
        ]
        fourth += [
            one(3, f"{name}: less regret at eps 10 than at eps 0.2", f"{name}, eps 0.2", f"{name}, eps 10"),
            one(3, f"{name}: below learning alone at eps 1", ALONE, f"{name}, eps 1"),
        ]
    return [first, second, third, fourth]
