"""The points of a released series for whoever draws it: the last ones, or means of neighbours; lost steps apart."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

RECENT = 336
"""Steps of the large picture: two weeks of hours."""
MOST = 180
"""Points of the small picture: means of neighbouring steps, with the lowest low and the highest high among them."""
FEWEST = 8
"""Whole turns of a cycle that make a picture of their means."""
DAY = timedelta(days=1)
CALLED = {timedelta(minutes=1): "minutes", timedelta(hours=1): "hours", DAY: "days", 7 * DAY: "weeks"}
"""What steps of these lengths are called."""


class Cycle(NamedTuple):
    """A turn of so many steps, of which so many lie ``before`` step 0; what turns are called."""

    steps: int
    before: int = 0
    called: str = "cycles"


def called(length: timedelta | None) -> str:
    """What steps of a length are; None is one that nobody has said.

    >>> called(timedelta(hours=1)), called(timedelta(minutes=15)), called(None)
    ('hours', 'steps', 'steps')
    """
    return CALLED.get(length, "steps") if length else "steps"


def days(start: datetime, length: timedelta) -> Cycle | None:
    """Days from midnight on a public clock; None where steps are no parts of a day.

    >>> days(datetime(2026, 1, 1, 6), timedelta(hours=1))
    Cycle(steps=24, before=6, called='days')
    """
    into = start - start.replace(hour=0, minute=0, second=0, microsecond=0)
    if length >= DAY or DAY % length or into % length:
        return None
    return Cycle(DAY // length, into // length, "days")


def thinned(
    rows: list[dict[str, Any]], most: int, cycle: Cycle | None = None, called: str = "steps"
) -> tuple[list[dict[str, Any]], str]:
    """At most so many points a column, each the mean of neighbours with their whole band, and what neighbours are.

    They are whole turns of a cycle where there are enough of them: means of other parts would show a wave of their own.
    """
    first, last = (end(row["step"] for row in rows) for end in (min, max))
    size, before = -(-(last - first + 1) // most), -first
    turning = cycle is not None and last - first + 1 >= FEWEST * cycle.steps
    if cycle is not None and turning:
        size, before = -(-size // cycle.steps) * cycle.steps, cycle.before
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["name"], (row["step"] + before) // size), []).append(row)
    whole = range(-(-(first + before) // size), (last + 1 + before) // size) if turning else None
    found = [_mean(name, part) for (name, place), part in groups.items() if whole is None or place in whole]
    return found, _neighbours(size, cycle if turning else None, called)


def _mean(name: str, part: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "x": part[0]["x"],
        "step": part[0]["step"],
        "name": name,
        "y": sum(row["y"] for row in part) / len(part),
        "low": min(row["low"] for row in part),
        "high": max(row["high"] for row in part),
        "lost": any(row["lost"] for row in part),
    }


def _neighbours(size: int, cycle: Cycle | None, called: str) -> str:
    if cycle is None:
        return f"{size:,} {called} at a time"
    turns = size // cycle.steps
    each = cycle.called if cycle.called == "days" else f"{cycle.called} of {cycle.steps:,} {called}"
    return f"in whole {each}" if turns == 1 else f"{turns:,} whole {each} at a time"


def stretches(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The points that are not lost, each with its ``part``: a line is drawn inside a part and not across lost steps."""
    found: list[dict[str, Any]] = []
    part, before = 0, None
    for row in rows:
        now = (row["name"], row["lost"])
        part += now != before
        before = now
        if not row["lost"]:
            found.append({**row, "part": part})
    return found
