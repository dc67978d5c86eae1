"""How a reward enters a policy over plain arms: clipped to [0, 1], on the grid, or as a user's report."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from fairveil.bandits.environments.laws import UNIT
from fairveil.bandits.protocol import Feedback, Report
from fairveil.bandits.quotes import Noisy
from fairveil.errors import InputError
from fairveil.privacy.grid import clip_unit
from fairveil.privacy.mechanisms.exact import float_above
from fairveil.privacy.mechanisms.one_bit import OneBit
from fairveil.privacy.noise import Noise


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
