"""The thesis chapter on manipulation: groups, costs and credit scores that its artefacts share."""

from __future__ import annotations

from typing import Any

from fairveil.dynamics import fico_groups
from fairveil.lab.artefact import Spec

GAUSS = {"0": ["normal", -5, 5], "1": ["normal", 5, 5]}
FICO = "features are the fitted betas of table 6.1, and the public score tables where they are present"


def group(qualified: float, cost: list[Any], features: Any = GAUSS, share: float = 0.5) -> Spec:
    return {"share": share, "qualified": qualified, "features": features, "cost": cost}


def spec(groups: Spec, fairness: str = "none", strategic: bool = True, **more: Any) -> Spec:
    return {"task": "strategic", "groups": groups, "fairness": fairness, "strategic": strategic, **more}


def credit(first: str, second: str, costs: tuple[list[Any], list[Any]], source: str = "fitted") -> Spec:
    people = fico_groups([first, second], source)
    return {name: {**table, "cost": cost} for (name, table), cost in zip(people.items(), costs, strict=True)}


def blurred_and_clear() -> dict[str, Any]:
    """The features of figures 6.3 and 6.6."""
    return {
        "a": {"0": ["normal", -2, 4.5], "1": ["normal", 2, 4.5]},
        "b": {"0": ["normal", -5, 4.5], "1": ["normal", 5, 4.5]},
    }
