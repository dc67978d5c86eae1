"""What counts in the place of a reward that must not be learned.

An event over its person's limit, of somebody who keeps an arm, or that excludes the arm of its turn, keeps its round,
and nothing public may tell it from any other. At the release a public number stands in the place of its reward: what
the published numbers let one expect of that arm, and one half of the range before anything is published. So a row moves
by at most the width of the range, as any other reward, and estimates are drawn to nothing but themselves. Where
arrivals are public its reward is *answered* when it comes: it takes its seat at that moment, and its value is dropped
at the door. Where they are hidden the number stands there whether or not one came.

Among candidates the stand-in is a row of zeros, which adds nothing to a sum: counted where a policy counts rows
exactly, left out where it does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairveil.bandits.protocol import Candidate, Feedback, Report, Round
from fairveil.loop.events import NEVER, OF_ITS_CONTENT, Event

if TYPE_CHECKING:
    from fairveil.loop.batch import Batch
    from fairveil.loop.facts import Facts
    from fairveil.state import State

ANSWERED = 0.0
"""Stored in the place of a reward whose value is not kept."""


def stands_in(facts: Facts, row: Event) -> bool:
    """Whether a reward of this round counts when it comes, with a public number in place of its value."""
    kept = row.learn == NEVER and row.round is not None and row.reason in OF_ITS_CONTENT
    return kept and facts.missing == "public"


def answer_unread(batch: Batch, row: Event) -> None:
    """Answer a round whose reward is not learned, in time or late, as that of any other; nothing keeps its value."""
    waits = row.rewarded is None and row.erased is None and stands_in(batch.facts, row)
    if waits and batch.through(row) is None:
        batch.answer(row, ANSWERED if batch.still_open(row) else None)


def stand_in(facts: Facts, state: State, place: int, arm: int, answered: bool) -> Feedback | Report | None:
    """What a release is handed of a round of this arm that is not learned; None where that is nothing at all."""
    counted = answered or facts.missing == "default"
    if facts.policy.arms is None:
        return _zeros(facts, place, counted) if facts.policy.counts_rows else None
    return facts.play.feedback(place, arm, facts.policy.expected_reward(state, arm) if counted else None, None)


def _zeros(facts: Facts, place: int, counted: bool) -> Feedback:
    nobody = Candidate(0, np.zeros(len(facts.spec.features or ())))
    return Feedback(place, 0, 0.0 if counted else None, Round(place, (nobody,)))
