"""Numbers and times as people read them, and names in paths."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote


def url(name: str) -> str:
    """A name as one part of a path.

    >>> url("a/b c")
    'a%2Fb%20c'
    """
    return quote(name, safe="")


def amount(value: float | None) -> str:
    """Three digits.

    >>> amount(0.520564351265), amount(1.0), amount(5.342), amount(None), amount(12345.0), amount(0.0)
    ('0.521', '1', '5.34', 'unknown', '12,345', '0')
    """
    if value is None:
        return "unknown"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def count(value: int | None) -> str:
    """
    >>> count(20000), count(None)
    ('20,000', 'unknown')
    """
    return "unknown" if value is None else f"{value:,}"


def moment(text: str | None) -> str:
    """A time of the store, to the minute.

    >>> moment("2026-11-17T06:02:26.517+00:00"), moment(None)
    ('2026-11-17 06:02 UTC', 'never')
    """
    return "never" if text is None else f"{text[:10]} {text[11:16]} UTC"


def day(text: str | None) -> str:
    return "never" if text is None else text[:10]


def span(text: str) -> str:
    """A duration as it is written in a loop.

    >>> span("90d"), span("1h"), span("60s")
    ('90 days', '1 hour', '60 seconds')
    """
    found = re.fullmatch(r"([0-9]+)([smhd])", text)
    if found is None:
        return text
    name = {"s": "second", "m": "minute", "h": "hour", "d": "day"}[found[2]]
    return f"{found[1]} {name}{'' if found[1] == '1' else 's'}"


def rounded(text: str) -> str:
    """A charge in the words of a ledger, its numbers to three digits.

    >>> rounded("rho 0.520564351265"), rounded("epsilon 1")
    ('rho 0.521', 'epsilon 1')
    """
    return re.sub(r"[0-9]+\.[0-9]+(?:e-?[0-9]+)?", lambda found: amount(float(found[0])), text)


def listed(names: list[str]) -> str:
    """
    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


COLUMN = re.compile(r'<th scope="col"[^>]*>(.*?)</th>')
FEW = 2
"""Columns that a phone shows side by side."""


def labelled(table: str) -> str:
    """A table of many columns whose cells say the name of theirs: on a phone each row is a block.

    >>> head = "".join(f'<th scope="col">{name}</th>' for name in ("a", "b", "c", "d"))
    >>> row = "<tr><th>1</th><td>2</td><td>3</td><td>4</td></tr>"
    >>> labelled(f"<table><thead><tr>{head}</tr></thead>{row}</table>").partition("</thead>")[2]
    '<tr><th>1</th><td data-label="b">2</td><td data-label="c">3</td><td data-label="d">4</td></tr></table>'
    """
    head, end, body = str(table).partition("</thead>")
    names = COLUMN.findall(head)
    if len(names) <= FEW:
        return table
    rows = []
    for row in body.split("<tr>"):
        first, *cells = row.split("<td")
        said = [f'<td data-label="{name}"{cell}' for name, cell in zip(names[-len(cells) :], cells)]
        rows.append("".join([first, *said]))
    return head.replace("<table>", '<table class="blocks">') + end + "<tr>".join(rows)


def guarantee(table: dict[str, Any] | None) -> str:
    """A promise in one sentence."""
    if table is None:
        return "no promise"
    size = [f"epsilon {amount(table['epsilon'])}"] if table.get("epsilon") is not None else []
    if table.get("delta"):
        size.append(f"delta {table['delta']:g}")
    return f"{' and '.join(size)} for {table['unit']}"
