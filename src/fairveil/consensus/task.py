"""The `consensus` task: nodes that may not pool rows agree on one linear classifier."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, Strict
from scipy.linalg import cho_factor, cho_solve

from fairveil import registry
from fairveil.arrays import Floats
from fairveil.configuration import describe
from fairveil.consensus.algorithm import Algorithm, Setting, warn_of_delta
from fairveil.consensus.family import LARGEST_C, AdmmFamily
from fairveil.consensus.graphs import graph_table, make_graph
from fairveil.consensus.losses import Logistic, Loss
from fairveil.consensus.private_admm import PrivateAdmm
from fairveil.consensus.rows import Rows, scores
from fairveil.consensus.tables import Share, data_table, deal, encoded
from fairveil.consensus.transport import NodePlan, make_transport
from fairveil.errors import SpecError, at
from fairveil.fields import Count, Positive
from fairveil.privacy.noise import make_noise
from fairveil.randomness import generator
from fairveil.registry import register
from fairveil.task import Outcome, Part, Task, TaskSpec, run_blocks

SCALARS = ("weights_distance", "test_error", "test_error_own", "central_objective", "central_test_error")
LISTS = ("train_loss", "consensus_error", "objective_gap", "data_reads")


class ConsensusSpec(TaskSpec):
    """Keys of a consensus spec."""

    algorithm: dict[str, Any] = Field(description="the algorithm: its name and parameters")
    data: dict[str, Any] = Field(
        default_factory=lambda: {"name": "logistic"}, description="the data set or generator: its name and parameters"
    )
    nodes: Annotated[int, Strict(), Field(ge=1, le=1000)] = Field(5, description="number of nodes")
    graph: str | dict[str, Any] = Field("random", description="who talks to whom")
    iterations: Count = Field(50, description="number of iterations")
    transport: Literal["inline", "ray"] = Field("inline", description="nodes in this process, or on Ray")
    wait: Positive = Field(600.0, description="seconds to wait for a node")


@register("task", "consensus")
class ConsensusTask(Task):
    """Nodes on a graph learn one linear classifier from rows they keep; measured after every iteration.

    ``algorithm`` by name with its parameters, ``data`` with ``encoding``, ``train`` and ``split`` beside the data set's
    own options, ``graph`` a name, a table or an adjacency matrix. ``wait``: seconds after which a silent node is left
    out (Ray transport). The measurements are the experimenter's: real nodes make none of them.
    """

    Spec = ConsensusSpec

    def fill(self, model: ConsensusSpec) -> dict[str, Any]:
        spec = model.model_dump(mode="json")
        spec["data"] = data_table(model.data)
        spec["graph"] = graph_table(model.graph, model.nodes, model.seed)
        algorithm: Algorithm = registry.build("algorithm", model.algorithm, "algorithm")
        setting = setting_of(spec, share_of(spec, 0))
        full = _completed(algorithm, setting)
        warn_of_delta(full.guarantee(setting), setting)
        # rounds follow from facts that all runs share; C and tolerance from sizes, which a fresh split may change
        spec["algorithm"] = describe(full if isinstance(full, PrivateAdmm) else algorithm)
        return spec

    def blocks(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        return run_blocks(spec["runs"], 1)

    def work(self, spec: dict[str, Any], block: dict[str, Any]) -> Part:
        return one_run(spec, block["first"])

    def finish(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        metrics: dict[str, Any] = {}
        series: dict[str, dict[str, Any]] = {}
        steps = [float(t) for t in range(1, len(parts[0]["train_loss"]) + 1)]
        for name in LISTS:
            values = np.array([part[name] for part in parts])
            if np.isnan(values).all():
                metrics[name] = [None] * len(steps)
                continue
            metrics[name] = values.mean(0).tolist()
            metrics[f"{name}_std"] = _std(values).tolist()
            series[name] = {
                "x": steps, "y": metrics[name], "low": values.min(0).tolist(), "high": values.max(0).tolist()
            }  # fmt: skip
        for name in SCALARS:
            values = np.array([part[name] for part in parts])
            metrics[name] = float(values.mean())
            metrics[f"{name}_std"] = float(_std(values))
        metrics["test_errors"] = [float(part["test_error"]) for part in parts]
        metrics["central"] = {
            "objective": metrics.pop("central_objective"),
            "test_error": metrics.pop("central_test_error"),
        }
        setting, algorithm = _worst(spec, parts)
        metrics["privacy_loss"], metrics["privacy_loss_printed"] = algorithm.privacy_loss(setting)
        for name in ("privacy_loss", "privacy_loss_printed"):
            if metrics[name][0] is not None:
                series[name] = {"x": steps, "y": metrics[name]}
        count, size = algorithm.traffic(setting)
        metrics["messages"] = {"count": count, "bytes": size}
        metrics["rounds"] = algorithm.stated_rounds(setting)
        metrics["lost"] = [list(part["lost"]) for part in parts]
        metrics["absent"] = [list(part["absent"]) for part in parts]
        simulated = make_noise(spec["noise"], spec["seed"]).simulated or not algorithm.protects
        return Outcome(metrics, series, algorithm.guarantee(setting), simulated, notes=algorithm.notes(setting))


def _std(values: Any) -> Any:
    return values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1:])


def share_of(spec: dict[str, Any], run: int) -> Share:
    """The fresh split of a run."""
    found = encoded(spec["data"], spec["seed"], run)
    return deal(found, spec["data"], spec["nodes"], generator(spec["seed"], "consensus", "split", run))


def setting_of(spec: dict[str, Any], share: Share) -> Setting:
    """What is public about a run."""
    graph = make_graph(spec["graph"], spec["nodes"], spec["seed"])
    return Setting(graph, share.sizes, share.nodes[0].width, share.nonzeros, spec["iterations"])


def algorithm_of(spec: dict[str, Any], setting: Setting) -> Algorithm:
    """The completed algorithm of a spec."""
    return _completed(registry.build("algorithm", spec["algorithm"], "algorithm"), setting)


def _completed(algorithm: Algorithm, setting: Setting) -> Algorithm:
    try:
        return algorithm.complete(setting)
    except SpecError as problem:
        raise at(problem, "algorithm") from None


def _worst(spec: dict[str, Any], parts: list[Part]) -> tuple[Setting, Algorithm]:
    """The run whose sizes cost most: a fresh split may give other sizes."""
    first = setting_of(spec, share_of(spec, 0))
    found = []
    for sizes in {tuple(part["sizes"]) for part in parts}:
        setting = replace(first, sizes=sizes)
        algorithm = algorithm_of(spec, setting)
        found.append((algorithm.privacy_loss(setting)[0][-1] or 0.0, sizes, setting, algorithm))
    _, _, setting, algorithm = max(found, key=lambda item: item[:2])
    return setting, algorithm


def plans_of(spec: dict[str, Any], run: int, share: Share, algorithm: Algorithm) -> list[NodePlan]:
    """The nodes of a run, with its noise."""
    setting, path = setting_of(spec, share), (spec["seed"], "consensus", run)
    return [
        NodePlan(algorithm, setting, index, rows, run=f"run-{run}", noise=spec["noise"], path=path)
        for index, rows in enumerate(share.nodes)
    ]


def one_run(spec: dict[str, Any], run: int) -> Part:
    """One fresh split, one run of all nodes, everything measured."""
    share = share_of(spec, run)
    setting = setting_of(spec, share)
    algorithm = algorithm_of(spec, setting)
    plans = plans_of(spec, run, share, algorithm)
    problem = _problem(algorithm, share)
    best = problem.optimum()
    least = float(problem.objectives(best[None, :])[0])
    found: dict[str, list[float]] = {name: [] for name in LISTS}
    transport = make_transport(spec["transport"], plans, wait=spec["wait"])
    lost: list[list[int]] = []
    before = np.zeros(setting.nodes, np.int64)
    try:
        for seen in transport.iterations():
            weights = seen.weights
            found["train_loss"].append(train_loss(share.nodes, weights))
            apart = weights - weights[0]  # equal classifiers are exactly 0 apart, whatever a mean would round to
            found["consensus_error"].append(float(np.linalg.norm(apart - apart.mean(0), axis=1).max()))
            gap = math.nan if algorithm.gapless else float(problem.objectives(weights).max()) / least - 1
            found["objective_gap"].append(gap)
            found["data_reads"].append(float((seen.reads - before).mean()))
            before = seen.reads
            lost += [[node, len(found["train_loss"])] for node in seen.lost]
    finally:
        transport.close()
    return {
        **found,
        "weights_distance": math.nan if algorithm.gapless else float(np.abs(weights - best).max()),
        "test_error": error(share.test, weights.mean(0)),
        "test_error_own": float(np.mean([error(share.test, own) for own in weights])),
        "central_objective": least,
        "central_test_error": error(share.test, best),
        "sizes": list(share.sizes),
        "lost": lost,
        "absent": transport.absent,
    }


def _problem(algorithm: Algorithm, share: Share) -> Yardstick:
    nodes = [rows.uncounted() for rows in share.nodes]
    if isinstance(algorithm, AdmmFamily):
        return Yardstick(nodes, algorithm.loss_function, algorithm.scale, algorithm.rho)
    return Yardstick(nodes, Logistic(), min(LARGEST_C, float(min(share.sizes))), 0.22)


@dataclass(frozen=True)
class Yardstick:
    """What an experimenter measures against, on raw data; real nodes compute none of it.

    Obj(f) = sum_i (C/B_i) sum_n L(y f.x) + (rho/2)|f|^2 over all nodes: the optimum that consensus should reach.
    """

    nodes: Sequence[Rows]
    loss: Loss
    C: float
    rho: float

    def objectives(self, candidates: Floats) -> Floats:
        """Obj of every candidate (one a row)."""
        total = 0.5 * self.rho * (candidates**2).sum(axis=1)
        for rows in self.nodes:
            total = total + self.C * rows.mean_losses(candidates, self.loss)
        return total

    def optimum(self) -> Floats:
        """The minimiser by Newton's method, to a gradient of 1e-11 C."""
        weights = np.zeros(self.nodes[0].width)
        gradient, matrix = self._derivatives(weights)
        for _ in range(200):
            step = cho_solve(cho_factor(matrix), gradient)
            length = float(np.linalg.norm(gradient))
            if length <= 1e-11 * self.C:
                break
            size = 1.0
            while True:
                found = self._gradient(weights - size * step)
                if float(np.linalg.norm(found)) < length or size < 1e-9:
                    break
                size /= 2
            if size < 1e-9:
                break
            weights = weights - size * step
            gradient, matrix = self._derivatives(weights)
        return weights

    def _gradient(self, weights: Floats) -> Floats:
        total = self.rho * weights
        for rows in self.nodes:
            total = total + self.C / len(rows) * rows.gradient(weights, self.loss)
        return total

    def _derivatives(self, weights: Floats) -> tuple[Floats, Floats]:
        total, matrix = self.rho * weights, self.rho * np.eye(len(weights))
        for rows in self.nodes:
            gradient, curvature = rows.curvature(weights, self.loss)
            total = total + self.C / len(rows) * gradient
            matrix = matrix + self.C / len(rows) * curvature
        return total, matrix


def train_loss(nodes: Sequence[Rows], weights: Floats) -> float:
    """L(t): the mean over nodes of the mean plain logistic loss of each node's own classifier on its own rows."""
    each = [rows.mean_losses(weights[i : i + 1], Logistic())[0] for i, rows in enumerate(nodes)]
    return float(np.mean(each))


def error(rows: Rows, weights: Floats) -> float:
    """Share of wrong decisions; a score of zero counts as the negative class. NaN without rows."""
    if len(rows) == 0:
        return float("nan")
    decided = np.where(scores(rows.values, rows.columns, weights) > 0, 1.0, -1.0)
    return float((decided != rows.signs).mean())
