"""Credit scores in chapter 6 of the thesis: figures 6.10 to 6.14."""

from __future__ import annotations

import numpy as np

from fairveil.dynamics import distribution, fico_groups
from fairveil.dynamics.assumptions import likelihood_ratio_fall
from fairveil.lab.artefact import Chart, Claim, Line, Picture, Results, Scale, Spec, have
from fairveil.lab.papers.thesis_credit_tables import PEOPLE
from fairveil.lab.papers.thesis_strategic_surfaces import FICO, Surfaces, credit, spec
from fairveil.lab.papers.thesis_words import POLICIES, SOURCES, CreditArtefact, ThesisArtefact, sources
from fairveil.registry import register


@register("artefact", "thesis/6.10")
class Figure610(ThesisArtefact):
    """Score distributions, qualification profiles and likelihood ratios (an illustration)."""

    title = "Figure 6.10: score distributions, profiles and likelihood ratios"
    source = "section 6.7"
    data = ("fico",)
    notes = (
        FICO,
        "the score tables are drawn with the pooled cells that the models use; the claim is about the raw ones",
    )

    def pictures(self, results: Results) -> list[Picture]:
        return [picture for source in sources() for picture in self._panels(source)]

    def _panels(self, source: str) -> list[Picture]:
        x = np.linspace(0.01, 0.99, 99)
        pdf, cdf, profile, ratio = [], [], [], []
        said = SOURCES[source]
        for name, table in fico_groups(source=source).items():
            f0, f1 = (distribution(table["features"][y]) for y in ("0", "1"))
            alpha = table["qualified"]
            mixed = alpha * f1.pdf(x) + (1 - alpha) * f0.pdf(x)
            pdf.append(Line(name, tuple(x), tuple(mixed)))
            cdf.append(Line(name, tuple(x), tuple(alpha * f1.cdf(x) + (1 - alpha) * f0.cdf(x))))
            profile.append(Line(name, tuple(x), tuple(alpha * f1.pdf(x) / mixed)))
            ratio.append(Line(name, tuple(x), tuple(np.exp(f1.logpdf(x) - f0.logpdf(x)))))
        return [
            Chart(f"{said}: density of scores", "score", "density", tuple(pdf)),
            Chart(f"{said}: distribution of scores", "score", "share below", tuple(cdf)),
            Chart(f"{said}: qualification profile", "score", "share who repay at this score", tuple(profile)),
            Chart(f"{said}: likelihood ratio of repaying", "score", "density ratio", tuple(ratio), log_y=True),
        ]

    def claims(self, results: Results) -> list[Claim]:
        out = []
        for source in sources():
            groups = fico_groups(source=source, pooled=False)
            falls = {}
            for name, table in groups.items():
                f0, f1 = (distribution(table["features"][y]) for y in "01")
                falls[name] = likelihood_ratio_fall(f0, f1)
            where = ", ".join(f"{name} falls at {x:.2f}" for name, x in falls.items() if x is not None)
            text = f"{SOURCES[source]}: the likelihood ratio rises in every group"
            out.append(Claim.exact(text, "assumption 11", 0.5 - sum(x is not None for x in falls.values()), where))
        return out


@register("artefact", "thesis/6.11")
class Figure611(ThesisArtefact):
    """The fitted betas beside the score tables (an illustration)."""

    title = "Figure 6.11: beta densities and score tables"
    source = "section 6.7"
    data = ("fico",)
    notes = ("without the score tables only the betas are drawn",)

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


CHOSEN = "the text does not name the groups of the panels, these were chosen because they show it"


def shown(text: str, margin: float, note: str, source: str) -> Claim:
    """On the betas an illustration, since the pairs were chosen there; the same pairs on the score tables can fail."""
    if source == "fitted":
        return Claim.illustration(text, "section 6.7", margin, f"{CHOSEN}; {note}" if note else CHOSEN)
    return Claim.exact(text, "section 6.7", margin, note)


