"""`fairveil store`: check, migrate, back up, restore and clean the store of the service, and move its key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fairveil.cli.common import AsJson
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
Anchor = Annotated[Path | None, typer.Option(envvar="FAIRVEIL_ANCHOR", help="Folder of the anchors.")]
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", envvar="FAIRVEIL_KEY_FILE", help="File with the key of ids, 64 digits.")
]


def opened(
    url: str, anchor: Path | None = None, key_file: Path | None = None, *, keyless: bool = True, migrate: bool = False
) -> Store:
    """A store that exists. ``keyless``: for work that looks at no id its key is not needed."""
    from fairveil.loop.store import Store

    if url.startswith("sqlite:///") and not Path(url[len("sqlite:///") :]).exists():
        raise SpecError("there is no store here", path="--store", given=url, fix="fairveil serve makes one")
    return Store.open(url, anchors=anchor, key_file=key_file, keyless=keyless, migrate=migrate)


@app.command("check")
def check(
    store: StoreUrl = DEFAULT_STORE,
    anchor: Anchor = None,
    as_json: AsJson = False,
) -> None:
    """Check schema, trail, ledgers, blocks and versions, and say what was found.

    Example: fairveil store check --store sqlite:///trial/store.db
    """
    from fairveil.loop.upkeep import check as look

    with opened(store, anchor) as place:
        found = look(place)
    if as_json:
        typer.echo(json.dumps({"verdict": "intact", **found}))
    else:
        _show(found, Console())


def _show(found: dict[str, Any], console: Console) -> None:
    """What a check found, as a person reads it."""
    console.print(
        f"[bold]intact[/]: {len(found['loops'])} loops, {len(found['ledgers'])} ledgers, {found['trail']} entries of "
        f"the trail; schema {found['version']}; the key of ids is {escape(str(found['key']))}",
        highlight=False,
    )
    loops = Table("loop", "rounds", "releases", "version", "restored", box=box.SIMPLE_HEAD, pad_edge=False)
    for name, loop in found["loops"].items():
        loops.add_row(escape(name), *(f"{loop[key]:,}" for key in ("rounds", "released", "version", "epoch")))
    if found["loops"]:
        console.print(loops)
    ledgers = Table("ledger", "spent", "limit", "anchor", box=box.SIMPLE_HEAD, pad_edge=False)
    for name, ledger in found["ledgers"].items():
        ledgers.add_row(*map(escape, (name, ledger["spent"], ledger["limit"], ledger["anchor"])))
    if found["ledgers"]:
        console.print(ledgers)


@app.command("migrate")
def migrate(store: StoreUrl = DEFAULT_STORE) -> None:
    """Upgrade an older store.

    Example: fairveil store migrate
    """
    opened(store, migrate=True).close()
    typer.echo("the store is up to date")


@app.command("backup")
def backup(
    to: Annotated[Path, typer.Argument(help="A new folder.")],
    store: StoreUrl = DEFAULT_STORE,
    anchor: Anchor = None,
    with_key: Annotated[
        bool, typer.Option("--with-key/--without-key", help="Copy the key of ids too, if it is beside it.")
    ] = False,
) -> None:
    """Copy a store and its ledgers while the service runs, with a manifest of hashes.

    PostgreSQL: by pg_dump, one snapshot. The key of ids stays where it is: keep a copy of it in another place.

    Example: fairveil store backup copies/monday
    """
    from fairveil.loop.upkeep import backup as copy

    with opened(store, anchor) as found:
        made = copy(found, to, with_key)
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

    made = put_back(source, store)
    typer.echo(f"restored the copy of {made['made']}")
    typer.echo("tokens revoked and people erased since then are back: revoke and erase again")


@app.command("reanchor")
def reanchor(
    ledger: Annotated[str, typer.Argument(help="Name of the ledger: the loop's, unless it is shared.")],
    store: StoreUrl = DEFAULT_STORE,
    anchor: Anchor = None,
) -> None:
    """Go on learning although the anchor of a ledger is lost; ledger and trail say so for ever.

    Until then the ledger could have been set back unnoticed: compare it with what was published first. A mark that is
    there is never moved back.

    Example: fairveil store reanchor trial-7 --anchor /mnt/second/anchors
    """
    from fairveil.loop.upkeep import reanchor as begin_again

    with opened(store, anchor) as found:
        begin_again(found, ledger)
    typer.echo(f"the anchor of {ledger} begins anew; a running service goes on by itself")


@app.command("accept")
def accept(
    loop: Annotated[str, typer.Argument(help="Name of the loop.")],
    store: StoreUrl = DEFAULT_STORE,
    anchor: Anchor = None,
    key_file: KeyFile = None,
    uncharged: Annotated[
        bool, typer.Option("--uncharged", help="Also where the ledger does not allow the charge.")
    ] = False,
) -> None:
    """Learn again after a store was put back and the keys of released events are lost.

    An event may then be learned once more: the guarantee counts that, the ledger is charged as for another loop, and
    the trail says who accepted it.

    Example: fairveil store accept trial-7
    """
    from fairveil.loop.upkeep import accept_epoch

    with opened(store, anchor, key_file, keyless=False) as found:
        accept_epoch(found, loop, uncharged=uncharged)
    typer.echo(f"{loop} learns again; its guarantee counts the epoch")


@app.command("forget")
def forget(store: StoreUrl = DEFAULT_STORE) -> None:
    """Apply retention now, and take erased content out of the log.

    Example: fairveil store forget
    """
    from fairveil.loop.upkeep import forget as clean

    with opened(store) as found:
        clean(found)
    typer.echo("what retention no longer keeps is erased")


@app.command("export")
def export(
    loop: Annotated[str, typer.Argument(help="Name of the loop.")],
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Write what is still kept of a loop's events as NDJSON: no ids, features or rewards.

    Example: fairveil store export trial-7 > events.ndjson
    """
    from fairveil.loop.events import event_lines

    with opened(store) as found:
        after = -1
        while lines := event_lines(found.loop(loop), after, 500):
            typer.echo(lines, nl=False)
            after = json.loads(lines.rstrip().rpartition("\n")[2])["seq"]


