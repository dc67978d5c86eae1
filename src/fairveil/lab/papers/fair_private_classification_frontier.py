"""Fair private classification: error against unfairness for every learner, ours beside the paper's."""

from __future__ import annotations

from fairveil.lab.artefact import Artefact, Claim, Picture, Results, Scale, Spec, Table
from fairveil.lab.papers.fair_private_classification import EPSILONS, OPPORTUNITY, PEOPLE, error_of, spec
from fairveil.registry import register


@register("artefact", "fair-private-classification/frontier")
class Frontier(Artefact):
    """Accuracy against the gap of true positive rates against epsilon: all learners beside fairlearn's."""

    title = "Frontier: accuracy, gap and epsilon of every learner"
    source = "ours"
    data = ("adult",)
    notes = (PEOPLE, "bands are 95 % over splits of the same people", "same public bins for every learner")

    def specs(self, scale: Scale) -> dict[str, Spec]:
        rounds = {"iterations": 10} if scale == "quick" else {}
        made = {
            "logistic": spec({"name": "logistic"}, scale),
            "threshold-optimizer": spec({"name": "threshold-optimizer"}, scale),
            "fair-reductions": spec({"name": "fair-reductions", "constraint": "eqopt", **rounds}, scale),
        }
        for epsilon in EPSILONS:
            budget = {"epsilon": epsilon}
            made |= {
                f"private-fair aware {epsilon:g}": spec({"name": "private-fair", **budget}, scale),
                f"private-fair blind {epsilon:g}": spec(
                    {"name": "private-fair", **budget, "awareness": "blind"}, scale
                ),
                f"private-logistic {epsilon:g}": spec({"name": "private-logistic", **budget}, scale),
                f"exponential-fair {epsilon:g}": spec(
                    {"name": "exponential-fair", **budget, "hypotheses": "threshold-pairs"}, scale
                ),
            }
        return made

    def pictures(self, results: Results) -> list[Picture]:
        from fairveil.lab.compare import frontier

        rows = tuple(
            (
                label,
                None if result["guarantee"] is None else result["guarantee"]["epsilon"],
                *error_of(result, "accuracy"),
                *error_of(result, "discrimination", OPPORTUNITY),
                result["metrics"]["pooled"][OPPORTUNITY],
            )
            for label, result in results.items()
        )
        columns = (
            "learner",
            "epsilon",
            "accuracy",
            "its standard error",
            "mean gap",
            "its standard error",
            "pooled gap",
        )
        return [frontier(results, OPPORTUNITY), Table("held-out people", columns, rows)]

    def claims(self, results: Results) -> list[Claim]:
        plain = error_of(results["logistic"], "discrimination", OPPORTUNITY)
        ours = error_of(results["private-fair aware 1"], "discrimination", OPPORTUNITY)
        accurate = error_of(results["private-fair aware 1"], "accuracy")
        best = error_of(results["threshold-optimizer"], "accuracy")
        return [
            Claim.difference("at epsilon 1 our gap is below the plain rule's", "ours", *plain, *ours),
            Claim.difference(
                "at epsilon 1 we are as accurate as fairlearn's threshold optimizer on the same encoding", "ours",
                *accurate, *best, "privacy costs accuracy; the encoding's merit is the same for both",
            ),
        ]  # fmt: skip
