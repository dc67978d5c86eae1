"""What a loop chooses by its own coins, and whether that takes a round: for everybody alike.

A coin that explores takes no round. Whether a request takes one must not depend on who sends it and what it excludes:
rounds are public, and blocks are counted in them.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from fairveil.bandits.nash.closing import left_of
from fairveil.loop.play import Choice
from fairveil.loop.problems import Invalid
from fairveil.loop.requests import Ask

if TYPE_CHECKING:
    from fairveil.loop.batch import Batch


def without_closed(batch: Batch, ask: Ask) -> Ask:
    """The request with the arms that are not closed."""
    left = left_of(batch.state)
    if left is None:
        return ask
    allowed = tuple(arm for arm in left.tolist() if ask.permits(arm))
    if not allowed:
        raise Invalid("every action is excluded or closed", path="exclude", allowed="at least one action left")
    return replace(ask, allowed=allowed)


def _free(batch: Batch, ask: Ask) -> Ask:
    """The request if it excluded nothing."""
    return ask if ask.allowed is None else without_closed(batch, replace(ask, allowed=None))


def own_choice(batch: Batch, ask: Ask, at: int) -> Choice:
    """The choice of the loop's own coins. The same coins, thrown for a request that excludes nothing, say whether it
    takes a round; one that cannot be learned then counts as a missing reward."""
    facts = batch.facts
    burning = facts.guards.burn_in > 0 and batch.serving.decided < facts.guards.burn_in
    free = _free(batch, ask)
    if facts.policy.arms is None or not facts.keeps_rounds or ask.allowed == free.allowed:
        choice = facts.play.choose(batch.at_state, at, ask, batch.rng, burning)
        return choice._replace(takes=choice.reason is None)
    coins = copy.deepcopy(batch.rng)
    choice = facts.play.choose(batch.at_state, at, ask, batch.rng, burning)
    anybody = facts.play.choose(batch.at_state, at, free, coins, burning)
    takes, reason = anybody.reason is None, choice.reason
    if takes != (reason is None):
        reason = "excluded" if takes else anybody.reason
    return choice._replace(reason=reason, drawn=anybody.drawn, takes=takes)


def kept_choice(batch: Batch, kept: Choice, ask: Ask, at: int) -> Choice:
    """The arm that somebody keeps, with the round and the coins of somebody who is not known."""
    made = own_choice(batch, _free(batch, ask), at)
    return kept._replace(drawn=made.drawn, takes=made.takes)
