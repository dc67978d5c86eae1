"""Batched-Priv-FairX: agents publish disjoint growing batches, each row in exactly one noisy release."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from functools import cached_property
from typing import Any

import numpy as np

from fairveil.bandits.exposure.private import Floats, PrivatePolicy
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.federated.schedules import Growing
from fairveil.fields import Positive
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.sums.base import RunningSum
from fairveil.privacy.sums.batch import BatchSum
from fairveil.registry import register
from fairveil.state import State


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
    How batches are weighed: a batch of n rows counts n/(n0 + n), where n0 is the size at which reward noise equals
    privacy noise for rows with ``row_information`` as smallest second moment (by default that of the uniform cube,
    L^2/(12 d)); a wrong guess costs accuracy, never privacy. ``reward_weight`` = sqrt(1/2) minimises the noise of
    u - G theta when |theta| = 1: (1 + w^2)^2 (1 + 1/w^2) is smallest there.
    Cost: one mu-GDP event per agent for ever. Thirteen synchronisations instead of 20,002 at T = 100,000.

    >>> policy = BatchedPrivFairx(agents=10, dimension=5, horizon=100_000, epsilon=2.0, delta=0.1)
    >>> policy.syncs < 200, policy.guarantee().neighbours.value
    (True, 'replace-interaction')

    Reference: disjoint batches as in docs/guarantees/sums.md; the setting is Solanki, Jain and Gujar's.
    """

    _: KW_ONLY
    schedule: Any = Growing(2.0, 16)
    reward_weight: Positive = math.sqrt(0.5)
    personal: bool = False
    local_raw: bool = False
    row_information: Positive | None = None

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

    @cached_property
    def sums(self) -> RunningSum:
        return BatchSum(
            shape="symmetric",
            dimension=self.dimension + 1,
            bound=self.row_bound,
            epsilon=self.epsilon,
            delta=self.delta,
        )

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
            ),
        )

    def start(self) -> State:
        state = super().start()
        width = self.dimension + 1
        return state | {"own": np.zeros((self.agents if self.personal else 0, width, width))}

    def sent(self, state: State, agent: int) -> Floats:
        assert isinstance(self.sums, BatchSum)
        return self.sums.last_batch(self._own_sum(state, agent))

    def batch_weight(self, rows: int) -> float:
        """How much a batch of this many rows of one agent counts."""
        known = self.row_information or self.context_bound**2 / (12 * self.dimension)
        even = self.noise_variance(1) * self.noise_gain() / (self.reward_std**2 * known)
        return rows / (even + rows)

    def publish(self, state: State, total: Floats, own: Floats | None) -> None:
        rows = self.time_of(state) - int(state["last"])
        weight = self.batch_weight(rows)
        each = self.noise_variance(1) * weight**2
        state["released"] += weight * total
        state["variance"] += each * self.agents
        state["counted"] += np.array([weight * rows, weight**2 * rows])
        share = state["counted"][1] / state["counted"][0]
        if self.personal:
            assert own is not None
            state["own"] += weight * own
            others = float(state["variance"]) * (self.agents - 1) / self.agents
            for i in range(self.agents if self.agents > 1 else 0):
                self.weighted_belief(state, slice(i, i + 1), state["released"] - state["own"][i], others, share)
        else:
            self.weighted_belief(state, slice(None), state["released"], float(state["variance"]), share)
        self.close(state)

    def mean_gain(self, state: State) -> Floats:
        gram, _ = self.natural(state["released"])
        values, vectors = np.linalg.eigh(gram)
        rows = max(float(state["counted"][0]), 1e-12) * self.agents
        return (vectors * np.maximum(values, 0.0)) @ vectors.T / rows / self.reward_std**2
