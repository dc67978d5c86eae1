"""What counts in the place of a reward that must not be learned.

An event over its person's limit, of somebody who keeps an arm, or that excludes the arm of its turn, keeps its round,
and nothing public may tell it from any other. Where arrivals are public its reward is *answered* when it comes: it
takes its seat at that moment, its value is dropped at the door, and at the release a public number stands in its place:
what the published numbers let one expect of a reward of that arm, and one half before anything is published. So a row
moves by at most the width of the range, as any other reward. Where arrivals are hidden the declared default stands
there, as for everybody who does not answer.

Among candidates the stand-in is a row of zeros, which adds nothing to a sum: counted where a policy counts rows
exactly, left out where it does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairveil.bandits.protocol import Candidate, Feedback, Report, Round
from fairveil.loop.events import NEVER, OF_ITS_CONTENT, Event

if TYPE_CHECKING:
    from fairveil.loop.facts import Facts
    from fairveil.state import State

ANSWERED = 0.0
"""Stored in the place of a reward whose value is not kept."""


def stands_in(facts: Facts, row: Event) -> bool:
    """Whether a reward of this round counts when it comes, with a public number in place of its value."""
    kept = row.learn == NEVER and row.round is not None and row.reason in OF_ITS_CONTENT
    return kept and facts.missing == "public"


def stand_in(facts: Facts, state: State, place: int, arm: int, answered: bool) -> Feedback | Report | None:
    """What a release is handed of a round of this arm that is not learned; None where that is nothing at all."""
    hidden = facts.missing == "default"
    if facts.policy.arms is None:
        return _zeros(facts, place, answered or hidden) if facts.policy.counts_rows else None
    expected = facts.policy.expected_reward(state, arm) if answered else None
    return facts.play.feedback(place, arm, facts.default if hidden else expected, None)


def _zeros(facts: Facts, place: int, counted: bool) -> Feedback:
    nobody = Candidate(0, np.zeros(len(facts.spec.features or ())))
    return Feedback(place, 0, 0.0 if counted else None, Round(place, (nobody,)))
