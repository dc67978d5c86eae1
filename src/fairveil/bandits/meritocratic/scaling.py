"""How candidates and rewards are put on a public scale before a private sum sees them.

A scaling is public configuration: which columns are used, a centre and a spread for each, a norm bound, and the range
of the reward. It may come from documentation, from published tables or from an earlier private release, never from the
people it is applied to. The regret of a run is always measured on the environment's own scores.

What is public about the columns of a meritocratic world and its reward.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, Strict

from fairveil.arrays import Bools, Floats, Ints
from fairveil.bandits.facts import Fact
from fairveil.configuration import configuration
from fairveil.data.public_columns import ColumnFacts
from fairveil.errors import SpecError, at
from fairveil.fields import Natural, Positive, Vector, described


@dataclass(frozen=True)
class Schema:
    """Public facts about the encoded columns and the reward.

    ``centre`` and ``spread`` are declared typical values, not estimates from the candidates;
    ``informative`` is False for columns that cannot change a rank within a group (constant in every group, or the
    redundant level of a category). ``caveats`` names the facts that somebody settled after looking at the records: a
    field of `Scaling` and words for whoever reads the guarantee.
    """

    names: tuple[str, ...]
    low: Floats
    high: Floats
    centre: Floats
    spread: Floats
    informative: Bools
    reward_centre: float
    reward_spread: float
    norm: float | None = None
    caveats: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, facts: ColumnFacts, groups: Sequence[str], **more: Any) -> Schema:
        """What declared columns say; those whose owner is in ``groups`` are constant within a group."""
        constant = np.array([owner in groups for owner in facts.owner])
        numbers = {name: getattr(facts, name) for name in ("names", "low", "high", "centre", "spread", "norm")}
        return cls(informative=~(facts.redundant | constant), **numbers, **more)

    @property
    def bound(self) -> float:
        """l2 bound of [x, y]: of x by ``norm`` or its column ranges, of y by four spreads around its centre."""
        widest = np.maximum(np.abs(self.low), np.abs(self.high))
        square = (widest**2).sum() if self.norm is None else self.norm**2
        return float(np.sqrt(square + (abs(self.reward_centre) + 4 * self.reward_spread) ** 2))


Number = Annotated[float, Field(allow_inf_nan=False)]
FACTS = ("columns", "centre", "spread", "norm", "reward_centre", "reward_bound")
REACH = 1e6
"""No scaled column is further from its centre than this many spreads: a public range that only absurd values leave."""


@configuration
class Scaling:
    """z = (x - centre) / spread on the kept columns, clipped to l2 norm ``norm``; reward clipped to a public interval.

    ``kind``: ``declared`` takes the schema's declared centres and spreads (public preconditioning), ``bounds`` uses
    public ranges alone (midpoint, and the spread of a uniform law), ``raw`` leaves columns as they are encoded. With
    ``columns``, ``centre`` and ``spread`` written out the kind is only a name. Whatever is left out is filled from the
    environment's schema when a spec is completed; in the step interface everything must be given. ``caveats`` says in
    words which of these numbers were settled after looking at records: they stand in the guarantee's notes.

    >>> chosen = Scaling(columns=(0,), centre=(1.0,), spread=(2.0,), reward_centre=0.0, reward_bound=1.0, norm=1.0)
    >>> chosen.apply(np.array([[5.0]])).tolist()
    [[2.0]]
    """

    kind: Literal["declared", "bounds", "raw"] = described(
        "declared scale, public ranges, or columns as they are", default="declared"
    )
    columns: Annotated[tuple[Natural, ...], Strict(False)] | None = described("columns that are used", default=None)
    centre: Vector | None = described("centre of each used column", default=None)
    spread: Vector | None = described("spread of each used column", default=None)
    norm: Positive | None = described("largest norm of scaled columns", default=None)
    reward_centre: Number | None = described("centre of the reward", default=None)
    reward_bound: Positive | None = described("largest distance of a reward from its centre", default=None)
    caveats: Annotated[tuple[str, ...], Strict(False)] = described(
        "which numbers were settled after looking at records", default=()
    )

    def __post_init__(self) -> None:
        width = None if self.columns is None else len(self.columns)
        for name in ("centre", "spread"):
            given = getattr(self, name)
            if given is not None and (width is None or len(given) != width):
                raise SpecError(
                    f"{name} needs one number per kept column",
                    path=name,
                    given=len(given),
                    allowed=f"{width} numbers" if width is not None else "columns beside it",
                )
        if self.spread is not None and not all(math.isfinite(value) and value > 0 for value in self.spread):
            raise SpecError("a spread is positive", path="spread", allowed="above 0")
        if self.centre is not None and not all(math.isfinite(value) for value in self.centre):
            raise SpecError("a centre is finite", path="centre", allowed="finite numbers")

    def resolved(self, schema: Schema) -> Scaling:
        """The same scaling with everything that was left out taken from public facts."""
        if self.columns is not None and (not self.columns or max(self.columns) >= len(schema.names)):
            raise SpecError(
                "the kept columns do not exist",
                path="policy.scaling.columns",
                given=list(self.columns),
                allowed=f"indices below {len(schema.names)}",
            )
        if self.columns is None:
            kept = np.arange(len(schema.names)) if self.kind == "raw" else np.flatnonzero(schema.informative)
            columns = tuple(int(column) for column in kept)
        else:
            columns = self.columns
        where = np.array(columns)
        if self.kind == "declared":
            centre, spread = schema.centre[where], schema.spread[where]
        elif self.kind == "bounds":
            centre = (schema.low[where] + schema.high[where]) / 2
            spread = np.maximum(schema.high[where] - schema.low[where], 1e-9) / math.sqrt(12)
        else:
            centre, spread = np.zeros(len(where)), np.ones(len(where))
        return replace(
            self,
            columns=columns,
            centre=self.centre if self.centre is not None else tuple(centre.tolist()),
            spread=self.spread if self.spread is not None else tuple(spread.tolist()),
            norm=self.norm if self.norm is not None else self._default_norm(schema, where),
            reward_centre=self.reward_centre if self.reward_centre is not None else schema.reward_centre,
            reward_bound=self.reward_bound if self.reward_bound is not None else 2 * schema.reward_spread,
            caveats=(*self.caveats, *(words for name, words in schema.caveats if self._takes(name))),
        )

    def _takes(self, name: str) -> bool:
        """This number is left to the schema's declaration."""
        declared = name not in ("centre", "spread") or self.kind == "declared"
        return declared and getattr(self, name) is None

    def _default_norm(self, schema: Schema, kept: Ints) -> float:
        """Root of the expected squared norm if centres and spreads were right; the largest norm for raw columns."""
        if self.kind == "raw":
            widest = np.maximum(np.abs(schema.low[kept]), np.abs(schema.high[kept]))
            return float(np.sqrt((widest**2).sum()))
        return math.sqrt(len(kept))

    @property
    def complete(self) -> bool:
        """Nothing is left to be filled from a schema."""
        return all(getattr(self, name) is not None for name in FACTS)

    def ready(self) -> Ready:
        """Arrays for the inner loops; an incomplete scaling is refused by name."""
        for name in FACTS:
            if getattr(self, name) is None:
                raise SpecError(
                    "the scaling is not complete: its bounds are public inputs",
                    path=f"scaling.{name}",
                    fix="give it, or run through a spec whose environment has a public schema",
                )
        assert self.norm is not None
        assert self.reward_centre is not None
        assert self.reward_bound is not None
        return Ready(
            np.array(self.columns, np.int64),
            np.array(self.centre),
            np.array(self.spread),
            self.norm,
            self.reward_centre,
            self.reward_bound,
        )

    def apply(self, features: Floats) -> Floats:
        """Scaled columns of a block of candidates, not clipped to the norm."""
        return self.ready().apply(features)


