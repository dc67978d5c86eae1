"""Gap to an independent optimum of the four ADMM variants, and Adult to a thousand iterations.

``python bench/consensus_optimum.py``. Gap: the largest over the nodes, relative to scikit-learn's optimum.
"""

from __future__ import annotations

import sys

import numpy as np
from sklearn.linear_model import LogisticRegression

import fairveil
from fairveil.consensus import tables
from fairveil.consensus.losses import make_loss
from fairveil.consensus.measure import Problem
from fairveil.data import available
from fairveil.randomness import generator

VARIANTS = ("admm", "m-admm", "r-admm", "mr-admm")
GRAPHS = ("ring", "star", "complete", "random")
FACTORS = (1.0, 1.5, 2.0, 1.0, 1.2)


def independent(spec: dict) -> float:
    """How far the task's own optimum is from scikit-learn's, relatively: gaps are measured against the lower one."""
    full = tables.data_table(spec["data"])
    share = tables.deal(
        tables.encoded(full, spec["seed"], 0), full, spec["nodes"], generator(spec["seed"], "consensus", "split", 0)
    )
    C = min(1750.0, float(min(share.sizes)))
    problem = Problem(share.nodes, make_loss("logistic"), C, 0.22)
    rows = np.zeros((sum(share.sizes), share.nodes[0].width))
    at = 0
    for part in share.nodes:
        place = np.arange(at, at + len(part))[:, None]
        np.add.at(rows, (place, part.columns), part.values)
        at += len(part)
    signs = np.concatenate([part.signs for part in share.nodes])
    model = LogisticRegression(C=C / (len(share.nodes[0]) * 0.22), fit_intercept=False, tol=1e-10, max_iter=5000)
    theirs = problem.objectives(model.fit(rows, signs).coef_)[0]
    return float(theirs / problem.objectives(problem.optimum()[None])[0] - 1)


def run(algorithm: dict, nodes: int, graph: str, iterations: int, **keys) -> dict:
    spec = {"task": "consensus", "seed": 1, "nodes": nodes, "graph": graph, "iterations": iterations, **keys}
    return fairveil.run({**spec, "algorithm": algorithm})["metrics"]


def generated() -> None:
    data = {"name": "logistic"}
    print(f"scikit-learn's objective above ours: {independent({'seed': 1, 'nodes': 5, 'data': data}):.1e}")
    for nodes, iterations in ((5, 150), (20, 400)):
        for graph in GRAPHS:
            own = [4 * factor for factor in FACTORS] * (nodes // 5)
            cases = {
                "even": [run({"name": v, "penalty": 4.0}, nodes, graph, iterations, data=data) for v in VARIANTS],
                "own penalties": [
                    run({"name": v, "penalty": own}, nodes, graph, iterations, data=data) for v in VARIANTS
                ],
                "skew .8": [
                    run({"name": v, "penalty": 4.0}, nodes, graph, iterations,
                        data={**data, "split": {"by": "label", "skew": 0.8}}) for v in VARIANTS
                ],
                "printed mr, own": [
                    run({"name": "mr-admm", "penalty": own, "variant": "printed"}, nodes, graph, iterations, data=data)
                ],
            }  # fmt: skip
            words = "  ".join(
                f"{name} " + "/".join(f"{m['objective_gap'][-1]:.0e}" for m in found) for name, found in cases.items()
            )
            print(f"N={nodes:2} {graph:9} after {iterations}: {words}", flush=True)


def adult() -> None:
    if not available("adult"):
        print("Adult is not here")
        return
    for graph in GRAPHS:
        found = run({"name": "admm", "penalty": 0.5}, 5, graph, 1000, data={"name": "adult"})
        gaps = [found["objective_gap"][t - 1] for t in (60, 200, 400, 1000)]
        shown = " ".join(f"{gap:.1e}" for gap in gaps)
        print(f"Adult {graph:9} {shown} weights {found['weights_distance']:.1e}", flush=True)


if __name__ == "__main__":
    generated()
    adult()
    sys.exit(0)
