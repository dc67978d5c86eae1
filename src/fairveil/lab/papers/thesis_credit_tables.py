"""Credit scores in chapter 6 of the thesis: tables 6.1 to 6.3."""

from __future__ import annotations

import numpy as np

from fairveil.dynamics import fico_groups
from fairveil.lab.artefact import Claim, Picture, Results, Scale, Spec, Table
from fairveil.lab.papers.thesis_strategic_surfaces import FICO, credit, spec
from fairveil.lab.papers.thesis_words import POLICIES, SOURCES, CreditArtefact, ThesisArtefact, sources
from fairveil.registry import register


@register("artefact", "thesis/table-6.1")
class Table61(ThesisArtefact):
    """Credit scores of four groups: rates, features, shares and x*."""

    title = "Table 6.1: four groups of the credit score data"
    source = "section 6.7"
    data = ("fico",)
    notes = ("the betas are the thesis': ordinary fits to the public tables give others for those who do not repay",)

    def specs(self, scale: Scale) -> dict[str, Spec]:
        cost = ["beta", 10, 2]
        return {
            source: spec({name: {**group, "cost": cost} for name, group in fico_groups(source=source).items()})
            for source in sources()
        }

    def pictures(self, results: Results) -> list[Picture]:
        out: list[Picture] = []
        for label, found in results.items():
            rows = tuple(
                (name, round(t["qualified"], 4), round(t["share"], 4), round(found["metrics"]["peak"][name], 3))
                for name, t in found["spec"]["groups"].items()
            )
            columns = ("group", "qualification rate", "share of people", "x* (score of most manipulation)")
            out.append(Table(SOURCES[label], columns, rows))
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
class Table62(CreditArtefact):
    """Unfairness of strategic and non-strategic policies against African-Americans."""

    title = "Table 6.2: unfairness of strategic and non-strategic policies"
    source = "section 6.7"
    notes = (FICO, "rounding of the printed parameters explains differences up to about .003")
    costs = (
        ("beta", ["beta", 10, 2], ["beta", 10, 6]),
        ("uniform", ["uniform", 0, 1], ["uniform", 0, 0.5]),
    )

    def made(self, scale: Scale, source: str) -> dict[str, Spec]:
        made = {}
        for kind, dear, cheap in self.costs:
            for name in ("caucasian", "hispanic", "asian"):
                same, other = (credit(name, "african-american", (dear, cost), source) for cost in (dear, cheap))
                made[f"{kind} {name} equal"] = spec(same)
                made[f"{kind} {name} unequal"] = spec(other)
                made[f"{kind} {name} naive"] = spec(same, strategic=False)
        return made

    def rows(self, results: Results) -> dict[tuple[str, str], tuple[float, ...]]:
        out = {}
        for kind, name in PRINTED_62:
            found = [
                results[f"{kind} {name} {which}"]["metrics"]["unfairness"] for which in ("equal", "unequal", "naive")
            ]
            out[kind, name] = tuple(item[criterion] for criterion in ("eqopt", "dp") for item in found)
        return out

    def drawn(self, results: Results) -> list[Picture]:
        columns = (
            "cost",
            "group a",
            *(f"{c}, {w}" for c in ("EqOpt", "DP") for w in ("same costs", "cheaper for b", "non-strategic")),
        )
        ours = tuple((*key, *(round(value, 3) for value in row)) for key, row in self.rows(results).items())
        printed = tuple((*key, *row) for key, row in PRINTED_62.items())
        return [Table("Measured", columns, ours), Table("Printed", columns, printed)]

    def said(self, results: Results, source: str) -> list[Claim]:
        rows = self.rows(results)
        off = max(abs(a - b) for key, row in rows.items() for a, b in zip(row, PRINTED_62[key], strict=True))
        table = np.array(list(rows.values()))
        worse = np.minimum(table[:, [0, 3]] - table[:, [2, 5]], table[:, [1, 4]] - table[:, [0, 3]])
        same = Claim.exact(
            "every entry within .0015 of the printed one", "table 6.2", 0.0015 - off, f"largest difference {off:.4f}"
        )
        return [
            *([same] if source == "fitted" else []),
            Claim.exact("African-Americans are disadvantaged throughout", "section 6.7", float(table.min())),
            Claim.exact(
                "anticipation worsens unfairness, more so when manipulation is cheaper for b",
                "theorem 23",
                float(worse.min()),
            ),
        ]


@register("artefact", "thesis/table-6.3")
class Table63(CreditArtefact):
    """A naive decision maker who gains from both groups by being fair."""

    title = "Table 6.3: utilities of non-strategic policies with and without equal opportunity"
    source = "section 6.7"
    notes = (
        FICO,
        "u_minus of 3 to 4 multiplies the rounding of the printed rates: utilities differ by thousandths",
        "on the score tables EqOpt does not earn more from both groups: the demonstration depends on the betas",
    )
    cases = (
        ("1 : 4", 4.0, ["beta", 10, 10], ["beta", 10, 10], (-0.190, -0.189, 0.024, 0.034)),
        ("1 : 3.1", 3.1, ["beta", 10, 1], ["beta", 10, 10], (0.396, 0.397, 0.181, 0.201)),
    )

    def made(self, scale: Scale, source: str) -> dict[str, Spec]:
        made = {}
        for label, loss, first, second, _ in self.cases:
            people = credit("caucasian", "asian", (first, second), source)
            for name in ("UN", "EqOpt"):
                made[f"{label} {name}"] = spec(people, POLICIES[name], False, utility={"gain": 1.0, "loss": loss})
        return made

    def drawn(self, results: Results) -> list[Picture]:
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

    def said(self, results: Results, source: str) -> list[Claim]:
        out = []
        for label, *_ in self.cases:
            free, fair = (results[f"{label} {name}"]["metrics"]["utility"] for name in ("UN", "EqOpt"))
            for g in ("caucasian", "asian"):
                out.append(
                    Claim.exact(
                        f"gain : loss = {label}: EqOpt earns more from the {g} group",
                        "theorem 25",
                        fair[g] - free[g],
                        f"from {free[g]:.4f} to {fair[g]:.4f}",
                    )
                )
        return out