@app.command("clock")
def clock(
    store: StoreUrl = DEFAULT_STORE, show: Annotated[bool, typer.Option("--show", help="Look, change nothing.")] = False
) -> None:
    """Say that the clock of this machine is right, after it was wrong or after a long time without the service.

    Running processes go by their clocks again; moments of a time that has not come are brought down to now. A window
    that was closed stays closed. Prints what was found as JSON.

    Example: fairveil store clock --show
    """
    from fairveil.loop.upkeep import believe_clock, look_at_clock

    with opened(store) as found:
        typer.echo(json.dumps(look_at_clock(found) if show else believe_clock(found)))


@app.command("rekey")
def rekey(store: StoreUrl = DEFAULT_STORE, key_file: KeyFile = None) -> None:
    """Change the key of ids; stop every process of the service first, and keep a copy of the key file.

    New ids go by the new key. Events and people of before are found by the old one, which stands below it in the file
    and stays there: rewards for old events arrive, and who was counted stays counted. A key in FAIRVEIL_KEY: put the
    new one and a space before the old one first.

    Example: fairveil store rekey --key-file /etc/fairveil/key
    """
    from fairveil.loop.upkeep import rekey as change

    with opened(store) as found:
        place = change(found, key_file)
    typer.echo(f"the key is changed ({place}); start the service again, and copy the key to its second place")


@app.command("move-key")
def move_key(
    to: Annotated[Path, typer.Option("--to", help="A new file, not in the folder of the store.")],
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Move the key of ids away from the folder of an SQLite store; stop the service first.

    Example: fairveil store move-key --to /etc/fairveil/key
    """
    from fairveil.loop.keys import key_beside, move_secret

    with opened(store) as found:
        beside = key_beside(found.driver)
    if beside is None:
        raise SpecError("only SQLite stores have a key beside them", path="--store")
    move_secret(beside, to)
    typer.echo(f"the key is in {to}: start the service with --key-file {to}, and keep a copy of it")
