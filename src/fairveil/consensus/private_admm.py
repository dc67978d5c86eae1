"""Private ADMM: few releases of clipped gradient sums at public points, and agreement for free.

Proof. Given what was sent before, the point f is fixed. One row changes one node's sum by at most |a| + |a'| <= 2 s in
the l2 norm (2 s L1 in the l1 norm), because every row's contribution is clipped to that norm whatever f is: no solver,
no tolerance, no Jacobian, no side condition. x*x has non-negative entries and l2 norm at most |x|^2 <= 1, so two of
them differ by at most sqrt2 (l1: 2); x itself moves a sum by at most 2 (2 L1). Rows lie on an integer grid with norms
within the bound exactly, and sums are integers (`fairveil.consensus.clipped_sums`). Gaussian releases compose as mu^2,
Laplace releases as epsilon (`fairveil.consensus.release_plan`). The next point, the answer, agreement between nodes
and the safeguard are functions of releases (`fairveil.consensus.public_path`). An observer may see all messages of all
nodes; each row is at one node, so each node spends its own full budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, Strict

from fairveil.configuration import configuration
from fairveil.consensus.algorithm import MEASURED, PUBLIC, UNIT, Algorithm, Floats, Local, Payload
from fairveil.consensus.clipped_sums import UnitRows
from fairveil.consensus.exchange import InnerAdmm
from fairveil.consensus.public_path import PublicPath
from fairveil.consensus.release_plan import ReleasePlan
from fairveil.consensus.rows import Rows
from fairveil.consensus.schedule import Setting
from fairveil.errors import SpecError
from fairveil.fields import Count, Delta, Epsilon, OpenUnit, described
from fairveil.privacy.conversions import gdp_epsilon, gdp_mu
from fairveil.privacy.events import Event, GaussianEvent, PureEvent
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.limits import ADDED_SHARE
from fairveil.privacy.noise import Noise
from fairveil.registry import register


@register("algorithm", "private-admm")
@configuration
class PrivateAdmm(Algorithm):
    """One linear classifier from nodes that release a curvature sum once and a clipped gradient sum a round.

    Guarantee: (epsilon, delta)-DP by Gaussian noise (default) or epsilon-DP (``definition="pure"``), federated, for one
    row of one node replaced, over all messages of all nodes in all rounds. Proof: at the top of this module.
    Cost: rounds + 1 passes over the rows; one vector a round to everybody (``flood``) or a public number of vectors to
    neighbours (``admm``). About 0.2 s for 40,000 rows of 105 columns; memory O(rows + d).
    Rounds come from public numbers unless they are given. The classifier does not depend on how rows are split.

    >>> import fairveil
    >>> result = fairveil.run({"task": "consensus", "algorithm": {"name": "private-admm", "epsilon": 1.0},
    ...                        "data": {"name": "logistic", "rows": 5000, "features": 5, "test": 500}})
    >>> result["guarantee"]["epsilon"], result["guarantee"]["established"]
    (1.0, True)

    Reference: docs/guides/consensus.md; the loss is the logistic one with its slope clipped.
    """

    private = True
    everybody = True
    gapless = True

    epsilon: Epsilon = described("total budget of one row")
    delta: Delta = described("ignored by definition = pure", default=1e-5)
    definition: Literal["gaussian", "pure"] = described("of the guarantee", default="gaussian")
    slope: Annotated[float, Strict(), Field(gt=0.0, le=1.0)] = described("s, most that one row pulls", default=0.5)
    rounds: Count | Literal["iterations"] | None = described(
        "gradient releases; default by a public rule", default=None
    )
    share: OpenUnit = described("of the budget for the curvature", default=0.1)
    exchange: Literal["flood", "admm"] = described("how releases become agreement", default="flood")

    @classmethod
    def example(cls) -> PrivateAdmm:
        return cls(epsilon=1.0)

    def complete(self, setting: Setting) -> PrivateAdmm:
        full = replace(self, rounds=self._rounds(setting))
        full.plan(setting).scales  # noqa: B018  refuses a budget that no grid can carry
        return full

    def _rounds(self, setting: Setting) -> int:
        if self.rounds == "iterations":
            return setting.iterations
        if self.rounds is not None:
            return self.rounds
        spread = math.sqrt(setting.nodes * setting.width)
        if self.definition == "gaussian":
            mu = gdp_mu(self.epsilon, self.delta)
            return int(np.clip(round(mu * setting.rows / (15 * spread)), 8, 32))
        reach = 10 * math.sqrt(2) * math.sqrt(setting.nonzeros) * spread
        return int(np.clip(round(math.sqrt(self.epsilon * setting.rows / reach)), 3, 16))

    def plan(self, setting: Setting) -> ReleasePlan:
        if not isinstance(self.rounds, int):
            raise SpecError("the number of rounds is not known yet", path="rounds", fix="complete() first")
        return ReleasePlan.of(self.definition, self.epsilon, self.delta, self.slope, self.share, self.rounds, setting)

    def iterations(self, setting: Setting) -> int:
        return self._rounds(setting) + 1

    def local(self, setting: Setting, node: int) -> Local:
        inner = InnerAdmm(setting.graph) if self.exchange == "admm" else None
        plan = self.plan(setting)
        return GradientLocal(plan, PublicPath(plan, setting, inner), node)

    def event(self, setting: Setting | None = None, node: int = 0) -> Event:
        if setting is not None:
            return self.plan(setting).event()
        return PureEvent(self.epsilon) if self.definition == "pure" else GaussianEvent(gdp_mu(self.epsilon, self.delta))

    def guarantee(self, setting: Setting | None = None) -> Guarantee | None:
        notes = [MEASURED, PUBLIC, "all messages of all nodes in all rounds are covered; each node spends its own"]
        if self.definition == "pure":
            notes.append("the most nonzero entries of an encoded row is a fact of the public schema")
        elif setting is not None and self.delta >= 1 / min(setting.sizes):
            notes.append("delta is not below one over the smallest node: it allows publishing a whole row")
        facts: dict[str, Any] = {
            "model": "federated", "unit": UNIT, "neighbours": "replace-row", "notes": tuple(notes),
        }  # fmt: skip
        if self.definition == "pure":
            return Guarantee.pure(self.epsilon, **facts)
        return Guarantee.approximate(self.epsilon, self.delta, **facts)

    def privacy_loss(self, setting: Setting) -> tuple[list[float | None], list[float | None]]:
        plan = self.plan(setting)
        spent = [plan.spent(iteration) for iteration in range(1, plan.rounds + 2)]
        # the part of delta that pays for the grid of the noise is not there for the Gaussian law
        delta = self.delta * (1 - ADDED_SHARE)
        loss = spent if self.definition == "pure" else [gdp_epsilon(mu, delta) for mu in spent]
        return [min(value, self.epsilon) for value in loss], [None] * len(loss)

    def traffic(self, setting: Setting) -> tuple[int, int]:
        edges, rounds = int(setting.graph.degrees.sum()), self._rounds(setting)
        vector = 8 * setting.width
        flooded = setting.nodes * edges
        if self.exchange == "flood":
            return flooded * (rounds + 1), flooded * (rounds + 2) * vector
        inner = InnerAdmm(setting.graph).rounds * edges * rounds
        return flooded + inner, (2 * flooded + inner) * vector


class GradientLocal(Local):
    """One node: the public path, and the two kinds of sums it releases."""

    def __init__(self, plan: ReleasePlan, path: PublicPath, node: int) -> None:
        self.plan, self.path, self.node = plan, path, node
        self.own: dict[int, Payload | None] = {}
        self.units: UnitRows | None = None

    @property
    def weights(self) -> Floats:
        return self.path.answer(self.node)

    def reads(self, iteration: int) -> bool:
        return True

    def hear(self, iteration: int, inbox: Mapping[int, Payload], absent: frozenset[int]) -> None:
        self.path.leave_out(absent)
        if iteration == 1:
            return
        mine = self.own.pop(iteration - 1, None)
        everybody = dict(inbox) if mine is None else {**inbox, self.node: mine}
        if iteration == 2:
            self.path.take_curvature(everybody)
        else:
            self.path.take_gradient(everybody)

    def question(self, iteration: int) -> Floats:
        return self.path.at(self.node)

    def draw(self, iteration: int, rows: Rows, noise: Noise | None) -> Payload:
        assert noise is not None
        if self.units is None or self.units.rows is not rows:
            self.units = UnitRows(rows, self.plan.bits, self.plan.reach)
        if iteration == 1:
            first, second = self.units.moments()
            return {"m": self.plan.noisy(0, first, noise), "v": self.plan.noisy(1, second, noise)}
        pulls = self.units.pulls(self.path.at(self.node), self.plan.steepest)
        return {"g": self.plan.noisy(2, pulls, noise)}

    def recycle(self, iteration: int) -> Payload:
        raise NotImplementedError("every message of private-admm reads the rows")

    def keep(self, iteration: int, payload: Payload | None) -> None:
        self.own[iteration] = payload
