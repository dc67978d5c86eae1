"""Batched-Private-Fair-Greedy: frozen batches that grow, each person in one regression sum and one histogram."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.special import ndtr

from fairveil.bandits.feedback import AT_ONCE
from fairveil.bandits.meritocratic.calibration import Total, calibrated
from fairveil.bandits.meritocratic.estimate import rescaled, row_weight, score_direction
from fairveil.bandits.meritocratic.exact import check_finite, uniform_decision
from fairveil.bandits.meritocratic.frozen import BatchedRunner, best_by_table
from fairveil.bandits.meritocratic.runner import Runner
from fairveil.bandits.meritocratic.scaling import Ready, Scaling, ScalingTable
from fairveil.bandits.meritocratic.world import Floats, Ints
from fairveil.bandits.protocol import Decision, Feedback, Policy, Report, Round, raw_feedback
from fairveil.bandits.simulate import Case, Streams
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fields import Count, Delta, Epsilon, OpenUnit, Positive
from fairveil.privacy.events import ComposedEvent, Event
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.histograms import Histogram
from fairveil.privacy.noise import Noise
from fairveil.privacy.sums import BatchSum
from fairveil.randomness import Generator
from fairveil.registry import register
from fairveil.state import State

GROUP_WEIGHT = 1.0
"""Size of the group indicator in a row of the regression sum; scaled columns have spread about one."""
RANK_DOUBT = 0.15
"""How far a rank read off the standard normal law is typically wrong; the histogram takes over when it is better."""


@register("policy", "batched-private-fair-greedy")
@configuration
class BatchedPrivateFairGreedy(Policy):
    """Fair-Greedy in frozen batches: one noisy regression sum and one noisy score histogram per group and batch.

    Guarantee: (epsilon, delta) joint privacy for one candidate (features, reward, and in ``noisy`` totals its presence
    beside others) of one round; its group, the arrival times of rewards (so also whether a round had any candidate) and
    everything in the configuration are public. A changed candidate changes (a) its round's row of the regression sum of
    the batch in which the reward arrives: one replaced row of norm at most L, Frobenius sensitivity sqrt(2) L^2 with
    L^2 = norm^2 + 1 + norm^2, or one row in each of two batches, which is no more; (b) one value of its group's
    histogram in one batch, however many candidates its group shows. Decisions of other rounds read these releases and
    their own candidates only (billboard lemma). mu^2 is split between (a) and (b).
    Cost: one event for ever, whatever the number of batches; no horizon is needed.
    Time O(candidates * features) a decision; memory O(window * candidates * features), constant in the horizon.

    A batch starts with ``first_batch`` rounds and grows by ``growth``. The first one chooses uniformly. The histogram
    of a batch is taken of its first ``window`` rounds, on bins that are equal parts of the normal law of the estimated
    scores, and is averaged with that law according to the size of its noise. If the released moments show that the
    declared scale is far off, later rows are taken on the scale they show (once; post-processing).

    >>> import fairveil
    >>> result = fairveil.run({"task": "bandit", "rounds": 2000, "seed": 1,
    ...     "policy": {"name": "batched-private-fair-greedy", "epsilon": 5.0, "delta": 1e-5},
    ...     "environment": {"name": "synthetic-census", "people_per_group": 1000}})
    >>> result["metrics"]["fair_regret"][-1] < 0.5 * 600
    True

    Reference: Grazzi et al. 2022 for Fair-Greedy; docs/guides/meritocratic.md, docs/errata/private-fair-greedy.md.
    """

    family = "meritocratic"
    released: ClassVar[tuple[str, ...]] = (
        *("moments", "rows", "noise_variance", "batch", "end", "direction", "rescaled", "shift", "stretch"),
        *("middle", "deviation", "tables", "rank_std", "sum_published", "sum_releases", "sum_last"),
    )

    epsilon: Epsilon
    delta: Delta
    groups: Count | None = None
    features: Count | None = None
    scaling: ScalingTable = Scaling()
    totals: Literal["public", "noisy"] | None = None
    first_batch: Count | None = None
    growth: Annotated[float, Field(ge=1.05, le=16.0, allow_inf_nan=False)] = 1.5
    rank_share: OpenUnit = 0.1
    bins: Annotated[int, Field(ge=4, le=1024)] = 32
    window: Count = 16_384
    correlation: Positive = 0.003

    # Public numbers --------------------------------------------------------------------------------------------------

    @cached_property
    def total(self) -> Total:
        """The budget that its own event allows at (epsilon, delta)."""
        return calibrated(self.epsilon, self.delta, self._event_of)

    @property
    def mu(self) -> float:
        return self.total.mu

    @cached_property
    def ready(self) -> Ready:
        return self.scaling.ready()

    @cached_property
    def _group_count(self) -> int:
        if self.groups is None:
            raise SpecError("the number of groups is not known", path="policy.groups", fix="give groups")
        return self.groups

    @property
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
        width = self.ready.width + self._group_count + 1
        return BatchSum(shape="symmetric", dimension=width, bound=bound, **total.share(1 - self.rank_share))

    def _histogram_of(self, total: Total) -> Histogram:
        return Histogram(self.bins, total=self.totals or "noisy", **total.share(self.rank_share))

    def batch_length(self, number: int) -> int:
        """Rounds of batch 0, 1, 2, ...: public and free of any horizon."""
        start = self.first_batch if self.first_batch is not None else max(32, math.ceil(30 / self.mu))
        return min(math.ceil(start * self.growth**number), 2**40)

    # Privacy ---------------------------------------------------------------------------------------------------------

    def event(self) -> Event:
        return self._event_of(self.total)

    def _event_of(self, total: Total) -> Event:
        return ComposedEvent((self._sums_of(total).event(), self._histogram_of(total).event()))

    def guarantee(self) -> Guarantee:
        complete = self.groups is not None and self.scaling.complete
        notes = () if self.totals == "public" else ("whether a round had any candidate at all is public",)
        return Guarantee.approximate(
            self.epsilon,
            self.delta,
            **(self.total.stated if complete else {}),
            model="joint",
            unit="one candidate of one round",
            neighbours="replace-tuple",
            notes=notes,
        )

    # Step interface --------------------------------------------------------------------------------------------------

    def start(self) -> State:
        width = self.ready.width + self._group_count + 1
        return {
            **{f"sum_{name}": array for name, array in self.sums.start().items()},
            "moments": np.zeros((width, width)),
            "rows": np.zeros(()),
            "noise_variance": np.zeros(()),
            "batch": np.zeros((), np.int64),
            "end": np.asarray(self.batch_length(0)),
            "arrived": np.zeros((), np.int64),
            "people": np.zeros((0, self.ready.width)),
            "people_group": np.zeros(0, np.int64),
            "people_rounds": np.zeros((), np.int64),
            "direction": np.zeros(self.ready.width),
            "rescaled": np.zeros((), np.bool_),
            "shift": np.zeros(self.ready.width),
            "stretch": np.ones(self.ready.width),
            "middle": np.zeros(()),
            "deviation": np.ones(()),
            "tables": np.zeros((self._group_count, self.bins + 1)),
            "rank_std": np.full(self._group_count, RANK_DOUBT),
        }

    def rule(self, state: State, width: int) -> tuple[Floats, float, float, Floats]:
        """The frozen rule on raw features: weights, offset, deviation and rank tables."""
        weights, offset = self.ready.pull_back(state["direction"], width)
        return weights, offset + float(state["middle"]), float(state["deviation"]), state["tables"]

    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        group = np.array([candidate.group for candidate in round.candidates])
        if state["batch"] == 0:
            return uniform_decision(group, rng)
        features = np.stack([candidate.features for candidate in round.candidates])
        slot, _ = best_by_table(features, group, *self.rule(state, features.shape[1]), rng)
        return Decision(int(slot))

    def learn(self, state: State, feedback: Feedback | Report) -> State:
        feedback = raw_feedback(feedback)
        assert feedback.round is not None
        check_finite(feedback)
        features = np.stack([candidate.features for candidate in feedback.round.candidates])
        group = np.array([candidate.group for candidate in feedback.round.candidates])
        after = self.add_rows(
            state, features[feedback.arm][None], group[feedback.arm][None], np.array([feedback.reward])
        )
        return self.add_people(after, features[None], group[None])

    def add_rows(self, state: State, features: Floats, group: Ints, reward: Floats) -> State:
        """Chosen candidates whose rewards have arrived enter the open regression sum."""
        rows = self.sum_rows(features, group, reward, state["shift"], state["stretch"])
        part = self.sums.add({name[4:]: array for name, array in state.items() if name.startswith("sum_")}, rows)
        return {
            **state,
            **{f"sum_{name}": array for name, array in part.items()},
            "arrived": np.asarray(state["arrived"] + len(rows)),
        }

    def add_people(self, state: State, features: Floats, group: Ints) -> State:
        """All candidates of these rounds, at most ``window`` rounds, wait for the histogram at the end of the batch."""
        room = max(0, min(len(features), self.window - int(state["people_rounds"])))
        scaled, labels = self.ready.apply(features[:room]), group[:room]
        filled = labels >= 0
        return {
            **state,
            "people": np.concatenate([state["people"], scaled[filled]]),
            "people_group": np.concatenate([state["people_group"], labels[filled]]),
            "people_rounds": np.asarray(state["people_rounds"] + room),
        }

    def sum_rows(
        self, features: Floats, group: Ints, reward: Floats, shift: Floats | float = 0.0, stretch: Floats | float = 1.0
    ) -> Floats:
        """Rows [z, a e_g, w y] of the regression sum; where z is too long the whole row shrinks and stays linear."""
        scaled = (self.ready.apply(features) - shift) / stretch
        columns = self.ready.width
        rows = np.zeros((len(scaled), columns + self._group_count + 1))
        rows[:, :columns] = scaled
        rows[np.arange(len(rows)), columns + group] = GROUP_WEIGHT
        rows[:, -1] = self.reward_weight * self.ready.clip_reward(reward)
        length = np.sqrt((scaled**2).sum(axis=1))
        return rows * np.minimum(1.0, self.ready.norm / np.maximum(length, 1e-300))[:, None]

    def due(self, state: State, now: int) -> str | None:
        return f"batch-{int(state['batch'])}" if now >= state["end"] else None

    def release(self, state: State, noise: Noise) -> State:
        """Close the batch: noisy moments, new direction, noisy histograms under it."""
        sums = {name[4:]: array for name, array in state.items() if name.startswith("sum_")}
        arrived = float(state["arrived"])
        sums, _ = self.sums.release(sums, noise)
        variance = self.sums.expected_std(1) ** 2
        weight = row_weight(arrived, variance)
        moments = state["moments"] + weight * self.sums.last_batch(sums)
        rows = float(state["rows"]) + weight * arrived
        noise_variance = float(state["noise_variance"]) + weight**2 * variance
        after = self._next_batch(state, sums)
        after |= {"moments": moments, "rows": np.asarray(rows), "noise_variance": np.asarray(noise_variance)}
        if rows > 0:
            found = score_direction(
                moments,
                self.ready.width,
                rows,
                math.sqrt(noise_variance),
                GROUP_WEIGHT,
                self.correlation,
            )
            # The rule is kept on the declared scale, the moments on the one that their rows were taken on.
            after["direction"] = found.weights / state["stretch"]
            after["middle"] = np.asarray(found.middle + after["direction"] @ state["shift"])
            after["deviation"] = np.asarray(found.deviation)
            after |= self._rescale(after)
        return after | self._rank_tables(state, after, noise)

    def _rescale(self, state: State) -> State:
        """Once, if the declared scale is far off: take later rows on the scale the moments show, in a fresh sum."""
        if state["rescaled"]:
            return {}
        noise_std = math.sqrt(float(state["noise_variance"]))
        found = rescaled(state["moments"], self.ready.width, noise_std, GROUP_WEIGHT)
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
        sums = self.sums.lost({name[4:]: array for name, array in state.items() if name.startswith("sum_")})
        return self._next_batch(state, sums)

    def _next_batch(self, state: State, sums: State) -> State:
        number = int(state["batch"]) + 1
        return {
            **state,
            **{f"sum_{name}": array for name, array in sums.items()},
            "batch": np.asarray(number),
            "end": np.asarray(state["end"] + self.batch_length(number)),
            "arrived": np.zeros((), np.int64),
            "people": np.zeros((0, self.ready.width)),
            "people_group": np.zeros(0, np.int64),
            "people_rounds": np.zeros((), np.int64),
        }

    def _rank_tables(self, state: State, after: State, noise: Noise) -> State:
        """Histograms of the batch's people under the new direction, one per group, each person in one of them."""
        scores = state["people"] @ after["direction"]
        position = ndtr((scores - float(after["middle"])) / float(after["deviation"]))
        normal = np.linspace(0.0, 1.0, self.bins + 1)
        middle = self.histogram.expected_std(self.bins // 2)
        tables, spreads = [], []
        for group in range(self._group_count):
            opened = self.histogram.add(self.histogram.start(), position[state["people_group"] == group])
            _, shown = self.histogram.release(opened, noise)
            # Privacy noise and sampling, with a total that is itself noisy for groups that may be absent.
            total = max(shown.total, 1.0)
            variance = (middle / total) ** 2 + 0.25 / total
            trust = RANK_DOUBT**2 / (RANK_DOUBT**2 + variance) if not shown.empty else 0.0
            tables.append(trust * shown.levels + (1 - trust) * normal)
            spreads.append(math.sqrt(trust**2 * variance + (1 - trust) ** 2 * RANK_DOUBT**2))
        return {"tables": np.stack(tables), "rank_std": np.array(spreads)}

    # Simulation ------------------------------------------------------------------------------------------------------

    def simulator(self, case: Case, streams: Streams) -> Runner | None:
        if case.lateness != AT_ONCE:
            return None
        return BatchedRunner(self, streams.explore, streams.noise)
