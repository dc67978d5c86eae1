"""What a policy will cost and be worth, before any data: noise of each release, when it stops to matter, the limit.

And what a plan answers, in people: who gets which arm, how surely the best one is found, how many are needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from fairveil.errors import PrivacyError
from fairveil.frames import frame_of
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


# Plans ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Likely:
    """A number over simulated runs: its mean and the range of nine runs in ten, or a chance and its 95 % interval."""

    value: float
    low: float
    high: float


def in_millions(number: int) -> str:
    """A number of people as a person says it.

    >>> in_millions(2_097_152), in_millions(4096)
    ('2 million', '4,096')
    """
    return f"{number // 1_000_000} million" if number >= 1_000_000 else f"{number:,}"


@dataclass(frozen=True)
class ArmOutlook:
    """One arm at the end of a plan: its people, and the half-width of its 95 % interval (mean over runs)."""

    name: str
    guess: float
    people: Likely
    half_width: float


@dataclass(frozen=True)
class Outlook:
    """What is expected with one budget and one number of people.

    ``worse``: people who get another arm than the best; ``named``: chance that the largest estimate is that of the
    best arm; ``separated``: chance that the stopping rule has named an arm by then, ``wrong``: another than the best;
    ``stop``: people after which half of the runs have stopped; ``needed``: people with which the declared difference
    is separated with the declared chance. None where it was not reached inside the longest simulated run.
    """

    epsilon: float
    exploration: float | None
    people: int
    arms: tuple[ArmOutlook, ...]
    worse: Likely
    named: Likely
    separated: Likely
    wrong: float
    stop: int | None
    needed: int | None


@dataclass(frozen=True)
class TrialPlan:
    """A plan on a declared guess; simulated, so it says nothing about anybody's outcome.

    >>> chance(8, 10).value
    0.8
    """

    policy: str
    guess: str
    people: int
    runs: int
    level: float
    difference: float
    chance: float
    longest: int
    asked: Outlook
    by_epsilon: tuple[Outlook, ...]
    by_people: tuple[Outlook, ...]
    by_exploration: tuple[Outlook, ...]
    warnings: tuple[str, ...]
    simulated: bool = True
    waiting: str = ""
    """How late answers are in it; nothing where all come at once."""
    release: str = "blocks"
    """By which rule rewards were released together in it."""
    recorded: bool = False
    """Whether its spec names people's rows: then arms and their names come from there, and no outcome does."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def to_frame(self) -> Any:
        """One row a setting: the table it stands in, its numbers with their bands, people on every arm."""
        tables = {"epsilon": self.by_epsilon, "people": self.by_people, "exploration": self.by_exploration}
        rows = []
        for by, outlooks in tables.items():
            for one in outlooks:
                row: dict[str, Any] = {"by": by, "epsilon": one.epsilon, "exploration": one.exploration}
                row |= {"people": one.people, "wrong": one.wrong, "stop": one.stop, "needed": one.needed}
                for name in ("worse", "named", "separated"):
                    found: Likely = getattr(one, name)
                    row |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
                rows.append(row | {f"people on {arm.name}": arm.people.value for arm in one.arms})
        return frame_of(rows, f"plan: {self.policy}", "simulated", runs=self.runs)


def chance(hits: int, runs: int) -> Likely:
    """A share of runs with its Wilson interval.

    >>> [round(number, 3) for number in (chance(8, 10).low, chance(8, 10).high)]
    [0.49, 0.943]
    """
    from fairveil.fairness.groups import wilson

    share = np.array(hits / runs)
    low, high = wilson(share, np.array(runs))
    return Likely(float(share), float(low), float(high))
