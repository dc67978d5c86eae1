"""A document as one HTML file (screen and paper, nothing from a network, no script) or as Markdown.

Intervals and rank curves as inline SVG: no script, the same on paper, colours that follow the page.
"""

from __future__ import annotations

import math
import re
from html import escape
from pathlib import Path

from fairveil.errors import SpecError
from fairveil.lab.handover.document import BandedLines, Bars, Curves, Document, DocumentSection, TextGrid, number
from fairveil.running.store import write_atomically, writing

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


def draw_lines(lines: BandedLines) -> str:
    """Curves with their bands; across by logarithm, with a tick at every measured place that has room."""
    left, plot, bottom = 64, 220, TOP + 220
    places = sorted({x for _, xs, *_ in lines.entries for x in xs})
    logs = [math.log(x) for x in places]
    ticks = round_ticks(min(0.0, *(v for *_, lows, _ in lines.entries for v in lows)), _top(lines))
    height = bottom + 46 + 20 * len(lines.entries)

    def across(x: float) -> float:
        return left + (math.log(x) - logs[0]) / max(logs[-1] - logs[0], 1e-12) * (WIDTH - left - RIGHT)

    def up(y: float) -> float:
        return bottom - (y - ticks[0]) / max(ticks[-1] - ticks[0], 1e-12) * plot

    parts = [
        f'<line class="grid" x1="{left}" x2="{WIDTH - RIGHT}" y1="{up(t):.1f}" y2="{up(t):.1f}"/>'
        f'<text class="tick" x="{left - 8}" y="{up(t) + 4:.1f}" text-anchor="end">{number(t)}</text>'
        for t in ticks
    ]
    shown = -math.inf
    for x in places:
        if across(x) - shown >= MIDDLING * 3:
            shown = across(x)
            end = ' text-anchor="end"' if x == places[-1] and len(places) > 1 else ' text-anchor="middle"'
            parts.append(f'<text class="tick" x="{shown:.1f}" y="{bottom + 18}"{end}>{number(x)}</text>')
    parts.append(f'<text class="tick" x="{WIDTH / 2}" y="{bottom + 36}" text-anchor="middle">{lines.x_label}</text>')
    for place, (name, xs, ys, lows, highs) in enumerate(lines.entries):
        colour, y = COLOURS[place % len(COLOURS)], bottom + 56 + 20 * place
        above = [f"{across(x):.1f},{up(high):.1f}" for x, high in zip(xs, highs)]
        below = [f"{across(x):.1f},{up(low):.1f}" for x, low in zip(xs, lows)]
        middle = " ".join(f"{across(x):.1f},{up(value):.1f}" for x, value in zip(xs, ys))
        parts.append(
            f'<polygon points="{" ".join([*above, *reversed(below)])}" fill="{colour}" opacity="0.15"/>'
            f'<polyline points="{middle}" fill="none" stroke="{colour}" stroke-width="2"/>'
            f'<rect x="{left}" y="{y - 9}" width="14" height="4" fill="{colour}"/>'
            f'<text x="{left + 20}" y="{y - 2}">{escape(name)}</text>'
        )
    return _svg(lines.title, height, parts)


def _top(lines: BandedLines) -> float:
    return max(value for *_, highs in lines.entries for value in highs)


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


KINDS = (".html", ".md")


def check_report_file(file: Path) -> None:
    """Refuse a file that cannot be written as a report; ask before the work, not after it."""
    if file.suffix not in KINDS or file.is_dir():
        raise SpecError("a report is a page or a Markdown file", path="out", given=file.name, allowed=", ".join(KINDS))


def write_document(document: Document, file: str | Path) -> Path:
    """Write a report; the ending of the file says how."""
    file = Path(file)
    check_report_file(file)
    text = to_html(document) if file.suffix == ".html" else to_markdown(document)
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, text.encode())
    return file


def to_markdown(document: Document) -> str:
    """The report as Markdown; drawings are tables there."""
    lines = [f"# {document.title}", "", document.about, ""]
    if document.banner:
        lines += [f"> **{document.banner}**", ""]
    lines += [f"- {name}: **{value}**" for name, value in document.figures] + [""]
    for section in document.sections:
        lines += [f"## {section.title}", ""]
        if section.marked:
            lines += [f"> **{section.marked}**", ""]
        for text in section.text:
            lines += [text, ""]
        for grid in section.grids:
            lines += [*_markdown_grid(grid), ""]
        if section.code:
            lines += ["```sh", *section.code, "```", ""]
        lines += [f"- {point}" for point in section.points] + ([""] if section.points else [])
        lines += [f"- *Not released.* {words}" for words in section.withheld] + ([""] if section.withheld else [])
    return "\n".join([*lines, f"---\n{document.made}", ""])


def _markdown_grid(grid: TextGrid) -> list[str]:
    def row(cells: tuple[str, ...]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return [row(grid.head), row(("---",) * len(grid.head)), *(row(cells) for cells in grid.rows)]


def to_html(document: Document) -> str:
    """The report as one page."""
    style = (Path(__file__).parent / "style.css").read_text()
    figures = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in document.figures)
    banner = f'<p class="banner" role="note">{escape(document.banner)}</p>' if document.banner else ""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(document.title)}</title>\n"
        f"<style>\n{style}</style>\n</head>\n<body>\n<main>\n<header>\n<h1>{escape(document.title)}</h1>\n"
        f'<p class="about">{escape(document.about)}</p>\n{banner}\n<dl class="figures">{figures}</dl>\n</header>\n'
        + "\n".join(_section(section) for section in document.sections)
        + f"\n<footer>{escape(document.made)}</footer>\n</main>\n</body>\n</html>\n"
    )


def drawn(drawing: Bars | Curves | BandedLines) -> str:
    """A drawing as inline SVG."""
    if isinstance(drawing, BandedLines):
        return draw_lines(drawing)
    return draw_bars(drawing) if isinstance(drawing, Bars) else draw_curves(drawing)


def _section(section: DocumentSection) -> str:
    parts = [f"<section>\n<h2>{escape(section.title)}</h2>"]
    if section.marked:
        parts.append(f'<p class="marked">{escape(section.marked)}</p>')
    parts += [f"<p>{escape(text)}</p>" for text in section.text]
    parts += [
        f"<figure>{drawn(drawing)}<figcaption>{escape(drawing.title)}</figcaption></figure>"
        for drawing in section.drawings
    ]
    parts += [_grid(grid) for grid in section.grids]
    if section.code:
        parts.append("<pre><code>" + escape("\n".join(section.code)) + "</code></pre>")
    if section.points:
        parts.append("<ul>" + "".join(f"<li>{escape(point)}</li>" for point in section.points) + "</ul>")
    parts += [f'<p class="withheld"><b>Not released.</b> {escape(words)}</p>' for words in section.withheld]
    return "\n".join([*parts, "</section>"])


def _cell(words: str) -> str:
    """A cell of a table; no line ends inside a range, a date or a width."""
    return re.sub(r"(?<=\d)-(?=\d)", "&#8209;", escape(words)).replace("± ", "±&nbsp;")


def _grid(grid: TextGrid) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in grid.head)
    rows = "".join("<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in cells) + "</tr>" for cells in grid.rows)
    return f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
