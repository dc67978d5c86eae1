"""Random scenes for theorem sweeps: normal or beta features, beta or uniform costs."""

from __future__ import annotations

from typing import Any

from fairveil.dynamics.draws import random_cost, random_features, random_utility, spread
from fairveil.randomness import Generator

Drawn = tuple[dict[str, Any], dict[str, float]]
"""Groups a and b, and the decision maker's gain and loss."""


def random_groups(rng: Generator, same_features: bool = False) -> Drawn:
    """Two groups whose features, costs, shares and rates are drawn freely."""
    features, share = random_features(rng), float(rng.uniform(0.05, 0.95))
    groups = {}
    for name, part in (("a", share), ("b", 1.0 - share)):
        groups[name] = {
            "share": part,
            "qualified": float(rng.uniform(0.03, 0.97)),
            "features": features if name == "a" or same_features else random_features(rng),
            "cost": random_cost(rng),
        }
    return groups, random_utility(rng)


def near_groups(rng: Generator, same_features: bool = False) -> Drawn:
    """Rates close to break-even, some of them very close, and uniform costs: where theorem 25 speaks."""
    groups, utility = random_groups(rng, same_features)
    even = utility["loss"] / (utility["gain"] + utility["loss"])
    for group in groups.values():
        off = spread(rng, 1e-9, 1e-6) if rng.random() < 0.5 else spread(rng, 0.005, 0.1)
        side = 1.0 if rng.random() < 0.5 else -1.0
        group["qualified"] = min(max(even + side * off, 0.01), 0.99)
        group["cost"] = ["uniform", 0.0, spread(rng, 0.15, 1.2)]
    return groups, utility


def peaked_groups(rng: Generator) -> Drawn:
    """Costs Beta(a, 1), moderate rates, labels far apart: utilities that may have several extreme points."""
    groups, utility = random_groups(rng)
    for group in groups.values():
        low, gap, std = float(rng.uniform(-8.0, 0.0)), float(rng.uniform(4.0, 14.0)), spread(rng, 1.2, 4.0)
        group["qualified"] = float(rng.uniform(0.2, 0.8))
        group["cost"] = ["beta", spread(rng, 2.0, 20.0), 1.0]
        if rng.random() < 0.8:
            group["features"] = {"0": ["normal", low, std], "1": ["normal", low + gap, std]}
    return groups, utility


def even_groups(rng: Generator, normals: bool = False) -> Drawn:
    """Rates around break-even and mild costs: where theorem 27 and proposition 7 speak.

    ``normals`` gives both groups normals of one deviation, as proposition 7 has them.
    """
    groups, utility = random_groups(rng)
    even = utility["loss"] / (utility["gain"] + utility["loss"])
    std = spread(rng, 2.5, 7.0)
    for group in groups.values():
        group["qualified"] = min(max(even + float(rng.uniform(-0.12, 0.12)), 0.01), 0.99)
        group["cost"] = ["beta", spread(rng, 5.0, 20.0), 1.0]
        if normals:
            low, gap = float(rng.uniform(-8.0, 0.0)), float(rng.uniform(1.0, 12.0))
            group["features"] = {"0": ["normal", low, std], "1": ["normal", low + gap, std]}
    return groups, utility
