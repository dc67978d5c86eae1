"""Laws of a private consensus algorithm: what its nodes keep around every message, and what their messages cost.

Exact cost: two nodes run; at each iteration the first one is asked what it would send of its rows and of neighbouring
ones, with everything that was published before it as it is. Sums and perturbed solutions are linear in their draws.
Noise of density exp(-a |e|) in an objective is not: there another noise, moved by the gradient that the rows differ by,
gives the same solution in the other world, and the loss is a (|e'| - |e|) and the ratio of the determinants, at its
worst over directions and lengths.

>>> from fairveil.consensus.private_admm import PrivateAdmm
>>> check_algorithm(PrivateAdmm(epsilon=1.0))
['asked_again', 'recycled_steps_read_nothing', 'charged_and_stored', 'parts_fit_the_whole', 'exact_cost', 'audited']
>>> all(cost <= claim * (1 + 1e-4) for _, cost, claim in algorithm_costs(PrivateAdmm(epsilon=1.0)))
True
"""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fairveil.arrays import Floats
from fairveil.consensus.algorithm import Algorithm, Setting
from fairveil.consensus.graphs import make_graph
from fairveil.consensus.node import Node
from fairveil.consensus.perturbation import Objective, exact_noise
from fairveil.consensus.private import PrivateFamily
from fairveil.consensus.private_admm import PrivateAdmm
from fairveil.consensus.rows import Rows
from fairveil.errors import SpecError
from fairveil.federated import Message
from fairveil.ledger import Ledger
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import Noise, SeededNoise, ZeroNoise
from fairveil.proof.engine.everything import check_audited
from fairveil.proof.laws import Costs, check_laws, established, in_words, must
from fairveil.proof.laws.costs import WORST, people
from fairveil.proof.laws.sums import SLACK, prices
from fairveil.proof.mutants import function
from fairveil.registry import register

SETTING = Setting(make_graph("star", 2), (20, 20), 2, 1, 2)
LONGER = replace(SETTING, iterations=4)
ROUNDS: tuple[dict[str, Any], ...] = tuple(
    {"definition": definition, "rounds": rounds, "share": share, "slope": slope}
    for definition, rounds, share, slope in itertools.product(("pure", "gaussian"), (1, 9), (0.1, 0.5), (0.3, 1.0))
)
FAMILY: tuple[dict[str, Any], ...] = tuple(
    {"epsilon": epsilon, "penalty": penalty, **more}
    for epsilon, penalty in ((1.0, 0.5), (4.0, 0.5), (4.0, 0.05))
    for more in ({}, {"loss": {"name": "huber-hinge"}}, {"perturb": "gaussian-primal", "delta": 1e-5})
)
NOISES = [
    length * np.array([math.cos(turn), math.sin(turn)])
    for length in (1e-3, 0.3, 3.0, 30.0)
    for turn in np.linspace(0, 2 * math.pi, 12, endpoint=False)
]
"""Noise in the objective, in numbers of 1/a."""


def algorithm_costs(algorithm: Any) -> Costs:
    """What the worst row costs a node in all its messages, and what is promised, by configuration."""
    if isinstance(algorithm, PrivateAdmm):
        for keys in ROUNDS:
            full = replace(algorithm, **keys).complete(SETTING)
            plan = full.plan(SETTING)
            pure = plan.definition == "pure"
            yield in_words(keys), spent(full, SETTING, partial(linear_price, pure=pure), pure), plan.total
    elif isinstance(algorithm, PrivateFamily) and algorithm.form.established:
        for keys in FAMILY:
            try:
                made: Any = replace(algorithm, **keys).complete(LONGER)
            except SpecError:
                continue  # what is refused is no configuration of it
            if keys.get("perturb") is None:
                yield in_words(keys), spent(made, LONGER, objective_price, True), float(made.totals(LONGER)[-1, 0])
            else:
                count = len(made.schedule(LONGER).releases)
                yield in_words(keys), spent(made, LONGER, linear_price, False), made.mu(LONGER) * math.sqrt(count)


