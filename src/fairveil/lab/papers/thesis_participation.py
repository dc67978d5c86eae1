"""Who stays: figures 4.3 to 4.7 and 4.9 of the thesis chapter on group representation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from fairveil.lab.artefact import Chart, Claim, Heatmap, Line, Picture, Results, Scale, Spec, Table, courses, line
from fairveil.lab.papers.thesis_words import ParticipationArtefact
from fairveil.registry import register

UNCONSTRAINED = "UN"
CRITERIA = {"Simple": "simple", "EqOpt": "eqopt", "DP": "dp", "EqLos": "eqloss"}
TOTAL = 20000.0
RATIOS = {"beta_a = beta_b": 0.5, "beta_a = 3 beta_b": 0.75, "beta_a = beta_b/3": 0.25}
SUPPORTS = (
    "the supports printed for group b are read as f_b^0 on [-6, 25] and f_b^1 on [9, 43]: only this reading overlaps "
    "and satisfies assumption 7"
)


def groups(share: float = 0.5, spread: float = 3.0) -> Spec:
    """The synthetic population of section 4.5; ``spread`` is the deviation of f_b^0."""
    return {
        "a": {
            "arrivals": TOTAL * share,
            "qualified": 0.6,
            "features": {"0": ["truncnorm", 4, 5, -8, 19], "1": ["truncnorm", 20, 6, 5, 35]},
        },
        "b": {
            "arrivals": TOTAL * (1.0 - share),
            "qualified": 0.4,
            "features": {"0": ["truncnorm", 8, spread, -6, 25], "1": ["truncnorm", 27, 6, 9, 43]},
        },
    }


def spec(fairness: str, share: float = 0.5, steps: int = 60, **more: Any) -> Spec:
    return {"task": "participation", "groups": groups(share), "fairness": fairness, "steps": steps, **more}


def paths(steps: int, **more: Any) -> dict[str, Spec]:
    """All criteria at the three ratios of arrivals."""
    return {
        f"{name}, {ratio}": spec(code, share, steps, **more)
        for name, code in CRITERIA.items()
        for ratio, share in RATIOS.items()
    }


def chart(title: str, label: str, results: Results, series: str) -> Chart:
    curves = tuple(replace(one, dashed=one.name.endswith("learned")) for one in courses(results, series))
    return Chart(title, "time", label, curves)


def at_ratio(results: Results, ratio: str, mark: str = "") -> Results:
    """The criteria at one ratio of arrivals."""
    return {name: results[f"{mark}{name}, {ratio}"] for name in CRITERIA}


def away(result: Spec) -> float:
    """How far group a's share ends from its share of the arrivals."""
    return abs(result["metrics"]["limit"]["a"] - result["spec"]["groups"]["a"]["arrivals"] / TOTAL)


def movement(result: Spec) -> float:
    """How far group a's share moves from its start."""
    share = np.array(result["series"]["share_a"]["y"])
    return float(np.abs(share - share[0]).max())


def backward(result: Spec) -> float:
    """Largest step of group a's share against its overall direction."""
    change = np.diff(np.array(result["series"]["share_a"]["y"]))
    return float(max(0.0, (-np.sign(change.sum()) * change).max()))


