"""The theorems and propositions of the thesis, each on random instances that meet its premises."""

from __future__ import annotations

import re

from fairveil.fairness.notions import by_rule
from fairveil.lab.artefact import Claim, Picture, Results, Scale, Table
from fairveil.lab.papers.thesis_participation import Spec
from fairveil.lab.papers.thesis_words import ThesisArtefact
from fairveil.lab.theorems.sweeps import LINKED, statements
from fairveil.registry import register

CRITERIA = {rule: by_rule(rule, "fpr").words for rule in LINKED}
REACTIONS = {"labels": "label rates react", "features": "features react"}
MANY = ("theorem 15", "theorem 16", "theorem 26.1")
"""Statements that a whole thousand of instances is wanted for from the standard scale on."""


@register("artefact", "thesis/theorems")
class Theorems(ThesisArtefact):
    """Theorems 12 and 14 to 27 and propositions 3 to 8: instances tried, premises met, conclusions seen."""

    title = "Theorems 12, 14-27 and propositions 3-8 on random instances"
    source = "chapters 4 to 6 and appendices"
    notes = (
        "statements are read with the corrections of the errata; instances are drawn until enough meet the premises",
        "theorem 16 under demographic parity with label rates that react has counterexamples: see the errata",
        "theorem 19 as printed has counterexamples wherever the unconstrained policy is itself fair: see the errata; "
        "the line without 'as printed' has the missing premise",
    )

    def specs(self, scale: Scale) -> dict[str, Spec]:
        many, few = {"quick": (5, 5), "standard": (1000, 100), "paper": (1000, 1000)}[scale]
        return {
            name: {"task": "theorem", "statement": name, "count": many if name.startswith(MANY) else few, "seed": 0}
            for name in statements()
        }

    def pictures(self, results: Results) -> list[Picture]:
        columns = ("statement", "instances tried", "met the premises", "conclusion seen", "not seen")
        rows = tuple(
            (spoken(name), *(found["metrics"][key] for key in ("tried", "applied", "held", "failed")))
            for name, found in results.items()
        )
        return [Table("Statements on random instances", columns, rows)]

    def claims(self, results: Results) -> list[Claim]:
        return [
            Claim.exact(
                f"{spoken(name)}: the conclusion is seen on every instance that meets the premises",
                "chapters 4 to 6",
                _margin(found["metrics"]),
                f"{found['metrics']['held']} of {found['metrics']['applied']} instances",
            )
            for name, found in results.items()
        ]


def _margin(metrics: dict[str, int]) -> float:
    """One when nothing speaks against it and something for it; else how many instances are missing or against it."""
    return 1.0 if metrics["held"] and not metrics["failed"] else -max(1.0, metrics["failed"])


def spoken(statement: str) -> str:
    """A statement in plain words.

    >>> spoken("theorem 16 dp labels")
    'theorem 16 (demographic parity, label rates react)'
    """
    words = {**CRITERIA, **REACTIONS, "extreme": "in the limit", "printed": "as printed, features moved or stretched"}
    name, *more = re.split(r"(?<=\d) ", statement)
    return f"{name} ({', '.join(words[word] for word in more[0].split())})" if more else name
