"""A federation without a transport, in any order of losses, repetitions, delays, absences, crashes and returns."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from federations import EXPOSURE, host_of, plan_of, rows_of
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from fairveil.federated import Coordinator
from fairveil.federated.host import STOPPED
from fairveil.federated.wire import CLOSE, MASKED, MESSAGE, Answer, table
from fairveil.ledger import Ledger, verify
from fairveil.privacy.noise import SeededNoise
from fairveil.storage import faults

FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
PARTIES = 3
QUORUM = 2


class Killed(BaseException):
    """Stands for the end of the process."""


class Counted(SeededNoise):
    """Seeded noise that says which block it was drawn for."""

    __slots__ = ("block", "drawn")

    def __init__(self, drawn: dict[tuple[int, int], int], index: int, sync: int) -> None:
        super().__init__(7, "federation", index, sync)
        self.drawn, self.block = drawn, (index, sync)

    def gaussians(self, sigmas):
        self.drawn[self.block] = self.drawn.get(self.block, 0) + 1
        return super().gaussians(sigmas)

    def gaussian(self, sigma, size=1):
        self.drawn[self.block] = self.drawn.get(self.block, 0) + 1
        return super().gaussian(sigma, size)


class FederationMachine(RuleBasedStateMachine):
    """Bytes under way are a list; what arrives, when and how often is anybody's choice."""

    kind = "exposure"
    facts: ClassVar = {}
    draws_a_block = 1

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="fairveil-federation-", dir=FAST))
        self.plan = plan_of(self.kind, PARTIES, quorum=QUORUM, **self.facts)
        self.now = 0.0
        self.requests: list[tuple[int, bytes]] = []
        self.answers: list[tuple[int, bytes]] = []
        self.drawn: dict[tuple[int, int], int] = {}
        self.sent: set[int] = set()
        self.hosts = {index: self._host(index) for index in range(PARTIES)}
        self.coordinator = Coordinator(self.plan, self.folder / "coordinator")

    def _host(self, index: int):
        host = host_of(self.plan, index, self.folder)
        host.noise_of = lambda sync: Counted(self.drawn, index, sync)
        return host

    # What happens -------------------------------------------------------------------------------------------------

    @rule(party=st.integers(0, PARTIES - 1))
    def ask(self, party) -> None:
        self.requests.append((party, self.coordinator.ask(party)))

    @rule()
    def ask_everybody_and_take_the_answers(self) -> None:
        for party in self.hosts:
            self.coordinator.take(party, self.hosts[party].answer(self.coordinator.ask(party)), self.now)

    @precondition(lambda self: self.requests)
    @rule(place=st.integers(0, 50), keep=st.booleans())
    def deliver(self, place, keep) -> None:
        party, request = self._pick(self.requests, place, keep)
        self.answers.append((party, self.hosts[party].answer(request)))

    @precondition(lambda self: self.answers)
    @rule(place=st.integers(0, 50), keep=st.booleans())
    def take(self, place, keep) -> None:
        party, answer = self._pick(self.answers, place, keep)
        self.coordinator.take(party, answer, self.now)

    @staticmethod
    def _pick(queue, place, keep):
        return queue[place % len(queue)] if keep else queue.pop(place % len(queue))

    @rule(which=st.sampled_from(["requests", "answers"]))
    def lose_everything_under_way(self, which) -> None:
        getattr(self, which).clear()

    @rule()
    def the_timeout_passes(self) -> None:
        self.now += self.plan.timeout
        self.coordinator.tick(self.now)

    @rule(party=st.integers(0, PARTIES - 1), point=st.integers(0, 60))
    def a_party_is_killed(self, party, point) -> None:
        host = self.hosts[party]
        with killing(point):
            answer = host.answer(self.coordinator.ask(party))
            self.answers.append((party, answer))
        abandon(host)
        self.hosts[party] = self._host(party)

    @rule(party=st.integers(0, PARTIES - 1), point=st.integers(0, 12))
    def the_coordinator_is_killed(self, party, point) -> None:
        answer = self.hosts[party].answer(self.coordinator.ask(party))
        with killing(point):
            self.coordinator.take(party, answer, self.now)
        self.coordinator.close()
        self.coordinator = Coordinator(self.plan, self.folder / "coordinator")

    # What always holds --------------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_drawn_twice(self) -> None:
        assert all(count <= self.draws_a_block for count in self.drawn.values()), self.drawn

    @invariant()
    def what_is_in_the_log_was_paid_for(self) -> None:
        senders = {entry.by for entry in self.coordinator.journal.entries if entry.purpose in (MESSAGE, MASKED)}
        for party in senders - self.sent:
            assert self.hosts[party].ledger.spent.units > 0
        self.sent |= senders

    def teardown(self) -> None:
        try:
            self._finish()
            self._check()
        finally:
            for one in (*self.hosts.values(), self.coordinator):
                one.close()
            shutil.rmtree(self.folder)

    def _finish(self) -> None:
        for _ in range(120):
            told = all(host.position == len(self.coordinator.journal.entries) for host in self.hosts.values())
            if self.coordinator.complete and told:
                return
            for party in self.hosts:
                answer = self.hosts[party].answer(self.coordinator.ask(party))
                self.coordinator.take(party, answer, self.now)
            self.now += self.plan.timeout / 2
            self.coordinator.tick(self.now)
        raise AssertionError(self.coordinator.status())

    def _check(self) -> None:
        entries = self.coordinator.journal.entries
        assert len({entry.place for entry in entries}) == len(entries)
        assert self.coordinator.sync == self.plan.made.syncs
        self._check_beliefs()
        for host in self.hosts.values():
            host.ledger.close()
            report = verify(host.folder / "ledger.db")
            assert report.under_way == 0
            with Ledger.open(host.folder / "ledger.db", simulated=True) as again:
                assert again.filter.reserved.units == 0
                assert again.spent.within(again.limit.charge(self.plan.made.event()))

    def _check_beliefs(self) -> None:
        """Everybody who follows the log believes the same, and no row is in two messages that count."""
        agents = [host.party for host in self.hosts.values()]
        for agent in agents:
            np.testing.assert_array_equal(agent.state["released"], agents[0].state["released"])
            np.testing.assert_array_equal(agent.state["variance"], agents[0].state["variance"])
        counted = dict.fromkeys(range(PARTIES), 0)
        said = {entry.place: entry for entry in self.coordinator.journal.entries}
        for entry in self.coordinator.journal.entries:
            if entry.purpose == CLOSE:  # a void block counts for nobody
                for party in table(entry.content)["present"]:
                    counted[party] += rows_of(said, party, entry.sync)
        for party, agent in enumerate(agents):
            assert counted[party] <= agent._learned


