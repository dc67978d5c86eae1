"""What the policies of this family share: arms, guarantees, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.bandits.environments.arms import ArmEnvironment
from fairveil.bandits.estimates import CONFIDENCE, Estimates, check_confidence, check_established, intervals
from fairveil.bandits.nash.intervals import Evidence, arm_intervals
from fairveil.bandits.protocol import Feedback, Policy, Report, Round
from fairveil.bandits.simulate import Case
from fairveil.errors import HorizonError, InputError, SpecError
from fairveil.privacy.guarantee import Guarantee
from fairveil.state import State

UNIT_IN_WORDS = "one user's reward"
REPORTS_ARE_PUBLIC = "whether and when a report was sent is public"
BOTH_ERRORS = "intervals hold sampling error and privacy noise together"
AT_ONCE = "Chernoff bounds for the blocks an arm has had; adaptive sampling is met by their slack, which was measured"
ANYTIME = "they hold at all rounds at once, however arms were chosen and whenever one stops (proven)"
MEAN_REWARD = "mean reward"


class NashPolicy(Policy):
    """A policy over plain arms."""

    family = "nash"
    arms: Any

    def evidence(self, state: State) -> Evidence | None:
        """What is published of every arm, out of a state's released arrays; None where decisions are all there is."""
        return None

    def rounds_by_arm(self, state: State) -> NDArray[np.int64] | None:
        """Rounds of every arm in released blocks, which are public; None where releases do not hold them."""
        return None

    def arm_intervals(self, state: State, confidence: float = CONFIDENCE, anytime: bool = False) -> NDArray[np.float64]:
        """(arms, 3): estimated mean reward, and the interval it lies in."""
        check_established(self.guarantee(), self.name)
        found, chance = self.evidence(state), check_confidence(confidence)
        return unknown_arms(self.arms) if found is None else arm_intervals(found, chance, anytime)

    def estimates(self, state: State, confidence: float = CONFIDENCE, anytime: bool = False) -> Estimates:
        """The mean reward of every arm; see `fairveil.bandits.nash.intervals` for why the intervals cover.

        ``anytime``: wider intervals that hold at all rounds at once, for whoever looks often or stops on what he sees.
        """
        return arm_estimates(self.arm_intervals(state, confidence, anytime), confidence, anytime)


def unknown_arms(arms: int) -> NDArray[np.float64]:
    """Rows of arms of which nothing is published."""
    return np.tile([np.nan, 0.0, 1.0], (arms, 1))


def arm_estimates(rows: NDArray[np.float64], confidence: float, anytime: bool = False) -> Estimates:
    """Rows (value, low, high) of all arms as estimates."""
    names = [f"arm {arm}" for arm in range(len(rows))]
    notes = (BOTH_ERRORS, ANYTIME if anytime else AT_ONCE)
    return Estimates(intervals(MEAN_REWARD, names, rows), confidence, notes=notes)


def global_guarantee(epsilon: float, *notes: str, established: bool = True) -> Guarantee:
    """Pure privacy of one user's reward against everything the policy publishes and does, a curator being trusted."""
    return Guarantee.pure(
        epsilon,
        model="global",
        unit=UNIT_IN_WORDS,
        neighbours="replace-reward",
        established=established,
        notes=notes,
    )


def local_guarantee(epsilon: float, *notes: str, established: bool = True) -> Guarantee:
    """Pure privacy of one user's reward against the learner itself: only a randomised report leaves the user."""
    return Guarantee.pure(
        epsilon,
        model="local",
        unit=UNIT_IN_WORDS,
        neighbours="any-two-inputs",
        established=established,
        notes=notes,
    )


def world_of(case: Case) -> ArmEnvironment:
    """The arms of a case; another kind of world is refused."""
    environment = case.environment
    if not isinstance(environment, ArmEnvironment):
        raise SpecError("a nash environment has plain arms", path="environment.name", given=environment.name)
    return environment


def check_arm(feedback: Feedback | Report, arms: int) -> None:
    """Refuse a feedback that names no arm of this policy."""
    if not 0 <= feedback.arm < arms or feedback.index < 0:
        raise InputError(
            "the feedback does not fit this policy",
            path="feedback.arm",
            given=feedback.arm,
            allowed=f"arms 0 to {arms - 1}, rounds from 0",
        )


def check_horizon(round: Round, horizon: int) -> None:
    """Refuse to decide past the horizon a policy was built for."""
    if round.index >= horizon:
        raise HorizonError(
            "the policy was built for fewer rounds",
            path="round",
            given=round.index,
            allowed=f"rounds 0 to {horizon - 1}",
            fix="build it with a larger horizon, or wrap it in anytime",
        )
