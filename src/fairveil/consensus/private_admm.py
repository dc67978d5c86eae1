"""Private ADMM: few releases of clipped gradient sums at public points, and agreement for free.

Proof. Given what was sent before, the point f is fixed. One row changes one node's sum by at most |a| + |a'| <= 2 s in
the l2 norm (2 s L1 in the l1 norm), because every row's contribution is clipped to that norm whatever f is: no solver,
no tolerance, no Jacobian, no side condition. x*x has non-negative entries and l2 norm at most |x|^2 <= 1, so two of
them differ by at most sqrt2 (l1: 2); x itself moves a sum by at most 2 (2 L1). Rows lie on an integer grid with norms
within the bound exactly, and sums are integers (`fairveil.consensus.rows`). Gaussian releases compose as mu^2,
Laplace releases as epsilon (`fairveil.consensus.release_plan`). The next point, the answer, agreement between nodes
and the safeguard are functions of releases (`fairveil.consensus.public_path`). An observer may see all messages of all
nodes; each row is at one node, so each node spends its own full budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, Strict

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.consensus.algorithm import MEASURED, PUBLIC, UNIT, Algorithm, Local, Payload, Setting
from fairveil.consensus.public_path import InnerAdmm, PublicPath, median_noise
from fairveil.consensus.release_plan import ReleasePlan
from fairveil.consensus.rows import Rows, UnitRows
from fairveil.errors import SpecError
from fairveil.fields import Count, Delta, Epsilon, OpenUnit, described
from fairveil.privacy.conversions import gdp_epsilon, gdp_mu
from fairveil.privacy.events import Event, GaussianEvent, PureEvent
from fairveil.privacy.grid import from_units
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.limits import ADDED_SHARE
from fairveil.privacy.noise import Noise
from fairveil.registry import register


def _only(reason: str, fix: str, *choices: tuple[str, object, object]) -> None:
    """Refuse the first choice (name, given, allowed) that is another than the allowed one."""
    for key, given, allowed in choices:
        if given != allowed:
            raise SpecError(reason, path=key, given=given, allowed=str(allowed).lower(), fix=fix)


@register("algorithm", "private-admm")
@configuration
class PrivateAdmm(Algorithm):
    """One linear classifier from nodes that release a curvature sum once and a clipped gradient sum a round.

    Guarantee: (epsilon, delta)-DP by Gaussian noise (default) or epsilon-DP (``definition="pure"``), federated, for one
    row of one node replaced, over all messages of all nodes in all rounds. Proof: at the top of this module.
    Cost: rounds + 1 passes over the rows; one vector a round to everybody (``flood``) or a public number of vectors to
    neighbours (``admm``). About 0.2 s for 40,000 rows of 105 columns; memory O(rows + d).
    Rounds come from public numbers unless they are given. The classifier does not depend on how rows are split, but
    with ``trim``, where few rows at a node are noise to all.

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

    epsilon: Epsilon = described("total budget of one row", example=1.0)
    delta: Delta = described("ignored by definition = pure", default=1e-5)
    definition: Literal["gaussian", "pure"] = described("of the guarantee", default="gaussian")
    slope: Annotated[float, Strict(), Field(gt=0.0, le=1.0)] = described("s, most that one row pulls", default=0.5)
    rounds: Count | Literal["iterations"] | None = described(
        "gradient releases; default by a public rule", default=None
    )
    share: OpenUnit = described("of the budget for the curvature", default=0.1)
    exchange: Literal["flood", "admm"] = described("how releases become agreement", default="flood")
    sums: Literal["own", "secure"] = described(
        "who sees the noisy sums of one node: all, or nobody", default="own", later=True
    )
    colluding: Count = described("t, nodes that may pool what they know (secure sums)", default=1, later=True)
    trim: Annotated[bool, Strict()] = described(
        "medians over nodes instead of sums: a single liar moves little (docs/guides/federation.md has the cost)",
        default=False, later=True,
    )  # fmt: skip

    def __post_init__(self) -> None:
        exchange = ("exchange", self.exchange, "flood")
        if self.secure_sums:
            wrong = (("definition", self.definition, "gaussian"), exchange, ("trim", self.trim, False))
            _only("secure sums are sums of Gaussian shares over all nodes", "use sums = own", *wrong)
        if self.trim:
            _only("a median needs the sums of all nodes at one place", "use trim = false", exchange)

    @property
    def secure_sums(self) -> bool:
        return self.sums == "secure"

    def honest(self, nodes: int) -> int:
        """Nodes whose noises together are a whole one."""
        return nodes - self.colluding if self.secure_sums else 1

    def complete(self, setting: Setting) -> PrivateAdmm:
        if self.honest(setting.nodes) < 1:
            raise SpecError(
                "all nodes may collude: nothing is left to hide", path="colluding", given=self.colluding,
                allowed=f"below the number of nodes, {setting.nodes}", fix="use sums = own",
            )  # fmt: skip
        full = replace(self, rounds=self._rounds(setting))
        full.plan(setting).event()  # refuses a budget that no grid can carry, and shares that are too small
        if self.secure_sums:
            full.plan(setting).check_sum(setting)
        return full

    def _rounds(self, setting: Setting) -> int:
        if self.rounds == "iterations":
            return setting.iterations
        if self.rounds is not None:
            return self.rounds
        noise = median_noise(setting.sizes) if self.trim else setting.nodes / self.honest(setting.nodes)
        spread = math.sqrt(noise * setting.width)
        if self.definition == "gaussian":
            mu = gdp_mu(self.epsilon, self.delta)
            return int(np.clip(round(mu * setting.rows / (15 * spread)), 8, 32))
        reach = 10 * math.sqrt(2) * math.sqrt(setting.nonzeros) * spread
        return int(np.clip(round(math.sqrt(self.epsilon * setting.rows / reach)), 3, 16))

    def plan(self, setting: Setting) -> ReleasePlan:
        if not isinstance(self.rounds, int):
            raise SpecError("the number of rounds is not known yet", path="rounds", fix="complete() first")
        return ReleasePlan.of(
            self.definition, self.epsilon, self.delta, self.slope, self.share, self.rounds, setting,
            self.honest(setting.nodes),
        )  # fmt: skip

    def iterations(self, setting: Setting) -> int:
        return self._rounds(setting) + 1

    def stated_rounds(self, setting: Setting) -> int:
        return self._rounds(setting)

    def local(self, setting: Setting, node: int) -> Local:
        inner = InnerAdmm(setting.graph) if self.exchange == "admm" else None
        plan = self.plan(setting)
        return GradientLocal(plan, PublicPath(plan, setting, inner, trim=self.trim), node, self.colluding)

    def event(self, setting: Setting | None = None, node: int = 0) -> Event:
        if setting is not None:
            return self.plan(setting).event()
        return PureEvent(self.epsilon) if self.definition == "pure" else GaussianEvent(gdp_mu(self.epsilon, self.delta))

    def guarantee(self, setting: Setting | None = None) -> Guarantee | None:
        notes = [MEASURED, PUBLIC, "all messages of all nodes in all rounds are covered; each node spends its own"]
        if self.secure_sums:
            notes.append(
                "what is seen is the sum over the nodes that take part; the promise holds against everybody else and "
                f"up to {self.colluding} of these nodes, who pool all they know, as long as nobody breaks X25519, "
                "ChaCha20 or Ed25519; each node adds a share of the noise, and an iteration is in one sum over one "
                "set of nodes"
            )
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

    def __init__(self, plan: ReleasePlan, path: PublicPath, node: int, colluding: int = 1) -> None:
        self.plan, self.path, self.node, self.colluding = plan, path, node, colluding
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

    def take_back(self, nodes: frozenset[int]) -> None:
        if self.path.inner is not None:
            super().take_back(nodes)
        self.path.take_back(nodes)

    def question(self, iteration: int) -> Floats:
        return self.path.at(self.node)

    def draw(self, iteration: int, rows: Rows, noise: Noise | None) -> Payload:
        assert noise is not None
        sums = self._exact(iteration, rows)
        return {name: self.plan.noisy(which, units, noise) for which, (name, units) in sums.items()}

    def _exact(self, iteration: int, rows: Rows) -> dict[int, tuple[str, Ints]]:
        """The integer sums of an iteration, by their place among the grids: raw, and never to be shown."""
        if self.units is None or self.units.rows is not rows:
            self.units = UnitRows(rows, self.plan.bits, self.plan.reach)
        if iteration == 1:
            first, second = self.units.moments()
            return {0: ("m", first), 1: ("v", second)}
        return {2: ("g", self.units.pulls(self.path.at(self.node), self.plan.steepest))}

    def share(self, iteration: int, rows: Rows, noise: Noise, present: int) -> Ints:
        """The numbers of an iteration with a share of the noise, one vector behind the other: for masks alone."""
        honest, sums = present - self.colluding, self._exact(iteration, rows)
        return np.concatenate([self.plan.shares(which, units, noise, honest) for which, (_, units) in sums.items()])

    def hear_sum(self, iteration: int, total: Ints | None, parties: Sequence[int]) -> None:
        """Take the sum of iteration - 1 over these nodes; None: it is void, and the step is not taken."""
        noise = len(parties) / (len(parties) - self.colluding)
        if total is None:
            self.path.take_nothing(iteration == 2)
        elif iteration == 2:
            first, second = np.split(total, 2)
            grids = self.plan.grids
            self.path.take_curvature_sum(from_units(first, grids[0]), from_units(second, grids[1]), parties, noise)
        else:
            self.path.take_gradient_sum(from_units(total, self.plan.grids[2]), parties, noise)

    def recycle(self, iteration: int) -> Payload:
        raise NotImplementedError("every message of private-admm reads the rows")

    def keep(self, iteration: int, payload: Payload | None) -> None:
        self.own[iteration] = payload
