"""Chapter 6 of the thesis on credit scores: tables 6.1 to 6.3 and figures 6.10 to 6.14."""

from __future__ import annotations

import numpy as np

from fairveil.dynamics import distribution, fico_groups
from fairveil.dynamics.assumptions import likelihood_ratio_fall
from fairveil.lab.artefact import Chart, Claim, Line, Picture, Results, Scale, Table, have
from fairveil.lab.papers.thesis_strategic import (
    FICO,
    POLICIES,
    Spec,
    Surfaces,
    credit,
    spec,
)
from fairveil.lab.papers.thesis_words import ThesisArtefact
from fairveil.registry import register


@register("artefact", "thesis/table-6.1")
class Table61(ThesisArtefact):
    """Credit scores of four groups: rates, features, shares and x*."""

    title = "Table 6.1: four groups of the credit score data"
    source = "section 6.7"
    data = ("fico",)
    notes = ("the betas are the thesis': ordinary fits to the public tables give others for those who do not repay",)

    def specs(self, scale: Scale) -> dict[str, Spec]:
        made = {"fitted": spec({name: {**t, "cost": ["beta", 10, 2]} for name, t in fico_groups().items()})}
        if have("fico"):
            tables = fico_groups(source="tables")
            made["tables"] = spec({name: {**t, "cost": ["beta", 10, 2]} for name, t in tables.items()})
        return made

    def pictures(self, results: Results) -> list[Picture]:
        out: list[Picture] = []
        for label, found in results.items():
            rows = tuple(
                (name, round(t["qualified"], 4), round(t["share"], 4), round(found["metrics"]["peak"][name], 3))
                for name, t in found["spec"]["groups"].items()
            )
            columns = ("group", "qualification rate", "share of people", "x* (score of most manipulation)")
            out.append(Table({"fitted": "Fitted betas", "tables": "Score tables"}[label], columns, rows))
        return out

    def claims(self, results: Results) -> list[Claim]:
        printed = {"caucasian": 0.277, "african-american": 0.174, "hispanic": 0.262, "asian": 0.342}
        peak = results["fitted"]["metrics"]["peak"]
        out = [
            Claim.exact(
                "x* agrees with the printed column",
                "table 6.1",
                0.0015 - max(abs(peak[n] - x) for n, x in printed.items()),
            )
        ]
        if "tables" in results:
            fitted, tables = (results[key]["spec"]["groups"] for key in ("fitted", "tables"))
            off = max(abs(fitted[n]["qualified"] - tables[n]["qualified"]) for n in printed)
            shares = max(abs(fitted[n]["share"] - tables[n]["share"]) for n in printed)
            out.append(Claim.exact("rates agree with the public tables within .005", "table 6.1", 0.005 - off))
            out.append(Claim.exact("shares agree with the public totals", "table 6.1", 0.0001 - shares))
        return out


PEOPLE = {"0": "do not repay", "1": "repay"}
PRINTED_62 = {
    ("beta", "caucasian"): (0.355, 0.556, 0.136, 0.611, 0.680, 0.449),
    ("beta", "hispanic"): (0.292, 0.493, 0.034, 0.421, 0.490, 0.242),
    ("beta", "asian"): (0.333, 0.533, 0.123, 0.634, 0.703, 0.522),
    ("uniform", "caucasian"): (0.743, 0.871, 0.136, 0.794, 0.838, 0.449),
    ("uniform", "hispanic"): (0.722, 0.850, 0.034, 0.684, 0.727, 0.242),
    ("uniform", "asian"): (0.738, 0.866, 0.123, 0.825, 0.868, 0.522),
}


