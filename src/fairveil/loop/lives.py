"""Lives of a loop: how often whom it learns now may have been learned before, without being recognised.

A store that is put back has forgotten what came after its copy, a new key of ids makes everybody a stranger, and a loop
that starts from another one takes over what that has learned. Each is a life of its own to a person and to an event, so
promises count lives. Which epochs were accepted stands in the ledger, because what lies beside it was lost before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fairveil.privacy.stability import PERSON, AtMost, Chain, Clip, FanOut

if TYPE_CHECKING:
    from fairveil.loop.config import Person
    from fairveil.loop.loop import Loop
    from fairveil.loop.storage import Transaction


class Lives(NamedTuple):
    """What a loop was before.

    ``epoch``: how often its store was put back, ``blind``: in how many of these epochs without the keys of released
    events; ``keys``: how often it went on under a new key of ids; ``before``: units of one person in the loops that it
    started from, None where these do not limit them.
    """

    epoch: int = 0
    blind: int = 0
    keys: int = 0
    before: int | None = 0


def lives_of(loop: Loop) -> Lives:
    """The lives of a loop so far."""
    epoch, start = loop.status().epoch, loop.facts.spec.start_from
    with loop.store.reading() as tx:
        keys = _new_keys(tx, loop.name)
    before: int | None = 0
    if start is not None:
        other = loop.store.loop(start)
        before = units_of_person(other.facts.spec.person, lives_of(other))
    return Lives(epoch, 0 if epoch == 0 else len(_accepted(loop, epoch)), keys, before)


def units_of_person(person: Person, lives: Lives) -> int | None:
    """Places in a request times events, once more for each life; None where events per person are not limited."""
    if person.max_events is None or lives.before is None:
        return None
    learned = Chain(PERSON, AtMost(person.max_events), FanOut(person.candidates), Clip(0.0, 1.0))
    return int(learned.sensitivity.l1) * (lives.epoch + lives.keys + 1) + lives.before


def epoch_account(loop: str, epoch: int) -> str:
    """The account of an epoch that was accepted; no loop has a name like this."""
    return f"{loop}/epoch-{epoch}"


def _accepted(loop: Loop, epoch: int) -> set[int]:
    known = set() if loop.pages is None else set(loop.pages.accepted())
    numbers = range(1, epoch + 1)
    return known | {one for one in numbers if loop.ledger.event_of(epoch_account(loop.name, one)) is not None}


def _new_keys(tx: Transaction, loop: str) -> int:
    """How often an operator went on without the old key since this loop was made."""
    made = "SELECT coalesce(max(seq), 0) FROM trail WHERE action = 'create' AND target = ?"
    [(count,)] = tx.execute(f"SELECT count(*) FROM trail WHERE action = 'new-key' AND seq > ({made})", (loop,))
    return int(count)
