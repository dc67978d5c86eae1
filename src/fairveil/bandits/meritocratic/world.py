"""What every meritocratic environment shares: rounds of candidates with a group, features, a score and a relative rank.

A candidate's score is <features, theta>; its relative rank is F_g(score), F_g being the law of the scores in its own
group g. A round is a list of candidates: a group may show several, one or none, and may join later. Rounds are drawn in
chunks, so that simulators need memory for one chunk only. Everything in a `Schema` is public knowledge about the
columns; a policy's scaling is made from it and never from candidates. Person records become a pool of candidates by
attributes, with a hold-out for the true weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field, Strict

from fairveil.arrays import Floats, Ints
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.facts import AtLeast, Fact, Same
from fairveil.bandits.feedback import AT_ONCE, Lateness
from fairveil.bandits.meritocratic.scaling import FromSchema, Schema
from fairveil.bandits.protocol import Candidate, Round
from fairveil.configuration import configuration, unless
from fairveil.data.public_columns import PublicColumn, facts_of
from fairveil.errors import SpecError
from fairveil.fairness.ranks import relative_rank
from fairveil.fields import Count, Natural, NonNegative, OpenUnit, described
from fairveil.randomness import Generator, generator

Slots = Annotated[int, Strict(), Field(ge=1, le=64)]
Present = Annotated[float, Strict(), Field(gt=0.0, le=1.0, allow_inf_nan=False)]
Lost = Annotated[float, Strict(), Field(ge=0.0, lt=1.0, allow_inf_nan=False)]


@lru_cache(maxsize=64)
def late(delay: float, missing: float) -> Lateness:
    """Geometric delays of this mean, of which a share never ends."""
    if delay == 0 and missing == 0:
        return AT_ONCE
    return Lateness.of({"delay": ["geometric", delay] if delay > 0 else 0, "missing": missing})


@dataclass(frozen=True)
class Totals(Fact):
    """How many members of a group were seen: public where every group shows the same number in every round."""

    value: Literal["public", "noisy"]

    def settle(self, given: Any, path: str) -> Any:
        if given == "public" and self.value == "noisy":
            raise SpecError(
                "totals are not public where a group may be absent", path=path, given=given, allowed="noisy"
            )
        return self.value if given is None else given


@dataclass(frozen=True)
class Chunk:
    """Consecutive rounds, all slots side by side; ``group`` is -1 where a slot is empty."""

    first: int
    features: Floats  # (rounds, slots, columns)
    group: Ints  # (rounds, slots)
    score: Floats  # (rounds, slots)
    rank: Floats  # (rounds, slots)
    reward: Floats  # (rounds, slots): what each would answer

    def __len__(self) -> int:
        return len(self.reward)


@configuration
class MeritocraticEnvironment(Environment):
    """Base of the family's environments; subclasses are frozen configurations that fill in the pieces below.

    Common fields: ``candidates`` per group and round, ``presence`` (probability that a slot is filled), ``joins``
    (round at which a group first appears), ``delay`` (mean rounds until a reward arrives, geometric), ``missing``
    (probability that it never does) and ``noise`` (standard deviation of the rewards around the scores).
    """

    family: ClassVar[str] = "meritocratic"

    _: KW_ONLY
    candidates: Slots = described("candidates of each group in a round", default=1)
    presence: Present = described("probability that a candidate is there", default=1.0)
    joins: dict[str, Natural] = described("round in which a group first appears", default_factory=dict)
    delay: NonNegative = described("mean rounds until a reward arrives", default=0.0)
    missing: Lost = described("share of rewards that never arrive", default=0.0)
    noise: NonNegative = described("standard deviation of a reward around the score", default=0.2)

    # Pieces of a concrete world --------------------------------------------------------------------------------------

    @property
    def group_names(self) -> tuple[str, ...]:
        raise NotImplementedError

    @property
    def theta(self) -> Floats:
        raise NotImplementedError

    @property
    def schema(self) -> Schema:
        raise NotImplementedError

    def people(self, groups: Ints, rng: Generator) -> tuple[Floats, Floats, Floats]:
        """Features, scores and true relative ranks of freshly drawn members of these groups."""
        raise NotImplementedError

    def relative_rank(self, groups: Ints, scores: Floats) -> Floats:
        """F_g(score) for each pair."""
        raise NotImplementedError

    # What follows from them ------------------------------------------------------------------------------------------

    @property
    def groups(self) -> int:
        return len(self.group_names)

    @property
    def features(self) -> int:
        return len(self.theta)

    @property
    def steady(self) -> bool:
        """Every group shows the same number of candidates in every round, so totals are public."""
        return self.presence >= 1.0 and not self.joins

    def facts(self, rounds: int) -> dict[str, Fact]:
        crowded = "the environment shows more candidates than the policy has noise for"
        return {
            "groups": Same(self.groups),
            "features": Same(self.features),
            "rounds": AtLeast(rounds, "the policy's horizon is shorter than the run"),
            "candidates": AtLeast(len(self.slots()), crowded),
            "per_group": AtLeast(int(np.bincount(self.slots()).max()), crowded),
            "totals": Totals("public" if self.steady else "noisy"),
            "scaling": FromSchema(self.schema),
        }

    @property
    def lateness(self) -> Lateness:
        """``delay`` and ``missing`` as a spec's ``feedback`` would say it, with public arrivals."""
        return late(self.delay, self.missing)

    def fits(self, rounds: int) -> None:
        """Raise when this world cannot run that long."""

    def slots(self) -> Ints:
        """The group of each slot of a round."""
        return np.repeat(np.arange(self.groups), self.candidates)

    def draw(self, first: int, count: int, rng: Generator) -> Chunk:
        """Rounds first .. first + count - 1."""
        slots = self.slots()
        group = np.tile(slots, (count, 1))
        features, score, rank = self.people(group.ravel(), rng)
        shape = group.shape
        features, score, rank = features.reshape(*shape, -1), score.reshape(shape), rank.reshape(shape)
        if not self.steady:
            filled = rng.random(shape) < self.presence
            filled &= np.arange(first, first + count)[:, None] >= self._first_rounds()[slots]
            group = np.where(filled, group, -1)
            features, score = features * filled[:, :, None], score * filled
            rank = np.where(filled, rank, -np.inf)
        reward = score + (self.noise * rng.standard_normal(count))[:, None]
        return Chunk(first, features, group, score, rank, reward)

    def _first_rounds(self) -> Ints:
        return np.array([self.joins.get(name, 0) for name in self.group_names], np.int64)

    def check_joins(self) -> None:
        """Called by subclasses: every group named in ``joins`` exists."""
        unknown = sorted(set(self.joins) - set(self.group_names))
        if unknown:
            raise SpecError(
                "a joining group is not known", path="joins", given=unknown[0], allowed=", ".join(self.group_names)
            )

    # Step interface --------------------------------------------------------------------------------------------------

    def stage(self, rng: Generator) -> Gallery:
        return Gallery(self)

    def show(self, index: int, rng: Generator) -> Round:
        return round_of(self.draw(index, 1, rng), 0)

    def reward(self, round: Round, arm: int, rng: Generator) -> float:
        return float(round.candidates[arm].features @ self.theta + self.noise * rng.standard_normal())


