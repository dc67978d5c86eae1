"""What a result shows: its courses, who got what over time, published estimates, rates by group.

Of a simulated stream: what was released beside the truth, the last steps large, all of them as means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairveil.fairness.metrics import RATES
from fairveil.lab.artefact import Chart, Line, line, time_axis
from fairveil.lab.plain import stem_in_words
from fairveil.lab.series import MOST, RECENT, Cycle, thinned

MOST_ESTIMATES = 25
"""More estimates than this are not drawn side by side."""
HELD_OUT = "rates by group, held-out people, counted without noise; 95 % intervals"
MOST_ARMS = 10
"""Shares of more arms than this are not drawn over time."""


def result_charts(result: dict[str, Any]) -> list[Chart]:
    """One chart per series of a result, the groups of one series side by side; estimates; who got what over time;
    rates by group. Streams have charts of their own."""
    if result["spec"]["task"] == "stream":
        return stream_charts(result)
    axis, wide = time_axis(result)
    groups, curves = result["spec"].get("groups"), dict[str, list[Line]]()
    for name in result["series"]:
        stem, _, group = name.rpartition("_")
        of_group = isinstance(groups, Mapping) and group in groups
        curves.setdefault(stem if of_group else name, []).append(line(group if of_group else name, result, name))
    words = {name: stem_in_words(name) for name in curves}
    charts = [Chart(words[name], axis, words[name], tuple(curves[name]), log_x=wide) for name in curves]
    counted = result["metrics"].get("by_group") if result["spec"]["task"] == "classify" else None
    rates = [rates_chart(HELD_OUT, counted)] if counted else []
    return charts[:1] + estimate_charts(result) + allocation_charts(result) + charts[1:] + rates


def rates_chart(title: str, by_group: Mapping[str, Mapping[str, Any]]) -> Chart:
    """Bars with intervals: a group on the axis, a colour a rate."""
    lines = []
    for rate in RATES:
        known = {group: row for group, row in by_group.items() if row.get(rate) is not None}
        value, low, high = (tuple(row[rate + end] for row in known.values()) for end in ("", "_low", "_high"))
        lines.append(Line(rate.replace("_", " "), tuple(known), value, low, high))
    return Chart(title, "group", "rate", tuple(lines), kind="bars", y_range=(0.0, 1.0))


def allocation_charts(result: dict[str, Any]) -> list[Chart]:
    """The share of people on each arm from one checkpoint to the next, where a simulation counted them."""
    metrics = result["metrics"]
    shares = metrics.get("lab", {}).get("allocation", [])
    if not result["meta"]["simulated"] or len(shares) < 2 or len(shares[0]) > MOST_ARMS:
        return []
    names = metrics.get("arms") or [f"arm {arm}" for arm in range(len(shares[0]))]
    lines = [
        Line(str(name), tuple(metrics["checkpoints"]), tuple(row[arm] for row in shares))
        for arm, name in enumerate(names)
    ]
    axis, wide = time_axis(result)
    return [Chart("allocation over time", axis, "share of people", tuple(lines), log_x=wide, y_range=(0.0, 1.0))]


def estimate_charts(result: dict[str, Any]) -> list[Chart]:
    """What the first run has published, with its intervals: one chart a kind of number."""
    found = result["metrics"].get("estimates") or {}
    kinds = dict.fromkeys(item["what"] for item in found.get("items", ()))  # an evaluation has values by estimator
    charts = []
    for kind in kinds:
        items = [item for item in found["items"] if item["what"] == kind and item["value"] is not None]
        if not items or items[0]["low"] is None or len(items) > MOST_ESTIMATES:
            continue
        names, value, low, high = ([item[key] for item in items] for key in ("name", "value", "low", "high"))
        one = Line(f"{found['confidence']:.0%} interval", tuple(names), tuple(value), tuple(low), tuple(high))
        charts.append(Chart(f"published estimates: {kind}", "", kind, (one,), kind="points"))
    return charts


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
