"""A ledger against a tiny model, in any order of spends, releases, failures, crashes and reopenings."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fairveil.errors import BudgetError, LedgerError
from fairveil.ledger import Ledger, Limit, ReleaseLost, verify
from fairveil.privacy.events import ParallelEvent, PureEvent
from fairveil.storage import faults

FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
LIMIT = 1_000_000


class Killed(BaseException):
    """Stands for the end of the process."""


names = st.sampled_from("abcdefgh")
sizes = st.sampled_from([1, 100_000, 250_000, 400_000])


class LedgerMachine(RuleBasedStateMachine):
    """The model: what each name cost, and for every block what was drawn and what a caller saw."""

    failure: type[Exception] = sqlite3.OperationalError

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="fairveil-machine-", dir=FAST))
        self.path, self.anchor = self.place(), self.folder / "anchor.json"
        self.accounts: dict[str, int] = {}
        self.asked: dict[str, int] = {}
        self.drawn: dict[str, list[int]] = {}
        self.seen: dict[str, int] = {}
        self.lost: set[str] = set()
        self.count = 0
        self.last_used = 0

    def place(self) -> Path | str:
        return self.folder / "ledger.db"

    @initialize()
    def open(self) -> None:
        self.ledger = Ledger.create(self.path, limit=Limit.pure(1.0), anchor=self.anchor)

    def _draw(self, block: str, fail: bool):
        def draw(noise) -> int:
            self.count += 1
            self.drawn.setdefault(block, []).append(self.count)
            if fail:
                raise ArithmeticError
            return self.count

        return draw

    def _ask(self, block: str, size: int, fail: bool = False) -> None:
        size = self.asked.get(block, size)  # a block is asked for with one event
        try:
            value = self.ledger.release(block, self._draw(block, fail), event=PureEvent(size / 1e6))
        except BudgetError:
            assert self.last_used + size > LIMIT
            assert block not in self.drawn
            return
        except ReleaseLost:
            assert block not in self.seen
            self.lost.add(block)
        except ArithmeticError:
            self.lost.add(block)
        else:
            assert self.seen.setdefault(block, value) == value
            assert self.drawn[block] == [value]
        self.asked[block] = size

    @rule(block=names, size=sizes)
    def release(self, block, size) -> None:
        self._ask(block, size)

    @rule(block=names, size=sizes)
    def release_with_a_failing_draw(self, block, size) -> None:
        self._ask(block, size, fail=True)

    @rule(name=names, size=sizes)
    def spend(self, name, size) -> None:
        size = self.accounts.get(name, size)
        try:
            self.ledger.spend(name, ParallelEvent(PureEvent(size / 1e6)))
        except BudgetError:
            assert name not in self.accounts
            assert self.last_used + size > LIMIT
        else:
            self.accounts[name] = size

    @precondition(lambda self: self.accounts)
    @rule(data=st.data(), number=st.integers(0, 3))
    def release_under_an_account(self, data, number) -> None:
        name = data.draw(st.sampled_from(sorted(self.accounts)))
        block = f"{name}/{number}"
        try:
            value = self.ledger.release(block, self._draw(block, False), account=name)
        except ReleaseLost:
            assert block not in self.seen
            self.lost.add(block)
        else:
            assert self.seen.setdefault(block, value) == value
            assert self.drawn[block] == [value]

    @rule(
        block=names,
        size=sizes,
        point=st.integers(0, 30),
        kind=st.sampled_from(["kill", "full", "full for long"]),
        fail=st.booleans(),
    )
    def something_happens_in_the_middle(self, block, size, point, kind, fail) -> None:
        count = iter(range(10**6))

        def hook(name: str) -> None:
            now = next(count)
            if now == point or (now > point and kind == "full for long"):
                raise Killed if kind == "kill" else self.failure("database or disk is full")

        size = self.asked.get(block, size)
        faults.hook = hook
        try:
            self._ask(block, size, fail)
        except (Killed, LedgerError, self.failure):
            if self.ledger.status(block) != "unknown":
                self.asked[block] = size
        finally:
            faults.hook = None
        if kind == "kill":
            self._abandon()
            self.open()

    def _abandon(self) -> None:
        """As the kernel would: every descriptor is closed, nothing is tidied up, and nobody is left who keeps a draw.

        Without `end` the object stays one that works on the ledger until the garbage collector finds it, and what
        another one of this process could not store is kept for it.
        """
        self.ledger.draws.session.forget()
        self.ledger.draws.session.end()
        self.ledger._book.close()

    @rule()
    def reopen(self) -> None:
        self.ledger.close()
        self.open()

    @invariant()
    def spent_covers_everything_drawn_and_nothing_is_refunded(self) -> None:
        if not hasattr(self, "ledger"):
            return
        used = self.ledger.filter.used.units
        paid = sum(self.accounts.values()) + sum(self.asked.get(block, 0) for block in self.drawn)
        assert paid <= used <= LIMIT
        assert used >= self.last_used
        self.last_used = used
        assert all(len(draws) == 1 for draws in self.drawn.values())

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            self.ledger.close()
            report = verify(self.path, self.anchor)
            assert report.reserved == "epsilon 0" or report.under_way > 0
            with Ledger.open(self.path, anchor=self.anchor) as again:
                for block, value in self.seen.items():
                    assert again.value(block) == value
                for block in self.lost:
                    assert again.status(block) == "lost"
                expected = sum(self.accounts.values()) + sum(self.asked.values())
                assert again.filter.used.units == expected
                assert again.filter.reserved.units == 0
        shutil.rmtree(self.folder)


LedgerMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
test_ledger_machine = pytest.mark.slow(LedgerMachine.TestCase)


@pytest.mark.slow
@pytest.mark.postgres
def test_ledger_machine_on_a_server(database):
    import psycopg

    class OnAServer(LedgerMachine):
        failure = psycopg.OperationalError

        def place(self) -> str:
            return f"{database}#{self.folder.name}"

    run_state_machine_as_test(OnAServer, settings=settings(max_examples=12, stateful_step_count=20, deadline=None))
