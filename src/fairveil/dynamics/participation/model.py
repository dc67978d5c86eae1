"""Participation: groups of users who stay or leave according to how decisions treat them.

`Growth` is how numbers of users move from one step to the next, and where they come to rest for fixed treatment. Drifts
are decisions that change the people themselves: plug-ins that move rates or features between steps (section 4.4.3).

Why people stay: retention as a function of how a group is treated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairveil.dynamics import assumptions
from fairveil.dynamics.assumptions import overlap
from fairveil.dynamics.distributions import distribution, stack
from fairveil.dynamics.population import Measures, Population, measure, optimal_thresholds, population
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


Array = np.ndarray
Rule = Callable[[Population, int], np.ndarray]
"""A policy: thresholds for the population (its shares are the users present) at step t."""
Drift = Callable[[Population, Population, Measures, Measures], Population]
"""(population at the start, population now, measures before, measures now) -> population next."""


@dataclass(frozen=True)
class Growth:
    """One law of motion: the next number from the present one, retention, attraction and arrivals; and its rest point.

    ``rest`` is infinite where the law has no stable point. ``pace`` is what such a group gains a step when nobody
    leaves it: groups that grow for ever have shares as their paces. It is not a number where growth itself grows.
    """

    step: Callable[[Array, Array, Array, Array], Array]
    rest: Callable[[Array, Array, Array], Array]
    pace: Callable[[Array, Array, Array], Array]


def _quadratic_rest(stay: Array, _draw: Array, arrivals: Array) -> Array:
    """The smaller root of N = N^2 stay + arrivals; stable, and there, only for 4 arrivals stay < 1."""
    inside = 1.0 - 4.0 * arrivals * stay
    with np.errstate(invalid="ignore", divide="ignore"):
        root = 2.0 * arrivals / (1.0 + np.sqrt(inside))
    return np.where(inside > 0.0, root, np.inf)


def _divide(top: Array, bottom: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.where(bottom > 0.0, top / np.maximum(bottom, 1e-300), np.inf)


GROWTH: dict[str, Growth] = {
    # People stay with their chance and new ones arrive: N' = N stay + arrivals.
    "arrive": Growth(
        lambda now, stay, draw, arrivals: now * stay + arrivals,
        lambda stay, draw, arrivals: _divide(arrivals, 1.0 - stay),
        lambda stay, draw, arrivals: arrivals,
    ),
    # Newcomers are treated before they count: N' = (N + arrivals) stay.
    "join": Growth(
        lambda now, stay, draw, arrivals: (now + arrivals) * stay,
        lambda stay, draw, arrivals: _divide(arrivals * stay, 1.0 - stay),
        lambda stay, draw, arrivals: arrivals * stay,
    ),
    # Treatment also attracts: N' = N stay + arrivals draw.
    "attract": Growth(
        lambda now, stay, draw, arrivals: now * stay + arrivals * draw,
        lambda stay, draw, arrivals: _divide(arrivals * draw, 1.0 - stay),
        lambda stay, draw, arrivals: arrivals * draw,
    ),
    # Users bring users: N' = N^2 stay + arrivals.
    "quadratic": Growth(
        lambda now, stay, draw, arrivals: now**2 * stay + arrivals,
        _quadratic_rest,
        lambda stay, draw, arrivals: np.full_like(arrivals, np.nan),
    ),
}


@dataclass(frozen=True)
class Composition:
    """Case (i): the label whose loss fell keeps more of its people, so the qualification rate follows the losses.

    alpha moves by ``pace`` times (fall of the qualified's loss - fall of the unqualified's loss); features stay.
    """

    pace: float = 0.1

    def __call__(self, first: Population, now: Population, before: Measures, seen: Measures) -> Population:
        move = (before.below1 - seen.below1) - (before.above0 - seen.above0)
        return now.with_rates(np.clip(now.qualified + self.pace * move, 1e-6, 1.0 - 1e-6))


@dataclass(frozen=True)
class Effort:
    """Case (ii): the label whose loss rose works on its features, so its density falls on the overlap.

    The density on the overlap is multiplied by 1 - ``pace`` times the rise, the mass goes where the label is safe; the
    supports and the other label stay.
    """

    pace: float = 0.1
    floor: float = 0.05

    def __call__(self, first: Population, now: Population, before: Measures, seen: Measures) -> Population:
        rises = np.stack([seen.above0 - before.above0, seen.below1 - before.below1], axis=-1)
        items = list(now.distributions)
        which = now.which.copy()
        for k, s, y in np.argwhere(rises > 1e-15):
            base = first.feature(k, s, y)
            present = now.feature(k, s, y)
            factor = present.spec[4] if present.name == "tempered" else 1.0
            factor = max(self.floor, factor * (1.0 - self.pace * float(rises[k, s, y])))
            low, high = overlap(*first.features(k, s))
            which[k, s, y] = len(items)
            items.append(distribution(["tempered", base, low, high, factor]))
        kept, places = np.unique(which, return_inverse=True)
        chosen = tuple(items[row] for row in kept)
        codes, params = stack(chosen)
        return replace(now, which=places.reshape(which.shape), codes=codes, params=params, distributions=chosen)


DRIFTS: dict[str, Callable[[float], Drift]] = {"composition": Composition, "effort": Effort}


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

    def attracted(self, seen: Measures) -> np.ndarray:
        """What part of the arrivals (instances, groups) comes under this treatment."""
        return np.ones_like(self.arrivals) if self.draw is None else self.draw(seen)

    def _treated(self, seen: Measures) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Retention, attraction and arrivals of the parts of each group that are treated alike; parts come first."""
        if self.stay is None:
            parts = np.stack([1.0 - self.people.qualified, self.people.qualified]) * self.arrivals
            leave = np.stack([seen.above0, seen.below1])
            return 1.0 - leave, np.ones_like(leave), parts
        return self.stay(seen)[None], self.attracted(seen)[None], self.arrivals[None]


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
    people = assumptions.checked(people, check)
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
    rows: list[tuple[np.ndarray, ...]] = []
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
        rows.append((now, theta, seen.loss, stay, people.qualified))
        if system.stay is None:
            parts = system.growth.step(parts, 1.0 - leave, np.ones_like(parts), arriving)
            now = parts.sum(axis=0)
        else:
            now = system.growth.step(now, stay, system.attracted(seen), system.arrivals)
        if system.drift is not None and before is not None:
            people = system.drift(first, people, before, seen)
        before = seen
    numbers, thresholds, loss, stays, qualified = map(np.array, zip(*rows, strict=True))
    return History(numbers, thresholds, loss, stays, qualified, tuple(present))
