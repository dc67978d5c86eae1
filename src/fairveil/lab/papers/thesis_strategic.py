"""Who manipulates: worked examples and figures 6.3 to 6.7 of the thesis chapter on manipulation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fairveil.dynamics import Scene, distribution
from fairveil.dynamics.assumptions import rising_gain_limit
from fairveil.lab.artefact import Chart, Claim, Heatmap, Line, Picture, Results, Scale, Spec, Table, line
from fairveil.lab.papers.thesis_strategic_surfaces import blurred_and_clear, group, spec
from fairveil.lab.papers.thesis_words import POLICIES, ThesisArtefact
from fairveil.lab.theorems.strategic_fair import disincentive_condition
from fairveil.randomness import generator
from fairveil.registry import register


@register("artefact", "thesis/examples")
class Examples(ThesisArtefact):
    """The worked examples of sections 6.5 and 6.6."""

    title = "Sections 6.5, 6.6: utilities with several extreme points"
    source = "sections 6.5 and 6.6"
    notes = (
        "N(5, 4) and N(5, 9) are read with the second number as a variance",
        "the last two examples violate assumption 12",
    )

    def specs(self, scale: Scale) -> dict[str, Spec]:
        first = {"a": group(0.6, ["beta", 10, 4], {"0": ["normal", -5, 4.7], "1": ["normal", 5, 4.7]})}
        tight = {"0": ["normal", -5, 2], "1": ["normal", 5, 2]}
        left = {"a": group(0.4, ["beta", 10, 2], tight, 0.3), "b": group(0.6, ["beta", 10, 1], tight, 0.7)}
        right = {
            "a": group(0.65, ["beta", 10, 3], {"0": ["normal", -10, 3], "1": ["normal", 5, 3]}),
            "b": group(0.6, ["beta", 10, 2], {"0": ["normal", -5, 3], "1": ["normal", 5, 3]}),
        }
        return {
            "6.5": spec(first),
            "6.6 left, UN": spec(left),
            "6.6 left, EqOpt": spec(left, "eqopt"),
            "6.6 right, UN": spec(right),
            "6.6 right, EqOpt": spec(right, "eqopt"),
        }

    def pictures(self, results: Results) -> list[Picture]:
        one = results["6.5"]
        out: list[Picture] = [
            Chart(
                "Section 6.5: the decision maker's utility by threshold",
                "threshold",
                "utility",
                (
                    line("with manipulation", one, "utility_a"),
                    replace(line("ignoring it", one, "naive_utility_a"), dashed=True),
                ),
            )
        ]
        for side in ("left", "right"):
            found = results[f"6.6 {side}, UN"]
            lines = tuple(line(f"group {name}", found, f"utility_{name}") for name in "ab")
            out.append(Chart(f"Section 6.6, {side} example: utilities", "threshold", "utility", lines))
        rows = []
        for label, found in results.items():
            for name in found["spec"]["groups"]:
                metrics = found["metrics"]
                rows.append(
                    (label, name, round(metrics["thresholds"][name], 4), round(metrics["manipulation"][name], 4))
                )
        return [
            *out,
            Table(
                "Thresholds and manipulation",
                ("example", "group", "threshold", "probability of manipulation"),
                tuple(rows),
            ),
        ]

    def claims(self, results: Results) -> list[Claim]:
        first = results["6.5"]["metrics"]
        turns = first["extreme_points"]["a"]

        def change(side: str, key: str) -> list[float]:
            free, fair = (results[f"6.6 {side}, {policy}"]["metrics"][key] for policy in ("UN", "EqOpt"))
            return [fair[name] - free[name] for name in "ab"]

        left, right = change("left", "thresholds"), change("right", "thresholds")
        cheat_left, cheat_right = change("left", "manipulation"), change("right", "manipulation")
        return [
            Claim.exact(
                "the utility of section 6.5 has three extreme points", "section 6.5", 0.5 - abs(len(turns) - 3)
            ),
            Claim.exact(
                "the best of the three extreme points is the lowest threshold",
                "section 6.5",
                turns[1][0] - first["thresholds"]["a"],
            ),
            Claim.exact("left example: both groups are over-selected under EqOpt", "section 6.6 (a)", -max(left)),
            Claim.exact(
                "left example: group a manipulates more, group b less",
                "section 6.6 (a)",
                min(cheat_left[0], -cheat_left[1]),
            ),
            Claim.exact("right example: both groups are under-selected under EqOpt", "section 6.6 (b)", min(right)),
            Claim.exact("right example: both groups manipulate more", "section 6.6 (b)", min(cheat_right)),
        ]


@register("artefact", "thesis/6.3")
class Figure63(ThesisArtefact):
    """Where the condition of theorem 27 holds, by both groups' rates."""

    title = "Figure 6.3: qualification rates that meet the condition of theorem 27"
    source = "section 6.6, proposition 7"
    notes = ("u_plus = u_minus for EqOpt and u_plus:u_minus = 1:2 for DP, where proposition 7 applies",)

    def specs(self, scale: Scale) -> dict[str, Spec]:
        count = {"quick": 14, "standard": 40, "paper": 100}[scale]
        features, cost = blurred_and_clear(), ["beta", 10, 1]
        made = {}
        for name, loss in (("eqopt", 1.0), ("dp", 2.0)):
            delta = loss / (1.0 + loss)
            values = np.linspace(delta, 0.95, count + 1)[1:].tolist()
            people = {key: group(0.9, cost, features[key]) for key in "ab"}
            grid = {"groups.a.qualified": values, "groups.b.qualified": values}
            made[name] = spec(people, utility={"gain": 1.0, "loss": loss}, grid=grid, points=1024)
        return made

    def region(self, criterion: str, found: Spec) -> np.ndarray:
        """1 where the condition holds with a in the role of the group near break-even."""
        first, second = found["spec"]["grid"].values()
        out = np.zeros((len(first), len(second)))
        base = Scene(found["spec"]["groups"], **found["spec"]["utility"])
        for i, alpha in enumerate(first):
            for j, beta in enumerate(second):
                scene = base.changed(0, qualified=alpha).changed(1, qualified=beta)
                scene.recall(np.array([[found["metrics"]["thresholds"][name][i][j] for name in "ab"]]))
                out[i, j] = disincentive_condition(scene, criterion, 0)
        return out

    def pictures(self, results: Results) -> list[Picture]:
        out: list[Picture] = []
        for name, found in results.items():
            first, second = found["spec"]["grid"].values()
            values = tuple(tuple(row) for row in self.region(name, found))
            out.append(Heatmap(name, "alpha_b", "alpha_a", "condition holds", tuple(second), tuple(first), values))
        return out

    def claims(self, results: Results) -> list[Claim]:
        out = []
        for name, found in results.items():
            region = self.region(name, found)
            edge = region[:, 0] if name == "eqopt" else region[:1, 0]
            out.append(
                Claim.exact(f"{name}: the condition holds near break-even", "proposition 7", float(edge.min()) - 0.5)
            )
            out.append(Claim.exact(f"{name}: it does not hold everywhere", "figure 6.3", 1.0 - float(region.mean())))
        return out


