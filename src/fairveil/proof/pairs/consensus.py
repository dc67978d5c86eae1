"""Neighbouring worlds of consensus algorithms, as somebody sees them who reads all messages.

Two nodes; one row of node 0 points up or down (its label stays), so the mean and every gradient move as far as they
may. The statistic is the log-likelihood ratio of all messages of node 0: at every iteration the observer knows the
public point and both candidate data sets, and compares how likely the message is under each. The served methods run:
`Local` objects with their own noise, no copy of an algorithm. Rows have one nonzero entry, so pure noise is Laplace
noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.consensus.algorithm import Algorithm, Local, Payload, Setting
from fairveil.consensus.family import AdmmLocal
from fairveil.consensus.graphs import make_graph
from fairveil.consensus.perturbation import Objective, PrintedObjective
from fairveil.consensus.private import PrivateFamily
from fairveil.consensus.private_admm import GradientLocal, PrivateAdmm
from fairveil.consensus.release_plan import ReleasePlan
from fairveil.consensus.rows import PULL_BITS, Rows, UnitRows
from fairveil.privacy.noise import Noise, ZeroNoise
from fairveil.proof import AuditPair
from fairveil.proof.engine.bounds import FinerClaim
from fairveil.randomness import Generator
from fairveil.registry import register

TEN = 10
FEW, MANY = 200, 6_000
"""Trials of pairs that run whole conversations, and of those that read one message (half of its noise shows)."""
SIDE_BY_SIDE = 40_000
"""Trials of one round of `private-admm`."""
LONG = 3.0
"""Length of the row in question before it is clipped to 1."""
FAR, TILT = 40.0, 0.15
"""Weights that a neighbour sends, and how far the row in question leans against them: it is wrong in both worlds."""
WORLDS = "one row of node 0 points along the first axis, or against it"
STATISTIC = "log-likelihood ratio of all messages"


def rows_of(world: int) -> Rows:
    """Node 0: a row that agrees with nobody, and the row in question."""
    side = LONG if world == 0 else -LONG
    return Rows.dense([[0.0, 1.0], [side, 0.0]], [1.0, 1.0])


def others() -> Rows:
    """Node 1, the same in both worlds."""
    return Rows.dense([[1.0, 0.0], [0.0, -1.0]], [1.0, -1.0])


@dataclass(frozen=True)
class TwoNodes:
    """A completed algorithm on two nodes, and both candidates of node 0 as the observer knows them."""

    algorithm: Algorithm
    setting: Setting

    @classmethod
    def of(cls, algorithm: Algorithm, iterations: int, nonzeros: int = 1) -> TwoNodes:
        setting = Setting(make_graph("star", 2), (2, 2), 2, nonzeros, iterations)
        return cls(algorithm.complete(setting), setting)

    def run(self, world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        """One whole run of both nodes a trial."""
        known = rows_of(0), rows_of(1)
        parts = (known[world], others())
        units = [on_grid(self.algorithm, self.setting, rows) for rows in (*known, parts[1])]
        start = [self.algorithm.local(self.setting, node) for node in (0, 1)]
        shared = {id(part): part for local in start for part in _constant(local)}
        found = np.empty(trials)
        for trial in range(trials):
            fresh = [deepcopy(local, dict(shared)) for local in start]
            for local, grid in zip(fresh, (units[world], units[2])):
                if isinstance(local, GradientLocal):
                    local.units = grid
            found[trial] = self._trial(fresh, parts, known, units, noise)
        return found

    def _trial(
        self,
        locals_: list[Local],
        parts: tuple[Rows, Rows],
        known: tuple[Rows, Rows],
        units: list[UnitRows | None],
        noise: Noise,
    ) -> float:
        inbox: list[dict[int, Payload]] = [{}, {}]
        ratio = 0.0
        for iteration in range(1, self.algorithm.iterations(self.setting) + 1):
            sent = []
            for node, local in enumerate(locals_):
                local.hear(iteration, inbox[node], frozenset())
                if local.reads(iteration):
                    sent.append(local.draw(iteration, parts[node], noise))
                else:
                    sent.append(local.recycle(iteration))
                local.keep(iteration, sent[-1])
            if locals_[0].reads(iteration):
                ratio += likelihood_ratio(locals_[0], iteration, sent[0], known, units)
            inbox = [{1: sent[1]}, {0: sent[0]}]
        return ratio


def _constant(local: Local) -> tuple[Any, ...]:
    """What a run never changes: shared by all trials instead of copied."""
    if isinstance(local, GradientLocal):
        return local.plan, local.path.setting
    assert isinstance(local, AdmmLocal)
    return local.algorithm, local.schedule, local.perturbation


def on_grid(algorithm: Algorithm, setting: Setting, rows: Rows) -> UnitRows | None:
    """The rows as `private-admm` sums them; None for other algorithms."""
    if not isinstance(algorithm, PrivateAdmm):
        return None
    plan = algorithm.plan(setting)
    return UnitRows(rows, plan.bits, plan.reach)


def likelihood_ratio(
    local: Local, iteration: int, payload: Payload, known: tuple[Rows, Rows], units: list[UnitRows | None]
) -> float:
    """log p(message | world 0) - log p(message | world 1), at the public point where it was made."""
    if isinstance(local, AdmmLocal):
        return _of_solution(local, iteration, payload, known)
    assert isinstance(local, GradientLocal)
    sums = [one for one in units[:2] if one is not None]
    names = {0: "m", 1: "v"} if iteration == 1 else {2: "g"}
    total = 0.0
    for which, name in names.items():
        centres = [centre(local.plan, one, which, local.path.at(0)) for one in sums]
        total += float(ratio_of(local.plan, which, np.asarray(payload[name])[None, :], centres)[0])
    return total


def centre(plan: ReleasePlan, rows: UnitRows, which: int, point: Floats) -> Floats:
    """What is released before its noise, in the data's own units (0: m, 1: v, 2: g)."""
    units = rows.pulls(point, plan.steepest) if which == 2 else rows.moments()[which]
    return np.ldexp(units.astype(np.float64), -(plan.bits, 2 * plan.bits, plan.bits + PULL_BITS)[which])


