"""Batched-Private-Fair-Greedy: frozen batches that grow, each person in one regression sum and one histogram."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.special import ndtr, ndtri

from fairveil.arrays import Floats, Ints
from fairveil.bandits.estimates import CONFIDENCE, Estimate, Estimates, RankTable, check_confidence
from fairveil.bandits.feedback import ARRIVALS_IN_WORDS
from fairveil.bandits.lateness import BATCHES_IN_WORDS, SEATS, Release, seats_named
from fairveil.bandits.meritocratic import estimate
from fairveil.bandits.meritocratic.batched_run import BatchedRunner, RulePolicy, Taken
from fairveil.bandits.meritocratic.candidates import Rule, answered, best_by_table, shown_in, uniform_decision
from fairveil.bandits.meritocratic.estimate import DOUBT, GROUP_WEIGHT, WIDEST, Moments
from fairveil.bandits.meritocratic.scaling import Ready, Scaling, ScalingTable
from fairveil.bandits.protocol import HEADER, Block, Clock, Decision, Feedback, Report, Round, check_header
from fairveil.bandits.quotes import Noisy, gaussian_noise
from fairveil.bandits.simulate import Case, Streams
from fairveil.configuration import configuration
from fairveil.errors import InputError, SpecError
from fairveil.fields import Count, Delta, Epsilon, OpenUnit, Positive, described
from fairveil.privacy.calibration import Total, calibrated
from fairveil.privacy.events import ComposedEvent, Event
from fairveil.privacy.guarantee import UNRELEASED, Guarantee
from fairveil.privacy.histograms import Histogram
from fairveil.privacy.noise import Noise
from fairveil.privacy.sums import BatchSum
from fairveil.randomness import Generator
from fairveil.registry import register
from fairveil.state import State, nest, nested

Growth = Annotated[float, Field(ge=1.05, le=16.0, allow_inf_nan=False)]
Bins = Annotated[int, Field(ge=4, le=1024)]
FIRST_BATCH, FIRST_NOISE = 32, 30.0
"""Rounds of the first batch: at least 32, and 30/mu, so that its sum is not all noise."""
LONGEST_BATCH = 2**40
PUBLIC = (
    "public: groups, in which rounds decisions are made and how many come, which rounds are handed over, and the "
    "configuration with its scaling"
)
RANKS = (
    "weights are a direction and come without intervals; a rank read off a group's table is off by its standard "
    "deviation, which holds privacy noise, sampling error and what was believed before"
)
PRESENCE = "how many candidates of each group come is public"


@register("policy", "batched-private-fair-greedy")
@configuration
class BatchedPrivateFairGreedy(RulePolicy):
    """Fair-Greedy in frozen batches: one noisy regression sum and one noisy score histogram per group and batch.

    Guarantee: (epsilon, delta) joint privacy for one candidate (features, reward, and unless ``totals`` are declared
    public its presence beside others) of one round. Rounds belong to the batch of their decision, a public schedule; a
    changed candidate changes (a) its round's row of that batch's regression sum: one replaced row of norm at most L,
    Frobenius sensitivity sqrt(2) L^2 with L^2 = norm^2 + 1 + norm^2, and a row that is absent because no reward came
    is nearer than a replaced one; (b) one value of its group's histogram of that batch, however many candidates its
    group shows. Decisions of other rounds read these releases and their own candidates only (billboard lemma). mu^2 is
    split between (a) and (b). Nothing counts rewards exactly: batches are weighed by their rounds, and the number of
    rows is read off the noisy sum. What is public stands in `guarantee().notes`.
    Cost: one event for ever, whatever the number of batches; no horizon is needed.
    Time O(candidates * features) a decision; memory O(window * candidates * features), constant in the horizon;
    `learn` copies the window, `learn_all` costs O(1) a row.

    A batch starts with ``first_batch`` rounds and grows by ``growth``. It is released when all its rounds are settled;
    with ``release="arrivals"`` it holds the rounds that settle next (answered, or their window closed), so nobody waits
    for the slowest; until the first release choices are uniform. The histogram of a batch is taken of its first
    ``window`` rounds, on bins that are equal parts of the normal law of the estimated scores, and is averaged with that
    law according to the size of its noise. If the released moments show that the declared scale is far off, later rows
    are taken on the scale they show (once; post-processing).

    >>> import fairveil
    >>> result = fairveil.run({"task": "bandit", "rounds": 2000, "seed": 1,
    ...     "policy": {"name": "batched-private-fair-greedy", "epsilon": 5.0, "delta": 1e-5},
    ...     "environment": {"name": "synthetic-census", "people_per_group": 1000}})
    >>> result["metrics"]["fair_regret"][-1] < 0.5 * 600
    True

    Reference: Grazzi et al. 2022 for Fair-Greedy; docs/guides/meritocratic.md, docs/guarantees/meritocratic.md.
    """

    clock: ClassVar[Clock] = "settled"
    released: ClassVar[tuple[str, ...]] = (
        *("moments", "rows", "noise_variance", "batch", "end", "direction", "rescaled", "shift", "stretch"),
        *("middle", "deviation", "tables", "rank_std", "sum/published", "sum/releases", "sum/last"),
    )

    epsilon: Epsilon = described("budget of one candidate of one round", example=1.0)
    delta: Delta = described("chance that the promise may fail", example=1e-5)
    groups: Count | None = described("number of groups", default=None)
    features: Count | None = described("number of features of a candidate", default=None)
    scaling: ScalingTable = described("public scale of columns and reward", default=Scaling())
    totals: Literal["public", "noisy"] | None = described(
        "whether numbers of candidates by group are public; noisy when left out", default=None
    )
    first_batch: Count | None = described("rounds of the first batch", default=None)
    growth: Growth = described("factor by which batches grow", default=1.5)
    rank_share: OpenUnit = described("share of the budget for the ranks", default=0.1)
    bins: Bins = described("bins of a rank table", default=32)
    window: Count = described("rounds of a batch whose candidates are ranked", default=16_384)
    correlation: Positive = described("squared correlation that uncorrelated columns may have", default=0.003)
    released_by: Release = described(BATCHES_IN_WORDS, default="blocks", key="release", later=True)

    # Public numbers --------------------------------------------------------------------------------------------------

    @cached_property
    def total(self) -> Total:
        """The budget that its own event allows at (epsilon, delta)."""
        return calibrated(self.epsilon, self.delta, self._event_of)

    @cached_property
    def mu(self) -> float:
        return self.total.mu

    @cached_property
    def ready(self) -> Ready:
        return self.scaling.ready()

    @cached_property
    def group_count(self) -> int:
        if self.groups is None:
            raise SpecError("the number of groups is not known", path="policy.groups", fix="give groups")
        return self.groups

    @cached_property
    def reward_weight(self) -> float:
        """The reward is scaled up to the norm of the columns: then neither drowns in the other's noise."""
        return self.ready.norm / self.ready.reward_bound

    @cached_property
    def sums(self) -> BatchSum:
        return self._sums_of(self.total)

    @cached_property
    def histogram(self) -> Histogram:
        return self._histogram_of(self.total)

    def _sums_of(self, total: Total) -> BatchSum:
        bound = math.sqrt(2 * self.ready.norm**2 + GROUP_WEIGHT**2)
        width = self.ready.width + self.group_count + 1
        return BatchSum(shape="symmetric", dimension=width, bound=bound, **total.share(1 - self.rank_share))

    def _histogram_of(self, total: Total) -> Histogram:
        kind: Literal["public", "noisy"] = "public" if self.totals == "public" else "noisy"
        return Histogram(self.bins, total=kind, **total.share(self.rank_share))

    def batch_length(self, number: int) -> int:
        """Rounds of batch 0, 1, 2, ...: public and free of any horizon."""
        start = self.first_batch if self.first_batch is not None else max(FIRST_BATCH, math.ceil(FIRST_NOISE / self.mu))
        return min(math.ceil(start * self.growth**number), LONGEST_BATCH)

    def releases_at(self, most: int) -> list[int]:
        return list(itertools.accumulate(self.batch_length(number) for number in range(most)))

    # Privacy ---------------------------------------------------------------------------------------------------------

    def event(self) -> Event:
        return self._event_of(self.total)

    def _event_of(self, total: Total) -> Event:
        return ComposedEvent((self._sums_of(total).event(), self._histogram_of(total).event()))

    @property
    def hides_arrivals(self) -> bool:
        return True

    def guarantee(self) -> Guarantee:
        complete = self.groups is not None and self.scaling.complete
        presence, seats = (PRESENCE,) if self.totals == "public" else (), (SEATS,) if self.by_seat else ()
        return Guarantee.approximate(
            self.epsilon,
            self.delta,
            **(self.total.stated if complete else {}),
            model="joint",
            unit="one candidate of one round",
            neighbours="replace-tuple",
            notes=(PUBLIC, *presence, *self.scaling.caveats, *seats, UNRELEASED, ARRIVALS_IN_WORDS["public"]),
        )

    # Step interface --------------------------------------------------------------------------------------------------

    def start(self) -> State:
        width = self.ready.width + self.group_count + 1
        return {
            **nest("sum", self.sums.start()),
            "moments": np.zeros((width, width)),
            "rows": np.zeros(()),
            "noise_variance": np.zeros(()),
            "batch": np.zeros((), np.int64),
            "next": np.zeros((), np.int64),
            "end": np.asarray(self.batch_length(0)),
            "people": np.zeros((0, self.ready.width)),
            "people_group": np.zeros(0, np.int64),
            "direction": np.zeros(self.ready.width),
            "rescaled": np.zeros((), np.bool_),
            "shift": np.zeros(self.ready.width),
            "stretch": np.ones(self.ready.width),
            "middle": np.zeros(()),
            "deviation": np.ones(()),
            "tables": np.zeros((self.group_count, self.bins + 1)),
            "rank_std": np.full(self.group_count, DOUBT),
        }

    def rule(self, state: State, width: int) -> Rule | None:
        if state["batch"] == 0:
            return None
        weights, offset = self.ready.pull_back(state["direction"], width)
        return Rule(weights, offset + float(state["middle"]), float(state["deviation"]), state["tables"])

    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        shown = shown_in(round, self.features, self.group_count)
        rule = self.rule(state, shown.features.shape[1])
        if rule is None:
            return uniform_decision(len(shown.group), rng)
        slot, best, ties = best_by_table(shown.features, shown.group, rule, rng)
        if ties == 1:
            return Decision(int(slot))
        alone = range(len(shown.group))  # a candidate alone has the rank it has among others, and throws no coin
        ranks = [best_by_table(shown.features[i : i + 1], shown.group[i : i + 1], rule, rng)[1] for i in alone]
        return Decision(int(slot), 1.0 / ties, (np.array(ranks) == best) / ties)

    def learn(self, state: State, feedback: Feedback | Report) -> State:
        return self.learn_all(state, (feedback,))

    def learn_all(self, state: State, feedbacks: Iterable[Feedback | Report]) -> State:
        """Take settled rounds in their order; rounds that were taken or released before are ignored."""
        people, labels, rounds, chosen, rewards = [], [], [], [], []
        following, held = int(state["next"]), 0
        for feedback in feedbacks:
            if feedback.index < following:
                continue
            if feedback.index >= state["end"]:
                raise InputError(
                    "the round belongs to a later batch",
                    path="feedback.index",
                    given=feedback.index,
                    allowed=f"below {int(state['end'])}",
                    fix="release what is due first",
                )
            shown, arm, reward = answered(feedback, self.features, self.group_count)
            people.append(shown.features)
            labels.append(shown.group)
            rounds.append(np.full(len(shown.group), feedback.index))
            if reward is not None:
                chosen.append(held + arm)
                rewards.append(reward)
            held += len(shown.group)
            following = feedback.index + 1
        if not people:
            return state
        taken = Taken(
            np.concatenate(people), np.concatenate(labels), np.concatenate(rounds), np.array(chosen, np.int64),
            np.array(rewards),
        )  # fmt: skip
        return self.take(state, taken, following)

    def take(self, state: State, taken: Taken, following: int) -> State:
        """Chosen candidates enter the open regression sum, everybody of the batch's first rounds waits for its end."""
        sums = nested(state, "sum")
        if len(taken.chosen):
            features, group = taken.features[taken.chosen], taken.group[taken.chosen]
            sums = self.sums.add(sums, self.sum_rows(features, group, taken.reward, state["shift"], state["stretch"]))
        early = taken.rounds < self._first(state) + self.window
        return {
            **state,
            **nest("sum", sums),
            "next": np.asarray(following),
            "people": np.concatenate([state["people"], self.ready.apply(taken.features[early])]),
            "people_group": np.concatenate([state["people_group"], taken.group[early]]),
        }

    def sum_rows(
        self, features: Floats, group: Ints, reward: Floats, shift: Floats | float = 0.0, stretch: Floats | float = 1.0
    ) -> Floats:
        """Rows [z, a e_g, w y] of the regression sum; where z is too long the whole row shrinks and stays linear."""
        scaled = (self.ready.apply(features) - shift) / stretch
        columns = self.ready.width
        rows = np.zeros((len(scaled), columns + self.group_count + 1))
        rows[:, :columns] = scaled
        rows[np.arange(len(rows)), columns + group] = GROUP_WEIGHT
        rows[:, -1] = self.reward_weight * self.ready.clip_reward(reward)
        length = np.sqrt((scaled**2).sum(axis=1))
        return rows * np.minimum(1.0, self.ready.norm / np.maximum(length, 1e-300))[:, None]

    def noises(self) -> tuple[Noisy, ...]:
        bins = self.histogram.expected_std(self.bins // 2)
        return (
            gaussian_noise("the regression sum of a batch", self.sums.expected_std(1), "products of scaled columns"),
            gaussian_noise("the rank counts of a group in a batch", bins, "people", math.sqrt(WIDEST)),
        )

    # Estimates -------------------------------------------------------------------------------------------------------

    def estimates(self, state: State, confidence: float = CONFIDENCE) -> Estimates:
        """The weights of the score on the columns in their own units (a direction: only their proportions mean
        something), the rank table of every group, and how unsure a middle rank of it is."""
        check_confidence(confidence)
        known = int(state["batch"]) > 0
        weights = state["direction"] / self.ready.spread
        items = [
            Estimate("score weight", f"column {column}", float(weight) if known else None)
            for column, weight in zip(self.ready.columns, weights)
        ]
        groups = [f"group {group}" for group in range(self.group_count)]
        items += [Estimate("rank uncertainty", name, float(std)) for name, std in zip(groups, state["rank_std"])]
        _, offset = self.ready.pull_back(state["direction"], int(self.ready.columns.max()) + 1)
        edges = ndtri(np.linspace(0.0, 1.0, self.bins + 1)[1:-1])
        scores = tuple((offset + float(state["middle"]) + float(state["deviation"]) * edges).tolist())
        tables = [
            RankTable(name, scores, tuple(table[1:-1].tolist()), float(std))
            for name, table, std in zip(groups, state["tables"], state["rank_std"])
        ]
        return Estimates(tuple(items), confidence, tuple(tables) if known else (), (RANKS,))

    # Releases --------------------------------------------------------------------------------------------------------

    def _first(self, state: State) -> int:
        return int(state["end"]) - self.batch_length(int(state["batch"]))

    def block(self, state: State) -> Block:
        first, stop = self._first(state), int(state["end"])
        return Block(seats_named(first, stop) if self.by_seat else f"batch-{int(state['batch'])}", first, stop)

    def release(self, state: State, noise: Noise) -> State:
        """Close the batch: noisy moments, new direction, noisy histograms under it."""
        sums, _ = self.sums.release(nested(state, "sum"), noise)
        length, variance = float(self.batch_length(int(state["batch"]))), self.sums.expected_std(1) ** 2
        weight = estimate.row_weight(length, variance)
        after = self._next_batch(state, sums)
        after["moments"] = state["moments"] + weight * self.sums.last_batch(sums)
        after["rows"] = np.asarray(state["rows"] + weight * length)
        after["noise_variance"] = np.asarray(state["noise_variance"] + weight**2 * variance)
        moments = self._moments(after)
        found = estimate.score_direction(moments._replace(rows=estimate.believed_rows(moments)), self.correlation)
        # The rule is kept on the declared scale, the moments on the one that their rows were taken on.
        after["direction"] = found.weights / state["stretch"]
        after["middle"] = np.asarray(found.middle + after["direction"] @ state["shift"])
        after["deviation"] = np.asarray(found.deviation)
        after |= self._rescale(after)
        scores = state["people"] @ after["direction"]
        position = ndtr((scores - float(after["middle"])) / float(after["deviation"]))
        ranks = estimate.rank_tables(self.histogram, position, state["people_group"], self.group_count, noise)
        return {**after, "tables": ranks.tables, "rank_std": ranks.std}

    def _moments(self, state: State) -> Moments:
        noise_std = math.sqrt(float(state["noise_variance"]))
        return Moments(state["moments"], self.ready.width, float(state["rows"]), noise_std)

    def _rescale(self, state: State) -> State:
        """Once, if the declared scale is far off: take later rows on the scale the moments show, in a fresh sum."""
        found = None if state["rescaled"] else estimate.rescaled(self._moments(state))
        if found is None:
            return {}
        middle, spread = found
        return {
            "rescaled": np.ones((), np.bool_),
            "shift": middle,
            "stretch": spread,
            "moments": np.zeros_like(state["moments"]),
            "rows": np.zeros(()),
            "noise_variance": np.zeros(()),
        }

    def lost(self, state: State, block: str) -> State:
        """Drop the batch's rows and people and go on with the rule that stands."""
        return self._next_batch(state, self.sums.lost(nested(state, "sum")))

    def _next_batch(self, state: State, sums: State) -> State:
        number = int(state["batch"]) + 1
        return {
            **state,
            # Room in the sum is counted in rounds from here on: how many rewards came is not remembered.
            **nest("sum", sums | {"rows": state["end"].copy()}),
            "batch": np.asarray(number),
            "next": state["end"].copy(),
            "end": np.asarray(state["end"] + self.batch_length(number)),
            "people": np.zeros((0, self.ready.width)),
            "people_group": np.zeros(0, np.int64),
        }

    def draw(self, state: State, noise: Noise) -> State:
        after = self.release(state, noise)
        return {HEADER: self.block(state).header, **{name: after[name] for name in self.released}}

    def adopt(self, state: State, block: str, value: State) -> State:
        check_header(self.block(state), block, value)
        return {**self.lost(state, block), **{name: value[name] for name in self.released}}

    # Simulation ------------------------------------------------------------------------------------------------------

    def simulator(self, case: Case, streams: Streams) -> BatchedRunner | None:
        return BatchedRunner(self, case, streams)
