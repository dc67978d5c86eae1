"""`fairveil attack`: try known attacks against a twin without protection and against the code that serves people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fairveil import registry
from fairveil.errors import AuditViolation, SpecError, choices, did_you_mean

ALL = "all"


def command(
    name: Annotated[str, typer.Argument(help="An attack, or all; fairveil list attack shows them.")] = ALL,
    games: Annotated[int | None, typer.Option(min=1, help="How often each side is played.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the attacker and of the twin.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write a page with the results (HTML).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Attack privacy as it fails in practice; exit code 6 when an attack beats the code that serves people.

    Example: fairveil attack retries
    """
    from fairveil.running.progress import Bar

    known = registry.names("attack")
    if name not in (*known, ALL):
        raise SpecError(
            "there is no such attack",
            path="name",
            given=name,
            allowed=choices([*known, ALL], "fairveil list"),
            fix=did_you_mean(name, [*known, ALL]),
        )
    results: list[Any] = []
    chosen = known if name == ALL else [name]
    with Bar("attacks") as bar:
        bar.start(len(chosen), 0)
        for one in chosen:
            results.append(registry.get("attack", one)().run(seed, games))
            bar.advance()
        bar.finish()
    if as_json:
        typer.echo(json.dumps([result.to_dict() for result in results], allow_nan=False))
    else:
        show(results, Console())
    if out is not None:
        from fairveil.lab.attacks import write_page

        typer.echo(f"page: {write_page([result.to_dict() for result in results], out)}", err=as_json)
    beaten = [result.name for result in results if not result.held]
    if beaten:
        raise AuditViolation(
            "an attack won more than chance allows", given=", ".join(beaten), fix="see the table above"
        )


def show(results: list[Any], console: Console) -> None:
    """One row an attack: what it wins where protection is missing, and against us."""
    table = Table(title="How often the attacker wins")
    for column, justify in (
        ("attack", "left"),
        ("bare", "right"),
        ("ours", "right"),
        ("chance", "right"),
        ("", "left"),
    ):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for result in results:
        verdict = "[green]held[/]" if result.held else "[bold red]BEATEN[/]"
        rates = [f"{rate:.0%}" for rate in (result.bare.rate, result.ours.rate, result.chance)]
        table.add_row(result.name, *rates, verdict)
    console.print(table)
    for result in results:
        console.print(f"{result.name}: {result.game}. Why it fails here: {result.words}.", highlight=False)
