"""Several columns under one budget: one releaser a column, one account, one guarantee.

mu^2 = sum of mu_c^2 (epsilon = sum of epsilon_c with Laplace noise); columns share evenly unless told otherwise. Where
a person can count in at most j columns a step (``columns_per_person``), their joint l2 sensitivity is
D sqrt(min(2 j, c)) under replace and D sqrt(min(j, c)) under add-remove, and nothing has to be split further. This
counts changed values, so it holds where a column's loss is a sum over the steps that a person changes, and fails where
a column pays for a whole stretch however few of its steps are touched: a person who is in one column now and in another
later would meet the full budget of both. A common offset (add-remove) is of that kind: it is either left out or split
among the columns, whichever has less noise. Sampled, publishing and transforming releasers are refused. Columns may
begin at different steps and have gaps, and a person may follow the first, finest releases from column to column: so all
releases cost the same (no falling schedule, no first share, no weights), and the horizon counts the steps of the clock
at which any column was released, not each column's own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairveil import registry
from fairveil.arrays import Floats, Ints
from fairveil.configuration import describe
from fairveil.errors import SpecError
from fairveil.privacy.charges import Currency, charge
from fairveil.privacy.events import Event, GaussianEvent, PureEvent, ZcdpEvent
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import Noise
from fairveil.privacy.stability import CELL, PERSON, AtMost, AtMostGroups, Chain, Clip
from fairveil.streams.protocol import MISSING, Releaser, State, Track
from fairveil.streams.releasers.common_fields import used_up
from fairveil.streams.releasers.plain_release import PlainReleaser


class Columns:
    """One releaser a column behind one event and one guarantee; also of a single column.

    >>> joint = Columns.build({"name": "baseline-gaussian", "epsilon": 1.0, "delta": 1e-6, "horizon": 9}, ["a", "b"])
    >>> alone = Columns.build({"name": "baseline-gaussian", "epsilon": 1.0, "delta": 1e-6, "horizon": 9}, ["a"])
    >>> round(joint.releasers[0].quote().noise_std / alone.releasers[0].quote().noise_std, 3)
    1.414
    """

    def __init__(
        self, names: Sequence[str], releasers: Sequence[Releaser], whole: Releaser | None = None, joint: bool = False
    ) -> None:
        self.names, self.releasers, self.joint = tuple(names), tuple(releasers), joint
        self.whole = self.releasers[0] if whole is None else whole
        if not all(one.guarantee().established for one in self.releasers):
            raise SpecError("a printed variant is not established", path="releaser.variant", fix="use the sound one")

    @classmethod
    def build(
        cls,
        table: Mapping[str, Any],
        names: Sequence[str],
        *,
        shares: Sequence[float] | None = None,
        columns_per_person: int | None = None,
    ) -> Columns:
        """Divide the budget of ``table`` among the columns."""
        whole: Releaser = registry.build("releaser", table, "releaser")
        if len(set(names)) != len(names) or not names:
            raise SpecError("columns have names of their own", path="columns", given=list(names))
        if len(names) == 1:
            return cls(names, [whole])
        weights = _weights(names, shares, columns_per_person, whole.neighbours)
        if columns_per_person is None:
            return cls._divided(names, whole, weights)
        whole = _evenly(whole, table)
        if whole.adds_steps:
            return cls._divided(names, whole, weights, joint=True)
        if not isinstance(whole, PlainReleaser) or not whole.plan.offset > 0:
            raise SpecError(
                "columns per person are counted step by step", path="columns_per_person", given=columns_per_person,
                allowed="releasers with noise at every step", fix="leave it out: the columns share the budget",
            )  # fmt: skip
        plain = registry.build("releaser", {**describe(whole), "starts": None}, "releaser")
        split = cls._divided(names, whole, [1 / len(names)] * len(names))
        found = [cls._divided(names, plain, weights, joint=True), split]
        return min(found, key=lambda one: one.releasers[0].quote().noise_std)

    @classmethod
    def _divided(cls, names: Sequence[str], whole: Releaser, weights: Sequence[float], joint: bool = False) -> Columns:
        made = [registry.build("releaser", _part(whole, weight), "releaser") for weight in weights]
        return cls(names, made, whole, joint)

    @property
    def behind(self) -> int:
        return self.whole.behind

    @property
    def horizon(self) -> int | None:
        return self.whole.horizon

    @property
    def has_starts(self) -> bool:
        return any(isinstance(one, PlainReleaser) and one.has_starts for one in self.releasers)

    def event(self) -> Event:
        """What all columns together cost one unit."""
        event = self.whole.event()
        if len(self.releasers) == 1 or not isinstance(event, GaussianEvent):
            return event
        parts = [one.event() for one in self.releasers]
        draws = sum(part.draws for part in parts if isinstance(part, GaussianEvent))
        finest = min(part.grid_sigma for part in parts if isinstance(part, GaussianEvent))
        return GaussianEvent(event.mu, draws=draws, grid_sigma=finest)

    def guarantee(self) -> Guarantee:
        promise = self.whole.guarantee()
        if len(self.names) == 1:
            return promise
        note = f"one budget for {len(self.names)} columns: {', '.join(self.names)}"
        return replace(promise, notes=(note, *promise.notes))

    def describe(self) -> dict[str, Any]:
        return {"columns": list(self.names), "releasers": [describe(one) for one in self.releasers]}

    def start(self) -> list[State]:
        states = [one.start() for one in self.releasers]
        if self.joint:
            states[0]["joint"] = np.zeros(1, np.int64)  # steps at which any column was released
        return states

    def check(self, states: list[State], values: Floats) -> None:
        if self.joint and self.horizon is not None:
            used = int(states[0]["joint"][0])
            if used + int((~np.isnan(values)).any(axis=1).sum()) > self.horizon:
                words = f"{self.horizon} steps with a value in any column, {used} were released"
                raise used_up(self.horizon, words)
        for place, one in enumerate(self.releasers):
            one.check(states[place], values[:, place])

    def advance(self, states: list[State], values: Floats, noise: Noise) -> list[Track]:
        """Release steps (rows) of all columns, in place."""
        if self.joint:
            states[0]["joint"] += np.count_nonzero((~np.isnan(values)).any(axis=1))
        return [one.advance(states[place], values[:, place], noise) for place, one in enumerate(self.releasers)]

    def replay(self, states: list[State], units: Ints, status: Ints) -> list[Track]:
        """Show stored steps again; ``units`` and ``status`` have one row a column."""
        if self.joint:
            states[0]["joint"] += np.count_nonzero((status != MISSING).any(axis=0))
        return [one.replay(states[place], units[place], status[place]) for place, one in enumerate(self.releasers)]

    def begin(self, states: list[State]) -> None:
        """Count a start of the process, in place."""
        for place, one in enumerate(self.releasers):
            if isinstance(one, PlainReleaser) and one.has_starts:
                one.begin(states[place])


def _evenly(whole: Releaser, table: Mapping[str, Any]) -> Releaser:
    """The releaser with the same noise at every release; where that was asked otherwise, it is refused."""
    if isinstance(whole, PlainReleaser) and whole.shares.first > 0 and "first" not in table:
        whole = registry.build("releaser", {**describe(whole), "first": 0.0}, "releaser")
    if isinstance(whole, PlainReleaser):
        shares = whole.shares
        if shares.first > 0 or shares.kind in ("geometric", "power") or any(share != 1 for share in shares.weights):
            raise SpecError(
                "columns per person need the same noise at every release: a person could follow the finest ones",
                path="columns_per_person", allowed="an even schedule, first = 0, weight = 1",
                fix="leave it out: the columns share the budget",
            )  # fmt: skip
    return whole


def _weights(
    names: Sequence[str], shares: Sequence[float] | None, columns_per_person: int | None, neighbours: str
) -> list[float]:
    """Share of mu^2 (or epsilon) of every column; they may add up to more than 1 where nobody is in all columns."""
    count = len(names)
    if columns_per_person is not None:
        if shares is not None or not 1 <= columns_per_person <= count:
            raise SpecError(
                "columns per person are counted, and need no shares",
                path="columns_per_person",
                given=columns_per_person,
                allowed=f"1 to {count}, without shares",
            )
        parts = (AtMost(1, CELL), AtMostGroups(columns_per_person, "column"), Clip(0.0, 1.0))
        one_step = Chain(PERSON, *parts, replaced=neighbours == "replace", steps=1, columns=count)
        return [1 / one_step.sensitivity.squares] * count
    if shares is None:
        return [1 / count] * count
    if len(shares) != count or not all(share > 0 for share in shares):
        raise SpecError("every column has a share", path="shares", given=list(shares), allowed=f"{count} numbers > 0")
    return [share / math.fsum(shares) for share in shares]


def _part(whole: Releaser, share: float) -> dict[str, Any]:
    """The table of one column: the same keys with its part of the budget."""
    table, event = describe(whole), whole.event()
    table |= {"epsilon": None, "delta": None, "mu": None, "rho": None}
    if isinstance(event, GaussianEvent):
        return table | {"mu": event.mu * math.sqrt(share)}
    if isinstance(event, ZcdpEvent):
        return table | {"rho": event.rho * share}
    if isinstance(event, PureEvent):
        return table | {"epsilon": event.epsilon * share}
    raise SpecError(
        "Binomial noise is counted for one column only", path="law", given="binomial", fix="use discrete-gaussian"
    )


def exact_limit(releaser: Releaser | Columns) -> Limit:
    """A ledger's limit for this stream and nothing else, in the currency of its noise.

    >>> from fairveil.streams.releasers.baseline_laplace import BaselineLaplace
    >>> exact_limit(BaselineLaplace(epsilon=0.5, horizon=10)).units
    500000
    """
    event, promise = releaser.event(), releaser.guarantee()
    currency = Currency.EPSILON
    if isinstance(event, GaussianEvent):
        currency = Currency.GAUSSIAN
    elif isinstance(event, ZcdpEvent):
        currency = Currency.ZCDP
    needed = charge(event, currency, promise.epsilon)
    return Limit(currency, needed.units, needed.delta_units, promise.epsilon, promise.delta)
