"""The public number of settled rounds, and what leaves the store when it is no longer needed."""

from __future__ import annotations

from functools import partial

from fairveil.loop.batch import Batch
from fairveil.loop.clock import SECOND
from fairveil.loop.kept import without_anything, without_content
from fairveil.loop.reports import moments as of_places
from fairveil.loop.seats import MAY_SETTLE, PAGE, close_windows, due_seats, erase_content, first_waiting
from fairveil.loop.storage import Transaction
from fairveil.storage.faults import point

_empty = partial(erase_content, missing=True)
LONGEST_REST = 86400 * SECOND
"""A loop with nothing to do is looked at once a day all the same."""


def settle(batch: Batch) -> int:
    """Move ``settled``: windows that have closed and, where arrivals are public, rewards that are in.

    Where releases are by arrival at most one page of windows closes at a time.
    """
    status, loop = batch.before, batch.facts.id
    settled, decided = status.settled, batch.round
    if batch.now >= batch.grace:
        settled = _closed(batch.tx, loop, settled, decided, batch.now)
    if batch.seats is not None:
        settled = min(settled, status.settled + PAGE)
        close_windows(batch, status.settled, settled)
    if batch.facts.missing == "public":
        settled = (first_waiting if batch.seats is not None else _answered)(batch.tx, loop, settled, decided)
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
        f"SELECT round FROM events WHERE loop = ? AND round >= ? AND {MAY_SETTLE} "
        "AND (rewarded IS NULL OR activated = 0) ORDER BY round LIMIT 1"
    )
    found = tx.execute(query, (loop, low))
    return found[0][0] if found else high


def rest(batch: Batch, forgets: int) -> None:
    """Say in the loop's row when it needs its next tick: a few steps into the indexes.

    ``forgets``: before this retention is not looked at again.
    """
    before = batch.before
    open_still = before.stopped is not None or before.erased < before.released
    if open_still or (batch.facts.missing == "public" and _some_answered(batch)):
        return batch.change(due=batch.wall)
    moments = [batch.wall + LONGEST_REST, max(_forgets(batch), forgets)]
    if batch.places is not None:
        moments += of_places(batch)
    if before.settled < batch.round:
        query = "SELECT until FROM events WHERE loop = ? AND round = ?"
        found = batch.tx.execute(query, (batch.facts.id, before.settled))
        moments.append(batch.after_grace(found[0][0] if found else None))
    return batch.change(due=min(moments))


def _some_answered(batch: Batch) -> bool:
    """Whether somebody wrote a reward since `settle` looked."""
    settled = batch.before.settled
    if batch.seats is not None and due_seats(batch.facts, batch.status()):
        return True
    look = _answered if batch.seats is None else first_waiting
    return look(batch.tx, batch.facts.id, settled, batch.round) > settled


def _forgets(batch: Batch) -> int:
    """When retention has something to do."""
    tx, loop, before, facts = batch.tx, batch.facts.id, batch.before, batch.facts
    moments = [batch.wall + LONGEST_REST]
    for query, start, keeps in (
        ("decided >= ?", before.aged, facts.keeps_unlearned),
        ("round >= ? AND erased IS NULL", before.released, facts.keeps_raw),
        ("decided > ?", 0, facts.keeps_events),
    ):
        [(oldest,)] = tx.execute(f"SELECT min(decided) FROM events WHERE loop = ? AND {query}", (loop, start))
        if oldest is not None and keeps is not None:
            moments.append(oldest + keeps + 1)
    return min(moments)


def lower_mark(batch: Batch) -> None:
    """The clock was ahead and is set right: the mark of the loop comes down to it, and ``settled`` does not.

    What the mark has closed is settled before that. Events of a time that has not come are moved to now, so that
    windows go on closing in the order of rounds.
    """
    mark, now, loop = batch.first.clock, batch.wall, batch.facts.id
    if mark <= now:
        return
    settled = _closed(batch.tx, loop, batch.before.settled, batch.round, mark)
    if batch.seats is not None:
        close_windows(batch, batch.before.settled, settled)
    batch.change(settled=settled)
    batch.tx.execute(
        "UPDATE events SET decided = ?, until = ? WHERE loop = ? AND decided > ?",
        (now, now + batch.facts.wait, loop, now),
    )
    batch.now = now


