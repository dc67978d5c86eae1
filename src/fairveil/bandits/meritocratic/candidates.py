"""What a live round may hold: every decision and every feedback is checked before it touches a state.

Groups are public and may be named in a message; features and rewards never are.

Choosing a candidate: the highest estimated rank, ties broken uniformly, or any of them with equal probability.

Rounds under a frozen rule: scores along one direction, ranks from one table per group.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.bandits.feedback import NOBODY
from fairveil.bandits.protocol import Decision, Feedback, Report, Round, raw_feedback
from fairveil.compiling import njit
from fairveil.errors import InputError
from fairveil.randomness import Generator


class Shown(NamedTuple):
    """The candidates of one round side by side."""

    features: Floats  # (candidates, columns)
    group: Ints  # (candidates,)


class Answered(NamedTuple):
    """A checked feedback: the round's candidates, who was chosen and the reward (None: it settled without one)."""

    shown: Shown
    arm: int
    reward: float | None


def shown_in(round: Round, columns: int | None, groups: int | None, path: str = "round") -> Shown:
    """The candidates of a round, checked against the declared numbers of columns and groups (None: any).

    >>> from fairveil.bandits.protocol import Candidate
    >>> shown_in(Round(0, (Candidate(1, np.zeros(2)),)), 2, 2).group.tolist()
    [1]
    """
    if not round.candidates:
        raise InputError(
            "the round has no candidates",
            path=f"{path}.candidates",
            allowed="at least one",
            fix="decide only rounds in which somebody can be chosen",
        )
    made = _as_arrays(round, columns, groups)
    if made is None:
        made = _one_by_one(round, columns, groups, path)
    if not np.isfinite(made.features).all():
        raise InputError(
            "the features of a candidate are not finite", path=f"{path}.candidates", allowed="finite numbers"
        )
    return made


def _as_arrays(round: Round, columns: int | None, groups: int | None) -> Shown | None:
    """The usual case in one go; None where something is unusual, which `_one_by_one` then takes or names."""
    features = [candidate.features for candidate in round.candidates]
    labels = [candidate.group for candidate in round.candidates]
    if not all(isinstance(each, np.ndarray) and each.dtype == np.float64 and each.ndim == 1 for each in features):
        return None
    if len({len(each) for each in features}) > 1 or columns not in (None, len(features[0])):
        return None
    if any(_not_whole(label) for label in labels) or min(labels) < 0 or (groups is not None and max(labels) >= groups):
        return None
    return Shown(np.array(features), np.array(labels, np.int64))


def _one_by_one(round: Round, columns: int | None, groups: int | None, path: str) -> Shown:
    """Every candidate for itself: an error names the first that is wrong."""
    people, labels = [], []
    for i, candidate in enumerate(round.candidates):
        where = f"{path}.candidates[{i}]"
        people.append(_features(candidate.features, columns, where))
        labels.append(_group(candidate.group, groups, where))
    if len({len(person) for person in people}) > 1:
        raise InputError(
            "candidates have different numbers of features", path=f"{path}.candidates", allowed="the same for all"
        )
    return Shown(np.stack(people), np.array(labels, np.int64))


def answered(feedback: Feedback | Report, columns: int | None, groups: int | None) -> Answered:
    """A feedback with the round that it repeats, checked; reports belong to local policies."""
    feedback = raw_feedback(feedback)
    if feedback.round is None:
        raise InputError(
            "the feedback does not repeat what was shown",
            path="feedback.round",
            allowed="the Round that was decided",
            fix="Feedback(index, arm, reward, round)",
        )
    if feedback.round.index != feedback.index:
        raise InputError(
            "the feedback repeats another round",
            path="feedback.round.index",
            given=feedback.round.index,
            allowed=str(feedback.index),
        )
    if feedback.arm == NOBODY and not feedback.round.candidates:
        return Answered(Shown(np.zeros((0, columns or 0)), np.zeros(0, np.int64)), NOBODY, None)
    shown = shown_in(feedback.round, columns, groups, "feedback.round")
    if _not_whole(feedback.arm) or not 0 <= feedback.arm < len(shown.group):
        raise InputError(
            "the chosen candidate does not exist",
            path="feedback.arm",
            given=feedback.arm,
            allowed=f"0 to {len(shown.group) - 1}",
        )
    return Answered(shown, int(feedback.arm), None if feedback.reward is None else _reward(feedback.reward))


def _not_whole(value: object) -> bool:
    return isinstance(value, bool) or not isinstance(value, int | np.integer)


