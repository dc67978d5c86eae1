"""Releases of a policy's blocks: charged first, read once, drawn once, stored in the ledger, then adopted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairveil.bandits.protocol import HEADER, Block, Feedback, Policy, Report
from fairveil.errors import PrivacyError
from fairveil.loop.batch import Batch, Status
from fairveil.loop.facts import Facts
from fairveil.loop.play import CandidatesPlay
from fairveil.loop.reply import PENDING
from fairveil.loop.settle import PAGE
from fairveil.loop.storage import Driver
from fairveil.privacy.ledger import Ledger, ReleaseLost
from fairveil.privacy.ledger.faults import point
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.state import State

MOST_BLOCKS = 100_000


def block_name(facts: Facts, epoch: int, block: str) -> str:
    """The id of a block in the ledger: it is taken once, for ever."""
    return f"{facts.spec.name}/{epoch}/{block}"


def due_block(policy: Policy, status: Status) -> Block | None:
    """The oldest open block, when all its rounds are settled."""
    block = policy.block(status.state)
    return block if block is not None and block.stop <= status.settled else None


def draw(facts: Facts, status: Status, block: Block, driver: Driver, ledger: Ledger, noise: Noise | None) -> Any:
    """The numbers of a block that is due, None when they are lost. Runs beside decisions; the rows are read once."""

    def fold(source: Noise) -> State:
        full = status.state
        for page in _pages(facts, driver, block):
            full = facts.policy.learn_all(full, page)
        point("block-folded")
        return facts.policy.draw(full, source)

    try:
        return ledger.release(block_name(facts, status.epoch, block.name), fold, account=facts.spec.name, noise=noise)
    except ReleaseLost:
        return None


def _pages(facts: Facts, driver: Driver, block: Block) -> Iterator[list[Feedback | Report]]:
    """The rows of a block in the order of rounds; rounds that settled unused are left out."""
    query = (
        "SELECT round, action, activated, reward, context FROM events "
        "WHERE loop = ? AND round >= ? AND round < ? AND learn = ? ORDER BY round LIMIT ?"
    )
    first, feedback = block.first, facts.play.feedback
    needs_context = isinstance(facts.play, CandidatesPlay)
    while True:
        with driver.reading() as tx:
            rows = tx.execute(query, (facts.id, first, block.stop, PENDING, PAGE))
        page = []
        for round, action, activated, reward, context in rows:
            if activated == 0 or (needs_context and context is None):
                continue
            value = facts.default if reward is None and facts.missing == "default" else reward
            page.append(feedback(round, action, value, context))
        yield page
        if len(rows) < PAGE:
            return
        first = rows[-1][0] + 1


def adopt(batch: Batch, block: Block, epoch: int, value: Any, sequence: int) -> bool:
    """Put drawn numbers into the published state; False when another process was faster."""
    before, facts = batch.before, batch.facts
    current = facts.policy.block(batch.state)
    if before.epoch != epoch or current is None or current.name != block.name or current.stop != block.stop:
        return False
    if value is None:
        state, version, status = facts.policy.lost(batch.state, block.name), before.version, "lost"
    else:
        state, version, status = facts.policy.adopt(batch.state, block.name, value), before.version + 1, "released"
    batch.tx.execute(
        "INSERT INTO blocks (loop, epoch, name, first, stop, status, released_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (facts.id, epoch, block.name, block.first, block.stop, status, batch.now),
    )
    point("block-adopted")
    batch.state = state
    batch.change(version=version, ledger_sequence=sequence, stopped=None)
    return True


def header_fits(block: Block | None, name: str, settled: int, value: Any) -> bool:
    """Whether a block that the ledger has, and the store does not, is the one that a crash kept from being adopted."""
    if block is None or block.name != name or block.stop > settled:
        return False
    header = value.get(HEADER) if isinstance(value, dict) else None
    return header is None or [int(number) for number in header] == [int(number) for number in block.header]


def abandon(facts: Facts, state: State, at: int, rng: Generator) -> tuple[State, list[Block], int]:
    """Drop every block that begins before round ``at``; gives the state, what was dropped, and where to go on.

    Rounds that a lost copy has played are opened and dropped too: they were played, and their sums are gone.
    """
    policy, dropped = facts.policy, list[Block]()
    while True:
        block = policy.block(state)
        if block is None:
            here = facts.reach(state)
            if here >= at:
                return state, dropped, here
            state = policy.open(state, here, rng)
            block = policy.block(state)
        if block is None or block.first >= at:
            return state, dropped, at if block is None else block.first
        state = policy.lost(state, block.name)
        dropped.append(block)
        if len(dropped) > MOST_BLOCKS:
            raise PrivacyError("the blocks of this policy never end", given=policy.name)
