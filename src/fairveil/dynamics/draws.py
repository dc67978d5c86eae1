"""Random instances of the three models for theorem sweeps and tables, drawn without a look at what theorems assume."""

from __future__ import annotations

import math
from typing import Any

from fairveil.dynamics.distributions import distribution
from fairveil.dynamics.participation.model import Drift, Participation
from fairveil.dynamics.participation.model import model as participation
from fairveil.dynamics.qualification.model import Qualification
from fairveil.dynamics.qualification.model import model as qualification
from fairveil.randomness import Generator

Drawn = tuple[dict[str, Any], dict[str, float]]
"""Groups a and b, and the decision maker's gain and loss."""


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
    return participation({"a": random_group(rng), "b": random_group(rng)}, fairness, stay, drift=drift)


def random_models(rng: Generator, count: int, fairness: str, drift: Drift | None = None) -> Participation:
    """A batch of random instances."""
    pairs = [{"a": random_group(rng), "b": random_group(rng)} for _ in range(count)]
    return participation(pairs, fairness, drift=drift)


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
    return participation(pairs, fairness, drift=drift)


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
    return qualification(groups, {"gain": enough * float(rng.uniform(1.0, 2.0)), "loss": 1.0})


def costly_groups(rng: Generator, same_features: bool = False) -> Drawn:
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
    groups, utility = costly_groups(rng, same_features)
    even = utility["loss"] / (utility["gain"] + utility["loss"])
    for group in groups.values():
        off = spread(rng, 1e-9, 1e-6) if rng.random() < 0.5 else spread(rng, 0.005, 0.1)
        side = 1.0 if rng.random() < 0.5 else -1.0
        group["qualified"] = min(max(even + side * off, 0.01), 0.99)
        group["cost"] = ["uniform", 0.0, spread(rng, 0.15, 1.2)]
    return groups, utility


def peaked_groups(rng: Generator) -> Drawn:
    """Costs Beta(a, 1), moderate rates, labels far apart: utilities that may have several extreme points."""
    groups, utility = costly_groups(rng)
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
    groups, utility = costly_groups(rng)
    even = utility["loss"] / (utility["gain"] + utility["loss"])
    std = spread(rng, 2.5, 7.0)
    for group in groups.values():
        group["qualified"] = min(max(even + float(rng.uniform(-0.12, 0.12)), 0.01), 0.99)
        group["cost"] = ["beta", spread(rng, 5.0, 20.0), 1.0]
        if normals:
            low, gap = float(rng.uniform(-8.0, 0.0)), float(rng.uniform(1.0, 12.0))
            group["features"] = {"0": ["normal", low, std], "1": ["normal", low + gap, std]}
    return groups, utility
