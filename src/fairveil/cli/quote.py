"""`fairveil quote`: what a spec will cost and be worth, before any data are touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fairveil.cli.common import AsJson, PluginFiles, load_plugins, read_spec
from fairveil.errors import SpecError

if TYPE_CHECKING:
    from fairveil.bandits.quotes import Quote


def command(
    spec: Annotated[Path, typer.Argument(help="A bandit spec in TOML or JSON.")],
    people: Annotated[int | None, typer.Option(min=1, help="How many people take part, if not one a round.")] = None,
    guess: Annotated[
        Path | None,
        typer.Option(help="A file with the environment to simulate; by default the spec's own if it is invented."),
    ] = None,
    runs: Annotated[int, typer.Option(min=0, help="Runs of the quick simulation; 0 for none.")] = 20,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """Noise of each release, the smallest ledger limit, warnings, and what a simulation on a guess expects.

    Example: fairveil quote examples/first.toml --people 5000
    """
    from fairveil.bandits.forecast import forecast
    from fairveil.running.progress import Bar

    load_plugins(plugin)
    table = read_spec(spec)
    if table.get("task") != "bandit":
        raise SpecError(
            "a quote is for decisions; streams have their own",
            path="task",
            given=table.get("task"),
            allowed="bandit",
            fix="fairveil explain says what other tasks cost",
        )
    world = None if guess is None else read_spec(guess)
    invented = None if world is None else world.get("environment", world)
    with Bar("simulating") as bar:
        found = forecast(table, people=people, guess=invented, runs=runs, progress=bar)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), allow_nan=False))
    else:
        show(found, Console())


def show(found: Quote, console: Console) -> None:
    """A quote as a person reads it."""
    promise: dict[str, Any] = found.guarantee or {}
    console.print(f"policy: {found.policy}", highlight=False)
    if promise:
        numbers = ", ".join(f"{key} {promise[key]:.6g}" for key in ("epsilon", "delta") if promise.get(key))
        console.print(f"promise: {numbers}; unit: {promise['unit']}", highlight=False)
    console.print(f"smallest ledger limit: {found.limit}", highlight=False)
    if found.noise:
        table = Table("noise on", "law", "std", "below sampling error after", title="before any data")
        for one in found.noise:
            after = "never: it is in every report" if one.rounds is None else f"{one.rounds:,} rounds behind one number"
            table.add_row(one.on, one.law, f"{one.std:.4g} {one.unit}", after)
        console.print(table)
    if found.expected:
        table = Table("expected at the end", "value", title=found.expected["guess"])
        for name, value in found.expected.items():
            if name != "guess":
                table.add_row(name.replace("_", " "), _words(value))
        console.print(table)
    for words in found.assumes:
        console.print(f"assumes: {words}", highlight=False)
    for warning in found.warnings:
        console.print(f"[yellow]warning[/]: {warning}", highlight=False)


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_words(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(item)}" for key, item in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)