@register("artefact", "thesis/table-6.2")
class Table62(ThesisArtefact):
    """Unfairness of strategic and non-strategic policies against African-Americans."""

    title = "Table 6.2: unfairness of strategic and non-strategic policies"
    source = "section 6.7"
    notes = (FICO, "rounding of the printed parameters explains differences up to about .003")
    costs = (
        ("beta", ["beta", 10, 2], ["beta", 10, 6]),
        ("uniform", ["uniform", 0, 1], ["uniform", 0, 0.5]),
    )

    def specs(self, scale: Scale) -> dict[str, Spec]:
        made = {}
        for kind, dear, cheap in self.costs:
            for name in ("caucasian", "hispanic", "asian"):
                made[f"{kind} {name} equal"] = spec(credit(name, "african-american", (dear, dear)))
                made[f"{kind} {name} unequal"] = spec(credit(name, "african-american", (dear, cheap)))
                made[f"{kind} {name} naive"] = spec(credit(name, "african-american", (dear, dear)), strategic=False)
        return made

    def rows(self, results: Results) -> dict[tuple[str, str], tuple[float, ...]]:
        out = {}
        for kind, name in PRINTED_62:
            found = [
                results[f"{kind} {name} {which}"]["metrics"]["unfairness"] for which in ("equal", "unequal", "naive")
            ]
            out[kind, name] = tuple(item[criterion] for criterion in ("eqopt", "dp") for item in found)
        return out

    def pictures(self, results: Results) -> list[Picture]:
        columns = (
            "cost",
            "group a",
            *(f"{c}, {w}" for c in ("EqOpt", "DP") for w in ("same costs", "cheaper for b", "non-strategic")),
        )
        ours = tuple((*key, *(round(value, 3) for value in row)) for key, row in self.rows(results).items())
        printed = tuple((*key, *row) for key, row in PRINTED_62.items())
        return [Table("Measured", columns, ours), Table("Printed", columns, printed)]

    def claims(self, results: Results) -> list[Claim]:
        rows = self.rows(results)
        off = max(abs(a - b) for key, row in rows.items() for a, b in zip(row, PRINTED_62[key], strict=True))
        table = np.array(list(rows.values()))
        worse = np.minimum(table[:, [0, 3]] - table[:, [2, 5]], table[:, [1, 4]] - table[:, [0, 3]])
        return [
            Claim.exact(
                "every entry within .0015 of the printed one",
                "table 6.2",
                0.0015 - off,
                f"largest difference {off:.4f}",
            ),
            Claim.exact("African-Americans are disadvantaged throughout", "section 6.7", float(table.min())),
            Claim.exact(
                "anticipation worsens unfairness, more so when manipulation is cheaper for b",
                "theorem 23",
                float(worse.min()),
            ),
        ]


@register("artefact", "thesis/table-6.3")
class Table63(ThesisArtefact):
    """A naive decision maker who gains from both groups by being fair."""

    title = "Table 6.3: utilities of non-strategic policies with and without equal opportunity"
    source = "section 6.7"
    notes = (FICO, "u_minus of 3 to 4 multiplies the rounding of the printed rates: utilities differ by thousandths")
    cases = (
        ("1 : 4", 4.0, ["beta", 10, 10], ["beta", 10, 10], (-0.190, -0.189, 0.024, 0.034)),
        ("1 : 3.1", 3.1, ["beta", 10, 1], ["beta", 10, 10], (0.396, 0.397, 0.181, 0.201)),
    )

    def specs(self, scale: Scale) -> dict[str, Spec]:
        made = {}
        for label, loss, first, second, _ in self.cases:
            people = credit("caucasian", "asian", (first, second))
            for name in ("UN", "EqOpt"):
                made[f"{label} {name}"] = spec(people, POLICIES[name], False, utility={"gain": 1.0, "loss": loss})
        return made

    def pictures(self, results: Results) -> list[Picture]:
        rows = []
        for label, _, _, _, printed in self.cases:
            found = [results[f"{label} {name}"]["metrics"]["utility"] for name in ("UN", "EqOpt")]
            rows.append((f"{label} measured", *(round(item[g], 3) for g in ("caucasian", "asian") for item in found)))
            rows.append((f"{label} printed", *printed))
        columns = (
            "gain : loss",
            *(f"from the {g} group, {name}" for g in ("caucasian", "asian") for name in ("UN", "EqOpt")),
        )
        return [Table("True utilities", columns, tuple(rows))]

    def claims(self, results: Results) -> list[Claim]:
        out = []
        for label, *_ in self.cases:
            free, fair = (results[f"{label} {name}"]["metrics"]["utility"] for name in ("UN", "EqOpt"))
            for g in ("caucasian", "asian"):
                out.append(
                    Claim.exact(
                        f"gain : loss = {label}: EqOpt earns more from the {g} group", "theorem 25", fair[g] - free[g]
                    )
                )
        return out


