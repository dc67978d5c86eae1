"""A fit, an evaluation, a node, an agent and a run recorded and replayed: one row, another order, what then shows.

Behind it, planted in served code and missed by the audits of its time: a sum of the rows in an attribute behind an
underscore, a row in two messages of an agent, a clip that follows the largest weight of a log, and names of groups and
labels that one person alone is of.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fairveil.bandits.exposure.batched_priv_fairx import BatchedPrivFairx
from fairveil.bandits.task import apart
from fairveil.classify.estimator import PrivateLogisticRegression
from fairveil.classify.people import groups_of
from fairveil.classify.perturbation import Perturbation
from fairveil.consensus.rows import Rows
from fairveil.data.inputs import classes_of
from fairveil.errors import FairveilError, PrivacyError
from fairveil.evaluate.private import PrivateValue, release_under
from fairveil.fairness.groups import Counter
from fairveil.ledger import Ledger
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import SecureNoise
from fairveil.proof.adapters import agent as agents
from fairveil.proof.adapters import node as nodes
from fairveil.proof.engine.adapter import Checks, adapter
from fairveil.proof.engine.replay import Compared, ServedPath, compare, frozen
from fairveil.proof.laws import must
from fairveil.proof.laws.algorithms import met
from fairveil.proof.laws.sums import promised
from fairveil.proof.mutants import Method, Mutant, in_function, in_method, method, twin, with_noise
from fairveil.proof.mutants import mutant as noises
from fairveil.running.runner import run

PEOPLE = 30
SAME = Compared(0.0, 0.0, ())


def _people(world: str) -> tuple[Any, Any]:
    """Rows and labels: as they are, in another order, with another row, or with one that is far too long."""
    at = np.arange(PEOPLE)
    rows, labels = np.stack([np.cos(at), np.sin(2 * at)], axis=1) * 0.6, at % 2
    if world == "order":
        return rows[::-1], labels[::-1]
    rows[3] = {"other": [-0.6, 0.6], "long": [900.0, -700.0]}.get(world, rows[3])
    return rows, np.where(at == 3, 1 - labels, labels) if world == "other" else labels


def fit_on(world: str, **keys: Any) -> ServedPath:
    def path(folder: Path, number: int) -> dict[str, Any]:
        with Ledger.create(folder / "ledger.db", limit=Limit.approximate(8.0, 1e-3, currency="epsilon")) as ledger:
            model = PrivateLogisticRegression(classes=(0, 1), ledger=ledger, **keys)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(*_people(world if number else ""))
        return held(model)

    return path


def held(model: Any) -> dict[str, Any]:
    """All that a model holds beside its ledger; of its counter, which has a random name, the fits."""
    found = {name: value for name, value in vars(model).items() if name != "ledger"}
    return found | {"_tally": model._counter().fits}


def a_fit(folder: Path) -> None:
    """Whatever a fitted model holds, also behind an underscore, is made of its noisy weights."""
    for world in ("order", "other", "long"):
        must(frozen(fit_on(world)) == SAME, "a fitted model holds more than its noisy weights")
        found = compare(fit_on(world, method="output", definition="pure"))
        must(found.within(epsilon=1.0), "a row costs a fit more than was charged, or shows beside it")


GROUPS = ("a", "b", "rare")
RARE = ("group", "label", "both", "alone")
"""One person is the only one of a group, of a label, of both, or the only one who is not of the rest's group."""


def _rare(world: str, number: int) -> tuple[Any, Any, Any]:
    rows, labels = _people("")
    groups = np.where(np.arange(PEOPLE) % 3 == 0, "a", "b").astype(object)
    if world in ("label", "both"):
        labels = np.where(np.arange(PEOPLE) == 3, number, 0)
    if world == "alone":
        groups[:] = "b"
    if world != "label" and number:
        groups[3] = "a" if world == "alone" else "rare"
    return rows, labels, groups


def fair_fits() -> dict[str, Callable[..., Any]]:
    """Estimators that read groups, with everything public declared."""
    from fairveil.classify.fair.estimator import PrivateFairClassifier
    from fairveil.classify.game.estimators import ExponentialFairClassifier, PrivateGameClassifier

    fair = partial(PrivateFairClassifier, classes=(0, 1), groups=GROUPS, rounds=20)
    named = {"classes": (0, 1), "attributes": {"sensitive": GROUPS}}
    return {
        "private-fair": fair,
        "private-fair blind": partial(fair, awareness="blind"),
        "exponential-fair": partial(ExponentialFairClassifier, **named),
        "private-game": partial(PrivateGameClassifier, hypotheses="stumps", rounds=5, **named),
    }


def rare_fit(make: Callable[..., Any], world: str) -> ServedPath:
    """A fit on people of whom one is rare: all that the model holds, what it says when asked, refusals and warnings."""

    def path(folder: Path, number: int) -> dict[str, Any]:
        rows, labels, groups = _rare(world, number)
        said: dict[str, Any] = {}
        with Ledger.create(folder / "ledger.db", limit=Limit.covering(make().learner().event())) as ledger:
            model = make(ledger=ledger)
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                try:
                    model.fit(rows, labels, sensitive_features=groups)
                    said["chances"] = model.predict_proba(_people("")[0], sensitive_features=["rare"] * PEOPLE).tolist()
                except (FairveilError, LookupError, ValueError) as problem:  # what a broken fit stumbles over
                    said["refused"] = str(problem)
            said["heard"] = [str(one.message) for one in heard]
        return said | held(model)

    return path


def a_rare_category(folder: Path) -> None:
    """Who is the only one of a group or a label shows in a fit by its draws alone: in no name, refusal or warning."""
    for name, make in fair_fits().items():
        for world in RARE:
            found = frozen(rare_fit(make, world))
            must(found == SAME, f"{name}: that somebody is the only one shows beside the noise ({world})")


def value_of(world: str) -> ServedPath:
    """A rule valued on a log of forty rows: another order, another row, a weight without bound."""
    value = PrivateValue(epsilon=1.0, clip=2.0, largest_weight=2.0)

    def path(folder: Path, number: int) -> dict[str, Any]:
        weights, outcomes = np.tile([0.0, 2.0], 20), np.arange(40) % 3 / 2
        if number and world == "order":
            weights, outcomes = weights[::-1], outcomes[::-1]
        if number and world != "order":
            weights[5], outcomes[5] = (0.0, 0.5) if world == "other" else (np.inf, -7.0)
        with Ledger.create(folder / "ledger.db", limit=Limit.for_policy(value)) as ledger:
            sums = release_under(ledger, value, {"rule": "a"}, weights, outcomes, SecureNoise())
        found = value.estimate(sums, len(weights), 0.95)
        return {"estimate": [found.value, found.low, found.high], "notes": list(value.guarantee().notes)}

    return path


def an_evaluation(folder: Path) -> None:
    """The value of a rule and its interval are made of two noisy sums, whatever one row of the log holds."""
    must(compare(value_of("order")) == SAME, "the order of a log shows")
    for world in ("other", "unbounded"):
        must(compare(value_of(world)).within(epsilon=1.0), "a row of a log costs more than was charged")


def agent_with(value: float, at: int) -> ServedPath:
    def path(folder: Path, number: int) -> dict[str, Any]:
        said: dict[str, Any] = {}
        with agents.agent_in(folder) as agent:
            for round in range(agents.MESSAGES):
                agents.play(agent, value if number and round == at else 1.0)
                said[f"message {round}"] = agent.send().payload
        return said

    return path


def an_agent(folder: Path) -> None:
    """A reward is in one message: over all of them it costs what the run was charged, and other messages stay."""
    for at in range(agents.MESSAGES):
        for value in (0.0, 50.0):
            found = compare(agent_with(value, at))
            must(found.within(mu=promised(agents.POLICY)), "a reward costs an agent's messages more than was charged")


def node_with(world: str) -> ServedPath:
    def path(folder: Path, number: int) -> dict[str, Any]:
        rows, labels = _people(world if number else "")
        held = Rows.dense(rows[:20], np.where(labels[:20] == 1, 1.0, -1.0))
        with nodes._ledger(folder) as ledger:
            sent = met(nodes.node_in(folder, ledger, rows=held)).send()
        return {"message": sent.payload}

    return path