@register("artefact", "thesis/4.3")
class Figure43(ParticipationArtefact):
    """Which pairs of thresholds sustain both groups, under two dynamics."""

    title = "Figure 4.3: pairs of thresholds that sustain the groups' proportions"
    source = "section 4.4.4"
    notes: ClassVar[tuple[str, ...]] = (
        "label rates are not given; 1/2 in both groups is used",
        "the deviation |N_a/N_b - beta_a/beta_b| is shown relative to beta_a/beta_b",
        "the first dynamics is drawn as printed, with users leaving when the positive rate is high; the text describes "
        "the opposite",
    )

    def specs(self, scale: Scale) -> dict[str, Spec]:
        points = {"quick": 61, "standard": 161, "paper": 401}[scale]
        people = {
            name: {
                "arrivals": 10000.0,
                "qualified": 0.5,
                "features": {"0": ["truncnorm", 10, low, 5, 20], "1": ["truncnorm", 25, high, 11, 35]},
            }
            for name, (low, high) in {"a": (5, 6), "b": (6, 5)}.items()
        }
        base = {"task": "participation-criterion", "groups": people, "points": points, "seed": 1}
        return {
            "leaving by positive rate, arriving by accuracy": {
                **base,
                "growth": "attract",
                "retention": "accepted",
                "attraction": "accuracy",
            },
            "leaving by loss": {**base, "growth": "arrive", "retention": "accuracy"},
        }

    def pictures(self, results: Results) -> list[Picture]:
        return [
            Heatmap(
                label.capitalize(),
                "threshold of group b",
                "threshold of group a",
                "relative deviation from the arrivals' proportion (cut at 1)",
                tuple(found["metrics"]["second"]),
                tuple(found["metrics"]["first"]),
                tuple(tuple(min(1.0, value) for value in row) for row in found["metrics"]["deviation"]),
            )
            for label, found in results.items()
        ]

    def claims(self, results: Results) -> list[Claim]:
        out = []
        for label, found in results.items():
            inside = found["metrics"]["inside"]
            out.append(
                Claim.illustration(
                    f"{label}: some pairs sustain the proportions",
                    "equation (4.5)",
                    0.05 - found["metrics"]["best"],
                    "thresholds at one end of all supports treat both groups alike",
                )
            )
            out.append(
                Claim.illustration(
                    f"{label}: a larger tolerance admits more pairs",
                    "figure 4.3",
                    inside["0.5"] - inside["0.05"],
                    "pairs within the smaller tolerance are within the larger one",
                )
            )
        return out


@register("artefact", "thesis/4.4")
class Figure44(ParticipationArtefact):
    """Shares and average loss over time under four criteria."""

    title = "Figure 4.4: group proportion and average loss, retention by accuracy"
    source = "section 4.5"
    notes = (
        SUPPORTS,
        "the thesis' Simple is one common threshold for both groups; the unconstrained policy, a threshold each, is "
        "drawn beside it and is not in the thesis' figure",
    )

    def specs(self, scale: Scale) -> dict[str, Spec]:
        steps = {"quick": 60, "standard": 200, "paper": 2000}[scale]
        free = {f"{UNCONSTRAINED}, {ratio}": spec("none", share, steps) for ratio, share in RATIOS.items()}
        return paths(steps) | free

    def pictures(self, results: Results) -> list[Picture]:
        limits = Table(
            "Long-run share of group a",
            ("criterion and arrivals", "after the run", "limit"),
            tuple(
                (name, round(found["metrics"]["share"]["a"], 4), round(found["metrics"]["limit"]["a"], 4))
                for name, found in results.items()
            ),
        )
        charts: list[Picture] = []
        for ratio in RATIOS:
            here = {**at_ratio(results, ratio), UNCONSTRAINED: results[f"{UNCONSTRAINED}, {ratio}"]}
            charts.append(chart(f"(a) share of group a, {ratio}", "n_a", here, "share_a"))
            charts.append(chart(f"(b) average loss, {ratio}", "average loss", here, "average_loss"))
        return [*charts, limits]

    def claims(self, results: Results) -> list[Claim]:
        skewed = [found for name, found in results.items() if not name.startswith(("EqLos", UNCONSTRAINED))]
        equal = [found for name, found in results.items() if name.startswith("EqLos")]
        return [
            Claim.exact("EqLos keeps the proportions", "section 4.5", 1e-9 - max(map(movement, equal))),
            Claim.exact("shares move in one direction otherwise", "theorem 15", 1e-9 - max(map(backward, skewed))),
            Claim.exact(
                "Simple, EqOpt and DP do not sustain the proportions", "section 4.5", min(map(away, skewed)) - 0.01
            ),
            Claim.exact(
                "even the group with more arrivals can end up a minority (Simple, three times the arrivals)",
                "section 4.5",
                0.5 - results["Simple, beta_a = 3 beta_b"]["metrics"]["limit"]["a"],
            ),
        ]


