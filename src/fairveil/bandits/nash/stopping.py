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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairveil.arrays import Floats
from fairveil.bandits.estimates import CONFIDENCE, Estimates, check_confidence, check_established, intervals
from fairveil.bandits.nash.base import BOTH_ERRORS, MEAN_REWARD, NashPolicy, unknown_arms, whatever_silence
from fairveil.bandits.nash.episodes import EpisodePolicy
from fairveil.bandits.nash.optimism import arm_intervals
from fairveil.bandits.nash.waiting import by_arrival, silent_rounds
from fairveil.errors import SpecError
from fairveil.state import State

Silence = Literal["any", "independent"]
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
