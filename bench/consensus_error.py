"""Test errors of private consensus on Adult and ACS against the printed algorithms, paired over splits.

``python bench/consensus_error.py [section ...] [--splits 20]``: ours, rivals, acs, skew. Needs the data sets; tuned on
Adult, ACS is the check. ``make consensus`` runs all of it.
"""

from __future__ import annotations

import math
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from fairveil.consensus import Inline
from fairveil.consensus.task import algorithm_of, error, plans_of, setting_of, share_of
from fairveil.data import available
from fairveil.errors import SpecError
from fairveil.running.runner import complete

EPSILONS = (1.0, 3.0, 10.0)
NODES = (5, 20)
LENGTHS = (2, 6, 14, 50)


def errors(spec: dict) -> list[float]:
    """Test error of every split, as the task would give it, without its other measurements."""
    try:
        full, found = complete(spec), []
    except SpecError:  # so many iterations do not fit the budget
        return [math.inf] * spec["runs"]
    for run in range(full["runs"]):
        share = share_of(full, run)
        algorithm = algorithm_of(full, setting_of(full, share))
        nodes = [plan.build() for plan in plans_of(full, run, share, algorithm)]
        for seen in Inline(nodes).iterations():
            weights = seen.weights
        found.append(error(share.test, weights.mean(0)))
    return found


def spec(algorithm: dict, nodes: int, splits: int, **keys) -> dict:
    full = {"task": "consensus", "seed": 1, "runs": splits, "nodes": nodes, "graph": "random", "algorithm": algorithm}
    return {**full, "data": {"name": "adult"}, **keys}


def ours(epsilon: float, pure: bool) -> dict:
    return {"name": "private-admm", "epsilon": epsilon, "definition": "pure" if pure else "gaussian"}


def shown(values: np.ndarray) -> str:
    return f"{values.mean():.4f} ({values.std(ddof=1) / math.sqrt(len(values)):.4f})"


def run_ours(spread, splits: int) -> None:
    print(f"== private-admm on Adult, defaults, {splits} splits: mean (standard error)")
    keys = [(nodes, epsilon, pure) for nodes in NODES for epsilon in EPSILONS for pure in (False, True)]
    found = spread(errors, [spec(ours(e, pure), n, splits) for n, e, pure in keys])
    for (nodes, epsilon, pure), values in zip(keys, found):
        print(f"N={nodes:2} eps={epsilon:4g} {'pure' if pure else '1e-5':5} {shown(np.array(values))}", flush=True)


def run_rivals(spread, splits: int) -> None:
    print(f"== paired with MR-ADMM (penalty 1, growth 1.04, best T of {LENGTHS} in hindsight), {splits} splits")
    for nodes in NODES:
        for epsilon in EPSILONS:
            mr = {"name": "private-mr-admm", "epsilon": epsilon, "penalty": 1.0}
            gauss = {**mr, "perturb": "gaussian-primal", "delta": 1e-5}
            specs = [spec(kind, nodes, splits, iterations=t) for kind in (mr, gauss) for t in LENGTHS]
            specs += [spec(ours(epsilon, pure), nodes, splits) for pure in (True, False)]
            found = [np.array(values) for values in spread(errors, specs)]
            count = len(LENGTHS)
            best = [min(range(count), key=lambda k: found[base + k].mean()) for base in (0, count)]
            tight, primal = found[best[0]], found[count + best[1]]
            pure, both = found[-2], found[-1]
            rows = (("pure - mr", pure - tight), ("(eps, delta) - mr", both - tight), ("- pure", both - pure),
                    ("(eps, delta) - gaussian mr", both - primal))  # fmt: skip
            words = "; ".join(f"{name} {shown(values)}" for name, values in rows)
            print(f"N={nodes:2} eps={epsilon:4g} mr {tight.mean():.4f} (T={LENGTHS[best[0]]}) gaussian mr "
                  f"{primal.mean():.4f} (T={LENGTHS[best[1]]}) pure {pure.mean():.4f} both {both.mean():.4f}: {words}",
                  flush=True)  # fmt: skip


def run_acs(spread, splits: int) -> None:
    print(f"== ACS, constants as tuned on Adult, {splits} splits")
    for name, nodes, split in (("even", 5, "even"), ("one node a state", 14, {"by": "ST"})):
        data = {"name": "acs", "split": split}
        keys = [(epsilon, pure) for epsilon in EPSILONS for pure in (False, True)]
        found = spread(errors, [spec(ours(e, pure), nodes, splits, data=data) for e, pure in keys])
        for (epsilon, pure), values in zip(keys, found):
            print(f"{name:17} N={nodes:2} eps={epsilon:4g} {'pure' if pure else '1e-5':5} {shown(np.array(values))}",
                  flush=True)  # fmt: skip


def run_skew(spread, splits: int) -> None:
    print(f"== label skew .8 against even, {splits} splits")
    for nodes in NODES:
        specs = [spec(ours(1.0, False), nodes, splits, data={"name": "adult", "split": split})
                 for split in ("even", {"by": "label", "skew": 0.8})]  # fmt: skip
        even, skewed = (np.array(values) for values in spread(errors, specs))
        print(f"N={nodes:2} even {shown(even)} skewed {shown(skewed)} difference {skewed.mean() - even.mean():+.4f}",
              flush=True)  # fmt: skip


SECTIONS = {"ours": run_ours, "rivals": run_rivals, "acs": run_acs, "skew": run_skew}


def main(arguments: list[str]) -> int:
    splits = int(arguments[arguments.index("--splits") + 1]) if "--splits" in arguments else 20
    chosen = [name for name in SECTIONS if name in arguments] or list(SECTIONS)
    if not (available("adult") and available("acs")):
        print("Adult or ACS is not here: fairveil data fetch adult acs")
        return 0
    with ProcessPoolExecutor(2) as pool:
        for name in chosen:
            SECTIONS[name](lambda work, specs: list(pool.map(work, specs)), splits)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
