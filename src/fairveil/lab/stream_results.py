"""Charts of a simulated stream: what was released beside the truth, the last steps large, all of them as means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fairveil.lab.artefact import Chart, Line
from fairveil.lab.series import MOST, RECENT, Cycle, thinned


def stream_charts(result: dict[str, Any]) -> list[Chart]:
    """The last steps, all steps as means of neighbours where there are more, and how far from the truth both were."""
    rows = {name: _rows(name, points) for name, points in result["series"].items()}
    last = max(row["step"] for row in rows["released"])
    recent = {name: [row for row in some if row["step"] > last - RECENT] for name, some in rows.items()}
    steps = len({row["step"] for row in recent["released"]})
    said = f"the last {steps:,} steps" if steps < len(rows["released"]) else f"all {steps:,} steps"
    found = [_chart(f"released and true: {said}; shaded: the interval", "value", recent["released"] + recent["true"])]
    if steps < len(rows["released"]):
        seasons = result["spec"]["releaser"].get("seasons")
        cycle = Cycle(min(seasons)) if isinstance(seasons, list) and seasons else None
        means, neighbours = thinned(rows["released"] + rows["true"], MOST, cycle)
        bare = [{**row, "low": None, "high": None} for row in means]
        found.append(_chart(f"all {last + 1:,} steps, {neighbours}: means", "value", bare))
    truth = {row["step"]: row["y"] for row in recent["true"]}
    errors = [
        {**row, "y": row["y"] - truth[row["step"]], "low": None, "high": None}
        for name in ("plain", "released")
        for row in recent[name]
    ]
    return [*found, _chart(f"error, released and without a filter (plain): {said}", "error", errors)]


def _rows(name: str, points: dict[str, list[float]]) -> list[dict[str, Any]]:
    low, high = (points.get(end, points["y"]) for end in ("low", "high"))
    return [
        {"name": name, "step": int(x), "x": x, "y": y, "low": low[place], "high": high[place], "lost": False}
        for place, (x, y) in enumerate(zip(points["x"], points["y"]))
    ]


def _chart(title: str, label: str, rows: list[dict[str, Any]]) -> Chart:
    return Chart(title, "step", label, tuple(_line(name, rows) for name in dict.fromkeys(row["name"] for row in rows)))


def _line(name: str, rows: Iterable[dict[str, Any]]) -> Line:
    own = [row for row in rows if row["name"] == name]
    x, y, low, high = (tuple(row[key] for row in own) for key in ("step", "y", "low", "high"))
    banded = any(a != b for a, b in zip(low, high))
    return Line(name, x, y, low if banded else (), high if banded else ())
