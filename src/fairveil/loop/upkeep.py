"""Looking after a store: check it, copy it, put a copy back."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from fairveil.errors import SpecError
from fairveil.loop import settle, trail
from fairveil.loop.blocks import block_name
from fairveil.loop.clock import in_words
from fairveil.loop.loop import Loop
from fairveil.loop.problems import StorageFailed
from fairveil.loop.storage.schema import version_of
from fairveil.loop.store import Store
from fairveil.privacy.ledger.anchor import FileAnchor
from fairveil.privacy.ledger.verify import verify

MANIFEST = "manifest.json"


def check(store: Store) -> dict[str, Any]:
    """Schema, trail, every ledger with its anchor, blocks without gap or overlap, versions that the ledger has."""
    with store.reading() as tx:
        entries = trail.check(tx)
    ledgers = {}
    for name in store.driver.ledgers():
        path, inside = store.driver.ledger(name)
        anchor = None if store.anchors is None else store.anchors / f"{name}.anchor"
        ledgers[name] = verify(path, anchor, ledger=inside).to_dict()
    loops = {loop.name: _check_loop(loop) for loop in store.loops()}
    return {"version": version_of(store.driver), "trail": entries, "ledgers": ledgers, "loops": loops}


def _check_loop(loop: Loop) -> dict[str, Any]:
    status = loop.status()
    with loop.store.reading() as tx:
        query = "SELECT epoch, name, first, stop, status FROM blocks WHERE loop = ? ORDER BY first"
        blocks = tx.execute(query, (loop.facts.id,))
        count = tx.execute("SELECT count(DISTINCT round), count(round) FROM events WHERE loop = ?", (loop.facts.id,))
    ranges = [(first, stop) for _, _, first, stop, _ in blocks]
    ranges += [(block.first, block.stop) for block in loop.facts.policy.open_blocks(status.state)]
    for (_, stop), (first, _) in itertools.pairwise(ranges):
        if first < stop or (first > stop and status.epoch == 0):
            raise StorageFailed("blocks do not cover the rounds", path=loop.name, given=f"{stop} then {first}")
    released = [(epoch, name) for epoch, name, _, _, kind in blocks if kind == "released"]
    for epoch, name in released:
        if loop.ledger.status(block_name(loop.facts, epoch, name)) != "published":
            raise StorageFailed("a release is not in the ledger", path=loop.name, given=name)
    if count[0][0] != count[0][1]:
        raise StorageFailed("a round was given twice", path=loop.name)
    return {"rounds": status.round, "version": status.version, "released": len(released), "epoch": status.epoch}


def backup(store: Store, folder: Path) -> dict[str, Any]:
    """An online copy of an SQLite store and its ledgers, with the anchors' marks and the hash of every file."""
    source = _file_of(store)
    if folder.exists() and any(folder.iterdir()):
        raise SpecError("the folder is not empty", path="to", given=str(folder), fix="name a new folder")
    (folder / "ledgers").mkdir(parents=True, exist_ok=True)
    # the store first: a ledger that is ahead of its store is what a crash leaves; behind it would be refused
    _copy(source, folder / "store.db")
    key = source.with_name(source.name + ".key")
    if key.exists():
        shutil.copy2(key, folder / "store.db.key")
    marks = {}
    for name in store.driver.ledgers():
        _copy(Path(store.driver.ledger(name)[0]), folder / "ledgers" / f"{name}.db")
        mark = None if store.anchors is None else FileAnchor(store.anchors / f"{name}.anchor").read()
        marks[name] = None if mark is None else {"sequence": mark.sequence, "head": mark.head}
    files = {str(path.relative_to(folder)): _hash(path) for path in sorted(folder.rglob("*")) if path.is_file()}
    manifest = {"made": in_words(store.clock.now()), "files": files, "anchors": marks}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    return manifest


def restore(folder: Path, path: Path) -> dict[str, Any]:
    """Put a backup in the place of a store that is not there. Loops then begin a new epoch where they must."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError):
        raise SpecError(
            "this is not a backup", path="from", given=str(folder), allowed="a folder of store backup"
        ) from None
    if path.exists():
        raise SpecError("there is a store already", path="store", given=str(path), fix="move it away first")
    for name, expected in manifest["files"].items():
        if not (folder / name).is_file() or _hash(folder / name) != expected:
            raise StorageFailed("a file of the backup was changed", path=name, fix="use another backup")
    path.parent.mkdir(parents=True, exist_ok=True)
    for name in manifest["files"]:
        target = (
            path.parent / name if name.startswith("ledgers/") else path.with_name(name.replace("store.db", path.name))
        )
        target.parent.mkdir(exist_ok=True)
        if target.exists() and name.startswith("ledgers/"):
            continue  # a ledger that survived is newer than its copy: it stays
        shutil.copy2(folder / name, target)
    return dict(manifest)


def forget(store: Store) -> None:
    """Apply retention now, and take what was erased out of the log."""
    for loop in store.loops():
        while loop.writer.act(settle.forget):
            pass
    with contextlib.suppress(*store.driver.failures):
        store.driver.tidy()


def _file_of(store: Store) -> Path:
    path = getattr(store.driver, "path", None)
    if path is None:
        raise SpecError(
            "a store on a server is copied by its own tools",
            path="store",
            fix="pg_dump of the whole database in one transaction, and a copy of the anchors made before it",
        )
    return Path(path)


def _copy(source: Path, target: Path) -> None:
    with contextlib.closing(sqlite3.connect(source)) as old, contextlib.closing(sqlite3.connect(target)) as new:
        old.backup(new)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
