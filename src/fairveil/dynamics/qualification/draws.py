"""Random instances of the qualification model for theorem sweeps and tables."""

from __future__ import annotations

from typing import Any

from fairveil.dynamics.distributions import distribution
from fairveil.dynamics.qualification.model import Qualification, model
from fairveil.randomness import Generator


def random_transitions(rng: Generator, case: str, gap: float = 1.0) -> list[list[float]]:
    """Transitions [[T00, T01], [T10, T11]] in one of the cases 1a-1d; ``gap`` < 1 brings T0 and T1 of a state together.

    >>> from fairveil.dynamics.qualification.model import condition
    >>> from fairveil.randomness import generator
    >>> condition(random_transitions(generator(0), "1c"))
    '1c'
    """
    rows = []
    for state in (0, 1):
        low, high = sorted(rng.uniform(0.05, 0.95, 2).tolist())
        middle = 0.5 * (low + high)
        low, high = middle - gap * (middle - low), middle + gap * (high - middle)
        rising = {"1a": False, "1b": True, "1c": state == 0, "1d": state == 1}[case]
        rows.append([low, high] if rising else [high, low])
    return rows


def random_model(
    rng: Generator,
    case: str,
    same_features: bool = True,
    same_transitions: bool = False,
    ordered: bool = False,
    gap: float = 1.0,
    fairness: str = "none",
) -> Qualification:
    """Two Gaussian groups a, b. ``ordered`` gives both the same qualified and b the lower unqualified features."""
    std = float(rng.uniform(3.0, 6.0))

    def features() -> dict[str, Any]:
        width = float(rng.uniform(2.0, 6.0))
        return {"0": ["normal", -width, std], "1": ["normal", width, std]}

    first = features()
    second = first if same_features else features()
    if ordered:
        lower = float(first["0"][1]) - float(rng.uniform(0.5, 3.0))
        second = {"0": ["normal", lower, std], "1": list(first["1"])}
    moves = random_transitions(rng, case, gap)
    share = float(rng.uniform(0.2, 0.8))
    rates = rng.uniform(0.1, 0.9, 2).tolist()
    groups = {
        "a": {"share": share, "qualified": rates[0], "features": first, "transitions": moves},
        "b": {
            "share": 1.0 - share,
            "qualified": rates[1],
            "features": second,
            "transitions": moves if same_transitions else random_transitions(rng, case, gap),
        },
    }
    gain = _enough(first, second, moves) * float(rng.uniform(1.0, 2.0)) if ordered else 1.0
    return model(groups, {"gain": gain, "loss": 1.0}, fairness)


def moved_model(rng: Generator, case: str, fairness: str = "none") -> Qualification:
    """Two normal groups with the same transitions; b's features are a's, stretched and moved."""
    width, std = float(rng.uniform(2.0, 6.0)), float(rng.uniform(3.0, 6.0))
    stretch, by = float(rng.uniform(0.5, 2.0)), float(rng.uniform(-5.0, 5.0))
    moves, share = random_transitions(rng, case, 0.5), float(rng.uniform(0.2, 0.8))

    def group(part: float, scale: float, shift: float) -> dict[str, Any]:
        features = {
            "0": ["normal", shift - scale * width, scale * std],
            "1": ["normal", shift + scale * width, scale * std],
        }
        return {"share": part, "qualified": 0.5, "features": features, "transitions": moves}

    groups = {"a": group(share, 1.0, 0.0), "b": group(1.0 - share, stretch, by)}
    return model(groups, {"gain": float(rng.uniform(0.5, 2.0)), "loss": 1.0}, fairness)


def _enough(first: dict[str, Any], second: dict[str, Any], moves: list[list[float]]) -> float:
    """The gain per loss from which theorem 21 applies: f0/f1 where both unqualified densities cross, times odds."""
    cross = 0.5 * (first["0"][1] + second["0"][1])
    low, high = distribution(first["0"]), distribution(first["1"])
    return float(low.pdf(cross) / high.pdf(cross)) * (1.0 - moves[1][0]) / moves[0][0]
