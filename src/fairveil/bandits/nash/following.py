"""A simulated run, followed from release to release: what is published when is in the simulator's log, by blocks or by
arrival, so estimates and the stopping rule are asked after each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fairveil.arrays import Bools, Floats, Ints
from fairveil.bandits.estimates import CONFIDENCE
from fairveil.bandits.nash.arrivals_run import ARM, AT, BEHIND, COUNT, DRAWS, LOOKS, SUM, ArrivalSimulator
from fairveil.bandits.nash.episodes import BlockSimulator, EpisodePolicy
from fairveil.bandits.nash.stopping import rule_intervals
from fairveil.bandits.simulate import Case, start_run

if TYPE_CHECKING:
    from fairveil.bandits.nash.planning import PlanQuestion

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Followed:
    """One run: ends and arms of its blocks; after each release (``at`` people) all estimates with their usual
    intervals (``rows``) and those of the rule (``ruled``), both (releases, arms, 3); ``stopped``: people at the first
    separation, ``verdict``: the arm that the rule named then."""

    ends: Ints
    played: Ints
    at: Ints
    rows: Floats
    ruled: Floats
    stopped: int
    verdict: int

    def place(self, people: int) -> int:
        """Releases that were made with so many people, minus one."""
        return int(np.searchsorted(self.at, people, side="right")) - 1


class RunTold(NamedTuple):
    """What a run published: the arm of every turn; of every release its arm, the people that were there, and what was
    known of that arm then; ``behind``: rounds of every arm that stand behind its number, where they change by time."""

    played: Ints
    arms: Ints
    at: Ints
    state: dict[str, Any]
    behind: Floats | None


def _told_by_blocks(simulator: BlockSimulator, policy: EpisodePolicy, ends: Ints) -> RunTold:
    log, shape = simulator.log, policy.shape()
    released = log.arms[: len(log.at)]
    number = _counted(released, np.ones(len(released), np.int64), policy.arms)
    state = {
        "sums": log.sums,
        "counts": log.counts,
        "draws": number * shape.draws if shape.keep else np.full(len(number), shape.draws, np.int64),
        "closed": number,
        "behind": _counted(released, np.diff(ends, prepend=0)[: len(released)], policy.arms).astype(np.float64),
    }
    return RunTold(log.arms, released, log.at, state, None)


def _told_by_arrival(simulator: ArrivalSimulator) -> RunTold:
    log = simulator.log
    names = {"sums": SUM, "draws": DRAWS, "looks": LOOKS, "came": AT}  # which says that it is a state by arrival
    state: dict[str, Any] = {name: log[:, column].astype(np.int64) for name, column in names.items()}
    state["counts"] = log[:, COUNT].copy()
    arms, at = log[:, ARM].astype(np.int64), log[:, AT].astype(np.int64)
    return RunTold(simulator.played, arms, at, state, log[:, BEHIND:])


def follow(case: Case, question: PlanQuestion, policy: EpisodePolicy, run: int) -> Followed:
    """Play one run to the end of the case and ask after every release."""
    simulator = start_run(case, case.streams(run))
    assert isinstance(simulator, BlockSimulator | ArrivalSimulator)
    if isinstance(simulator, ArrivalSimulator):
        simulator.logged = True
    ends = simulator.advance(case.rounds).ends
    assert ends is not None
    if isinstance(simulator, ArrivalSimulator):
        told = _told_by_arrival(simulator)
    else:
        told = _told_by_blocks(simulator, policy, ends)
    usual = _carried(policy.arm_intervals(told.state, CONFIDENCE), told.arms, policy.arms)
    ruled = _ruled(question, policy, told)
    best = np.argmax(ruled[:, :, 1], axis=1)
    highs = ruled[:, :, 2].copy()
    highs[np.arange(len(best)), best] = -np.inf
    apart: Bools = ruled[np.arange(len(best)), best, 1] > highs.max(axis=1, initial=-np.inf)
    first = int(np.argmax(apart)) if apart.any() else -1
    stopped, verdict = (int(told.at[first]), int(best[first])) if first >= 0 and policy.arms > 1 else (NEVER, -1)
    return Followed(ends, told.played, told.at, usual, ruled, stopped, verdict)


def _ruled(question: PlanQuestion, policy: EpisodePolicy, told: RunTold) -> Floats:
    """(releases, arms, 3) of the rule. By arrival those who have not answered yet stand behind a number too, and they
    change with every person: each arm is looked at anew at every release."""
    silence, most = question.silence if policy.shape().keep else "independent", policy.arms
    if told.behind is None or silence == "independent":
        return _carried(rule_intervals(policy, told.state, most, question.level, silence), told.arms, most)
    last = _last_releases(told.arms, most)
    known = last >= 0
    state = {name: numbers[last[known]] for name, numbers in told.state.items()} | {"behind": told.behind[known]}
    found = np.tile([np.nan, 0.0, 1.0], (*last.shape, 1))
    found[known] = rule_intervals(policy, state, most, question.level, silence)
    return found


def _counted(arms: Ints, amounts: Ints, most: int) -> Ints:
    """Running totals of amounts, each arm by itself."""
    found = np.zeros(len(arms), np.int64)
    for arm in range(most):
        mine = arms == arm
        found[mine] = np.cumsum(amounts[mine])
    return found


def _last_releases(arms: Ints, most: int) -> Ints:
    """(releases, arms): the number of the last release of every arm, -1 before its first."""
    found = np.where(arms[:, None] == np.arange(most), np.arange(len(arms))[:, None], -1)
    return np.maximum.accumulate(found) if len(arms) else found


def _carried(rows: Floats, arms: Ints, most: int) -> Floats:
    """(releases, arms, 3): what is known of every arm after each release; nothing: a mean in [0, 1]."""
    last = _last_releases(arms, most)
    found = np.tile([np.nan, 0.0, 1.0], (*last.shape, 1))
    found[last >= 0] = rows[last[last >= 0]]
    return found
