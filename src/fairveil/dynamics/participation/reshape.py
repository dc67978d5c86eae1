"""Decisions that change the people themselves: plug-ins that move rates or features between steps (section 4.4.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fairveil.dynamics.assumptions import overlap
from fairveil.dynamics.distributions import distribution, stack
from fairveil.dynamics.measures import Measures
from fairveil.dynamics.population import Population

Drift = Callable[[Population, Population, Measures, Measures], Population]
"""(population at the start, population now, measures before, measures now) -> population next."""


@dataclass(frozen=True)
class Composition:
    """Case (i): the label whose loss fell keeps more of its people, so the qualification rate follows the losses.

    alpha moves by ``pace`` times (fall of the qualified's loss - fall of the unqualified's loss); features stay.
    """

    pace: float = 0.1

    def __call__(self, first: Population, now: Population, before: Measures, seen: Measures) -> Population:
        move = (before.below1 - seen.below1) - (before.above0 - seen.above0)
        return now.with_rates(np.clip(now.qualified + self.pace * move, 1e-6, 1.0 - 1e-6))


@dataclass(frozen=True)
class Effort:
    """Case (ii): the label whose loss rose works on its features, so its density falls on the overlap.

    The density on the overlap is multiplied by 1 - ``pace`` times the rise, the mass goes where the label is safe; the
    supports and the other label stay.
    """

    pace: float = 0.1
    floor: float = 0.05

    def __call__(self, first: Population, now: Population, before: Measures, seen: Measures) -> Population:
        rises = np.stack([seen.above0 - before.above0, seen.below1 - before.below1], axis=-1)
        items = list(now.distributions)
        which = now.which.copy()
        for k, s, y in np.argwhere(rises > 1e-15):
            base = first.feature(k, s, y)
            present = now.feature(k, s, y)
            factor = present.spec[4] if present.name == "tempered" else 1.0
            factor = max(self.floor, factor * (1.0 - self.pace * float(rises[k, s, y])))
            low, high = overlap(first.feature(k, s, 0), first.feature(k, s, 1))
            which[k, s, y] = len(items)
            items.append(distribution(["tempered", base, low, high, factor]))
        kept, places = np.unique(which, return_inverse=True)
        chosen = tuple(items[row] for row in kept)
        codes, params = stack(chosen)
        return replace(now, which=places.reshape(which.shape), codes=codes, params=params, distributions=chosen)


DRIFTS: dict[str, Callable[[float], Drift]] = {"composition": Composition, "effort": Effort}
