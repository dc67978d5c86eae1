"""The closed loop: people come, a learner is retrained on who is there, its decisions change who is there next.

What a person does next depends on the released model and on that person's own data and luck alone, never on another
person's raw data: a group reacts to the model's error rate on the group's law (an evaluation sample that is nobody's
record), not to the errors counted on the people present. That is why the cost of the whole history is the adaptive
composition of its fits and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairveil.classify.learner import fit, predict
from fairveil.dynamics.longterm.world import Floats, People, World
from fairveil.dynamics.measures import Measures
from fairveil.dynamics.participation.retention import Retention, retention
from fairveil.fairness.groups import Groups
from fairveil.fairness.metrics import group_rates
from fairveil.randomness import Generator

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
    ``retention`` is a function of a group's `Measures` (see `fairveil.dynamics.participation.retention`), or `Own`.
    """

    world: World
    model: Literal["participation", "qualification"]
    arrivals: NDArray[np.int64]
    steps: int
    persons: Literal["stay", "fresh"] = "stay"
    retention: Retention | Own = field(default_factory=lambda: retention("accuracy"))
    transitions: Floats | None = None
    evaluation: int = 2000


@dataclass(frozen=True)
class History:
    """One run, arrays of shape (steps, groups): people present, and their rates; ``hits`` are true positive rates."""

    people: NDArray[np.int64]
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


def _decide(estimator: Any, world: World, people: People, rng: Generator) -> NDArray[np.int64]:
    if not len(people):
        return np.zeros(0, np.int64)
    return predict(estimator, world.inputs(people), world.labels_of(people), rng)


def _retain(
    loop: Loop, estimator: Any, present: People, decisions: NDArray[np.int64], mass: Floats, rng: Generator
) -> tuple[Floats, People]:
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
    loop: Loop, estimator: Any, present: People, decisions: NDArray[np.int64], rates: Floats, rng: Generator
) -> tuple[Floats, People]:
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
