"""The `evaluate` task: what would another rule have earned, from the log of the rule that decided?"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from fairveil.arrays import Floats
from fairveil.configuration import describe
from fairveil.data.logs import Log, LogTable, read_log
from fairveil.errors import PrivacyError, SpecError, at
from fairveil.evaluate.estimators import ESTIMATORS, Estimate, Question, around
from fairveil.evaluate.private import PrivateValue, release_under
from fairveil.evaluate.targets import Support, Target, importance, support
from fairveil.fields import Delta, Epsilon, OpenUnit, Positive
from fairveil.ledger.account import check_single, ledger_of_run
from fairveil.privacy.guarantee import REFUSED, Guarantee
from fairveil.privacy.noise import make_noise
from fairveil.randomness import generator
from fairveil.registry import build, names, register
from fairveil.task import Outcome, Part, Task, TaskSpec

Name = Literal["replay", "clipped-importance", "self-normalised", "doubly-robust"]
PRIVATE: Name = "clipped-importance"


class EvaluateSpec(TaskSpec):
    """Keys of an evaluate spec. With ``epsilon`` only clipped importance weighting runs, with a public ``clip``."""

    log: dict[str, Any] = Field(description="the logged decisions: file and columns, or a data set")
    target: dict[str, Any] = Field(description="the rule that is evaluated: its name and parameters")
    estimators: Annotated[list[Name], Field(min_length=1)] | None = Field(
        None, description="which estimators; all that fit when left out"
    )
    clip: Positive | None = Field(None, description="largest weight with which one row counts")
    largest_weight: Positive | None = Field(
        None,
        description="with epsilon: largest weight a row can have, public; follows where log.propensity is a number",
    )
    level: OpenUnit = Field(0.95, description="coverage of the intervals")
    epsilon: Epsilon | None = Field(None, description="budget of one row; without it nothing is private")
    delta: Delta | None = Field(None, description="chance that the budget is exceeded")


@register("task", "evaluate")
class EvaluateTask(Task):
    """What another rule would have earned, from logged decisions with their propensities; privately with an epsilon.

    Metrics: ``estimates`` by estimator (value, low, high), ``support`` (weights, effective sample size, reasons),
    ``logged`` (what the logging rule earned). None of these is protected: they are marked ``evaluation``. With an
    epsilon: ``estimates`` and ``sums``, both from the noisy sums, and nothing else; with `fairveil run --ledger` these
    are charged first, drawn once and stored.
    """

    Spec = EvaluateSpec

    def fill(self, model: EvaluateSpec) -> dict[str, Any]:
        table, target = _log_table(model.log), _target(model.target)
        spec = model.model_dump(mode="json", exclude={"log", "largest_weight"})
        spec["log"] = describe(table)
        spec["target"] = describe(target)
        if model.runs != 1:
            raise SpecError(
                "one log is evaluated once",
                path="runs",
                given=model.runs,
                allowed="1",
                fix="runs on the same people would add up their budgets",
            )
        if model.epsilon is not None:
            _check_private(model, table)
            spec["estimators"] = [PRIVATE]
            if (largest := _largest_weight(model, table, target)) is not None:
                spec["largest_weight"] = largest
        else:
            for key, given in (("delta", model.delta), ("largest_weight", model.largest_weight)):
                if given is not None:
                    raise SpecError(f"{key} goes with epsilon", path=key, given=given, fix="add epsilon")
            spec["estimators"] = list(model.estimators) if model.estimators is not None else list(ESTIMATORS)
        if table.propensity is None:
            raise SpecError(
                "a rule cannot be valued without the probabilities of the logged choices",
                path="log.propensity",
                allowed="a column, or one number such as 1/arms for uniform logging",
                fix="name the column of probabilities, or give the number where all choices were made alike",
            )
        return spec

    def work(self, spec: dict[str, Any], block: dict[str, Any]) -> Part:
        target = _target(spec["target"])
        if ledger_of_run() is not None:
            check_run(spec)
        log = read_log(_log_table(spec["log"]), target.columns())
        law = target.probabilities(log)
        weights = importance(log, law)
        if spec["epsilon"] is not None:
            return _private(spec, log, weights)
        return _plain(spec, log, law, weights)

    def finish(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        part = parts[0]
        estimates = {name: _estimate(part[name]).to_dict() for name in spec["estimators"]}
        if spec["epsilon"] is not None:
            metrics = {"estimates": estimates, "sums": part["sums"].tolist()}
            return Outcome(
                metrics, guarantee=promised(spec), simulated=make_noise(spec["noise"], spec["seed"]).simulated
            )
        found = Support(*part["support"].tolist())
        logged = _estimate(part["logged"]).to_dict()
        return Outcome({"evaluation": True, "estimates": estimates, "support": found.to_dict(), "logged": logged})


def _plain(spec: dict[str, Any], log: Log, law: Floats, weights: Floats) -> Part:
    clip = np.inf if spec["clip"] is None else spec["clip"]
    part: Part = {"support": np.array(support(weights)), "logged": _row(around(log.outcomes, spec["level"]), log)}
    for name in spec["estimators"]:
        question = Question(log, law, weights, clip, spec["level"], generator(spec["seed"], "evaluate", name))
        part[name] = _row(ESTIMATORS[name](question), log)
    return part


def _private(spec: dict[str, Any], log: Log, weights: Floats) -> Part:
    value, noise, ledger = private_value(spec), make_noise(spec["noise"], spec["seed"], "evaluate"), ledger_of_run()
    if ledger is None:
        sums = value.release(weights, log.outcomes, noise)
    else:
        sums = release_under(ledger, value, spec, weights, log.outcomes, noise)
    return {PRIVATE: _row(value.estimate(sums, len(log), spec["level"]), log), "sums": sums}


def _row(estimate: Estimate, log: Log) -> Floats:
    """An estimate as an array, on the scale of the outcomes."""
    scaled = estimate.scaled(log.low, log.high)
    return np.array([scaled.value, scaled.low, scaled.high, np.nan if scaled.rows is None else scaled.rows])


def _estimate(row: Floats) -> Estimate:
    value, low, high, rows = row.tolist()
    return Estimate(value, low, high, None if np.isnan(rows) else int(rows))


def check_run(spec: dict[str, Any]) -> None:
    """Refuse what a ledger cannot stand for: invented rows, noise that can be computed again, what spends nothing."""
    fix, log = "leave --ledger out to study a rule", spec["log"]
    if log["dataset"] is not None and log["dataset"].get("name") in names("generator"):
        raise SpecError(
            "a ledger is for people's data, and this log is invented", path="log.dataset",
            given=log["dataset"]["name"], allowed="a log of recorded decisions", fix=fix,
        )  # fmt: skip
    check_single(spec, fix)
    if spec["epsilon"] is None:
        raise PrivacyError(
            "this evaluation spends nothing that a ledger could charge", path="epsilon",
            allowed="a budget, and a public clip", fix=fix,
        )  # fmt: skip


def private_value(spec: dict[str, Any]) -> PrivateValue:
    return PrivateValue(spec["epsilon"], spec["clip"], spec["delta"], spec.get("largest_weight"))


def promised(spec: dict[str, Any]) -> Guarantee:
    """The promise of a private evaluation, with what this log's settings add to its notes."""
    promise = private_value(spec).guarantee()
    return replace(promise, notes=(*promise.notes, REFUSED)) if spec["log"]["strict"] else promise


