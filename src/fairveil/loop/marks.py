"""What a store knows of itself: the last moment that is stored, and its key."""

from __future__ import annotations

import secrets
from pathlib import Path

from fairveil.loop import trail
from fairveil.loop.keys import Keys
from fairveil.loop.problems import StorageFailed
from fairveil.loop.storage import Driver, Transaction, note, noted


def latest_moment(tx: Transaction) -> int | None:
    """The last moment that is stored: of a loop, or of a process that was ready."""
    [(loops,)] = tx.execute("SELECT max(clock) FROM loops")
    return max((one for one in (loops, ready_mark(tx)) if one is not None), default=None)


def ready_mark(tx: Transaction) -> int | None:
    """The moment that a process wrote which was ready last."""
    found = noted(tx, "ready")
    return None if found is None else int(found)


def key_beside(driver: Driver) -> Path | None:
    """Where the key of a store lies that has no other place for it; None for a store on a server."""
    return None if driver.path is None else driver.path.with_name(driver.path.name + ".key")


def check_key(tx: Transaction, keys: Keys, new_key: bool, now: int) -> None:
    """Another secret than before is a mistake unless it is said aloud."""
    found = noted(tx, "key")
    if found is None:
        note(tx, "store", secrets.token_hex(16))
        note(tx, "key", keys.name)
    elif found != keys.name:
        if found in {one.name for one in keys.old}:
            raise StorageFailed(
                "a change of the key of this store is not finished", path="FAIRVEIL_KEY", fix="fairveil store rekey"
            )
        if not new_key:
            raise StorageFailed(
                "the key of this store is another one",
                path="FAIRVEIL_KEY",
                fix="restore the key file; with a new one (--new-key) old ids are unknown for ever",
            )
        change_key(tx, keys, "new-key", now, "fairveil")
    elif missing := set((noted(tx, "old-keys") or "").split()) - {one.name for one in keys}:
        raise StorageFailed(
            "an older key of this store is not there",
            path="FAIRVEIL_KEY",
            given=", ".join(sorted(missing)),
            fix="keep old keys below the new one: people who were counted under them are known by them alone",
        )


def change_key(tx: Transaction, keys: Keys, what: str, now: int, actor: str) -> None:
    """From now on ids go by this key; old ones, under which somebody may still be stored, are asked for too."""
    note(tx, "key", keys.name)
    note(tx, "old-keys", " ".join(one.name for one in keys.old))
    trail.note(tx, now, actor, what, "store", {"key": keys.name})
