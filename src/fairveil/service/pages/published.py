"""Public pages: all loops, what a release says, what is kept, and private streams beside the service."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

from fairveil.loop.kept import TABLE, UNTIL
from fairveil.loop.listing import PAGE as LISTED
from fairveil.loop.waiting import under_way
from fairveil.reports.export import safe_cell
from fairveil.service.pages.verdicts import (
    JOB_WORDS,
    arm_name,
    figure,
    interval,
    job_of,
    shown,
    state_of,
    verdict,
    weights_of,
)
from fairveil.service.pages.visit import File, Onward, Page, Visit
from fairveil.service.pages.words import amount, count, guarantee, listed, url
from fairveil.service.routes import route

STATES = ("attention", "learning", "shadow", "frozen", "paused", "closed")
RELEASE = "/loops/{loop}/releases/{release}"


@route("GET", "/", "public", "all loops", page=True)
def home(visit: Visit) -> Page | Onward:
    limited = visit.visitor.token.loop
    if limited is not None:
        return Onward(f"/loops/{url(limited)}")
    after = visit.query.get("after", "")
    rows = [_row(table) for table in visit.ask("GET", f"/v1/loops?after={url(after)}")["loops"]]
    more = max((row["name"] for row in rows), default="") if len(rows) == LISTED else ""
    rows.sort(key=lambda row: (STATES.index(row["state"]) if row["state"] in STATES else 1, row["name"]))
    wanted = visit.query.get("state", "")
    counts = {
        state: sum(row["state"] == state for row in rows) for state in dict.fromkeys(row["state"] for row in rows)
    }
    shown = [row for row in rows if wanted in ("", row["state"])]
    facts = {"counts": counts, "wanted": wanted, "all": len(rows), "after": after, "more": more}
    return Page("home.html", {"rows": shown, **facts})


def _row(table: dict[str, Any]) -> dict[str, Any]:
    state, why = state_of(table)
    job = job_of(table)
    return {
        "name": table["name"],
        "job": JOB_WORDS[job],
        "state": state,
        "why": why,
        "decided": table["decided"],
        "waiting": under_way(table),
        "version": table["version"],
        "verdict": verdict(table),
        "simulated": table["simulated"],
        "fairness": (table["last_release"] or {}).get("words"),
    }


@route("GET", "/docs/kept", "public", "what is stored where and how long", page=True)
def kept(visit: Visit) -> Page:
    """From the table that erasure itself reads: a page cannot promise what the code does not do."""
    groups = [(words, [line for line in TABLE if line.until == until]) for until, words in UNTIL.items()]
    return Page("kept.html", {"groups": [(words.replace("`", ""), lines) for words, lines in groups if lines]})


@route("GET", RELEASE, "public", "one release", page=True)
def release(visit: Visit) -> Page:
    made = _release(visit)
    table = visit.ask("GET", visit.loop)
    context = {"release": made, "it": table, "rows": flat(made["value"]), **told(made, table)}
    return Page("release.html", context)


@route("GET", f"{RELEASE}/json", "public", "one release as a JSON file", page=True)
def release_json(visit: Visit) -> File:
    made = _release(visit)
    return File(json.dumps(made, indent=1).encode(), "application/json", _file_name(visit, "json"))


@route("GET", f"{RELEASE}/csv", "public", "one release as a CSV file", page=True)
def release_csv(visit: Visit) -> File:
    made = _release(visit)
    return File(as_csv(flat(made["value"])), "text/csv; charset=utf-8", _file_name(visit, "csv"))


def told(made: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    """What a release says: a sentence, a figure, tables and facts. A summary speaks like the loop did then."""
    if made["kind"] != "summary":
        return reported(made)
    then = {**table, **{key: value for key, value in made["value"].items() if key in table}}
    arms = then["published"].get("arms", [])
    rows = [
        (arm_name(row), amount(row["mean"]), "unknown" if row["mean"] is None else interval(row["low"], row["high"]))
        for row in arms
    ]
    tables: list[dict[str, Any]] = (
        [{"title": "Estimates", "columns": ("Option", "Mean", "Interval (95 %)"), "rows": rows}] if rows else []
    )
    weights = [(row["name"], amount(row["value"])) for row in weights_of(then)]
    if weights:
        tables.append({"title": "Weights", "columns": ("Feature", "Published weight"), "rows": weights})
    facts = [
        ("Covers", f"{count(made['stop'])} settled rounds, in {count(then['version'])} releases"),
        ("Cost", "nothing: it is made of published numbers"),
        ("Promise for one person", guarantee(then["person_guarantee"]) if then["person_guarantee"] else "none"),
        ("Promise for one event", guarantee(then["total_guarantee"] or then["guarantee"])),
    ]
    return {"sentence": verdict(then), "more": [], "figure": figure(then), "tables": tables, "facts": facts}


def reported(made: dict[str, Any]) -> dict[str, Any]:
    """What a private report says, in its own words."""
    value = made["value"]
    words = [str(line) for line in value.get("words", [])] or [made["id"]]
    charge = ", ".join(f"{name} {amount(number)}" for name, number in (value.get("charge") or {}).items())
    first, stop = made["first"], made["stop"]
    covers = f"{count(stop - first)} decisions, numbers {count(first)} to {count(stop - 1)}"
    facts = [("Covers", covers), ("Cost", charge or "nothing")]
    if value.get("guarantee"):
        facts.append(("Promise of this release", guarantee(value["guarantee"])))
    return {"sentence": words[0], "more": words[1:], "facts": facts, **shown(value)}


def _release(visit: Visit) -> dict[str, Any]:
    found: dict[str, Any] = visit.ask("GET", f"{visit.loop}/releases/{url(visit.names[1])}")
    return found


def _file_name(visit: Visit, kind: str) -> str:
    """Of harmless characters alone, whatever names hold."""
    plain = [re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "x" for name in visit.names]
    return f"{'-'.join(plain)}.{kind}"


def flat(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """A table of tables as rows of path and value.

    >>> flat({"a": {"b": 1}, "c": [2, None]})
    [('a.b', 1), ('c.0', 2), ('c.1', None)]
    """
    if isinstance(value, dict):
        items: Any = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return [(path, value)]
    return [row for key, one in items for row in flat(one, f"{path}.{key}" if path else str(key))]


def as_csv(rows: list[tuple[str, Any]], head: tuple[str, ...] = ("what", "value")) -> bytes:
    """CSV that no spreadsheet runs: text that begins like a formula gets an apostrophe.

    >>> as_csv([("=1+1", 2), ("-x", -0.5)])
    b"what,value\\r\\n'=1+1,2\\r\\n'-x,-0.5\\r\\n"
    """
    made = io.StringIO()
    write = csv.writer(made)
    write.writerow(head)
    for row in rows:
        write.writerow([safe_cell(cell) for cell in row])
    return made.getvalue().encode()


# Streams: what `fairveil release` published, read-only ---------------------------------------------------------------


SHOWN = 20
"""Lines in the table of one stream."""
MARKED = 60
"""Releases that a series marks at most."""


@route("GET", "/streams", "public", "private streams", page=True)
def streams(visit: Visit) -> Page:
    return Page("streams.html", {"rows": [_told(one) for one in visit.ask("GET", "/v1/streams")["streams"]]})


@route("GET", "/streams/{stream}", "public", "one private stream", page=True)
def stream(visit: Visit) -> Page:
    found = visit.ask("GET", f"/v1/streams/{url(visit.names[0])}")
    newest = [
        (line["at"], *(_value(line, name) for name in found["columns"]), line["status"]) for line in found["lines"]
    ]
    return Page("stream.html", {"it": _told(found), "rows": newest[::-1][:SHOWN], "figure": lines_drawn(found)})


def _told(found: dict[str, Any]) -> dict[str, Any]:
    """A stream with its last line and its promise in words."""
    last = found["lines"][-1] if found["lines"] else None
    values = [] if last is None else [(name, _value(last, name)) for name in found["columns"]]
    return {**found, "last": last, "values": values, "promise": guarantee(found["guarantee"])}


def _value(line: dict[str, Any], name: str) -> str:
    numbers = line["values"][name]
    return "nothing was released" if numbers is None else f"{amount(numbers[0])}, {interval(*numbers[1:])}"


def lines_drawn(found: dict[str, Any]) -> dict[str, Any] | None:
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
