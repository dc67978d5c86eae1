"""What the policies of this family share: arms, guarantees, and what is refused.

How a reward enters a policy over plain arms: clipped to [0, 1], on the grid, or as a user's report.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.bandits.environments.arms import UNIT, ArmEnvironment
from fairveil.bandits.estimates import (
    CONFIDENCE,
    Answers,
    Estimates,
    check_confidence,
    check_established,
    intervals,
)
from fairveil.bandits.nash.optimism import Evidence, arm_intervals
from fairveil.bandits.protocol import Feedback, Policy, Report, Round
from fairveil.bandits.quotes import Noisy
from fairveil.bandits.simulate import Case
from fairveil.configuration import unless
from fairveil.errors import HorizonError, InputError, SpecError
from fairveil.privacy.grid import clip_unit, float_above
from fairveil.privacy.guarantee import ONCE, REFUSED, UNRELEASED, Guarantee
from fairveil.privacy.mechanisms.one_bit import OneBit
from fairveil.privacy.noise import Noise
from fairveil.state import State

COUNTED_IN_WORDS = "whether it is public that a reward arrived (else counts get noise too)"
FORM_IN_WORDS = "which form of the algorithm: this one"
UNIT_IN_WORDS = "one user's reward"
REPORTS_ARE_PUBLIC = "whether and when a report was sent is public"
BOTH_ERRORS = "intervals hold sampling error and privacy noise together"
AT_ONCE = "Chernoff bounds for the blocks an arm has had; adaptive sampling is met by their slack, which was measured"
ANYTIME = "they hold at all rounds at once, however arms were chosen and whenever one stops (proven)"
MEAN_REWARD = "mean reward"
SILENT = (
    "more than a tenth of an arm's rounds have no answer yet, or never will: intervals describe those who answered so "
    "far; the bounds hold whatever the others would say"
)


class NashPolicy(Policy):
    """A policy over plain arms."""

    family = "nash"
    arms: Any
    exploration: Any = unless(None)
    """The level of its index, where that is a choice."""

    def numbers(self) -> Any:
        """What the formulas of `fairveil.bandits.nash.index` read: a NamedTuple of public numbers."""
        raise NotImplementedError

    @cached_property
    def _numbers(self) -> Any:
        return self.numbers()

    def evidence(self, state: State) -> Evidence | None:
        """What is published of every arm, out of a state's released arrays; None where decisions are all there is."""
        return None

    def rounds_by_arm(self, state: State) -> Ints | None:
        """Rounds of every arm in released blocks, which are public; None where releases do not hold them."""
        return None

    def coarse(self, case: Case) -> bool:
        """Whether a run of this case is handed over whole, as few long stretches: known before it is played."""
        return False

    def arm_intervals(self, state: State, confidence: float = CONFIDENCE, anytime: bool = False) -> Floats:
        """(arms, 3): estimated mean reward, and the interval it lies in."""
        check_established(self.promise, self.name)
        found, chance = self.evidence(state), check_confidence(confidence)
        return unknown_arms(self.arms) if found is None else arm_intervals(found, chance, anytime)

    def estimates(self, state: State, confidence: float = CONFIDENCE, anytime: bool = False) -> Estimates:
        """The mean reward of every arm; see `fairveil.bandits.nash.optimism` for why the intervals cover.

        ``anytime``: wider intervals that hold at all rounds at once, for whoever looks often or stops on what he sees.
        """
        rows = self.arm_intervals(state, confidence, anytime)
        return arm_estimates(rows, confidence, anytime, self.answers(state, confidence, anytime))

    def answers(self, state: State, confidence: float = CONFIDENCE, anytime: bool = False) -> list[Answers] | None:
        """Of every arm who has answered, and what holds whatever the others would say; None where that is not known."""
        return None


def whatever_silence(policy: NashPolicy, state: State, rounds: Floats, confidence: float, anytime: bool) -> Floats:
    """(entries, 2): ends of intervals for all rounds, with every one that is not answered counted 0, and counted 1."""
    found = []
    for column, value in ((1, 0), (2, 1)):
        sums = state["sums"] + value * np.rint((rounds - state["counts"]) * UNIT).astype(np.int64)
        counted = policy.evidence({**state, "sums": sums, "counts": rounds})
        assert counted is not None
        found.append(arm_intervals(counted, confidence, anytime)[:, column])
    return np.stack(found, axis=1)


def unknown_arms(arms: int) -> Floats:
    """Rows of arms of which nothing is published."""
    return np.tile([np.nan, 0.0, 1.0], (arms, 1))


def arm_estimates(
    rows: Floats, confidence: float, anytime: bool = False, answers: Sequence[Answers] | None = None
) -> Estimates:
    """Rows (value, low, high) of all arms as estimates; ``answers``: who is behind them."""
    names = [f"arm {arm}" for arm in range(len(rows))]
    notes = [BOTH_ERRORS, ANYTIME if anytime else AT_ONCE]
    items = intervals(MEAN_REWARD, names, rows)
    if answers is not None:
        items = tuple(replace(item, answers=known) for item, known in zip(items, answers, strict=True))
        notes += [SILENT] if any(known.many_silent for known in answers) else []
    return Estimates(items, confidence, notes=tuple(notes))


def global_guarantee(epsilon: float, *notes: str, established: bool = True, strict: bool = False) -> Guarantee:
    """Pure privacy of one user's reward against everything the policy publishes and does, a curator being trusted."""
    return Guarantee.pure(
        epsilon,
        model="global",
        unit=UNIT_IN_WORDS,
        neighbours="replace-reward",
        established=established,
        notes=(*notes, *((UNRELEASED,) if established else ()), *((REFUSED,) if strict else ())),
    )


def local_guarantee(epsilon: float, *notes: str, established: bool = True, strict: bool = False) -> Guarantee:
    """Pure privacy of one user's reward against the learner itself: only a randomised report leaves the user."""
    return Guarantee.pure(
        epsilon,
        model="local",
        unit=UNIT_IN_WORDS,
        neighbours="any-two-inputs",
        established=established,
        notes=(*notes, *((ONCE,) if established else ()), *((REFUSED,) if strict else ())),
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


def unit_reward(reward: float, strict: bool) -> float:
    """A reward in [0, 1]: clipped, or refused when ``strict``; not-a-number is always refused."""
    return float(np.asarray(clip_unit(reward, strict=strict)))


def laplace_scale(sensitivity: int, epsilon: float) -> float:
    """Grid steps of the Laplace noise on a number that one reward moves by ``sensitivity``; never below the exact one.

    >>> laplace_scale(1, 0.5), laplace_scale(1, 0.7) > UNIT / 0.7
    (2097152.0, True)
    """
    return float_above(Fraction(sensitivity * UNIT) / Fraction(epsilon))


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


def bit_noise(mechanism: OneBit) -> Noisy:
    """What randomisation adds to one decoded report of a reward, at its largest (a mean of one half)."""
    std = math.sqrt(0.25 / mechanism.slope**2 - 0.25)
    return Noisy("one report", "one random bit", std, "rewards", None)
