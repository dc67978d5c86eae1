"""``fairveil data list | fetch | verify``: which data sets and generators exist, and whether their files are sound."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fairveil.cli import common

app = typer.Typer(
    no_args_is_help=True,
    help="Data sets: list them, fetch their files, verify checksums.\n\nExample: fairveil data list",
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Names = Annotated[
    list[str] | None,
    typer.Argument(help="Names of data sets; all of them when none is given.", autocompletion=common.data_sets),
]


def _show(document: Any, table: Table, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(document, indent=2))
    else:
        Console().print(table)


@app.command("list")
def list_(as_json: Json = False) -> None:
    """Every data set and generator, its licence, and whether its files are here.

    Example: fairveil data list
    """
    from fairveil.data import sources, verify
    from fairveil.registry import entries

    table = Table("name", "kind", "what", "licence", "files")
    rows = []
    for name, source in sources().items():
        states = set(verify(name).values())
        state = "ok" if states == {"ok"} else "damaged" if "damaged" in states else "not here"
        rows.append({"name": name, "kind": "dataset", "what": source.title, "licence": source.licence, "files": state})
    for entry in entries("generator"):
        rows.append(
            {"name": entry.name, "kind": "generator", "what": entry.summary, "licence": "", "files": "none needed"}
        )
    for row in rows:
        table.add_row(*map(escape, row.values()))
    _show(rows, table, as_json)


@app.command()
def fetch(names: Names = None, as_json: Json = False) -> None:
    """Download what is missing into the cache, check it, and say where it lies.

    Example: fairveil data fetch adult fico
    """
    from fairveil import data
    from fairveil.errors import DataError

    table = Table("name", "file")
    places: dict[str, list[str]] = {}
    failed: DataError | None = None
    for name in names or list(data.sources()):
        try:
            places[name] = data.fetch(name)
        except DataError as problem:  # go on with the others; the exit code still says that something is missing
            if names:
                raise
            failed = failed or problem
            places[name] = []
        for place in places[name] or ["could not be fetched"]:
            table.add_row(name, place)
    _show(places, table, as_json)
    if failed is not None:
        raise failed


@app.command()
def verify(names: Names = None, as_json: Json = False) -> None:
    """Compare every file with its checksum; exit code 3 when a file is damaged or a named data set is incomplete.

    Example: fairveil data verify adult
    """
    from fairveil import data
    from fairveil.errors import DataError

    table = Table("name", "file", "state")
    states = {name: data.verify(name) for name in names or list(data.sources())}
    for name, files in states.items():
        for file, state in files.items():
            table.add_row(name, file, state)
    _show(states, table, as_json)
    wrong = ("damaged", "missing") if names else ("damaged",)
    bad = [file for files in states.values() for file, state in files.items() if state in wrong]
    if bad:
        raise DataError(
            "some data files are damaged or missing",
            given=bad,
            fix="fairveil data fetch, or delete the damaged ones first",
        )
