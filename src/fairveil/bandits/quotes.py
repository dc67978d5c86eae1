"""What a policy will cost and be worth, before any data: noise of each release, when it stops to matter, the limit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fairveil.errors import PrivacyError
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.limits import Limit, Promising

LARGE_EPSILON = 8.0
"""Above this an undecided reader may become 99.97 % sure."""
REWARD_STD = 0.5
"""Standard deviation of a reward in [0, 1], at most."""


@dataclass(frozen=True)
class Noisy:
    """The noise of one release: on what, of which law, how large, and after how many rounds behind one released number
    it is below the sampling error (None: never, it is in every report)."""

    on: str
    law: str
    std: float
    unit: str
    rounds: int | None


@dataclass(frozen=True)
class Quote:
    """Everything that is known before the first round.

    ``expected`` holds what a quick simulation on a declared guess gave: regret, half-widths at the end. ``assumes``:
    what estimates rest on and nobody checks.
    """

    policy: str
    guarantee: dict[str, Any] | None
    limit: str
    noise: tuple[Noisy, ...]
    warnings: tuple[str, ...]
    expected: dict[str, Any] = field(default_factory=dict)
    assumes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def laplace_noise(on: str, epsilon: float, draws: int = 1) -> Noisy:
    """Laplace noise of scale 1/epsilon on a sum of rewards; sampling gives sqrt(n)/2.

    >>> laplace_noise("the sum of a block", 1.0).rounds
    8
    """
    std = math.sqrt(2.0 * draws) / epsilon
    rounds = math.ceil(2.0 * draws / (epsilon * REWARD_STD) ** 2)
    return Noisy(on, "discrete Laplace", std, "rewards", rounds)


def gaussian_noise(on: str, std: float, unit: str, sampling: float = 1.0) -> Noisy:
    """Gaussian noise on a sum whose terms have standard deviation ``sampling``."""
    return Noisy(on, "discrete Gaussian", std, unit, math.ceil((std / sampling) ** 2))


def spread_in_words(std: float) -> str:
    """How much outcomes are taken to vary around what a policy predicts.

    >>> spread_in_words(0.5)
    'outcomes are taken to vary by a standard deviation of 0.5 (reward_std): estimates rest on it'
    """
    return f"outcomes are taken to vary by a standard deviation of {std:g} (reward_std): estimates rest on it"


def smallest_limit(policy: Promising) -> str:
    """The smallest ledger limit that keeps this policy's promise, in words."""
    promise = policy.guarantee()
    if promise is None:
        return "none: there is no promise"
    if promise.model.value == "local":
        return "none: people protect their own reports"
    try:
        limit = Limit.for_policy(policy)
    except PrivacyError as problem:
        return f"none: {problem.problem}"
    stated = "" if limit.epsilon is None else f", which keeps ({limit.epsilon:.6g}, {limit.delta or 0:g})"
    return f"{limit.words(limit.total)}{stated}"


def warnings_of(promise: Guarantee | None, noise: Sequence[Noisy], rounds: int | None, people: int | None) -> list[str]:
    """What to think about before starting."""
    found = []
    if promise is None:
        return ["there is no privacy promise: nobody's data are protected"]
    if not promise.established:
        found.append("the promise of this variant is not established: nothing that serves people may rest on it")
    crowd = people if people is not None else rounds
    if promise.delta and crowd and promise.delta > 1 / crowd:
        found.append(
            f"delta {promise.delta:g} is above one over {crowd:,} people: a mechanism that publishes one of them "
            "outright would be allowed; choose it well below"
        )
    if promise.epsilon is not None and promise.epsilon > LARGE_EPSILON:
        found.append(f"epsilon {promise.epsilon:g} promises next to nothing")
    if rounds is not None:
        found += [
            f"the noise on {one.on} stays above the sampling error: it needs {one.rounds:,} rounds behind one number, "
            f"and there are {rounds:,} in all"
            for one in noise
            if one.rounds is not None and one.rounds > rounds
        ]
    return found
