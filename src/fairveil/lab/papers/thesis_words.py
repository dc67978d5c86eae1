"""What the thesis' symbols and short names mean, said in every picture and claim of its artefacts."""

from __future__ import annotations

from typing import ClassVar

from fairveil.lab.artefact import Artefact

CRITERIA = {
    "Simple": "no constraint",
    "UN": "no constraint",
    "EqOpt": "equal opportunity",
    "eqopt": "equal opportunity",
    "DP": "demographic parity",
    "dp": "demographic parity",
    "EqLos": "equal loss",
}
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


class ThesisArtefact(Artefact):
    """Base of the figures and tables of the thesis."""

    words: ClassVar[dict[str, str]] = {**CRITERIA, **SYMBOLS, **GROUPS}
