"""Priv-FairX-LinUCB: agents share prefix sums under a binary tree of noise.

Lemma 7 of the paper, in its two readings, with a public shift or floor and bounds on the noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from fairveil.arrays import Floats
from fairveil.bandits.exposure.base import ExposurePolicy
from fairveil.bandits.exposure.belief import BeliefFacts, Radius, believe_plain
from fairveil.bandits.exposure.kernel import PUBLISHED, WEIGHTED, Releases
from fairveil.bandits.exposure.private import PrivatePolicy
from fairveil.configuration import configuration
from fairveil.fields import described
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise
from fairveil.privacy.sums.base import RunningSum
from fairveil.privacy.sums.tree import TreeSum
from fairveil.registry import register
from fairveil.state import State

Definite = Literal["shift", "floor"]
Confidence = Literal["weighted", "dubey-pentland", "lemma-7"]


class Federation(NamedTuple):
    """Public numbers of the lemma: agents m, dimension d, releases, and the chance that a set may miss theta*."""

    agents: int
    dimension: int
    releases: int
    failure: float


def lemma_7(
    stds: Floats, facts: BeliefFacts, federation: Federation, definite: Definite, literal: bool
) -> tuple[Floats, Radius]:
    """The shift of the Gram matrix and the radius at releases whose entries carry noise of these standard deviations.

    With Gamma a bound on the operator norm of one agent's noise and gamma on its vector, both at once for all agents
    and releases, rho_min and rho_max the public bounds on the added regularisation, z = gamma/sqrt(rho_min), and
    N = m (S sqrt(rho_max) + z) what the noise adds, the radius after t rounds, in units of precision, is

        sqrt(2 ln(2/failure) + d ln(rho_max/rho_min + t/(d rho_min)) + N)          as lemma 7 is printed (``literal``),
        N/R + sqrt(2 ln(2/failure) + d ln(rho_max/rho_min + t/(d rho_min)))        as Dubey and Pentland (2020) have it.

    ``shift`` adds 2 Gamma m to the diagonal (rho in [Gamma, 3 Gamma]); ``floor`` lifts eigenvalues to lambda instead.
    """
    d, m = federation.dimension, federation.agents
    rare = math.log(2 * federation.releases * m / federation.failure)
    operator = stds * facts.gram * (2 * math.sqrt(d) + 2 * math.sqrt(rare))
    vector = stds * facts.moment * (math.sqrt(d) + math.sqrt(2 * rare))
    if definite == "shift":
        shift, low, high = 2 * operator * m, operator, 3 * operator
    else:
        shift = np.zeros_like(stds)
        low, high = np.full_like(stds, facts.regularisation), facts.regularisation + operator
    added = m * (facts.bound * np.sqrt(high) + vector / np.sqrt(low))
    level = np.full_like(stds, 2 * math.log(2 / federation.failure))
    none = np.zeros_like(stds)
    offset, level = (none, level + added) if literal else (added / math.sqrt(facts.variance), level)
    return shift, Radius(offset, level, none, high / low, 1 / (d * low))


@configuration
class PrivFairxForm(PrivatePolicy):
    """What all forms share: prefix sums, and the confidence sets that are made of them."""

    _: KW_ONLY
    variant: str = described("the form of the algorithm", default="")
    local_raw: bool = described("use own raw rows since the last synchronisation: weaker neighbours", default=False)
    confidence: Confidence = described("how confidence sets are made", default="weighted")
    definite: Definite = described("how lemma 7 makes Gram matrices positive definite", default="shift")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_raw_trigger(False)

    @property
    def uses_local(self) -> bool:
        return self.local_raw

    def definite_note(self) -> str:
        """How released Gram matrices are made positive definite, in words."""
        return "released Gram matrices are made positive definite after the noise, from public numbers only: " + (
            "by directions weighted with their noise" if self.confidence == "weighted" else f"by a {self.definite}"
        )

    def publish(self, state: State, messages: Floats, present: Sequence[int] | None = None) -> None:
        """The prefixes of those present; one who is away counts again, with all its rows, once it is back."""
        release, beliefs = int(state["syncs"]) + 1, self.beliefs(state)
        state["released"] = messages.sum(axis=0)
        state["variance"][:] = 0.0
        state["variance"][self.who(present)] = self.noise_variance(release)
        state["counted"][:] = self.time_of(state)
        if self.confidence == "weighted":
            self.weighted_belief(beliefs, state["released"], float(state["variance"].sum()), 1.0)
        else:
            shifts, radius = self.published_sets(np.array([math.sqrt(self.noise_variance(release))]))
            for kept, number in zip(beliefs.radius, radius):
                kept[:] = number[0]
            believe_plain(state["released"], float(shifts[0]), self.facts, beliefs)
        self.close(state, present)

    def published_sets(self, stds: Floats) -> tuple[Floats, Radius]:
        """Shift and radius of lemma 7, in this policy's reading, at releases with these noises."""
        federation = Federation(self.agents, self.dimension, self.room, self.failure)
        return lemma_7(stds, self.facts, federation, self.definite, self.confidence == "lemma-7")

    def planned(self, rounds: int, noise: Noise) -> Releases | None:
        known = ExposurePolicy.planned(self, rounds, noise)
        if known is None or not len(known.times):
            return known
        first, second = self.running.grid.upper
        path = self.running.joint_noise_path(noise, len(known.times), self.agents)
        known = known._replace(noise=path, first=first, second=second, quantiles=self.quantiles)
        variances = np.array([self.noise_variance(release + 1) for release in range(len(known.times))])
        if self.confidence == "weighted":
            return known._replace(kind=WEIGHTED, spread=variances * self.agents * self.noise_gain())
        shift, radius = self.published_sets(np.sqrt(variances))
        return known._replace(kind=PUBLISHED, spread=shift, radius=radius)


