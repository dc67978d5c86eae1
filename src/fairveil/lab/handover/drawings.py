"""Intervals, curves and series of a report as inline SVG: no script, the same on paper, colours that follow the page.

Each is drawn twice, for a screen and for a phone; the page shows the one that fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise

from fairveil.lab.handover.document import BandedLines, Bars, Course, Curves, number

Drawing = Bars | Curves | BandedLines | Course
WIDE, NARROW = 720, 340
"""Widths of the two forms; letters are as large in both."""
LABEL, RIGHT, ROW, TOP = 170, 24, 26, 8
ABOVE = 18
"""Room for a name above its interval, where there is none beside it."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#5F5F5F", "#8C510A")
LONGEST = 24
MOST_ROWS = 60
LEAST = 3.0
"""Width of the ground of a lost step."""
LETTER = 7.2
"""Width of a letter of a legend."""
Place = Callable[[float], float]


def drawn(drawing: Drawing) -> str:
    """A drawing as two pieces of SVG, of which a page shows one."""
    wide, narrow = (_drawn(drawing, width) for width in (WIDE, NARROW))
    return f'<div class="wide">{wide}</div><div class="narrow">{narrow}</div>'


def _drawn(drawing: Drawing, width: int) -> str:
    match drawing:
        case Bars():
            return draw_bars(drawing, width)
        case Curves():
            return draw_curves(drawing, width)
        case BandedLines():
            return draw_lines(drawing, width)
        case Course():
            return draw_course(drawing, width)


def draw_bars(bars: Bars, width: int) -> str:
    """One row an entry: a line from low to high, a dot at the estimate, and a common axis below."""
    entries = bars.entries[:MOST_ROWS]
    ticks = round_ticks(min(entry[2] for entry in entries), max(entry[3] for entry in entries), _most(width))
    beside = width == WIDE
    left, row = (LABEL, ROW) if beside else (RIGHT, ROW + ABOVE)
    bottom = TOP + row * len(entries)
    place = _scale(ticks[0], ticks[-1], left, width - RIGHT)
    parts = [
        f'<line class="grid" x1="{place(t):.1f}" x2="{place(t):.1f}" y1="{TOP}" y2="{bottom}"/>'
        f'<text class="tick" x="{place(t):.1f}" y="{bottom + 18}" text-anchor="middle">{number(t)}</text>'
        for t in ticks
    ]
    for line, (name, value, start, stop) in enumerate(entries):
        y = TOP + row * (line + 1) - ROW / 2
        at = f'x="{LABEL - 10}" y="{y + 4:.1f}" text-anchor="end"' if beside else f'x="2" y="{y - ABOVE + 4:.1f}"'
        parts.append(
            f"<g><title>{escape(name)}: {number(value)}, {number(start)} to {number(stop)}</title>"
            f"<text {at}>{escape(short(name))}</text>"
            f'<line class="span" x1="{place(start):.1f}" x2="{place(stop):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<circle class="dot" cx="{place(value):.1f}" cy="{y:.1f}" r="4.5"/></g>'
        )
    return _svg(bars.title, width, bottom + 28, parts)


def draw_curves(curves: Curves, width: int) -> str:
    """A curve a group over the scores, with its band; a legend below."""
    scores = [score for _, line, _, _ in curves.entries for score in line]
    low, high = min(scores), max(scores)
    left, bottom = 54, TOP + 250
    across, up = _scale(low, high, left, width - RIGHT), _scale(0.0, 1.0, bottom, TOP)
    parts = _levels((0, 0.25, 0.5, 0.75, 1), up, left, width)
    ticks = [t for t in round_ticks(low, high, _most(width)) if low <= t <= high]
    parts += [_below(across(t), bottom, number(t)) for t in ticks]
    parts.append(_below(width / 2, bottom + 18, "score"))
    for place, (_, line, ranks, std) in enumerate(curves.entries):
        ends = ([min(1.0, max(0.0, rank + shift)) for rank in ranks] for shift in (-2 * std, 2 * std))
        parts.append(_banded(COLOURS[place % len(COLOURS)], line, ranks, *ends, across=across, up=up))
    legend, height = _legend([short(name) for name, *_ in curves.entries], left, bottom + 56, width)
    return _svg(curves.title, width, height, parts + legend)


def draw_lines(lines: BandedLines, width: int) -> str:
    """Curves with their bands; across by logarithm, with a tick at every measured place that has room."""
    left, bottom = 64, TOP + 220
    places = sorted({x for _, xs, *_ in lines.entries for x in xs})
    lowest = min(0.0, *(value for *_, lows, _ in lines.entries for value in lows))
    ticks = round_ticks(lowest, max(value for *_, highs in lines.entries for value in highs))
    powers = _scale(math.log(places[0]), math.log(places[-1]), left, width - RIGHT)
    up = _scale(ticks[0], ticks[-1], bottom, TOP)

    def across(x: float) -> float:
        return powers(math.log(x))

    parts, shown = _levels(ticks, up, left, width), -math.inf
    for x in places:
        if across(x) - shown >= 54:
            shown = across(x)
            parts.append(_below(shown, bottom, number(x), "end" if x == places[-1] and len(places) > 1 else "middle"))
    parts.append(_below(width / 2, bottom + 18, lines.x_label))
    for place, (_, *curve) in enumerate(lines.entries):
        parts.append(_banded(COLOURS[place % len(COLOURS)], *curve, across=across, up=up))
    legend, height = _legend([name for name, *_ in lines.entries], left, bottom + 56, width)
    return _svg(lines.title, width, height, parts + legend)