@register("artefact", "thesis/4.5")
class Figure45(ParticipationArtefact):
    """Final share of group a as a function of both groups' arrivals."""

    title = "Figure 4.5: long-run proportion against arrivals"
    source = "section 4.5"
    notes = (SUPPORTS, "limits are solved for directly; the simulated paths of figure 4.4 approach the same values")

    def specs(self, scale: Scale) -> dict[str, Spec]:
        count = {"quick": 9, "standard": 21, "paper": 41}[scale]
        values = np.linspace(1000.0, 19000.0, count).tolist()
        grid = {"groups.a.arrivals": values, "groups.b.arrivals": values}
        return {name: spec(code, 0.5, 1, grid=grid) for name, code in CRITERIA.items()}

    def pictures(self, results: Results) -> list[Picture]:
        out: list[Picture] = []
        for name, found in results.items():
            first, second = found["spec"]["grid"].values()
            limit = tuple(tuple(row) for row in found["metrics"]["limit"]["a"])
            out.append(
                Heatmap(
                    name,
                    "arrivals of b per step",
                    "arrivals of a per step",
                    "share of group a in the long run",
                    tuple(second),
                    tuple(first),
                    limit,
                    (0.0, 1.0),
                )
            )
        return out

    def claims(self, results: Results) -> list[Claim]:
        def table(name: str) -> np.ndarray:
            return np.array(results[name]["metrics"]["limit"]["a"])

        values = np.array(results["DP"]["spec"]["grid"]["groups.a.arrivals"])
        fair = values[:, None] / (values[:, None] + values[None, :])
        jump = float(np.abs(np.diff(table("DP"), axis=0)).max())
        mild = float(np.abs(np.diff(fair, axis=0)).max())
        below = [float((table(name) < 0.5).mean()) for name in ("Simple", "EqOpt", "DP")]
        return [
            Claim.exact(
                "EqLos sustains every proportion", "figure 4.5d", 1e-9 - float(np.abs(table("EqLos") - fair).max())
            ),
            Claim.exact(
                "group b dominates for most arrivals under the other criteria", "section 4.5", min(below) - 0.5
            ),
            Claim.exact("DP jumps between two regimes for a small change of arrivals", "section 4.5", jump - mild),
        ]


@register("artefact", "thesis/4.6")
class Figure46(ParticipationArtefact):
    """A wider spread of b's unqualified features and what it does to the shares under DP."""

    title = "Figure 4.6: unqualified features of group b with deviations 1 to 7, demographic parity"
    source = "section 4.5"
    notes = (SUPPORTS,)

    def specs(self, scale: Scale) -> dict[str, Spec]:
        steps = {"quick": 40, "standard": 100, "paper": 400}[scale]
        return {f"sigma_b0 = {k}": {**spec("dp", 0.5, steps), "groups": groups(0.5, float(k))} for k in range(1, 8)}

    def pictures(self, results: Results) -> list[Picture]:
        from fairveil.dynamics import distribution

        x = np.linspace(-6.0, 43.0, 197)
        densities = [
            Line(name, tuple(x), tuple(distribution(found["spec"]["groups"]["b"]["features"]["0"]).pdf(x)))
            for name, found in results.items()
        ]
        top = distribution(groups()["b"]["features"]["1"]).pdf(x)
        return [
            Chart(
                "(a) features of group b",
                "feature",
                "density",
                (*densities, Line("the qualified", tuple(x), tuple(top))),
            ),
            chart("(b) share of group a", "n_a", results, "share_a"),
        ]

    def claims(self, results: Results) -> list[Claim]:
        loss = np.array([found["series"]["loss_b"]["y"][0] for found in results.values()])
        share = np.array([found["metrics"]["limit"]["a"] for found in results.values()])
        return [
            Claim.exact("more overlap, more loss for group b at first", "figure 4.6", float(np.diff(loss).min())),
            Claim.exact(
                "with more overlap group a ends up larger",
                "figure 4.6b",
                float(share[-1] - share[0]),
                "between neighbouring spreads the order holds as well" if np.diff(share).min() >= 0 else "",
            ),
        ]