@register("artefact", "thesis/6.10")
class Figure610(ThesisArtefact):
    """Score distributions, qualification profiles and likelihood ratios (an illustration)."""

    title = "Figure 6.10: score distributions, profiles and likelihood ratios"
    source = "section 6.7"
    notes = (FICO,)

    def specs(self, scale: Scale) -> dict[str, Spec]:
        return {}

    def pictures(self, results: Results) -> list[Picture]:
        x = np.linspace(0.01, 0.99, 99)
        pdf, cdf, profile, ratio = [], [], [], []
        for name, table in fico_groups().items():
            f0, f1 = (distribution(table["features"][y]) for y in ("0", "1"))
            alpha = table["qualified"]
            mixed = alpha * f1.pdf(x) + (1 - alpha) * f0.pdf(x)
            pdf.append(Line(name, tuple(x), tuple(mixed)))
            cdf.append(Line(name, tuple(x), tuple(alpha * f1.cdf(x) + (1 - alpha) * f0.cdf(x))))
            profile.append(Line(name, tuple(x), tuple(alpha * f1.pdf(x) / mixed)))
            ratio.append(Line(name, tuple(x), tuple(np.exp(f1.logpdf(x) - f0.logpdf(x)))))
        return [
            Chart("Density of scores", "score", "density", tuple(pdf)),
            Chart("Distribution of scores", "score", "share below", tuple(cdf)),
            Chart("Qualification profile", "score", "share who repay at this score", tuple(profile)),
            Chart("Likelihood ratio of repaying to not repaying", "score", "density ratio", tuple(ratio), log_y=True),
        ]

    def claims(self, results: Results) -> list[Claim]:
        falls = [
            likelihood_ratio_fall(distribution(table["features"]["0"]), distribution(table["features"]["1"]))
            for table in fico_groups().values()
        ]
        return [
            Claim.exact(
                "the likelihood ratio rises in every group", "assumption 11", 0.5 - sum(f is not None for f in falls)
            )
        ]


@register("artefact", "thesis/6.11")
class Figure611(ThesisArtefact):
    """The fitted betas beside the score tables (an illustration)."""

    title = "Figure 6.11: beta densities and score tables"
    source = "section 6.7"
    data = ("fico",)
    notes = ("without the score tables only the betas are drawn",)

    def specs(self, scale: Scale) -> dict[str, Spec]:
        return {}

    def pictures(self, results: Results) -> list[Picture]:
        x = np.linspace(0.0125, 0.9875, 79)
        tables = fico_groups(source="tables") if have("fico") else {}
        out: list[Picture] = []
        for name, table in fico_groups().items():
            lines = [
                Line(f"fitted beta, {people}", tuple(x), tuple(distribution(table["features"][y]).pdf(x)))
                for y, people in PEOPLE.items()
            ]
            if name in tables:
                lines += [
                    Line(f"score table, {people}", tuple(x), tuple(distribution(tables[name]["features"][y]).pdf(x)))
                    for y, people in PEOPLE.items()
                ]
            out.append(Chart(name, "score", "density", tuple(lines)))
        return out

    def claims(self, results: Results) -> list[Claim]:
        low = []
        for table in fico_groups().values():
            f0, f1 = (distribution(table["features"][y]) for y in ("0", "1"))
            low.append(float(f1.ppf(0.5) - f0.ppf(0.5)))
        return [Claim.exact("those who repay have the higher median score in every group", "figure 6.11", min(low))]


@register("artefact", "thesis/6.12")
class Figure612(ThesisArtefact):
    """Cheaper manipulation of the advantaged group mitigates and turns the unfairness."""

    title = "Figure 6.12: unfairness as the cost of group a falls"
    source = "section 6.7, theorem 24"
    notes = (FICO, "group a is Hispanic, group b African-American; b of group a's cost runs from 1 to 20")

    def specs(self, scale: Scale) -> dict[str, Spec]:
        count = {"quick": 12, "standard": 30, "paper": 60}[scale]
        utility = {"gain": 1.0, "loss": 2.0}
        first = credit("hispanic", "african-american", (["beta", 10, 5], ["beta", 10, 5]))
        second = credit("hispanic", "african-american", (["uniform", 0, 1], ["uniform", 0, 1]))
        made = {}
        for strategic, word in ((True, "strategic"), (False, "non-strategic")):
            beta = {"groups.hispanic.cost.2": np.linspace(1.0, 20.0, count).tolist()}
            uniform = {"groups.hispanic.cost.2": np.linspace(0.2, 2.0, count).tolist()}
            made[f"beta {word}"] = spec(first, "none", strategic, utility=utility, grid=beta)
            made[f"uniform {word}"] = spec(second, "none", strategic, utility=utility, grid=uniform)
        return made

    def pictures(self, results: Results) -> list[Picture]:
        out: list[Picture] = []
        panels = (
            ("beta", "Beta costs", "b, when the cost of group a is Beta(10, b): cheaper to the right"),
            ("uniform", "Uniform costs", "c, when the cost of group a is uniform up to c: cheaper to the left"),
        )
        for kind, title, label in panels:
            lines = []
            for word in ("strategic", "non-strategic"):
                found = results[f"{kind} {word}"]
                x = tuple(found["spec"]["grid"]["groups.hispanic.cost.2"])
                for criterion in ("eqopt", "dp"):
                    gap = tuple(found["metrics"]["unfairness"][criterion])
                    lines.append(Line(f"{word}, {criterion}", x, gap, dashed=word == "non-strategic"))
            out.append(Chart(title, label, "unfairness to group b", tuple(lines), level=0.0))
        return out

    def claims(self, results: Results) -> list[Claim]:
        out = []
        for kind, cheap in (("beta", -1), ("uniform", 0)):
            for criterion in ("eqopt", "dp"):
                smart = results[f"{kind} strategic"]["metrics"]["unfairness"][criterion]
                naive = results[f"{kind} non-strategic"]["metrics"]["unfairness"][criterion]
                out.append(
                    Claim.exact(
                        f"{kind} costs, {criterion}: b is behind without anticipation", "section 6.7", min(naive)
                    )
                )
                out.append(
                    Claim.exact(
                        f"{kind} costs, {criterion}: b gains the advantage when manipulation is cheap for a",
                        "theorem 24",
                        -smart[cheap],
                    )
                )
        return out


