"""What the policies of this family share: arms, the intake of rewards, and how a run is simulated."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from fairveil.bandits.environments.arms import ArmEnvironment
from fairveil.bandits.environments.laws import UNIT
from fairveil.bandits.feedback import AT_ONCE
from fairveil.bandits.nash.runs import Intervals, IntervalSimulator, Walker, WalkerSimulator
from fairveil.bandits.protocol import Feedback, Policy, Report, Round
from fairveil.bandits.simulate import Case, Simulator, Streams
from fairveil.errors import HorizonError, InputError, PrivacyError
from fairveil.privacy.grid import clip_unit
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.mechanisms.exact import float_above
from fairveil.privacy.mechanisms.one_bit import OneBit
from fairveil.privacy.noise import Noise

UNIT_IN_WORDS = "one user's reward"


class NashPolicy(Policy):
    """A policy over plain arms. Episodic ones simulate a whole run as intervals, the others advance by rounds."""

    family = "nash"
    episodic: ClassVar[bool] = False
    arms: Any

    def intervals(self, world: ArmEnvironment, rounds: int, streams: Streams) -> Intervals:
        """A whole run with seeded noise (episodic policies)."""
        raise PrivacyError("this policy has no episodes", given=self.name)

    def walker(self, world: ArmEnvironment, rounds: int, streams: Streams) -> Walker:
        """A run that advances by rounds, with seeded noise."""
        raise PrivacyError("this policy has no rounds", given=self.name)

    def simulator(self, case: Case, streams: Streams) -> Simulator | None:
        if streams.noise.stream is None or case.lateness != AT_ONCE:
            return None
        if self.episodic:
            return IntervalSimulator(lambda: self.intervals(case.environment, case.rounds, streams))  # type: ignore[arg-type]
        return WalkerSimulator(self.walker(case.environment, case.rounds, streams))  # type: ignore[arg-type]


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


def one_bit_report(mechanism: OneBit, feedback: Feedback, strict: bool, noise: Noise) -> Report:
    """What a device sends for a reward: one random bit, nothing where there is no reward."""
    if feedback.reward is None:
        return Report(feedback.index, feedback.arm, None)
    bit = mechanism.encode([unit_reward(feedback.reward, strict)], noise)[0]
    return Report(feedback.index, feedback.arm, float(bit))


def reported(feedback: Feedback | Report, *, one_bit: bool) -> float | None:
    """What a local policy may read of a delivery: the value of a report; a raw reward is refused."""
    if not isinstance(feedback, Report):
        raise InputError(
            "a local policy learns reports, not rewards",
            path="feedback",
            given=type(feedback).__name__,
            allowed="what the policy's report returns",
            fix="call report on the user's side and send only that",
        )
    value = feedback.value
    if value is not None and (not math.isfinite(value) or (one_bit and value not in (0.0, 1.0))):
        raise InputError("this is not a report", path="feedback.value", allowed="what report returns")
    return value


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


def unit_reward(reward: float, strict: bool) -> float:
    """A reward in [0, 1]: clipped, or refused when ``strict``; not-a-number is always refused."""
    return float(np.asarray(clip_unit(reward, strict=strict)))


def laplace_scale(sensitivity: int, epsilon: float) -> float:
    """Grid steps of the Laplace noise on a number that one reward moves by ``sensitivity``; never below the exact one.

    >>> laplace_scale(1, 0.5), laplace_scale(1, 0.7) > UNIT / 0.7
    (2097152.0, True)
    """
    return float_above(Fraction(sensitivity * UNIT) / Fraction(epsilon))
