"""Fair private classification: Lemma 2 and Theorems 1 to 3, printed and corrected."""

from __future__ import annotations

import itertools
from typing import ClassVar

from fairveil.classify.game.theory import lemma_2, third_term
from fairveil.lab.artefact import Artefact, Chart, Claim, Line, Picture, Results, Scale, Spec, Table
from fairveil.lab.papers.fair_private_classification import EPSILONS
from fairveil.registry import register


@register("artefact", "fair-private-classification/theorem-1")
class Theorem1(Artefact):
    """Exact fairness and pure privacy: which hypotheses stay exactly fair on a neighbouring distribution."""

    title = "Theorem 1: the printed example and the corrected one"
    source = "section 3, Theorem 1"
    notes = (
        "in the printed example each group has one positive point, so its true positive rate cannot change",
        "as stated the theorem is false where the data universe holds these four points only: always answering with "
        "the true labelling is private and fair; with neighbours beyond them the printed distribution serves",
    )

    def specs(self, scale: Scale) -> dict[str, Spec]:
        return {"counts": {"task": "impossibility"}}

    def pictures(self, results: Results) -> list[Picture]:
        printed, corrected = (results["counts"]["metrics"][name] for name in ("printed", "corrected"))
        rows = (
            ("printed", printed["fair"], printed["still_fair"], printed["still_fair"]),
            ("corrected", corrected["fair"], corrected["fair_on_some"], corrected["fair_on_all"]),
        )
        columns = ("example", "fair and better than constant", "fair on a neighbour", "fair on all neighbours")
        named = tuple(
            (name, found["fair"], found["lost"], "no bound" if found["deltas"] is None else f"{found['deltas']} \u03b4")
            for name, found in results["counts"]["metrics"]["extensions"].items()
        )
        heads = (
            "notion",
            "fair and better than constant",
            "unfair on some neighbour",
            "probability under (\u03b5, \u03b4)",
        )
        return [
            Table("hypotheses on a grid, counted in exact fractions", columns, rows),
            Table("named extensions, on the corrected example", heads, named),
        ]

    def claims(self, results: Results) -> list[Claim]:
        printed, corrected = (results["counts"]["metrics"][name] for name in ("printed", "corrected"))
        lost = printed["fair"] - printed["still_fair"]
        where = "Theorem 1 and its proof"
        return [
            Claim.exact("in the printed example a fair hypothesis is unfair on the neighbour", where, lost),
            Claim.exact(
                "where every point has both labels no fair, useful hypothesis stays fair on all neighbours",
                where, 1 if corrected["fair_on_all"] == 0 else -corrected["fair_on_all"],
            ),
            *(
                Claim.exact(
                    f"{name}: no fair, useful hypothesis stays fair on all neighbours", "after Theorem 1",
                    found["lost"] - found["fair"] + 0.5, f"{found['lost']} of {found['fair']} are lost",
                )
                for name, found in results["counts"]["metrics"]["extensions"].items()
            ),
        ]  # fmt: skip


@register("artefact", "fair-private-classification/lemma-2")
class Lemma2(Artefact):
    """The sensitivity of discrimination: the true change over all small data sets against the printed bound."""

    title = "Lemma 2: true sensitivity of the discrimination against its bound"
    source = "section 4 and appendix B, Lemma 2"
    notes = ("the bound depends on the data set: that is what the noisy sizes of the sound algorithm remove",)

    def pictures(self, results: Results) -> list[Picture]:
        found = local_sensitivities()
        sizes = sorted(found)
        true = Line("largest change by one replaced row", tuple(sizes), tuple(found[n][0] for n in sizes))
        bound = Line("2/(smallest group - 1)", tuple(sizes), tuple(found[n][1] for n in sizes), dashed=True)
        return [Chart("discrimination", "positives in the smaller group", "change", (true, bound))]

    def claims(self, results: Results) -> list[Claim]:
        found = local_sensitivities()
        slack = min(bound - true for true, bound in found.values())
        where = "Lemma 2"
        spread = max(bound for _, bound in found.values()) - min(bound for _, bound in found.values())
        return [
            Claim.exact("the bound of the proof, 2/(group - 1), covers every small data set", where, slack + 1e-12),
            Claim.exact("the bound is the same for every data set", where, -spread, "it is a local sensitivity"),
            Claim.exact(
                "as stated (ln(1/delta)/epsilon taken off the group) it is positive for 20 positives of 1,000 rows",
                where,
                lemma_2(20, 1000, 1.0)[0],
                "the covered form is that of the proof, 2/(group - 1)",
            ),
        ]


def local_sensitivities(largest: int = 5) -> dict[int, tuple[float, float]]:
    """By size of the smaller group: the largest change of |rate_0 - rate_1| by one row, and Lemma 2's bound."""
    found: dict[int, tuple[float, float]] = {}
    for n0, n1 in itertools.product(range(2, largest + 1), repeat=2):
        worst = 0.0
        for k0, k1 in itertools.product(range(n0 + 1), range(n1 + 1)):
            here = abs(k0 / n0 - k1 / n1)
            for (m0, j0), (m1, j1) in _replaced(n0, k0, n1, k1):
                if m0 >= 1 and m1 >= 1:
                    worst = max(worst, abs(abs(j0 / m0 - j1 / m1) - here))
        small = min(n0, n1)
        before = found.get(small, (0.0, 0.0))[0]
        found[small] = (max(before, worst), 2 / (small - 1))
    return found


