"""The theorems, lemmas and propositions of the thesis, each on random instances that meet its premises."""

from __future__ import annotations

import re
from typing import Any

from fairveil.fairness.notions import by_rule
from fairveil.lab.artefact import Claim, Picture, Results, Scale, Spec, Table
from fairveil.lab.papers.thesis_words import ThesisArtefact
from fairveil.lab.theorems.statements import LINKED, statements
from fairveil.registry import register

COUNTS = {"quick": 30, "standard": 200, "paper": 1000}
ENOUGH = 100
"""A statement that fewer instances spoke to, where as many were wanted, is not called true."""
RARE = 1 / 15
"""How often a false statement is taken to fail, when we say how likely it is to be missed."""
PLANTED = "planted: "
WORDS = {
    **{rule: by_rule(rule, "fpr").words for rule in LINKED},
    "labels": "label rates react",
    "features": "features react",
    "extreme": "in the limit",
    "printed": "as printed, features moved or stretched",
    "contraction": "a contraction settles",
    "weaker": "every contraction meets theorem 18's condition",
    "utility": "the long-run utility",
    "apart": "where no rate is common",
}


@register("artefact", "thesis/theorems")
class Theorems(ThesisArtefact):
    """Theorems 12 to 27, lemmas 17 to 20, propositions 3 to 8: instances tried, premises met, conclusions seen."""

    title = "Theorems 12-27, lemmas 17-20, corollary 2 and propositions 3-8 on random instances"
    source = "chapters 4 to 6 and appendices"
    notes = (
        "statements are read with the corrections of the errata; instances are drawn freely until enough meet the "
        "premises, which are computed by brute force and not by the solvers that the conclusions are found with",
        f"a planted false variant of each statement (a premise left out, or the conclusion turned) is tested on the "
        f"first {COUNTS['quick']} instances of the same draw at every scale: what they refute, more would refute too",
        "theorem 16 with label rates that react and lemmas 17 and 19, all under demographic parity, lemma 18, theorem "
        "19 as printed and 'weaker' in section 5.7 have counterexamples: see the errata",
    )

    def specs(self, scale: Scale) -> dict[str, Spec]:
        made: dict[str, Spec] = {}
        for name, statement in statements().items():
            spec = {"task": "theorem", "statement": name, "count": COUNTS[scale], "seed": 0}
            made[name] = spec
            if statement.drop is not None:
                made[PLANTED + name] = {**spec, "planted": True, "count": COUNTS["quick"]}
        return made

    def pictures(self, results: Results) -> list[Picture]:
        columns = (
            "statement",
            "instances drawn",
            "met the premises",
            "of those drawn",
            "conclusion seen",
            "not seen",
            "planted variant refuted by",
        )
        rows = []
        for name, found in _plain(results).items():
            seen = found["metrics"]
            planted = results.get(PLANTED + name)
            against = f"{planted['metrics']['failed']} of {planted['metrics']['applied']}" if planted else "not planted"
            part = f"{100.0 * seen['applied'] / seen['tried']:.3g} %"
            rows.append((spoken(name), seen["tried"], seen["applied"], part, seen["held"], seen["failed"], against))
        return [Table("Statements on random instances", columns, tuple(rows))]

    def claims(self, results: Results) -> list[Claim]:
        found = [
            Claim.exact(
                f"{spoken(name)}: the conclusion is seen on every instance that meets the premises",
                "chapters 4 to 6",
                _margin(result),
                f"{result['metrics']['held']} of {result['metrics']['applied']} instances; "
                f"{missed(result['metrics']['applied'])}",
            )
            for name, result in _plain(results).items()
        ]
        blind = [name for name, result in results.items() if name.startswith(PLANTED) and not refuted(result)]
        unseen = ", ".join(spoken(name.removeprefix(PLANTED)) for name in blind)
        text = "every planted false variant is refuted at this sample size"
        return [*found, Claim.exact(text, "ours", -len(blind) or 1.0, f"not refuted: {unseen}" if blind else "")]


def _plain(results: Results) -> Results:
    return {name: found for name, found in results.items() if not name.startswith(PLANTED)}


def refuted(result: dict[str, Any]) -> bool:
    return bool(result["metrics"]["failed"])


def missed(count: int) -> str:
    """How likely so many instances are to miss a statement that fails once in fifteen.

    >>> missed(30)
    'a statement that fails once in 15 would be missed with probability 0.13'
    """
    return f"a statement that fails once in {1 / RARE:.0f} would be missed with probability {(1 - RARE) ** count:.2g}"


def _margin(result: dict[str, Any]) -> float:
    """One when nothing speaks against it and enough for it; else how many instances are missing or against it."""
    seen, wanted = result["metrics"], min(ENOUGH, result["spec"]["count"])
    if seen["failed"]:
        return -float(seen["failed"])
    return 1.0 if seen["applied"] >= wanted else float(seen["applied"] - wanted)


def spoken(statement: str) -> str:
    """A statement in plain words.

    >>> spoken("theorem 16 dp labels")
    'theorem 16 (demographic parity, label rates react)'
    """
    name, *more = re.split(r"(?<=\d) ", statement, maxsplit=1)
    return f"{name} ({', '.join(WORDS[word] for word in more[0].split())})" if more else name
