"""A page that shows what attacks win where protection is missing, and against the code that serves people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairveil.lab.artefact import Chart, Line, Table
from fairveil.lab.report import Section, write_report

Result = Mapping[str, Any]
"""What an attack achieved, as plain data (its `to_dict`)."""
SIDES = ("without the protection", "fairveil", "chance")
LEAD = (
    "Each attack is played many times: against a twin that lacks one protection, and against the code that serves "
    "people. What it wins against us must be explained by chance, the most anybody can win under the promise."
)


def write_page(results: Sequence[Result], file: Path) -> Path:
    """One section an attack and a table of all, in one offline page."""
    rows = tuple(
        (
            result["attack"],
            result["game"],
            result["bare"],
            result["ours"],
            result["chance"],
            "held" if result["held"] else "BEATEN",
        )
        for result in results
    )
    columns = ("attack", "the attacker wins by", *SIDES, "verdict")
    sections = [
        Section("all", "All attacks", "Attacks", pictures=[Table("How often the attacker wins", columns, rows)])
    ]
    return write_report([*sections, *map(_section, results)], file, title="Attacks on privacy in practice", lead=LEAD)


def _section(result: Result) -> Section:
    chance, title = result["chance"], f"{result['attack']}: {result['game']}"
    low, high = ((result[f"bare_{end}"], result[f"ours_{end}"], chance) for end in ("low", "high"))
    bars = Line("share of games won", SIDES, (result["bare"], result["ours"], chance), low, high)
    chart = Chart(title, "", "share of games won", (bars,), kind="bars", y_range=(0.0, 1.0))
    return Section(
        result["attack"],
        result["attack"],
        "Attacks",
        text=[f"The attacker wants to {result['game']}.", f"Why it fails here: {result['words']}."],
        pictures=[chart],
        facts=f"{result['games']} games a side",
    )
