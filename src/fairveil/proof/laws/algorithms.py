"""Laws of a private consensus algorithm: what its nodes keep around every message.

>>> from fairveil.consensus.private_admm import PrivateAdmm
>>> check_algorithm(PrivateAdmm(epsilon=1.0))
['asked_again', 'recycled_steps_read_nothing', 'charged_and_stored', 'parts_fit_the_whole', 'exact_cost', 'audited']
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fairveil.consensus.algorithm import Algorithm
from fairveil.consensus.node import Node
from fairveil.consensus.private_admm import PrivateAdmm
from fairveil.consensus.rows import Rows
from fairveil.federated import Message
from fairveil.ledger import Ledger
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import SeededNoise
from fairveil.proof.laws import check_laws, must
from fairveil.proof.laws.messages import SETTING, algorithm_costs
from fairveil.proof.laws.sums import SLACK
from fairveil.registry import register

Law = Callable[[Algorithm], Any]


def _rows() -> Rows:
    return Rows.dense(np.tile([[0.6, 0.8], [0.8, -0.6]], (10, 1)), np.tile([1.0, -1.0], 10))


def _same(first: Message, second: Message) -> bool:
    return all(np.array_equal(first.payload[name], second.payload[name]) for name in first.payload)


def asked_again(algorithm: Algorithm) -> None:
    """A node that is asked again sends what it has sent, and reads no rows for it."""
    full, rows = algorithm.complete(SETTING), _rows()
    node = Node(full, SETTING, 0, rows, noise_of=lambda iteration: SeededNoise(1, iteration))
    first, reads = node.send(), rows.reads
    again = node.send(SeededNoise(2))
    must(_same(first, again), "a message that is asked for twice is drawn twice")
    must(rows.reads == reads, "a retry reads the rows again")


def recycled_steps_read_nothing(algorithm: Algorithm) -> None:
    """A step that is not a release does not touch the rows."""
    full, rows = algorithm.complete(SETTING), _rows()
    nodes = [Node(full, SETTING, i, rows if i == 0 else _rows(), noise_of=lambda t: SeededNoise(1, t)) for i in (0, 1)]
    for iteration in range(1, min(2, full.iterations(SETTING)) + 1):
        before, reading = rows.reads, nodes[0].local.reads(iteration)
        sent = [node.send() for node in nodes]
        must(reading or rows.reads == before, "a step that nobody paid for reads the rows")
        for node, other in zip(nodes, reversed(sent), strict=True):
            node.receive(other)


def charged_and_stored(algorithm: Algorithm) -> None:
    """Under a ledger the run is charged once, and a node that comes back sends its stored message."""
    full, rows = algorithm.complete(SETTING), _rows()
    promise = full.guarantee(SETTING)
    if promise is None or not promise.established:
        return
    with tempfile.TemporaryDirectory() as name:
        limit = Limit.covering(full.event(SETTING, 0))
        with Ledger.create(Path(name) / "ledger.db", limit=limit) as ledger:
            sent = []
            for _ in range(2):  # as after a crash
                node = Node(full, SETTING, 0, rows, ledger=ledger, folder=Path(name))
                node.meet([{"node": 1, "plan": node.fingerprint, "rows": SETTING.sizes[1]}])
                sent.append(node.send())
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
    from fairveil.proof.engine.everything import check_audited

    promise = algorithm.complete(SETTING).guarantee(SETTING)
    if promise is not None and promise.established:
        check_audited("algorithm", algorithm)


LAWS: dict[str, Law] = {
    law.__name__: law
    for law in (asked_again, recycled_steps_read_nothing, charged_and_stored, parts_fit_the_whole, exact_cost, audited)
}


@register("laws", "algorithm")
def check_algorithm(algorithm: Algorithm) -> list[str]:
    """Run every law; returns their names, raises ContractError at the first that is broken."""
    return check_laws(LAWS, algorithm)
