"""Who becomes qualified: figures 5.2 to 5.4, tables 5.1 and 5.2 of the thesis chapter on group qualification."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairveil.dynamics import distribution, draws, fico_groups
from fairveil.lab.artefact import Chart, Claim, Line, Picture, Results, Scale, Spec, Table
from fairveil.lab.papers.thesis_words import POLICIES, SOURCES, CreditArtefact, ThesisArtefact, sources
from fairveil.randomness import generator
from fairveil.registry import register

GAUSS = {"0": ["normal", -5, 5], "1": ["normal", 5, 5]}
STARTS = ((0.1, 0.1), (0.1, 0.9), (0.9, 0.1), (0.9, 0.9), (0.5, 0.2), (0.2, 0.5))


def group(qualified: float, transitions: Any, features: Any = GAUSS, share: float = 0.5) -> Spec:
    return {"share": share, "qualified": qualified, "features": features, "transitions": transitions}


def spec(groups: Spec, fairness: str = "none", **more: Any) -> Spec:
    return {"task": "qualification", "groups": groups, "fairness": fairness, "steps": 200, **more}


def gaps(results: Results) -> dict[str, np.ndarray]:
    return {name: np.array(found["metrics"]["gap"]) for name, found in results.items()}


@register("artefact", "thesis/5.2")
class Figure52(ThesisArtefact):
    """Paths of qualification rates in a Gaussian case under three policies."""

    title = "Figure 5.2: paths of both groups' qualification rates, condition 1b"
    source = "section 5.4.2"

    def specs(self, scale: Scale) -> dict[str, Spec]:
        made = {}
        for name, fairness in POLICIES.items():
            for k, (first, second) in enumerate(STARTS):
                people = {
                    "a": group(first, [[0.4, 0.5], [0.5, 0.9]]),
                    "b": group(second, [[0.1, 0.5], [0.5, 0.7]]),
                }
                made[f"{name} path {k + 1}"] = spec(people, fairness)
        return made

    def pictures(self, results: Results) -> list[Picture]:
        out: list[Picture] = []
        for name in POLICIES:
            lines = tuple(
                Line(
                    "from ({:g}, {:g})".format(*STARTS[int(label.rsplit(" ", 1)[1]) - 1]),
                    tuple(found["series"]["qualified_a"]["y"][:40]),
                    tuple(found["series"]["qualified_b"]["y"][:40]),
                )
                for label, found in results.items()
                if label.startswith(name)
            )
            out.append(Chart(name, "alpha_a", "alpha_b", lines, "paths"))
        rows = tuple(
            (name, *(round(results[f"{name} path 1"]["metrics"]["equilibrium"][g], 6) for g in "ab"))
            for name in POLICIES
        )
        return [*out, Table("Equilibria", ("policy", "alpha_a", "alpha_b"), rows)]

    def claims(self, results: Results) -> list[Claim]:
        ends = {
            name: np.array(
                [
                    [found["metrics"]["equilibrium"][g] for g in "ab"]
                    for label, found in results.items()
                    if name in label
                ]
            )
            for name in POLICIES
        }
        spread = max(float(np.ptp(points, axis=0).max()) for points in ends.values())
        gap = {name: float(points[0, 0] - points[0, 1]) for name, points in ends.items()}
        return [
            Claim.exact("all paths of a policy lead to one equilibrium", "theorem 18", 1e-8 - spread),
            Claim.exact("fairness narrows the gap: EqOpt below UN", "theorem 20", gap["UN"] - gap["EqOpt"]),
            Claim.exact("DP narrows it further than EqOpt", "table 5.1", gap["EqOpt"] - gap["DP"]),
        ]


class _RandomTable(ThesisArtefact):
    """Equilibria for random parameters, one grid per policy."""

    def cases(self, count: int) -> dict[str, tuple[Spec, list[Spec]]]:
        """Part of the table -> base groups and, per column, what to change."""
        raise NotImplementedError

    def specs(self, scale: Scale) -> dict[str, Spec]:
        count = {"quick": 60, "standard": 300, "paper": 1000}[scale]
        return {
            f"{part} {name}": spec(base, fairness, grid={"column": columns}, **self.more())
            for part, (base, columns) in self.cases(count).items()
            for name, fairness in POLICIES.items()
        }

    def more(self) -> Spec:
        return {}

    def pictures(self, results: Results) -> list[Picture]:
        shown = 9
        rows = tuple(
            (
                "condition {}, {}".format(*label.split(" ")),
                *(round(100.0 * gap, 2) for gap in found["metrics"]["gap"][:shown]),
            )
            for label, found in results.items()
        )
        columns = ("condition and constraint", *(f"draw {k + 1}" for k in range(shown)))
        title = "Rate of group a minus rate of group b at the equilibrium, in percentage points, first draws"
        return [Table(title, columns, rows)]


def single(results: Results, part: str) -> np.ndarray:
    """Columns with one equilibrium under every policy."""
    return np.all([np.array(results[f"{part} {name}"]["metrics"]["unique"]) for name in POLICIES], axis=0)


@register("artefact", "thesis/table-5.1")
class Table51(_RandomTable):
    """Identical features, random transitions."""

    title = "Table 5.1: gap at the equilibrium, identical features, different transitions"
    source = "section 5.8"
    notes = ("transitions are drawn at random as in the thesis, so only orderings can be compared",)

    def cases(self, count: int) -> dict[str, tuple[Spec, list[Spec]]]:
        out = {}
        for case in ("1a", "1b"):
            rng = generator(51, case)
            columns = [
                {f"groups.{g}.transitions": draws.random_transitions(rng, case) for g in "ab"} for _ in range(count)
            ]
            base = {g: group(0.5, draws.random_transitions(generator(0), case)) for g in "ab"}
            out[case] = (base, columns)
        return out

    def claims(self, results: Results) -> list[Claim]:
        out = []
        for part, sign, word in (("1a", 1.0, "widen"), ("1b", -1.0, "narrow")):
            keep = single(results, part)
            gap = {name: np.array(results[f"{part} {name}"]["metrics"]["gap"])[keep] for name in POLICIES}
            note = f"{keep.sum()} of {keep.size} draws have one equilibrium under every policy"
            wider = np.minimum(
                sign * (np.abs(gap["EqOpt"]) - np.abs(gap["UN"])), sign * (np.abs(gap["DP"]) - np.abs(gap["UN"]))
            )
            out.append(
                Claim.exact(f"({part}) EqOpt and DP {word} the gap", "theorem 20", float(wider.min()) + 1e-9, note)
            )
            middle = sign * (np.abs(gap["DP"]) - np.abs(gap["EqOpt"]))
            out.append(
                Claim.exact(f"({part}) EqOpt lies between UN and DP", "table 5.1", float(middle.min()) + 1e-9, note)
            )
            turned = np.minimum(gap["UN"] * gap["EqOpt"], gap["UN"] * gap["DP"])
            out.append(
                Claim.exact(
                    f"({part}) the disadvantaged group stays the same", "theorem 20", float(turned.min()) + 1e-9, note
                )
            )
        return out


@register("artefact", "thesis/table-5.2")
class Table52(_RandomTable):
    """Same transitions, different features of the unqualified."""

    title = "Table 5.2: gap at the equilibrium, same transitions, condition 2 and theorem 21"
    source = "section 5.8"
    notes = (
        "features, transitions (condition 1b) and gain are drawn so that theorem 21 applies; only orderings compare",
    )

    def cases(self, count: int) -> dict[str, tuple[Spec, list[Spec]]]:
        rng = generator(52)
        columns = []
        for _ in range(count):
            made = draws.ordered_model(rng)
            change: Spec = {"utility.gain": float(made.people.gain[0])}
            for s, g in enumerate("ab"):
                change[f"groups.{g}.transitions"] = made.transitions[0, s].tolist()
                for y in (0, 1):
                    change[f"groups.{g}.features.{y}"] = made.people.feature(0, s, y).to_list()
            columns.append(change)
        return {"1b": ({g: group(0.5, [[0.2, 0.5], [0.5, 0.8]]) for g in "ab"}, columns)}

    def more(self) -> Spec:
        return {"utility": {"gain": 1.0, "loss": 1.0}}

    def claims(self, results: Results) -> list[Claim]:
        keep = single(results, "1b")
        gap = {name: np.array(results[f"1b {name}"]["metrics"]["gap"])[keep] for name in POLICIES}
        turned = float((gap["DP"] < 0).mean())
        return [
            Claim.exact("group b is behind without a constraint", "theorem 21", float(gap["UN"].min()) + 1e-9),
            Claim.exact("EqOpt mitigates", "theorem 21", float((gap["UN"] - gap["EqOpt"]).min()) + 1e-9),
            Claim.exact("EqOpt does not turn the gap", "theorem 21", float(gap["EqOpt"].min()) + 1e-9),
            Claim.exact(
                "DP may leave a small gap of either sign",
                "table 5.2",
                float(min(turned, 1.0 - turned)),
                f"{100 * turned:.0f} % of draws have the gap turned",
            ),
            Claim.exact(
                "DP leaves less of the gap than EqOpt on average",
                "table 5.2",
                float(np.abs(gap["EqOpt"]).mean() - np.abs(gap["DP"]).mean()),
            ),
        ]


def credit(source: str = "fitted") -> Spec:
    """Caucasian and African-American groups with the shares and rates of section 5.8."""
    people = fico_groups(["african-american", "caucasian"], source)
    facts = {"african-american": (0.12, 0.34), "caucasian": (0.88, 0.76)}
    return {
        name: group(facts[name][1], [[0.1, 0.5], [0.5, 0.9]], table["features"], facts[name][0])
        for name, table in people.items()
    }


@register("artefact", "thesis/5.3")
class Figure53(ThesisArtefact):
    """Score densities of the two groups."""

    title = "Figure 5.3: feature distributions of the credit scores"
    source = "section 5.8"
    data = ("fico",)
    notes = (
        "the fitted betas of table 6.1 are used; where the score tables are present, their histograms beside them",
    )

    def specs(self, scale: Scale) -> dict[str, Spec]:
        return {source: spec(credit(source), "none", steps=50) for source in sources()}

    def pictures(self, results: Results) -> list[Picture]:
        x = np.linspace(0.005, 0.995, 199)
        out: list[Picture] = []
        for label, found in results.items():
            lines = tuple(
                Line(
                    f"{name}, {'repay' if y == '1' else 'do not repay'}",
                    tuple(x),
                    tuple(distribution(table["features"][y]).pdf(x)),
                )
                for name, table in found["spec"]["groups"].items()
                for y in ("0", "1")
            )
            out.append(Chart(SOURCES[label], "score", "density", lines))
        return out

    def claims(self, results: Results) -> list[Claim]:
        out = []
        for label, found in results.items():
            low = []
            for table in found["spec"]["groups"].values():
                f0, f1 = (distribution(table["features"][y]) for y in ("0", "1"))
                x = np.linspace(0.05, 0.95, 19)
                low.append(float((f0.cdf(x) - f1.cdf(x)).min()))
            out.append(
                Claim.exact(
                    f"{SOURCES[label]}: those who repay score higher",
                    "figure 5.3",
                    min(low),
                    "at every score from .05 to .95",
                )
            )
        return out


@register("artefact", "thesis/5.4")
class Figure54(CreditArtefact):
    """Credit scores: equilibria for grids of transitions."""

    title = "Figure 5.4: equilibria of repayment rates for grids of transitions"
    source = "section 5.8"
    notes = (
        "u_plus = u_minus is assumed; features are the betas of table 6.1, and the public score tables where present",
        "that African-Americans always stay disadvantaged, and that rates are equal under EqOpt for large T10, are "
        "sentences with a verdict for each policy and source: most do not hold",
    )

    def made(self, scale: Scale, source: str) -> dict[str, Spec]:
        made = {}
        variants = {
            "same": {"african-american": (0.1, (0.1, 0.5, 0.9)), "caucasian": (0.1, (0.1, 0.5, 0.9))},
            "different": {"african-american": (0.1, (0.20, 0.53, 0.85)), "caucasian": (0.4, (0.45, 0.65, 0.85))},
        }
        for variant, facts in variants.items():
            columns = []
            for i in range(3):
                for j in range(3):
                    columns.append(
                        {
                            f"groups.{name}.transitions": [[t00, grid[j]], [grid[i], 0.9]]
                            for name, (t00, grid) in facts.items()
                        }
                    )
            for name, fairness in POLICIES.items():
                made[f"{variant} {name}"] = spec(credit(source), fairness, grid={"transitions": columns})
        return made

    def drawn(self, results: Results) -> list[Picture]:
        out: list[Picture] = []
        for variant, title in (("same", "(a) same transitions"), ("different", "(b) lower transitions for one group")):
            lines = tuple(
                Line(
                    name,
                    tuple(results[f"{variant} {name}"]["metrics"]["equilibrium"]["african-american"]),
                    tuple(results[f"{variant} {name}"]["metrics"]["equilibrium"]["caucasian"]),
                )
                for name in POLICIES
            )
            out.append(
                Chart(title, "repayment rate of African-Americans", "repayment rate of Caucasians", lines, "points")
            )
        return out

    def said(self, results: Results, source: str) -> list[Claim]:
        rates = {
            label: {name: np.array(values).reshape(3, 3) for name, values in found["metrics"]["equilibrium"].items()}
            for label, found in results.items()
        }
        rise = min(float(np.diff(own, axis=1).min()) for both in rates.values() for own in both.values())
        lead = {label: both["caucasian"] - both["african-american"] for label, both in rates.items()}
        gap = {label: float(np.abs(values).mean()) for label, values in lead.items()}
        where = "section 5.8"
        return [
            Claim.exact("a higher T01 (unqualified people who are accepted) raises every equilibrium", where, rise),
            Claim.exact("DP is more equitable than EqOpt on average", where, gap["same EqOpt"] - gap["same DP"]),
            Claim.exact("DP is more equitable than UN on average", where, gap["same UN"] - gap["same DP"]),
            Claim.exact(
                "lower transitions for one group reinforce the inequality (UN)",
                where,
                gap["different UN"] - gap["same UN"],
            ),
            *(
                Claim.exact(
                    f"(1) {name}: African-Americans always remain disadvantaged",
                    where,
                    float(lead[f"same {name}"].min()),
                )
                for name in POLICIES
            ),
            Claim.exact(
                "(2) UN: T01 changes the disparity more when T10 is large than when it is small",
                where,
                float(np.ptp(lead["same UN"][2]) - np.ptp(lead["same UN"][0])),
            ),
            Claim.exact(
                "(4) EqOpt: when T10 is small the inequality rises with T01",
                where,
                float(np.diff(np.abs(lead["same EqOpt"][0])).min()),
            ),
            Claim.exact(
                "(4) EqOpt: when T10 is large the rates are equal within .02",
                where,
                0.02 - float(np.abs(lead["same EqOpt"][2]).max()),
            ),
        ]
