"""Who becomes qualified on COMPAS, with a trained classifier: figures 5.5 and 5.6, tables 5.3 and 5.4 of the thesis."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairveil.dynamics import draws
from fairveil.dynamics.qualification import transition_grid
from fairveil.lab.artefact import Claim, Heatmap, Picture, Results, Scale, Spec, Table
from fairveil.lab.papers.thesis_words import ThesisArtefact
from fairveil.randomness import generator
from fairveil.registry import register

VALUES = (0.1, 0.3, 0.5, 0.7, 0.9)
MEANING = (
    "T with two digits: chance of state 1 at the next step, by state (first digit) and decision (second digit) now"
)
LEARNER = (
    "logistic regression on all attributes but race and sex, people reweighted to the rate of the moment; it depends "
    "on the rate alone and is tabulated at 41 rates"
)


def trained(transitions: Any, cutoffs: tuple[float, ...] = (0.5,), **more: Any) -> Spec:
    return {
        "task": "qualification-trained",
        "data": "compas",
        "cutoffs": list(cutoffs),
        "transitions": np.asarray(transitions).tolist(),
        "seed": 5,
        **more,
    }


def ratio_grid(k: float, other: float | None = None) -> np.ndarray:
    """T00 and T10 over the five values; T11 = k T10 and T01 = k T00, or ``other`` times T00."""
    first = k if other is None else other
    return np.array([[[t00, first * t00], [t10, k * t10]] for t00 in VALUES for t10 in VALUES])


class _Oscillation(ThesisArtefact):
    data = ("compas",)

    def pictures(self, results: Results) -> list[Picture]:
        out: list[Picture] = []
        for label, found in results.items():
            table = np.array(found["spec"]["transitions"])
            swing = np.round(found["metrics"]["swing"]["0.5"], 6)
            values = tuple(tuple(swing[np.isclose(table[:, 1, 0], t10)]) for t10 in VALUES)
            axes = "T00 (state 0, decision 0)", "T10 (state 1, decision 0)"
            said = "swing of the recidivism rate (0: settles)"
            out.append(Heatmap(label, *axes, said, VALUES, VALUES, values, (0.0, 1.0)))
        return out


@register("artefact", "thesis/5.5")
class Figure55(_Oscillation):
    """COMPAS: oscillation for other combinations of transitions."""

    title = "Figure 5.5: oscillation of recidivism, acceptance lowers T10 to k T10 and T00 to k' T00"
    source = "section 5.8"
    notes = (MEANING, LEARNER, "the ratios of T01 in the other panels are not given; 0.1, 0.5 and 0.9 are used")

    def specs(self, scale: Scale) -> dict[str, Spec]:
        return {
            f"k = {k:g}, k' = {other:g}": trained(ratio_grid(k, other)) for k in VALUES for other in (0.1, 0.5, 0.9)
        }

    def claims(self, results: Results) -> list[Claim]:
        swing = {label: float(np.mean(found["metrics"]["swing"]["0.5"])) for label, found in results.items()}
        return [
            Claim.exact(
                "decisions with much influence oscillate, decisions with little do not",
                "figure 5.5",
                swing["k = 0.1, k' = 0.1"] - swing["k = 0.9, k' = 0.9"] - 1e-6,
            )
        ]


@register("artefact", "thesis/5.6")
class Figure56(_Oscillation):
    """COMPAS: oscillation when acceptance lowers both transitions by a ratio."""

    title = "Figure 5.6: oscillation of recidivism, acceptance lowers both transitions by the ratio k"
    source = "section 5.8"
    notes = (MEANING, LEARNER, "k = 0, 1 in the text is read as k = .1")

    def specs(self, scale: Scale) -> dict[str, Spec]:
        return {f"k = {k:g}": trained(ratio_grid(k)) for k in VALUES}

    def claims(self, results: Results) -> list[Claim]:
        still = {label: 1.0 - float(np.mean(found["metrics"]["oscillates"]["0.5"])) for label, found in results.items()}
        low = []
        for found in results.values():
            table = np.array(found["spec"]["transitions"])
            low.append(np.array(found["metrics"]["oscillates"]["0.5"])[table[:, 0, 0] <= 0.5])
        return [
            Claim.exact(
                "most systems settle when k >= 0.5",
                "section 5.8",
                min(still[f"k = {k:g}"] for k in (0.5, 0.7, 0.9)) - 0.5,
            ),
            Claim.exact("most systems settle when T00 <= 0.5", "section 5.8", 0.5 - float(np.concatenate(low).mean())),
            Claim.exact("other systems oscillate", "section 5.8", 1.0 - still["k = 0.1"]),
        ]


@register("artefact", "thesis/table-5.3")
class Table53(ThesisArtefact):
    """COMPAS: other cut-offs and oscillation over 125 transitions per condition."""

    title = "Table 5.3: higher and lower cut-offs, share of oscillating systems"
    source = "section 5.8"
    data = ("compas",)
    notes = (
        LEARNER,
        "the 125 transitions are not listed; the larger chance of each state takes the five values .1 to .9 and the "
        "smaller one k times it, k over the same values",
    )

    def specs(self, scale: Scale) -> dict[str, Spec]:
        return {case: trained(transition_grid(case), (0.5, 0.8, 0.2)) for case in ("1a", "1b", "1c", "1d")}

    def rows(self, results: Results) -> dict[str, list[float]]:
        out = {}
        for case, found in results.items():
            rate = {key: np.array(value) for key, value in found["metrics"]["rate"].items()}
            moves = {key: np.array(value) for key, value in found["metrics"]["oscillates"].items()}
            row = []
            for key in ("0.8", "0.2"):
                keep = ~moves["0.5"] & ~moves[key]
                row.append(float((rate[key] < rate["0.5"] - 1e-9)[keep].mean()))
            out[case] = [*row, *(float(moves[key].mean()) for key in ("0.5", "0.8", "0.2"))]
        return out

    def pictures(self, results: Results) -> list[Picture]:
        rows = tuple((case, *(round(value, 2) for value in row)) for case, row in self.rows(results).items())
        columns = (
            "condition",
            "high cut-off lowers recidivism",
            "low cut-off lowers recidivism",
            "optimal cut-off oscillates",
            "high cut-off oscillates",
            "low cut-off oscillates",
        )
        return [Table("Share of transitions", columns, rows)]

    def claims(self, results: Results) -> list[Claim]:
        rows = self.rows(results)
        return [
            Claim.exact("(1a) a higher cut-off never lowers recidivism", "proposition 3", 0.005 - rows["1a"][0]),
            Claim.exact("(1a) a lower cut-off always lowers it", "proposition 3", rows["1a"][1] - 0.995),
            Claim.exact("(1b) a higher cut-off lowers it nearly always", "proposition 3", rows["1b"][0] - 0.9),
            Claim.exact("(1b) a lower cut-off nearly never does", "proposition 3", 0.1 - rows["1b"][1]),
            Claim.exact(
                "no oscillation under 1b and 1c", "section 5.8", 1e-9 - max(max(rows[c][2:]) for c in ("1b", "1c"))
            ),
            Claim.exact("oscillation occurs under 1a", "section 5.8", rows["1a"][2]),
            Claim.exact(
                "(1a) a higher cut-off oscillates less, a lower one more",
                "table 5.3",
                min(rows["1a"][2] - rows["1a"][3], rows["1a"][4] - rows["1a"][2]),
            ),
        ]


@register("artefact", "thesis/table-5.4")
class Table54(ThesisArtefact):
    """COMPAS: long-run recidivism under three cut-offs for five random transitions."""

    title = "Table 5.4: recidivism in the long run under three cut-offs"
    source = "section 5.8"
    data = ("compas",)
    notes = (
        LEARNER,
        "transitions are drawn at random from condition 1a, the only one in which the printed order (low, optimal, "
        "high) holds throughout; only the order can be compared",
    )

    def specs(self, scale: Scale) -> dict[str, Spec]:
        rng = generator(54)
        made = {}
        for k in range(5):
            tables = [draws.random_transitions(rng, "1a", gap=0.6)]
            made[f"run {k + 1}"] = trained(tables, (0.5, 0.8, 0.2), resample=True, seed=100 + k)
        return made

    def pictures(self, results: Results) -> list[Picture]:
        rows = tuple(
            (label, *(round(found["metrics"]["rate"][key][0], 3) for key in ("0.5", "0.8", "0.2")))
            for label, found in results.items()
        )
        return [
            Table(
                "Recidivism in the long run",
                ("run", "optimal cut-off 0.5", "high cut-off 0.8", "low cut-off 0.2"),
                rows,
            )
        ]

    def claims(self, results: Results) -> list[Claim]:
        rates = np.array(
            [[found["metrics"]["rate"][key][0] for key in ("0.2", "0.5", "0.8")] for found in results.values()]
        )
        return [
            Claim.illustration(
                "low below optimal below high in every run",
                "table 5.4",
                float(np.diff(rates, axis=1).min()),
                "transitions are drawn from condition 1a, under which proposition 3 gives this order",
            )
        ]