def draw_course(course: Course, width: int) -> str:
    """A series with its band; where steps were lost, grey ground from top to bottom, and dots instead of a line."""
    left, bottom = 54, TOP + course.height
    xs = [x for _, steps, *_ in course.stretches for x in steps] + [x for x, _ in course.lost]
    ys = [y for *_, lows, highs in course.stretches for y in (*lows, *highs)] + [y for _, y in course.lost]
    ticks = round_ticks(min(ys), max(ys), 6 if course.height > 150 else 3)
    across, up = _scale(min(xs), max(xs), left, width - RIGHT), _scale(ticks[0], ticks[-1], bottom, TOP)
    parts, shown = _levels(ticks, up, left, width), -math.inf
    for x, words in course.ticks:
        room = LETTER * len(words) / 2
        if across(x) - room > shown and across(x) + room < width:
            shown = across(x) + room + LETTER
            parts.append(_below(across(x), bottom, words))
    names = list(dict.fromkeys(name for name, *_ in course.stretches))
    parts += [_ground(across(x), _spacing(xs, across), bottom) for x, _ in course.lost]
    for name, *curve in course.stretches:
        parts.append(_banded(COLOURS[names.index(name) % len(COLOURS)], *curve, across=across, up=up))
    parts += [f'<circle class="lost" cx="{across(x):.1f}" cy="{up(y):.1f}" r="2.5"/>' for x, y in course.lost]
    if course.x_label:
        parts.append(_below(width / 2, bottom + 18, course.x_label))
    legend, height = _legend(names if len(names) > 1 else [], left, bottom + 56, width)
    return _svg(course.title, width, height if legend else bottom + (44 if course.x_label else 26), parts + legend)


def _spacing(xs: Sequence[float], across: Place) -> float:
    """Room of one step, and never so little that it cannot be seen."""
    apart = [b - a for a, b in pairwise(sorted(set(xs)))]
    return max(LEAST, across(min(apart)) - across(0.0)) if apart else LEAST


def _ground(x: float, wide: float, bottom: float) -> str:
    return (
        f'<rect class="ground" x="{x - wide / 2:.1f}" y="{TOP}" width="{wide + 0.2:.1f}" height="{bottom - TOP:.1f}"/>'
    )


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


def _most(width: int) -> int:
    """Numbers that have room below an axis."""
    return 6 if width == WIDE else 4


def _scale(low: float, high: float, start: float, stop: float) -> Place:
    """Where a value between low and high stands between start and stop."""
    return lambda value: start + (value - low) / max(high - low, 1e-12) * (stop - start)


def _levels(ticks: Sequence[float], up: Place, left: float, width: float) -> list[str]:
    """Lines across, with their numbers at the left."""
    return [
        f'<line class="grid" x1="{left}" x2="{width - RIGHT}" y1="{up(t):.1f}" y2="{up(t):.1f}"/>'
        f'<text class="tick" x="{left - 8}" y="{up(t) + 4:.1f}" text-anchor="end">{number(t)}</text>'
        for t in ticks
    ]


def _below(x: float, bottom: float, words: str, anchor: str = "middle") -> str:
    return f'<text class="tick" x="{x:.1f}" y="{bottom + 18}" text-anchor="{anchor}">{escape(words)}</text>'


def _banded(
    colour: str,
    x: Sequence[float],
    y: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    *,
    across: Place,
    up: Place,
) -> str:
    """A line over its band."""
    line, below, above = ([f"{across(a):.1f},{up(b):.1f}" for a, b in zip(x, values)] for values in (y, low, high))
    return (
        f'<polygon points="{" ".join([*above, *reversed(below)])}" fill="{colour}" class="band"/>'
        f'<polyline points="{" ".join(line)}" class="curve" fill="none" stroke="{colour}" stroke-width="2"/>'
    )


def _legend(names: Sequence[str], left: float, top: float, width: int) -> tuple[list[str], float]:
    """Names with their colours, as many in a row as have room, and the height of everything above and with it."""
    room = max((20 + LETTER * (len(name) + 2) for name in names), default=1.0)
    beside = max(1, int((width - left) // room))
    left = left if 20 + room <= width - left else 2
    parts = []
    for place, name in enumerate(names):
        x, y, colour = left + room * (place % beside), top + 20 * (place // beside), COLOURS[place % len(COLOURS)]
        parts.append(
            f'<rect class="curve" x="{x:.1f}" y="{y - 9}" width="14" height="4" fill="{colour}"/>'
            f'<text x="{x + 20:.1f}" y="{y - 2}">{escape(name)}</text>'
        )
    return parts, top - 6 + 20 * math.ceil(len(names) / beside)


def _svg(title: str, width: int, height: float, parts: list[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height:g}" role="img" aria-label="{escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )
