"""Random instances of the participation model for theorem sweeps."""

from __future__ import annotations

from typing import Any

from fairveil.dynamics.distributions import distribution
from fairveil.dynamics.draws import spread
from fairveil.dynamics.participation.model import Drift, Participation, model
from fairveil.randomness import Generator


def random_group(rng: Generator) -> dict[str, Any]:
    """Truncated normals that rise and fall on their overlap, as assumption 7 asks."""
    low = float(rng.uniform(0.0, 6.0))
    gap = float(rng.uniform(10.0, 20.0))
    std0, std1 = rng.uniform(3.0, 6.0, 2).tolist()
    left, right = low + float(rng.uniform(0.05, 0.35)) * gap, low + float(rng.uniform(0.65, 0.95)) * gap
    return {
        "qualified": float(rng.uniform(0.2, 0.8)),
        "arrivals": float(rng.uniform(1e3, 2e4)),
        "features": {
            "0": ["truncnorm", low, std0, low - 15.0, right],
            "1": ["truncnorm", low + gap, std1, left, low + gap + 15.0],
        },
    }


def random_model(rng: Generator, fairness: str, stay: Any = "accuracy", drift: Drift | None = None) -> Participation:
    """Two random groups under a criterion."""
    return model({"a": random_group(rng), "b": random_group(rng)}, fairness, stay, drift=drift)


def random_models(rng: Generator, count: int, fairness: str, drift: Drift | None = None) -> Participation:
    """A batch of random instances."""
    pairs = [{"a": random_group(rng), "b": random_group(rng)} for _ in range(count)]
    return model(pairs, fairness, drift=drift)


def overlapping_group(rng: Generator, width: tuple[float, float], arrivals: tuple[float, float]) -> dict[str, Any]:
    """Labels that overlap on an interval around zero, with the group's own optimum inside it."""
    centre, length, part = rng.uniform(-1.0, 1.0), spread(rng, *width), rng.uniform(0.1, 0.9)
    left, right = centre - part * length, centre + (1.0 - part) * length
    std0, std1 = spread(rng, 2.0, 8.0), spread(rng, 2.0, 8.0)
    mean0, mean1 = left - rng.uniform(0.0, 1.5) * std0, right + rng.uniform(0.0, 1.5) * std1
    f0 = distribution(["truncnorm", mean0, std0, mean0 - 15.0, right])
    f1 = distribution(["truncnorm", mean1, std1, left, mean1 + 15.0])
    own = rng.uniform(left, right)
    odds = f0.pdf(own) / f1.pdf(own)
    return {
        "qualified": float(odds / (1.0 + odds)),
        "arrivals": spread(rng, *arrivals),
        "features": {"0": f0, "1": f1},
    }


def overlapping_models(rng: Generator, count: int, fairness: str, drift: Drift | None = None) -> Participation:
    """A batch of pairs, in random order: a large group with little overlap and a small one with any.

    Condition (C.4) compares what features can change in the group left behind with how far its threshold is moved,
    which the other group does: these pairs meet it far more often than those of `random_models`.
    """
    pairs = []
    for _ in range(count):
        two = [overlapping_group(rng, (0.2, 1.0), (4e3, 2e4)), overlapping_group(rng, (0.2, 12.0), (1e3, 6e3))]
        first = int(rng.integers(2))
        pairs.append({"a": two[first], "b": two[1 - first]})
    return model(pairs, fairness, drift=drift)
