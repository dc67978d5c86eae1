"""`fairveil run`: one spec in, one result out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fairveil import registry
from fairveil.cli.specs import read_spec

EXAMPLE = "Example: fairveil run examples/first.toml --engine processes --plot out/first.html"


def command(
    spec: Annotated[Path, typer.Argument(help="A spec in TOML or JSON.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
    seed: Annotated[int | None, typer.Option(help="Replace the spec's seed.")] = None,
    engine: Annotated[str, typer.Option(help="serial, processes or ray.")] = "serial",
    workers: Annotated[int | None, typer.Option(help="Workers of the engine; all cores by default.")] = None,
    address: Annotated[str | None, typer.Option(help="Address of a Ray cluster.")] = None,
    store: Annotated[
        Path | None, typer.Option(help="Folder of results: reuse what is there, resume what was cut off.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the series into this .html, .svg or .png file.")] = None,
    plugin: Annotated[list[Path] | None, typer.Option(help="A Python file that registers names of its own.")] = None,
) -> None:
    """Run a spec and show its result.

    Example: fairveil run examples/first.toml --engine processes --plot out/first.html
    """
    from fairveil.lab.engines import make_engine
    from fairveil.lab.progress import Bar
    from fairveil.lab.runner import run
    from fairveil.lab.store import Store

    for file in plugin or []:
        registry.load_plugin(file)
    table = read_spec(spec)
    if seed is not None:
        table["seed"] = seed
    workforce = make_engine(engine, workers, address)
    try:
        with Bar(spec.stem) as bar:
            result = run(table, engine=workforce, store=Store(store) if store else None, progress=bar)
    finally:
        workforce.close()
    if plot is not None:
        from fairveil.lab.plots import draw_result

        draw_result(result, plot)
    if as_json:
        typer.echo(json.dumps(result, allow_nan=False))
    else:
        show(result, Console())
        if plot is not None:
            Console().print(f"plot: {plot}")


def show(result: dict[str, Any], console: Console) -> None:
    """A result as a person reads it: guarantee first, then the numbers at the last checkpoint."""
    promise = result["guarantee"]
    if promise is None:
        console.print("guarantee: none (this run protects nobody's data)")
    else:
        mark = "" if promise["established"] else "[bold red]NOT ESTABLISHED[/] "
        numbers = ", ".join(f"{key} {promise[key]:.6g}" for key in ("epsilon", "delta", "mu", "rho") if promise[key])
        console.print(f"guarantee: {mark}{promise['definition']} {promise['model']} privacy, {numbers}")
        console.print(f"  unit: {promise['unit']}; neighbours: {promise['neighbours_in_words']}")
        for note in promise["notes"]:
            console.print(f"  note: {note}")
    table = Table("metric", "value", "std over runs", title=f"{result['spec']['task']}, seed {result['spec']['seed']}")
    metrics = result["metrics"]
    for name, value in metrics.items():
        if name.endswith("_std"):
            continue
        table.add_row(name, _cell(value), _cell(metrics.get(f"{name}_std", "")))
    console.print(table)
    meta = result["meta"]
    made = "simulated (seeded noise)" if meta["simulated"] else "secure noise"
    console.print(
        f"{made}; {meta['cpu_seconds']:.2f} CPU s, {meta['wall_seconds']:.2f} s, peak {meta['peak_mb']:.0f} MB"
    )


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return f"{_cell(value[-1])} (last of {len(value)})" if value else ""
    if isinstance(value, dict):
        return "\n".join(f"{key}: {_cell(item)}" for key, item in value.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)
