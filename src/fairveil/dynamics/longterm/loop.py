"""The closed loop: people come, a learner is retrained on who is there, its decisions change who is there next.

What a person does next depends on the released model and on that person's own data and luck alone, never on another
person's raw data: a group reacts to the model's error rate on the group's law (an evaluation sample that is nobody's
record), not to the errors counted on the people present. That is why the cost of the whole history is the adaptive
composition of its fits and nothing else.

The people of the closed loop: groups with feature laws, drawn, kept, moved between qualified and unqualified.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairveil.arrays import Floats, Ints
from fairveil.classify.learner import fit, predict
from fairveil.dynamics.distributions import Distribution, distribution
from fairveil.dynamics.participation.model import Retention, retention
from fairveil.dynamics.population import Measures
from fairveil.errors import SpecError
from fairveil.fairness.groups import Groups
from fairveil.fairness.metrics import group_rates
from fairveil.randomness import Generator

TAIL = 1e-3
"""Features are scaled by their public quantiles at this level and its complement, and clipped there."""


@dataclass(frozen=True)
class Cohort:
    """Some people: raw features (n, columns), qualified or not, and the position of their group."""

    features: Floats
    labels: Ints
    groups: Ints

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[Any]) -> Cohort:
        return Cohort(self.features[rows], self.labels[rows], self.groups[rows])

    def joined(self, other: Cohort) -> Cohort:
        return Cohort(
            np.concatenate([self.features, other.features]),
            np.concatenate([self.labels, other.labels]),
            np.concatenate([self.groups, other.groups]),
        )


@dataclass(frozen=True)
class World:
    """Public knowledge about the groups: names, start rates, and independent feature laws for each group and label.

    >>> law = {"0": ["normal", -1, 1], "1": ["normal", 1, 1]}
    >>> world = World.of({"a": {"qualified": 0.5, "features": law}, "b": {"qualified": 0.3, "features": law}})
    >>> world.width, world.names
    (1, ('a', 'b'))
    """

    names: tuple[str, ...]
    qualified: Floats
    laws: tuple[tuple[tuple[Distribution, ...], tuple[Distribution, ...]], ...]
    group_feature: bool = False

    @classmethod
    def of(cls, groups: Mapping[str, Any], group_feature: bool = False) -> World:
        laws = []
        for name, table in groups.items():
            both = tuple(columns(table["features"][label], f"groups.{name}.features.{label}") for label in ("0", "1"))
            laws.append((both[0], both[1]))
        widths = {len(side) for both in laws for side in both}
        if len(widths) != 1:
            raise SpecError(
                "every group and label needs the same number of features",
                path="groups",
                given=sorted(widths),
                allowed="one distribution, or a list of distributions, of equal length",
            )
        rates = np.array([float(table["qualified"]) for table in groups.values()])
        made = cls(tuple(groups), rates, tuple(laws), group_feature)
        low, high = made._range
        with np.errstate(over="ignore"):
            spread = high - low
        if not (np.isfinite(spread) & (spread > 0)).all():
            raise SpecError(
                "a feature cannot be scaled: its laws have no spread that a float can show",
                path="groups",
                given=[float(width) if np.isfinite(width) else None for width in spread],
                allowed="laws whose quantiles differ by a finite positive number, column by column",
            )
        return made

    @property
    def width(self) -> int:
        return len(self.laws[0][0])

    @cached_property
    def _range(self) -> tuple[Floats, Floats]:
        sides = [side for both in self.laws for side in both]
        low = np.array([min(float(side[j].ppf(TAIL)) for side in sides) for j in range(self.width)])
        high = np.array([max(float(side[j].ppf(1 - TAIL)) for side in sides) for j in range(self.width)])
        return low, high

    def nobody(self) -> Cohort:
        empty = np.zeros(0, np.int64)
        return Cohort(np.zeros((0, self.width)), empty, empty)

    def draw(self, counts: Ints, rates: Floats, rng: Generator) -> Cohort:
        """Fresh people: so many of each group, qualified at these rates."""
        groups = np.repeat(np.arange(len(self.names)), counts)
        labels = (rng.random(len(groups)) < rates[groups]).astype(np.int64)
        return self.with_features(labels, groups, rng)

    def with_features(self, labels: Ints, groups: Ints, rng: Generator) -> Cohort:
        """People of these labels and groups with features drawn from their laws."""
        features = np.empty((len(labels), self.width))
        for group, both in enumerate(self.laws):
            for label, side in enumerate(both):
                rows = np.flatnonzero((groups == group) & (labels == label))
                for j, law in enumerate(side):
                    features[rows, j] = law.sample(rng, len(rows))
        return Cohort(features, labels, groups)

    def inputs(self, people: Cohort) -> Floats:
        """What a learner sees: every column scaled to [-1, 1] by public quantiles, all rows of norm at most one."""
        low, high = self._range
        scaled = np.clip(2 * (people.features - low) / (high - low) - 1, -1.0, 1.0)
        if not self.group_feature:
            return scaled / math.sqrt(self.width)
        member = np.eye(len(self.names))[people.groups]
        return np.concatenate([scaled, member], axis=1) / math.sqrt(self.width + 1)

    def labels_of(self, people: Cohort) -> NDArray[Any]:
        """Group names, as learners get them."""
        return np.array(self.names)[people.groups]


def columns(spec: Any, path: str) -> tuple[Distribution, ...]:
    """One distribution, or a list of them (independent features), as a tuple."""
    if isinstance(spec, list | tuple) and spec and not isinstance(spec[0], str):
        return tuple(distribution(item, f"{path}.{j}") for j, item in enumerate(spec))
    return (distribution(spec, path),)


MakeEstimator = Callable[[], Any]
"""Makes a fresh scikit-learn style estimator for every retraining."""


@dataclass(frozen=True)
class Own:
    """Everybody stays by their own decision: with chance ``right`` after a right one, ``wrong`` after a wrong one."""

    right: float = 0.95
    wrong: float = 0.5


@dataclass(frozen=True)
class Loop:
    """Public description of a loop. ``arrivals`` are people a step (participation) or the fixed sizes (qualification).

    ``persons="stay"``: the same people are seen again and again, and one person may be in every retraining.
    ``persons="fresh"``: every step draws new people from the groups as they are, so each is in exactly one.
    ``retention`` is a function of a group's `Measures` (see `fairveil.dynamics.participation.model`), or `Own`.
    """

    world: World
    model: Literal["participation", "qualification"]
    arrivals: Ints
    steps: int
    persons: Literal["stay", "fresh"] = "stay"
    retention: Retention | Own = field(default_factory=lambda: retention("accuracy"))
    transitions: Floats | None = None
    evaluation: int = 2000


@dataclass(frozen=True)
class History:
    """One run, arrays of shape (steps, groups): people present, and their rates; ``hits`` are true positive rates."""

    people: Ints
    qualified: Floats
    loss: Floats
    accepted: Floats
    hits: Floats

    @property
    def share(self) -> Floats:
        return self.people / np.maximum(self.people.sum(axis=1, keepdims=True), 1)


def simulate(loop: Loop, make: MakeEstimator, rng: Generator) -> History:
    """Run the loop once. O(steps x people) beside the learner's own work; memory O(people).

    >>> from sklearn.linear_model import LogisticRegression
    >>> law = {"0": ["normal", -1, 1], "1": ["normal", 1, 1]}
    >>> world = World.of({"a": {"qualified": 0.5, "features": law}, "b": {"qualified": 0.3, "features": law}})
    >>> loop = Loop(world, "participation", np.array([60, 40]), steps=3)
    >>> simulate(loop, LogisticRegression, np.random.default_rng(0)).people[0].tolist()
    [60, 40]
    """
    world, size = loop.world, len(loop.world.names)
    rates = world.qualified.copy()
    mass = loop.arrivals.astype(float)
    present = world.draw(loop.arrivals, rates, rng)
    rows: dict[str, list[NDArray[Any]]] = {name: [] for name in ("people", "qualified", "loss", "accepted", "hits")}
    for step in range(loop.steps):
        if step and loop.persons == "fresh":
            present = world.draw(np.rint(mass).astype(np.int64), rates, rng)
        estimator = fit(make(), world.inputs(present), present.labels, world.labels_of(present))
        decisions = _decide(estimator, world, present, rng)
        seen = group_rates(present.labels, decisions, Groups(world.names, present.groups))
        rows["people"].append(seen.count)
        rows["qualified"].append(seen.positives / np.maximum(seen.count, 1))
        rows["loss"].append(np.nan_to_num(seen.error))
        rows["accepted"].append(np.nan_to_num(seen.selected))
        rows["hits"].append(np.nan_to_num(seen.true_positive))
        if loop.model == "participation":
            mass, present = _retain(loop, estimator, present, decisions, mass, rng)
        else:
            rates, present = _move(loop, estimator, present, decisions, rates, rng)
    stacked = {name: np.array(values).reshape(loop.steps, size) for name, values in rows.items()}
    return History(stacked["people"].astype(np.int64), *(stacked[name] for name in list(rows)[1:]))


def _decide(estimator: Any, world: World, people: Cohort, rng: Generator) -> Ints:
    if not len(people):
        return np.zeros(0, np.int64)
    return predict(estimator, world.inputs(people), world.labels_of(people), rng)


def _retain(
    loop: Loop, estimator: Any, present: Cohort, decisions: Ints, mass: Floats, rng: Generator
) -> tuple[Floats, Cohort]:
    """N' = N lambda + arrivals, person by person (stay) or in expected numbers (fresh)."""
    world, rule = loop.world, loop.retention
    if isinstance(rule, Own) and loop.persons == "stay":
        chance = np.where(decisions == present.labels, rule.right, rule.wrong)
    else:
        seen = _expected(loop, estimator, rng)
        by_group = rule.right - (rule.right - rule.wrong) * seen.loss if isinstance(rule, Own) else rule(seen)
        chance = by_group[0][present.groups]
        mass = mass * by_group[0] + loop.arrivals
    if loop.persons == "fresh":
        return mass, present
    stayed = present.take(rng.random(len(present)) < chance)
    return mass, stayed.joined(world.draw(loop.arrivals, world.qualified, rng))


