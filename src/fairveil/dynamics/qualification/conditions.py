"""Conditions on transitions and on the policy's response that decide whether an equilibrium is unique."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairveil.dynamics.qualification.model import Qualification


def condition(transitions: Any) -> str:
    """Which of the four cases one group's transitions [[T00, T01], [T10, T11]] are in.

    1a acceptance weakens both states, 1b it strengthens both, 1c and 1d are mixed; ``0`` when it changes nothing.

    >>> condition([[0.4, 0.5], [0.5, 0.9]])
    '1b'
    """
    (t00, t01), (t10, t11) = transitions
    if t01 == t00 and t11 == t10:
        return "0"
    if t01 <= t00 and t11 <= t10:
        return "1a"
    if t01 >= t00 and t11 >= t10:
        return "1b"
    return "1c" if t01 >= t00 else "1d"


def common_condition(transitions: np.ndarray) -> str:
    """The case all groups are in together, or ``mixed``. A group on which decisions have no effect fits any case."""
    kinds = {condition(table) for table in transitions} - {"0"}
    if len(kinds) > 1:
        return "mixed"
    return kinds.pop() if kinds else "0"


@dataclass(frozen=True)
class Uniqueness:
    """Theorem 18's sufficient condition, measured on a grid of rates.

    ``own`` and ``cross`` are the largest responses |dh_s/dalpha_s| and |dh_s/dalpha_r|; ``holds`` says whether they are
    small enough for the case the transitions are in. False proves nothing: the condition is sufficient only.
    """

    case: str
    own: float
    cross: float
    holds: bool


def uniqueness(system: Qualification, points: int = 33, instance: int = 0) -> Uniqueness:
    """Measure theorem 18's condition for one instance (two groups or one) on ``points`` rates per axis."""
    one = system.select(np.array([instance]))
    groups = one.people.groups
    axis = np.linspace(0.01, 0.99, points)
    rates = np.array(np.meshgrid(*[axis] * groups, indexing="ij")).reshape(groups, -1).T
    many = one.select(np.zeros(len(rates), dtype=int))
    width = 1e-6
    own = cross = 0.0
    for r in range(groups):
        shift = np.zeros(groups)
        shift[r] = width
        response = np.abs(many.balance(rates + shift) - many.balance(rates - shift)) / (2 * width)
        own = max(own, float(response[:, r].max()))
        if groups > 1:
            cross = max(cross, float(np.delete(response, r, axis=1).max()))
    case = common_condition(one.transitions[0])
    holds = case in ("0", "1a", "1b") and cross < 1.0 and (case != "1b" or own < 1.0)
    return Uniqueness(case, own, cross, holds)