def erase(batch: Batch) -> int:
    """Erase the content of rounds that are through, one page; gives how many, fewer than `PAGE` at the end."""
    if batch.seats is not None and (gone := _erase_seats(batch)):
        return gone
    first, loop = batch.before.erased, batch.facts.id
    last = min(first + PAGE, batch.before.released)
    if first >= last:
        return 0
    rows = "WHERE loop = ? AND round >= ? AND round < ?"
    found = f"SELECT key FROM events {rows}"
    batch.tx.execute(f"DELETE FROM appearances WHERE loop = ? AND event IN ({found})", (loop, loop, first, last))
    batch.tx.execute(
        f"UPDATE events SET {without_content(batch.tx.dialect)} {rows} AND erased IS NULL", (loop, first, last)
    )
    point("erased")
    batch.change(erased=last)
    return last - first


def _erase_seats(batch: Batch) -> int:
    """The same by release: seats that are in one have no content any more. Gives `PAGE` while more is left.

    Rounds below ``released`` are all through: it rises to the first one that has content, and not beyond a window that
    is open.
    """
    tx, loop = batch.tx, batch.facts.id
    query = "SELECT epoch, name, arm, stop, erased FROM blocks WHERE loop = ? AND erased < stop AND status <> 'opened'"
    found = tx.execute(f"{query} ORDER BY epoch, name LIMIT 1", (loop,))
    if not found:
        rest = "SELECT round FROM events WHERE loop = ? AND round >= ? AND erased IS NULL ORDER BY round LIMIT 1"
        left = tx.execute(rest, (loop, batch.before.released))
        through = min(left[0][0] if left else batch.round, batch.before.settled)
        if through > batch.before.released == batch.before.erased:
            batch.change(released=through, erased=through)
        return 0
    epoch, name, arm, stop, erased = found[0]
    last, queue = min(erased + PAGE, stop), epoch * batch.facts.lines + max(arm, 0)
    seats = "WHERE loop = ? AND queue = ? AND seat >= ? AND seat < ?"
    erase_content(batch, [key for (key,) in tx.execute(f"SELECT key FROM events {seats}", (loop, queue, erased, last))])
    point("erased")
    tx.execute("UPDATE blocks SET erased = ? WHERE loop = ? AND epoch = ? AND name = ?", (last, loop, epoch, name))
    return PAGE


def erase_person(batch: Batch, subject: bytes) -> int:
    """Erase the content of all events in which a person stands; gives how many."""
    query = "SELECT event FROM appearances WHERE loop = ? AND subject = ?"
    keys = [key for (key,) in batch.tx.execute(query, (batch.facts.id, subject))]
    _empty(batch, keys)
    return len(keys)


def forget(batch: Batch) -> int:
    """Retention, one page of each kind; gives how many events lost something, fewer than `PAGE` at the end."""
    return max(_forget_open(batch), _forget_unlearned(batch), _forget_events(batch))


def _forget_open(batch: Batch) -> int:
    """Raw content that has waited too long for its block counts as missing."""
    keeps, before = batch.facts.keeps_raw, batch.before
    if keeps is None:
        return 0
    query = (
        "SELECT key FROM events WHERE loop = ? AND round >= ? AND decided < ? AND erased IS NULL ORDER BY round LIMIT ?"
    )
    found = batch.tx.execute(query, (batch.facts.id, before.released, batch.now - keeps, PAGE))
    _empty(batch, [key for (key,) in found])
    return len(found)


def _forget_unlearned(batch: Batch) -> int:
    """Events that are not learned lose their content when their window has closed."""
    loop, first, last = batch.facts.id, batch.before.aged, batch.now - batch.facts.keeps_unlearned
    [(newest,)] = batch.tx.execute("SELECT max(decided) FROM events WHERE loop = ? AND decided < ?", (loop, last))
    if newest is None or newest < first:
        return 0
    query = (
        "SELECT key, decided FROM events WHERE loop = ? AND decided >= ? AND decided < ? AND round IS NULL "
        "AND erased IS NULL ORDER BY decided LIMIT ?"
    )
    found = batch.tx.execute(query, (loop, first, last, PAGE))
    _empty(batch, [key for key, _ in found])
    batch.change(aged=last if len(found) < PAGE else found[-1][1])
    return len(found)


def _forget_events(batch: Batch) -> int:
    """Old events leave nothing but their key."""
    query = "SELECT key FROM events WHERE loop = ? AND decided < ? AND erased IS NOT NULL ORDER BY decided LIMIT ?"
    loop = batch.facts.id
    found = batch.tx.execute(query, (loop, batch.now - batch.facts.keeps_events, PAGE))
    gone = f"UPDATE events SET {without_anything()} WHERE loop = ? AND key = ?"
    batch.tx.many(gone, [(loop, key) for (key,) in found])
    return len(found)