class killing:
    """The process ends at the given point, if it comes that far."""

    def __init__(self, point: int) -> None:
        self.point = point

    def __enter__(self) -> None:
        count = iter(range(10**6))

        def hook(name: str) -> None:
            if next(count) == self.point:
                raise Killed

        faults.hook = hook

    def __exit__(self, kind, problem, trace) -> bool:
        faults.hook = None
        return kind is None or issubclass(kind, Killed)


def abandon(host) -> None:
    """As the kernel would: descriptors are closed, nothing is tidied up, and nobody keeps a draw."""
    host.ledger.draws.session.forget()
    host.ledger.draws.session.end()
    host.ledger._book.close()
    host._lock.close()


class ConsensusMachine(FederationMachine):
    kind = "consensus"
    draws_a_block = 2  # the first message holds two vectors

    def _check_beliefs(self) -> None:
        nodes = [host.party for host in self.hosts.values()]
        for node in nodes:
            np.testing.assert_allclose(node.weights, nodes[0].weights, rtol=0, atol=1e-12)


class SecureMachine(FederationMachine):
    facts: ClassVar = {"sums": "secure", "void_after": 10.0**4}

    def _check_beliefs(self) -> None:
        super()._check_beliefs()
        self._check_unions()

    def _check_unions(self) -> None:
        """One union and one masked vector a block and party, and the sums are those of the vectors."""
        for host in self.hosts.values():
            assert not (host.folder / "ephemeral").exists() or host.index not in (host.block.union or ())


