"""The thesis chapter on private ADMM: what its figures share, and 2.1 to 2.3, convergence without privacy."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import ClassVar

from fairveil.errors import SpecError
from fairveil.lab.artefact import (
    Artefact,
    Chart,
    Claim,
    Line,
    Picture,
    Results,
    Scale,
    Spec,
    below,
    courses,
    have,
    last,
)
from fairveil.registry import register
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


def gap(result: Spec) -> float:
    return last(result, "objective_gap")[0]


class Consensus(Artefact):
    """Base of the chapter's figures."""

    data: ClassVar[tuple[str, ...]] = ("adult",)
    words: ClassVar[dict[str, str]] = WORDS


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


START = [0.55, 0.65, 0.6, 0.55, 0.6]
GROWTH = [1.01, 1.03, 1.1, 1.2, 1.02]


@register("artefact", "thesis/2.1")
class Figure21(Consensus):
    """Convergence of M-ADMM with growing penalties."""

    title = "Figure 2.1: convergence of M-ADMM"
    source = "section 2.9.1, figure 2.1"
    notes = (
        "excess is measured against the optimum, not read off a flattening curve: a method that freezes looks "
        "converged",
        "a dual step that differs between nodes leads to another limit (errata)",
    )

    def specs(self, scale: Scale) -> dict[str, Spec]:
        steps = length(scale)
        grown = {"name": "m-admm", "penalty": START, "growth": GROWTH}
        own = {"name": "m-admm", "penalty": 0.5, "growth": 1.0}
        return {
            "ADMM": spec(scale, {"name": "admm", "penalty": 0.5}, steps),
            "fixed dual step": spec(scale, {**grown, "dual_step": 0.5}, steps),
            "varying dual step": spec(scale, {**grown, "dual_step": "smallest"}, steps),
            "dual step of each node": spec(
                scale, {**grown, "dual_step": [0.4, 0.5, 0.45, 0.3, 0.5], "variant": "printed"}, steps
            ),
            **{f"q = {q}": spec(scale, {**own, "growth": q, "dual_step": 0.5}, steps) for q in (1.01, 1.05, 1.1)},
            "generated rows, dual step of each node": generated({
                "name": "m-admm", "penalty": 4.0, "dual_step": [2.0, 3.0, 4.0, 2.0, 2.4], "variant": "printed"
            }),
            "generated rows, one dual step": generated({"name": "m-admm", "penalty": 4.0, "dual_step": 2.0}),
        }  # fmt: skip

    def pictures(self, results: Results) -> list[Picture]:
        first = {name: results[name] for name in results if not name.startswith(("q", "generated"))}
        second = {name: results[name] for name in results if name.startswith("q") or name == "ADMM"}
        return [
            Chart("Growing penalties of each node", "iteration", "mean loss", courses(first, "train_loss")),
            Chart("Gap to the optimum", "iteration", "relative gap", courses(first, "objective_gap"), log_y=True),
            Chart("One growing penalty", "iteration", "mean loss", courses(second, "train_loss")),
        ]

    def claims(self, results: Results) -> list[Claim]:
        base = gap(results["ADMM"])
        grown = [gap(results[f"q = {q}"]) for q in (1.01, 1.05, 1.1)]
        return [
            Claim.exact(
                "M-ADMM with the printed growing penalties converges to the optimum", "section 2.9.1",
                2 * base - gap(results["fixed dual step"]),
                "it stops moving: the penalties are unbounded, which the proof of Theorem 1 excludes (errata)",
            ),
            Claim.exact(
                "a larger growth is slower", "figure 2.1b", min(b - a for a, b in zip([base, *grown], grown))
            ),
            Claim.exact(
                "the dual step may differ between nodes", "figure 2.1a",
                1e-6 - gap(results["generated rows, dual step of each node"]),
                "the optimum within 1e-6, on generated rows, where 150 iterations suffice with one dual step "
                f"(gap {gap(results['generated rows, one dual step']):.1e})",
            ),
        ]  # fmt: skip


