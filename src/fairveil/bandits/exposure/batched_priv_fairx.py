"""Batched-Priv-FairX: agents publish disjoint growing batches, each row in exactly one noisy release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairveil.bandits.exposure.belief import Beliefs, Radius
from fairveil.bandits.exposure.private import SUM, Floats, PrivatePolicy
from fairveil.bandits.protocol import HEADER, Block, Clock, Feedback, Policy, check_header
from fairveil.configuration import configuration
from fairveil.errors import InputError, SpecError
from fairveil.federated.schedules import NEVER, Growing
from fairveil.fields import Natural, Positive, described
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise
from fairveil.privacy.sums.base import RunningSum
from fairveil.privacy.sums.batch import BatchSum
from fairveil.registry import register
from fairveil.state import State, copy_state, nested


@register("policy", "batched-priv-fairx")
@configuration
class BatchedPrivFairx(PrivatePolicy):
    """Exposure-fair federated learning from noisy sums of disjoint growing batches.

    Guarantee: (epsilon, delta) federated privacy of one interaction of one agent. A row meets one noise only,
    however many synchronisations there are (parallel composition), and the frozen policy reads nothing but releases.
    ``personal=True``: an agent adds its own raw rows, all of them, to the others' releases, weighted by their
    precision (measured: not worse than alone beyond chance, see fairx/map); the guarantee then holds with the
    agent's other rows fixed. ``local_raw=True``: own raw rows since the last synchronisation only; the same weaker
    neighbours.
    Late rewards: a row belongs to the batch of its decision, and a batch is released when all its rounds are settled.
    The schedule says when releases fall; ``outstanding`` decisions (public; a spec fills in the window of its feedback)
    are under way then, so batches end that much earlier and the releases come in time.
    How batches are weighed: a batch of n rows counts n/(n0 + n), where n0 is the size at which reward noise equals
    privacy noise for rows with ``row_information`` as smallest second moment (by default that of the uniform cube,
    L^2/(12 d)); a wrong guess costs accuracy, never privacy. n is the number of rows that are really there: public
    where arrivals are, the number of rounds where a missing reward counts as a default. ``reward_weight`` = sqrt(1/2)
    minimises the noise of u - G theta when |theta| = 1: (1 + w^2)^2 (1 + 1/w^2) is smallest there.
    Cost: one mu-GDP event per agent for ever. Thirteen synchronisations instead of 20,002 at T = 100,000. Learn O(d^2)
    a row, release O(agents d^2), memory O(agents d^2).

    >>> policy = BatchedPrivFairx(agents=10, dimension=5, horizon=100_000, epsilon=2.0, delta=0.1)
    >>> policy.syncs < 200, policy.guarantee().neighbours.value
    (True, 'replace-interaction')

    Reference: disjoint batches as in docs/guarantees/sums.md; the setting is Solanki, Jain and Gujar's.
    """

    clock: ClassVar[Clock] = "settled"
    counts_rows: ClassVar[bool] = True

    _: KW_ONLY
    schedule: Any = described("when agents synchronise", default=Growing(2.0, 16))
    reward_weight: Positive = described("w, weight of the reward in a row", default=math.sqrt(0.5))
    personal: bool = described("add all own raw rows to the others' releases: weaker neighbours", default=False)
    local_raw: bool = described("use own raw rows since the last synchronisation: weaker neighbours", default=False)
    row_information: Positive | None = described("smallest second moment of a context, for the weights", default=None)
    outstanding: Natural = described("decisions under way when a release falls due", default=0)

    def __post_init__(self) -> None:
        if self.personal and self.local_raw:
            raise SpecError("personal already uses all own rows", path="local_raw", given=True, allowed="false")
        super().__post_init__()
        self.check_raw_trigger(False)

    @property
    def uses_local(self) -> bool:
        return self.personal or self.local_raw

    @property
    def keeps_local(self) -> bool:
        return self.personal

    @property
    def released(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*super().released, "own") if self.personal else super().released

    @cached_property
    def sums(self) -> RunningSum:
        return BatchSum(
            shape="symmetric",
            dimension=self.dimension + 1,
            bound=self.row_bound,
            epsilon=self.epsilon,
            delta=self.delta,
        )

    @cached_property
    def times(self) -> list[int] | None:
        """Ends of the batches: what the schedule says, less the rounds that are under way when a release falls due."""
        times = self.protocol.times(self.horizon, self.agents, self.dimension)
        early = math.ceil(self.outstanding / self.agents)
        return None if times is None else [time - early for time in times if time > early]

    @property
    def room(self) -> int:
        return max(self.syncs, 1)

    def guarantee(self) -> Guarantee:
        return Guarantee.approximate(
            self.epsilon,
            self.delta,
            model="federated",
            unit="one interaction of one agent",
            neighbours=self.neighbours,
            notes=(
                *self.notes(),
                "released Gram matrices are turned into precisions direction by direction after the noise; directions "
                "with an eigenvalue at or below zero carry none, so the result is positive definite",
                "which rounds a batch holds follows from the schedule; that and the number of its rows are public",
            ),
        )

    def start(self) -> State:
        width = self.dimension + 1
        return super().start() | {
            "taken": np.zeros((), np.int64),
            "rows": np.zeros(self.agents, np.int64),
            "own": np.zeros((self.agents if self.personal else 0, width, width)),
        }

    def take_row(self, state: State, agent: int, context: Floats, reward: float) -> None:
        super().take_row(state, agent, context, reward)
        state["rows"][agent] += 1

    def takes(self, state: State, feedback: Feedback) -> bool:
        """Rounds come in their order, each once; what belongs to a released batch changes nothing."""
        if feedback.index < int(state["taken"]):
            return False
        block = self.block(state)
        if block is not None and feedback.index >= block.stop:
            raise InputError(
                "this round belongs to a later batch",
                path="feedback.index",
                given=feedback.index,
                allowed=f"rounds below {block.stop}",
                fix="release the batch that is open first",
            )
        state["taken"][...] = feedback.index + 1
        return True

    # Releases -----------------------------------------------------------------------------------------------------

    def block(self, state: State) -> Block | None:
        made, stop = int(state["syncs"]), int(state["next"])
        if made >= self.syncs or stop == NEVER:
            return None
        return Block(f"sync-{made}", self.decisions_after(int(state["last"])), self.decisions_after(stop))

    def due(self, state: State, settled: int) -> str | None:
        return Policy.due(self, state, settled)

    def draw(self, state: State, noise: Noise) -> State:
        self.check_room(state)
        block, after = self.block(state), copy_state(state)
        assert block is not None
        self.privatise(after, range(self.agents), noise)
        return {HEADER: block.header, "batches": nested(after, SUM)["last"], "rows": state["rows"].copy()}

    def adopt(self, state: State, block: str, value: State) -> State:
        check_header(self.block(state), block, value)
        after = copy_state(state)
        self.forget(after, range(self.agents))
        after[f"{SUM}/last"][:] = value["batches"]
        after[f"{SUM}/published"] += value["batches"]
        after["rows"][:] = value["rows"]
        self.publish(after, self.sent(after, range(self.agents)))
        return after

    def release(self, state: State, noise: Noise) -> State:
        self.check_room(state)
        block = self.block(state)
        assert block is not None
        return self.adopt(state, block.name, self.draw(state, noise))

    def forget(self, state: State, agents: Sequence[int]) -> None:
        super().forget(state, agents)
        state["rows"][list(agents)] = 0

    def published_by(self, sums: RunningSum, held: State) -> Floats:
        """What is published of a sum: its last batch."""
        assert isinstance(sums, BatchSum)
        return sums.last_batch(held)

    # Beliefs ------------------------------------------------------------------------------------------------------

    def batch_weights(self, rows: NDArray[np.int64]) -> Floats:
        """How much batches of so many rows count: n/(n0 + n)."""
        known = self.row_information or self.context_bound**2 / (12 * self.dimension)
        even = self.noise_variance(1) * self.noise_gain() / (self.reward_std**2 * known)
        return rows / (even + rows)

    def publish(self, state: State, messages: Floats) -> None:
        """Take in one batch of every agent, weighed by the rows that ``state["rows"]`` says it holds."""
        rows, weights = state["rows"], self.batch_weights(state["rows"])
        weighed = weights[:, None, None] * messages
        state["released"] += weighed.sum(axis=0)
        state["variance"] += self.noise_variance(1) * weights**2
        state["counted"] += np.array([(weights * rows).sum(), (weights**2 * rows).sum()]) / self.agents
        if state["counted"][0] > 0:
            self._believe(state, weighed, float(state["counted"][1] / state["counted"][0]))
        self.close(state)

    def close(self, state: State) -> None:
        stop = self.decisions_after(self.time_of(state))
        state["taken"][...] = max(int(state["taken"]), stop)
        state["rows"][:] = 0
        super().close(state)

    def _believe(self, state: State, weighed: Floats, share: float) -> None:
        beliefs, variance = self.beliefs(state), float(state["variance"].sum())
        if not self.personal:
            self.weighted_belief(beliefs, state["released"], variance, share)
            return
        state["own"] += weighed
        for i in range(self.agents if self.agents > 1 else 0):
            others = variance - float(state["variance"][i])
            self.weighted_belief(one_of(beliefs, i), state["released"] - state["own"][i], others, share)

    def mean_gain(self, state: State) -> Floats:
        gram, _ = self.natural(state["released"])
        values, vectors = np.linalg.eigh(gram)
        rows = max(float(state["counted"][0]), 1e-12) * self.agents
        return (vectors * np.maximum(values, 0.0)) @ vectors.T / rows / self.reward_std**2


def one_of(beliefs: Beliefs, agent: int) -> Beliefs:
    """The beliefs of one agent alone: views of the same arrays."""
    who = slice(agent, agent + 1)
    views = {name: array[who] for name, array in beliefs._asdict().items() if name != "radius"}
    return Beliefs(**views, radius=Radius(*(numbers[who] for numbers in beliefs.radius)))
