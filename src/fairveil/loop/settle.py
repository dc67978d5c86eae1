"""The public number of settled rounds, and what leaves the store when it is no longer needed."""

from __future__ import annotations

from fairveil.loop.batch import Batch
from fairveil.loop.reply import PENDING
from fairveil.loop.storage import Transaction
from fairveil.privacy.ledger.faults import point

PAGE = 2000


def settle(batch: Batch) -> int:
    """Move ``settled``: windows that have closed and, where arrivals are public, rewards that are in."""
    status, loop = batch.before, batch.facts.id
    settled, decided = status.settled, batch.round
    if batch.now >= batch.grace:
        settled = _closed(batch.tx, loop, settled, decided, batch.now)
    if batch.facts.missing == "public":
        settled = _answered(batch.tx, loop, settled, decided)
    if settled != status.settled:
        batch.change(settled=settled)
    return settled


def _closed(tx: Transaction, loop: int, low: int, high: int, now: int) -> int:
    """Rounds are decided in the order of time, so windows close in the order of rounds: look in the middle."""
    query = "SELECT until FROM events WHERE loop = ? AND round = ?"
    while low < high:
        middle = (low + high) // 2
        found = tx.execute(query, (loop, middle))
        if not found or found[0][0] is None or found[0][0] < now:
            low = middle + 1
        else:
            high = middle
    return low


def _answered(tx: Transaction, loop: int, low: int, high: int) -> int:
    """The first round that still waits, for its reward or to be shown."""
    query = (
        "SELECT round FROM events WHERE loop = ? AND round >= ? AND learn = ? "
        "AND (rewarded IS NULL OR activated = 0) ORDER BY round LIMIT 1"
    )
    found = tx.execute(query, (loop, low, PENDING))
    return found[0][0] if found else high


def erase(batch: Batch, stop: int) -> bool:
    """Erase raw content of rounds below ``stop``, one page; whether more is left."""
    first, loop = batch.before.erased, batch.facts.id
    if first >= stop:
        return False
    last = min(first + PAGE, stop)
    batch.tx.execute(
        "UPDATE events SET context = NULL, reward = NULL WHERE loop = ? AND round >= ? AND round < ?",
        (loop, first, last),
    )
    point("erased")
    batch.change(erased=last)
    return last < stop


def forget(batch: Batch) -> bool:
    """Retention: old raw rows count as missing, old events leave nothing but their key; whether more is left."""
    return _forget_raw(batch) | _forget_events(batch)


def _forget_raw(batch: Batch) -> bool:
    facts, before = batch.facts, batch.before
    if facts.keeps_raw is None:
        return False
    query = (
        "SELECT seq FROM events WHERE loop = ? AND round >= ? AND decided < ? "
        "AND (context IS NOT NULL OR reward IS NOT NULL) ORDER BY round LIMIT ?"
    )
    found = batch.tx.execute(query, (facts.id, before.erased, batch.now - facts.keeps_raw, PAGE))
    batch.tx.many("UPDATE events SET context = NULL, reward = NULL WHERE seq = ?", found)
    return len(found) == PAGE


def _forget_events(batch: Batch) -> bool:
    """Events of a loop are stored in the order of time: the old ones are the first ones."""
    facts, before = batch.facts, batch.before
    query = "SELECT seq, decided, round FROM events WHERE loop = ? AND seq > ? ORDER BY seq LIMIT ?"
    old = []
    for seq, decided, round in batch.tx.execute(query, (facts.id, before.forgotten, PAGE)):
        if decided >= batch.now - facts.keeps_events or (round is not None and round >= before.erased):
            break
        old.append((seq,))
    if old:
        batch.tx.many(f"UPDATE events SET {_NOTHING} WHERE seq = ?", old)
        batch.change(forgotten=old[-1][0])
    return len(old) == PAGE


_NOTHING = ", ".join(
    f"{name} = NULL"
    for name in (
        *("body", "decided", "until", "action", "propensity", "version", "mode", "learn", "reason", "activated"),
        *("own", "reward", "rewarded", "context"),
    )
)
