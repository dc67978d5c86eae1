"""Looking after a store: check it, copy it, put a copy back."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fairveil.errors import BudgetError, DependencyError, LedgerTampered, SpecError
from fairveil.ledger import Account, Ledger, RunCost
from fairveil.ledger.anchor import FileAnchor
from fairveil.ledger.verify import verify
from fairveil.loop import settle, trail
from fairveil.loop.blocks import block_name
from fairveil.loop.clock import SECOND, in_words
from fairveil.loop.facts import Status
from fairveil.loop.keys import BESIDE, Keys, change_key, changed_secret, find_secret, key_beside
from fairveil.loop.lives import epoch_account
from fairveil.loop.loop import Loop
from fairveil.loop.paying import note_budget
from fairveil.loop.problems import StorageFailed
from fairveil.loop.recovery import EpochWaits, check_ledger
from fairveil.loop.seats import check_lines
from fairveil.loop.storage import latest_moment, note, noted, ready_mark, version_of
from fairveil.loop.store import Store
from fairveil.privacy.events import NothingEvent
from fairveil.storage import postgres, sqlite

MANIFEST = "manifest.json"
LIVELY = 10 * SECOND
"""A process that was ready so lately may still be there."""


def check(store: Store) -> dict[str, Any]:
    """Schema, trail, every ledger with its anchor, blocks without gap or overlap, versions that the ledger has."""
    with store.reading() as tx:
        version, entries = version_of(tx), trail.check(tx)
    ledgers = {}
    for name in store.driver.ledgers():
        path, inside = store.driver.ledger(name)
        ledgers[name] = verify(path, store.anchor_of(name), ledger=inside).to_dict()
    loops = {loop.name: _check_loop(loop) for loop in store.loops()}
    beside = key_beside(store.driver)
    return {
        "version": version,
        "key": BESIDE if beside is not None and beside.exists() else "elsewhere",
        "trail": entries,
        "ledgers": ledgers,
        "loops": loops,
    }


def _check_loop(loop: Loop) -> dict[str, Any]:
    status = loop.status()
    with loop.store.reading() as tx:
        query = "SELECT epoch, name, first, stop, status, arm FROM blocks WHERE loop = ? ORDER BY first"
        blocks = tx.execute(query, (loop.facts.id,))
        count = tx.execute("SELECT count(DISTINCT round), count(round) FROM events WHERE loop = ?", (loop.facts.id,))
        wrong = check_lines(loop.facts, status, tx) if loop.facts.by_seat else None
    if wrong is not None:
        raise StorageFailed("counters and rounds differ", path=loop.name, given=wrong)
    _check_ranges(loop, status, blocks)
    released = [(epoch, name) for epoch, name, _, _, kind, _ in blocks if kind == "released"]
    for epoch, name in released:
        if loop.ledger.status(block_name(loop.facts, epoch, name)) != "published":
            raise StorageFailed("a release is not in the ledger", path=loop.name, given=name)
    if count[0][0] != count[0][1]:
        raise StorageFailed("a round was given twice", path=loop.name)
    return {"rounds": status.round, "version": status.version, "released": len(released), "epoch": status.epoch}


def _check_ranges(loop: Loop, status: Status, blocks: list[Any]) -> None:
    """Blocks of rounds follow each other; by arrival those of seats do, in every line of every epoch."""
    if loop.facts.by_seat:
        lines: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for epoch, _, first, stop, kind, arm in blocks:
            if kind != "abandoned":
                lines.setdefault((epoch, arm), []).append((first, stop))
        for (epoch, arm), taken in lines.items():
            for (_, stop), (first, _) in itertools.pairwise(sorted(taken)):
                if first != stop:
                    given = f"{stop} then {first} of line {arm} in epoch {epoch}"
                    raise StorageFailed("releases do not take seats one after the other", path=loop.name, given=given)
        return
    ranges = [(first, stop) for _, _, first, stop, _, _ in blocks]
    ranges += [(block.first, block.stop) for block in loop.facts.policy.open_blocks(status.state)]
    for (_, stop), (first, _) in itertools.pairwise(ranges):
        if first < stop or (first > stop and status.epoch == 0):
            raise StorageFailed("blocks do not cover the rounds", path=loop.name, given=f"{stop} then {first}")


def backup(store: Store, folder: Path, with_key: bool = False) -> dict[str, Any]:
    """An online copy of a store and its ledgers, with the hash of every file.

    Without the anchors: a mark that is put back together with its ledger shows nothing. ``with_key``: also the key of
    ids where it lies beside the store; whoever has both can look for known ids.
    """
    if folder.exists() and any(folder.iterdir()):
        raise SpecError("the folder is not empty", path="to", given=str(folder), fix="name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    schema = None
    if store.driver.path is None:
        schema = dump(store.driver.url, folder)
    else:
        _copy_files(store, store.driver.path, folder, with_key)
    files = {str(path.relative_to(folder)): _hash(path) for path in sorted(folder.rglob("*")) if path.is_file()}
    now, names = store.clock.now(), store.driver.ledgers()
    manifest = {"made": in_words(now), "files": files, "anchored": [] if store.anchors is None else names}
    manifest |= {} if schema is None else {"schema": schema}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    with store.writing() as tx:
        note(tx, "backup", str(now))
    return manifest


def _copy_files(store: Store, source: Path, folder: Path, with_key: bool) -> None:
    """The files of an SQLite store. The store first: a ledger that is ahead of its store is what a crash leaves; behind
    it would be refused."""
    (folder / "ledgers").mkdir()
    _copy(source, folder / "store.db")
    key = key_beside(store.driver)
    if with_key and key is not None and key.exists():
        shutil.copy2(key, folder / "store.db.key")
    for name in store.driver.ledgers():
        ledger = Path(store.driver.ledger(name)[0])
        _copy(ledger, folder / "ledgers" / ledger.name)
        pages = ledger.with_suffix(".events")  # after the ledger: a page may be ahead of its value, never behind
        if pages.exists():
            _copy(pages, folder / "ledgers" / pages.name)


def restore(folder: Path, place: Path | str) -> dict[str, Any]:
    """Put a backup in the place (a file, or an address) of a store that is not there. Loops then begin a new epoch
    where they must."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError):
        raise SpecError(
            "this is not a backup", path="from", given=str(folder), allowed="a folder of store backup"
        ) from None
    for name, expected in manifest["files"].items():
        if not (folder / name).is_file() or _hash(folder / name) != expected:
            raise StorageFailed("a file of the backup was changed", path=name, fix="use another backup")
    address = str(place)
    file = Path(address.removeprefix("sqlite:///")) if not address.startswith("postgresql:") else None
    if (file is None) != ("schema" in manifest):
        raise SpecError("the copy is of another kind of store", path="--store", given=address.partition(":")[0])
    if file is not None:
        _put_files(folder, manifest["files"], file)
    else:
        load(address, folder, manifest["schema"])
    return dict(manifest)