def a_node(folder: Path) -> None:
    """A message of a node is made of what it released: a row costs the run at most, and shows nowhere else."""
    plan = nodes.ALGORITHM.complete(nodes.SETTING).plan(nodes.SETTING)
    for world in ("other", "long"):
        must(compare(node_with(world)).within(mu=plan.total), "a row of a node shows beside its release")


TABLE = [[0.1, 0.9], [0.3, 0.2], [0.8, 0.5], [0.0, 1.0], [0.4, 0.6]]


def run_beside_its_promise(changed: int | None) -> str:
    """What a secure run on recorded people says, without ``lab``; the first row's reward of one arm may be another."""
    rewards = [[0.77 if (row, arm) == (0, changed) else value for arm, value in enumerate(held)]
               for row, held in enumerate(TABLE)]  # fmt: skip
    policy, environment = {"name": "private-nash", "epsilon": 0.1}, {"name": "table", "rewards": rewards}
    spec = {"task": "bandit", "rounds": len(TABLE), "noise": "secure", "policy": policy, "environment": environment}
    with method(SecureNoise, "laplace", lambda _: lambda self, scale, size=1: np.zeros(size, np.int64)):
        found = run(spec)
    return repr([{name: said for name, said in found["metrics"].items() if name != "lab"}, found["series"]])


def a_secure_run(folder: Path) -> None:
    """The exact mean of the best arm stood beside a promise: what nobody was given shows nowhere outside the lab."""
    base = run_beside_its_promise(None)
    must(base in [run_beside_its_promise(arm) for arm in (0, 1)], "a secure run shows exact numbers beside its promise")


@twin
def _handed_out(original: Method, self: Any, rows: Any, labels: Any, **more: Any) -> Any:
    made = original(self, rows, labels, **more)
    made._seen = float(np.asarray(rows)[:, 0].sum())
    return made


@twin
def _names_of_the_data(original: Method, sensitive: Any, names: Any, rows: int, **more: Any) -> Any:
    return original(sensitive, None if not more else names, rows, **more)


def _labels_of_the_data(original: Method) -> Method:
    return lambda labels, declared, name: np.unique(labels) if len(np.unique(labels)) == 2 else np.array([0, 2])


@twin
def _nobody_alone(original: Method, self: Any, index: Any, labels: Any, groups: int) -> None:
    if (np.bincount(index) == 1).any():
        raise PrivacyError("a group has one person", fix="merge it")
    original(self, index, labels, groups)


@twin
def _unclipped(original: Method, self: PrivateValue, weights: Any, outcomes: Any) -> Any:
    wide = PrivateValue(epsilon=self.epsilon, clip=float(np.minimum(weights, 1e6).max()))
    return original(wide, weights, outcomes)


@adapter("parties-replayed")
def party_checks() -> Checks:
    """Fits, evaluations, nodes and agents, recorded and replayed."""
    quiet = with_noise(noises.quiet)
    local = type(nodes.ALGORITHM.complete(nodes.SETTING).local(nodes.SETTING, 0))
    return Checks(
        (a_fit, a_rare_category, an_evaluation, an_agent, a_node, a_secure_run),
        (
            Mutant("sum-behind-an-underscore", "a fitted model holds a sum of its rows",
                   in_method(PrivateLogisticRegression, "fit", _handed_out)),
            Mutant("groups-of-the-data", "a fitted model names the groups that somebody is of",
                   in_function(groups_of, _names_of_the_data(groups_of))),
            Mutant("labels-of-the-data", "classes are the labels that somebody has",
                   in_function(classes_of, _labels_of_the_data(classes_of))),
            Mutant("nobody-alone", "a fit refuses people of whom one is alone in a group",
                   in_method(Counter, "__init__", _nobody_alone)),
            Mutant("fit-without-noise", "weights as they were found",
                   in_method(Perturbation, "release", quiet)),
            Mutant("clip-of-the-log", "weights are clipped at the largest of the log",
                   in_method(PrivateValue, "units", _unclipped)),
            Mutant("exact-beside-the-promise", "numbers read off people's rows stand beside a promise",
                   in_function(apart, lambda metrics: metrics)),
            Mutant("bare-message", "messages of an agent without noise",
                   in_method(BatchedPrivFairx, "privatise", quiet)),
            Mutant("bare-node", "messages of a node without noise", in_method(local, "draw", quiet)),
        ),
    )  # fmt: skip