def ratio_of(plan: ReleasePlan, which: int, seen: Floats, centres: list[Floats]) -> Floats:
    """Log-likelihood ratio of released sums, one row a trial."""
    scale = np.ldexp(plan.scales[which], -plan.grids[which])
    gaps = [seen - middle for middle in centres]
    if plan.definition == "gaussian":
        return ((gaps[1] ** 2).sum(1) - (gaps[0] ** 2).sum(1)) / (2 * scale**2)
    return (np.abs(gaps[1]).sum(1) - np.abs(gaps[0]).sum(1)) / scale


def _of_solution(local: AdmmLocal, iteration: int, payload: Payload, known: tuple[Rows, Rows]) -> float:
    """Density of the solution: that of the noise it belongs to, times the determinant of the Hessian."""
    eta = local.schedule.penalty[iteration - 1, local.node]
    dual, reach = local.used
    kappa = local.ridge + 2 * eta * len(local.neighbours)
    held = local.perturbation
    rate = held.rates[iteration - 1] if isinstance(held, Objective | PrintedObjective) else 0.0
    found = np.asarray(payload["f"])
    logs = []
    for rows in known:
        gradient, bend = rows.curvature(found, local.algorithm.loss_function)
        noise = local.scale * gradient + kappa * found + 2 * dual - eta * reach
        _, log = np.linalg.slogdet(local.scale * bend + kappa * np.eye(len(found)))
        logs.append(log - rate * float(np.linalg.norm(noise)))
    return float(logs[0] - logs[1])


def _pair(scene: TwoNodes, epsilon: float, delta: float, finer: FinerClaim | None) -> AuditPair:
    return AuditPair(scene.run, WORLDS, STATISTIC, epsilon, delta, finer, trials=FEW)