def round_of(chunk: Chunk, row: int) -> Round:
    """One row of a chunk as the round a policy sees: empty slots are left out."""
    filled = np.flatnonzero(chunk.group[row] >= 0)
    people = tuple(Candidate(int(chunk.group[row, slot]), chunk.features[row, slot]) for slot in filled)
    return Round(chunk.first + row, people)


class Gallery(Environment):
    """One run of rounds that are drawn in chunks and shown one by one: steps see what a compiled run sees."""

    family = "meritocratic"

    def __init__(self, world: MeritocraticEnvironment) -> None:
        self.world = world
        self.chunk: Chunk

    def draw_ahead(self, first: int, count: int, rng: Generator) -> None:
        self.chunk = self.world.draw(first, count, rng)

    def show(self, index: int, rng: Generator) -> Round:
        return round_of(self.chunk, index - self.chunk.first)

    def nobody(self, round: Round) -> bool:
        return not round.candidates

    def slot(self, index: int, arm: int) -> int:
        """The slot in which a candidate of a round stands; the first one where there is nobody."""
        filled = np.flatnonzero(self.chunk.group[index - self.chunk.first] >= 0)
        return int(filled[arm]) if len(filled) else 0

    def reward(self, round: Round, arm: int, rng: Generator) -> float:
        return float(self.chunk.reward[round.index - self.chunk.first, self.slot(round.index, arm)])

    def wait(self, round: Round, arm: int, lateness: Lateness, rng: Generator) -> int:
        return self.world.wait(round, arm, lateness, rng)


@dataclass(frozen=True)
class Pool:
    """A finite population: members of each group side by side, sampled with replacement.

    ``rank`` is the empirical distribution function of the member's own group at its own score, ties included.
    """

    features: Floats
    start: Ints
    size: Ints
    score: Floats
    rank: Floats
    ordered: tuple[Floats, ...]

    @classmethod
    def of(cls, features: Floats, group: Ints, theta: Floats) -> Pool:
        order = np.argsort(group, kind="stable")
        features = np.ascontiguousarray(features[order])
        score = features @ theta
        size = np.bincount(group)
        start = np.concatenate([[0], np.cumsum(size)[:-1]])
        rank, ordered = np.empty_like(score), []
        for first, count in zip(start, size):
            own = score[first : first + count]
            ordered.append(np.sort(own))
            rank[first : first + count] = relative_rank(ordered[-1], own)
        return cls(features, start, size, score, rank, tuple(ordered))

    def sample(self, groups: Ints, rng: Generator) -> tuple[Floats, Floats, Floats]:
        member = self.start[groups] + (rng.random(len(groups)) * self.size[groups]).astype(np.int64)
        return self.features[member], self.score[member], self.rank[member]

    def relative_rank(self, groups: Ints, scores: Floats) -> Floats:
        rank = np.empty(len(scores))
        for group, ordered in enumerate(self.ordered):
            own = groups == group
            rank[own] = relative_rank(ordered, scores[own])
        return rank