@register("policy", "priv-fairx")
@configuration
class PrivFairx(PrivFairxForm):
    """Fed-FairX on noisy prefix sums: every synchronisation publishes all rows so far through a tree of noise.

    Guarantee: (epsilon, delta) federated privacy of one interaction of one agent; the tree has the true number of
    levels and exact Gaussian calibration, and the policy is frozen between synchronisations. ``local_raw=True``: own
    raw rows since the last synchronisation are used; the promise then holds with the agent's other rows fixed.
    ``confidence``: "weighted" (each direction by its own noise, see `fairveil.bandits.exposure.belief`), "lemma-7" (as
    printed, no valid confidence set) or "dubey-pentland" (the lemma it comes from); the last two make eigenvalues
    positive by a public shift, or ``definite="floor"``. Late rewards enter the next leaf.
    Cost: one mu-GDP event per agent for all synchronisations. A release takes O(agents d^2), a message (d+1)^2 numbers.

    >>> policy = PrivFairx(agents=10, dimension=5, horizon=100_000, epsilon=2.0, delta=0.1)
    >>> round(policy.running.expected_std(1), 2), policy.guarantee().neighbours.value
    (5.67, 'replace-interaction')

    Reference: Solanki, Jain and Gujar, algorithms 1 and 2; corrections in docs/errata/fairx.md.
    """

    _: KW_ONLY
    variant: Literal["sound"] = described("sound, printed, or the reading dubey-pentland", default="sound")

    @classmethod
    def example(cls) -> Any:
        return cls(agents=3, dimension=2, horizon=200, epsilon=1.0, delta=1e-5, schedule="doubling")

    @cached_property
    def running(self) -> RunningSum:
        return TreeSum(
            self.room,
            shape="symmetric",
            dimension=self.dimension + 1,
            bound=self.row_bound,
            epsilon=self.epsilon,
            delta=self.delta,
            refine=True,
        )

    def guarantee(self) -> Guarantee:
        return Guarantee.approximate(
            self.epsilon,
            self.delta,
            model="federated",
            unit="one interaction of one agent",
            neighbours=self.neighbours,
            notes=(*self.notes(), self.definite_note()),
        )
