"""Arms that come and go: one that is closed gets no further turn, and a new policy takes over what another published.

Which arms are closed stands in the state (``shut``), and is there only once somebody closed one: a public choice, like
the arms themselves. Everything here moves published numbers and public counts, so it costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from fairveil.arrays import Bools, Ints
from fairveil.state import State, copy_state

SHUT = "shut"
Rows = TypeVar("Rows", bound=tuple[Any, ...])
_BLOCK_ARM, _BLOCK_FIRST, _BLOCK_STOP = range(3)
_TURN_STOP, _TURN_ARM, _TURN_REACHED = 1, 2, 5
_CARRIED = ("sums", "counts", "draws", "lengths", "played", "closed", "given", "seats", "taken", "last", "looks")
_ONCE = ("ahead", "handed", "released")


def left_of(state: State) -> Ints | None:
    """The arms that may have a turn; None where all may."""
    return np.flatnonzero(~state[SHUT]) if SHUT in state else None


def narrowed(rows: Rows, left: Ints | None) -> Rows:
    """Arrays with one entry an arm, without the arms that are closed."""
    return rows if left is None else type(rows)(*(array[left] for array in rows))


def among(marked: Bools, left: Ints | None, arms: int) -> Bools:
    """Marks of the arms that are left, as marks of all."""
    if left is None:
        return marked
    whole = np.zeros(arms, np.bool_)
    whole[left] = marked
    return whole


def without(state: State, arm: int, now: int, arms: int) -> State:
    """The state once an arm is closed: its turn ends before round ``now``, and it has no other."""
    after = copy_state(state)
    after[SHUT] = state[SHUT].copy() if SHUT in state else np.zeros(arms, np.bool_)
    after[SHUT][arm] = True
    if "turn" in state:
        turn = after["turn"]
        if turn[_TURN_ARM] == arm:
            after["given"][arm] -= turn[_TURN_STOP] - turn[_TURN_REACHED]
            turn[_TURN_STOP] = turn[_TURN_REACHED]
        return after
    rows = after["open"]
    if len(rows) and rows[-1, _BLOCK_ARM] == arm and rows[-1, _BLOCK_STOP] > now:
        cut = rows[-1, _BLOCK_STOP] - now
        for name in ("played", "lengths"):
            after[name][arm] -= cut
        after["ahead"] -= cut
        rows[-1, _BLOCK_STOP] = now
        after["open"] = rows[rows[:, _BLOCK_STOP] > rows[:, _BLOCK_FIRST]]
    return after


def carried(fresh: State, state: State, source: Sequence[int | None]) -> State:
    """A first state that knows what another policy has published: arm i was arm ``source[i]`` there, or is new.

    Nothing of the other one may be open; what was under way there is left behind.
    """
    after = copy_state(fresh)
    pairs = [(new, old) for new, old in enumerate(source) if old is not None]
    for name in _CARRIED:
        for new, old in pairs if name in fresh else ():
            after[name][new] = state[name][old]
    for name in _ONCE:
        if name in fresh:
            after[name] = state[name].copy()
    if "turn" in fresh:
        stop = state["turn"][_TURN_STOP]
        after["turn"] = np.array([stop, stop, -1, 1, 0, stop], np.int64)
        after["came"], after["base"] = after["taken"].copy(), after["taken"].copy()
        after["given"] = after["came"] + after["closed"]
    return after
