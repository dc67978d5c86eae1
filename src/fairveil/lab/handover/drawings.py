"""Intervals and rank curves as inline SVG: no script, the same on paper, colours that follow the page."""

from __future__ import annotations

import math
from html import escape

from fairveil.lab.handover.document import Bars, Curves, number

WIDTH, LABEL, RIGHT, ROW, TOP = 720, 170, 24, 26, 8
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#5F5F5F", "#8C510A")
LONGEST = 24
MIDDLING = 18
"""Names up to this length stand four to a row in a legend."""
MOST_ROWS = 60


def draw_bars(bars: Bars) -> str:
    """One row an entry: a line from low to high, a dot at the estimate, and a common axis below."""
    entries = bars.entries[:MOST_ROWS]
    low, high = min(entry[2] for entry in entries), max(entry[3] for entry in entries)
    ticks = round_ticks(low, high)
    first, last = min(low, ticks[0]), max(high, ticks[-1])
    height = TOP + ROW * len(entries) + 28

    def place(value: float) -> float:
        return LABEL + (value - first) / max(last - first, 1e-12) * (WIDTH - LABEL - RIGHT)

    bottom = TOP + ROW * len(entries)
    parts = [
        f'<line class="grid" x1="{place(t):.1f}" x2="{place(t):.1f}" y1="{TOP}" y2="{bottom}"/>'
        f'<text class="tick" x="{place(t):.1f}" y="{bottom + 18}" text-anchor="middle">{number(t)}</text>'
        for t in ticks
    ]
    for row, (name, value, start, stop) in enumerate(entries):
        y = TOP + ROW * (row + 0.5)
        parts.append(
            f"<g><title>{escape(name)}: {number(value)}, {number(start)} to {number(stop)}</title>"
            f'<text x="{LABEL - 10}" y="{y + 4:.1f}" text-anchor="end">{escape(short(name))}</text>'
            f'<line class="span" x1="{place(start):.1f}" x2="{place(stop):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<circle class="dot" cx="{place(value):.1f}" cy="{y:.1f}" r="4.5"/></g>'
        )
    return _svg(bars.title, height, parts)


def draw_curves(curves: Curves) -> str:
    """A curve a group over the scores, with its band; a legend below."""
    scores = [score for _, line, _, _ in curves.entries for score in line]
    low, high = min(scores), max(scores)
    left, plot, bottom = 54, 250, TOP + 250
    beside = 4 if max(len(short(name)) for name, *_ in curves.entries) <= MIDDLING else 2
    rows = math.ceil(len(curves.entries) / beside)
    height = bottom + 50 + 20 * rows

    def across(score: float) -> float:
        return left + (score - low) / max(high - low, 1e-12) * (WIDTH - left - RIGHT)

    def up(rank: float) -> float:
        return bottom - min(1.0, max(0.0, rank)) * plot

    parts = [
        f'<line class="grid" x1="{left}" x2="{WIDTH - RIGHT}" y1="{up(t):.1f}" y2="{up(t):.1f}"/>'
        f'<text class="tick" x="{left - 8}" y="{up(t) + 4:.1f}" text-anchor="end">{t:g}</text>'
        for t in (0, 0.25, 0.5, 0.75, 1)
    ]
    parts += [
        f'<text class="tick" x="{across(t):.1f}" y="{bottom + 18}" text-anchor="middle">{number(t)}</text>'
        for t in round_ticks(low, high)
        if low <= t <= high
    ]
    parts.append(f'<text class="tick" x="{WIDTH / 2}" y="{bottom + 36}" text-anchor="middle">score</text>')
    for place, (name, line, ranks, std) in enumerate(curves.entries):
        colour = COLOURS[place % len(COLOURS)]
        above = [f"{across(s):.1f},{up(r + 2 * std):.1f}" for s, r in zip(line, ranks)]
        below = [f"{across(s):.1f},{up(r - 2 * std):.1f}" for s, r in zip(line, ranks)]
        middle = " ".join(f"{across(s):.1f},{up(r):.1f}" for s, r in zip(line, ranks))
        x, y = left + 660 / beside * (place % beside), bottom + 56 + 20 * (place // beside)
        parts.append(
            f'<polygon points="{" ".join([*above, *reversed(below)])}" fill="{colour}" opacity="0.15"/>'
            f'<polyline points="{middle}" fill="none" stroke="{colour}" stroke-width="2"/>'
            f'<rect x="{x}" y="{y - 9}" width="14" height="4" fill="{colour}"/>'
            f'<text x="{x + 20}" y="{y - 2}">{escape(short(name))}</text>'
        )
    return _svg(curves.title, height, parts)


def round_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers that span an interval.

    >>> round_ticks(0.13, 0.71)
    [0.0, 0.2, 0.4, 0.6, 0.8]
    """
    span = max(high - low, 1e-9)
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10, 20) if span / (power * factor) <= most - 1)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [round(step * place, 12) for place in range(first, last + 1)]


def short(name: str) -> str:
    """A name that fits beside a drawing."""
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def _svg(title: str, height: float, parts: list[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )
