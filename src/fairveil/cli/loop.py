"""`fairveil loop`: look at the loops of a running service, and change their mode."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(no_args_is_help=True, help="Loops of a running service.\n\nExample: fairveil loop list")
Url = Annotated[
    str, typer.Option("--url", envvar="FAIRVEIL_URL", help="Where the service is; FAIRVEIL_TOKEN has the token.")
]
DEFAULT = "http://127.0.0.1:8080"
Name = Annotated[str, typer.Argument(help="Name of the loop.")]


def _client(url: str) -> Any:
    from fairveil.client import Client

    return Client(url, retries=1)


@app.command("list")
def listing(url: Url = DEFAULT, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Every loop: policy, mode, rounds, releases.

    Example: fairveil loop list --url http://127.0.0.1:8080
    """
    with _client(url) as client:
        loops = client.loops()
    if as_json:
        typer.echo(json.dumps(loops))
        return
    table = Table("loop", "policy", "mode", "rounds", "settled", "version")
    for loop in loops:
        numbers = [str(loop[name]) for name in ("rounds", "settled", "version")]
        table.add_row(loop["name"], loop["policy"]["name"], loop["mode"], *numbers)
    Console().print(table)


@app.command("show")
def show(name: Name, url: Url = DEFAULT) -> None:
    """One loop with its budget, as JSON.

    Example: fairveil loop show trial-7
    """
    with _client(url) as client:
        loop = client.loop(name)
        typer.echo(json.dumps({**loop.state(), "budget": loop.budget()}))


@app.command("mode")
def mode(
    name: Name, mode: Annotated[str, typer.Argument(help="shadow, apprentice, online or frozen.")], url: Url = DEFAULT
) -> None:
    """Change who decides and whether is learned.

    Example: fairveil loop mode trial-7 frozen
    """
    with _client(url) as client:
        found = client.loop(name).set_mode(mode)
    typer.echo(f"{name} is {found['mode']}")
