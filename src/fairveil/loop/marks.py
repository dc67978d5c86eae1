"""What a store knows of itself: the last moment that is stored, the clock that was confirmed, its key."""

from __future__ import annotations

import secrets
from pathlib import Path

from fairveil.loop import trail
from fairveil.loop.keys import Keys
from fairveil.loop.problems import StorageFailed
from fairveil.loop.storage import Driver, Transaction


def latest_moment(tx: Transaction) -> int | None:
    """The last moment that is stored: of a loop, or of a process that was ready."""
    [(loops,)] = tx.execute("SELECT max(clock) FROM loops")
    return max((one for one in (loops, ready_mark(tx)) if one is not None), default=None)


def ready_mark(tx: Transaction) -> int | None:
    """The moment that a process wrote which was ready last."""
    found = tx.execute("SELECT value FROM meta WHERE key = 'ready'")
    return int(found[0][0]) if found else None


def confirmation(tx: Transaction) -> str:
    """Which one was the last that an operator gave: see `fairveil.loop.upkeep.believe_clock`."""
    found = tx.execute("SELECT value FROM meta WHERE key = 'clock'")
    return str(found[0][0]) if found else ""


def key_beside(driver: Driver) -> Path | None:
    """Where the key of a store lies that has no other place for it; None for a store on a server."""
    path: Path | None = getattr(driver, "path", None)
    return None if path is None else path.with_name(path.name + ".key")


def check_key(tx: Transaction, keys: Keys, new_key: bool, now: int) -> None:
    """Another secret than before is a mistake unless it is said aloud."""
    found = tx.execute("SELECT value FROM meta WHERE key = 'key'")
    if not found:
        tx.execute("INSERT INTO meta (key, value) VALUES ('store', ?)", (secrets.token_hex(16),))
        tx.execute("INSERT INTO meta (key, value) VALUES ('key', ?)", (keys.name,))
    elif found[0][0] != keys.name:
        if not new_key:
            raise StorageFailed(
                "the key of this store is another one",
                path="FAIRVEIL_KEY",
                fix="restore the key file; with a new one (--new-key) old ids are unknown for ever",
            )
        tx.execute("UPDATE meta SET value = ? WHERE key = 'key'", (keys.name,))
        trail.note(tx, now, "fairveil", "new-key", "store")
