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
    return None if driver.path is None else driver.path.with_name(driver.path.name + ".key")


def check_key(tx: Transaction, keys: Keys, new_key: bool, now: int) -> None:
    """Another secret than before is a mistake unless it is said aloud."""
    found = tx.execute("SELECT value FROM meta WHERE key = 'key'")
    if not found:
        tx.execute("INSERT INTO meta (key, value) VALUES ('store', ?)", (secrets.token_hex(16),))
        tx.execute("INSERT INTO meta (key, value) VALUES ('key', ?)", (keys.name,))
    elif found[0][0] != keys.name:
        if found[0][0] in {one.name for one in keys.old}:
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
    elif missing := set(old_keys(tx)) - {one.name for one in keys}:
        raise StorageFailed(
            "an older key of this store is not there",
            path="FAIRVEIL_KEY",
            given=", ".join(sorted(missing)),
            fix="keep old keys below the new one: people who were counted under them are known by them alone",
        )


def old_keys(tx: Transaction) -> list[str]:
    """Names of keys under which somebody may still be stored: all that a change left behind."""
    found = tx.execute("SELECT value FROM meta WHERE key = 'old-keys'")
    return str(found[0][0]).split() if found else []


def change_key(tx: Transaction, keys: Keys, what: str, now: int, actor: str) -> None:
    """From now on ids go by this key; old ones that it knows are asked for from now on."""
    names = " ".join(one.name for one in keys.old)
    tx.execute("UPDATE meta SET value = ? WHERE key = 'key'", (keys.name,))
    tx.execute("DELETE FROM meta WHERE key = 'old-keys'")
    tx.execute("INSERT INTO meta (key, value) VALUES ('old-keys', ?)", (names,))
    trail.note(tx, now, actor, what, "store")
