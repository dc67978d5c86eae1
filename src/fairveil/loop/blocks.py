"""Releases of a policy's blocks: charged first, read once, drawn once, stored in the ledger, then adopted."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairveil.bandits.protocol import HEADER, Block, Feedback, Policy, Report
from fairveil.errors import PrivacyError
from fairveil.ledger import Ledger, Paid, Released, release_many
from fairveil.ledger.account import adopt as keep
from fairveil.loop.batch import Batch
from fairveil.loop.events import ERASED, NEVER, PENDING
from fairveil.loop.facts import Facts, Status
from fairveil.loop.pages import DIGEST, Pages, without_page
from fairveil.loop.play import CandidatesPlay, stand_in
from fairveil.loop.seats import MAY_SETTLE, PAGE, due_seats
from fairveil.loop.storage import Driver, adding
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.state import State
from fairveil.storage.faults import point

MOST_BLOCKS = 100_000
OPENED = "opened"
"""The fate of seats that are to be released together, before that is known."""
MOST_AT_ONCE = 64
"""Blocks that share their commits; a process that dies between two of these commits loses as many."""


def block_name(facts: Facts, epoch: int, block: str) -> str:
    """The id of a block in the ledger: it is taken once, for ever."""
    return f"{facts.spec.name}/{epoch}/{block}"


def due_blocks(policy: Policy, status: Status) -> list[Block]:
    """The oldest open blocks, as far as all their rounds are settled."""
    due = itertools.takewhile(lambda block: block.stop <= status.settled, policy.open_blocks(status.state))
    return list(itertools.islice(due, MOST_AT_ONCE))


def take_due(batch: Batch) -> tuple[list[Block], Status]:
    """What is due, and the state that has it. By arrival a pool has its row in the store before anybody pays for it.

    What a process opened and did not finish is drawn as it was: whatever has come since has a later seat.
    """
    tx, facts, epoch = batch.tx, batch.facts, batch.before.epoch
    if not facts.by_seat:
        return due_blocks(facts.policy, batch.status()), batch.status()
    query = "SELECT name, first, stop, arm, reach FROM blocks WHERE loop = ? AND epoch = ? AND status = ?"
    found = [Block(*row) for row in tx.execute(f"{query} ORDER BY name", (facts.id, epoch, OPENED))]
    busy, status = {block.arm for block in found}, batch.status()
    fresh = [replace(one, reach=status.round) for one in due_seats(facts, status) if one.arm not in busy]
    fresh = fresh[: MOST_AT_ONCE - len(found)]
    tx.many(
        adding("blocks", "loop, epoch, name, first, stop, arm, reach, erased, status"),
        [(facts.id, epoch, one.name, one.first, one.stop, one.arm, one.reach, one.first, OPENED) for one in fresh],
    )
    return [*found, *fresh], status


def draw(
    facts: Facts,
    status: Status,
    blocks: Sequence[Block],
    driver: Driver,
    ledger: Ledger,
    noise: Noise | None,
    pages: Pages | None = None,
) -> list[Any]:
    """The numbers of blocks that are due, None for a lost one; ends before one that another process draws.

    Runs beside decisions. All blocks are charged in one durable commit before the rows of the first are read, each is
    read and drawn once, and all are stored in another commit before anybody sees one. The keys of their events are on
    disk before that (``pages``).
    """
    check_people(facts, driver, status.epoch, blocks)
    states = [status.state]
    names = [block_name(facts, status.epoch, block.name) for block in blocks]
    digests: dict[str, str] = {}

    def fold(source: Noise, earlier: Sequence[Released]) -> dict[str, Any]:
        for block, released in zip(blocks[len(states) - 1 :], earlier[len(states) - 1 :], strict=False):
            states.append(_after(facts.policy, states[-1], block, numbers_of(released)))
        full, block = _folded(facts, driver, states[-1], status.epoch, blocks[len(earlier)]), blocks[len(earlier)]
        point("block-folded")
        value = facts.policy.draw(full, source)
        if block.reach is not None:
            value = {**value, HEADER: np.append(value[HEADER][:3], block.reach)}
        if pages is None:
            return value
        if not digests:
            events = {name: _keys(facts, driver, status.epoch, one) for name, one in zip(names, blocks)}
            digests.update(pages.write(events))
        return {**value, DIGEST: digests[names[len(earlier)]]}

    return [numbers_of(released) for released in release_many(Paid(ledger, facts.spec.name), names, fold, noise)]


def _folded(facts: Facts, driver: Driver, state: State, epoch: int, block: Block) -> State:
    """The state with the rewards of a block in it."""
    learn = facts.policy.learn_all
    if facts.arrived is not None:
        learn, state = facts.arrived.gather, facts.arrived.alone(state, block)
    published = state
    for page in _pages(facts, driver, epoch, block, published):
        state = learn(state, page)
    return state


STOOD = (
    "SELECT count(*) FROM (SELECT sum(CASE WHEN a.places > 0 THEN 1 ELSE 0 END) AS stood, max(a.places) AS places, "
    "coalesce(max(s.events), 0) AS counted FROM events e JOIN appearances a ON a.loop = e.loop AND a.event = e.key "
    "LEFT JOIN subjects s ON s.loop = a.loop AND s.key = a.subject "
    "WHERE {where} AND e.learn = ? GROUP BY a.subject) AS people "
    "WHERE counted > ? OR stood > counted OR places > ?"
)
"""People with more counted events than the limit, in more rows than were counted, or at too many places of one."""
NAMELESS = (
    "SELECT count(*) FROM (SELECT e.key FROM events e LEFT JOIN appearances a ON a.loop = e.loop AND a.event = e.key "
    "WHERE {where} AND e.learn = ? AND e.erased IS NULL GROUP BY e.key "
    "HAVING count(a.subject) = count(a.places) AND coalesce(sum(a.places), 0) <> max({people})) AS found"
)
"""Rows with somebody in them who is not known; of one that an older version wrote nobody can tell (no ``places``)."""


def check_people(facts: Facts, driver: Driver, epoch: int, blocks: Sequence[Block]) -> None:
    """The limit a person, held against the rows that are about to be released, by whatever way they came.

    Decisions count; here nothing of that is believed: everybody in a row is known, nobody is over the limit, in more
    rows than were counted, or at more places of one than declared. Who is excluded stands at none.
    """
    person = facts.spec.person
    if person.max_events is None or not blocks:
        return
    people = facts.play.people(len(facts.spec.features or ()))
    ranges = blocks if facts.by_seat else [replace(blocks[0], stop=blocks[-1].stop)]
    found = 0
    with driver.reading() as tx:
        for one in ranges:
            number, _, values = _rows(facts, epoch, one)
            line = " AND e.queue = ?" if number == "seat" else ""
            where, rows = f"e.loop = ?{line} AND e.{number} >= ? AND e.{number} < ?", (*values, one.first, one.stop)
            stood = tx.execute(STOOD.format(where=where), (*rows, PENDING, person.max_events, person.candidates))
            nameless = tx.execute(NAMELESS.format(where=where, people=people), (*rows, PENDING))
            found += stood[0][0] + nameless[0][0]
    if found:
        raise PrivacyError(
            "a block has rows beyond what was counted for the people in them",
            path="person.max_events",
            allowed=f"{person.max_events} events a person, each counted before it is learned",
            fix="nothing was drawn; look at what writes to this store, or erase these people",
        )


def numbers_of(released: Released) -> Any:
    """Numbers that are adopted, drawn now or before; None for a lost block, whose rows are dropped."""
    return without_page(released.answer(drawn=keep, stored=keep, lost=lambda _: None))


def _after(policy: Policy, state: State, block: Block, value: Any) -> State:
    if value is None:
        return policy.lost(state, block.name)
    if policy.clock != "arrived" and block.reach is not None:  # it knows its seats, not how many rounds were decided
        value = {**value, HEADER: value[HEADER][:3]}
    return policy.adopt(state, block.name, value)


def _rows(facts: Facts, epoch: int, block: Block) -> tuple[str, str, tuple[int, ...]]:
    """Which events a block holds: the column that numbers them, the condition and its values but the ends."""
    if block.reach is None:
        return "round", "loop = ? AND round >= ? AND round < ?", (facts.id,)
    return (
        "seat",
        "loop = ? AND queue = ? AND seat >= ? AND seat < ?",
        (facts.id, epoch * facts.lines + max(block.arm, 0)),
    )


def _pages(facts: Facts, driver: Driver, epoch: int, block: Block, state: State) -> Iterator[list[Feedback | Report]]:
    """The rows of a block in the order of rounds or seats, under these numbers; one that settled unused is left out.

    For one that is not learned for what was in it, or of which nothing is left among candidates, something public
    stands there (`fairveil.loop.play`). One that is erased has no reward.
    """
    number, where, values = _rows(facts, epoch, block)
    query = (
        f"SELECT {number}, action, activated, reward, context, learn FROM events WHERE {where} "
        f"AND {MAY_SETTLE} ORDER BY {number} LIMIT ?"
    )
    first, feedback = block.first, facts.play.feedback
    needs_context = isinstance(facts.play, CandidatesPlay)
    while True:
        with driver.reading() as tx:
            rows = tx.execute(query, (*values, first, block.stop, PAGE))
        page = []
        for place, action, activated, reward, context, learn in rows:
            if activated == 0:
                continue
            if learn == NEVER or (needs_context and context is None):
                made = stand_in(facts, state, place, block.arm, reward is not None)
            else:
                value = facts.default if reward is None and facts.missing == "default" else reward
                made = feedback(place, action, value, context)
            if made is not None:
                page.append(made)
        yield page
        if len(rows) < PAGE:
            return
        first = rows[-1][0] + 1


def _keys(facts: Facts, driver: Driver, epoch: int, block: Block) -> list[bytes]:
    """The keys of all events of a block, learned or not, in the order of rounds or seats, joined page by page: a large
    block leaves no more behind in memory than a small one. Asked again of an older copy none of them takes a round."""
    number, where, values = _rows(facts, epoch, block)
    query = f"SELECT {number}, key FROM events WHERE {where} AND {MAY_SETTLE} AND learn <> ? ORDER BY {number} LIMIT ?"
    first, joined = block.first, list[bytes]()
    with driver.reading() as tx:
        while rows := tx.execute(query, (*values, first, block.stop, ERASED, PAGE)):
            joined.append(b"".join(bytes(key) for _, key in rows))
            first = rows[-1][0] + 1
    return joined


def adopt(batch: Batch, blocks: Sequence[Block], epoch: int, values: Sequence[Any], sequence: int) -> int:
    """Put drawn numbers into the published state; gives how many, fewer when another process was faster."""
    adopted = 0
    for block, value in zip(blocks, values, strict=False):
        if batch.before.epoch == epoch and _is_open(batch, block):
            _adopt(batch, block, value, sequence)
            adopted += 1
    return adopted


def _is_open(batch: Batch, block: Block) -> bool:
    """Whether a block waits for its numbers: it is the oldest one, or its row of the store says so."""
    if block.reach is None:
        return batch.facts.policy.block(batch.state) == block
    query = "SELECT 1 FROM blocks WHERE loop = ? AND epoch = ? AND name = ? AND status = ?"
    return bool(batch.tx.execute(query, (batch.facts.id, batch.before.epoch, block.name, OPENED)))


def _adopt(batch: Batch, block: Block, value: Any, sequence: int) -> None:
    note(batch, block, "lost" if value is None else "released")
    point("block-adopted")
    batch.state = _after(batch.facts.policy, batch.status().state, block, value)
    version = batch.before.version + (value is not None)
    batch.change(version=version, ledger_sequence=sequence, stopped=None)


def note(batch: Batch, block: Block, status: str) -> None:
    """What became of a block, which alone forbids reading its rows again."""
    by_seat = block.reach is not None
    batch.tx.execute(
        "INSERT INTO blocks (loop, epoch, name, first, stop, status, released_at, arm, reach, erased) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (loop, epoch, name) DO UPDATE SET status = excluded.status, released_at = excluded.released_at",
        (batch.facts.id, batch.before.epoch, block.name, block.first, block.stop, status, batch.now,
         *((block.arm, block.reach, block.first) if by_seat else (None, None, None))),
    )  # fmt: skip
    if not by_seat:
        batch.change(released=max(batch.before.released, block.stop))


def header_fits(block: Block, value: Any) -> bool:
    """Whether numbers that the ledger has belong to the block that is open."""
    header = header_of(value)
    return header is None or header == [int(number) for number in block.header]


def abandon(
    facts: Facts, state: State, at: int, rng: Generator, stored: Mapping[str, Any] | None = None
) -> tuple[State, list[tuple[Block, str]], int]:
    """Leave every block behind that begins before round ``at``; gives the state, what became of each, where to go on.

    ``stored``: what a ledger has released of them, by name; it is adopted, with the rounds and the arm that it had. The
    others are dropped: rounds that a lost copy has played are opened too, because they were played.
    """
    policy, passed, values = facts.policy, list[tuple[Block, str]](), stored or {}
    while True:
        block = policy.block(state)
        if block is None:
            here = policy.reach(state)
            if here >= at:
                return state, passed, here
            state, block = _opened_again(policy, state, here, rng, values)
        if block is None or block.first >= at:
            return state, passed, at if block is None else block.first
        value = values.get(block.name)
        fits = value is not None and header_fits(block, value)
        state = _after(policy, state, block, value if fits else None)
        passed.append((block, "released" if fits else "abandoned"))
        if len(passed) > MOST_BLOCKS:
            raise PrivacyError("the blocks of this policy never end", given=policy.name)


def begun_again(facts: Facts, state: State, at: int) -> State:
    """What is published; nothing that is under way. From round ``at`` on seats are given anew.

    A schedule of batches goes on with its next one, of which nothing is taken yet.
    """
    return state if facts.arrived is None else facts.arrived.begun_again(state, at)


def adopt_behind(facts: Facts, state: State, stored: Mapping[str, Any]) -> tuple[State, list[tuple[Block, str]]]:
    """Releases by arrival that the ledger has and an older copy has not, by name (None: lost); what became of each."""
    passed = []
    for name in sorted(stored, key=lambda name: [int(part) for part in name.split("-")]):
        value, (arm, first, stop) = stored[name], (int(part) for part in name.split("-"))
        header = header_of(value)
        reach = stop if header is None else header[3]
        if facts.arrived is not None:
            block = Block(name, first, stop, arm, reach)
            state = facts.arrived.released_behind(state, block, value)
        else:
            block = Block(name, first, stop, -1, reach)
            state = _after(facts.policy, state, block, value)
        passed.append((block, "lost" if value is None else "released"))
    return state, passed


def _opened_again(
    policy: Policy, state: State, here: int, rng: Generator, values: Mapping[str, Any]
) -> tuple[State, Block | None]:
    """The next block: as the ledger says that it was, else as the policy would open it now."""
    opened = policy.open(state, here, rng)
    block = policy.block(opened)
    header = None if block is None else header_of(values.get(block.name))
    if block is not None and header is not None and header[1] == here:
        arm, first, stop = header
        opened = policy.reopen(state, Block(block.name, first, stop, arm))
    return opened, policy.block(opened)


def header_of(value: Any) -> list[int] | None:
    """Arm, first and last round of stored numbers, where they say so."""
    header = value.get(HEADER) if isinstance(value, dict) else None
    return None if header is None else [int(number) for number in header]