def spent(full: Any, setting: Setting, price: Callable[..., Floats], pure: bool) -> float:
    """The dearest of all other first rows over a whole run of the first node."""
    rows, others = held(None), [held(changed) for changed in WORST]
    nodes = [Node(full, setting, i, rows, noise_of=lambda t: SeededNoise(1, t)) for i in (0, 1)]
    total = np.zeros(len(others))
    for iteration in range(1, full.iterations(setting) + 1):
        if nodes[0].local.reads(iteration):
            costs = price(nodes[0].local, iteration, rows, others)
            total += costs if pure else costs**2
        exchanged(nodes)
    worst = float(total.max())
    return worst if pure else math.sqrt(worst)


def held(changed: Any) -> Rows:
    """What a node holds; its first row may be another."""
    rows, labels = people(changed)
    rows = rows[:20] / np.maximum(1.0, np.linalg.norm(rows[:20], axis=1))[:, None]
    return Rows.dense(rows, 2.0 * labels[:20] - 1)


def linear_price(local: Any, iteration: int, rows: Rows, others: list[Rows], pure: bool = False) -> Floats:
    """A message that is linear in its draws."""

    def shown(held: Rows, noise: Noise) -> Floats:
        sent = local.draw(iteration, held, noise)
        return np.concatenate([np.asarray(sent[name], np.float64).ravel() for name in sorted(sent)])

    return np.array(prices(partial(shown, rows), [shown(other, ZeroNoise()) for other in others], pure))


def objective_price(local: Any, iteration: int, rows: Rows, others: list[Rows]) -> Floats:
    """Solutions with noise in the objective: at the worst noise, with the last noise that hides how they are found."""
    made: Objective = local.perturbation
    rate, served, drawn = made.rates[iteration - 1], exact_noise, np.zeros(rows.width)
    reach = served(rate, rows.width, made.shift, SeededNoise(1))[1]
    kappa = local.ridge + 2 * local.schedule.penalty[iteration - 1, local.node] * len(local.neighbours)
    far = 1.01 * math.sqrt(rows.width) * 2 * (made.tolerance + reach) / kappa
    worst = np.zeros(len(others))

    def found(held: Rows, given: Floats) -> tuple[Floats, Floats, float]:
        """The solution with this noise; gradient and determinant of the rows there."""
        drawn[:] = given
        weights = local.draw(iteration, held, ZeroNoise())["f"]
        return weights, *curved(local, held, weights, kappa)

    with function(served, lambda *given: (drawn.copy(), reach)):
        for noise in (each / rate for each in NOISES):
            weights, pull, volume = found(rows, noise)
            for place, other in enumerate(others):
                gradient, turned = curved(local, other, weights, kappa)
                moved = noise + pull - gradient
                apart = float(np.abs(found(other, moved)[0] - weights).sum())
                loss = rate * float(np.linalg.norm(moved) - np.linalg.norm(noise)) + volume - turned
                price = abs(loss) + made.tail if apart <= far else math.inf  # no noise there gives this solution
                worst[place] = max(worst[place], price)
    return worst


def curved(local: Any, rows: Rows, weights: Floats, kappa: float) -> tuple[Floats, float]:
    """Gradient of a node's own rows, and the logarithm of the determinant of its curvature."""
    gradient, matrix = rows.curvature(weights, local.algorithm.loss_function)
    whole = local.scale * matrix + kappa * np.eye(len(weights))
    return local.scale * gradient, float(np.linalg.slogdet(whole)[1])


# Laws -----------------------------------------------------------------------------------------------------------------

Law = Callable[[Algorithm], Any]


def rows_of(first: float = 0.6) -> Rows:
    """The rows of a node, all at their bound."""
    return Rows.dense(np.tile([[first, 0.8], [0.8, -0.6]], (10, 1)), np.tile([1.0, -1.0], 10))


