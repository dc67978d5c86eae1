"""The thesis chapter on manipulation: groups, costs and credit scores that its artefacts share, figures 6.8 and 6.9.

Both figures, and those on credit scores, are surfaces: manipulation over two parameters.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fairveil.dynamics import fico_groups
from fairveil.lab.artefact import Claim, Heatmap, Picture, Results, Scale, Spec
from fairveil.lab.papers.thesis_words import POLICIES, ThesisArtefact
from fairveil.registry import register

GAUSS = {"0": ["normal", -5, 5], "1": ["normal", 5, 5]}
FICO = "features are the fitted betas of table 6.1, and the public score tables where they are present"


def group(qualified: float, cost: list[Any], features: Any = GAUSS, share: float = 0.5) -> Spec:
    return {"share": share, "qualified": qualified, "features": features, "cost": cost}


def spec(groups: Spec, fairness: str = "none", strategic: bool = True, **more: Any) -> Spec:
    return {"task": "strategic", "groups": groups, "fairness": fairness, "strategic": strategic, **more}


def credit(first: str, second: str, costs: tuple[list[Any], list[Any]], source: str = "fitted") -> Spec:
    people = fico_groups([first, second], source)
    return {name: {**table, "cost": cost} for (name, table), cost in zip(people.items(), costs, strict=True)}


def blurred_and_clear() -> dict[str, Any]:
    """The features of figures 6.3 and 6.6."""
    return {
        "a": {"0": ["normal", -2, 4.5], "1": ["normal", 2, 4.5]},
        "b": {"0": ["normal", -5, 4.5], "1": ["normal", 5, 4.5]},
    }


class Surfaces(ThesisArtefact):
    """Manipulation of two groups over two parameters under three policies."""

    panels: tuple[str, ...] = ("",)
    headings: ClassVar[dict[str, str]] = {}

    def axis(self, key: str) -> str:
        """What an axis of the grid is called."""
        return f"alpha_{key.split('.')[1]}" if key.endswith(".qualified") else key

    def surface(self, results: Results, panel: str, policy: str, name: str) -> np.ndarray:
        return np.array(results[f"{panel}{policy}"]["metrics"]["manipulation"][name])

    def change(self, results: Results, panel: str, policy: str, name: str) -> np.ndarray:
        return self.surface(results, panel, policy, name) - self.surface(results, panel, "UN", name)

    def pictures(self, results: Results) -> list[Picture]:
        out: list[Picture] = []
        for panel in self.panels:
            found = results[f"{panel}UN"]["spec"]
            (y_label, y), (x_label, x) = ((self.axis(key), self.numbers(axis)) for key, axis in found["grid"].items())
            for policy in POLICIES:  # the groups of one policy beside each other, the policies below
                for name in found["groups"]:
                    every = np.concatenate([self.surface(results, panel, other, name) for other in POLICIES])
                    who = f"group {name}" if len(name) == 1 else name
                    title = f"{self.headings.get(panel, panel)}{who}, {policy}"
                    values = tuple(tuple(row) for row in self.surface(results, panel, policy, name))
                    ends = float(every.min()), float(every.max())
                    out.append(Heatmap(title, x_label, y_label, "probability of manipulation", x, y, values, ends))
        return out

    @staticmethod
    def numbers(values: list[Any]) -> tuple[float, ...]:
        return tuple(float(next(iter(v.values())) if isinstance(v, dict) else v) for v in values)


def wide_and_narrow(first: float, second: float, share: float = 0.5) -> Spec:
    """The groups of figures 6.8 and 6.9."""
    narrow = {"0": ["normal", -5, 4], "1": ["normal", 5, 4]}
    return {
        "a": group(first, ["beta", 10, 1], narrow, share),
        "b": group(second, ["beta", 10, 1], GAUSS, 1.0 - share),
    }


@register("artefact", "thesis/6.8")
class Figure68(Surfaces):
    """Manipulation against the rate and share of a majority-qualified group."""

    title = "Figure 6.8: manipulation when the qualification rate of group b is 0.4"
    source = "section 6.7, theorem 26.1(i)"

    def specs(self, scale: Scale) -> dict[str, Spec]:
        count = {"quick": 8, "standard": 20, "paper": 40}[scale]
        shares = [{"groups.a.share": n, "groups.b.share": 1.0 - n} for n in np.linspace(0.5, 0.98, count).tolist()]
        grid = {"groups.a.qualified": np.linspace(0.51, 0.98, count).tolist(), "share of a": shares}
        return {name: spec(wide_and_narrow(0.6, 0.4), code, grid=grid, points=1024) for name, code in POLICIES.items()}

    def claims(self, results: Results) -> list[Claim]:
        out = []
        for policy in ("EqOpt", "DP"):
            up, down = self.change(results, "", policy, "a")[-1, -1], self.change(results, "", policy, "b")[-1, -1]
            text = f"{policy}: when group a is well qualified and large, it manipulates more and group b less"
            out.append(Claim.exact(text, "theorem 26.1(i)", float(min(up, -down))))
        return out


@register("artefact", "thesis/6.9")
class Figure69(Surfaces):
    """Manipulation when both groups are majority-qualified, or both are not."""

    title = "Figure 6.9: manipulation when both groups are equally large"
    source = "section 6.7, theorem 26.1(ii)"
    panels = ("high ", "low ")
    headings: ClassVar[dict[str, str]] = {"high ": "rates above 1/2: ", "low ": "rates below 1/2: "}

    def specs(self, scale: Scale) -> dict[str, Spec]:
        count = {"quick": 8, "standard": 20, "paper": 40}[scale]
        made = {}
        for panel, low, high in (("high ", 0.52, 0.97), ("low ", 0.03, 0.48)):
            values = np.linspace(low, high, count).tolist()
            grid = {"groups.a.qualified": values, "groups.b.qualified": values}
            for name, code in POLICIES.items():
                made[f"{panel}{name}"] = spec(wide_and_narrow(low, low), code, grid=grid, points=1024)
        return made

    def claims(self, results: Results) -> list[Claim]:
        out = []
        for panel, row in (("high ", -1), ("low ", 0)):
            for policy in ("EqOpt", "DP"):
                first, second = (self.change(results, panel, policy, name)[row] for name in "ab")
                apart = np.minimum(np.maximum(first, second), -np.minimum(first, second))
                said = f"{self.headings[panel]}{policy}"
                text = f"{said}: with an extreme alpha_a one group manipulates more, the other less"
                note = "the margin is the smaller of how much more one and how much less the other manipulates"
                out.append(Claim.exact(text, "theorem 26.1(ii)", float(apart.min()), note))
        return out
