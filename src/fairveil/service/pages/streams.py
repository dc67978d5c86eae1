"""Pages of private streams beside the service: what `fairveil release` published, read-only."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fairveil.service.pages.verdicts import interval
from fairveil.service.pages.visit import Page, Visit
from fairveil.service.pages.words import amount, guarantee, listed
from fairveil.service.routes import route

SHOWN = 20
"""Lines in the table of one stream."""
MARKED = 60
"""Releases that a series marks at most."""


@route("GET", "/streams", "public", "private streams", page=True)
def streams(visit: Visit) -> Page:
    return Page("streams.html", {"rows": [_told(one) for one in visit.ask("GET", "/v1/streams")["streams"]]})


@route("GET", "/streams/{stream}", "public", "one private stream", page=True)
def stream(visit: Visit) -> Page:
    found = visit.ask("GET", f"/v1/streams/{quote(visit.names[0], safe='')}")
    newest = [
        (line["at"], *(_value(line, name) for name in found["columns"]), line["status"]) for line in found["lines"]
    ]
    return Page("stream.html", {"it": _told(found), "rows": newest[::-1][:SHOWN], "figure": figure(found)})


def _told(found: dict[str, Any]) -> dict[str, Any]:
    """A stream with its last line and its promise in words."""
    last = found["lines"][-1] if found["lines"] else None
    values = [] if last is None else [(name, _value(last, name)) for name in found["columns"]]
    return {**found, "last": last, "values": values, "promise": guarantee(found["guarantee"])}


def _value(line: dict[str, Any], name: str) -> str:
    numbers = line["values"][name]
    return "nothing was released" if numbers is None else f"{amount(numbers[0])}, {interval(*numbers[1:])}"


def figure(found: dict[str, Any]) -> dict[str, Any] | None:
    """Its newest lines as a series; every line is a release, and marked where that leaves something to see."""
    lines = found["lines"]
    drawn = [
        {"name": name, "points": [[x, line["values"][name][0]] for x, line in enumerate(lines) if line["values"][name]]}
        for name in found["columns"]
    ]
    last = [f"{one['name']} {amount(one['points'][-1][1])}" for one in drawn if one["points"]]
    if len(lines) < 2 or not last:
        return None
    label = f"Newest {len(lines)} lines"
    shared = {"kind": "series", "x": "line", "label": label, "series": drawn, "domain": None}
    marks = list(range(len(lines))) if len(lines) <= MARKED else []
    return {**shared, "releases": marks, "says": f"{label}. At the end: {listed(last)}."}