@register("artefact", "thesis/6.4")
class Figure64(ThesisArtefact):
    """Beta costs and the marginal manipulation gain they lead to (an illustration)."""

    title = "Figure 6.4: densities of beta costs and scaled marginal gain"
    source = "section 6.7"

    def pictures(self, results: Results) -> list[Picture]:
        z = np.linspace(0.005, 0.995, 199)
        densities, gains = [], []
        for a, b in ((10, 1), (10, 3), (10, 5), (10, 10), (5, 5)):
            cost = distribution(["beta", a, b])
            name = f"Beta({a}, {b})"
            densities.append(Line(name, tuple(z), tuple(cost.pdf(z))))
            gains.append(Line(name, tuple(z), tuple(cost.cdf(z) + z * cost.pdf(z))))
        return [
            Chart("Density of the cost", "cost z", "density P_C(z)", tuple(densities)),
            Chart("Scaled marginal gain", "cost z", "F_C(z) + z P_C(z)", tuple(gains)),
        ]

    def claims(self, results: Results) -> list[Claim]:
        limit = rising_gain_limit(distribution(["beta", 8, 3]))
        return [
            Claim.exact("the gain of Beta(8, 3) rises up to .82", "section 6.5, example 2", 0.005 - abs(limit - 0.82)),
            Claim.exact(
                "the gain of Beta(10, 1) rises throughout",
                "section 6.5",
                rising_gain_limit(distribution(["beta", 10, 1])) - 0.999,
            ),
        ]