def _put_files(folder: Path, names: Iterable[str], path: Path) -> None:
    if path.exists():
        raise SpecError("there is a store already", path="store", given=str(path), fix="move it away first")
    path.parent.mkdir(parents=True, exist_ok=True)
    for name in names:
        target = (
            path.parent / name if name.startswith("ledgers/") else path.with_name(name.replace("store.db", path.name))
        )
        target.parent.mkdir(exist_ok=True)
        if target.exists() and name.startswith("ledgers/"):
            continue  # a ledger that survived is newer than its copy: it stays
        shutil.copy2(folder / name, target)


def reanchor(store: Store, name: str, actor: str = "local") -> None:
    """Go on although the mark of a ledger is lost or damaged; ledger and trail say so for ever.

    Until now the ledger could have been set back unnoticed: look first. A mark that is there is never moved back.
    """
    place = store.anchor_of(name)
    if place is None:
        raise SpecError("no folder of anchors is given", path="--anchor", fix="name the folder in a second place")
    if name not in store.driver.ledgers():
        raise SpecError("there is no ledger of this name", path="ledger", given=name, fix="see fairveil store check")
    path, inside = store.driver.ledger(name)
    with contextlib.suppress(LedgerTampered):
        if FileAnchor(place).read() is not None:
            verify(path, place, ledger=inside)
            raise SpecError("the anchor of this ledger is not lost", path="ledger", given=name, fix="leave it as it is")
    simulated = verify(path, ledger=inside).simulated
    with Ledger.open(path, ledger=inside, anchor=place, simulated=simulated, reanchor=True) as ledger:
        entry = ledger.sequence
    with store.writing() as tx:
        trail.note(tx, store.clock.now(), actor, "reanchor", name, {"entry": entry})


