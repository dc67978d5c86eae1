"""Tables that a terminal of 80 columns can hold: a name, and beside it what there is to say, on lines of its own."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.markup import escape
from rich.table import Column, Table


def table_of_two(first: str, second: str, rows: Iterable[tuple[str, str, str]], title: str | None = None) -> Table:
    """Names that are never cut (people copy them), each with a sentence and, below it in grey, its facts."""
    table = Table(Column(first, no_wrap=True), second, title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    for name, words, facts in rows:
        table.add_row(escape(name), escape(words) + (f"\n[dim]{escape(facts)}[/]" if facts else ""))
    return table
