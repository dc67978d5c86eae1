"""Random scenes for theorem sweeps: Gaussian or beta features, beta or uniform costs."""

from __future__ import annotations

import math
from typing import Any

from fairveil.dynamics.strategic.scene import Scene
from fairveil.randomness import Generator


def random_features(rng: Generator) -> dict[str, Any]:
    """Features of both labels with a monotone likelihood ratio."""
    if rng.random() < 0.6:
        std = float(rng.uniform(2.0, 7.0))
        low, gap = float(rng.uniform(-8.0, 0.0)), float(rng.uniform(2.0, 12.0))
        return {"0": ["normal", low, std], "1": ["normal", low + gap, std]}
    a, b = float(rng.uniform(0.8, 2.0)), float(rng.uniform(3.0, 14.0))
    return {
        "0": ["beta", a, b],
        "1": ["beta", a + float(rng.uniform(0.3, 2.0)), max(1.0, b - float(rng.uniform(2.0, 12.0)))],
    }


def random_cost(rng: Generator) -> list[Any]:
    """A manipulation cost; most draws satisfy assumption 12."""
    kind = rng.random()
    if kind < 0.4:
        return ["beta", float(rng.uniform(0.3, 12.0)), 1.0]
    if kind < 0.8:
        return ["beta", float(rng.uniform(1.0, 15.0)), float(rng.uniform(1.0, 6.0))]
    return ["uniform", 0.0, float(rng.uniform(0.6, 2.0))]


def random_scene(rng: Generator, same_features: bool = False, sides: str = "any") -> Scene:
    """Two groups a, b. ``sides``: any, opposite (a above break-even), high (both above), low (both below)."""
    gain, loss = 1.0, float(rng.choice([1.0, 1.0, 0.5, 2.0, 3.0]))
    delta = loss / (gain + loss)

    def rate(above: bool) -> float:
        return float(rng.uniform(delta + 0.02, 0.97) if above else rng.uniform(0.03, delta - 0.02))

    tops = {"opposite": (True, False), "high": (True, True), "low": (False, False)}.get(sides)
    first, second = tops if tops else (bool(rng.random() < 0.5), bool(rng.random() < 0.5))
    features = random_features(rng)
    share = float(rng.uniform(0.1, 0.9))
    groups = {
        "a": {"share": share, "qualified": rate(first), "features": features, "cost": random_cost(rng)},
        "b": {
            "share": 1.0 - share,
            "qualified": rate(second),
            "features": features if same_features else random_features(rng),
            "cost": random_cost(rng),
        },
    }
    return Scene(groups, gain, loss)


def _normal_pair(rng: Generator, gap: float, std: float) -> dict[str, Any]:
    low = float(rng.uniform(-8.0, 0.0))
    return {"0": ["normal", low, std], "1": ["normal", low + gap, std]}


def _tight_cost(rng: Generator, gap: float, std: float) -> list[Any]:
    """A uniform cost just wide enough for assumption 12: manipulation is as cheap as the theory allows."""
    return ["uniform", 0.0, math.erf(gap / std / math.sqrt(8.0)) * float(rng.uniform(1.0, 1.15))]


def cheap_scene(rng: Generator, case: int) -> Scene:
    """Scenes near the three cases of theorem 25: a well separated group a ahead of a blurred group b, cheap costs."""
    std, gaps = float(rng.uniform(2.0, 6.0)), (float(rng.uniform(6.0, 14.0)), float(rng.uniform(1.5, 6.0)))
    loss = float(rng.choice([1.0, 1.5, 2.0]))
    delta = loss / (1.0 + loss)
    tiny = float(rng.uniform(1e-9, 1e-6))
    near = float(rng.uniform(0.005, 0.1))
    rates = {1: (delta - near, delta + near), 2: (delta + tiny, delta + near), 3: (delta - near, delta - tiny)}[case]
    share = float(rng.uniform(0.05, 0.95))
    groups = {
        name: {
            "share": part,
            "qualified": rate,
            "features": _normal_pair(rng, gap, std),
            "cost": _tight_cost(rng, gap, std),
        }
        for name, part, rate, gap in zip("ab", (share, 1.0 - share), rates, gaps, strict=True)
    }
    return Scene(groups, 1.0, loss)


def peaked_scene(rng: Generator) -> Scene:
    """Well separated features and costs Beta(a, 1): utilities with several extreme points."""
    groups = {}
    low = float(rng.uniform(-8.0, 0.0))
    for name in "ab":
        std = float(rng.uniform(1.5, 3.0))
        gap = float(rng.uniform(6.0, 14.0))
        groups[name] = {
            "share": float(rng.uniform(0.1, 0.9)),
            "qualified": float(rng.uniform(0.3, 0.7)),
            "features": {"0": ["normal", low, std], "1": ["normal", low + gap, std]},
            "cost": ["beta", float(rng.uniform(3.0, 15.0)), 1.0],
        }
    return Scene(groups)


def edge_scene(rng: Generator) -> Scene:
    """Alike majorities, mild costs, one deviation: the setting of theorem 27 and proposition 7."""
    std = float(rng.uniform(3.0, 6.0))
    high = bool(rng.random() < 0.5)
    loss = float(rng.choice([1.0, 1.5, 2.0]) if high else rng.choice([1.0, 0.7, 0.5]))
    delta = loss / (1.0 + loss)
    groups = {}
    for name in "ab":
        gap = float(rng.uniform(2.0, 10.0))
        rate = delta + float(rng.uniform(0.005, 0.1)) * (1 if high else -1)
        groups[name] = {
            "share": 0.5,
            "qualified": rate,
            "features": _normal_pair(rng, gap, std),
            "cost": ["beta", float(rng.uniform(8.0, 15.0)), 1.0],
        }
    return Scene(groups, 1.0, loss)