def _replaced(n0: int, k0: int, n1: int, k1: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Positives and accepted positives of both groups after one row was replaced."""
    outs = [(d, a) for d in (0, 1) for a in (0, 1) if (k0, k1)[d] >= a and (n0, n1)[d] - (k0, k1)[d] >= 1 - a]
    changes = []
    for group, accepted in outs:
        rest = [[n0, k0], [n1, k1]]
        rest[group] = [rest[group][0] - 1, rest[group][1] - accepted]
        for into in ((0, 0), (0, 1), (1, 0), (1, 1), None):  # None: a negative takes the place
            after = [list(side) for side in rest]
            if into is not None:
                after[into[0]] = [after[into[0]][0] + 1, after[into[0]][1] + into[1]]
            changes.append(((after[0][0], after[0][1]), (after[1][0], after[1][1])))
    return changes


@register("artefact", "fair-private-classification/theorem-2")
class Theorem2(Artefact):
    """Sample sizes that Theorem 2 asks for, against the smallest group's share of positives."""

    title = "Theorem 2: sample size against the share of positives in the smaller group"
    source = "section 4, Theorem 2"
    notes = ("the last condition reads n > 4/(k eps)^2, not 2/(k eps)^2", "390 hypotheses, alpha 0.1, beta 0.05")
    SHARES: ClassVar[tuple[float, ...]] = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32)

    def _sizes(self, epsilon: float) -> list[float]:
        from fairveil.classify.game.theory import required_samples

        return [required_samples(390, 0.1, 0.05, epsilon / 2, share, share) for share in self.SHARES]

    def pictures(self, results: Results) -> list[Picture]:
        lines = tuple(Line(f"total epsilon {e:g}", self.SHARES, tuple(self._sizes(e))) for e in EPSILONS)
        return [Chart("sample size", "share of positives in the smaller group", "n", lines, log_x=True, log_y=True)]

    def claims(self, results: Results) -> list[Claim]:
        there, asked = 45_222.0, self._sizes(1.0)[self.SHARES.index(0.04)]
        printed, derived = third_term(390, 0.05)
        return [
            Claim.exact(
                "Adult (45,222 rows, 3.7 % of them positive women) is large enough at total epsilon 1", "Theorem 2",
                there - asked, f"asked for: {asked:.3g}",
            ),
            Claim.exact(
                "the third term is what the inequality before it gives", "Theorem 2", -abs(printed - derived),
                f"printed n >= {printed:.0f}, derived n >= {derived:.0f}; neither binds",
            ),
        ]  # fmt: skip


@register("artefact", "fair-private-classification/theorem-3")
class Theorem3(Artefact):
    """What Theorem 3 asks for: rounds, plays, noise, and the epsilon that its condition (2) demands."""

    title = "Theorem 3: sizes and the epsilon demanded"
    source = "appendix C.2, Theorem 3 and condition (2)"
    notes = ("alpha 0.1, beta 0.05, VC dimension 5, c_0 = 1, C = 1/alpha; epsilon 1, delta 1e-5",)
    ROWS: ClassVar[tuple[int, ...]] = (1_000, 10_000, 100_000, 10**6, 10**9, 10**12)

    def pictures(self, results: Results) -> list[Picture]:
        from fairveil.classify.game.theory import theory_rounds

        found = {n: theory_rounds(n, 0.1, 0.05, 5, 1.0, 1e-5).to_dict() for n in self.ROWS}
        columns = ("n", *next(iter(found.values())))
        rows = tuple((n, *numbers.values()) for n, numbers in found.items())
        lines = tuple(
            Line(said, self.ROWS, tuple(numbers[key] for numbers in found.values()), dashed=key == "epsilon_typeset")
            for said, key in (("as derived", "epsilon_demanded"), ("as typeset", "epsilon_typeset"))
        )
        return [
            Table("sizes", tuple(name.replace("_", " ") for name in columns), rows),
            Chart("epsilon that condition (2) demands", "n", "epsilon", lines, log_x=True, log_y=True, level=1.0),
        ]

    def claims(self, results: Results) -> list[Claim]:
        from fairveil.classify.game.theory import theory_rounds

        sizes = theory_rounds(100_000, 0.1, 0.05, 5, 1.0, 1e-5)
        return [
            Claim.exact(
                f"condition (2) as {said} can be met at epsilon 1 with 100,000 rows",
                "Theorem 3",
                1.0 - asked,
                f"demanded {asked:.3g}",
            )
            for said, asked in (("derived", sizes.epsilon_demanded), ("typeset", sizes.epsilon_typeset))
        ]