@register("artefact", "thesis/4.7")
class Figure47(Figure43):
    """Paths of decisions drawn at random from nearly fair sets."""

    title = "Figure 4.7: share of group a under nearly fair decisions"
    source = "section 4.5"
    notes = (
        *Figure43.notes,
        "twenty candidate pairs of thresholds are drawn from those whose deviation is within the tolerance (the "
        "Delta-fair set of the thesis), one of them used at each step",
    )

    def specs(self, scale: Scale) -> dict[str, Spec]:
        steps = {"quick": 60, "standard": 200, "paper": 400}[scale]
        epsilons = [0.0, 0.05, 0.1, 0.3, 0.6]
        made = super().specs("quick" if scale == "quick" else "standard")
        return {label: {**one, "epsilons": epsilons, "steps": steps} for label, one in made.items()}

    def pictures(self, results: Results) -> list[Picture]:
        out: list[Picture] = []
        for label, found in results.items():
            lines = tuple(line(f"tolerance {e:g}", found, f"share_{e:g}") for e in found["spec"]["epsilons"])
            out.append(Chart(label.capitalize(), "time", "n_a", lines, level=0.5))
        return out

    def claims(self, results: Results) -> list[Claim]:
        out = []
        for label, found in results.items():
            ends = {e: np.array(found["series"][f"share_{e:g}"]["y"][-20:]) for e in found["spec"]["epsilons"]}
            strict, loose = (float(np.abs(ends[e] - 0.5).mean()) for e in (0.05, 0.6))
            text = f"{label}: decisions from a small fair set keep the proportions better than from a large one"
            out.append(Claim.exact(text, "section 4.5", loose - strict))
        return out


@register("artefact", "thesis/4.9")
class Figure49(ParticipationArtefact):
    """Other reasons to leave: false positives, and each label's own loss."""

    title = "Figure 4.9: shares under two other dynamics"
    source = "section 4.5"
    notes = (
        SUPPORTS,
        "panel (a): the printed formula is the false positive rate, the text says false negative",
        "panel (b): decisions use fixed label rates; with the rates of the users present the shares run away",
    )

    def specs(self, scale: Scale) -> dict[str, Spec]:
        steps = {"quick": 80, "standard": 300, "paper": 2000}[scale]
        first = {f"(a) {name}": one for name, one in paths(steps, retention="false-positive").items()}
        second = {f"(b) {name}": one for name, one in paths(steps, retention="subgroup").items()}
        return first | second

    def pictures(self, results: Results) -> list[Picture]:
        titles = {"(a)": "(a) leaving by false positives", "(b)": "(b) leaving by the loss of one's label"}
        return [
            chart(f"{title}, {ratio}", "n_a", at_ratio(results, ratio, f"{mark} "), "share_a")
            for ratio in RATIOS
            for mark, title in titles.items()
        ]

    def claims(self, results: Results) -> list[Claim]:
        matching = [movement(found) for name, found in results.items() if name.startswith("(a) EqOpt")]
        worst = [
            max(away(found) for label, found in results.items() if label.startswith(f"(b) {name}")) for name in CRITERIA
        ]
        return [
            Claim.exact(
                "(a) EqOpt matches the reason to leave and sustains the groups", "section 4.5", 1e-9 - max(matching)
            ),
            Claim.exact(
                "(b) no criterion sustains the groups for all arrivals",
                "section 4.5",
                min(worst) - 0.01,
                f"largest deviation of a limit: {max(worst):.3f}",
            ),
        ]
