"""FairX, beyond the paper: where collaborating under privacy pays (our maps), and what shared noise buys."""

from __future__ import annotations

from typing import ClassVar

from fairveil.lab.artefact import Artefact, Claim, Heatmap, Picture, Results, Scale, Spec
from fairveil.lab.papers.fairx import (
    ALONE,
    BATCHED,
    FED,
    PERSONAL,
    POLICIES,
    SETS,
    SETTING,
    ByRound,
    final,
    paired,
    spec,
)
from fairveil.registry import register

COLLUDING = (1, 3, 5)
TOGETHER = "secure sums, personal, t = 1"


@register("artefact", "fairx/map")
class Map(Artefact):
    """Where collaborating under privacy beats learning alone: budget, reward noise, number of agents."""

    title = "Regret saved by collaborating, as a share of the regret of learning alone"
    width = 1.0
    source = "not in the paper, which assumes that collaborating helps"
    notes: ClassVar[tuple[str, ...]] = (
        SETTING,
        SETS,
        "delta = 1e-5; rewards are clipped to 1 + 2 x noise; positive: collaborating is better; frozen agents decide "
        "with released statistics alone, personal agents add their own raw rows and are protected with rows fixed",
    )
    sizes: ClassVar[dict[Scale, tuple[int, int, tuple[float, ...], tuple[float, ...], tuple[int, ...]]]] = {
        "quick": (2_500, 4, (0.5, 2.0, 8.0), (0.1, 0.5, 2.0), (3, 10)),
        "standard": (10_000, 8, (0.5, 1.0, 2.0, 4.0, 8.0), (0.1, 0.3, 1.0, 3.0), (3, 10, 30)),
        "paper": (50_000, 10, (0.5, 1.0, 2.0, 4.0, 8.0), (0.1, 0.3, 1.0, 3.0), (3, 10, 30)),
    }

    def specs(self, scale: Scale) -> dict[str, Spec]:
        rounds, runs, budgets, noises, sizes = self.sizes[scale]
        found = {}
        for m in sizes:
            for noise in noises:
                alone = {**POLICIES[ALONE], "width": self.width}
                found[f"alone, m = {m}, noise = {noise:g}"] = spec(alone, rounds, runs, m, noise)
                for epsilon in budgets:
                    facts = {"epsilon": epsilon, "delta": 1e-5, "reward_bound": 1 + 2 * noise, "width": self.width}
                    for kind, name in (("frozen", BATCHED), ("personal", PERSONAL)):
                        label = f"{kind}, m = {m}, noise = {noise:g}, eps = {epsilon:g}"
                        found[label] = spec({**POLICIES[name], **facts}, rounds, runs, m, noise)
        return found

    def pictures(self, results: Results) -> list[Picture]:
        cells = _cells(results)
        pictures: list[Picture] = []
        for kind in ("frozen", "personal"):
            for m in sorted({cell[1] for cell in cells}):
                here = [cell for cell in cells if cell[:2] == (kind, m)]
                noises, budgets = sorted({cell[2] for cell in here}), sorted({cell[3] for cell in here})
                saved = {(noise, epsilon): 1 - final(one) / final(alone) for _, _, noise, epsilon, alone, one in here}
                values = tuple(tuple(saved[noise, epsilon] for epsilon in budgets) for noise in noises)
                title = f"{kind.capitalize()} agents: {m} of them"
                said = "share of the regret saved (negative: lost; colours end at 1)"
                axes = tuple(budgets), tuple(noises)
                pictures.append(Heatmap(title, "epsilon", "reward noise", said, *axes, values, (-1.0, 1.0)))
        return pictures

    def claims(self, results: Results) -> list[Claim]:
        cells = _cells(results)
        worst, best, above, counted, widest = None, None, 0, 0, 0.0
        frozen = sum(cell[0] == "frozen" for cell in cells)
        for kind, m, noise, epsilon, alone, one in cells:
            claim = paired(f"m = {m}, noise = {noise:g}, eps = {epsilon:g}", "ours", alone, one)
            counted += kind == "personal"
            above += kind == "personal" and claim.high < 0
            if kind == "personal":
                widest = max(widest, (claim.high - claim.margin) / final(alone))
            if kind == "personal" and (worst is None or claim.high / final(alone) < worst[0]):
                worst = (claim.high / final(alone), claim.text)
            if kind == "frozen":
                low = paired(claim.text, "ours", alone, one, chosen_of=frozen).low / final(alone)
                best = (low, claim.text) if best is None else max(best, (low, claim.text))
        assert worst is not None
        assert best is not None
        chance = (
            f"{above} of {counted} cells are above their band, where equality everywhere would put {counted / 40:.1f}; "
            f"bands reach up to {widest:.1%} of the regret of learning alone, so a smaller excess is not seen here"
        )
        text = "personal never exceeds learning alone by more than the 95 % band of paired seeds, over the whole map"
        return [
            Claim.exact(text, "ours", worst[0], f"worst cell {worst[1]}; {chance}"),
            Claim.exact(
                "somewhere frozen collaboration beats learning alone",
                "ours",
                best[0],
                f"best cell {best[1]}; its band is that of all {frozen} cells at once",
            ),
        ]


@register("artefact", "fairx/map-greedy")
class GreedyMap(Map):
    """The same map when nobody is optimistic."""

    title = "Regret saved by collaborating without optimism, as a share of the regret of learning alone"
    width = 0.0


def _cells(results: Results) -> list[tuple[str, int, float, float, Spec, Spec]]:
    """(kind, agents, noise, epsilon, result alone, result) of every cell."""
    cells = []
    for label, result in results.items():
        kind, *facts = label.split(", ")
        if kind != "alone":
            m, noise, epsilon = (float(fact.rsplit("= ", 1)[1]) for fact in facts)
            alone = results[f"alone, m = {int(m)}, noise = {noise:g}"]
            cells.append((kind, int(m), noise, epsilon, alone, result))
    return cells


def secure(colluding: int) -> str:
    return f"secure sums, t = {colluding}"


@register("artefact", "fairx/secure-sums")
class SecureSums(ByRound):
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
    policies: ClassVar[dict[str, Spec]] = {
        **{name: POLICIES[name] for name in (ALONE, FED, BATCHED, PERSONAL)},
        **{secure(t): {**POLICIES[BATCHED], "sums": "secure", "colluding": t} for t in COLLUDING},
        TOGETHER: {**POLICIES[PERSONAL], "sums": "secure", "colluding": 1},
    }

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
