"""Attacks on privacy in practice: each succeeds where a protection is missing, and is at chance level where it is not.

An attacker plays a game many times and wins or loses. ``bare`` is the twin without the protection, ``ours`` the code
that serves people, ``chance`` the most that anybody can win against what is promised (for a guess between two worlds
under epsilon: e^epsilon / (1 + e^epsilon)).

>>> from fairveil.proof.attacks.low_bits import LowBits
>>> found = LowBits().run(seed=1, games=200)
>>> found.succeeds, found.held
(True, True)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from fairveil.randomness import Generator, generator

#: Normal quantile of the intervals that are shown.
SURE = 1.96
#: How often an attack that wins exactly as often as chance allows may be called a break, as in the audits.
FALSE_ALARM = 1e-6


@dataclass(frozen=True)
class Wins:
    """How often the attacker won, with Wilson's 95 % interval."""

    wins: int
    games: int

    @property
    def rate(self) -> float:
        return self.wins / self.games

    @property
    def interval(self) -> tuple[float, float]:
        room = SURE * SURE / self.games
        centre = (self.rate + room / 2) / (1 + room)
        half = math.sqrt(self.rate * (1 - self.rate) * room + room * room / 4) / (1 + room)
        return max(0.0, centre - half), min(1.0, centre + half)


@dataclass(frozen=True)
class Result:
    """What an attack achieved."""

    name: str
    game: str
    bare: Wins
    ours: Wins
    chance: float
    words: str

    @property
    def succeeds(self) -> bool:
        """Does it work against the twin without protection, beyond what chance allows?"""
        return self.bare.interval[0] > self.chance

    @property
    def held(self) -> bool:
        """Is what it wins against us explained by chance? A false alarm is as rare as one of an audit."""
        from fairveil.proof.engine.bounds import clopper_pearson  # not for a help text

        return bool(clopper_pearson(self.ours.wins, self.ours.games, FALSE_ALARM)[0] <= self.chance)

    def to_dict(self) -> dict[str, Any]:
        (bare_low, bare_high), (low, high) = self.bare.interval, self.ours.interval
        return {
            "attack": self.name,
            "game": self.game,
            "bare": self.bare.rate,
            "bare_low": bare_low,
            "bare_high": bare_high,
            "ours": self.ours.rate,
            "ours_low": low,
            "ours_high": high,
            "chance": self.chance,
            "games": self.ours.games,
            "succeeds": self.succeeds,
            "held": self.held,
            "words": self.words,
        }


class Attack(ABC):
    """One attack. ``game`` says what winning means; `play` lets the attacker try once."""

    name: ClassVar[str] = ""
    game: ClassVar[str] = ""
    words: ClassVar[str] = ""
    games: ClassVar[int] = 400
    chance: ClassVar[float] = 0.5

    @abstractmethod
    def play(self, protected: bool, rng: Generator) -> bool:
        """One game against the twin without protection, or against ours; True when the attacker wins."""

    def run(self, seed: int = 0, games: int | None = None) -> Result:
        """Play both sides with the same seeds (the noise of ours may come from the operating system)."""
        count = self.games if games is None else games
        bare, ours = (
            Wins(sum(self.play(side, generator(seed, self.name, game)) for game in range(count)), count)
            for side in (False, True)
        )
        return Result(self.name, self.game, bare, ours, self.chance, self.words)


def guess_chance(epsilon: float) -> float:
    """The best a guess between two equally likely neighbours can do under pure epsilon.

    >>> round(guess_chance(1.0), 3)
    0.731
    """
    return 1.0 / (1.0 + math.exp(-epsilon))