def run_one_round(scene: TwoNodes, world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
    """Curvature and first gradient of node 0, made at a public point that no noise has touched, and their parts."""
    assert isinstance(scene.algorithm, PrivateAdmm)
    local, rows = scene.algorithm.local(scene.setting, 0), rows_of(world)
    sent = [{**local.draw(1, rows, noise), **local.draw(2, rows, noise)} for _ in range(trials)]
    seen = [np.array([message[name] for message in sent]) for name in "mvg"]
    return ratios_at_zero(scene.algorithm.plan(scene.setting), scene.setting, seen)


def ratios_at_zero(plan: ReleasePlan, setting: Setting, seen: list[Floats]) -> Floats:
    """Log-likelihood ratios of node 0's curvature and first gradient: of all that is seen, and of each part."""
    start, known = np.zeros(setting.width), [UnitRows(rows_of(world), plan.bits, plan.reach) for world in (0, 1)]
    parts = [
        ratio_of(plan, which, part, [centre(plan, one, which, start) for one in known])
        for which, part in enumerate(seen)
    ]
    return np.stack([sum(parts), *parts], axis=1)


def _claim(algorithm: PrivateAdmm, scene: TwoNodes) -> tuple[float, float, FinerClaim | None]:
    if algorithm.definition == "pure":
        return algorithm.epsilon, 0.0, None
    assert isinstance(scene.algorithm, PrivateAdmm)
    return algorithm.epsilon, algorithm.delta, FinerClaim("mu", scene.algorithm.plan(scene.setting).total)


@register("audit-pair", "algorithm:private-admm")
def private_admm_pair(algorithm: PrivateAdmm) -> AuditPair:
    """Curvature and one gradient, whose slope would be five times as steep as allowed if nobody clipped it."""
    # Gaussian sums have no use for the bound on a row's l1 norm: a wide one leaves all clipping to the l2 norm.
    scene = TwoNodes.of(replace(algorithm, rounds=1, slope=0.1), 1, 16 if algorithm.definition == "gaussian" else 1)
    return AuditPair(partial(run_one_round, scene), WORLDS, STATISTIC, *_claim(algorithm, scene), trials=SIDE_BY_SIDE)


@register("audit-pair", "algorithm:private-admm/ten")
def private_admm_ten(algorithm: PrivateAdmm) -> AuditPair:
    """Curvature and ten gradients, each at the point that the noisy ones before led to."""
    scene = TwoNodes.of(replace(algorithm, rounds=TEN), TEN)
    return _pair(scene, *_claim(algorithm, scene))


def run_secure(
    algorithm: PrivateAdmm, setting: Setting, world: int, trials: int, noise: Noise, rng: Generator
) -> Floats:
    """Sums of curvature and first gradient without what colluders and the observer know: node 0 under honest shares."""
    plan, nodes = algorithm.plan(setting), setting.nodes
    local, rows = algorithm.local(setting, 0), (rows_of(world), others())
    assert isinstance(local, GradientLocal)

    def sent(part: Rows, source: Noise) -> Ints:
        return np.concatenate([local.share(iteration, part, source, nodes) for iteration in (1, 2)])

    honest = nodes - algorithm.colluding - 1
    sums = np.tile(-honest * sent(rows[1], ZeroNoise()), (trials, 1))
    for total in sums:
        total += sent(rows[0], noise) + sum(sent(rows[1], noise) for _ in range(honest))
    parts = zip(np.split(sums, 3, axis=1), plan.grids, strict=True)
    return ratios_at_zero(plan, setting, [np.ldexp(units.astype(np.float64), -grid) for units, grid in parts])


@register("audit-pair", "algorithm:private-admm/secure")
def private_admm_secure(algorithm: PrivateAdmm) -> AuditPair:
    """What the coordinator and a colluding node learn of curvature and one gradient of secure sums over three nodes."""
    setting = Setting(make_graph("complete", 3), (2, 2, 2), 2, 16, 1)
    secure = replace(algorithm, rounds=1, slope=0.1, definition="gaussian", sums="secure", colluding=1)
    shared = secure.complete(setting)
    claim = FinerClaim("mu", shared.plan(setting).total)
    seen = "log-likelihood ratio of the sums, without all that is known"
    return AuditPair(partial(run_secure, shared, setting), WORLDS, seen, shared.epsilon, shared.delta, claim, MANY)


def _completed(algorithm: PrivateFamily, iterations: int) -> tuple[TwoNodes, float, float]:
    """With a small weight of the loss: two rows would otherwise cost too much through the Jacobian alone."""
    scene = TwoNodes.of(replace(algorithm, C=0.1) if algorithm.C is None else algorithm, iterations)
    promise = scene.algorithm.guarantee(scene.setting)
    assert promise is not None
    return scene, float(promise.epsilon or 0.0), float(promise.delta or 0.0)


def turned_rows(world: int) -> Rows:
    """Node 0, when its neighbour pulls far along the first axis: the row in question is wrong there, up or down."""
    side = 1.0 if world == 0 else -1.0
    return Rows.dense([[0.0, 1.0], [-LONG * math.sin(TILT), side * LONG * math.cos(TILT)]], [1.0, 1.0])


def run_one_step(scene: TwoNodes, world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
    """First messages of node 0, whose neighbour has sent weights of its own: whatever others send is no secret."""
    known = turned_rows(0), turned_rows(1)
    local = scene.algorithm.local(scene.setting, 0)
    assert isinstance(local, AdmmLocal)
    local.hear(1, {1: {"f": np.array([FAR, 0.0])}}, frozenset())
    sent = [local.draw(1, known[world], noise) for _ in range(trials)]
    return np.array([(_of_solution(local, 1, payload, known), np.asarray(payload["f"])[1]) for payload in sent])


def one_step(algorithm: PrivateFamily) -> AuditPair:
    """One iteration, in which one row pulls with nearly its full weight in either world."""
    scene, epsilon, delta = _completed(algorithm, 1)
    worlds = "one row of node 0 points up or down, and disagrees with what its neighbour sent"
    statistic = "log-likelihood ratio and second weight of the first message"
    return AuditPair(partial(run_one_step, scene), worlds, statistic, epsilon, delta, trials=MANY)


def ten_steps(algorithm: PrivateFamily) -> AuditPair:
    """Ten iterations."""
    scene, epsilon, delta = _completed(algorithm, TEN)
    return _pair(scene, epsilon, delta, None)


PAIRS: dict[str, Callable[[Any], AuditPair]] = {"": one_step, "/ten": ten_steps}
for _name in ("private-m-admm", "private-r-admm", "private-mr-admm"):
    for _suffix, _make in PAIRS.items():
        register("audit-pair", f"algorithm:{_name}{_suffix}")(_make)