def _largest_weight(model: EvaluateSpec, table: LogTable, target: Target) -> float | None:
    """How large a weight can be: as declared, or what a public propensity and the rule make of it."""
    if isinstance(table.propensity, str) or not table.propensity or not table.arms:
        return model.largest_weight
    largest = target.largest(len(table.arms)) / float(table.propensity)
    if model.largest_weight is not None and model.largest_weight < largest * (1 - 1e-9):
        raise SpecError(
            "weights can be larger than declared", path="largest_weight", given=model.largest_weight,
            allowed=f"at least {largest:g}: the rule's largest probability over log.propensity", fix="leave it out",
        )  # fmt: skip
    return largest if model.largest_weight is None else model.largest_weight


def _check_private(model: EvaluateSpec, table: LogTable) -> None:
    refused = [name for name in model.estimators or [] if name != PRIVATE]
    if refused:
        raise SpecError(
            "this estimator has no private form",
            path="estimators",
            given=refused[0],
            allowed=PRIVATE,
            fix="leave epsilon out to see it without privacy",
        )
    if model.clip is None:
        raise SpecError(
            "a private evaluation needs a public clip",
            path="clip",
            fix="the largest weight the logging rule allows: 1/explore for a uniform rule, arms/explore in general",
        )
    if table.arms is None:
        raise SpecError(
            "a private evaluation needs the names of the arms",
            path="log.arms",
            fix="list them: names read off the log are not public",
        )


def _log_table(table: dict[str, Any]) -> LogTable:
    try:
        return LogTable(**table)
    except SpecError as problem:
        raise at(problem, "log") from None


def _target(table: dict[str, Any]) -> Target:
    made: Target = build("target", table, "target")
    return made
