"""What a plan answers, in people: who gets which arm, how surely the best one is found, how many are needed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fairveil.frames import frame_of


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
