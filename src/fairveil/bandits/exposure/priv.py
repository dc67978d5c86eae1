"""Priv-FairX-LinUCB: agents share prefix sums under a binary tree of noise."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from functools import cached_property
from typing import Literal

import numpy as np

from fairveil.bandits.exposure.belief import LEMMA_7, believe_plain
from fairveil.bandits.exposure.private import Floats, PrivatePolicy
from fairveil.configuration import configuration
from fairveil.federated.schedules import Determinant
from fairveil.privacy.conversions import gdp_mu
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.sums.base import RunningSum
from fairveil.privacy.sums.tree import TreeSum
from fairveil.registry import register
from fairveil.state import State


@register("policy", "priv-fairx")
@configuration
class PrivFairx(PrivatePolicy):
    """Fed-FairX on noisy prefix sums: every synchronisation publishes all rows so far through a tree of noise.

    Guarantee, ``sound`` (default): (epsilon, delta) federated privacy of one interaction of one agent; the tree has the
    true number of levels and exact Gaussian calibration, and the policy is frozen between synchronisations.
    ``printed``: the published variance and the agent's own raw rows between synchronisations (``local_raw``). Its
    noise is many times more than its claim needs, so the claim holds, but only with the agent's other rows fixed;
    with a raw determinant trigger it is not established.
    ``confidence``: "lemma-7" (published radius; eigenvalues by a public shift, or ``definite="floor"``) or
    "weighted" (each direction by its own noise, see `fairveil.bandits.exposure.belief`). Defaults follow the variant.
    Cost: one mu-GDP event per agent for all synchronisations. A release takes O(agents d^2), a message (d+1)^2 numbers.

    >>> policy = PrivFairx(agents=10, dimension=5, horizon=100_000, epsilon=2.0, delta=0.1, variant="printed")
    >>> round(policy.guarantee().mu, 3), policy.guarantee().neighbours.value
    (0.162, 'replace-interaction-rows-fixed')

    Reference: Solanki, Jain and Gujar, algorithms 1 and 2; corrections in docs/errata/fairx.md.
    """

    _: KW_ONLY
    variant: Literal["sound", "printed"] = "sound"
    local_raw: bool | None = None
    confidence: Literal["lemma-7", "weighted"] | None = None
    definite: Literal["shift", "floor"] = "shift"

    def __post_init__(self) -> None:
        if self.local_raw is None:
            object.__setattr__(self, "local_raw", self.variant == "printed")
        if self.confidence is None:
            object.__setattr__(self, "confidence", "lemma-7" if self.variant == "printed" else "weighted")
        super().__post_init__()
        self.check_raw_trigger(self.variant == "printed" and bool(self.local_raw))

    @property
    def uses_local(self) -> bool:
        return bool(self.local_raw)

    @cached_property
    def mu(self) -> float:
        """The Gaussian-DP parameter of all messages of one agent together."""
        if self.variant == "sound":
            return gdp_mu(self.epsilon, self.delta)
        # Printed variance of a node: 16 n (L^2+1)^2 ln(2/delta)^2 / eps^2 with n = 1 + ceil(log2 releases), over
        # rows of squared norm L^2 + 1; a row is in `levels` nodes.
        depth = 1 + math.ceil(math.log2(self.room))
        levels = int(self.room).bit_length()
        return math.sqrt(levels) * self.epsilon / (4 * math.sqrt(depth) * math.log(2 / self.delta))

    @cached_property
    def sums(self) -> RunningSum:
        size, width = self.room, self.dimension + 1
        if self.variant == "printed":
            return TreeSum(size, shape="symmetric", dimension=width, bound=self.row_bound, mu=self.mu)
        return TreeSum(
            size,
            shape="symmetric",
            dimension=width,
            bound=self.row_bound,
            epsilon=self.epsilon,
            delta=self.delta,
            refine=True,
        )

    def guarantee(self) -> Guarantee:
        facts = {"model": "federated", "unit": "one interaction of one agent", "neighbours": self.neighbours}
        lift = "released Gram matrices are made positive definite after the noise, from public numbers only: " + (
            "by directions weighted with their noise" if self.confidence == "weighted" else f"by a {self.definite}"
        )
        if self.variant == "sound":
            return Guarantee.approximate(self.epsilon, self.delta, notes=(*self.notes(), lift), **facts)
        over = (
            f"the published variance is meant for epsilon = {self.epsilon:g} at delta = {self.delta:g} but protects "
            "more: the mu stated here is exact for the symmetric (d+1) x (d+1) reading with each row inserted once"
        )
        raw = isinstance(self.protocol, Determinant) and self.protocol.raw
        trigger = ("the time of a synchronisation depends on raw rows and is visible: not established",) if raw else ()
        return Guarantee.gaussian(
            self.mu,
            self.delta,
            established=not raw,
            notes=(*self.notes(), lift, over, *trigger),
            **facts,
        )

    def publish(self, state: State, total: Floats, own: Floats | None) -> None:
        release = int(state["syncs"]) + 1
        state["released"] = total
        state["variance"][...] = self.noise_variance(release) * self.agents
        state["counted"][:] = self.time_of(state)
        if self.confidence == "weighted":
            self.weighted_belief(state, slice(None), total, float(state["variance"]), 1.0)
        else:
            shift, *radius = self.lemma_7(np.array([math.sqrt(self.noise_variance(release))]))[0]
            believe_plain(total, shift, self.facts, np.array(radius), state["prior"], state["target"], state["rule"])
        self.close(state)

    def lemma_7(self, stds: Floats) -> Floats:
        """The published confidence set at releases with these noises: the shift, then the radius rule, one row each.

        Bounds on the noise of one agent that hold for all agents and releases.
        """
        d, m = self.dimension, self.agents
        _, context, reward, weight, _ = self.compiled.rows
        rare = math.log(2 * self.room * m / self.failure)
        operator = stds * context**2 * (2 * math.sqrt(d) + 2 * math.sqrt(rare))
        vector = stds * context * reward / weight * (math.sqrt(d) + math.sqrt(2 * rare))
        if self.definite == "shift":
            shift, low, high = 2 * operator * m, operator, 3 * operator
        else:
            shift = np.zeros_like(stds)
            low, high = np.full_like(stds, self.regularisation), self.regularisation + operator
        offset = m * (self.parameter_bound * np.sqrt(high) + vector / np.sqrt(low)) / self.reward_std
        found = np.empty((len(stds), 7))
        found[:, 0], found[:, 1], found[:, 2], found[:, 3] = shift, LEMMA_7, self.width, offset
        found[:, 4], found[:, 5], found[:, 6] = 2 * math.log(2 / self.failure), high / low, 1 / (d * low)
        return found

    def planned(self, releases: int) -> Floats:
        """What `kernel.synchronise` needs of every release: tau^2, or the shift and the radius rule."""
        variances = np.array([self.noise_variance(release + 1) for release in range(releases)])
        if self.confidence == "lemma-7":
            return self.lemma_7(np.sqrt(variances))
        return (variances * self.agents * self.noise_gain())[:, None]
