"""Building the report from reproductions, or from any sections."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairveil.lab import papers
from fairveil.lab.artefact import Chart, Claim, Heatmap, Picture, Table, readable, say
from fairveil.lab.page import figure, write_page
from fairveil.lab.plots import Colours, draw, page_colours
from fairveil.lab.reproduce import Reproduction


@dataclass
class Section:
    """One part of a report."""

    name: str
    title: str
    group: str = ""
    text: list[str] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    guarantees: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warning: str = ""
    facts: str = ""


def section_of(made: Reproduction) -> Section:
    """A reproduction as a section."""
    artefact = made.artefact
    promises = [
        (label, result["guarantee"]) for label, result in made.results.items() if result["guarantee"] is not None
    ]
    warning, paper = "", artefact.name.split("/")[0]
    if made.generated:
        warning = f"Made with generated data: {', '.join(made.generated)} not on this machine (fairveil data fetch)."
    return Section(
        name=artefact.name,
        title=artefact.title,
        group=papers.NAMES.get(paper, paper),
        text=[say((type(artefact).__doc__ or "").strip(), artefact.words), f"Source: {artefact.source}."],
        pictures=made.pictures,
        claims=made.claims,
        guarantees=_distinct(promises),
        notes=[say(note, artefact.words) for note in artefact.notes],
        warning=warning,
        facts=f"scale {made.scale}; {len(made.results)} specs; {made.cpu_seconds:.1f} CPU s",
    )


def _distinct(promises: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    """Equal guarantees once, with all their labels."""
    merged: dict[str, tuple[list[str], dict[str, Any]]] = {}
    for label, promise in promises:
        key = json.dumps(promise, sort_keys=True)
        merged.setdefault(key, ([], promise))[0].append(label)
    return [(", ".join(labels), promise) for labels, promise in merged.values()]


class Report:
    """A page that grows and is written again and again: a section is drawn once, when it is added, because a name keeps
    the colour in which it first appears."""

    def __init__(self, file: Path, title: str) -> None:
        self.file, self.title = file, title
        self.pictures: list[Picture] = []
        self.parts: list[dict[str, Any]] = []

    def add(self, section: Section) -> None:
        self.pictures += section.pictures
        self.parts.append(_render(section, len(self.parts), page_colours(self.pictures)))

    def write(self, lead: str = "") -> Path:
        """One HTML file that opens without a network: interactive figures, static ones in print or without script."""
        return write_page(self.parts, self.file, title=self.title, lead=lead)


def write_report(sections: list[Section], file: Path, *, title: str, lead: str = "") -> Path:
    """The report of these sections, written once."""
    report = Report(file, title)
    for section in sections:
        report.add(section)
    return report.write(lead)


def _render(section: Section, number: int, colours: Colours) -> dict[str, Any]:
    pictures: list[dict[str, Any]] = []
    for index, picture in enumerate(section.pictures):
        if isinstance(picture, Table):
            pictures.append(
                {"kind": "table", "title": picture.title, "columns": picture.columns, "rows": _cells(picture)}
            )
        else:
            spec = draw(picture, colours=colours).to_dict()
            pictures.append(figure(f"figure-{number}-{index}", spec, in_words(picture)))
    return {
        "name": section.name,
        "anchor": re.sub(r"[^a-zA-Z0-9]+", "-", section.name),
        "title": section.title,
        "group": section.group,
        "text": [text for text in section.text if text],
        "pictures": pictures,
        "claims": [claim.to_dict() for claim in section.claims],
        "guarantees": section.guarantees,
        "notes": section.notes,
        "warning": section.warning,
        "facts": section.facts,
    }


def in_words(picture: Chart | Heatmap) -> str:
    """What a figure shows, for people who hear the page: its axes, and where each curve ends."""
    if isinstance(picture, Heatmap):
        values = [value for row in picture.values for value in row if value is not None]
        span = f" from {readable(min(values))} to {readable(max(values))}" if values else ""
        return f"{picture.title}: map of {picture.value_label} over {picture.x_label} and {picture.y_label},{span}."
    ends = [f"{item.name} {readable(item.y[-1])}" for item in picture.lines if item.y and item.y[-1] is not None]
    last = f" Last values: {', '.join(ends)}." if len(ends) <= 12 else f" {len(ends)} series."
    return f"{picture.title}: {picture.y_label} against {picture.x_label}.{last}"


def _cells(table: Table) -> list[list[str]]:
    return [[_cell(value) for value in row] for row in table.rows]


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return readable(value) if isinstance(value, int | float) else str(value)
