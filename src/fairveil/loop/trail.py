"""What operators did, in a chain of hashes like the ledger's: an entry that was changed or removed is noticed."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from fairveil.loop.clock import in_words
from fairveil.loop.problems import StorageFailed
from fairveil.loop.storage import Transaction, adding

START = "0" * 64


def note(tx: Transaction, now: int, actor: str, action: str, target: str, facts: dict[str, Any] | None = None) -> None:
    """Add an entry inside a transaction that writes."""
    last = tx.execute("SELECT seq, hash FROM trail ORDER BY seq DESC LIMIT 1")
    seq, previous = last[0] if last else (0, START)
    text = json.dumps(facts or {}, sort_keys=True, separators=(",", ":"))
    row = (seq + 1, now, actor, action, target, text)
    tx.execute(adding("trail", "seq, time, actor, action, target, facts, hash"), (*row, _link(previous, row)))


def entries(tx: Transaction, after: int = 0, at_most: int = 500, target: str | None = None) -> list[dict[str, Any]]:
    """The entries that follow one; ``target``: those about one loop alone."""
    only = "" if target is None else "AND target = ? "
    rows = tx.execute(
        f"SELECT seq, time, actor, action, target, facts, hash FROM trail WHERE seq > ? {only}ORDER BY seq LIMIT ?",
        (after, *(() if target is None else (target,)), at_most),
    )
    return [
        {
            "seq": seq,
            "time": in_words(time),
            "actor": actor,
            "action": action,
            "target": target,
            "facts": json.loads(facts),
            "hash": hash,
        }
        for seq, time, actor, action, target, facts, hash in rows
    ]


def check(tx: Transaction) -> int:
    """The number of entries of an unchanged trail."""
    previous, count = START, 0
    for *row, hash in tx.execute("SELECT seq, time, actor, action, target, facts, hash FROM trail ORDER BY seq"):
        count += 1
        if row[0] != count or _link(previous, tuple(row)) != hash:
            raise StorageFailed("the trail was changed", path="trail", given=f"entry {count}", fix="restore a backup")
        previous = hash
    return count


def _link(previous: str, row: tuple[Any, ...]) -> str:
    return hashlib.sha256(json.dumps([previous, *row], separators=(",", ":")).encode()).hexdigest()
