"""A private fairness report: one joint noisy vector, and everything that can be said from it for free.

Unit and neighbours. One place (one decision): its row is replaced by another. Public: the number of places, the
declared groups, the level, and, with ``group_privacy="public"``, who was shown (the groups of the candidates, or the
group and arm of each person). A person who stands in k places has k units.

With ``blanks`` a place may count for nobody (its person is over a limit, or keeps an arm): such a row is in no noisy
sum and in all public numbers, and no public total corrects a noisy one, so which places are blank is not seen.

Sensitivity: `fairveil.reports.layout`. Noise: one draw for the whole vector, by the currency of the budget
(`fairveil.privacy.vectors`). Nothing else of the rows is read: whether a group can be estimated is decided on noisy
numbers, and every declared group is listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Strict

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.errors import InputError, SpecError
from fairveil.fields import Count, Delta, Epsilon, OpenUnit, Positive, described
from fairveil.ledger import Ledger
from fairveil.ledger.account import OneEvent, adopted, release_once
from fairveil.privacy.encodings import ONE_ROW, computed, noisy_vector
from fairveil.privacy.events import Event
from fairveil.privacy.grid import clip_unit, to_units
from fairveil.privacy.guarantee import CHOSEN, Guarantee
from fairveil.privacy.noise import Noise
from fairveil.privacy.vectors import ONE, NoisyVector, Price
from fairveil.registry import register
from fairveil.reports.layout import Part, VectorLayout
from fairveil.reports.rows import Declared, PlaceRows

Family = Literal["meritocratic", "nash", "exposure"]
Names = Annotated[tuple[str, ...], Strict(False)]
GroupNames = Names | dict[str, list[str]]
BLANK = (
    "a place whose person is over a limit or keeps an arm counts for nobody; which places these are is not published"
)


@dataclass(frozen=True)
class PublicCounts:
    """Public numbers of the places that a report covers; they add up over pages of rows."""

    places: int = 0
    shown: Ints | None = None
    rounds: Ints | None = None
    margins: Ints | None = None
    cells: Ints | None = None
    arms: Ints | None = None
    answered: Ints | None = None

    def __add__(self, other: PublicCounts) -> PublicCounts:
        def added(name: str) -> Any:
            mine, yours = getattr(self, name), getattr(other, name)
            return yours if mine is None else mine if yours is None else mine + yours

        return PublicCounts(**{field.name: added(field.name) for field in fields(self)})

    def to_dict(self) -> dict[str, Any]:
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: np.asarray(value).tolist() for name, value in held.items() if value is not None}

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> PublicCounts:
        held: dict[str, Any] = {key: np.asarray(table[key], np.int64) for key in table}
        return cls(**held | {"places": int(table["places"])})


@register("report", "fairness")
@configuration
class FairnessReport:
    """Rates, means, gap and impact ratio by group from one noisy vector.

    Guarantee: epsilon-DP, (epsilon, delta)-DP, rho-zCDP or mu-GDP for two tables of the same number of places that
    differ in one of them. Cost: one draw a sum; O(rows) to add them up.

    >>> from fairveil.privacy.noise import SeededNoise
    >>> from fairveil.reports import FairnessReport, rounds
    >>> report = FairnessReport(("north", "south"), rho=0.02)
    >>> rows = rounds([["north", "south"]] * 1000, [0, 1] * 500, [1.0] * 1000, report.names)
    >>> found = report.release(rows, SeededNoise(1))
    >>> found["groups"][0]["status"], found["gap"]["high"] < 0.2
    ('estimated', True)
    """

    groups: GroupNames = described("declared groups: names, or attributes with their values", example=("a", "b"))
    epsilon: Epsilon | None = described("budget of the whole release, Laplace noise", default=None, example=1.0)
    delta: Delta | None = described("chance that epsilon is exceeded: Gaussian noise", default=None)
    rho: Positive | None = described("budget in zCDP, instead of epsilon", default=None)
    mu: Positive | None = described("budget in Gaussian DP, instead of epsilon", default=None)
    level: OpenUnit = described("coverage of the intervals", default=0.95)
    family: Family = described("screening (meritocratic), trial (nash) or exposure", default="meritocratic")
    actions: Names = described("names of the arms of a trial", default=())
    rewards: bool = described("report mean outcomes too", default=True)
    missing: Literal["default", "public", "private"] = described(
        "a missing reward has its default, or is left out and counted", default="default"
    )
    group_privacy: Literal["public", "private"] = described("whether it is public who was shown", default="public")
    low: float = described("smallest possible reward", default=0.0)
    high: float = described("largest possible reward", default=1.0)
    blanks: bool = described("a place may count for nobody (group -1), and nobody sees which", default=False)
    most_shown: Count | None = described("candidates of a place at most, where who was shown is private", default=None)

    def __post_init__(self) -> None:
        _ = self.price, self.declared
        shown = self.family != "meritocratic" or not self.private_groups
        if self.blanks and not shown:
            raise SpecError(
                "a round that counts for nobody has public candidates", path="blanks", given=self.group_privacy,
                allowed="family nash or exposure, or meritocratic with public groups",
                fix="declare the groups of candidates public, or do not limit persons",
            )  # fmt: skip
        if not shown and self.most_shown is None:
            raise SpecError(
                "who was shown is private, and nothing bounds how many they are", path="most_shown",
                allowed="a public number of candidates that no place exceeds",
                fix="declare it; each of them costs noise, since all of them may be others",
            )  # fmt: skip
        if (self.family == "nash") != bool(self.actions):
            raise SpecError(
                "a trial names its arms", path="actions", given=len(self.actions), allowed="names with family nash"
            )

    @cached_property
    def declared(self) -> Declared:
        return Declared.of(self.groups)

    @property
    def names(self) -> tuple[str, ...]:
        return self.declared.names

    @property
    def price(self) -> Price:
        return Price(self.epsilon, self.delta, self.rho, self.mu)

    @property
    def private_groups(self) -> bool:
        return self.group_privacy == "private" or (self.blanks and self.family == "nash")

    @cached_property
    def layout(self) -> VectorLayout:
        """Which sums are released. Where groups and arms of a trial are public, counts are too."""
        groups = len(self.declared)
        if self.family == "exposure":
            return VectorLayout(("played", "deserved"), groups)
        parts: list[Part] = []
        cells, moves = groups, True
        if self.family == "nash":
            cells, moves = groups * len(self.actions), self.private_groups
        if self.family == "meritocratic" or self.private_groups:
            parts.append("chosen")
        if self.rewards or self.family == "nash":
            noisy = self.missing == "private" or (self.missing == "public" and moves)
            parts += ["answered", "reward"] if noisy else ["reward"]
        if self.family == "meritocratic" and self.private_groups:
            parts += ["shown", "rounds"]
        return VectorLayout(tuple(parts), cells, moves, self.most_shown or 1)

    @cached_property
    def vector(self) -> NoisyVector:
        return noisy_vector(self.price, ONE_ROW, self.layout.encoding)

    def event(self) -> Event:
        return self.vector.event()

    def guarantee(self) -> Guarantee:
        who = "the groups of everybody who was shown, "
        hidden = self.private_groups or self.family == "exposure"
        public = "the number of places, the declared groups, the arms, " + ("" if hidden else who)
        return self.price.guarantee(
            model="global",
            unit="one place: one decision that is reported",
            neighbours="replace-row",
            notes=(
                f"public: {public}the range of rewards and the level",
                "published: one noisy vector; every figure and whether a group can be estimated follow from it",
                "a person who stands in several places has that many units",
                computed(ONE_ROW, self.layout.encoding),
                CHOSEN,
                *((BLANK,) if self.blanks else ()),
            ),
        )

    def units(self, rows: PlaceRows) -> Ints:
        """The sums in grid units, exact: integers that add up over pages of rows."""
        if rows.group is None and (self.blanks or self.family != "exposure"):
            raise InputError("a report needs groups", path="rows.group", allowed="one group a place")
        if self.blanks:
            rows = rows.counted()
        if self.family == "exposure":
            return np.concatenate([_simplex(rows.played), _simplex(rows.deserved)])
        cell, cells = self._cells(rows), self.layout.cells
        answered, centred = self._centred(rows)
        held = {
            "chosen": lambda: np.bincount(cell, minlength=cells) * ONE,
            "answered": lambda: np.bincount(cell[answered], minlength=cells) * ONE,
            "reward": lambda: np.bincount(cell, weights=centred, minlength=cells),
            "shown": lambda: self._few(rows).sum(axis=0) * ONE,
            "rounds": lambda: (self._few(rows) > 0).sum(axis=0) * ONE,
        }
        return np.concatenate([np.asarray(held[part](), np.int64) for part in self.layout.parts])

    def _cells(self, rows: PlaceRows) -> Ints:
        group = np.asarray(rows.group, np.int64)
        if self.family != "nash":
            return group
        if rows.arm is None:
            raise InputError("a trial's rows name their arms", path="rows.arm", allowed="one arm a place")
        return np.asarray(rows.arm, np.int64) * len(self.declared) + group

    def _centred(self, rows: PlaceRows) -> tuple[Any, Floats]:
        """Which places have an answer, and their rewards less 1/2, in units; 0 where there is none."""
        if rows.reward is None:
            return np.zeros(len(rows), bool), np.zeros(len(rows))
        answered = ~np.isnan(rows.reward)
        reward = clip_unit(np.where(answered, rows.reward, 0.5))
        return answered, np.where(answered, to_units(reward) - ONE // 2, 0).astype(np.float64)

    def _few(self, rows: PlaceRows) -> Ints:
        """Who was shown, no more in a place than the noise was made for."""
        shown = _shown(rows)
        if (shown < 0).any() or (shown.sum(axis=1) > (self.most_shown or 1)).any():
            raise InputError(
                "a place shows more candidates than declared", path="rows.shown", allowed=f"at most {self.most_shown}"
            )
        return shown

    def public(self, rows: PlaceRows) -> PublicCounts:
        """Public numbers of these rows: what `group_privacy` allows and nothing else."""
        count = len(rows)
        if self.family == "exposure":
            return PublicCounts(count)
        if self.family == "nash":
            arms = np.bincount(np.asarray(rows.arm, np.int64), minlength=len(self.actions))
            if self.private_groups:
                return PublicCounts(count, arms=None if self.blanks else arms)
            cell, cells = self._cells(rows), self.layout.cells
            known = None
            if self.missing == "public":
                known = np.bincount(cell[self._centred(rows)[0]], minlength=cells)
            return PublicCounts(count, cells=np.bincount(cell, minlength=cells), arms=arms, answered=known)
        if self.private_groups:
            return PublicCounts(count)
        shown = _shown(rows)
        margins = [(shown[:, list(cells)].sum(axis=1) > 0).sum() for _, cells in self.declared.margins]
        return PublicCounts(count, shown.sum(axis=0), (shown > 0).sum(axis=0), np.array(margins, np.int64))

    def draws(self, rows: PlaceRows, noise: Noise, count: int = 1) -> Floats:
        """The noisy sums of so many independent releases, one a row: the only step where noise meets data."""
        return self.vector.releases(self.units(rows), noise, count)

    def release(self, rows: PlaceRows, noise: Noise) -> dict[str, Any]:
        """One noisy vector of these rows, and what it says."""
        return self.read(self.draws(rows, noise)[0], self.public(rows))

    def release_under(self, ledger: Ledger, block: str, rows: PlaceRows, noise: Noise | None = None) -> dict[str, Any]:
        """The same through a ledger: charged first, drawn once under the id ``block``, stored; again it is free."""

        def draw(source: Noise) -> dict[str, Any]:
            return {"sums": self.draws(rows, source)[0], "public": self.public(rows).to_dict()}

        found = adopted(release_once(OneEvent(ledger, self.event()), block, draw, noise))
        return self.read(np.asarray(found["sums"], np.float64), PublicCounts.from_dict(found["public"]))

    def read(self, sums: Floats, public: PublicCounts) -> dict[str, Any]:
        """The document of a release: post-processing of its noisy sums and public numbers."""
        from fairveil.reports.document import written

        return written(self, np.asarray(sums, np.float64), public)


def _shown(rows: PlaceRows) -> Ints:
    if rows.shown is None:
        raise InputError("a screening report needs who was shown", path="rows.shown", allowed="counts by group")
    return np.asarray(rows.shown, np.int64)


def _simplex(given: Floats | None) -> Ints:
    """Points of the simplex in units, rounded toward zero, at most one in all: two of them are at most 2 apart."""
    if given is None:
        raise InputError("an exposure report needs both laws", path="rows.played", allowed="played and deserved")
    units = to_units(np.clip(np.asarray(given, np.float64), 0.0, 1.0))
    reached = np.minimum(np.cumsum(units, axis=1), ONE)
    return np.diff(reached, axis=1, prepend=0).sum(axis=0)