@register("artefact", "thesis/6.13")
class Figure613(Surfaces):
    """Manipulation under strategic policies for the same beta costs in both groups."""

    title = "Figure 6.13: manipulation probabilities, costs of both groups Beta(a, b)"
    source = "section 6.7"
    notes = (
        FICO,
        "the pairs of the two panels are not named; African-American and Asian, Caucasian and Asian show what they say",
    )
    panels = ("(a) ", "(b) ")
    pairs = (("african-american", "asian"), ("caucasian", "asian"))

    def axis(self, key: str) -> str:
        return f"parameter {'a' if key.endswith('1') else 'b'} of both costs"

    def specs(self, scale: Scale) -> dict[str, Spec]:
        count = {"quick": 6, "standard": 15, "paper": 29}[scale]
        values = np.linspace(1.0, 15.0, count).tolist()
        made = {}
        for panel, (first, second) in zip(self.panels, self.pairs, strict=True):
            grid = {f"groups.{first}.cost.{k},groups.{second}.cost.{k}": values for k in (1, 2)}
            people = credit(first, second, (["beta", 1, 1], ["beta", 1, 1]))
            for name, code in POLICIES.items():
                made[f"{panel}{name}"] = spec(people, code, grid=grid, points=2048)
        return made

    def claims(self, results: Results) -> list[Claim]:
        first, second = (self.change(results, "(a) ", "EqOpt", name) for name in self.pairs[0])
        both = float(((first > 1e-6) & (second > 1e-6)).mean())
        apart = []
        for name in self.pairs[1]:
            equal, parity = (self.change(results, "(b) ", policy, name) for policy in ("EqOpt", "DP"))
            apart.append(float((equal * parity < 0).mean()))
        return [
            Claim.exact(
                "(a) fairness can incentivise both groups",
                "section 6.7",
                both - 1e-9,
                f"in {100 * both:.0f} % of costs",
            ),
            Claim.exact("(b) EqOpt and DP can have opposite effects", "section 6.7", min(apart) - 1e-9),
        ]


@register("artefact", "thesis/6.14")
class Figure614(Surfaces):
    """Manipulation under strategic policies for different uniform costs."""

    title = "Figure 6.14: manipulation probabilities, uniform costs"
    source = "section 6.7"
    notes = (
        FICO,
        "the pairs of the panels are not named; Caucasian with Hispanic and with Asian are used. With "
        "African-Americans as one of the groups the pattern does not hold for all costs",
    )
    panels = ("(a) ", "(b) ")
    pairs = (("caucasian", "hispanic"), ("caucasian", "asian"))

    def axis(self, key: str) -> str:
        return f"largest cost of the {key.split('.')[1]} group"

    def specs(self, scale: Scale) -> dict[str, Spec]:
        count = {"quick": 6, "standard": 15, "paper": 37}[scale]
        values = np.linspace(0.2, 2.0, count).tolist()
        made = {}
        for panel, (first, second) in zip(self.panels, self.pairs, strict=True):
            grid = {f"groups.{first}.cost.2": values, f"groups.{second}.cost.2": values}
            people = credit(first, second, (["uniform", 0, 1], ["uniform", 0, 1]))
            for name, code in POLICIES.items():
                made[f"{panel}{name}"] = spec(people, code, grid=grid, points=2048)
        return made

    def claims(self, results: Results) -> list[Claim]:
        out = []
        for panel, (first, second) in zip(self.panels, self.pairs, strict=True):
            for policy in ("EqOpt", "DP"):
                cheap_a = min(
                    self.change(results, panel, policy, first)[0, -1],
                    -self.change(results, panel, policy, second)[0, -1],
                )
                cheap_b = min(
                    self.change(results, panel, policy, second)[-1, 0],
                    -self.change(results, panel, policy, first)[-1, 0],
                )
                text = f"{panel}{policy}: the group with cheap manipulation is incentivised, the other one not"
                out.append(Claim.exact(text, "section 6.7", float(min(cheap_a, cheap_b)), f"{first} and {second}"))
        return out
