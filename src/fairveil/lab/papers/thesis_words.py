"""What the thesis' symbols and short names mean, said in every picture and claim of its artefacts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from fairveil.fairness.notions import thesis_words
from fairveil.lab.artefact import Artefact, Claim, Picture, Results, Scale, have, labelled

SYMBOLS = {
    **{f"alpha_{name}": f"qualification rate of group {name}" for name in "ab"},
    **{f"n_{name}": f"share of group {name}" for name in "ab"},
    **{f"N_{name}": f"users of group {name}" for name in "ab"},
    **{f"C_{name}": f"cost of group {name}" for name in "ab"},
    **{
        f"f_b^{label}": f"features of {people} of group b"
        for label, people in enumerate(("the unqualified", "the qualified"))
    },
    "beta_a = beta_b": "equal arrivals",
    "beta_a = 3 beta_b": "a arrives three times as often",
    "beta_a = beta_b/3": "a arrives a third as often",
    "beta_a/beta_b": "the ratio of arrivals",
    "N_a/N_b": "ratio of users",
    "sigma_b0": "deviation",
    "u_plus": "gain",
    "u_minus": "loss",
}
GROUPS = {
    "african-american": "African-American",
    "caucasian": "Caucasian",
    "hispanic": "Hispanic",
    "asian": "Asian",
}


def _criteria(rate: str) -> dict[str, str]:
    """Criteria as the thesis and its specs write them."""
    words = thesis_words(rate)
    return {**words, "eqopt": words["EqOpt"], "dp": words["DP"]}


class ThesisArtefact(Artefact):
    """Base of the figures and tables of the thesis."""

    words: ClassVar[dict[str, str]] = {**_criteria("tpr"), **SYMBOLS, **GROUPS}


class ParticipationArtefact(ThesisArtefact):
    """Base of the figures of chapter 4, whose EqOpt is equal false positives."""

    words: ClassVar[dict[str, str]] = {**ThesisArtefact.words, **_criteria("fpr")}


POLICIES = {"UN": "none", "EqOpt": "eqopt", "DP": "dp"}
"""The policies that chapters 5 and 6 compare, as specs write them."""
SOURCES = {"fitted": "Fitted betas", "tables": "Score tables"}


def sources() -> list[str]:
    """The thesis' betas always; the public score tables where they are."""
    return list(SOURCES) if have("fico") else ["fitted"]


class CreditArtefact(ThesisArtefact):
    """Base of what is run on the thesis' betas and on the public score tables, with a verdict for each.

    The betas of table 6.1 do not fit the public tables: ordinary fits give Caucasians who do not repay Beta(.95, 3.5).
    """

    data: ClassVar[tuple[str, ...]] = ("fico",)

    def made(self, scale: Scale, source: str) -> dict[str, dict[str, Any]]:
        """The specs on one source."""
        raise NotImplementedError

    def drawn(self, results: Results) -> list[Picture]:
        """The pictures of one source."""
        raise NotImplementedError

    def said(self, results: Results, source: str) -> list[Claim]:
        """The claims on one source."""
        raise NotImplementedError

    def specs(self, scale: Scale) -> dict[str, dict[str, Any]]:
        return {f"{source}: {label}": spec for source in sources() for label, spec in self.made(scale, source).items()}

    def pictures(self, results: Results) -> list[Picture]:
        return [
            replace(picture, title=f"{SOURCES[source]}: {picture.title}")
            for source, own in self.by_source(results)
            for picture in self.drawn(own)
        ]

    def claims(self, results: Results) -> list[Claim]:
        return [
            replace(claim, text=f"{SOURCES[source]}: {claim.text}")
            for source, own in self.by_source(results)
            for claim in self.said(own, source)
        ]

    @staticmethod
    def by_source(results: Results) -> list[tuple[str, Results]]:
        """The results of each source under their labels."""
        return [(source, own) for source in SOURCES if (own := labelled(results, f"{source}: "))]
