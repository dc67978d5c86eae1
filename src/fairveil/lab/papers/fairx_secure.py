"""What shared noise buys: Batched-Priv-FairX with own and with secure sums, in the setting of experiment 1."""

from __future__ import annotations

from typing import ClassVar

from fairveil.lab.artefact import Artefact, Chart, Claim, Picture, Results, Scale, Spec, line
from fairveil.lab.papers.fairx import ALONE, BATCHED, FED, PERSONAL, SETS, SETTING, batched, paired, spec, summary
from fairveil.registry import register

COLLUDING = (1, 3, 5)
TOGETHER = "secure sums, personal, t = 1"


def secure(colluding: int) -> str:
    return f"secure sums, t = {colluding}"


@register("artefact", "fairx/secure-sums")
class SecureSums(Artefact):
    """Fairness regret with own sums and with secure sums, by how many agents may collude."""

    title = "Secure sums: fairness regret when noise is shared (10 agents, epsilon 2, delta 0.1)"
    source = "not in the paper; docs/guarantees/secure-sums.md"
    notes: ClassVar[tuple[str, ...]] = (
        SETTING,
        SETS,
        "noise of the sum: sqrt(10) sigma with own sums, sigma sqrt(10/(10 - t)) with secure sums; the promise is "
        "the same, and computational with secure sums",
        "that secure sums can fall below Fed-FairX without privacy is its wider radius, not less noise",
    )
    sizes: ClassVar[dict[Scale, tuple[int, int]]] = {
        "quick": (8_000, 3),
        "standard": (30_000, 5),
        "paper": (100_000, 5),
    }

    def specs(self, scale: Scale) -> dict[str, Spec]:
        rounds, runs = self.sizes[scale]
        shared = {secure(t): batched(sums="secure", colluding=t) for t in COLLUDING}
        policies = {
            ALONE: {"name": "fairx-linucb"},
            FED: {"name": "fed-fairx"},
            BATCHED: batched(),
            PERSONAL: batched(personal=True),
            **shared,
            TOGETHER: batched(sums="secure", colluding=1, personal=True),
        }
        return {label: spec(policy, rounds, runs) for label, policy in policies.items()}

    def pictures(self, results: Results) -> list[Picture]:
        label = "fairness regret, average over agents"
        lines = tuple(line(name, result, "fairness_regret") for name, result in results.items())
        return [Chart(label.capitalize(), "round", label, lines, log_x=True, log_y=True), summary(results)]

    def claims(self, results: Results) -> list[Claim]:
        own, fed, first = results[BATCHED], results[FED], results[secure(1)]
        found = [paired(f"{secure(1)}: at most half of own sums", "ours", own, first, factor=0.5)]
        for t in COLLUDING:
            found.append(paired(f"{secure(t)}: below Fed-FairX without privacy", "ours", fed, results[secure(t)]))
        for less, more in ((1, 3), (3, 5)):
            text = f"fewer who collude, less regret: t = {less} below t = {more}"
            found.append(paired(text, "ours", results[secure(more)], results[secure(less)]))
        found.append(paired("personal secure sums are below secure sums", "ours", first, results[TOGETHER]))
        found.append(paired("personal secure sums are below personal", "ours", results[PERSONAL], results[TOGETHER]))
        return found
