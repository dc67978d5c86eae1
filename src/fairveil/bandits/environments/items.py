"""Items of one's own table, shown side by side: exposure in proportion to merit, recorded outcomes as rewards."""

from __future__ import annotations

import copy
from dataclasses import KW_ONLY
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.bandits.environments.base import check_length
from fairveil.bandits.environments.exposure import ExposureEnvironment
from fairveil.bandits.facts import Assumed, Fact
from fairveil.bandits.protocol import Candidate, Round
from fairveil.configuration import configuration
from fairveil.data.frames import Frame
from fairveil.data.public_columns import (
    DRAFTED,
    OFTEN,
    PublicColumns,
    check_outcome_range,
    encode_rows,
    facts_of,
    fitted_weights,
    people_frame,
)
from fairveil.data.tables import TableField
from fairveil.errors import SpecError
from fairveil.fields import Count, described
from fairveil.randomness import Generator, generator
from fairveil.registry import register

EXAMPLE = {"price": [1, 2, 3, 4, 5, 6, 7, 8] * 4, "kind": ["a", "b"] * 16, "sold": [0, 1, 0, 0, 1, 1, 0, 1] * 4}


@register("environment", "items")
@configuration
class Items(ExposureEnvironment):
    """Items from a table of one's own: each decision shows ``actions`` of them and pays the recorded outcome of one.

    ``columns`` declares what is public, as in the environment `people`; rows are encoded by it into the unit ball.
    ``order = "drawn"`` draws the items of a decision without replacement, ``"file"`` shows rows once, as they stand.
    Outcomes are moved from [low, high] to [0, 1]. True merit is what least squares expect from the columns, fitted on
    the table: regret is measured with it, on the rows themselves, and is not protected.

    Policies are played step by step: a few thousand decisions a second.

    >>> Items.example().dimension
    4
    """

    recorded = True

    _: KW_ONLY
    file: TableField = described("CSV or parquet file, DataFrame, or a table of columns", example=EXAMPLE)
    outcome: str = described("column of outcomes, numbers in [low, high]", example="sold")
    columns: PublicColumns = described(
        "public range or values of each column that is used",
        example={"price": {"low": 0, "high": 10}, "kind": {"values": ["a", "b"]}},
    )
    low: float = described("smallest possible outcome, public", default=0.0)
    high: float = described("largest possible outcome, public", default=1.0)
    better: Literal["high", "low"] = described("which outcomes are good", default="high")
    actions: Count = described("number of items shown at a time", default=5, example=4)
    agents: Count = described("number of agents that learn together", default=1)
    merit: Any = described("how the value of an item becomes its merit", default=("exp", 10.0))
    order: Literal["drawn", "file"] = described("items drawn for every decision, or as they stand", default="drawn")
    declared: Literal["public", "drafted"] = described(
        "whether ranges and names are public knowledge, or a draft read off the table", default="public"
    )

    _seed: ClassVar[int] = 0

    def __post_init__(self) -> None:
        self.settle_merit()
        check_outcome_range(self.low, self.high)
        if not self.columns or self.outcome in self.columns:
            raise SpecError(
                "items are told apart by columns that are known before the decision",
                path="columns",
                given=list(self.columns),
                allowed="at least one column, without the outcome",
                fix="declare a range or a list of values for each",
            )
        if self.actions > len(self.rewards):
            raise SpecError(
                "the table has fewer items than are shown at a time",
                path="actions",
                given=self.actions,
                allowed=f"at most {len(self.rewards)}",
                fix="lower actions",
            )

    @cached_property
    def _frame(self) -> Frame:
        return people_frame(self.columns, self.file)

    @cached_property
    def rewards(self) -> Floats:
        """The recorded outcome of every row, in [0, 1]."""
        self._frame.raw(self.outcome, "outcome")
        inside = np.clip(self._frame.outcomes(self.outcome), self.low, self.high)
        unit: Floats = (inside - self.low) / (self.high - self.low)
        return 1.0 - unit if self.better == "low" else unit

    @cached_property
    def contexts(self) -> Floats:
        """Encoded rows, divided by the largest norm they can have."""
        return encode_rows(self.columns, self._frame) / facts_of(self.columns).norm

    @cached_property
    def theta(self) -> Floats:
        return fitted_weights(self.contexts, self.rewards)

    @property
    def dimension(self) -> int:
        return len(facts_of(self.columns).names)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return facts_of(self.columns).names

    @property
    def caveats(self) -> tuple[str, ...]:
        often = (OFTEN,) if self.order == "drawn" else ()
        return (*((DRAFTED,) if self.drafted else ()), *often)

    def facts(self, rounds: int) -> dict[str, Fact]:
        """Rewards in [0, 1] have at most this standard deviation, and weights on scaled columns about this length."""
        assumed = {"reward_std": Assumed(0.5), "parameter_bound": Assumed(facts_of(self.columns).norm)}
        return {**super().facts(rounds), **assumed}

    def longest_context(self) -> float:
        return 1.0

    def fits(self, rounds: int) -> None:
        if self.order == "file":
            check_length(self._frame.source, rounds, len(self.rewards) // self.actions // self.agents, "drawn")

    def prepare(self, rng: Generator) -> Items:
        """The same table with a seed of its own: which items a decision shows follows from it and its number."""
        made = copy.copy(self)
        object.__setattr__(made, "_seed", int(rng.integers(2**31)))
        return made

    def rows(self, index: int) -> Ints:
        """The rows of the items that decision ``index`` shows."""
        if self.order == "file":
            return np.arange(index * self.actions, (index + 1) * self.actions)
        drawn = generator(self._seed, "items", index)
        return drawn.choice(len(self.rewards), self.actions, replace=False).astype(np.int64)

    def show(self, index: int, rng: Generator) -> Round:
        shown = tuple(Candidate(0, row) for row in self.contexts[self.rows(index)])
        return Round(index, shown, self.turn(index)[1])

    def reward(self, round: Round, arm: int, rng: Generator) -> float:
        return float(self.rewards[self.rows(round.index)[arm]])
