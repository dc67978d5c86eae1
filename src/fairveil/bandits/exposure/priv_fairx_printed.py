"""Priv-FairX-LinUCB with the published variance: lemma 7 as printed, and as its source has it."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from functools import cached_property
from typing import Any, Literal

from fairveil.bandits.exposure.priv_fairx import Confidence, PrivFairxForm
from fairveil.configuration import configuration
from fairveil.federated.schedules import Determinant
from fairveil.fields import described
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.sums.base import RunningSum
from fairveil.privacy.sums.tree import TreeSum
from fairveil.registry import register


@configuration
class PublishedPrivFairx(PrivFairxForm):
    """What both readings of lemma 7 share: the published variance, and own raw rows."""

    _: KW_ONLY
    local_raw: bool = described("use own raw rows since the last synchronisation", default=True)

    @classmethod
    def example(cls) -> Any:
        # A budget at which the published variance, far larger than needed, leaves an audit something to see.
        return cls(agents=3, dimension=2, horizon=200, epsilon=4.0, delta=0.1, schedule="doubling")

    def check_raw_trigger(self, allowed: bool) -> None:
        super().check_raw_trigger(self.local_raw)

    @cached_property
    def mu(self) -> float:
        """The Gaussian-DP parameter of all messages of one agent together: a row is in ``levels`` nodes."""
        depth = 1 + math.ceil(math.log2(self.room))
        levels = int(self.room).bit_length()
        return math.sqrt(levels) * self.epsilon / (4 * math.sqrt(depth) * math.log(2 / self.delta))

    @cached_property
    def running(self) -> RunningSum:
        return TreeSum(self.room, shape="symmetric", dimension=self.dimension + 1, bound=self.row_bound, mu=self.mu)

    def guarantee(self) -> Guarantee:
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
            model="federated",
            unit="one interaction of one agent",
            neighbours=self.neighbours,
            notes=(*self.notes(), self.definite_note(), over, *trigger),
        )


@register("policy", "priv-fairx", variant="printed")
@configuration
class PrivFairxPrinted(PublishedPrivFairx):
    """Priv-FairX as printed: its variance, lemma 7 to the letter, and an agent's own raw rows between synchronisations.

    All four terms of the radius stand under one root, which leaves theta* outside the set far more often than stated
    (privacy does not depend on it); ``variant="dubey-pentland"`` is the reading with a valid set.

    Guarantee: mu-GDP with the agent's other rows fixed. The published variance of a node,
    16 n (L^2+1)^2 ln(2/delta)^2 / eps^2 with n = 1 + ceil(log2 releases), is many times what its claim needs, so the
    claim holds and the exact mu is stated; with a raw determinant trigger nothing is established.
    Cost: one mu-GDP event per agent for all synchronisations. A release takes O(agents d^2), a message (d+1)^2 numbers.

    >>> policy = PrivFairxPrinted(agents=10, dimension=5, horizon=100_000, epsilon=2.0, delta=0.1)
    >>> round(policy.guarantee().mu, 3), policy.guarantee().neighbours.value
    (0.162, 'replace-interaction-rows-fixed')

    Reference: Solanki, Jain and Gujar, algorithms 1 and 2, lemma 7; findings in docs/errata/fairx.md.
    """

    _: KW_ONLY
    variant: Literal["printed"] = described("the printed algorithm", default="printed")
    confidence: Confidence = described("how confidence sets are made", default="lemma-7")


@register("policy", "priv-fairx", variant="dubey-pentland")
@configuration
class PrivFairxDubeyPentland(PublishedPrivFairx):
    """Priv-FairX as printed but for lemma 7, which is read as proposition 2 of Dubey and Pentland (2020) has it.

    What the noise adds stands outside the root: a valid confidence set, and at the paper's setting a radius 240 times
    larger. Guarantee, noise and messages are those of ``variant="printed"``.
    Cost: one mu-GDP event per agent for all synchronisations. A release takes O(agents d^2), a message (d+1)^2 numbers.

    >>> policy = PrivFairxDubeyPentland(agents=10, dimension=5, horizon=100_000, epsilon=2.0, delta=0.1)
    >>> round(policy.guarantee().mu, 3), policy.confidence
    (0.162, 'dubey-pentland')

    Reference: Solanki, Jain and Gujar, lemma 7; findings in docs/errata/fairx.md.
    """

    _: KW_ONLY
    variant: Literal["dubey-pentland"] = described("the reading of lemma 7", default="dubey-pentland")
    confidence: Confidence = described("how confidence sets are made", default="dubey-pentland")
