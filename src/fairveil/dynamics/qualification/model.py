"""Qualification rates under repeated decisions: each decision moves people in and out of qualification.

Conditions on transitions and on the policy's response decide whether an equilibrium is unique.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairveil.dynamics import assumptions
from fairveil.dynamics.population import Population, measure, optimal_thresholds, population

#: Rates are kept this far from 0 and 1, where likelihood ratios lose their meaning.
EDGE = 1e-12

Rule = Callable[[Population], np.ndarray]
"""A policy: thresholds (instances, groups) for the population as it is now."""


@dataclass(frozen=True)
class Qualification:
    """A batch of populations, how decisions change qualification, and the policy.

    ``transitions[k, s, y, d]`` is the chance to be qualified next for a person of group s with state y and decision d.
    The policy is optimal under ``fairness`` unless ``rule`` says otherwise.
    """

    people: Population
    transitions: np.ndarray
    fairness: str = "none"
    rate: str = "tpr"
    rule: Rule | None = None

    @property
    def size(self) -> int:
        return self.people.size

    def select(self, rows: np.ndarray) -> Qualification:
        return replace(self, people=self.people.select(rows), transitions=self.transitions[rows])

    def thresholds(self, qualified: np.ndarray, guess: np.ndarray | None = None) -> np.ndarray:
        """The policy's thresholds at given qualification rates; thresholds of a nearby state speed it up."""
        people = self.people.with_rates(qualified)
        if self.rule is not None:
            return self.rule(people)
        return optimal_thresholds(people, self.fairness, self.rate, guess)

    def moves(self, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Chances to be qualified next for the unqualified and for the qualified, under given thresholds."""
        seen = measure(self.people, thresholds)
        table = self.transitions
        return (
            table[..., 0, 0] * seen.below0 + table[..., 0, 1] * seen.above0,
            table[..., 1, 0] * seen.below1 + table[..., 1, 1] * seen.above1,
        )

    def advance(self, qualified: np.ndarray, guess: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Qualification rates one step later, and the thresholds that led there."""
        thresholds = self.thresholds(qualified, guess)
        gain, keep = self.moves(thresholds)
        return np.clip(gain * (1.0 - qualified) + keep * qualified, EDGE, 1.0 - EDGE), thresholds

    def step(self, qualified: np.ndarray, guess: np.ndarray | None = None) -> np.ndarray:
        """Qualification rates one step later."""
        return self.advance(qualified, guess)[0]

    def balance(self, qualified: np.ndarray) -> np.ndarray:
        """h = (1 - g1)/g0: at an equilibrium it equals 1/alpha - 1."""
        gain, keep = self.moves(self.thresholds(qualified))
        return (1.0 - keep) / gain


def model(
    groups: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    utility: Any = None,
    fairness: str = "none",
    rate: str = "tpr",
    rule: Rule | None = None,
    check: bool = True,
) -> Qualification:
    """Build a model from groups tables with ``transitions`` [[T00, T01], [T10, T11]]; ``qualified`` is where it starts.

    >>> table = {"qualified": 0.5, "features": {"0": ["normal", -5, 5], "1": ["normal", 5, 5]}}
    >>> one = model({"a": {**table, "transitions": [[0.4, 0.5], [0.5, 0.9]]},
    ...              "b": {**table, "transitions": [[0.1, 0.5], [0.5, 0.7]]}})
    >>> one.step(one.people.qualified).round(6).tolist()
    [[0.626202, 0.415866]]
    """
    tables = [groups] if isinstance(groups, Mapping) else list(groups)
    people = population(tables, utility)
    transitions = np.array([[table[name]["transitions"] for name in people.names] for table in tables], dtype=float)
    people = assumptions.checked(people, check)
    if check:
        bad = np.flatnonzero(~((transitions > 0) & (transitions < 1)).all(axis=(1, 2, 3)))
        if bad.size:
            violation = assumptions.transition_violations(people.names, transitions[bad[0]])[0]
            raise violation.error(f"groups.{violation.group}.transitions")
    return Qualification(people, transitions, fairness, rate, rule)


def path(system: Qualification, steps: int, start: np.ndarray | None = None) -> np.ndarray:
    """Qualification rates (steps + 1, instances, groups), the start first."""
    now = system.people.qualified if start is None else np.asarray(start, dtype=float)
    out = [now]
    for _ in range(steps):
        now = system.step(now)
        out.append(now)
    return np.array(out)


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