class PersonalMachine(SecureMachine):
    facts: ClassVar = {**SecureMachine.facts, "policy": {**EXPOSURE["policy"], "personal": True}}


class SecureConsensusMachine(ConsensusMachine):
    facts = SecureMachine.facts


MACHINES = {
    "own sums of agents": FederationMachine,
    "own sums of nodes": ConsensusMachine,
    "secure sums of agents": SecureMachine,
    "secure sums of personal agents": PersonalMachine,
    "secure sums of nodes": SecureConsensusMachine,
}


def ends_at(point: int, action, ending: BaseException | None = None) -> tuple[str | None, list[str]]:
    """Run ``action`` in a process that ends at its nth write; at which one it did, and those that it came by.

    ``ending``: what happens there instead, once, and the process goes on; a host's own points are no writes.
    """
    seen: list[str] = []

    def hook(name: str) -> None:
        if ending is not None and name.startswith("host-"):
            return
        seen.append(name)
        if ending is not None and len(seen) == point + 1:
            raise ending
        if ending is None and len(seen) > point:
            raise Killed

    faults.hook = hook
    try:
        action()
    except Killed:
        return seen[-1], seen
    finally:
        faults.hook = None
    return seen[point] if len(seen) > point else None, seen


@pytest.mark.parametrize("name", ["own sums of nodes", "secure sums of agents"])
def test_a_party_and_the_coordinator_are_killed_at_every_write_of_every_answer(name):
    """Each answer is tried again and ends one write later, until it comes through: none is skipped."""
    made = MACHINES[name]()
    killed, seen = set(), set()
    try:
        while not made.coordinator.complete:
            for party in made.hosts:
                answers: list[bytes] = []
                for point in range(1000):
                    host, request = made.hosts[party], made.coordinator.ask(party)
                    where, passed = ends_at(point, lambda: answers.append(host.answer(request)))  # noqa: B023
                    seen.update(passed)
                    if where is None:
                        break
                    killed.add(where)
                    abandon(host)
                    made.hosts[party] = made._host(party)
                for point in range(1000):
                    where, passed = ends_at(point, lambda: made.coordinator.take(party, answers[-1], made.now))  # noqa: B023
                    seen.update(passed)
                    if where is None:
                        break
                    killed.add(where)
                    made.coordinator.close()
                    made.coordinator = Coordinator(made.plan, made.folder / "coordinator")
                made.nothing_is_drawn_twice()
        assert killed == seen
        assert {"journal-written", "state-renamed", "host-answer"} < killed
    finally:
        made.teardown()


@pytest.mark.parametrize("name", ["own sums of nodes", "secure sums of agents"])
def test_a_disk_that_is_full_at_every_write_of_every_answer_takes_no_row_and_draws_nothing_again(name):
    """The party goes on in the same process: what it has in memory is still what it has on disk."""
    made = MACHINES[name]()
    words, failed = set(), set()
    try:
        while not made.coordinator.complete:
            for party, host in made.hosts.items():
                answers: list[bytes] = []
                for point in range(1000):
                    request = made.coordinator.ask(party)
                    full = OSError(errno.ENOSPC, "No space left on device")
                    where, _ = ends_at(point, lambda: answers.append(host.answer(request)), full)  # noqa: B023
                    words.add(Answer.from_bytes(answers[-1]).word)
                    if where is None:
                        break
                    failed.add(where)
                made.coordinator.take(party, answers[-1], made.now)
                made.nothing_is_drawn_twice()
            made.now += made.plan.timeout / 2
            made.coordinator.tick(made.now)
        assert {"state-written", "state-renamed", "insert"} < failed
        assert words <= {"", STOPPED, "refused: ledger"}
    finally:
        made.teardown()


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("examples", [5, 60])
def test_federations_survive(name, examples):
    known = settings(max_examples=examples, stateful_step_count=18, deadline=None, derandomize=True)
    run_state_machine_as_test(MACHINES[name], settings=known)
