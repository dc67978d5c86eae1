"""Fair private classification (Cummings, Gupta, Kimpara and Morgenstern 2019): Algorithms 1 to 3; every learner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fairveil.lab.artefact import Artefact, Chart, Claim, Line, Picture, Results, Scale, Spec, Table, have, last
from fairveil.lab.rates import Point, curve
from fairveil.randomness import Generator, generator
from fairveil.registry import register

if TYPE_CHECKING:
    from fairveil.classify.game.ftpl import FollowPerturbedLeader


EPSILONS = (0.5, 1.0, 3.0)
PEOPLE = "Adult by sex where it is on this machine, else the generated stand-in"
SIZES: dict[str, tuple[int | None, int]] = {"quick": (8_000, 3), "standard": (None, 5), "paper": (None, 20)}
"""Rows (None: all) and runs by scale."""
OPPORTUNITY = "equal-opportunity"


def spec(learner: Spec, scale: Scale, sensitive: tuple[str, ...] = ("sex",), **more: Any) -> Spec:
    """One learner on the same people, split by the same seed."""
    rows, runs = SIZES[scale]
    name = "adult" if have("adult") else "synthetic-adult"
    if name == "synthetic-adult":
        rows = rows or 40_000
    data = {"name": name, "sensitive": list(sensitive), "rows": rows}
    return {"task": "classify", "learner": learner, "data": data, "runs": runs, "seed": 2019, **more}


def points(results: Results, labels: list[str], x: Sequence[float], metric: str, key: str | None, name: str) -> Line:
    return curve(name, [Point(at, *last(results[label], metric, key)) for at, label in zip(x, labels)])


@register("artefact", "fair-private-classification/algorithm-1")
class Algorithm1(Artefact):
    """The exponential mechanism: accuracy and gap against epsilon, and the printed form on a small group."""

    title = "Algorithm 1: accuracy and gap against epsilon; a group with two positives"
    source = "section 4, Algorithm 1"
    data = ("adult",)
    notes = (PEOPLE, "the printed form runs at the same total: it spends twice its epsilon")
    CLASSES: ClassVar[dict[str, Spec]] = {
        "stumps": {"hypotheses": "stumps"},
        "linear rules": {"hypotheses": "linear"},
        "threshold pairs": {"hypotheses": "threshold-pairs"},
        "stumps, printed": {"hypotheses": "stumps", "variant": "printed"},
    }

    def specs(self, scale: Scale) -> dict[str, Spec]:
        made = {
            f"{name}, eps {epsilon:g}": spec({"name": "exponential-fair", "epsilon": epsilon, **table}, scale)
            for name, table in self.CLASSES.items()
            for epsilon in EPSILONS
        }
        target = {"kind": "learner", "name": "exponential-fair", "epsilon": 2.0}
        trials = {"quick": 2_000, "standard": 10_000, "paper": 50_000}[scale]
        made["audit printed"] = {"task": "audit", "target": {**target, "variant": "printed"}, "trials": trials}
        made["audit sound"] = {"task": "audit", "target": target, "trials": trials}
        return made

    def pictures(self, results: Results) -> list[Picture]:
        def lines(metric: str, key: str | None) -> tuple[Line, ...]:
            return tuple(
                points(results, [f"{name}, eps {e:g}" for e in EPSILONS], EPSILONS, metric, key, name)
                for name in self.CLASSES
            )

        audits = tuple(
            (name, m["epsilon_lower"], 2.0, m["verdict"])
            for name in ("printed", "sound")
            for m in [results[f"audit {name}"]["metrics"]]
        )
        return [
            Chart("accuracy", "epsilon (total)", "accuracy", lines("accuracy", None), log_x=True),
            Chart(
                "gap of true positive rates", "epsilon (total)", "gap", lines("discrimination", OPPORTUNITY), log_x=True
            ),
            Table(
                "a group with two positives, one replaced",
                ("variant", "epsilon at least", "claimed", "verdict"),
                audits,
            ),
        ]

    def claims(self, results: Results) -> list[Claim]:
        sound, printed = (last(results[f"stumps{end}, eps 1"], "accuracy") for end in ("", ", printed"))
        broken = results["audit printed"]["metrics"]["epsilon_lower"] - 2.0
        fine = 2.0 - results["audit sound"]["metrics"]["epsilon_lower"]
        return [
            Claim.exact("Algorithm 1 is (2 eps, delta)-private", "Theorem 2", -broken, "a group of two positives"),
            Claim.exact("the sound form keeps its claim on the same kind of pair", "ours", fine),
            Claim.difference(
                "at equal total the printed form is as accurate as the sound one", "ours", *printed, *sound,
                "the bias sqrt(n)/eps costs more than honest noisy sizes",
            ),
        ]  # fmt: skip


def leader_delta(leader: FollowPerturbedLeader, epsilon: float, runs: int, rng: Generator) -> float:
    """The true delta at epsilon of the printed leader on the sign of one coordinate, by simulating its exact ratio.

    Round t adds Laplace noise of scale s to a sum of +-t/2 and shows its sign: P(sign right) = 1 - exp(-t/(2 s))/2.
    """
    from fairveil.classify.game.ftpl import NoisedEveryRound

    assert isinstance(leader.form, NoisedEveryRound)
    scale = leader.form.laplace_scale / leader.sensitivity
    right = 1 - np.exp(-np.arange(1, leader.rounds + 1) / (2 * scale)) / 2
    hit = rng.random((runs, leader.rounds)) < right
    loss = np.where(hit, np.log(right / (1 - right)), np.log((1 - right) / right)).sum(axis=1)
    return float(np.mean(np.maximum(0.0, -np.expm1(np.minimum(epsilon - loss, 0.0)))))


@register("artefact", "fair-private-classification/algorithm-2")
class Algorithm2(Artefact):
    """FTPL*: the delta that its output really has at the claimed epsilon, against the number of rounds."""

    title = "Algorithm 2: the true delta of FTPL* at its claimed epsilon"
    source = "appendix C.1, Algorithm 2 and Lemma 4"
    notes = (
        "a class that shows the sign of one coordinate; claimed (1, 1e-5)",
        "lower bounds: simulation of the exact ratio",
    )
    ROUNDS: ClassVar[tuple[int, ...]] = (1, 2, 5, 10, 20, 50, 100)

    def _deltas(self) -> list[float]:
        from fairveil.classify.game.ftpl import FollowPerturbedLeader

        signs = np.array([[0.0], [1.0]])
        leaders = [FollowPerturbedLeader(signs, 1.0, 1e-5, rounds, 1.0, "printed") for rounds in self.ROUNDS]
        return [leader_delta(leader, 1.0, 20_000, generator(7, "ftpl")) for leader in leaders]

    def pictures(self, results: Results) -> list[Picture]:
        line = Line("true delta at epsilon 1", self.ROUNDS, tuple(self._deltas()))
        return [Chart("delta of FTPL*", "rounds T", "delta", (line,), log_x=True, level=1e-5)]

    def claims(self, results: Results) -> list[Claim]:
        worst = self._deltas()[self.ROUNDS.index(20)]
        return [
            Claim.exact("FTPL* is (eps, delta)-private after 20 rounds", "Lemma 4", 1e-5 - worst, f"delta {worst:.2f}")
        ]


@register("artefact", "fair-private-classification/algorithm-3")
class Algorithm3(Artefact):
    """The fairness game: FairNR's path, Private-FairNR as printed, and the private game over a finite class."""

    title = "Algorithm 3: violation and error of the game, without privacy, printed, and sound"
    source = "section 5 and appendix C.2, Algorithm 3"
    data = ("adult",)
    notes = (PEOPLE.replace("sex", "sex and race"), "private-game plays threshold pairs by sex")

    def _rounds(self, scale: Scale) -> tuple[int, ...]:
        return (10, 30, 100) if scale == "quick" else (10, 30, 100, 300)

    def specs(self, scale: Scale) -> dict[str, Spec]:
        both = ("sex", "race")
        made = {
            f"fair-nr {rounds}": spec({"name": "fair-nr", "rounds": rounds}, scale, both)
            for rounds in self._rounds(scale)
        }
        for epsilon in EPSILONS:
            made[f"private-game {epsilon:g}"] = spec({"name": "private-game", "epsilon": epsilon}, scale)
        made["printed"] = spec({"name": "private-fair-nr", "epsilon": 1.0}, scale, both)
        made["ours"] = spec({"name": "private-fair", "epsilon": 1.0, "fairness": "false-positive"}, scale, both)
        target = {"kind": "learner", "name": "private-fair-nr", "epsilon": 1.0}
        made["audit printed"] = {"task": "audit", "target": target, "trials": 400}
        return made

    def pictures(self, results: Results) -> list[Picture]:
        path = [label for label in results if label.startswith("fair-nr")]
        rounds = tuple(int(label.split()[1]) for label in path)
        train = Line("training", rounds, tuple(results[p]["metrics"]["estimated"]["subgroup_violation"] for p in path))
        held = points(results, path, list(map(float, rounds)), "subgroup_violation", None, "held out")
        rows = tuple(
            (label, *last(result, "error"), *last(result, "subgroup_violation"))
            for label, result in results.items()
            if not label.startswith("audit")
        )
        columns = ("learner", "error", "its standard error", "subgroup violation", "its standard error")
        return [
            Chart("FairNR: worst weighted gap of false positives", "rounds", "violation", (train, held), log_x=True),
            Table("held-out people", columns, rows),
        ]

    def claims(self, results: Results) -> list[Claim]:
        path = [label for label in results if label.startswith("fair-nr")]
        first, last_ = (results[p]["metrics"]["estimated"]["subgroup_violation"] for p in (path[0], path[-1]))
        printed, ours = last(results["printed"], "error"), last(results["ours"], "error")
        broken = results["audit printed"]["metrics"]["epsilon_lower"] - 1.0
        return [
            Claim.exact("the game without privacy lowers the violation", "Kearns et al. 2018", first - last_),
            Claim.exact("Private-FairNR is (eps, delta)-private", "Theorem 3", -broken, "features decide the play"),
            Claim.difference(
                "our private-fair has less error than Private-FairNR at epsilon 1", "ours", *printed, *ours
            ),
        ]  # fmt: skip


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
                *last(result, "accuracy"),
                *last(result, "discrimination", OPPORTUNITY),
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
        plain = last(results["logistic"], "discrimination", OPPORTUNITY)
        ours = last(results["private-fair aware 1"], "discrimination", OPPORTUNITY)
        accurate = last(results["private-fair aware 1"], "accuracy")
        best = last(results["threshold-optimizer"], "accuracy")
        return [
            Claim.difference("at epsilon 1 our gap is below the plain rule's", "ours", *plain, *ours),
            Claim.difference(
                "at epsilon 1 we are as accurate as fairlearn's threshold optimizer on the same encoding", "ours",
                *accurate, *best, "privacy costs accuracy; the encoding's merit is the same for both",
            ),
        ]  # fmt: skip
