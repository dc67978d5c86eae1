"""One iteration of ADMM on Adult, N = 5, against cold scipy L-BFGS and cold dense Newton at equal gradient tolerance.

``python bench/consensus_speed.py``. CPU seconds in one process; without Adult on generated sparse rows.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

import fairveil
from fairveil.consensus import Admm, Inline, NodePlan, PrivateMrAdmm, Setting, make_graph, tables
from fairveil.data import available
from fairveil.randomness import generator

ITERATIONS = 20


def dense(rows) -> np.ndarray:
    out = np.zeros((len(rows), rows.width))
    np.add.at(out, (np.arange(len(rows))[:, None], rows.columns), rows.values)
    return out


def lbfgs(x, y, q, kappa, linear, tolerance):
    def value(f):
        z = y * (x @ f)
        loss = q * np.logaddexp(0, -z).sum() + 0.5 * kappa * f @ f + linear @ f
        return loss, -q * x.T @ (y * expit(-z)) + kappa * f + linear

    options = {"maxiter": 5000, "ftol": 0.0, "gtol": tolerance / np.sqrt(x.shape[1]), "maxcor": 10}
    return minimize(value, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", options=options).x


def newton(x, y, q, kappa, linear, tolerance):
    f = np.zeros(x.shape[1])
    for _ in range(50):
        z = y * (x @ f)
        gradient = -q * x.T @ (y * expit(-z)) + kappa * f + linear
        if np.linalg.norm(gradient) <= tolerance:
            break
        weight = expit(z) * expit(-z)
        f = f - np.linalg.solve(q * (x.T * weight) @ x + kappa * np.eye(len(f)), gradient)
    return f


def measure(algorithm, share, setting, label: str) -> None:
    plans = [NodePlan(algorithm, setting, i, rows, path=(1, "speed")) for i, rows in enumerate(share.nodes)]
    for seen in Inline([plan.build() for plan in plans]).iterations():  # compiles
        if seen.reads.max() > 30:
            break
    nodes = [plan.build() for plan in plans]
    problems = []
    for node in nodes:
        solve = node.local.draw

        def draw(t, rows, noise, node=node, solve=solve):
            start = time.process_time()
            out = solve(t, rows, noise)
            problems.append((node.index, t, time.process_time() - start, node.local.solver._before))
            return out

        node.local.draw = draw
    for _ in Inline(nodes).iterations():
        pass
    ours = sum(spent for _, t, spent, _ in problems if t > 2)
    steps = len({t for _, t, _, _ in problems if t > 2})
    matrices = [(dense(rows), rows.signs) for rows in share.nodes]
    rivals = {"L-BFGS": lbfgs, "Newton": newton}
    print(f"{label}: ours {1e3 * ours / steps:.1f} ms an iteration that reads data")
    for name, method in rivals.items():
        start, count = time.process_time(), 0
        for node, t, _, (kappa, linear) in problems:
            if t in (5, 11, 17):
                x, y = matrices[node]
                method(x, y, algorithm.C / len(y), kappa, linear, algorithm.tolerance)
                count += 1
        each = (time.process_time() - start) / count * setting.nodes
        print(f"  {name}: {1e3 * each:.1f} ms, {each / (ours / steps):.1f} times ours", flush=True)


def main() -> int:
    name = "adult" if available("adult") else "synthetic-adult"
    table = tables.data_table({"name": name} if name == "adult" else {"name": name, "rows": 50_000})
    share = tables.deal(tables.encoded(table, 1, 0), table, 5, generator(1))
    setting = Setting(make_graph("random", 5, 1), share.sizes, share.nodes[0].width, share.nonzeros, ITERATIONS)
    plain = Admm(penalty=0.5, tolerance=1e-6 * 1750).complete(setting)
    measure(plain, share, setting, "admm")
    noisy = PrivateMrAdmm(penalty=1.0, alpha=1.0, variant="printed", tolerance=1e-6 * 1750).complete(setting)
    measure(noisy, share, setting, "private-mr-admm, alpha = 1, odd steps")
    spec = {"task": "consensus", "seed": 1, "data": table, "algorithm": {"name": "private-admm", "epsilon": 1.0}}
    fairveil.run(spec)
    start = time.process_time()
    fairveil.run({**spec, "seed": 2})
    print(f"private-admm, one run with all measurements: {time.process_time() - start:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
