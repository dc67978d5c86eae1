"""What the policies of this family share: arms, guarantees, and what is refused."""

from __future__ import annotations

from typing import Any

from fairveil.bandits.environments.arms import ArmEnvironment
from fairveil.bandits.protocol import Feedback, Policy, Report, Round
from fairveil.bandits.simulate import Case
from fairveil.errors import HorizonError, InputError, SpecError
from fairveil.privacy.guarantee import Guarantee

UNIT_IN_WORDS = "one user's reward"
REPORTS_ARE_PUBLIC = "whether and when a report was sent is public"


class NashPolicy(Policy):
    """A policy over plain arms."""

    family = "nash"
    arms: Any


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