def _features(values: Any, columns: int | None, path: str) -> Floats:
    try:
        made = np.ascontiguousarray(values, np.float64)
    except (TypeError, ValueError):
        raise InputError("the features of a candidate are not numbers", path=f"{path}.features") from None
    if np.ndim(values) != 1 or (columns is not None and len(made) != columns):
        raise InputError(
            "a candidate has another number of features",
            path=f"{path}.features",
            given=list(np.shape(values)),
            allowed=f"[{'any' if columns is None else columns}]",
        )
    return made


def _group(value: Any, groups: int | None, path: str) -> int:
    if _not_whole(value):
        raise InputError(
            "a group is named by its number",
            path=f"{path}.group",
            given=type(value).__name__,
            allowed="a whole number",
            fix="number the declared groups from 0",
        )
    number = int(value)
    if number < 0 or (groups is not None and number >= groups):
        last = "" if groups is None else f" to {groups - 1}"
        raise InputError("the group is not known", path=f"{path}.group", given=number, allowed=f"0{last}")
    return number


def _reward(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, str | bytes) or not math.isfinite(number):
        raise InputError("the reward is not finite", path="feedback.reward", allowed="a finite number, or None")
    return number


@njit(cache=True, nogil=True)
def best_rank(ranks, group, rng):
    """Slot of the largest estimated rank among the filled ones and how many share it; -1 when all are empty."""
    best, chosen, ties = -np.inf, -1, 0
    for slot in range(group.shape[0]):
        if group[slot] < 0:
            continue
        if ranks[slot] > best:
            best, chosen, ties = ranks[slot], slot, 1
        elif ranks[slot] == best:
            ties += 1
            if rng.random() * ties < 1.0:
                chosen = slot
    return chosen, ties


@njit(cache=True, nogil=True)
def uniform_slot(group, rng):
    """A filled slot, uniformly; -1 when all are empty."""
    filled = 0
    chosen = -1
    for slot in range(group.shape[0]):
        if group[slot] >= 0:
            filled += 1
            if rng.random() * filled < 1.0:
                chosen = slot
    return chosen


@njit(cache=True, nogil=True)
def uniform_slots(group, rng, slots):
    """One uniform choice for every row of ``group``; rows without anybody get slot 0."""
    for row in range(group.shape[0]):
        slots[row] = max(uniform_slot(group[row], rng), 0)


def uniform_decision(candidates: int, rng: Generator) -> Decision:
    """Any of the candidates with the same probability."""
    arm = int(uniform_slot(np.zeros(candidates, np.int64), rng))
    return Decision(arm, 1.0 / candidates, np.full(candidates, 1.0 / candidates))


class Rule(NamedTuple):
    """Weights on raw features, offset and deviation of the scores, and a rank table per group over their normal law."""

    weights: Floats
    offset: float
    deviation: float
    tables: Floats


@njit(cache=True, nogil=True)
def normal_cdf(x):
    return 0.5 * math.erfc(-x * 0.7071067811865476)


@njit(cache=True, nogil=True)
def table_rank(position, table):
    """Linear interpolation in a table over [0, 1]; a position that is not a number ranks lowest."""
    place = position * (table.shape[0] - 1) if position >= 0.0 else 0.0
    left = min(int(place), table.shape[0] - 2)
    part = place - left
    return table[left] * (1.0 - part) + table[left + 1] * part


@njit(cache=True, nogil=True)
def best_by_table(features, group, rule, rng):
    """Slot of the highest estimated rank, that rank and how many share it (one is drawn); -1 when all are empty."""
    best, chosen, ties = -1.0, -1, 0
    for slot in range(group.shape[0]):
        if group[slot] < 0:
            continue
        score = -rule.offset
        for i in range(rule.weights.shape[0]):
            score += features[slot, i] * rule.weights[i]
        rank = table_rank(normal_cdf(score / rule.deviation), rule.tables[group[slot]])
        if rank > best:
            best, chosen, ties = rank, slot, 1
        elif rank == best:
            ties += 1
            if rng.random() * ties < 1.0:
                chosen = slot
    return chosen, best, ties


@njit(cache=True, nogil=True)
def play_frozen(features, group, rule, rng, slots, estimates):
    """Decide a block of rounds with one frozen rule."""
    for row in range(group.shape[0]):
        slot, rank, _ = best_by_table(features[row], group[row], rule, rng)
        slots[row], estimates[row] = max(slot, 0), rank