class Ready:
    """A complete scaling as arrays."""

    def __init__(self, columns: Ints, centre: Floats, spread: Floats, norm: float, middle: float, bound: float) -> None:
        self.columns, self.centre, self.spread = columns, centre, spread
        self.norm, self.reward_centre, self.reward_bound, self.width = norm, middle, bound, len(columns)

    def apply(self, features: Floats) -> Floats:
        """Scaled columns within `REACH`: every finite candidate stays finite in what follows."""
        with np.errstate(over="ignore"):  # an overflow is infinite, and clipped
            scaled = (features[..., self.columns] - self.centre) / self.spread
        return np.clip(scaled, -REACH, REACH)

    def clip_reward(self, reward: Floats) -> Floats:
        """Centred reward inside [-reward_bound, reward_bound]."""
        return np.clip(np.asarray(reward) - self.reward_centre, -self.reward_bound, self.reward_bound)

    def pull_back(self, direction: Floats, width: int) -> tuple[Floats, float]:
        """Weights and offset on raw features such that <w, x> - offset = <direction, z>."""
        weights = np.zeros(width)
        weights[self.columns] = direction / self.spread
        return weights, float(direction @ (self.centre / self.spread))


def _from_table(given: Any) -> Any:
    """A spec writes a scaling as a table."""
    if not isinstance(given, Mapping):
        return given
    try:
        return Scaling(**given)
    except SpecError as problem:
        raise at(problem, "scaling") from None


ScalingTable = Annotated[Scaling, BeforeValidator(_from_table)]
"""A field that takes a `Scaling` or its table."""


@dataclass(frozen=True)
class FromSchema(Fact):
    """A policy's scaling with everything that was left out taken from a world's public schema."""

    schema: Schema

    def settle(self, given: Any, path: str) -> Any:
        scaling = Scaling() if given is None else _from_table(given)
        return scaling.resolved(self.schema) if isinstance(scaling, Scaling) else given
