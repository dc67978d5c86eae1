"""`fairveil compare`: several specs, or a grid over one, side by side."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from fairveil.cli.common import EngineName, PluginFiles, Workers, folder_to_write, load_plugins, read_spec, working
from fairveil.errors import SpecError

if TYPE_CHECKING:
    from fairveil.lab.artefact import Picture
    from fairveil.lab.artefact import Table as Differences


def command(
    specs: Annotated[list[Path], typer.Argument(help="Spec files; the first is the reference.")],
    vary: Annotated[
        list[str] | None,
        typer.Option(help="path=value,value,...: a grid over one spec, for example policy.epsilon=0.2,1,5"),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="What to compare; by default the regret that the family is about.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for results and the report.")] = Path("out/compare"),
    engine: EngineName = "processes",
    workers: Workers = None,
    plugin: PluginFiles = None,
    export: Annotated[
        list[Path] | None,
        typer.Option(help="Write the comparison to this .json, .csv, .svg, .pdf, .png or .html file too."),
    ] = None,
) -> None:
    """Run specs and compare one metric: a table with a test of each difference, curves with bands, a Pareto front.

    Example: fairveil compare examples/first.toml --vary policy.epsilon=0.2,1,5
    """
    from fairveil.lab import compare
    from fairveil.lab.artefact import say
    from fairveil.lab.plain import check_metric, words_of

    load_plugins(plugin)
    for file in export or []:
        compare.check_export(file)
    tables = _tables(specs, vary or [])
    if metric is not None:
        check_metric(tables.values(), metric)
    folder_to_write(out)
    results = _results(
        tables, out, engine, workers, lambda done: len(done) < len(tables) and _page(done, metric, out, len(tables))
    )
    chosen = metric or compare.default_metric(results)
    table = compare.difference_table(results, chosen)
    charts = say(tuple(compare.charts(results, chosen)), words_of(results, chosen))
    console = Console()
    _show(table, results, console)
    front = compare.pareto_front(results, chosen)
    if front:
        console.print(f"on the Pareto front ({chosen} against epsilon): {'; '.join(front)}", markup=False)
    pictures = [file for file in export or [] if file.suffix not in compare.TABLES]
    for file in [file for file in export or [] if file not in pictures] + pictures:  # tables can always be written
        if file in pictures[:1]:
            _page(results, chosen, out, len(results))
        compare.export(file, table, charts, results)
        console.print(f"written: {file}", markup=False, highlight=False)
    console.print(f"report: {_page(results, chosen, out, len(results))}")


def _page(results: dict[str, Any], metric: str | None, out: Path, of: int) -> Path:
    """The page of what is done; it is written again whenever one more is."""
    from fairveil.lab import compare
    from fairveil.lab.artefact import say
    from fairveil.lab.handover.results import banner_of_all, run_in_words
    from fairveil.lab.plain import words_of
    from fairveil.lab.report import Section, write_report

    chosen = metric or compare.default_metric(results)
    words = words_of(results, chosen)
    pictures: list[Picture] = [
        compare.difference_table(results, chosen).without_empty_columns(),
        *compare.charts(results, chosen),
        *compare.what_was_run(results),
    ]
    promises = [(say(name, words), r["guarantee"]) for name, r in results.items() if r["guarantee"] is not None]
    done = f"{len(results)} of {of}" if len(results) < of else str(of)
    called = words.get(chosen, chosen)
    section = Section(
        "compare",
        f"{called}: {done} runs",
        text=list(dict.fromkeys(run_in_words(result["spec"]) for result in results.values())),
        pictures=[say(picture, words) for picture in pictures],
        guarantees=promises,
        warning=banner_of_all(results.values()),
    )
    return write_report([section], out / "index.html", title=f"Comparison of runs: {called}")


def _tables(specs: list[Path], vary: list[str]) -> dict[str, dict[str, Any]]:
    """Specs by label: one a file, or one a point of the grid over each file."""
    from fairveil.lab import compare

    tables: dict[str, dict[str, Any]] = {file.stem: read_spec(file) for file in specs}
    if len(tables) < len(specs):
        raise SpecError(
            "two spec files have the same name",
            path="specs",
            given=[file.name for file in specs],
            fix="rename one: the name is its label in the table",
        )
    if not vary:
        return tables
    parameters = dict(_axis(text) for text in vary)
    return {
        (label if len(tables) == 1 else f"{name}, {label}"): made
        for name, table in tables.items()
        for label, made in compare.grid(table, parameters).items()
    }


def _results(
    tables: dict[str, dict[str, Any]], out: Path, engine: str, workers: int | None, finished: Callable[[Any], Any]
) -> dict[str, Any]:
    """Run them all; what is in the folder already is not run again."""
    from fairveil.running.progress import Bar
    from fairveil.running.runner import run_many
    from fairveil.running.store import ResultStore

    with working(engine, workers) as workforce, Bar("compare") as bar:
        store = ResultStore(out / "results")
        return dict(run_many(tables, engine=workforce, store=store, progress=bar, finished=finished))


def _number(value: float) -> str:
    """A number for a terminal; people are counted in whole ones."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def _show(table: Differences, results: dict[str, Any], console: Console) -> None:
    """The table of differences, and why it has no test where it has none."""
    whole, table = table, table.without_empty_columns()
    name, *numbers = table.columns
    longest = max((len(word) for row in table.rows for word in str(row[0]).split()), default=0)
    first = Column(name, overflow="fold", min_width=min(longest, LONGEST))
    shown = Table(first, *numbers, title=table.title, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in table.rows:
        shown.add_row(
            *[_number(cell) if isinstance(cell, float) else escape(str("" if cell is None else cell)) for cell in row]
        )
    console.print(shown)
    if len(table.rows) > 1 and all(row[-1] is None for row in whole.rows):
        chance = any(result["meta"]["simulated"] for result in results.values())
        console.print(
            "no test: it takes at least two runs (spec key runs) and a metric with a spread over runs"
            if chance
            else "nothing here is random: the differences are exact"
        )


LONGEST = 30
"""Words up to this length are not broken."""


def _axis(text: str) -> tuple[str, list[Any]]:
    path, equals, values = text.partition("=")
    if not equals or not values:
        raise SpecError(
            "a grid axis names a key and its values", path="vary", given=text, allowed="path=value,value,..."
        )
    return path, [_value(item) for item in values.split(",")]


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