class _Rounds(ThesisArtefact):
    """Unfairness with and without anticipation for random rates."""

    first_cost: tuple[tuple[str, list[Any]], ...] = ()
    second_cost: list[Any]
    above: bool

    def specs(self, scale: Scale) -> dict[str, Spec]:
        count = {"quick": 40, "standard": 200, "paper": 1000}[scale]
        rng = generator(65, "rates")
        rounds = []
        for _ in range(count):
            if self.above:
                pair = (float(rng.uniform(0.51, 0.95)), float(rng.uniform(0.05, 0.49)))
            else:
                low, high = sorted(rng.uniform(0.05, 0.49, 2).tolist())
                pair = (high, low)
            rounds.append({"groups.a.qualified": pair[0], "groups.b.qualified": pair[1]})
        made = {}
        for label, cost in self.first_cost:
            people = {"a": group(0.6, cost), "b": group(0.4, self.second_cost)}
            for strategic in (True, False):
                name = f"{label}, {'strategic' if strategic else 'non-strategic'}"
                made[name] = spec(people, "none", strategic, grid={"round": rounds}, points=2048)
        return made

    def pictures(self, results: Results) -> list[Picture]:
        out: list[Picture] = []
        for label, _ in self.first_cost:
            for criterion in ("eqopt", "dp"):
                lines = tuple(
                    Line(f"{kind} policy", tuple(range(1, len(gap) + 1)), tuple(gap))
                    for kind in ("strategic", "non-strategic")
                    for gap in [results[f"{label}, {kind}"]["metrics"]["unfairness"][criterion]]
                )
                said = "unfairness to group b"
                out.append(
                    Chart(f"{label}, {criterion}", "draw of both groups' rates", said, lines, "points", level=0.0)
                )
        return out


@register("artefact", "thesis/6.5")
class Figure65(_Rounds):
    """Majority-qualified against majority-unqualified group: anticipation widens the gap."""

    title = "Figure 6.5: unfairness when only group a is above the break-even rate"
    source = "section 6.7, theorem 23"
    first_cost = (("C_a = Beta(10, 1)", ["beta", 10, 1]),)
    second_cost = ["beta", 10, 3]  # noqa: RUF012
    above = True

    def claims(self, results: Results) -> list[Claim]:
        out = []
        label = self.first_cost[0][0]
        for criterion in ("eqopt", "dp"):
            smart, naive = (
                np.array(results[f"{label}, {kind}"]["metrics"]["unfairness"][criterion])
                for kind in ("strategic", "non-strategic")
            )
            out.append(
                Claim.exact(
                    f"{criterion}: anticipation worsens unfairness in every draw",
                    "theorem 23",
                    float((smart - naive).min()),
                )
            )
            out.append(
                Claim.exact(f"{criterion}: group b is disadvantaged in every draw", "theorem 23", float(naive.min()))
            )
        return out


