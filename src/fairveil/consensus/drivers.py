"""A node of a consensus run, as laws and mutants: every message is drawn once, for rows and a plan that were fixed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fairveil.consensus import laws
from fairveil.consensus.laws import SETTING
from fairveil.consensus.node import Node, remember_rows
from fairveil.consensus.private_admm import PrivateAdmm
from fairveil.consensus.rows import Rows
from fairveil.errors import LedgerError, PrivacyError
from fairveil.federated import Inbox
from fairveil.federated.outbox import Released, release_once
from fairveil.laws import must
from fairveil.privacy.audit.drivers import Driver
from fairveil.privacy.audit.mutants import Mutant, function, method
from fairveil.privacy.charges import Charge
from fairveil.privacy.ledger import Ledger
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import SeededNoise
from fairveil.registry import register

Method = Callable[..., Any]
ALGORITHM = PrivateAdmm(epsilon=1.0, rounds=2)


def asked_again(folder: Path) -> None:
    """A node that is asked again sends what it has sent, and reads no rows for it."""
    laws.asked_again(ALGORITHM)


def charged_and_stored(folder: Path) -> None:
    """The run is charged when the first message is drawn; a node that comes back sends its stored message."""
    laws.charged_and_stored(ALGORITHM)


def rows_of(first: float = 0.6) -> Rows:
    return Rows.dense(np.tile([[first, 0.8], [0.8, -0.6]], (10, 1)), np.tile([1.0, -1.0], 10))


def node_in(folder: Path, ledger: Ledger, algorithm: Any = ALGORITHM, rows: Rows | None = None) -> Node:
    full = algorithm.complete(SETTING)
    return Node(full, SETTING, 0, rows_of() if rows is None else rows, ledger=ledger, folder=folder)


def met(node: Node) -> Node:
    node.meet([{"node": 1, "plan": node.fingerprint, "rows": SETTING.sizes[1]}])
    return node


def _ledger(folder: Path) -> Ledger:
    limit = Limit.covering(ALGORITHM.complete(SETTING).event(SETTING, 0))
    return Ledger.create(folder / "ledger.db", limit=limit)


def _refused(what: Callable[[], Any], problem: str) -> None:
    try:
        what()
    except (PrivacyError, LedgerError):
        return
    must(False, problem)


def plans_are_compared(folder: Path) -> None:
    """Nothing is released before everybody's plan and number of rows were compared."""
    with _ledger(folder) as ledger:
        node = node_in(folder, ledger)
        _refused(node.send, "a message is sent before the plans were compared")
        for facts in ({"plan": "another", "rows": SETTING.sizes[1]}, {"plan": node.fingerprint, "rows": 1}):
            _refused(partial(node.meet, [{"node": 1, **facts}]), "another plan passes")


def rows_are_fixed(folder: Path) -> None:
    """Other rows under the same run are refused, and so is another configuration."""
    with _ledger(folder) as ledger:
        met(node_in(folder, ledger)).send()
        _refused(lambda: node_in(folder, ledger, rows=rows_of(0.5)), "other rows are served under one run")
        other = PrivateAdmm(epsilon=1.0, rounds=2, slope=0.25)
        _refused(lambda: met(node_in(folder, ledger, other)).send(), "an account serves another plan")


def another_question_is_refused(folder: Path) -> None:
    """A stored message was drawn at one public point: at another one it is not handed out."""
    with _ledger(folder) as ledger:
        met(node_in(folder, ledger)).send()
        again = met(node_in(folder, ledger))
        with method(type(again.local), "question", lambda _: lambda self, iteration: np.ones(3)):
            _refused(again.send, "a stored message answers another question")


def _drawn_again(original: Method) -> Method:
    def broken(account: Any, block: str, draw: Method, noise: Any = None) -> Any:
        found = original(account, block, draw, noise)
        return Released(draw(noise or SeededNoise(9)), "drawn") if found.fate == "stored" else found

    return broken


def _plant(owner: type, name: str, change: Callable[[Method], Method]) -> Callable[[Any], AbstractContextManager[None]]:
    return lambda _: method(owner, name, change)


def _met_already(original: Method) -> Method:
    def broken(self: Node, noise: Any = None) -> Any:
        self._met = True
        return original(self, noise)

    return broken


def _any_plan(original: Method) -> Method:
    def broken(self: Node, introductions: Any) -> None:
        self._met = True

    return broken


@register("driver", "node")
def node_driver() -> Driver:
    """A node of a consensus run: `fairveil.consensus.node`."""
    original = release_once
    return Driver(
        (asked_again, charged_and_stored, plans_are_compared, rows_are_fixed, another_question_is_refused),
        (
            Mutant("charge-left-out", "the run is not charged",
                   _plant(Ledger, "spend", lambda _: lambda self, *facts, **named: Charge())),
            Mutant("drawn-again-on-retry", "a message that is asked for twice is drawn twice",
                   _plant(Inbox, "own", lambda _: lambda self, sync: None)),
            Mutant("drawn-again-after-crash", "a stored message is drawn again",
                   lambda _: function(original, _drawn_again(original))),
            Mutant("not-met", "messages before the plans were compared", _plant(Node, "send", _met_already)),
            Mutant("any-plan", "nobody compares plans", _plant(Node, "meet", _any_plan)),
            Mutant("any-rows", "other rows under the same run", lambda _: function(remember_rows, lambda *given: None)),
            Mutant("any-question", "a stored message at another point",
                   lambda _: function(original, _unasked(original))),
        ),
    )  # fmt: skip


def _unasked(original: Method) -> Method:
    """The node is told that what was stored is what it asks for."""

    def broken(account: Any, block: str, draw: Method, noise: Any = None) -> Any:
        found = original(account, block, draw, noise)
        if found.fate != "stored":
            return found
        asked = next(cell.cell_contents for cell in draw.__closure__ or () if isinstance(cell.cell_contents, str))
        return Released({**found.value, "asked": asked}, "stored")

    return broken