def _expected(loop: Loop, estimator: Any, rng: Generator) -> Measures:
    """What the model does to each group's law, seen on people who are in nobody's data."""
    above = np.stack([_acceptance(loop, estimator, label, rng) for label in (0, 1)])[:, None, :]
    nothing = np.zeros_like(above[0])
    rates = loop.world.qualified[None, :]
    return Measures(1 - above[0], 1 - above[1], above[0], above[1], nothing, nothing, rates)


def _acceptance(loop: Loop, estimator: Any, label: int, rng: Generator) -> Floats:
    """Acceptance rate of each group among people of one label."""
    size = len(loop.world.names)
    sample = loop.world.draw(np.full(size, loop.evaluation), np.full(size, float(label)), rng)
    return _decide(estimator, loop.world, sample, rng).reshape(size, loop.evaluation).mean(axis=1)


def _move(
    loop: Loop, estimator: Any, present: Cohort, decisions: Ints, rates: Floats, rng: Generator
) -> tuple[Floats, Cohort]:
    """Qualified next with chance T[group, state now, decision]; features are drawn anew from the new state's law."""
    world, table = loop.world, loop.transitions
    assert table is not None
    if loop.persons == "stay":
        chance = table[present.groups, present.labels, decisions]
        labels = (rng.random(len(present)) < chance).astype(np.int64)
        return rates, world.with_features(labels, present.groups, rng)
    sides = []
    for label in (0, 1):
        accepted = _acceptance(loop, estimator, label, rng)
        sides.append(table[:, label, 0] * (1 - accepted) + table[:, label, 1] * accepted)
    return (1 - rates) * sides[0] + rates * sides[1], present
