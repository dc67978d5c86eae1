"""What the thesis' symbols and short names mean, said in every picture and claim of its artefacts."""

from __future__ import annotations

from typing import ClassVar

from fairveil.fairness.notions import thesis_words
from fairveil.lab.artefact import Artefact

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
