"""After a start: does the store continue what its ledger says? A copy from a backup does not, and never draws twice.

The store notes the ledger's sequence at every release, so a ledger behind that was set back: it is refused, and the
loop decides without learning. A ledger ahead of the store by blocks that are due is a crash between two files: the
stored values are adopted. Anything else means that the store is an older copy. What the ledger has published since is
adopted, so decisions go on from the newest release. People of the copy's other open blocks may be in a released one:
those blocks are abandoned. A new epoch, which is part of every block's id, starts behind every round and every epoch
that the ledger names. There an event that stands in a page beside the ledger (`fairveil.loop.pages`) is not learned
again; where pages are lost or older than the ledger, learning waits until an operator accepts the epoch.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairveil.bandits.protocol import Block
from fairveil.errors import LedgerTampered, PrivacyError
from fairveil.loop import trail
from fairveil.loop.batch import Batch
from fairveil.loop.blocks import (
    OPENED,
    abandon,
    adopt_behind,
    begun_again,
    block_name,
    due_blocks,
    header_fits,
    header_of,
    note,
)
from fairveil.loop.facts import Status, first_tally
from fairveil.loop.lives import remember_keys
from fairveil.loop.pages import digest_of, without_page
from fairveil.loop.paying import check_newest
from fairveil.loop.seats import Seating

if TYPE_CHECKING:
    from fairveil.loop.loop import Loop

SETTLED = ("publish", "lost", "reserve")


class EpochWaits(PrivacyError):
    """Events may be learned once more in this epoch, and nobody has accepted that."""


def check_ledger(loop: Loop) -> None:
    """Compare store and ledger once after a start; starts a new epoch where the store was set back."""
    _compare(loop)
    _check_pages(loop)
    remember_keys(loop)


def _check_pages(loop: Loop) -> None:
    """In an epoch above 0 every published block has its page, or the epoch was accepted without."""
    epoch = loop.status().epoch
    if epoch == 0 or loop.pages is None:
        return
    loop.pages.list_events()
    missing = loop.pages.missing(_digests(loop))
    if missing and epoch not in loop.pages.accepted():
        raise EpochWaits(
            "the store was put back, and the keys of events that were released are lost or older than the ledger",
            path=loop.name,
            given=f"{len(missing)} published blocks without their page",
            allowed="a page for every published block",
            fix=f"restore them beside the ledger; or accept that events may be learned once more, which the guarantee "
            f"then says: fairveil store accept {loop.name}",
        )


def _digests(loop: Loop) -> dict[str, str | None]:
    """Of every published block of the loop the digest of its page."""
    start = loop.name + "/"
    published = [
        str(entry["name"])
        for entry in loop.ledger.entries()
        if entry["kind"] == "publish" and entry["name"].startswith(start) and reported_range(entry["name"]) is None
    ]
    return {name: digest_of(loop.ledger.value(name)) for name in published}


def _compare(loop: Loop) -> None:
    status, ledger = loop.status(), loop.ledger
    if ledger.sequence < status.ledger_sequence:
        raise _set_back(loop, f"entry {ledger.sequence}", f"at least entry {status.ledger_sequence}")
    with loop.store.reading() as tx:
        check_newest(tx, loop.ledger_name, ledger)
    _check_last(loop, status)
    unknown = _unknown(loop, status.ledger_sequence)
    if not unknown:
        return
    values = {name: _value(loop, name) for name in unknown}
    if loop.facts.by_seat:  # what a crash leaves has its row in the store: this copy is older
        _begin_epoch(loop, values, ledger.sequence)
        return
    due = {block_name(loop.facts, status.epoch, block.name): block for block in due_blocks(loop.facts.policy, status)}
    first = dict(itertools.islice(due.items(), len(unknown)))
    if set(first) == set(unknown) and all(header_fits(first[name], values[name]) for name in unknown):
        return
    _begin_epoch(loop, values, ledger.sequence)


def _begin_epoch(loop: Loop, values: dict[str, Any], sequence: int) -> None:
    if loop.pages is not None:
        loop.pages.list_events()  # before anybody decides in the new epoch
    _new_epoch(loop, values, sequence)


def _check_last(loop: Loop, status: Status) -> None:
    """A ledger that was set back and has grown since does not have the last release of this loop."""
    order = "epoch DESC, released_at DESC" if loop.facts.by_seat else "first DESC"
    query = f"SELECT epoch, name FROM blocks WHERE loop = ? AND status = 'released' ORDER BY {order} LIMIT 1"
    with loop.store.reading() as tx:
        found = tx.execute(query, (loop.facts.id,))
    if found and loop.ledger.status(block_name(loop.facts, *found[0])) != "published":
        raise _set_back(loop, "a ledger without the last release of this loop", "the ledger that has it")


def _set_back(loop: Loop, given: str, allowed: str) -> LedgerTampered:
    return LedgerTampered(
        "the ledger is older than the releases that this loop has made",
        path=str(loop.ledger.place),
        given=given,
        allowed=allowed,
        fix="restore the newest ledger; until then the loop decides and does not learn",
    )


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
        reports = tx.execute("SELECT epoch, kind, first, stop FROM reports WHERE loop = ?", (loop.facts.id,))
    known = {block_name(loop.facts, epoch, name) for epoch, name in rows}
    known |= {block_name(loop.facts, epoch, f"report-{kind}-{first}-{stop}") for epoch, kind, first, stop in reports}
    return sorted(taken - known)


def reported_range(name: str) -> tuple[int, int] | None:
    """First and last place of a report's block; None for a block of rounds.

    >>> reported_range("trial/0/report-fairness-0-500"), reported_range("trial/0/12")
    ((0, 500), None)
    """
    found = re.fullmatch(r".*/[0-9]+/report-[a-z]+-([0-9]+)-([0-9]+)", name)
    return None if found is None else (int(found[1]), int(found[2]))


def _value(loop: Loop, name: str) -> Any:
    return without_page(loop.ledger.value(name)) if loop.ledger.status(name) == "published" else None


def _new_epoch(loop: Loop, values: dict[str, Any], sequence: int) -> None:
    """Adopt what the ledger has published behind the copy, and go on behind every round and epoch that it names."""
    reached = [header[-1] for value in values.values() if (header := header_of(value)) is not None]
    places = [found[1] for name in values if (found := reported_range(name)) is not None]
    epochs = [int(name.split("/")[1]) for name in values]

    def change(batch: Batch) -> None:
        before, epoch = batch.before, max([batch.before.epoch, *epochs]) + 1
        own = block_name(batch.facts, before.epoch, "")
        stored = {name.removeprefix(own): value for name, value in values.items() if name.startswith(own)}
        at = max([batch.round, *reached])
        if batch.facts.by_seat:
            passed, start = _left_behind(batch, stored, at, epoch), at
        else:
            state, passed, start = abandon(batch.facts, batch.state, at, batch.rng, stored)
            batch.state = state
            for block, status in passed:
                note(batch, replace(block, stop=min(block.stop, start)), status)
        adopted = sum(status == "released" for _, status in passed)
        if batch.places is not None:
            batch.places.start_behind(places)
        batch.round = start
        batch.change(epoch=epoch, settled=start, version=before.version + adopted, ledger_sequence=sequence)
        facts = {"epoch": epoch, "round": start, "adopted": adopted, "abandoned": len(passed) - adopted}
        trail.note(batch.tx, batch.now, "fairveil", "epoch", loop.name, facts)

    loop.writer.act(change)


def _left_behind(batch: Batch, stored: dict[str, Any], at: int, epoch: int) -> list[tuple[Block, str]]:
    """By arrival: adopt what the ledger has released of the lines of this copy, and end them.

    A round of theirs may be in a release of the lost time under another seat, so none of them is learned any more, also
    when its reward comes later. New lines begin at seat 0.
    """
    facts = batch.facts
    query = "UPDATE blocks SET status = 'abandoned', released_at = ? WHERE loop = ? AND epoch = ? AND status = ?"
    batch.tx.execute(query, (batch.now, facts.id, batch.before.epoch, OPENED))
    state, passed = adopt_behind(facts, batch.status().state, stored)
    for block, status in passed:
        note(batch, block, status)
    batch.state = begun_again(facts, state, at)
    batch.change(released=at, epoch=epoch, tally=first_tally(facts, batch.state))
    batch.seats = Seating(facts, batch.before._replace(state=batch.state))
    return passed
