"""Why people stay: retention as a function of how a group is treated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairveil.dynamics.measures import Measures
from fairveil.errors import SpecError

Retention = Callable[[Measures], np.ndarray]
"""Chance (instances, groups) to stay for one more step, given what the decisions did."""

#: What drives people: name -> quantity in [0, 1] (disparity: in [-1, 1]) seen by a group.
DRIVERS: dict[str, Callable[[Measures], np.ndarray]] = {
    "accuracy": lambda seen: seen.loss,
    "disparity": lambda seen: seen.qualified - seen.loss,
    "false-positive": lambda seen: seen.above0,
    "false-negative": lambda seen: seen.below1,
    "accepted": lambda seen: seen.accepted,
    "rejected": lambda seen: 1.0 - seen.accepted,
}
RESPONSES = {"linear": 2, "power": 1, "exponential": 1}


@dataclass(frozen=True)
class Response:
    """Retention from one driver: ``linear`` c + m x, ``power`` (1 - x)^k, ``exponential`` exp(-k x), kept in [0, 1].

    The default is 1 - x for things people dislike and (1 + x)/2 for intra-group disparity, which they like.
    """

    driver: str
    response: tuple[Any, ...] | None = None

    def __call__(self, seen: Measures) -> np.ndarray:
        x = DRIVERS[self.driver](seen)
        if self.response is None:
            return 0.5 * (1.0 + x) if self.driver == "disparity" else 1.0 - x
        shape, *numbers = self.response
        if shape == "linear":
            value = numbers[0] + numbers[1] * x
        elif shape == "power":
            value = np.maximum(1.0 - x, 0.0) ** numbers[0]
        else:
            value = np.exp(-numbers[0] * x)
        return np.clip(value, 0.0, 1.0)


def retention(spec: Any, path: str = "retention") -> Retention:
    """Retention from a driver's name, a table {driver, response}, or a function of the measures.

    >>> retention({"driver": "accuracy", "response": ["power", 2]}).response
    ('power', 2)
    """
    if callable(spec):
        return spec
    table = {"driver": spec} if isinstance(spec, str) else spec
    allowed = f"one of {', '.join(DRIVERS)}, subgroup, or a table with driver and response"
    if not isinstance(table, Mapping) or not set(table) <= {"driver", "response"} or table.get("driver") not in DRIVERS:
        raise SpecError("this is not a retention model", path=path, given=spec, allowed=allowed)
    response = table.get("response")
    if response is not None:
        good = isinstance(response, list | tuple) and response and RESPONSES.get(response[0]) == len(response) - 1
        if not good or not all(isinstance(item, int | float) for item in response[1:]):
            allowed = '["linear", at_zero, slope], ["power", k] or ["exponential", k]'
            raise SpecError("this is not a response", path=f"{path}.response", given=response, allowed=allowed)
        response = tuple(response)
    return Response(table["driver"], response)
