"""Lives of a loop: how often whom it learns now may have been learned before, without being recognised.

A store that is put back has forgotten what came after its copy, a new key of ids makes everybody a stranger, and a loop
that starts from another one takes over what that has learned. Each is a life of its own to a person and to an event, so
promises count lives. Which epochs were accepted, and under which new keys it went on, stands in the ledger: what lies
beside it was lost before, and a copy of the store that is put back does not know what came after it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from fairveil.ledger import Account, Ledger, RunCost
from fairveil.privacy.events import NothingEvent
from fairveil.privacy.stability import PERSON, AtMost, Chain, Clip, FanOut

if TYPE_CHECKING:
    from fairveil.loop.config import LoopSpec
    from fairveil.loop.loop import Loop
    from fairveil.loop.storage import Transaction
    from fairveil.loop.store import Store


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
    epoch = loop.status().epoch
    with loop.store.reading() as tx:
        keys = _new_keys(tx, loop.name).union(_remembered(loop.ledger, loop.name))
    before = units_before(loop.store, loop.facts.spec)
    return Lives(epoch, 0 if epoch == 0 else len(_accepted(loop, epoch)), len(keys), before)


def units_before(store: Store, spec: LoopSpec) -> int | None:
    """Units of one person in the loops that a loop starts from; None where these do not limit them."""
    if spec.start_from is None:
        return 0
    other = store.loop(spec.start_from)
    return units_of_person(other.facts.spec, lives_of(other))


def units_of_person(spec: LoopSpec, lives: Lives) -> int | None:
    """Places in a request times events, once more for each life; None where events per person are not limited."""
    if spec.person.max_events is None or lives.before is None:
        return None
    learned = Chain(PERSON, AtMost(spec.person.max_events), FanOut(places_of_person(spec)), Clip(0.0, 1.0))
    return int(learned.sensitivity.l1) * (lives.epoch + lives.keys + 1) + lives.before


def places_of_person(spec: LoopSpec) -> int:
    """At how many places of one request somebody may have been learned: in a loop of release 0.1, which did not look
    who they are, at all of them."""
    return spec.max_candidates if spec.of_release_0_1 and spec.features is not None else spec.person.candidates


def epoch_account(loop: str, epoch: int) -> str:
    """The account of an epoch that was accepted; no loop has a name like this."""
    return f"{loop}/epoch-{epoch}"


def _accepted(loop: Loop, epoch: int) -> set[int]:
    known = set() if loop.pages is None else set(loop.pages.accepted())
    numbers = range(1, epoch + 1)
    return known | {one for one in numbers if loop.ledger.event_of(epoch_account(loop.name, one)) is not None}


def remember_keys(loop: Loop) -> None:
    """Put new keys of ids into the ledger, before anything is released under them."""
    with loop.store.reading() as tx:
        keys = _new_keys(tx, loop.name)
    known = _remembered(loop.ledger, loop.name)
    for number, key in enumerate(sorted(keys.difference(known)), len(known) + 1):
        Account(loop.ledger, key_account(loop.name, number), RunCost(NothingEvent()), key).pay()


def key_account(loop: str, number: int) -> str:
    """The account that remembers a new key of ids: it costs nothing, its holder is the key's name."""
    return f"{loop}/key-{number}"


def _remembered(ledger: Ledger, loop: str) -> list[str]:
    """New keys that the ledger knows of, also of a time that the store has forgotten."""
    found: list[str] = []
    while (key := ledger.holder_of(key_account(loop, len(found) + 1))) is not None:
        found.append(key)
    return found


def _new_keys(tx: Transaction, loop: str) -> set[str]:
    """Keys under which an operator went on without the old one since this loop was made; one without a name is its
    entry of the trail."""
    made = "SELECT coalesce(max(seq), 0) FROM trail WHERE action = 'create' AND target = ?"
    rows = tx.execute(f"SELECT facts, hash FROM trail WHERE action = 'new-key' AND seq > ({made})", (loop,))
    return {json.loads(facts).get("key", hash) for facts, hash in rows}
