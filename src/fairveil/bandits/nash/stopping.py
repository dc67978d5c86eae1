"""When a trial may stop because one arm is best: a rule that may be asked after every release.

The rule stops at the first release after which the lower end of one arm's interval lies above the upper ends of all
others. Its intervals hold together: each of k arms at level 1 - alpha/k (union bound), each for every number of blocks
at once (``anytime`` in `fairveil.bandits.nash.optimism`). So with chance at least 1 - alpha no interval that anybody
ever looks at misses its mean, whoever looks how often, and the arm that the rule names is the best one.

Rounds that settle without an answer: whether an outcome comes, and when, may depend on the outcome itself (people who
recovered stay away). By default the rule asks nothing of that: the lower end counts every silent round of a released
block as 0, the upper end as 1, for all rounds of the arm's blocks, whose number is public; noisy counts (private
arrivals) only add their noise draws, which are counted. With ``silence="independent"`` silent rounds are left out:
narrower, and true only if silence says nothing about the outcome. When a block is released does not matter, as the
bound holds for all of them; blocks that wait for an answer are not in any interval yet.

A simulated run is followed from release to release: what is published when is in the simulator's log, by blocks or by
arrival, so estimates and the rule are asked after each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from fairveil.arrays import Bools, Floats, Ints
from fairveil.bandits.estimates import CONFIDENCE, Estimates, check_confidence, check_established, intervals
from fairveil.bandits.nash.arrivals_run import ARM, AT, BEHIND, COUNT, DRAWS, LOOKS, SUM, ArrivalSimulator
from fairveil.bandits.nash.base import BOTH_ERRORS, MEAN_REWARD, NashPolicy, unknown_arms, whatever_silence
from fairveil.bandits.nash.episodes import BlockSimulator, EpisodePolicy
from fairveil.bandits.nash.optimism import arm_intervals
from fairveil.bandits.nash.waiting import by_arrival, silent_rounds
from fairveil.bandits.simulate import Case, start_run
from fairveil.errors import SpecError
from fairveil.state import State

if TYPE_CHECKING:
    from fairveil.bandits.nash.planning import PlanQuestion


Silence = Literal["any", "independent"]
NEVER = np.iinfo(np.int64).max
TOGETHER = "all intervals hold together and at every look (proven): whoever stops at the first separation may do so"
SILENT_IN_WORDS: dict[Silence, str] = {
    "any": "a silent round counts as 0 below and as 1 above: nothing is assumed about who does not answer",
    "independent": "assumed: whether and when an outcome comes does not depend on it",
}


@dataclass(frozen=True)
class Separation:
    """What the rule says at one moment: ``best`` is the arm that is separated from all others, None while there is
    none; ``rows`` (arms, 3): value, low, high of intervals that hold together and at every look."""

    best: int | None
    rows: Floats
    confidence: float
    silence: Silence

    def estimates(self) -> Estimates:
        """The intervals of the rule, as estimates."""
        names = [f"arm {arm}" for arm in range(len(self.rows))]
        notes = (BOTH_ERRORS, TOGETHER, SILENT_IN_WORDS[self.silence])
        return Estimates(intervals(MEAN_REWARD, names, self.rows), self.confidence, notes=notes)


def separation(
    policy: NashPolicy, state: State, confidence: float = CONFIDENCE, silence: Silence = "any"
) -> Separation:
    """Ask the rule; it may be asked after every release, and its answer may be acted on.

    >>> from fairveil.bandits.nash.private_nash import PrivateNash
    >>> policy = PrivateNash(arms=2, epsilon=1.0)
    >>> print(separation(policy, policy.start()).best)
    None
    """
    rows = rule_intervals(policy, state, policy.arms, check_confidence(confidence), silence)
    return Separation(separated(rows), rows, confidence, silence)


def separated(rows: Floats) -> int | None:
    """The arm whose lower end lies above every other upper end."""
    best = int(np.argmax(rows[:, 1]))
    others = np.delete(rows[:, 2], best)
    return best if len(others) and bool(rows[best, 1] > others.max()) else None


def rule_intervals(policy: NashPolicy, state: State, arms: int, confidence: float, silence: Silence) -> Floats:
    """(entries, 3) of the rule for ``arms`` arms; a state may hold one entry an arm, or one a release of a run."""
    check_established(policy.promise, policy.name)
    each = 1.0 - (1.0 - confidence) / arms
    evidence = policy.evidence(state)
    if evidence is None:
        return unknown_arms(arms)
    rows = arm_intervals(evidence, each, anytime=True)
    if silence == "independent":
        if policy.hides_arrivals:
            raise SpecError(
                "the number of rewards is noisy, so silent rounds cannot be left out",
                path="silence",
                given=silence,
                allowed="any",
            )
        return rows
    rounds = _rounds_behind(policy, state)
    if rounds is None:
        raise SpecError(
            "this policy does not publish how many rounds stand behind a number, so silence cannot be bounded",
            path="silence",
            given=silence,
            allowed="independent",
            fix='silence="independent" if whether an outcome comes says nothing about it; else private-nash',
        )
    rows[:, 1:] = whatever_silence(policy, state, rounds, each, anytime=True)
    return rows


def _rounds_behind(policy: NashPolicy, state: State) -> Floats | None:
    """Rounds of the blocks whose rewards are in each published number, None where releases do not say."""
    if not isinstance(policy, EpisodePolicy) or not policy.shape().keep:
        return None
    if "behind" in state:  # a simulated run, release by release
        found: Floats = state["behind"]
        return found
    if by_arrival(state):  # also those who have not answered yet, or never will
        return (state["seats"] + silent_rounds(state)).astype(np.float64)
    return policy.rounds_by_arm(state).astype(np.float64)


def named(rows: Floats) -> int | None:
    """The arm with the largest estimate, None while nothing is published."""
    known = rows[:, 0]
    return None if np.isnan(known).all() else int(np.nanargmax(known))


def words(found: Separation, names: Sequence[str]) -> str:
    """The verdict as a sentence."""
    level = f"{found.confidence:.0%}"
    if found.best is None:
        return f"No option is separated from all others at level {level}; looking again later is allowed."
    return f"{names[found.best]} is better than every other option at level {level}, however often one has looked."


# Simulated runs, followed ---------------------------------------------------------------------------------------------


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
