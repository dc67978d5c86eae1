"""What waits in a loop that releases by arrival, by arm, and what is to be said about it: all of it public."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fairveil.bandits.estimates import Answers
from fairveil.loop.facts import Status, counters
from fairveil.loop.seats import decided_by_line

if TYPE_CHECKING:
    from fairveil.loop.loop import Loop

CAP = 8
"""Rounds under way, relative to what is published, from which on an arm is worth a word."""
OFTEN = 3
"""A window is long where it is so many times the usual delay."""


def who_answered(answers: Answers, low: float, high: float) -> dict[str, Any]:
    """Who stands behind an arm's number, and the bounds that hold whatever the others would say."""
    wide = {"lowest": low + (high - low) * answers.lowest, "highest": low + (high - low) * answers.highest}
    return {"answered": answers.answered, "open": answers.open, "closed": answers.closed, **wide}


def waiting(loop: Loop, status: Status) -> list[dict[str, Any]] | None:
    """Of every arm (or of the line of candidates): rounds ``under_way``, of which ``answered`` wait for their release,
    and rounds of the loop ``since`` the last one fell due (since the beginning: None). None where blocks are released.
    """
    facts = loop.facts
    if not facts.by_seat:
        return None
    with loop.store.reading() as tx:
        query = "SELECT arm, max(reach) FROM blocks WHERE loop = ? AND status = 'released' GROUP BY arm"
        reach: dict[int, int] = dict(tx.execute(query, (facts.id,)))  # type: ignore[arg-type]
    came, closed = counters(facts, status)
    if facts.arrived is not None:
        decided, taken = decided_by_line(status.state, status.round), status.state["taken"]
        under = decided - closed - taken
    else:
        block = facts.policy.block(status.state)
        taken = came if block is None else np.array([block.first])
        under = np.array([status.round]) - closed - taken
    lines = range(facts.lines) if facts.arrived is not None else [-1]
    return [
        {
            "action": None if line < 0 else line,
            "under_way": int(under[line]),
            "answered": int(came[line] - taken[line]),
            "since": status.round - reach[line] if line in reach else None,
        }
        for line in lines
    ]
