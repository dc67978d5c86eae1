"""The chapter on private ADMM: people, graph and runs that its figures share."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from fairveil.errors import SpecError
from fairveil.lab.artefact import Artefact, Claim, Line, Results, Scale, Spec, have, line
from fairveil.running.runner import complete

GRAPH = {"name": "random", "seed": 1}
ALPHAS = (0.5, 1.0, 2.0)
WORDS = {
    "dvp": "dual perturbation",
    "m": "M-ADMM",
    "r": "R-ADMM",
    "mr": "MR-ADMM",
    "eps": "privacy loss",
}


def rows(scale: Scale) -> int:
    """Training rows: a quarter of Adult is enough for a quick look."""
    if not have("adult"):
        return 10_000
    return 10_000 if scale == "quick" else 40_000


def people(scale: Scale) -> Spec:
    """Adult as the thesis encodes it, or its generated stand-in."""
    train = rows(scale)
    return {"name": "adult", "train": train} if have("adult") else {"name": "synthetic-adult", "rows": 12_500}


def spec(scale: Scale, algorithm: Spec, iterations: int, *, nodes: int = 5, runs: int = 1) -> Spec:
    full: Spec = {"task": "consensus", "seed": 1, "runs": runs, "nodes": nodes, "graph": dict(GRAPH)}
    return {**full, "data": people(scale), "iterations": iterations, "algorithm": {"tolerance": 1e-3, **algorithm}}


def generated(algorithm: Spec) -> Spec:
    """Generated rows, on which every sound variant is at its optimum after 150 iterations."""
    return {
        **own_tolerance(spec("quick", algorithm, 150)),
        "data": {"name": "logistic", "rows": 5000, "test": 500},
    }


def length(scale: Scale) -> int:
    return {"quick": 30, "standard": 100, "paper": 100}[scale]


def repeats(scale: Scale) -> int:
    return {"quick": 3, "standard": 5, "paper": 10}[scale]


def gap(result: dict[str, Any], at: int = -1) -> float:
    return float(result["metrics"]["objective_gap"][at])


def noisy(result: dict[str, Any], name: str) -> tuple[float, float]:
    """A metric (its last value if it is a list) and the standard error of its mean."""
    value, spread = result["metrics"][name], result["metrics"][f"{name}_std"]
    if isinstance(value, list):
        value, spread = value[-1], spread[-1]
    return float(value), float(spread) / math.sqrt(result["spec"]["runs"])


def below(text: str, where: str, larger: Any, smaller: Any, name: str, note: str = "") -> Claim:
    return Claim.difference(text, where, *noisy(larger, name), *noisy(smaller, name), note)


class Consensus(Artefact):
    """Base of the chapter's figures."""

    data: ClassVar[tuple[str, ...]] = ("adult",)
    words: ClassVar[dict[str, str]] = WORDS

    def curves(self, results: Results, series: str = "train_loss") -> tuple[Line, ...]:
        return tuple(line(name, found, series) for name, found in results.items())


def own_tolerance(made: Spec) -> Spec:
    """With the algorithm's own tolerance."""
    return {**made, "algorithm": {k: v for k, v in made["algorithm"].items() if k != "tolerance"}}


def affordable(made: Spec) -> bool:
    """Whether epsilon pays for this many iterations: the sound bound of the thesis' algorithms has a part that no noise
    lowers, the change of the Jacobian, and it is larger where a node has fewer rows."""
    try:
        complete(made)
    except SpecError as problem:
        if problem.path != "algorithm.epsilon":
            raise
        return False
    return True
