"""A node of a consensus run as an adapter; its own laws: messages for rows, a plan and a question that were fixed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fairveil.consensus.node import Node, remember_rows
from fairveil.consensus.private_admm import PrivateAdmm
from fairveil.consensus.rows import Rows
from fairveil.errors import LedgerError, PrivacyError
from fairveil.federated import Inbox
from fairveil.ledger import Account, Ledger, Released, RunCost
from fairveil.privacy.limits import Limit
from fairveil.proof.adapters import SAID_LOST, Adapter, checks_of
from fairveil.proof.engine.adapter import Checks, adapter
from fairveil.proof.laws import algorithms as laws
from fairveil.proof.laws import refused
from fairveil.proof.laws.algorithms import SETTING, met, rows_of
from fairveil.proof.mutants import Method, Mutant, in_function, in_method, method, twin

ALGORITHM = PrivateAdmm(epsilon=1.0, rounds=2)


def asked_again(folder: Path) -> None:
    """A node that is asked again sends what it has sent, and reads no rows for it."""
    laws.asked_again(ALGORITHM)


def node_in(folder: Path, ledger: Ledger, algorithm: Any = ALGORITHM, rows: Rows | None = None) -> Node:
    full = algorithm.complete(SETTING)
    return Node(full, SETTING, 0, rows_of() if rows is None else rows, ledger=ledger, folder=folder)


def _event() -> Any:
    return ALGORITHM.complete(SETTING).event(SETTING, 0)


def _ledger(folder: Path) -> Ledger:
    return Ledger.create(folder / "ledger.db", limit=Limit.covering(_event()))


class SendingNode:
    """A node that has met the others and sends its first message."""

    def __init__(self, node: Node, ledger: Ledger) -> None:
        self.node, self.ledger = node, ledger

    def release(self) -> Any:
        message = self.node.send()
        return SAID_LOST if message.lost else {name: part.tobytes() for name, part in message.payload.items()}


@contextmanager
def sender(folder: Path, number: int) -> Iterator[SendingNode]:
    with _ledger(folder) as ledger:
        yield SendingNode(met(node_in(folder, ledger)), ledger)


def other_rows(folder: Path) -> None:
    with _ledger(folder) as ledger:
        node_in(folder, ledger, rows=rows_of(0.5))


def another_plan(folder: Path) -> None:
    with _ledger(folder) as ledger:
        met(node_in(folder, ledger, replace(ALGORITHM, slope=0.25))).send()


def account(ledger: Ledger) -> Account:
    full = ALGORITHM.complete(SETTING)
    plan = Node(full, SETTING, 0, rows_of()).fingerprint
    return Account(ledger, "run/node-0", RunCost(_event()), plan)


def plans_are_compared(folder: Path) -> None:
    """Nothing is released before everybody's plan and number of rows were compared."""
    with _ledger(folder) as ledger:
        node = node_in(folder, ledger)
        with refused("a message is sent before the plans were compared", PrivacyError, LedgerError):
            node.send()
        for facts in ({"plan": "another", "rows": SETTING.sizes[1]}, {"plan": node.fingerprint, "rows": 1}):
            with refused("another plan passes", PrivacyError, LedgerError):
                node.meet([{"node": 1, **facts}])


def another_question_is_refused(folder: Path) -> None:
    """A stored message was drawn at one public point: at another one it is not handed out."""
    with _ledger(folder) as ledger:
        met(node_in(folder, ledger)).send()
        again = met(node_in(folder, ledger))
        elsewhere = method(type(again.local), "question", lambda _: lambda self, iteration: np.ones(3))
        with refused("a stored message answers another question", PrivacyError, LedgerError), elsewhere:
            again.send()


@twin
def _met_already(original: Method, self: Node, noise: Any = None) -> Any:
    self._met = True
    return original(self, noise)


@twin
def _any_plan(original: Method, self: Node, introductions: Any) -> None:
    self._met = True


@twin
def _unasked(original: Method, self: Released, *, drawn: Method, stored: Method, lost: Method) -> Any:
    """The node is told that what was stored is what it asks for."""
    cells = zip(stored.__code__.co_freevars, stored.__closure__ or (), strict=True)
    asked = next(cell.cell_contents for name, cell in cells if name == "asked")
    return original(self, drawn=drawn, stored=lambda value: stored({**value, "asked": asked}), lost=lost)


@adapter("node")
def node_checks() -> Checks:
    """A node of a consensus run: `fairveil.consensus.node`."""
    return checks_of(Adapter(
        sender,
        (type(ALGORITHM.complete(SETTING).local(SETTING, 0)), "draw"),
        account,
        lambda name, value: set(value) <= {"asked", "f", "g", "m", "v"},
        (other_rows, another_plan),
        (asked_again, plans_are_compared, another_question_is_refused),
        (
            Mutant("message-forgotten", "a message that is asked for twice is drawn twice",
                   in_method(Inbox, "own", lambda _: lambda self, sync: None)),
            Mutant("not-met", "messages before the plans were compared", in_method(Node, "send", _met_already)),
            Mutant("any-plan", "nobody compares plans", in_method(Node, "meet", _any_plan)),
            Mutant("any-rows", "other rows under the same run", in_function(remember_rows, lambda *given: None)),
            Mutant("any-question", "a stored message at another point", in_method(Released, "answer", _unasked)),
        ),
    ))  # fmt: skip