def accept_epoch(store: Store, name: str, *, uncharged: bool = False, actor: str = "local") -> None:
    """Learn again after the store was put back without the keys of released events; the guarantee counts it.

    The epoch is charged to the loop's ledger, as a loop of its own would be. ``uncharged``: also where the ledger does
    not allow that; its numbers then say less than the guarantee, which counts the epoch in any case.
    """
    loop = store.loop(name)
    epoch = loop.status().epoch
    try:
        check_ledger(loop)
        raise SpecError("nothing waits to be accepted", path="loop", given=name, fix="see fairveil loop show")
    except EpochWaits:
        assert loop.pages is not None
    charged = _pay_epoch(loop, epoch, uncharged)
    loop.pages.accept(epoch)
    note_budget(loop)
    with store.writing() as tx:
        trail.note(tx, store.clock.now(), actor, "accept-epoch", name, {"epoch": epoch, "charged": charged})


def _pay_epoch(loop: Loop, epoch: int, uncharged: bool) -> bool:
    """Put an accepted epoch into the ledger, once; whether anything was charged for it."""
    ledger, account = loop.ledger, epoch_account(loop.name, epoch)
    if ledger.event_of(account) is not None:
        return False
    try:
        return Account(ledger, account, RunCost(loop.facts.policy.event())).pay().units > 0
    except BudgetError:
        if not uncharged:
            raise
    return Account(ledger, account, RunCost(NothingEvent())).pay().units > 0


def look_at_clock(store: Store) -> dict[str, Any]:
    """What this machine's clock says, and what is stored."""
    now = store.clock.wall()
    with store.reading() as tx:
        latest = latest_moment(tx)
        [(ahead,)] = tx.execute("SELECT count(*) FROM loops WHERE clock > ?", (now,))
    table: dict[str, Any] = {"clock": in_words(now), "stored": None if latest is None else in_words(latest)}
    return {**table, "state": store.clock.state(latest), "loops_ahead": ahead}


def believe_clock(store: Store, actor: str = "local") -> dict[str, Any]:
    """An operator says that this machine's clock is right: running processes go by theirs again, marks ahead come down.

    Whatever was closed by the old mark stays closed: it is settled first, and ``settled`` never falls, so a reward for
    it stays late. Windows that were opened at a time that has not come yet begin now.
    """
    before = look_at_clock(store)
    store.clock.confirm()
    for loop in store.loops():
        loop.writer.act(settle.lower_mark)
    now = store.clock.now()
    with store.writing() as tx:
        tx.execute("UPDATE meta SET value = ? WHERE key = 'ready' AND CAST(value AS BIGINT) > ?", (str(now), now))
        tx.execute("UPDATE loops SET due = 0")
        note(tx, "clock", f"{now} {secrets.token_hex(4)}")
        facts = {"stored": before["stored"], "loops_ahead": before["loops_ahead"]}
        trail.note(tx, now, actor, "clock", "store", facts)
    return before


def rekey(store: Store, file: Path | None = None, actor: str = "local") -> str:
    """Change the key of ids; gives where the keys lie now. ``store``: opened without its key, and nobody else's.

    A key in a file gets its successor here; one in the environment or a credential was put before the old one already.
    The file changes first: whoever is interrupted runs it again.
    """
    with store.reading() as tx:
        current, mark = noted(tx, "key"), ready_mark(tx)
    now = store.clock.now()
    if mark is not None and 0 <= now - mark < LIVELY:
        raise SpecError(
            "a process of the service was here a moment ago", path="--store",
            given=f"{(now - mark) / SECOND:.0f} seconds ago", allowed=f"{LIVELY // SECOND} seconds without one",
            fix="stop every process: one that goes on with the old key would decide an event twice",
        )  # fmt: skip
    held, place = find_secret(key_beside(store.driver), file, fresh=False)
    known = [Keys(one).name for one in held]
    if current not in known:
        raise StorageFailed("the key of this store is another one", path="FAIRVEIL_KEY", fix="restore the key file")
    if known[0] == current:
        held = _next_key(store, file, place)
    with store.writing() as tx:
        change_key(tx, Keys(*held), "rekey", now, actor)
    return place


