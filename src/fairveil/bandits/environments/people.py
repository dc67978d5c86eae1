"""People of one's own table as candidates: public columns, groups and their intersections, recorded outcomes."""

from __future__ import annotations

import itertools
import math
from dataclasses import KW_ONLY
from functools import cached_property
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field, Strict

from fairveil.arrays import Floats, Ints
from fairveil.bandits.environments.base import Environment, check_length
from fairveil.bandits.meritocratic.scaling import Schema
from fairveil.bandits.meritocratic.world import Chunk, Pool, PoolEnvironment, Slots, round_of
from fairveil.bandits.protocol import Round
from fairveil.configuration import configuration
from fairveil.data.frames import Frame, as_text
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
from fairveil.errors import HorizonError, SpecError
from fairveil.fields import Count, Natural, NonNegative, described
from fairveil.randomness import Generator, generator
from fairveil.registry import register

Share = Annotated[float, Field(ge=0.0, lt=1.0, allow_inf_nan=False)]
EXAMPLE = {"skill": [1, 2, 3, 4, 5, 6, 7, 8] * 4, "site": ["n", "s"] * 16, "rating": [2, 1, 4, 3, 6, 5, 8, 7] * 4}
GROUPS_READ = "which of the declared groups have people was read off the table"


class Members(NamedTuple):
    """The people that are played, sorted by group; ``row`` is where each stands in the table."""

    pool: Pool
    outcome: Floats
    row: Ints
    theta: Floats
    groups: tuple[str, ...]


