"""A released series as a picture for the public: dates, the line with its band, the last weeks large, the whole small.

Reads the output of `fairveil release` and nothing else.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from fairveil.errors import InputError
from fairveil.lab.plots import FONTS, PALETTE, charting, write_picture
from fairveil.lab.series import MOST, RECENT, called, days, stretches, thinned

GREY = "#8A8A8A"
"""Lost steps, on light and dark ground."""
GROUND = "#DADADA"
"""Behind lost steps, from top to bottom."""
WIDTH = 640
"""As wide as keeps the words of a picture readable where a phone shrinks it."""


def read_released(file: Path, *, as_json: bool) -> list[dict[str, Any]]:
    """The lines of an output."""
    with open(file, newline="", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines] if as_json else list(csv.DictReader(lines))


def points(rows: Sequence[dict[str, Any]], label: str, names: Sequence[str]) -> tuple[list[dict[str, Any]], bool]:
    """One point a step and column with its interval, and whether labels are times."""
    found: list[dict[str, Any]] = []
    dated = bool(rows) and all(_is_time(str(row[label])) for row in (rows[0], rows[-1])) and label != "step"
    for place, row in enumerate(rows):
        for name in names:
            if row[name] not in ("", None):
                low, value, high = (float(row[f"{name}{part}"]) for part in ("_low", "", "_high"))
                at = str(row[label]) if dated else place
                lost = row.get("status") == "lost"
                point = {"x": at, "step": place, "name": name, "y": value, "low": low, "high": high, "lost": lost}
                found.append(point)
    if not found:
        raise InputError("nothing was released that could be drawn", path="plot", allowed="an output with lines")
    return found, dated


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _days(data: Sequence[dict[str, Any]]) -> float:
    """Days from the first point to the last."""
    first, last = (datetime.fromisoformat(str(data[place]["x"])) for place in (0, -1))
    return abs(last - first).total_seconds() / 86_400


def _dates(data: Sequence[dict[str, Any]]) -> str:
    """How dates are written below a picture: by its length, one way for all of them."""
    days = _days(data)
    return "%a %H:%M" if days <= 3 else "%d %b" if days <= 300 else "%b %Y"


def _clock(rows: Sequence[dict[str, Any]], label: str) -> tuple[datetime, timedelta] | None:
    """The first time and the length of a step, as the first two labels say; None where time does not go on."""
    first, second = (datetime.fromisoformat(str(row[label])) for row in rows[:2])
    return (first, second - first) if second > first else None


def stream_chart(rows: Sequence[dict[str, Any]], label: str, names: Sequence[str]) -> Any:
    """The last steps large, everything small below it."""
    alt = charting()
    every, dated = points(rows, label, names)
    last = [row for name in names for row in [one for one in every if one["name"] == name][-RECENT:]]
    colours = alt.Scale(domain=list(names), range=[PALETTE[i % len(PALETTE)] for i in range(len(names))])
    kind = "T" if dated else "Q"

    def part(data: list[dict[str, Any]], height: int, title: str, top: bool) -> Any:
        ticks = {"format": _dates(data), "tickCount": 8} if dated else {}
        below = alt.Axis(labelOverlap="greedy", labelSeparation=12, **ticks, **FONTS)
        x = alt.X(f"x:{kind}", title=None if dated else "step", axis=below)
        scale = alt.Scale(zero=False)
        legend = alt.Legend(orient="bottom", title=None) if top and len(names) > 1 else None
        colour = alt.Color("name:N", scale=colours, legend=legend)
        base = alt.Chart(alt.Data(values=stretches(data))).encode(x=x, color=colour, detail="part:N")
        axis = alt.Axis(tickCount=6 if top else 3, **FONTS)
        band = base.mark_area(opacity=0.3).encode(y=alt.Y("low:Q", scale=scale, axis=axis, title=None), y2="high:Q")
        tips = [alt.Tooltip(f"x:{kind}", title=label), "name:N", alt.Tooltip("y:Q", format=",.4~g")]
        line = base.mark_line(strokeWidth=1.6 if top else 1).encode(
            y=alt.Y("y:Q", scale=scale, title=None), tooltip=tips
        )
        lost = [row for row in data if row["lost"]]
        layers, said = band + line, title
        if lost:
            marks = alt.Chart(alt.Data(values=lost))
            dots = marks.mark_point(color=GREY, size=24, filled=True, opacity=1)
            ground = marks.mark_rule(color=GROUND, strokeWidth=max(3.0, WIDTH / len(data)), opacity=1).encode(x=x)
            layers = alt.layer(
                ground, band, line, dots.encode(x=x, y=alt.Y("y:Q", scale=scale, title=None), tooltip=tips)
            )
            said += "; grey: lost, a forecast" if top else "; grey: some lost"
        return layers.properties(width=WIDTH, height=height, title=said)

    steps = len({row["x"] for row in last})
    long = f"{_days(last):,.0f} days" if dated and _days(last) >= 2 else f"{steps:,} steps"
    large = part(last, 300, f"private: {', '.join(names)}, the last {long}; shaded: the interval", True)
    if steps >= len(rows):
        return large.configure_title(fontSize=12)
    clock = _clock(rows, label) if dated else None
    what = called(clock[1] if clock else None)
    means, neighbours = thinned(every, MOST, days(*clock) if clock else None, what)
    title = f"all {len(rows):,} {what}, {neighbours}: means; shaded: all that their intervals hold"
    return alt.vconcat(large, part(means, 90, title, False)).configure_title(fontSize=12)


def draw_stream(out: Path, label: str, names: Sequence[str], file: Path, *, as_json: bool = False) -> None:
    """Draw the output of a release."""
    write_picture(stream_chart(read_released(out, as_json=as_json), label, names), file)