def _next_key(store: Store, file: Path | None, place: str) -> list[bytes]:
    """A new secret in the key file, before the old ones."""
    named = os.environ.get("FAIRVEIL_KEY_FILE")
    path = file or (Path(named) if named else None) or key_beside(store.driver)
    if place not in (BESIDE, "in a file") or path is None:
        raise SpecError(
            f"the key of this store is {place}", path="FAIRVEIL_KEY", allowed="a new key before the old one",
            fix="put 64 new hexadecimal digits and a space before the present ones, in every process, and run it again",
        )  # fmt: skip
    held, fresh = changed_secret(path)
    os.replace(fresh, path)
    return held


def forget(store: Store) -> None:
    """Apply retention now, and take what was erased out of the log."""
    for loop in store.loops():
        loop.forget()
    store.erased()
    store.tidy(at_once=True)


def _copy(source: Path, target: Path) -> None:
    """A copy of a database that nobody else on the machine can read."""
    os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
    with contextlib.closing(sqlite.connect(str(source))) as old, contextlib.closing(sqlite.connect(str(target))) as new:
        old.backup(new)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# A store on PostgreSQL as one file ------------------------------------------------------------------------------------


DUMP = "store.dump"


def dump(url: str, folder: Path) -> str:
    """Write all tables of the store's schema as they are at one moment; gives the name of the schema."""
    schema = _schema(url)
    os.close(os.open(folder / DUMP, os.O_CREAT | os.O_WRONLY, 0o600))  # before the first row is in it
    _run("pg_dump", url, "--format=custom", "--no-owner", "--no-privileges", f"--schema={schema}",
         f"--file={folder / DUMP}")  # fmt: skip
    return schema


def load(url: str, folder: Path, schema: str) -> None:
    """Put a dump back, all of it or nothing."""
    here = _schema(url)
    if here != schema:
        raise SpecError(
            "the copy is of another schema", path="--store", given=here, allowed=schema, fix="set its search_path"
        )
    with postgres.connect(url) as connection:
        if connection.execute("SELECT to_regclass('meta')").fetchone() != (None,):
            raise SpecError("there is a store already", path="store", given=schema, fix="drop the schema first")
    listed = subprocess.run([_program("pg_restore"), "--list", str(folder / DUMP)], capture_output=True, text=True)
    wanted = [line for line in listed.stdout.splitlines() if " SCHEMA - " not in line]
    contents = folder / "store.list"
    try:
        contents.write_text("\n".join(wanted) + "\n")
        _run("pg_restore", url, "--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction",
             f"--use-list={contents}", str(folder / DUMP))  # fmt: skip
    finally:
        contents.unlink(missing_ok=True)


def _schema(url: str) -> str:
    with postgres.connect(url) as connection:
        found = connection.execute("SELECT current_schema()").fetchone()
    if found is None or found[0] is None:
        raise SpecError("there is no schema to work in", path="--store", fix="CREATE SCHEMA, as its search_path says")
    return str(found[0])


def _run(program: str, url: str, *options: str) -> None:
    """A program of the server's with its address; a password goes by the environment, which others cannot read."""
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    given = conninfo_to_dict(url)
    password = given.pop("password", None)
    secret = {} if password is None else {"PGPASSWORD": str(password)}
    address = f"--dbname={make_conninfo(**given)}"  # type: ignore[arg-type]
    done = subprocess.run(
        [_program(program), address, *options], capture_output=True, text=True, env={**os.environ, **secret}
    )
    if done.returncode:
        words = done.stderr.strip().splitlines()
        raise StorageFailed(f"{program} failed", path="--store", given=words[-1] if words else f"{done.returncode}")


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise DependencyError(f"{name} is not installed", given=name, fix="install the client programs of PostgreSQL")
    return found
