"""A document as one HTML file (screen and paper, nothing from a network, no script) or as Markdown."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from fairveil.errors import SpecError
from fairveil.lab.handover.document import Document, DocumentSection, TextGrid
from fairveil.lab.handover.drawings import drawn
from fairveil.lab.page import SHORT, STACKED, style_of
from fairveil.running.store import write_atomically, writing

KINDS = (".html", ".md")
NUMBERS = re.compile(r"\b(?:(?:epsilon|delta|rho|mu\^2) [\de.+-]*\d|\d[\d.]*e[+-]\d+)")
"""Small numbers, and budgets with their numbers."""


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
    style = style_of(Path(__file__).parent / "style.css")
    figures = "".join(f"<div><dt>{escape(name)}</dt><dd>{_text(value)}</dd></div>" for name, value in document.figures)
    banner = f'<p class="banner" role="note">{escape(document.banner)}</p>' if document.banner else ""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(document.title)}</title>\n"
        f"<style>\n{style}</style>\n</head>\n<body>\n<main>\n<header>\n<h1>{escape(document.title)}</h1>\n"
        f'<p class="about">{_text(document.about)}</p>\n{banner}\n<dl class="figures">{figures}</dl>\n</header>\n'
        + "\n".join(_section(section) for section in document.sections)
        + f"\n<footer>{escape(document.made)}</footer>\n</main>\n</body>\n</html>\n"
    )


def _section(section: DocumentSection) -> str:
    parts = [f"<section>\n<h2>{escape(section.title)}</h2>"]
    if section.marked:
        parts.append(f'<p class="marked">{escape(section.marked)}</p>')
    parts += [f"<p>{_text(text)}</p>" for text in section.text]
    parts += [
        f'<figure class="{type(drawing).__name__.lower()}">{drawn(drawing)}'
        f"<figcaption>{escape(drawing.title)}</figcaption></figure>"
        for drawing in section.drawings
    ]
    parts += [_grid(grid) for grid in section.grids]
    if section.code:
        parts.append("<pre><code>" + escape("\n".join(section.code)) + "</code></pre>")
    if section.points:
        parts.append("<ul>" + "".join(f"<li>{_text(point)}</li>" for point in section.points) + "</ul>")
    parts += [f'<p class="withheld"><b>Not released.</b> {_text(words)}</p>' for words in section.withheld]
    return "\n".join([*parts, "</section>"])


def _cell(words: str) -> str:
    """A cell of a table; no line ends inside a range, a date or a width."""
    kept = re.sub(r"(?<=\d) to (?=-?\d)", "&nbsp;to&nbsp;", _text(words))
    return re.sub(r"(?<=\d)-(?=\d)", "&#8209;", kept).replace("± ", "±&nbsp;")


def _text(words: str) -> str:
    """Words for a page; no line ends inside a small number, or between a budget and its number."""
    return NUMBERS.sub(r'<span class="whole">\g<0></span>', escape(words))


def _grid(grid: TextGrid) -> str:
    names = [escape(cell) for cell in grid.head]
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    rows = "".join(
        "<tr>" + "".join(f'<td data-name="{name}">{_cell(cell)}</td>' for name, cell in zip(names, cells)) + "</tr>"
        for cells in grid.rows
    )
    kind = ' class="stacked"' if len(names) >= STACKED else ""
    table = f"<table{kind}><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    short = " short" if len(grid.rows) <= SHORT else ""
    return f'<div class="scroll{short}" tabindex="0">{table}</div>'
