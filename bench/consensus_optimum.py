"""Gap to an independent optimum of the four ADMM variants, and Adult to a thousand iterations.

``python bench/consensus_optimum.py [generated5] [generated20] [adult]``. Gap: the largest over the nodes, relative to
the lower of our and scikit-learn's optimum.
"""

from __future__ import annotations

import sys

import numpy as np
from sklearn.linear_model import LogisticRegression

from fairveil.consensus import Inline
from fairveil.consensus.task import Yardstick, algorithm_of, plans_of, setting_of, share_of
from fairveil.data import available
from fairveil.running.runner import complete

VARIANTS = ("admm", "m-admm", "r-admm", "mr-admm")
GRAPHS = ("ring", "star", "complete", "random")
FACTORS = (1.0, 1.5, 2.0, 1.0, 1.2)


def independent(problem: Yardstick) -> np.ndarray:
    """scikit-learn's solution on dense rows."""
    rows = np.zeros((sum(len(part) for part in problem.nodes), problem.nodes[0].width))
    at = 0
    for part in problem.nodes:
        np.add.at(rows, (np.arange(at, at + len(part))[:, None], part.columns), part.values)
        at += len(part)
    signs = np.concatenate([part.signs for part in problem.nodes])
    strength = problem.C / (len(problem.nodes[0]) * problem.rho)
    model = LogisticRegression(C=strength, fit_intercept=False, tol=1e-10, max_iter=5000)
    return model.fit(rows, signs).coef_[0]


OPTIMA: dict[tuple, tuple[np.ndarray, float, float]] = {}


def optimum(key: tuple, problem: Yardstick) -> tuple[np.ndarray, float, float]:
    """Best weights, their objective, and how far scikit-learn's objective is above ours."""
    if key not in OPTIMA:
        both = np.stack([problem.optimum(), independent(problem)])
        values = problem.objectives(both)
        OPTIMA[key] = both[values.argmin()], float(values.min()), float(values[1] / values[0] - 1)
    return OPTIMA[key]


def gaps(algorithm: dict, nodes: int, graph: str, points: tuple[int, ...], data: dict) -> tuple[list[float], float]:
    """Gap at some iterations, and the largest distance of a weight at the end."""
    spec = complete({
        "task": "consensus", "seed": 1, "nodes": nodes, "graph": graph, "iterations": points[-1], "data": data,
        "algorithm": algorithm,
    })  # fmt: skip
    share = share_of(spec, 0)
    full = algorithm_of(spec, setting_of(spec, share))
    problem = Yardstick(share.nodes, full.loss_function, full.scale, full.rho)
    best, least, _ = optimum((nodes, str(data)), problem)
    found = []
    for t, seen in enumerate(Inline([p.build() for p in plans_of(spec, 0, share, full)]).iterations(), 1):
        if t in points:
            found.append(float(problem.objectives(seen.weights).max()) / least - 1)
    return found, float(np.abs(seen.weights - best).max())


def generated(nodes: int, iterations: int) -> None:
    data = {"name": "logistic"}
    skew = {**data, "split": {"by": "label", "skew": 0.8}}
    own = [4 * factor for factor in FACTORS] * (nodes // 5)
    for graph in GRAPHS:
        cases = {
            "even": [({"name": v, "penalty": 4.0}, data) for v in VARIANTS],
            "own penalties": [({"name": v, "penalty": own}, data) for v in VARIANTS],
            "skew .8": [({"name": v, "penalty": 4.0}, skew) for v in VARIANTS],
            "printed mr, own": [({"name": "mr-admm", "penalty": own, "variant": "printed"}, data)],
        }
        words = [
            f"{name} " + "/".join(f"{gaps(a, nodes, graph, (iterations,), d)[0][0]:.0e}" for a, d in case)
            for name, case in cases.items()
        ]
        print(f"N={nodes:2} {graph:9} after {iterations}: {'  '.join(words)}", flush=True)
    for key, (_, _, above) in OPTIMA.items():
        print(f"  scikit-learn's objective is {above:.1e} above ours on {key}")


def adult() -> None:
    if not available("adult"):
        print("Adult is not here")
        return
    for graph in GRAPHS:
        found, far = gaps({"name": "admm", "penalty": 0.5}, 5, graph, (60, 200, 400, 1000), {"name": "adult"})
        print(f"Adult {graph:9} {' '.join(f'{gap:.1e}' for gap in found)} weights {far:.1e}", flush=True)


SECTIONS = {"generated5": lambda: generated(5, 150), "generated20": lambda: generated(20, 400), "adult": adult}

if __name__ == "__main__":
    for section in [name for name in SECTIONS if name in sys.argv] or list(SECTIONS):
        SECTIONS[section]()
    sys.exit(0)
