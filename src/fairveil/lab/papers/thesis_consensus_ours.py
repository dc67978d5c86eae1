"""Test error against epsilon, with everything calibrated by sound bounds: ours beside the thesis' private ADMM."""

from __future__ import annotations

from typing import Any

from fairveil.lab.artefact import Chart, Claim, Line, Picture, Results, Scale, Spec
from fairveil.lab.papers.thesis_consensus_runs import Consensus, affordable, below, own_tolerance, spec
from fairveil.registry import register


@register("artefact", "thesis/2-ours")
class Ours(Consensus):
    """Test error against epsilon, all private algorithms calibrated by the sound bound."""

    title = "Ours: test error against epsilon"
    source = "docs/guides/consensus.md"
    notes = (
        "MR-ADMM, R-ADMM, M-ADMM: sound variants, the best of 2, 6 and 14 iterations in hindsight, of those whose "
        "change of the Jacobian alone does not cost more than epsilon; ours: defaults",
        "constants of ours were chosen on Adult; bench/consensus_error.py has ACS, where nothing was tuned",
    )
    LENGTHS = (2, 6, 14)

    def specs(self, scale: Scale) -> dict[str, Spec]:
        runs = {"quick": 2, "standard": 5, "paper": 20}[scale]
        most = (0.3, 1.0, 3.0, 10.0, 30.0)
        epsilons = {"quick": (1.0, 10.0), "standard": most[:-1], "paper": most}[scale]
        nodes = (5,) if scale == "quick" else (5, 20)
        made = {}
        for count in nodes:
            for epsilon in epsilons:
                end = f"eps = {epsilon:g}, {count} nodes"
                for definition in ("gaussian", "pure"):
                    algorithm = {"name": "private-admm", "epsilon": min(epsilon, 15.0), "definition": definition}
                    made[f"ours, {definition}, {end}"] = own_tolerance(
                        spec(scale, algorithm, 50, nodes=count, runs=runs)
                    )
                for name in ("mr",) if scale == "quick" else ("mr", "r", "m"):
                    for steps in self.LENGTHS:
                        algorithm = {"name": f"private-{name}-admm", "epsilon": epsilon, "penalty": 1.0}
                        one = own_tolerance(spec(scale, algorithm, steps, nodes=count, runs=runs))
                        if affordable(one):
                            made[f"{name}, T = {steps}, {end}"] = one
        return made

    def groups(self, results: Results) -> dict[str, dict[str, dict[float, dict[str, Any]]]]:
        """nodes -> curve -> epsilon -> result; of several lengths the best."""
        found: dict[str, dict[str, dict[float, dict[str, Any]]]] = {}
        for label, result in results.items():
            *name, epsilon, nodes = label.split(", ")
            curve = f"ours, {name[1]}" if name[0] == "ours" else name[0]
            place = found.setdefault(nodes, {}).setdefault(curve, {})
            value = float(epsilon.removeprefix("eps = "))
            if value not in place or result["metrics"]["test_error"] < place[value]["metrics"]["test_error"]:
                place[value] = result
        return found

    def pictures(self, results: Results) -> list[Picture]:
        return [
            Chart(
                f"Test error, {nodes}", "epsilon", "test error",
                tuple(
                    Line(name, tuple(points), tuple(r["metrics"]["test_error"] for r in points.values()))
                    for name, points in curves.items()
                ),
                log_x=True,
            )
            for nodes, curves in self.groups(results).items()
        ]  # fmt: skip

    def claims(self, results: Results) -> list[Claim]:
        made = []
        for nodes, curves in self.groups(results).items():
            for epsilon, rival in curves.get("mr", {}).items():
                for kind in ("gaussian", "pure"):
                    text = f"ours ({kind}) is below MR-ADMM at epsilon = {epsilon:g}, {nodes}"
                    made.append(below(text, "ours", rival, curves[f"ours, {kind}"][epsilon], "test_error"))
        return made
