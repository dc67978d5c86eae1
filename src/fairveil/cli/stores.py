"""`fairveil store`: check, migrate, back up, restore and clean the store of the service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairveil.errors import SpecError

if TYPE_CHECKING:
    from fairveil.loop.store import Store

app = typer.Typer(no_args_is_help=True, help="The store of the service.\n\nExample: fairveil store check")
DEFAULT_STORE = "sqlite:///fairveil-data/store.db"
StoreUrl = Annotated[
    str,
    typer.Option(
        "--store", envvar="FAIRVEIL_STORE", help="sqlite:///folder/store.db or postgresql://user@host/database."
    ),
]
Anchor = Annotated[Path | None, typer.Option(help="Folder of the anchors.")]


def opened(url: str, anchor: Path | None = None, *, migrate: bool = False) -> Store:
    """A store that exists."""
    from fairveil.loop.store import Store

    if url.startswith("sqlite:///") and not Path(url[len("sqlite:///") :]).exists():
        raise SpecError("there is no store here", path="--store", given=url, fix="fairveil serve makes one")
    return Store.open(url, anchors=anchor, migrate=migrate)


@app.command("check")
def check(store: StoreUrl = DEFAULT_STORE, anchor: Anchor = None) -> None:
    """Check schema, trail, ledgers, blocks and versions; prints what was found as JSON.

    Example: fairveil store check --store sqlite:///trial/store.db
    """
    from fairveil.loop.upkeep import check as look

    with opened(store, anchor) as found:
        typer.echo(json.dumps({"verdict": "intact", **look(found)}))


@app.command("migrate")
def migrate(store: StoreUrl = DEFAULT_STORE) -> None:
    """Upgrade an older store.

    Example: fairveil store migrate
    """
    opened(store, migrate=True).close()
    typer.echo("the store is up to date")


@app.command("backup")
def backup(
    to: Annotated[Path, typer.Argument(help="A new folder.")], store: StoreUrl = DEFAULT_STORE, anchor: Anchor = None
) -> None:
    """Copy an SQLite store and its ledgers while the service runs, with a manifest of hashes.

    Example: fairveil store backup copies/monday
    """
    from fairveil.loop.upkeep import backup as copy

    with opened(store, anchor) as found:
        made = copy(found, to)
    typer.echo(f"copied {len(made['files'])} files to {to}")


@app.command("restore")
def restore(
    source: Annotated[Path, typer.Argument(metavar="FROM", help="A folder of `store backup`.")],
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Put a backup back. Ledgers that survived stay; loops begin a new epoch where the copy is older.

    Example: fairveil store restore copies/monday
    """
    from fairveil.loop.upkeep import restore as put_back

    if not store.startswith("sqlite:///"):
        raise SpecError("only SQLite stores are restored from a folder", path="--store", fix="use pg_restore")
    made = put_back(source, Path(store[len("sqlite:///") :]))
    typer.echo(f"restored the copy of {made['made']}")


@app.command("forget")
def forget(store: StoreUrl = DEFAULT_STORE) -> None:
    """Apply retention now, and take erased content out of the log.

    Example: fairveil store forget
    """
    from fairveil.loop.upkeep import forget as clean

    with opened(store) as found:
        clean(found)
    typer.echo("what retention no longer keeps is erased")
