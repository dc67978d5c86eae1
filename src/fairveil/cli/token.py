"""`fairveil token`: who may use the service."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from fairveil.cli.stores import DEFAULT_STORE, StoreUrl, opened

app = typer.Typer(
    no_args_is_help=True, help="Access tokens.\n\nExample: fairveil token add --name clinic --role decide"
)


@app.command("add")
def add(
    name: Annotated[str, typer.Option(help="Whose it is.")],
    role: Annotated[list[str], typer.Option(help="decide, operate or audit; may be repeated.")],
    loop: Annotated[str | None, typer.Option(help="Limit it to one loop.")] = None,
    expires: Annotated[str | None, typer.Option(help="After this long: 90d, 12h.")] = None,
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Make a token and show it once; the store keeps a hash.

    Example: fairveil token add --name clinic --role decide --loop trial-7 --expires 90d
    """
    from fairveil.loop import tokens, trail
    from fairveil.loop.clock import SECOND, seconds_of
    from fairveil.loop.store import Store

    with Store.open(store) as found:
        now = found.clock.now()
        until = None if expires is None else now + seconds_of(expires, "--expires") * SECOND
        with found.writing() as tx:
            text = tokens.add(tx, name, role, now, loop, until)
            trail.note(tx, now, "local", "token-add", text.split("_")[1], {"roles": sorted(set(role))})
    typer.echo(text)


@app.command("list")
def listing(store: StoreUrl = DEFAULT_STORE) -> None:
    """All tokens, without their secrets.

    Example: fairveil token list
    """
    from fairveil.loop import tokens
    from fairveil.loop.clock import in_words

    table = Table("id", "name", "roles", "loop", "expires", "state")
    with opened(store) as found:
        now = found.clock.now()
        with found.reading() as tx:
            rows = tokens.every(tx)
    for row in rows:
        expired = row["expires"] is not None and row["expires"] <= now
        state = "revoked" if row["revoked"] else "expired" if expired else "valid"
        until = "never" if row["expires"] is None else in_words(row["expires"])[:10]
        table.add_row(row["id"], row["name"], row["roles"], row["loop"] or "all", until, state)
    Console().print(table)


@app.command("revoke")
def revoke(id: Annotated[str, typer.Argument(help="Its id, as in the list.")], store: StoreUrl = DEFAULT_STORE) -> None:
    """End a token; the service notices within a second.

    Example: fairveil token revoke 3f2a9c0d1e4b
    """
    from fairveil.loop import tokens, trail

    with opened(store) as found, found.writing() as tx:
        tokens.revoke(tx, id, found.clock.now())
        trail.note(tx, found.clock.now(), "local", "token-revoke", id)
    typer.echo(f"{id} is revoked")
