"""Who stays when decisions are learned: figures 4.8 and 4.10 of the thesis chapter on group representation."""

from __future__ import annotations

import numpy as np

from fairveil.fairness.notions import by_cutoffs
from fairveil.lab.artefact import Chart, Claim, Picture, Results, Scale, Spec, have, line
from fairveil.lab.papers.thesis_participation import CRITERIA, SUPPORTS, chart, groups
from fairveil.lab.papers.thesis_words import ParticipationArtefact
from fairveil.registry import register

MOVING = ("simple", "fpr", "fnr")
"""Criteria of figure 4.8 under which shares drift apart."""


@register("artefact", "thesis/4.8")
class Figure48(ParticipationArtefact):
    """Adult: groups by sex, race and nationality, classifier retrained as groups leave."""

    title = "Figure 4.8: representation on Adult with trained classifiers"
    source = "section 4.5"
    data = ("adult",)
    notes = (
        "logistic regression on all other attributes; cut-offs of its score are tuned per group for equal false "
        "positives (FPC), equal false negatives (FNC) or equal loss",
        "the classifier depends on the groups' shares alone, so it is trained on a grid of shares and interpolated",
        "the generated stand-in has no nationality: that panel needs the real data",
    )

    def specs(self, scale: Scale) -> dict[str, Spec]:
        rows = {"quick": 3000, "standard": 15000, "paper": None}[scale]
        points = {"quick": 7, "standard": 11, "paper": 21}[scale]
        base = {
            "task": "participation-trained",
            "data": "adult",
            "rows": rows,
            "points": points,
            "steps": 60,
            "seed": 3,
        }
        specs = {
            "sex: a = Female": {**base, "column": "sex", "value": "Female"},
            "race: a = White": {**base, "column": "race", "value": "White"},
        }
        if have("adult"):
            specs["nationality: a = United-States"] = {**base, "column": "country", "value": "United-States"}
        return specs

    def pictures(self, results: Results) -> list[Picture]:
        return [
            Chart(
                f"Groups by {label}",
                "time",
                "n_a",
                tuple(line(by_cutoffs(key).words, found, f"share_{key}") for key in found["spec"]["criteria"]),
            )
            for label, found in results.items()
        ]

    def claims(self, results: Results) -> list[Claim]:
        moved, steady, against = [], [], []
        for found in results.values():
            for key in MOVING:
                share = np.array(found["series"][f"share_{key}"]["y"])
                moved.append(abs(share[-1] - 0.5))
                change = np.diff(share)
                against.append(max(0.0, float((-np.sign(change.sum()) * change).max())))
            steady.append(float(np.abs(np.array(found["series"]["share_eqloss"]["y"]) - 0.5).max()))
        return [
            Claim.exact("EqLos sustains both groups", "section 4.5", 1e-9 - max(steady)),
            Claim.exact(
                f"shares drift apart with {', '.join(by_cutoffs(key).words for key in MOVING)}",
                "figure 4.8",
                min(moved) - 0.01,
            ),
            Claim.exact("the drift is monotone", "figure 4.8", 1e-3 - max(against)),
        ]


@register("artefact", "thesis/4.10")
class Figure410(ParticipationArtefact):
    """Decisions learned from the users who remain, against Bayes optimal ones."""

    title = "Figure 4.10: learned decisions make disparity worse"
    source = "section 4.5"
    notes = (
        SUPPORTS,
        "arrivals are not given; 60 per step and group are used, few enough for estimation to matter",
        "the learner is not described. Here it is a plug-in: kernel estimates (width 1.06 deviations n^(-1/5)) from a "
        "sample as large as the users present, and the decision that is optimal for them; dynamics N' = (N + beta)(1 - "
        "loss)",
        "kernel estimates of a small group are smoother and cost it more: the claim is reproduced for Simple and EqOpt "
        "(also with 10 and 300 arrivals, and with two and three times the width), with fewer users of group a and more "
        "of group b as in (b) and (c); under DP it is not, with any width",
        "thresholds that minimise the error on the sample (decisions: learned; 3 to 300 arrivals) or that are optimal "
        "for fitted normals (3 and 10) do not reproduce it: their noise costs the majority, whose loss is small and "
        "steep beside its optimum, more",
    )

    def specs(self, scale: Scale) -> dict[str, Spec]:
        runs = {"quick": 36, "standard": 60, "paper": 300}[scale]
        steps = {"quick": 40, "standard": 60, "paper": 100}[scale]
        few = groups()
        for table in few.values():
            table["arrivals"] = 60.0
        out = {}
        for name, code in CRITERIA.items():
            base = {"task": "participation", "groups": few, "fairness": code, "growth": "join", "steps": steps}
            out[f"{name}, Bayes"] = base
            out[f"{name}, learned"] = {**base, "decisions": "kernel", "runs": runs, "seed": 7}
        return out

    def pictures(self, results: Results) -> list[Picture]:
        return [
            chart("(a) share of group a", "n_a", results, "share_a"),
            chart("(b) users of group a", "N_a", results, "numbers_a"),
            chart("(c) users of group b", "N_b", results, "numbers_b"),
        ]

    def claims(self, results: Results) -> list[Claim]:
        out = []
        for name in ("Simple", "EqOpt", "DP"):
            bayes, learned = results[f"{name}, Bayes"], results[f"{name}, learned"]
            spread = learned["metrics"]["share_std"]["a"] / np.sqrt(learned["spec"]["runs"])
            text = f"{name}: learning from the users left makes group a smaller still"
            out.append(
                Claim.difference(
                    text, "figure 4.10", bayes["metrics"]["share"]["a"], 0.0, learned["metrics"]["share"]["a"], spread
                )
            )
        return out
