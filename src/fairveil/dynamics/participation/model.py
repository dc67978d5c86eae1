"""Participation: groups of users who stay or leave according to how decisions treat them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairveil.dynamics import assumptions
from fairveil.dynamics.measures import Measures, measure
from fairveil.dynamics.participation.growth import GROWTH, Growth
from fairveil.dynamics.participation.reshape import Drift
from fairveil.dynamics.participation.retention import Retention, retention
from fairveil.dynamics.population import Population, optimal_thresholds, population
from fairveil.errors import SpecError

Rule = Callable[[Population, int], np.ndarray]
"""A policy: thresholds for the population (its shares are the users present) at step t."""


@dataclass(frozen=True)
class Participation:
    """A batch of populations with arrivals (instances, groups), a criterion, and the law of staying and leaving.

    ``stay`` None is the subgroup model: each label of each group stays according to its own loss. ``follow_labels``
    then lets decisions use the label rates of the users present instead of fixed ones.
    """

    people: Population
    arrivals: np.ndarray
    fairness: str = "none"
    rate: str = "fpr"
    stay: Retention | None = None
    draw: Retention | None = None
    growth: Growth = GROWTH["arrive"]
    drift: Drift | None = None
    rule: Rule | None = None
    follow_labels: bool = False

    def select(self, rows: np.ndarray) -> Participation:
        return replace(self, people=self.people.select(rows), arrivals=self.arrivals[rows])

    def thresholds(self, people: Population, step: int = 0, guess: np.ndarray | None = None) -> np.ndarray:
        """One-shot decisions that minimise the users' average loss under the criterion."""
        return self.rule(people, step) if self.rule else optimal_thresholds(people, self.fairness, self.rate, guess)

    def at_share(self, share: np.ndarray) -> tuple[np.ndarray, Measures]:
        """Thresholds and measures when the groups have these shares."""
        people = self.people.with_rates(share=share)
        theta = self.thresholds(people)
        return theta, measure(people, theta)

    def rest(self, seen: Measures) -> np.ndarray:
        """Numbers (instances, groups) at which the groups come to rest under this treatment for ever."""
        return np.asarray(self.growth.rest(*self._treated(seen))).sum(axis=0)

    def pace(self, seen: Measures) -> np.ndarray:
        """What a group (instances, groups) that never comes to rest gains a step under this treatment."""
        treated = self._treated(seen)
        resting = np.isfinite(self.growth.rest(*treated))
        return np.where(resting, 0.0, self.growth.pace(*treated)).sum(axis=0)

    def _treated(self, seen: Measures) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Retention, attraction and arrivals of the parts of each group that are treated alike; parts come first."""
        if self.stay is None:
            parts = np.stack([1.0 - self.people.qualified, self.people.qualified]) * self.arrivals
            leave = np.stack([seen.above0, seen.below1])
            return 1.0 - leave, np.ones_like(leave), parts
        attracted = np.ones_like(self.arrivals) if self.draw is None else self.draw(seen)
        return self.stay(seen)[None], attracted[None], self.arrivals[None]


@dataclass(frozen=True)
class History:
    """A simulated path; arrays are (steps, instances, groups), the start first; ``people`` by step."""

    numbers: np.ndarray
    thresholds: np.ndarray
    loss: np.ndarray
    retention: np.ndarray
    qualified: np.ndarray
    people: tuple[Population, ...] = field(repr=False, default=())

    @property
    def share(self) -> np.ndarray:
        return self.numbers / self.numbers.sum(axis=2, keepdims=True)

    @property
    def average_loss(self) -> np.ndarray:
        """Loss of the average user (steps, instances)."""
        return (self.share * self.loss).sum(axis=2)


def model(
    groups: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    fairness: str = "none",
    stay: Any = "accuracy",
    rate: str = "fpr",
    growth: str = "arrive",
    draw: Any = None,
    drift: Drift | None = None,
    rule: Rule | None = None,
    follow_labels: bool = False,
    check: bool = True,
) -> Participation:
    """Build a model from groups tables with ``arrivals``; retention is a name, a table or a function (see `retention`).

    Ten arguments, as many as the task's tables have keys; all but the groups have a default.

    >>> table = {"qualified": 0.5, "arrivals": 10.0,
    ...          "features": {"0": ["truncnorm", 0, 1, -3, 3], "1": ["truncnorm", 1, 1, -2, 4]}}
    >>> simulate(model({"a": table, "b": table}), 3).share[-1].tolist()
    [[0.5, 0.5]]
    """
    tables = [groups] if isinstance(groups, Mapping) else list(groups)
    arrivals = np.array([[float(group["arrivals"]) for group in table.values()] for table in tables])
    people = population([{name: {**group, "share": group["arrivals"]} for name, group in t.items()} for t in tables])
    if check:
        assumptions.require_features(people)
    else:
        people = assumptions.searched(people)
    if growth not in GROWTH:
        raise SpecError("there is no such growth", path="growth", given=growth, allowed=", ".join(GROWTH))
    return Participation(
        people,
        arrivals,
        fairness,
        rate,
        None if stay == "subgroup" else retention(stay),
        None if draw is None else retention(draw, "attraction"),
        GROWTH[growth],
        drift,
        rule,
        follow_labels,
    )


def simulate(system: Participation, steps: int, start: np.ndarray | None = None) -> History:
    """Follow the numbers of users for a number of steps; they start at the arrivals unless told otherwise.

    Decisions at each step are optimal for the users present. About 5 microseconds per step, instance and group.
    """
    first = system.people
    people = first
    now = np.array(system.arrivals if start is None else start, dtype=float)
    labels = np.stack([1.0 - first.qualified, first.qualified])
    parts = labels * now
    arriving = labels * system.arrivals
    keep: dict[str, list[np.ndarray]] = {key: [] for key in ("numbers", "thresholds", "loss", "retention", "qualified")}
    present: list[Population] = []
    theta: np.ndarray | None = None
    before: Measures | None = None
    for t in range(steps):
        people = people.with_rates(share=now / now.sum(axis=1, keepdims=True))
        if system.stay is None and system.follow_labels:
            people = people.with_rates(parts[1] / parts.sum(axis=0))
        theta = system.thresholds(people, t, theta)
        seen = measure(people, theta)
        if system.stay is None:
            leave = np.stack([seen.above0, seen.below1])
            stay = ((1.0 - leave) * parts).sum(axis=0) / parts.sum(axis=0)
        else:
            stay = system.stay(seen)
        present.append(people)
        for key, value in zip(keep, (now, theta, seen.loss, stay, people.qualified), strict=True):
            keep[key].append(value)
        if system.stay is None:
            parts = system.growth.step(parts, 1.0 - leave, np.ones_like(parts), arriving)
            now = parts.sum(axis=0)
        else:
            attracted = np.ones_like(now) if system.draw is None else system.draw(seen)
            now = system.growth.step(now, stay, attracted, system.arrivals)
        if system.drift is not None and before is not None:
            people = system.drift(first, people, before, seen)
        before = seen
    numbers, thresholds, loss, stays, qualified = (np.array(values) for values in keep.values())
    return History(numbers, thresholds, loss, stays, qualified, tuple(present))
