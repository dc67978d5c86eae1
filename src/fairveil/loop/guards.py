"""Guard rails on who gets what, declared at creation: a floor, a holdout, a burn-in, a fallback for a pause.

Every rail is a public coin, thrown after the policy has decided and before anything of the person is read, so it costs
no budget and the probability that a decision reports is the true one. What the coins gave is counted beside what they
should have given (`Serving`): both are public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from fairveil.arrays import Floats
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.loop.storage import Transaction, saving
from fairveil.randomness import Generator

if TYPE_CHECKING:
    from fairveil.loop.facts import Facts
    from fairveil.loop.loop import Loop
    from fairveil.loop.requests import Ask
    from fairveil.loop.store import Store

UNIFORM, BASELINE = "uniform", "baseline"
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
SURE = 1e4
"""Evidence from which shares are said to be wrong; of honest loops one in 10,000 ever reaches it."""
RATES = 2.0 ** -np.arange(12)


@configuration
class Allocation:
    """Guard rails of a loop; all of them are off unless declared, and never change.

    ``floor``: the least share of every arm; ``holdout``, ``holdout_share``: an arm that so many decisions get whatever
    is learned, for as long as the loop lives; ``burn_in``: so many decisions at first with equal shares (of what the
    holdout leaves); ``fallback``: who decides in mode paused, an arm's name, ``uniform``, or the caller's ``baseline``.
    A loop of candidates has burn-in and fallback alone: its floor is ``explore``.
    """

    floor: Share = 0.0
    holdout: str | None = None
    holdout_share: Share = 0.0
    burn_in: Annotated[int, Field(ge=0, le=10**9)] = 0
    fallback: str | None = None

    def __post_init__(self) -> None:
        if (self.holdout is None) != (self.holdout_share == 0.0):
            raise SpecError(
                "a holdout is an arm and its share", path="allocation.holdout_share", given=self.holdout_share,
                allowed="holdout with a holdout_share above 0, or neither",
            )  # fmt: skip


class Guards(NamedTuple):
    """What the coins of a loop do: ``uniform`` of the decisions go to any arm, ``held`` to the arm ``holdout``.

    ``fallback``: an arm, ``uniform`` or ``baseline``; None where the loop cannot be paused.
    """

    uniform: float = 0.0
    holdout: int | None = None
    held: float = 0.0
    burn_in: int = 0
    fallback: int | str | None = None

    @property
    def least(self) -> float:
        """The share of decisions that some arm gets by equal chance, whatever is learned."""
        return (1.0 - self.held) * self.uniform

    @property
    def coins(self) -> bool:
        return self.uniform > 0.0 or self.held > 0.0 or self.burn_in > 0


def guards_of(given: Allocation | None, explore: float, arms: int | None, actions: list[str] | None) -> Guards:
    """Checked rails: shares that fit together, arms that exist."""
    rails = given or Allocation()
    if arms is None:
        return _for_candidates(rails, explore)
    names = names_of_arms(actions, arms)
    held = rails.holdout_share
    most = (1.0 - held) / arms
    if rails.floor > most + 1e-12:
        raise SpecError(
            "every arm cannot have this share", path="allocation.floor", given=rails.floor, allowed=f"at most {most:g}"
        )
    uniform = max(explore, min(rails.floor * arms / (1.0 - held), 1.0) if held < 1.0 else 0.0)
    fallback: int | str | None = rails.fallback
    if fallback in names:
        fallback = names.index(str(fallback))
    elif fallback not in (None, UNIFORM, BASELINE):
        raise unknown_arm("allocation.fallback", rails.fallback, [*names, UNIFORM, BASELINE])
    if rails.holdout is not None and rails.holdout not in names:
        raise unknown_arm("allocation.holdout", rails.holdout, names)
    holdout = None if rails.holdout is None else names.index(rails.holdout)
    return Guards(uniform, holdout, held, rails.burn_in, fallback)


def _for_candidates(rails: Allocation, explore: float) -> Guards:
    if rails.floor or rails.holdout is not None:
        path = "allocation.floor" if rails.floor else "allocation.holdout"
        raise SpecError("candidates differ from request to request", path=path, allowed="nothing", fix="use explore")
    if rails.fallback not in (None, UNIFORM, BASELINE):
        raise unknown_arm("allocation.fallback", rails.fallback, [UNIFORM, BASELINE])
    return Guards(explore, burn_in=rails.burn_in, fallback=rails.fallback)


def names_of_arms(actions: list[str] | None, arms: int | None) -> list[str]:
    """The ids of arms, numbers where none were given; of candidates none."""
    return actions or [str(arm) for arm in range(arms or 0)]


def unknown_arm(path: str, given: Any, names: list[str]) -> SpecError:
    return SpecError("there is no arm of this name", path=path, given=given, allowed=", ".join(names[:20]))


def fallback(guards: Guards, ask: Ask, arms: int, rng: Generator) -> tuple[int, float]:
    """What a paused loop does: the declared arm while it is allowed, the caller's baseline, or any by equal chance."""
    left = range(arms) if ask.allowed is None else ask.allowed
    chosen = ask.baseline if guards.fallback == BASELINE else guards.fallback
    if isinstance(chosen, int) and chosen in left:
        return chosen, 1.0
    return int(left[int(rng.integers(len(left)))]), 1.0 / len(left)


