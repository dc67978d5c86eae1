"""The law of sums and histograms: their noise is enough, computed and not estimated.

What is published is linear in the rows and in every integer that is drawn. So each draw is moved by itself, through the
methods that serve people, and the change of the worst row is written in the draws: x with A S x = d, where S holds the
level that each draw was asked for. The whole transcript then costs mu = |x|_2 with Gaussian noise, epsilon = |x|_1 with
Laplace noise, to many digits: a sensitivity that is wrong by a root of two, or a tree with a level too few, shows.

>>> from fairveil.privacy.sums import TreeSum
>>> round(exact_cost(TreeSum(releases=8, mu=1.0)), 3)
1.0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.errors import ContractError
from fairveil.privacy.events import RepeatedEvent
from fairveil.privacy.histograms.histogram import Histogram
from fairveil.privacy.noise import Noise
from fairveil.privacy.sums.base import RunningSum
from fairveil.proof.laws import ThoughtOf
from fairveil.proof.pairs import claim_of, finer_claim
from fairveil.proof.pairs.privacy import watched, worst_rows
from fairveil.registry import register

MOVE = 2**28
"""How far one draw is moved: far beyond rounding, far below the room of the grid."""
SLACK = 1e-4
WIDTH = 3


class Probe(ThoughtOf):
    """Draws nothing, but for one place in the order of draws; remembers the level that every draw was asked for."""

    __slots__ = ("levels", "place")

    def __init__(self, place: int = -1) -> None:
        self.place, self.levels = place, list[float]()

    def drawn(self, levels: Floats) -> Ints:
        found = np.zeros(levels.size, np.int64)
        at = self.place - len(self.levels)
        if 0 <= at < levels.size:
            found[at] = MOVE
        self.levels.extend(levels.ravel().tolist())
        return found.reshape(levels.shape)


def transcript(sums: Any, world: int, noise: Noise) -> Floats:
    """Everything published when the first leaf holds the worst row or the other one."""
    if isinstance(sums, Histogram):
        state = sums.add(sums.start(), [(sums.low, sums.high)[world]])
        return np.asarray(sums.measure(state, noise, 1), np.float64).ravel()
    rows = worst_rows(sums)[world]
    state, seen = sums.add(sums.start(), rows if sums.shape != "scalar" else rows[..., 0]), []
    for _ in range(watched(sums)):
        state, estimate = sums.release(state, noise)
        seen.append(np.asarray(estimate, np.float64).ravel())
    return np.concatenate(seen)


def exact_cost(sums: Any) -> float:
    """What the worst change of a row costs in the whole transcript: mu, or epsilon with Laplace noise."""
    pure = isinstance(sums, RunningSum) and sums.budget.pure
    return cost_of(partial(transcript, sums), pure)


def cost_of(shown: Callable[[int, Noise], Floats], pure: bool) -> float:
    """The same for anything whose output in two worlds is linear in its draws."""
    [cost] = prices(lambda noise: shown(0, noise), [shown(1, Probe())], pure)
    return cost


def prices(shown: Callable[[Noise], Floats], others: Iterable[Floats], pure: bool) -> list[float]:
    """The same for each of several other worlds, by what they show without noise."""
    base, effects = draw_effects(shown)
    return [priced(effects, base - other, pure) for other in others]


def draw_effects(shown: Callable[[Noise], Floats]) -> tuple[Floats, Floats]:
    """What is shown without noise, and what each draw, at its own level, does to it: one column a draw."""
    still = Probe()
    base, levels = shown(still), np.array(still.levels)
    effects = [(shown(Probe(place)) - base) / MOVE * level for place, level in enumerate(levels)]
    return base, np.stack(effects, axis=1) if effects else np.zeros((len(base), 0))


def priced(effects: Floats, change: Floats, pure: bool) -> float:
    """What it costs to hide a change in the draws."""
    if not change.any() or not effects.size:
        return math.inf if change.any() else 0.0
    found = np.linalg.lstsq(effects, change, rcond=1e-9)[0]
    if np.linalg.norm(effects @ found - change) > SLACK * np.linalg.norm(change):
        return math.inf  # the row shows where no draw reaches
    return float(np.abs(found).sum() if pure else np.linalg.norm(found))


@register("laws", "sum")
def check_sum(sums: Any) -> list[str]:
    """Its noise is enough for the worst row, in the shape that it has and in others; raises ContractError."""
    shapes = [sums]
    if isinstance(sums, RunningSum) and not sums.budget.pure:
        shapes += [replace(sums, shape=shape, dimension=WIDTH) for shape in ("vector", "symmetric")]
    for one in shapes:
        if exact_cost(one) > promised(one) * (1 + SLACK):
            raise ContractError("noise_is_enough: the worst row costs more than is promised", path=sums.name)
    return ["noise_is_enough"]


def promised(sums: Any) -> float:
    """The mu, or the epsilon, that its event stands for; of one of several fits."""
    event = sums.event()
    event = event.event if isinstance(event, RepeatedEvent) else event
    claim = finer_claim(event)
    if claim is None:
        return claim_of(event)[0]
    return math.sqrt(2 * claim.value) if claim.name == "rho" else claim.value
