"""The points of a released series for whoever draws it: the last ones, or means of neighbours; lost steps apart."""

from __future__ import annotations

from typing import Any

RECENT = 336
"""Steps of the large picture: two weeks of hours."""
MOST = 180
"""Points of the small picture: means of neighbouring steps, with the lowest low and the highest high among them."""


def thinned(rows: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """At most so many points a column: groups of neighbours, with their mean and their whole band."""
    found: list[dict[str, Any]] = []
    for name in dict.fromkeys(row["name"] for row in rows):
        mine = [row for row in rows if row["name"] == name]
        size = -(-len(mine) // most)
        for first in range(0, len(mine), size):
            part = mine[first : first + size]
            found.append(
                {
                    "x": part[0]["x"],
                    "name": name,
                    "y": sum(row["y"] for row in part) / len(part),
                    "low": min(row["low"] for row in part),
                    "high": max(row["high"] for row in part),
                    "lost": any(row["lost"] for row in part),
                }
            )
    return found


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
