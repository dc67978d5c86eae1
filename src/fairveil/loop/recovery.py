"""After a start: does the store continue what its ledger says? A copy from a backup does not, and never draws twice.

The store notes the ledger's sequence at every release, so a ledger behind that was set back: it is refused, and the
loop decides without learning. A ledger ahead of the store by blocks that are due is a crash between two files: the
stored values are adopted. Anything else means that the store is an older copy. Then people of its open blocks may be in
a released one: those blocks are abandoned, and a new epoch, which is part of every block's id, starts behind them.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from fairveil.errors import LedgerTampered
from fairveil.loop import trail
from fairveil.loop.batch import Batch
from fairveil.loop.blocks import abandon, block_name, due_blocks, header_fits

if TYPE_CHECKING:
    from fairveil.loop.loop import Loop

SETTLED = ("publish", "lost", "reserve")


def check_ledger(loop: Loop) -> None:
    """Compare store and ledger once after a start; starts a new epoch where the store was set back."""
    status, ledger = loop.status(), loop.ledger
    if ledger.sequence < status.ledger_sequence:
        raise LedgerTampered(
            "the ledger is older than the releases that this loop has made",
            path=str(ledger.place),
            given=f"entry {ledger.sequence}",
            allowed=f"at least entry {status.ledger_sequence}",
            fix="restore the newest ledger; until then the loop decides and does not learn",
        )
    unknown = _unknown(loop, status.ledger_sequence)
    if not unknown:
        return
    values = {name: _value(loop, name) for name in unknown}
    due = {block_name(loop.facts, status.epoch, block.name): block for block in due_blocks(loop.facts.policy, status)}
    first = dict(itertools.islice(due.items(), len(unknown)))
    if set(first) == set(unknown) and all(header_fits(first[name], values[name]) for name in unknown):
        return
    reached = [int(value["header"][2]) for value in values.values() if isinstance(value, dict) and "header" in value]
    _new_epoch(loop, max([status.round, *reached]), ledger.sequence)


def _unknown(loop: Loop, after: int) -> list[str]:
    """Blocks of this loop that the ledger has taken and the store does not know."""
    start = loop.name + "/"
    taken = {
        entry["name"]
        for entry in loop.ledger.entries(after=after)
        if entry["kind"] in SETTLED and entry["name"].startswith(start)
    }
    with loop.store.reading() as tx:
        rows = tx.execute("SELECT epoch, name FROM blocks WHERE loop = ?", (loop.facts.id,))
    known = {block_name(loop.facts, epoch, name) for epoch, name in rows}
    return sorted(taken - known)


def _value(loop: Loop, name: str) -> Any:
    return loop.ledger.value(name) if loop.ledger.status(name) == "published" else None


def _new_epoch(loop: Loop, at: int, sequence: int) -> None:
    def change(batch: Batch) -> None:
        before = batch.before
        state, dropped, start = abandon(batch.facts, batch.state, max(at, batch.round), batch.rng)
        for block in dropped:
            batch.tx.execute(
                "INSERT INTO blocks (loop, epoch, name, first, stop, status, released_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (batch.facts.id, before.epoch, block.name, block.first, min(block.stop, start), "abandoned", batch.now),
            )
        batch.state, batch.round = state, start
        batch.change(epoch=before.epoch + 1, settled=start, ledger_sequence=sequence)
        trail.note(batch.tx, batch.now, "fairveil", "epoch", loop.name, {"epoch": before.epoch + 1, "round": start})

    loop.writer.act(change)