# What the coins gave --------------------------------------------------------------------------------------------------


class Thrown(NamedTuple):
    """One throw: the chances of what could come, given all that was decided before, and what came."""

    chances: Floats
    came: int


@dataclass
class Serving:
    """Public counts of a loop's coins: decisions, and for each thing that could come how often it did, how often it
    should have, and the variance of that."""

    decided: int
    counts: Floats

    @classmethod
    def read(cls, tx: Transaction, loop: int, things: int) -> Serving:
        found = tx.execute("SELECT decided, counts FROM serving WHERE loop = ?", (loop,))
        return cls.of(*found[0]) if found else cls(0, np.zeros((3, things)))

    @classmethod
    def of(cls, decided: int, counts: bytes) -> Serving:
        """From its row."""
        return cls(decided, np.frombuffer(bytes(counts), np.float64).reshape(3, -1).copy())

    def add(self, drawn: Thrown | None) -> None:
        self.decided += 1
        if drawn is not None:
            self.counts[0, drawn.came] += 1.0
            self.counts[1] += drawn.chances
            self.counts[2] += drawn.chances * (1.0 - drawn.chances)

    def save(self, tx: Transaction, loop: int) -> None:
        tx.execute(saving("serving", "loop", "loop, decided, counts"), (loop, self.decided, self.counts.tobytes()))

    @property
    def evidence(self) -> float:
        """Evidence that the shares served are not those declared; above 1/a with probability at most a, at any time.

        For each thing, S (came minus should have come) is a martingale with steps in [-1, 1] and variance V, so
        exp(r S - (e^r - 1 - r) V) is a supermartingale for every r > 0 (Bennett), with -S in place of S too; the mean
        over things, signs and rates is one, and Ville's inequality bounds its largest value ever.
        """
        gap, variance = self.counts[0] - self.counts[1], self.counts[2]
        if not variance.any():
            return 1.0 if np.allclose(gap, 0.0) else math.inf
        cost = (np.expm1(RATES) - RATES)[:, None] * variance
        powers = np.concatenate([RATES[:, None] * gap - cost, -RATES[:, None] * gap - cost])
        return float(np.exp(np.minimum(powers, 600.0)).mean())

    def to_dict(self, names: list[str]) -> dict[str, Any]:
        """Shares served against shares declared, with the verdict."""
        whole = float(self.counts[0].sum())
        rows = [
            {"name": name, "served": served / whole, "declared": declared / whole}
            for name, served, declared in zip(names, *self.counts[:2].tolist(), strict=True)
            if whole
        ]
        return {"decided": self.decided, "shares": rows, "evidence": self.evidence, "fits": self.evidence < SURE}


def serving_table(loop: Loop) -> dict[str, Any] | None:
    """What a loop's coins gave; None where it throws none of its own."""
    facts = loop.facts
    if not facts.guards.coins:
        return None
    with loop.store.reading() as tx:
        return served(facts, Serving.read(tx, facts.id, facts.things))


def served(facts: Facts, now: Serving) -> dict[str, Any]:
    return now.to_dict(facts.arm_names or ["by the policy", "by equal chance"])


def shares_fit(store: Store) -> list[tuple[str, bool]]:
    """Of every loop whether shares served fit those declared; one query."""
    query = "SELECT l.name, s.decided, s.counts FROM loops l LEFT JOIN serving s ON s.loop = l.id"
    rows = store.read(query)
    return [(name, counts is None or Serving.of(decided, counts).evidence < SURE) for name, decided, counts in rows]
