"""What is promised to whom: a definition, its numbers, the unit it protects and who is trusted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fairveil.errors import SpecError

REFUSED = "strict: a value outside its declared range is refused, and that it was depends on the value: not covered"
"""A note of every promise that is made with ``strict``."""
UNRELEASED = "who comes next, and the coins of decisions, do not depend on rewards or features that are not released"
"""What every proof about a policy takes for granted."""
CHOSEN = "ranges and settings were chosen without looking at the rows"
ONCE = "a person reports once for one reward, from a device that draws its own coins"


class Definition(StrEnum):
    """The mathematical definition in which the numbers are stated."""

    PURE = "pure"
    APPROXIMATE = "approximate"
    ZCDP = "zcdp"
    GAUSSIAN = "gaussian"


class Model(StrEnum):
    """Who sees raw data.

    GLOBAL: a trusted curator; all outputs are protected. LOCAL: nobody, each person randomises first.
    JOINT: a trusted curator; person t's own decision may depend on their data, everybody else's output is protected.
    FEDERATED: each agent is its own curator; messages and other agents' outputs are protected.
    """

    GLOBAL = "global"
    LOCAL = "local"
    JOINT = "joint"
    FEDERATED = "federated"


class Neighbours(StrEnum):
    """When two data sets differ in one unit."""

    REPLACE_ROW = "replace-row"
    ADD_REMOVE_ROW = "add-remove-row"
    ZERO_OUT_ROW = "zero-out-row"
    REPLACE_REWARD = "replace-reward"
    REPLACE_TUPLE = "replace-tuple"
    REPLACE_INTERACTION = "replace-interaction"
    REPLACE_INTERACTION_ROWS_FIXED = "replace-interaction-rows-fixed"
    REPLACE_SEQUENCE = "replace-sequence"
    ADD_REMOVE_SEQUENCE = "add-remove-sequence"
    REPLACE_WINDOW = "replace-window"
    REPLACE_EVENT = "replace-event"
    ANY_TWO_INPUTS = "any-two-inputs"


NEIGHBOURS_IN_WORDS = {
    Neighbours.REPLACE_ROW: "two data sets of the same size that differ in one row",
    Neighbours.ADD_REMOVE_ROW: "two data sets, one of which has one more row",
    Neighbours.ZERO_OUT_ROW: "two data sets that differ in one row, which is zero in one of them",
    Neighbours.REPLACE_REWARD: "two reward tables that differ in the rewards of one round (one user)",
    Neighbours.REPLACE_TUPLE: "two histories that differ in one candidate (features and reward) of one round",
    Neighbours.REPLACE_INTERACTION: "two histories that differ in one interaction (contexts and reward) of one agent; "
    "later choices may react to it",
    Neighbours.REPLACE_INTERACTION_ROWS_FIXED: "two histories that differ in one row of one agent; "
    "all other rows stay as they are",
    Neighbours.REPLACE_SEQUENCE: "two data sets that differ in one person's whole sequence",
    Neighbours.ADD_REMOVE_SEQUENCE: "two data sets, one of which has one more person, with a whole sequence",
    Neighbours.REPLACE_WINDOW: "two data sets that differ in what one person contributes inside one window of steps",
    Neighbours.REPLACE_EVENT: "two data sets that differ in what one person contributes at one given step",
    Neighbours.ANY_TWO_INPUTS: "any two values of one person's input",
}


NUMBERS = {
    Definition.PURE: ("epsilon",),
    Definition.APPROXIMATE: ("epsilon", "delta"),
    Definition.ZCDP: ("rho",),
    Definition.GAUSSIAN: ("mu",),
}
"""What an established guarantee must state, by definition."""


def _member(name: str, kind: type[StrEnum], value: Any) -> StrEnum:
    try:
        return kind(value)
    except ValueError:
        raise SpecError(f"unknown {name}", path=name, given=value, allowed=", ".join(kind)) from None


def _check_number(name: str, value: Any, *, finite: bool) -> None:
    """None, or a number that is not negative; a claim that is not established may say infinity."""
    if value is None:
        return
    wrong = isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0
    if wrong or (finite and math.isinf(value)) or (name == "delta" and value >= 1):
        allowed = "in [0, 1)" if name == "delta" else "not negative" + (" and finite" if finite else "")
        raise SpecError("a guarantee states numbers", path=name, given=value, allowed=allowed)


def _check_complete(guarantee: Guarantee) -> None:
    for name in NUMBERS[guarantee.definition]:
        if getattr(guarantee, name) is None:
            raise SpecError(
                f"a {guarantee.definition} guarantee states its {name}", path=name, allowed="a number", fix="add it"
            )
    if guarantee.definition is Definition.PURE and guarantee.delta:
        raise SpecError("a pure guarantee has no delta", path="delta", given=guarantee.delta, allowed="0 or nothing")


def _stretched(delta: float, epsilon: float, count: int) -> float:
    """delta (1 + e^eps + ... + e^((k-1) eps)), rounded up; refused where it says nothing any more."""
    steps = count if epsilon == 0 else math.inf
    if 0 < count * epsilon < 700:
        steps = math.expm1(count * epsilon) / math.expm1(epsilon)
    if not delta * steps < 1:
        raise SpecError(
            "for so many units the guarantee says nothing: delta would exceed 1",
            path="count",
            given=count,
            fix="choose a smaller delta or epsilon for one unit, or make the whole person the unit",
        )
    return min(delta * steps * (1 + 1e-12), math.nextafter(1.0, 0.0))


@dataclass(frozen=True)
class Guarantee:
    """A privacy promise, or an honest statement that a printed promise is not established.

    ``established`` is False when the numbers repeat a published claim that no valid proof supports; ``notes`` say why.
    Nothing that serves people may run on a guarantee that is not established.

    >>> Guarantee.pure(1.0, model="global", unit="one user's reward", neighbours="replace-reward").epsilon
    1.0
    """

    definition: Definition
    model: Model
    unit: str
    neighbours: Neighbours
    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    mu: float | None = None
    established: bool = True
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, kind in (("definition", Definition), ("model", Model), ("neighbours", Neighbours)):
            object.__setattr__(self, name, _member(name, kind, getattr(self, name)))
        if not isinstance(self.notes, list | tuple) or not all(isinstance(note, str) for note in self.notes):
            raise SpecError("notes are a list of sentences", path="notes", allowed="a tuple of strings")
        object.__setattr__(self, "notes", tuple(self.notes))
        if not isinstance(self.unit, str) or not self.unit.strip():
            raise SpecError("a guarantee names whom it protects", path="unit", given=self.unit, allowed="some words")
        for name in ("epsilon", "delta", "rho", "mu"):
            _check_number(name, getattr(self, name), finite=self.established)
        if self.established:
            _check_complete(self)

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers that it states, by their names."""
        named = {name: getattr(self, name) for name in ("epsilon", "delta", "rho", "mu")}
        return {name: number for name, number in named.items() if number is not None}

    @classmethod
    def pure(cls, epsilon: float, **facts: Any) -> Guarantee:
        return cls(definition=Definition.PURE, epsilon=epsilon, delta=0.0, **facts)

    @classmethod
    def approximate(cls, epsilon: float, delta: float, **facts: Any) -> Guarantee:
        return cls(definition=Definition.APPROXIMATE, epsilon=epsilon, delta=delta, **facts)

    @classmethod
    def gaussian(cls, mu: float, delta: float, **facts: Any) -> Guarantee:
        """mu-GDP, with the exact epsilon at the given delta beside it."""
        from fairveil.privacy.conversions import gdp_epsilon

        facts.setdefault("epsilon", gdp_epsilon(mu, delta))
        return cls(definition=Definition.GAUSSIAN, mu=mu, delta=delta, rho=mu * mu / 2, **facts)

    @classmethod
    def zcdp(cls, rho: float, delta: float, **facts: Any) -> Guarantee:
        """rho-zCDP, with an epsilon at the given delta beside it."""
        from fairveil.privacy.conversions import zcdp_epsilon

        facts.setdefault("epsilon", zcdp_epsilon(rho, delta))
        return cls(definition=Definition.ZCDP, rho=rho, delta=delta, **facts)

    def for_units(self, count: int) -> Guarantee:
        """What this promises to somebody who stands behind ``count`` units, such as a patient with several visits.

        Data that differ in k units are k neighbouring steps apart: k epsilon; delta (e^(k eps) - 1)/(e^eps - 1);
        k mu; k^2 rho (Dwork and Roth 2014; Bun and Steinke 2016; Dong, Roth and Su 2022). Where the stated epsilon is
        not the one that mu or rho gives alone (noise on a grid adds to delta), the rule for epsilon and delta is used.

        >>> visit = Guarantee.approximate(0.5, 1e-8, model="global", unit="one visit", neighbours="replace-row")
        >>> patient = visit.for_units(4)
        >>> patient.epsilon, round(patient.delta / 1e-8, 3), patient.unit
        (2.0, 9.849, '4 x one visit')
        """
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise SpecError("units are counted", path="count", given=count, allowed="a whole number from 1 on")
        if count == 1:
            return self
        note = f"the numbers hold for data that are {count} steps of the neighbouring relation apart"
        facts = {
            "model": self.model,
            "unit": f"{count} x {self.unit}",
            "neighbours": self.neighbours,
            "established": self.established,
            "notes": (*self.notes, note),
        }
        finer: dict[Definition, tuple[Callable[..., Guarantee], float | None, int]] = {
            Definition.GAUSSIAN: (Guarantee.gaussian, self.mu, count),
            Definition.ZCDP: (Guarantee.zcdp, self.rho, count * count),
        }
        make, number, factor = finer.get(self.definition, (Guarantee.approximate, None, 1))
        if number is not None and self.delta and make(number, self.delta, **facts).epsilon == self.epsilon:
            return make(factor * number, self.delta, **facts)
        epsilon, delta = self.epsilon, self.delta or 0.0
        if epsilon is None:
            raise SpecError(
                "a guarantee without epsilon cannot be stretched", path="epsilon", fix="state epsilon and delta"
            )
        if not delta:
            return Guarantee.pure(count * epsilon, **facts)
        return Guarantee.approximate(count * epsilon, _stretched(delta, epsilon, count), **facts)

    @property
    def neighbours_in_words(self) -> str:
        return NEIGHBOURS_IN_WORDS[self.neighbours]

    def to_dict(self) -> dict[str, Any]:
        return {
            "definition": self.definition.value,
            "model": self.model.value,
            "unit": self.unit,
            "neighbours": self.neighbours.value,
            "neighbours_in_words": self.neighbours_in_words,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rho": self.rho,
            "mu": self.mu,
            "established": self.established,
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> Guarantee:
        """Read back what `to_dict` wrote; keys that are not known are refused.

        >>> g = Guarantee.zcdp(0.5, 1e-6, model="joint", unit="one person", neighbours="replace-row")
        >>> Guarantee.from_dict(g.to_dict()) == g
        True
        """
        facts = {name: value for name, value in table.items() if name != "neighbours_in_words"}
        if set(facts) != set(cls.__dataclass_fields__):
            raise SpecError(
                "this is not a guarantee",
                path="guarantee",
                given=sorted(table),
                allowed=", ".join(cls.__dataclass_fields__),
            )
        return cls(**facts)

    def __str__(self) -> str:
        numbers = [
            f"{name} = {value:.6g}"
            for name, value in [("eps", self.epsilon), ("delta", self.delta), ("rho", self.rho), ("mu", self.mu)]
            if value is not None and not (name == "delta" and value == 0)
        ]
        claim = f"{self.definition.value} {self.model.value} privacy ({', '.join(numbers)}) for {self.unit}"
        return claim if self.established else f"NOT ESTABLISHED: {claim}"
