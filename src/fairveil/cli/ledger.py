"""`fairveil ledger`: look at a privacy ledger, and check it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fairveil.cli.common import AsJson, plain, table_of_facts

if TYPE_CHECKING:
    from fairveil.ledger.verify import Report

app = typer.Typer(
    no_args_is_help=True, help="Show and check privacy ledgers.\n\nExample: fairveil ledger verify trial.db"
)

File = Annotated[str, typer.Argument(metavar="FILE", help="The ledger file, or postgresql://user@host/database.")]
Name = Annotated[str | None, typer.Option("--ledger", help="Which ledger, when FILE is a database.")]
AnchorFile = Annotated[Path | None, typer.Option(help="The anchor file of this ledger, in its second place.")]
KeyFile = Annotated[Path | None, typer.Option("--key-file", help="File with the secret that the ledger was made with.")]


@app.command()
def show(
    path: File,
    ledger: Name = None,
    anchor: AnchorFile = None,
    key_file: KeyFile = None,
    last: Annotated[int, typer.Option(min=0, help="How many of the newest entries to list.")] = 20,
    as_json: AsJson = False,
) -> None:
    """What was spent, on what, and what is left. The ledger is checked first; nothing is written.

    Example: fairveil ledger show out/demo/ledger.db
    """
    from fairveil.ledger.verify import entries, verify

    key = _key(key_file)
    report = verify(path, anchor, ledger=ledger, key=key)
    listed = entries(path, report.entries - last, ledger=ledger, key=key) if last else []
    if as_json:
        typer.echo(json.dumps({**report.to_dict(), "last": listed}))
        return
    console = Console()
    _print(report, console)
    if listed:
        console.print(_listing(listed))


@app.command("verify")
def check(
    path: File, ledger: Name = None, anchor: AnchorFile = None, key_file: KeyFile = None, as_json: AsJson = False
) -> None:
    """Check every entry, the totals and the anchor; exit code 5 and a reason when something was changed.

    Example: fairveil ledger verify loan.db --anchor /mnt/other/loan.anchor
    """
    from fairveil.ledger.verify import verify

    report = verify(path, anchor, ledger=ledger, key=_key(key_file))
    if as_json:
        typer.echo(json.dumps({"verdict": "intact", **report.to_dict()}))
        return
    console = plain()
    console.print(f"intact: {report.entries} entries, head {report.head[:16]}")
    console.print(f"anchor: {report.anchor}")
    for note in report.notes:
        console.print(f"note: {note}")


def _key(file: Path | None) -> bytes | None:
    return None if file is None else file.read_bytes().strip()


def _print(report: Report, console: Console) -> None:
    facts = {
        "protects": report.unit or "one unit, as its events define it",
        "promise": f"{report.promise} in total",
        "limit": report.limit,
        "spent": report.spent,
        "reserved": report.reserved,
        "remaining": report.remaining,
        "releases": f"{report.published} published, {report.lost} lost, {report.under_way} under way",
        "anchor": report.anchor,
    }
    console.print(table_of_facts(facts))
    for note in report.notes:
        plain().print(f"note: {note}")


def _listing(listed: list[dict[str, Any]]) -> Table:
    table = Table("entry", "time", "kind", "name", "paid by", "charge")
    for entry in listed:
        event = entry.get("event")
        paid = entry.get("account") or (event["kind"] if event else "")
        name = entry["name"][:12] if entry["kind"] == "genesis" else entry["name"]
        charged = entry["charged"] if any(entry.get("charge", ())) else ""
        table.add_row(str(entry["sequence"]), entry["time"][:19], entry["kind"], escape(name), escape(paid), charged)
    return table
