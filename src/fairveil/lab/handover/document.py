"""What a report says, as plain data: one content for paper, screen and Markdown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

NOT_RELEASED = "not released"
SILENCE = "bounds with the silent ones"
STOOD_IN = (
    "Where somebody takes part more often than the loop counts, keeps an option or excludes one, a published number "
    "stands in for the outcome and counts as an answer: intervals are proven where nobody does, and are too narrow "
    "where many do."
)


@dataclass(frozen=True)
class TextGrid:
    """A table: its head and its rows."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Bars:
    """Estimates with their intervals, to be drawn; entries (name, value, low, high)."""

    title: str
    entries: tuple[tuple[str, float, float, float], ...]


@dataclass(frozen=True)
class Curves:
    """A table of ranks a group, to be drawn with a band of two standard deviations; (name, scores, ranks, std)."""

    title: str
    entries: tuple[tuple[str, tuple[float, ...], tuple[float, ...], float], ...]


Stretch = tuple[str, tuple[float, ...], tuple[float, ...], tuple[float, ...], tuple[float, ...]]
"""A name, its places, and its value, low and high at each."""


@dataclass(frozen=True)
class BandedLines:
    """Curves with bands over a logarithmic axis, to be drawn; entries (name, x, y, low, high)."""

    title: str
    x_label: str
    entries: tuple[Stretch, ...]


@dataclass(frozen=True)
class Course:
    """A released series, to be drawn with its band, and the steps (place, value) that were lost between its stretches.

    ``ticks``: what stands below it, (place, words).
    """

    title: str
    stretches: tuple[Stretch, ...]
    lost: tuple[tuple[float, float], ...] = ()
    ticks: tuple[tuple[float, str], ...] = ()
    x_label: str = ""
    height: int = 200


@dataclass
class DocumentSection:
    """A heading with sentences, points, tables and drawings; ``withheld`` says what is not released, and why."""

    title: str
    text: list[str] = field(default_factory=list)
    grids: list[TextGrid] = field(default_factory=list)
    drawings: list[Bars | Curves | BandedLines | Course] = field(default_factory=list)
    points: list[str] = field(default_factory=list)
    withheld: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    marked: str = ""
    """A warning that stands above the section."""


@dataclass
class Document:
    """A report: title, one line about what it is, a banner where nothing real was protected, key figures, sections."""

    title: str
    about: str
    banner: str = ""
    figures: list[tuple[str, str]] = field(default_factory=list)
    sections: list[DocumentSection] = field(default_factory=list)
    made: str = ""
    deployment: Any = None
    """What a registry asks for (`fairveil.lab.handover.registry_entry.Deployment`), None where nobody is protected."""


def number(value: float | None, digits: int = 3) -> str:
    """A number as a reader wants it.

    >>> number(0.12345), number(12345.6), number(None)
    ('0.123', '12,346', 'not released')
    """
    if value is None:
        return NOT_RELEASED
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"


def briefly(budget: str) -> str:
    """A budget at a glance; its table has all digits.

    >>> briefly("rho 0.62859161374"), briefly("epsilon 1")
    ('rho 0.6286', 'epsilon 1')
    """
    return re.sub(r"\d+\.\d{4,}", lambda found: f"{float(found.group()):.4g}", budget)


def sentence(note: str) -> str:
    """A note as a sentence."""
    text = note.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


HEADS = {
    "mean reward": "option (mean outcome, scaled to 0 to 1)",
    "score weight": "weight in the score",
    "rank uncertainty": "group (standard deviation of a middle rank)",
    "parameter": "parameter",
    "merit": "merit",
}


def estimates_section(found: dict[str, Any]) -> DocumentSection:
    """Estimates with intervals as tables and drawings, from the plain data of `Estimates.to_dict`."""
    section = DocumentSection("What is known, and how surely")
    if not found["items"]:
        section.withheld.append("This policy publishes its decisions and nothing else.")
        return section
    share = f"{found['confidence']:.0%}"
    section.text.append(
        f"This is made of published numbers alone and cost no further budget. Intervals are {share} intervals and "
        "include the privacy noise."
    )
    for kind in dict.fromkeys(item["what"] for item in found["items"]):
        items = [item for item in found["items"] if item["what"] == kind]
        bounded = any(item["low"] is not None for item in items)
        head = (HEADS.get(kind, kind), "estimate", *((f"{share} interval",) if bounded else ()))
        wider = any("lowest" in item for item in items)
        head += (SILENCE,) if wider else ()
        rows = [
            (
                item["name"],
                number(item["value"]),
                *((_span(item),) if bounded else ()),
                *((_span(_never_narrower(item), "lowest", "highest"),) if wider else ()),
            )
            for item in items
        ]
        section.grids.append(TextGrid(head, tuple(rows)))
        known = [item for item in items if item["value"] is not None and item["low"] is not None]
        if known:
            entries = tuple((item["name"], item["value"], item["low"], item["high"]) for item in known)
            section.drawings.append(Bars(f"{kind}, {share} intervals", entries))
    if found["tables"]:
        curves = ((t["name"], tuple(t["scores"]), tuple(t["ranks"]), t["std"]) for t in found["tables"])
        section.drawings.append(Curves("rank within the group by score, two standard deviations shaded", tuple(curves)))
    section.points += [sentence(note) for note in found["notes"]]
    return section


def _never_narrower(item: dict[str, Any]) -> dict[str, Any]:
    """Bounds with the silent ones count more rounds than the interval does, and may end up inside it: both hold."""
    if any(item.get(end) is None for end in ("low", "high", "lowest", "highest")):
        return item
    return {**item, "lowest": min(item["low"], item["lowest"]), "highest": max(item["high"], item["highest"])}


def _span(item: dict[str, Any], low: str = "low", high: str = "high") -> str:
    if item.get(low) is None or item.get(high) is None:
        return NOT_RELEASED
    return f"{number(item[low])} to {number(item[high])}"
