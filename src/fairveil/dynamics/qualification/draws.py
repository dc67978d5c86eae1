"""Random instances of the qualification model for theorem sweeps and tables."""

from __future__ import annotations

from typing import Any

from fairveil.dynamics.distributions import distribution
from fairveil.dynamics.draws import random_features, random_utility, spread
from fairveil.dynamics.qualification.model import Qualification, model
from fairveil.randomness import Generator

Drawn = tuple[dict[str, Any], dict[str, float]]
"""Groups a and b, and the decision maker's gain and loss."""


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


def _free_transitions(rng: Generator, gap: float) -> list[list[float]]:
    """Four chances in any order, often near 0 or 1; a ``gap`` below one draws the two of a state together."""
    table = 0.03 + 0.94 * rng.beta(0.5, 0.5, (2, 2))
    middle = table.mean(axis=1, keepdims=True)
    rows: list[list[float]] = (middle + gap * (table - middle)).tolist()
    return rows


def random_groups(
    rng: Generator, same_features: bool = False, same_transitions: bool = False, gap: float = 1.0
) -> Drawn:
    """Two groups whose features, transitions, shares and rates are drawn freely; what is the same is said."""
    features, moves, share = random_features(rng), _free_transitions(rng, gap), float(rng.uniform(0.05, 0.95))
    groups = {}
    for name, part in (("a", share), ("b", 1.0 - share)):
        groups[name] = {
            "share": part,
            "qualified": float(rng.uniform(0.05, 0.95)),
            "features": features if name == "a" or same_features else random_features(rng),
            "transitions": moves if name == "a" or same_transitions else _free_transitions(rng, gap),
        }
    return groups, random_utility(rng)


def split_groups(rng: Generator) -> Drawn:
    """The same transitions and features, but for the unqualified of group b: the setting of theorem 21."""
    groups, utility = random_groups(rng, same_features=True, same_transitions=True)
    kind, *numbers = groups["a"]["features"]["0"]
    if kind == "normal":
        other = ["normal", numbers[0] + float(rng.uniform(-5.0, 5.0)), numbers[1]]
    else:
        other = ["beta", *(number * spread(rng, 0.5, 2.0) for number in numbers)]
    groups["b"] = {**groups["b"], "features": {"0": other, "1": groups["a"]["features"]["1"]}}
    return groups, {**utility, "gain": utility["loss"] * spread(rng, 0.3, 30.0)}


def moved_groups(rng: Generator) -> Drawn:
    """Normals and the same transitions; b's features are a's, stretched and moved."""
    groups, utility = random_groups(rng, same_transitions=True)
    width, std = float(rng.uniform(2.0, 6.0)), float(rng.uniform(3.0, 6.0))
    stretch, by = float(rng.uniform(0.5, 2.0)), float(rng.uniform(-5.0, 5.0))
    for name, scale, shift in (("a", 1.0, 0.0), ("b", stretch, by)):
        groups[name]["features"] = {
            str(y): ["normal", shift + (2 * y - 1) * scale * width, scale * std] for y in (0, 1)
        }
    return groups, utility


def ordered_model(rng: Generator) -> Qualification:
    """Normals as table 5.2 has them: condition 1b, condition 2, and a gain from which theorem 21 applies."""
    std, width = float(rng.uniform(3.0, 6.0)), float(rng.uniform(2.0, 6.0))
    lows = (-width, -width - float(rng.uniform(0.5, 3.0)))
    moves, share = random_transitions(rng, "1b"), float(rng.uniform(0.2, 0.8))
    groups = {
        name: {
            "share": part,
            "qualified": float(rng.uniform(0.1, 0.9)),
            "features": {"0": ["normal", low, std], "1": ["normal", width, std]},
            "transitions": moves,
        }
        for name, part, low in zip("ab", (share, 1.0 - share), lows, strict=True)
    }
    cross = 0.5 * sum(lows)
    bad, good = distribution(["normal", lows[0], std]), distribution(["normal", width, std])
    enough = float(bad.pdf(cross) / good.pdf(cross)) * (1.0 - moves[1][0]) / moves[0][0]
    return model(groups, {"gain": enough * float(rng.uniform(1.0, 2.0)), "loss": 1.0})