@configuration
class PoolEnvironment(MeritocraticEnvironment):
    """A world whose candidates are drawn with replacement from a finite pool, afresh in every run."""

    @property
    def pool(self) -> Pool:
        raise NotImplementedError

    def people(self, groups: Ints, rng: Generator) -> tuple[Floats, Floats, Floats]:
        return self.pool.sample(groups, rng)

    def relative_rank(self, groups: Ints, scores: Floats) -> Floats:
        return self.pool.relative_rank(groups, scores)


class PooledPeople(NamedTuple):
    """The pool that is played, the weights that are true for it, and its groups."""

    pool: Pool
    theta: Floats
    groups: tuple[str, ...]


@configuration
class RecordsEnvironment(PoolEnvironment):
    """Candidates are person records. A subclass declares the data set, its public columns and the ``attributes`` whose
    combinations are the groups.
    """

    recorded = True
    records: ClassVar[str]
    """Name of the data set."""
    columns: ClassVar[dict[str, PublicColumn]]
    off: ClassVar[float] = 0.0
    """What an indicator of a value is for people who have another one."""
    target: ClassVar[str]
    """Column of the reward, which is a linear score of it."""
    standardised: ClassVar[bool] = False
    """Whether the reward is moved to mean 0 and spread 1 of the hold-out."""
    reward_scale: ClassVar[tuple[float, float]]
    """Declared centre and spread of the reward."""
    settled: ClassVar[tuple[tuple[str, str], ...]]
    """Public numbers that were settled after looking at records, and the words for it."""
    attributes = unless(())
    known_attributes: ClassVar[str]

    _: KW_ONLY
    minimum: Count = described("groups with fewer people are left out", default=1_000)
    holdout: OpenUnit = described("share of the people on whom the true weights are fitted", default=0.2)
    split_seed: Natural = described("seed of that split", default=0)

    def __post_init__(self) -> None:
        """Attributes are given once each, and groups that join are known; loads records only if some group joins."""
        if not self.attributes or len(set(self.attributes)) != len(self.attributes):
            raise SpecError(
                "groups need at least one attribute, each once",
                path="attributes",
                given=list(self.attributes),
                allowed=self.known_attributes,
            )
        if self.joins:
            self.check_joins()

    @property
    def schema(self) -> Schema:
        centre, spread = self.reward_scale
        facts = facts_of(self.columns)
        return Schema.of(facts, self.attributes, reward_centre=centre, reward_spread=spread, caveats=self.settled)

    @property
    def people_of_groups(self) -> PooledPeople:
        return _people(type(self), self.attributes, self.minimum, self.holdout, self.split_seed)

    @property
    def pool(self) -> Pool:
        return self.people_of_groups.pool

    @property
    def theta(self) -> Floats:
        return self.people_of_groups.theta

    @property
    def group_names(self) -> tuple[str, ...]:
        return self.people_of_groups.groups


@lru_cache(maxsize=8)
def _people(
    kind: type[RecordsEnvironment], attributes: tuple[str, ...], minimum: int, holdout: float, split_seed: int
) -> PooledPeople:
    """Fit theta* by least squares on a random hold-out and group the records that are left; once in a process.

    A group is a combination of attribute values with at least ``minimum`` records in the whole data.
    """
    from fairveil import data

    table = data.load(kind.records)
    features, target = _encoded(table, kind.columns, kind.off), table[kind.target].astype(np.float64)
    order = generator(split_seed, kind.name, "holdout").permutation(len(target))
    held, played = np.split(order, [round(holdout * len(target))])
    aim = target[held]
    if kind.standardised:
        aim = (aim - aim.mean()) / aim.std()
    # Indicators of a category sum to the constant column: a whisper of ridge makes the fit unique.
    gram = features[held].T @ features[held] + 1e-8 * len(held) * np.eye(features.shape[1])
    theta: Floats = np.linalg.solve(gram, features[held].T @ aim).astype(np.float64)
    known = (table[name] for name in attributes)  # names as they are, codes as whole numbers
    rows = zip(*(column.astype(np.int64) if column.dtype.kind in "biuf" else column for column in known))
    labels = np.array(["/".join(f"{name}={value}" for name, value in zip(attributes, row)) for row in rows])
    values, counts = np.unique(labels, return_counts=True)
    kept = values[counts >= minimum]
    if len(kept) < 2:
        raise SpecError("fewer than two groups have enough records", path="minimum", given=minimum, fix="lower it")
    inside = played[np.isin(labels[played], kept)]
    group = np.searchsorted(kept, labels[inside])
    return PooledPeople(Pool.of(features[inside], group, theta), theta, tuple(str(value) for value in kept))


def _encoded(table: Any, columns: Mapping[str, PublicColumn], off: float) -> Floats:
    """Numbers clipped to their documented range and moved to [-1, 1], values as indicators 1 or ``off``, a constant."""
    found = []
    for name, column in columns.items():
        if column.values is None:
            found.append(column.on_scale(table[name].astype(np.float64)))
        else:
            found += [np.where(table[name] == value, 1.0, off) for value in column.values]
    return np.stack([*found, np.ones(len(table))], axis=1)
