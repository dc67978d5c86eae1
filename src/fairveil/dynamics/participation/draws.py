"""Random instances of the participation model for theorem sweeps."""

from __future__ import annotations

from typing import Any

from fairveil.dynamics.participation.model import Model, model
from fairveil.dynamics.participation.reshape import Drift
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


def random_model(rng: Generator, fairness: str, stay: Any = "accuracy", drift: Drift | None = None) -> Model:
    """Two random groups under a criterion."""
    return model({"a": random_group(rng), "b": random_group(rng)}, fairness, stay, drift=drift)