def met(node: Node) -> Node:
    """A node that has compared its plan with that of the other."""
    node.meet([{"node": 1, "plan": node.fingerprint, "rows": SETTING.sizes[1]}])
    return node


def exchanged(nodes: list[Node]) -> None:
    """Both nodes send, and hear what the other sent."""
    sent = [node.send() for node in nodes]
    for node, other in zip(nodes, reversed(sent), strict=True):
        node.receive(other)


def _same(first: Message, second: Message) -> bool:
    return all(np.array_equal(first.payload[name], second.payload[name]) for name in first.payload)


def asked_again(algorithm: Algorithm) -> None:
    """A node that is asked again sends what it has sent, and reads no rows for it."""
    full, rows = algorithm.complete(SETTING), rows_of()
    node = Node(full, SETTING, 0, rows, noise_of=lambda iteration: SeededNoise(1, iteration))
    first, reads = node.send(), rows.reads
    again = node.send(SeededNoise(2))
    must(_same(first, again), "a message that is asked for twice is drawn twice")
    must(rows.reads == reads, "a retry reads the rows again")


def recycled_steps_read_nothing(algorithm: Algorithm) -> None:
    """A step that is not a release does not touch the rows."""
    full, rows = algorithm.complete(SETTING), rows_of()
    nodes = [
        Node(full, SETTING, i, rows if i == 0 else rows_of(), noise_of=lambda t: SeededNoise(1, t)) for i in (0, 1)
    ]
    for iteration in range(1, min(2, full.iterations(SETTING)) + 1):
        before, reading = rows.reads, nodes[0].local.reads(iteration)
        exchanged(nodes)
        must(reading or rows.reads == before, "a step that nobody paid for reads the rows")


def charged_and_stored(algorithm: Algorithm) -> None:
    """Under a ledger the run is charged once, and a node that comes back sends its stored message."""
    full, rows = algorithm.complete(SETTING), rows_of()
    if not established(full.guarantee(SETTING)):
        return
    with tempfile.TemporaryDirectory() as name:
        limit = Limit.covering(full.event(SETTING, 0))
        with Ledger.create(Path(name) / "ledger.db", limit=limit) as ledger:
            sent = []
            for _ in range(2):  # as after a crash
                sent.append(met(Node(full, SETTING, 0, rows, ledger=ledger, folder=Path(name))).send())
                must(ledger.spent.units > 0, "a message is sent without a charge")
                must(ledger.remaining.units < ledger.limit.units, "a message is sent without a charge")
            must(_same(*sent), "a node that comes back draws again")


def parts_fit_the_whole(algorithm: Algorithm) -> None:
    """What all releases of a node cost together is the budget at most, with many rounds too."""
    if not isinstance(algorithm, PrivateAdmm):
        return
    plan = replace(algorithm, rounds=9).complete(SETTING).plan(SETTING)
    parts = np.array([plan.curvature_part] * 2 + [plan.gradient_part] * plan.rounds)
    whole = parts.sum() if plan.definition == "pure" else np.linalg.norm(parts)
    must(whole <= plan.total * (1 + 1e-9), "the releases cost more than the budget", "share it among them")


def exact_cost(algorithm: Algorithm) -> None:
    """No row costs all messages of a node together more than is promised, in every definition and plan."""
    for words, cost, claim in algorithm_costs(algorithm):
        must(cost <= claim * (1 + SLACK), f"the worst row costs more than is promised ({words})")


def audited(algorithm: Algorithm) -> None:
    """It has pairs of worlds that call its served methods, and mutants."""
    if established(algorithm.complete(SETTING).guarantee(SETTING)):
        check_audited("algorithm", algorithm)


LAWS: dict[str, Law] = {
    law.__name__: law
    for law in (asked_again, recycled_steps_read_nothing, charged_and_stored, parts_fit_the_whole, exact_cost, audited)
}


@register("laws", "algorithm")
def check_algorithm(algorithm: Algorithm) -> list[str]:
    """Run every law; returns their names, raises ContractError at the first that is broken."""
    return check_laws(LAWS, algorithm)
