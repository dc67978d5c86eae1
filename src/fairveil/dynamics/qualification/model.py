"""Qualification rates under repeated decisions: each decision moves people in and out of qualification."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairveil.dynamics import assumptions
from fairveil.dynamics.measures import measure
from fairveil.dynamics.population import Population, optimal_thresholds, population

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
    if check:
        assumptions.require_features(people)
        bad = np.flatnonzero(~((transitions > 0) & (transitions < 1)).all(axis=(1, 2, 3)))
        if bad.size:
            violation = assumptions.transition_violations(people.names, transitions[bad[0]])[0]
            raise violation.error(f"groups.{violation.group}.transitions")
    else:
        people = assumptions.searched(people)
    return Qualification(people, transitions, fairness, rate, rule)


def path(system: Qualification, steps: int, start: np.ndarray | None = None) -> np.ndarray:
    """Qualification rates (steps + 1, instances, groups), the start first."""
    now = system.people.qualified if start is None else np.asarray(start, dtype=float)
    out = [now]
    for _ in range(steps):
        now = system.step(now)
        out.append(now)
    return np.array(out)