@register("artefact", "thesis/2.2")
class Figure22(Consensus):
    """Convergence of R-ADMM and MR-ADMM."""

    title = "Figure 2.2: convergence of R-ADMM and MR-ADMM"
    source = "section 2.9.1, figure 2.2"
    notes = ("node-dependent penalties: the printed dual step, each node's own, ends beside the optimum (errata)",)

    def specs(self, scale: Scale) -> dict[str, Spec]:
        steps = length(scale) - 1  # an odd number: the last iteration reads data
        start, rise = [1.0, 1.03, 1.02, 0.8, 1.01], [0.01, 0.005, 0.003, 0.015, 0.01]
        algorithms: dict[str, Spec] = {"ADMM": {"name": "admm", "penalty": 0.5}}
        algorithms |= {f"gamma = {g:g}": {"name": "r-admm", "penalty": 0.5, "gamma": g} for g in (0.0, 0.5, 2.0, 10.0)}
        large = () if scale == "quick" else ("ADMM", "gamma = 0.5", "gamma = 10")
        wide = {f"{name}, 20 nodes": spec(scale, algorithms[name], steps, nodes=20) for name in large}
        more: dict[str, Spec] = {"penalty 1": {"name": "r-admm", "penalty": 1.0}}
        for k in (1, 3, 5):
            growth = [1 + k * r for r in rise]
            more[f"own penalties, k = {k}"] = {
                "name": "mr-admm", "penalty": start, "growth": growth, "variant": "printed"
            }  # fmt: skip
            more[f"one penalty, q = {1 + k / 100:g}"] = {"name": "mr-admm", "penalty": 1.0, "growth": 1 + k / 100}
        made = {name: spec(scale, algorithm, steps) for name, algorithm in algorithms.items()} | wide
        made |= {name: spec(scale, algorithm, steps) for name, algorithm in more.items()}
        limits = {"name": "mr-admm", "penalty": [4.0, 6.0, 8.0, 4.0, 4.8]}
        for variant, name in (("printed", ""), ("sound", ", common dual step")):
            made[f"generated rows, own penalties{name}"] = generated({**limits, "variant": variant})
        return made

    def pictures(self, results: Results) -> list[Picture]:
        parts = {
            "R-ADMM": [n for n in results if n.startswith("gamma") or n.startswith("ADMM")],
            "MR-ADMM, penalties of each node": ["penalty 1", *(n for n in results if n.startswith("own"))],
            "MR-ADMM, one penalty": ["penalty 1", *(n for n in results if n.startswith("one"))],
        }
        return [
            Chart(title, "iteration", "mean loss", courses({name: results[name] for name in names}, "train_loss"))
            for title, names in parts.items()
        ]

    def claims(self, results: Results) -> list[Claim]:
        def swing(name: str) -> float:
            loss = results[name]["metrics"]["train_loss"]
            return abs(loss[9] - loss[8])

        def falls(name: str) -> float:
            odd = results[name]["metrics"]["train_loss"][::2]
            return min(before - after for before, after in pairwise(odd))

        gammas = [f"gamma = {g:g}" for g in (0.0, 0.5, 2.0, 10.0)]
        grown = [gap(results[f"one penalty, q = {1 + k / 100:g}"]) for k in (1, 3, 5)]
        plain = gap(results["penalty 1"])
        return [
            Claim.exact("a larger gamma oscillates less", "figure 2.2a", swing(gammas[0]) - swing(gammas[-1])),
            Claim.exact("a larger gamma is slower", "figure 2.2a", gap(results[gammas[-1]]) - gap(results[gammas[0]])),
            Claim.exact(
                "R-ADMM is as near as ADMM on odd iterations", "figure 2.2a",
                2 * gap(results["ADMM"]) - gap(results["gamma = 0.5"]),
            ),
            Claim.exact("odd iterations make up for every rise of an even one", "figure 2.2a", falls("gamma = 0.5"),
                        "the loss of odd iterations falls at every one of them"),
            *self._large(results),
            Claim.exact("a larger growth slows MR-ADMM", "figures 2.2b, c", min(grown[2] - grown[0], grown[0] - plain)),
            Claim.exact(
                "MR-ADMM with penalties of each node attains the optimum", "figure 2.2b",
                1e-6 - gap(results["generated rows, own penalties"]),
                "on generated rows, where 150 iterations suffice; with the sound variant's common dual step it does "
                f"(gap {gap(results['generated rows, own penalties, common dual step']):.1e})",
            ),
        ]  # fmt: skip

    def _large(self, results: Results) -> list[Claim]:
        """The same on twenty nodes, beyond a quick look."""
        if "ADMM, 20 nodes" not in results:
            return []
        base, slow, slower = (gap(results[f"{name}, 20 nodes"]) for name in ("ADMM", "gamma = 0.5", "gamma = 10"))
        return [
            Claim.exact("a larger gamma is slower on 20 nodes", "figure 2.2a", slower - slow),
            Claim.exact("R-ADMM is as near as ADMM on odd iterations on 20 nodes", "figure 2.2a", 2 * base - slow),
        ]


@register("artefact", "thesis/2.3")
class Figure23(Consensus):
    """Test error against the weight of the regulariser."""

    title = "Figure 2.3: the effect of rho, C = 1750"
    source = "section 2.9.2, figure 2.3"
    RHOS = (0.001, 0.01, 0.05, 0.22, 1.0, 5.0, 20.0)

    def specs(self, scale: Scale) -> dict[str, Spec]:
        runs = {"quick": 2, "standard": 5, "paper": 10}[scale]
        return {f"rho = {rho:g}": spec(scale, {"name": "admm", "rho": rho}, 50, runs=runs) for rho in self.RHOS}

    def pictures(self, results: Results) -> list[Picture]:
        found = [results[f"rho = {rho:g}"]["metrics"] for rho in self.RHOS]
        lines = (
            Line("after 50 iterations", self.RHOS, tuple(m["test_error"] for m in found)),
            Line("at the optimum", self.RHOS, tuple(m["central"]["test_error"] for m in found), dashed=True),
        )
        return [Chart("Test error", "rho", "test error", lines, log_x=True)]

    def claims(self, results: Results) -> list[Claim]:
        found = {rho: results[f"rho = {rho:g}"] for rho in self.RHOS}
        smaller = min((0.001, 0.01, 0.05), key=lambda rho: found[rho]["metrics"]["central"]["test_error"])
        at, best = (found[rho]["metrics"]["central"]["test_error"] for rho in (0.22, smaller))
        return [
            Claim.exact(
                "the test error is least at rho = 0.22", "section 2.9.2", float(best - at) or -math.ulp(0.0),
                "at the optimum; after 50 iterations it is flat below 0.22",
            ),
            below("a large rho is worse", "figure 2.3", found[20.0], found[0.22], "test_error"),
        ]  # fmt: skip
