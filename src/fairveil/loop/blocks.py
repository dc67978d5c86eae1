"""Releases of a policy's blocks: charged first, read once, drawn once, stored in the ledger, then adopted."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
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
MOST_AT_ONCE = 64
"""Blocks that share their commits; a process that dies between two of these commits loses as many."""


def block_name(facts: Facts, epoch: int, block: str) -> str:
    """The id of a block in the ledger: it is taken once, for ever."""
    return f"{facts.spec.name}/{epoch}/{block}"


def due_blocks(policy: Policy, status: Status) -> list[Block]:
    """The oldest open blocks, as far as all their rounds are settled."""
    due = itertools.takewhile(lambda block: block.stop <= status.settled, policy.open_blocks(status.state))
    return list(itertools.islice(due, MOST_AT_ONCE))


def draw(
    facts: Facts, status: Status, blocks: Sequence[Block], driver: Driver, ledger: Ledger, noise: Noise | None
) -> list[Any]:
    """The numbers of blocks that are due, None for a lost one; ends before one that another process draws.

    Runs beside decisions. All blocks are charged in one durable commit before the rows of the first are read, each is
    read and drawn once, and all are stored in another commit before anybody sees one.
    """
    states = [status.state]

    def fold(source: Noise, earlier: Sequence[Any]) -> State:
        for block, value in zip(blocks[len(states) - 1 :], earlier[len(states) - 1 :], strict=False):
            states.append(_after(facts.policy, states[-1], block, _numbers(value)))
        full, block = states[-1], blocks[len(earlier)]
        for page in _pages(facts, driver, block):
            full = facts.policy.learn_all(full, page)
        point("block-folded")
        return facts.policy.draw(full, source)

    names = [block_name(facts, status.epoch, block.name) for block in blocks]
    return [_numbers(value) for value in ledger.release_all(names, fold, account=facts.spec.name, noise=noise)]


def _numbers(value: Any) -> Any:
    return None if isinstance(value, ReleaseLost) else value


def _after(policy: Policy, state: State, block: Block, value: Any) -> State:
    return policy.lost(state, block.name) if value is None else policy.adopt(state, block.name, value)


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


def adopt(batch: Batch, blocks: Sequence[Block], epoch: int, values: Sequence[Any], sequence: int) -> int:
    """Put drawn numbers into the published state; gives how many, fewer when another process was faster."""
    adopted = 0
    for block, value in zip(blocks, values, strict=False):
        if batch.before.epoch == epoch and batch.facts.policy.block(batch.state) == block:
            _adopt(batch, block, value, sequence)
            adopted += 1
    return adopted


def _adopt(batch: Batch, block: Block, value: Any, sequence: int) -> None:
    before, facts = batch.before, batch.facts
    batch.tx.execute(
        "INSERT INTO blocks (loop, epoch, name, first, stop, status, released_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            *(facts.id, before.epoch, block.name, block.first, block.stop),
            *("lost" if value is None else "released", batch.now),
        ),
    )
    point("block-adopted")
    batch.state = _after(facts.policy, batch.state, block, value)
    batch.change(version=before.version + (value is not None), ledger_sequence=sequence, stopped=None)


def header_fits(block: Block, value: Any) -> bool:
    """Whether numbers that the ledger has belong to the block that is open."""
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
