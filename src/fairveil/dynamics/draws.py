"""Features and costs for theorem sweeps, drawn without a look at what the theorems assume."""

from __future__ import annotations

import math
from typing import Any

from fairveil.randomness import Generator


def spread(rng: Generator, low: float, high: float) -> float:
    """A number between two others, its logarithm uniform."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def random_features(rng: Generator) -> dict[str, Any]:
    """Normals or betas for both labels, of any order; three normals in ten have unequal spreads."""
    if rng.random() < 0.5:
        means = rng.uniform(-8.0, 8.0, 2).tolist()
        wide = spread(rng, 1.5, 8.0)
        other = spread(rng, 1.5, 8.0) if rng.random() < 0.3 else wide
        return {"0": ["normal", means[0], wide], "1": ["normal", means[1], other]}
    return {str(y): ["beta", spread(rng, 0.6, 5.0), spread(rng, 0.8, 14.0)] for y in (0, 1)}


def random_cost(rng: Generator) -> list[Any]:
    """A manipulation cost: beta with or without b = 1, or uniform."""
    kind = rng.random()
    if kind < 0.35:
        return ["beta", spread(rng, 0.3, 15.0), 1.0]
    if kind < 0.7:
        return ["beta", float(rng.uniform(1.0, 15.0)), float(rng.uniform(1.0, 6.0))]
    return ["uniform", 0.0, spread(rng, 0.2, 2.0)]


def random_utility(rng: Generator, most: float = 3.0) -> dict[str, float]:
    """Gain and loss of the decision maker."""
    return {"gain": spread(rng, 1.0 / most, most), "loss": spread(rng, 1.0 / most, most)}