@register("environment", "people")
@configuration
class People(PoolEnvironment):
    """Candidates from a table of one's own; the reward of who is chosen is the recorded outcome.

    ``columns`` declares what is public: a range or a list of values for each column a policy may read and for each
    column in ``groups``. Groups are the values of those columns, or their intersections. ``order = "drawn"``: every
    round shows ``candidates`` of each group, drawn with replacement; ``"file"``: the next ``per_round`` people of the
    table, or those who share a value of the column ``round``, each once.

    Merit is the outcome that least squares expect from the columns, fitted on the table (on a share ``holdout`` of it
    that is not played where that is given); ranks and regret are measured with it, on people's rows: not protected.
    Outcomes outside [low, high] are clipped. Runtime and memory: as the policy, and the table.

    >>> People.example().group_names
    ('site=n', 'site=s')
    """

    recorded = True

    _: KW_ONLY
    file: TableField = described("CSV or parquet file, DataFrame, or a table of columns", example=EXAMPLE)
    outcome: str = described("column of outcomes, numbers in [low, high]", example="rating")
    groups_by: Annotated[tuple[str, ...], Strict(False)] = described(
        "columns whose values, or combinations of values, are the groups", example=("site",)
    )
    columns: PublicColumns = described(
        "public range or values of each column that is used",
        example={"skill": {"low": 0, "high": 10}, "site": {"values": ["n", "s"]}},
    )
    low: float = described("smallest possible outcome, public", default=0.0)
    high: float = described("largest possible outcome, public", default=1.0, example=10.0)
    better: Literal["high", "low"] = described("which outcomes are good", default="high")
    order: Literal["drawn", "file"] = described("people drawn with replacement, or as they stand", default="drawn")
    per_round: Slots | None = described("most people in a round, public; with order = file", default=None)
    round: str | None = described("column that says which people are in one round, with order = file", default=None)
    minimum: Count = described("groups with fewer people are left out", default=1)
    holdout: Share = described("share of the people on whom merit is fitted and who are not played", default=0.0)
    split_seed: Natural = described("seed of that split", default=0)
    declared: Literal["public", "drafted"] = described(
        "whether ranges and names are public knowledge, or a draft read off the table", default="public"
    )
    noise: NonNegative = described("standard deviation of noise added to recorded outcomes", default=0.0)

    def __post_init__(self) -> None:
        check_outcome_range(self.low, self.high)
        self._check_columns()
        if (self.order == "file") != (self.per_round is not None):
            raise SpecError(
                "rounds in the order of the file have a public size",
                path="per_round",
                given=self.per_round,
                allowed="a number with order = file, nothing with order = drawn",
                fix="declare the largest number of people in a round",
            )
        if self.order == "drawn" and self.round is not None:
            raise SpecError(
                "a column of rounds goes with the order of the file",
                path="round",
                given=self.round,
                fix='leave it out, or order = "file"',
            )
        self.check_joins()  # reads the table: what is wrong with it is said here

    def _check_columns(self) -> None:
        if not self.groups_by or len(set(self.groups_by)) < len(self.groups_by):
            raise SpecError(
                "groups need at least one column, each once",
                path="groups_by",
                given=list(self.groups_by),
                allowed=", ".join(self.columns),
            )
        for name in self.groups_by:
            if name not in self.columns or self.columns[name].values is None:
                raise SpecError(
                    "the groups of this column are not declared",
                    path=f"columns.{name}",
                    allowed="values = [...]",
                    fix="list the values of the column: groups are public",
                )
        if self.outcome in self.columns:
            raise SpecError(
                "the outcome is not known before the decision",
                path=f"columns.{self.outcome}",
                allowed="columns that are known when a person is shown",
                fix="leave it out: its range is low and high",
            )
        if set(self.columns) <= set(self.groups_by):
            raise SpecError(
                "people of one group cannot be told apart",
                path="columns",
                given=list(self.columns),
                allowed="at least one column beside the groups",
                fix="declare the columns that merit depends on",
            )

    # What the table holds ---------------------------------------------------------------------------------------------

    @cached_property
    def _frame(self) -> Frame:
        return people_frame(self.columns, self.file)

    @cached_property
    def _members(self) -> Members:
        frame = self._frame
        frame.raw(self.outcome, "outcome")
        outcome = np.clip(frame.outcomes(self.outcome), self.low, self.high)
        outcome = self.low + self.high - outcome if self.better == "low" else outcome
        features = encode_rows(self.columns, frame)
        labels, names = self._labels(frame)
        size = np.bincount(labels, minlength=len(names))
        kept = np.flatnonzero(size >= self.minimum)
        if len(kept) < 2:
            raise SpecError(
                "fewer than two groups have enough people",
                path="minimum",
                given=self.minimum,
                allowed="at least two groups",
                fix="lower it, or group by another column",
            )
        order = generator(self.split_seed, "people", "holdout").permutation(len(labels))
        held, played = np.split(order, [round(self.holdout * len(order))])
        theta = fitted_weights(features[held], outcome[held]) if len(held) else fitted_weights(features, outcome)
        rows = np.sort(played[np.isin(labels[played], kept)])
        group = np.searchsorted(kept, labels[rows])
        missing = [names[place] for place, count in zip(kept, np.bincount(group, minlength=len(kept))) if count == 0]
        if missing:
            raise SpecError(
                "the hold-out leaves nobody of a group",
                path="holdout",
                given=self.holdout,
                allowed="a smaller share",
                fix=f"raise minimum, or lower holdout, for the sake of {missing[0]}",
            )
        sorting = np.argsort(group, kind="stable")
        pool = Pool.of(features[rows], group, theta)
        return Members(pool, outcome[rows][sorting], rows[sorting], theta, tuple(names[place] for place in kept))

    def _labels(self, frame: Frame) -> tuple[Ints, list[str]]:
        """The group of each row among all declared combinations, and their names."""
        codes, values = zip(*(frame.codes(name, self.columns[name].values) for name in self.groups_by), strict=True)
        label: Ints = np.ravel_multi_index(codes, [len(known) for known in values]).astype(np.int64)
        names = [
            "/".join(f"{name}={as_text(value)}" for name, value in zip(self.groups_by, combination))
            for combination in itertools.product(*values)
        ]
        return label, names

    @property
    def pool(self) -> Pool:
        return self._members.pool

    @property
    def theta(self) -> Floats:
        return self._members.theta

    @property
    def group_names(self) -> tuple[str, ...]:
        return self._members.groups

    @property
    def caveats(self) -> tuple[str, ...]:
        declared = math.prod(len(self.columns[name].values or ()) for name in self.groups_by)
        read = (GROUPS_READ,) if len(self.group_names) < declared else ()
        often = (OFTEN,) if self.order == "drawn" else ()
        return (*((DRAFTED,) if self.drafted else ()), *read, *often)

    @property
    def schema(self) -> Schema:
        middle, spread = (self.low + self.high) / 2, (self.high - self.low) / 4
        return Schema.of(facts_of(self.columns), self.groups_by, reward_centre=middle, reward_spread=spread)

    # Rounds -----------------------------------------------------------------------------------------------------------

    @property
    def steady(self) -> bool:
        return self.order == "drawn" and super().steady

    def slots(self) -> Ints:
        """In the order of the file a place has no group of its own; for what is counted by group, all are of one."""
        return super().slots() if self.per_round is None else np.zeros(self.per_round, np.int64)

    def fits(self, rounds: int) -> None:
        if self.order == "file":
            check_length(self._frame.source, rounds, len(self._file_rounds), "drawn")

    @cached_property
    def _file_rounds(self) -> Ints:
        """Members of each round in the order of the file, -1 where a place is empty."""
        assert self.per_round is not None
        places = np.argsort(self._members.row, kind="stable")  # members as they stand in the file
        if self.round is None:
            empty = -len(places) % self.per_round
            return np.concatenate([places, np.full(empty, -1)]).reshape(-1, self.per_round)
        labels = self._frame.texts(self.round)[self._members.row[places]]
        rounds: dict[str, list[int]] = {}
        for label, place in zip(labels, places.tolist()):
            rounds.setdefault(label, []).append(place)
        crowded = np.zeros(len(self._frame), bool)
        for own in rounds.values():
            crowded[self._members.row[own[self.per_round :]]] = True
        self._frame.refuse(self.round, crowded, f"at most {self.per_round} people in a round (per_round)")
        made = np.full((len(rounds), self.per_round), -1)
        for place, own in enumerate(rounds.values()):
            made[place, : len(own)] = own
        return made

    def draw(self, first: int, count: int, rng: Generator) -> Chunk:
        member = self._file_rounds[first : first + count] if self.order == "file" else self._drawn(first, count, rng)
        filled, held = member >= 0, self._members
        pool, someone = held.pool, np.maximum(member, 0)
        score = np.where(filled, pool.score[someone], 0.0)
        extra = self.noise * rng.standard_normal(count) if self.noise > 0 else np.zeros(count)
        return Chunk(
            first,
            pool.features[someone] * filled[:, :, None],
            np.where(filled, np.searchsorted(pool.start, someone, side="right") - 1, -1),
            score,
            np.where(filled, pool.rank[someone], -np.inf),
            held.outcome[someone] + extra[:, None],
        )

    def _drawn(self, first: int, count: int, rng: Generator) -> Ints:
        slots, pool = self.slots(), self.pool
        member = pool.start[slots] + (rng.random((count, len(slots))) * pool.size[slots]).astype(np.int64)
        if self.steady:
            return member
        filled = rng.random(member.shape) < self.presence
        filled &= np.arange(first, first + count)[:, None] >= self._first_rounds()[slots]
        return np.where(filled, member, -1)

    def prepare(self, rng: Generator) -> Hall:
        return Hall(self)


class Hall(Environment):
    """One run, round by round: remembers the outcomes of who is shown until one of them is asked for."""

    family = "meritocratic"

    def __init__(self, people: People) -> None:
        self.people, self._shown, self._outcomes = people, -1, np.zeros(0)

    def show(self, index: int, rng: Generator) -> Round:
        chunk = self.people.draw(index, 1, rng)
        self._shown, self._outcomes = index, chunk.reward[0][chunk.group[0] >= 0]
        return round_of(chunk, 0)

    def reward(self, round: Round, arm: int, rng: Generator) -> float:
        if round.index != self._shown:
            raise HorizonError(
                "outcomes are known for the round that was shown last",
                path="round.index",
                given=round.index,
                allowed=str(self._shown),
                fix="ask for the reward before the next round is shown",
            )
        return float(self._outcomes[arm])
