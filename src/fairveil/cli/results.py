"""`fairveil results`: list stored results, compare two, export CSV."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fairveil.cli.common import plain, table_of_two
from fairveil.errors import SpecError

app = typer.Typer(no_args_is_help=True, help="Stored results: list, diff, export.\n\nExample: fairveil results list")
Folder = Annotated[Path, typer.Option("--store", help="Folder of results.")]
DEFAULT = Path("out/reproduce/results")


@app.command("list")
def listing(store: Folder = DEFAULT) -> None:
    """Every stored result, newest first.

    Example: fairveil results list --store out/reproduce/results
    """
    from fairveil.running.store import ResultStore

    if store.is_file():
        raise SpecError("this is a file", path="--store", given=str(store), allowed="a folder", fix="name a folder")
    rows = []
    for folder, result in ResultStore(store).all():
        spec = result["spec"]
        facts = f"seed {spec['seed']}, runs {spec['runs']}, {result['meta']['cpu_seconds']:.2f} CPU s"
        rows.append((folder.name, f"{spec['task']}: {_what(spec)}".rstrip(": "), f"{_budget(result)}; {facts}"))
    if rows:
        Console().print(table_of_two("result", "what was run; its budget, seed, runs and cost", rows))
    else:
        hint = "fairveil run SPEC --store FOLDER keeps results; --store FOLDER names where they are"
        plain().print(f"no results in {store}; {hint}")


@app.command("diff")
def diff(
    first: Annotated[str, typer.Argument(help="Start of a result's name.")],
    second: Annotated[str, typer.Argument(help="Start of another's.")],
    store: Folder = DEFAULT,
) -> None:
    """Where two results differ: spec and metrics side by side.

    Example: fairveil results diff 3fa2 9c01
    """
    left, right = _flat(find(store, first)), _flat(find(store, second))
    table = Table("key", first, second)
    for key in sorted(set(left) | set(right)):
        if left.get(key) != right.get(key):
            table.add_row(key, escape(_text(left.get(key))), escape(_text(right.get(key))))
    Console().print(table if table.rows else "the two results are equal")


@app.command("export")
def export(
    name: Annotated[str, typer.Argument(help="Start of a result's name.")],
    file: Annotated[Path | None, typer.Option(help="Write here instead of standard output.")] = None,
    store: Folder = DEFAULT,
) -> None:
    """The series of a result as CSV.

    Example: fairveil results export 3fa2 --file regret.csv
    """
    from fairveil.running.store import write_atomically, writing

    result = find(store, name)
    rows = [
        [series, *[points.get(key, [None] * len(points["x"]))[i] for key in ("x", "y", "low", "high")]]
        for series, points in sorted(result["series"].items())
        for i in range(len(points["x"]))
    ]
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["series", "x", "y", "low", "high"])
    writer.writerows(rows)
    if file is None:
        sys.stdout.write(text.getvalue())
    else:
        with writing(file):
            write_atomically(file, text.getvalue().encode())
        sys.stderr.write(f"written: {file}\n")


def find(store: Path, start: str) -> dict[str, Any]:
    """The one stored result whose name starts like this."""
    from fairveil.running.store import ResultStore

    found = [(folder, result) for folder, result in ResultStore(store).all() if folder.name.startswith(start)]
    if len(found) != 1:
        raise SpecError(
            "no result has this name" if not found else "several results start like this",
            path="result",
            given=start,
            allowed=", ".join(folder.name for folder, _ in found[:5]),
            fix=f"see fairveil results list --store {store}",
        )
    return found[0][1]


def _what(spec: dict[str, Any]) -> str:
    names = [
        spec[key]["name"]
        for key in ("policy", "environment", "learner", "target")
        if isinstance(spec.get(key), dict) and "name" in spec[key]
    ]
    return " in ".join(names) or str(spec.get("fairness", ""))


def _budget(result: dict[str, Any]) -> str:
    """What one unit pays, as the result's guarantee has it."""
    promise = result["guarantee"]
    if promise is None or promise["epsilon"] is None:
        return "no guarantee"
    delta = f", delta {promise['delta']:.3g}" if promise.get("delta") else ""
    return f"epsilon {promise['epsilon']:.4g}{delta}" + ("" if promise["established"] else " (not established)")


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if path or k in ("spec", "guarantee", "metrics")}
        return {name: item for k, v in kept.items() for name, item in _flat(v, f"{path}.{k}" if path else k).items()}
    return {path: value}


def _text(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) < 60 else text[:57] + "..."