@register("artefact", "thesis/6.7")
class Figure67(_Rounds):
    """Both groups majority-unqualified: cheap manipulation turns the disadvantage round."""

    title = "Figure 6.7: unfairness when both groups are below the break-even rate, falling cost of group a"
    source = "section 6.7, theorem 24"
    notes = (
        "the costs of group a in the panels are not given; three are used",
        "below the dotted line group a is the disadvantaged one",
    )
    first_cost = (
        ("C_a = Beta(10, 1)", ["beta", 10, 1]),
        ("C_a = Beta(2, 1)", ["beta", 2, 1]),
        ("C_a = Beta(0.5, 1)", ["beta", 0.5, 1]),
    )
    second_cost = ["beta", 10, 1]  # noqa: RUF012
    above = False

    def claims(self, results: Results) -> list[Claim]:
        def flipped(label: str, criterion: str) -> float:
            return float((np.array(results[f"{label}, strategic"]["metrics"]["unfairness"][criterion]) < 0).mean())

        out = []
        for criterion in ("eqopt", "dp"):
            dear, cheap = flipped(self.first_cost[0][0], criterion), flipped(self.first_cost[2][0], criterion)
            out.append(
                Claim.exact(
                    f"{criterion}: cheaper manipulation turns more disadvantages round", "theorem 24", cheap - dear
                )
            )
            out.append(Claim.exact(f"{criterion}: with the cheapest most are turned round", "figure 6.7", cheap - 0.5))
        return out


@register("artefact", "thesis/6.6")
class Figure66(ThesisArtefact):
    """Rates and shares for which a constraint disincentivises both groups."""

    title = "Figure 6.6: fairness that disincentivises both groups"
    source = "section 6.7, theorem 27"

    def specs(self, scale: Scale) -> dict[str, Spec]:
        count = {"quick": 6, "standard": 14, "paper": 30}[scale]
        features, cost = blurred_and_clear(), ["beta", 10, 1]
        made = {}
        for label, loss in (("1/2", 2.0), ("1/1.1", 1.1)):
            delta = loss / (1.0 + loss)
            near = (delta + np.linspace(0.002, 0.06, count)).tolist()
            share = [{"groups.a.share": n, "groups.b.share": 1.0 - n} for n in np.linspace(0.5, 0.98, count).tolist()]
            grid = {"groups.a.qualified": near, "groups.b.qualified": near, "share of a": share}
            people = {key: group(0.9, cost, features[key]) for key in "ab"}
            for name, fairness in POLICIES.items():
                made[f"{label} {name}"] = spec(
                    people, fairness, utility={"gain": 1.0, "loss": loss}, grid=grid, points=1024
                )
        return made

    def both_less(self, results: Results, label: str, policy: str) -> np.ndarray:
        """(alpha_a, alpha_b, n_a): do both groups manipulate less under the constraint?"""
        free, fair = (results[f"{label} {name}"]["metrics"]["manipulation"] for name in ("UN", policy))
        return np.all([np.array(fair[g]) < np.array(free[g]) for g in "ab"], axis=0)

    def pictures(self, results: Results) -> list[Picture]:
        out: list[Picture] = []
        for label in ("1/2", "1/1.1"):
            for policy in ("EqOpt", "DP"):
                found = results[f"{label} {policy}"]["spec"]["grid"]
                seen = self.both_less(results, label, policy).mean(axis=2)
                out.append(
                    Heatmap(
                        f"gain/loss = {label}, {policy}",
                        "alpha_b",
                        "alpha_a",
                        "share of the sizes of group a at which both groups manipulate less",
                        tuple(found["groups.b.qualified"]),
                        tuple(found["groups.a.qualified"]),
                        tuple(tuple(row) for row in seen),
                        (0.0, 1.0),
                    )
                )
        return out

    def claims(self, results: Results) -> list[Claim]:
        out = []
        for label in ("1/2", "1/1.1"):
            for policy in ("EqOpt", "DP"):
                seen = self.both_less(results, label, policy)
                text = f"gain/loss {label}, {policy}: both manipulate less when a is barely above break-even and large"
                out.append(Claim.exact(text, "theorem 27", float(seen[0, :, -1].mean()) - 1e-9))
        return out