@register("artefact", "thesis/6.12")
class Figure612(CreditArtefact):
    """Cheaper manipulation of the advantaged group mitigates and turns the unfairness."""

    title = "Figure 6.12: unfairness as the cost of group a falls"
    source = "section 6.7, theorem 24"
    notes = (FICO, "group a is Hispanic, group b African-American; b of group a's cost runs from 1 to 20")

    def made(self, scale: Scale, source: str) -> dict[str, Spec]:
        count = {"quick": 12, "standard": 30, "paper": 60}[scale]
        utility = {"gain": 1.0, "loss": 2.0}
        first = credit("hispanic", "african-american", (["beta", 10, 5], ["beta", 10, 5]), source)
        second = credit("hispanic", "african-american", (["uniform", 0, 1], ["uniform", 0, 1]), source)
        made = {}
        for strategic, word in ((True, "strategic"), (False, "non-strategic")):
            beta = {"groups.hispanic.cost.2": np.linspace(1.0, 20.0, count).tolist()}
            uniform = {"groups.hispanic.cost.2": np.linspace(0.2, 2.0, count).tolist()}
            made[f"beta {word}"] = spec(first, "none", strategic, utility=utility, grid=beta)
            made[f"uniform {word}"] = spec(second, "none", strategic, utility=utility, grid=uniform)
        return made

    def drawn(self, results: Results) -> list[Picture]:
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

    def said(self, results: Results, source: str) -> list[Claim]:
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
class Figure613(CreditArtefact, Surfaces):
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

    def drawn(self, results: Results) -> list[Picture]:
        return Surfaces.pictures(self, results)

    def made(self, scale: Scale, source: str) -> dict[str, Spec]:
        count = {"quick": 6, "standard": 15, "paper": 29}[scale]
        values = np.linspace(1.0, 15.0, count).tolist()
        made = {}
        for panel, (first, second) in zip(self.panels, self.pairs, strict=True):
            grid = {f"groups.{first}.cost.{k},groups.{second}.cost.{k}": values for k in (1, 2)}
            people = credit(first, second, (["beta", 1, 1], ["beta", 1, 1]), source)
            for name, code in POLICIES.items():
                made[f"{panel}{name}"] = spec(people, code, grid=grid, points=2048)
        return made

    def said(self, results: Results, source: str) -> list[Claim]:
        first, second = (self.change(results, "(a) ", "EqOpt", name) for name in self.pairs[0])
        both = float(((first > 1e-6) & (second > 1e-6)).mean())
        apart = []
        for name in self.pairs[1]:
            equal, parity = (self.change(results, "(b) ", policy, name) for policy in ("EqOpt", "DP"))
            apart.append(float((equal * parity < 0).mean()))
        return [
            shown("(a) fairness can incentivise both groups", both - 1e-9, f"in {100 * both:.0f} % of costs", source),
            shown("(b) EqOpt and DP can have opposite effects", min(apart) - 1e-9, "", source),
        ]


@register("artefact", "thesis/6.14")
class Figure614(CreditArtefact, Surfaces):
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

    def drawn(self, results: Results) -> list[Picture]:
        return Surfaces.pictures(self, results)

    def made(self, scale: Scale, source: str) -> dict[str, Spec]:
        count = {"quick": 6, "standard": 15, "paper": 37}[scale]
        values = np.linspace(0.2, 2.0, count).tolist()
        made = {}
        for panel, (first, second) in zip(self.panels, self.pairs, strict=True):
            grid = {f"groups.{first}.cost.2": values, f"groups.{second}.cost.2": values}
            people = credit(first, second, (["uniform", 0, 1], ["uniform", 0, 1]), source)
            for name, code in POLICIES.items():
                made[f"{panel}{name}"] = spec(people, code, grid=grid, points=2048)
        return made

    def said(self, results: Results, source: str) -> list[Claim]:
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
                out.append(shown(text, float(min(cheap_a, cheap_b)), f"{first} and {second}", source))
        return out
