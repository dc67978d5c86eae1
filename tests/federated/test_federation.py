"""Coordinator and parties without a transport: what is refused, what survives, who is waited for."""

import dataclasses
import json
import logging
import time
from pathlib import Path

import numpy as np
import pytest
from federations import host_of, keys, plan_of, run, seeded

from fairveil.errors import InputError, PrivacyError, SpecError, StoreError
from fairveil.federated import Coordinator, Inline, Message, PartyHost, drive
from fairveil.federated.host import leave
from fairveil.federated.wire import CLOSE, HELLO, MESSAGE, RETIRE, Answer, LogPart, Statement, table


class Federation:
    """Hosts and coordinator of a plan, asked by hand."""

    def __init__(self, plan, folder):
        self.plan, self.folder, self.now = plan, folder, 0.0
        self.hosts = [host_of(plan, index, folder) for index in range(len(plan.party))]
        self.coordinator = Coordinator(plan, folder / "coordinator")

    def ask(self, *parties):
        for party in parties:
            self.coordinator.take(party, self.hosts[party].answer(self.coordinator.ask(party)), self.now)

    def wait(self):
        self.now += self.plan.timeout
        self.coordinator.tick(self.now)

    def entries(self, purpose):
        return [entry for entry in self.coordinator.journal.entries if entry.purpose == purpose]

    def close(self):
        for one in (*self.hosts, self.coordinator):
            one.close()


@pytest.fixture
def federation(tmp_path):
    made = []

    def make(kind="exposure", **facts):
        made.append(Federation(plan_of(kind, **facts), tmp_path))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("kind", ["exposure", "consensus"])
def test_a_run_gives_the_same_to_the_last_bit_however_often_it_stops(kind, tmp_path):
    plan = plan_of(kind)
    whole, hosts = run(plan, tmp_path / "whole")
    again = tmp_path / "again"
    coordinator = Coordinator(plan, again / "coordinator")
    while not coordinator.finished:  # every answer is the last of its process
        for party in range(3):
            host = host_of(plan, party, again)
            coordinator.take(party, host.answer(coordinator.ask(party)), 0.0)
            host.close()
        coordinator.close()
        coordinator = Coordinator(plan, again / "coordinator")
        for party in range(3):
            host = host_of(plan, party, again)
            coordinator.take(party, host.answer(coordinator.ask(party)), 0.0)
            host.close()
    said = [[one.to_bytes() for one in log.journal.entries if one.purpose == MESSAGE] for log in (whole, coordinator)]
    assert sorted(said[0]) == sorted(said[1])
    coordinator.close()
    for party, host in enumerate(hosts):
        reopened = host_of(plan, party, again)
        assert reopened.worker.result() == host.worker.result()
        reopened.close()


def test_agents_of_a_log_are_the_agents_of_an_exchange(tmp_path):
    """The messages and beliefs of hosts are those of agents that exchange messages in one process, bit for bit."""
    from fairveil.bandits.exposure.agent import Agent
    from fairveil.federated import exchange
    from fairveil.ledger import Ledger, Limit

    plan = plan_of()
    _, hosts = run(plan, tmp_path / "hosts")
    kind, agents, workers = plan.made, [], []
    for index in range(3):
        ledger = Ledger.create(tmp_path / f"{index}.db", limit=Limit.covering(kind.event()), simulated=True)
        agents.append(Agent(kind.policy, index, ledger))
        workers.append(kind.worker(index, "environment", ledger, tmp_path, seeded(index)))
        workers[-1].party = agents[-1]
    for sync in range(kind.syncs):
        for worker in workers:
            worker.work()
        exchange(agents, [seeded(index)(sync) for index in range(3)])
    for worker, host in zip(workers, hosts):
        worker.work()
        for name, array in worker.party.state.items():
            np.testing.assert_array_equal(array, host.party.state[name], err_msg=name)
        worker.party.ledger.close()


@pytest.mark.parametrize("sums", ["own", "secure"])
def test_no_decision_depends_on_the_clock_of_a_party(sums, tmp_path, monkeypatch):
    """Parties an hour ahead, an hour behind and in between learn the same to the last bit; Flower allows far less."""
    plan = plan_of(sums=sums)
    _, hosts = run(plan, tmp_path / "together")
    apart = [host_of(plan, index, tmp_path / "apart") for index in range(3)]
    coordinator, real = Coordinator(plan, tmp_path / "apart" / "coordinator"), time.time

    def an_hour_off(host):
        def answer(request):
            with monkeypatch.context() as patch:
                patch.setattr(time, "time", lambda: real() + 3600.0 * (host.index - 1))
                return host.answer(request)

        return answer

    drive(coordinator, Inline({host.index: an_hour_off(host) for host in apart}), clock=iter(range(10**6)).__next__)
    assert coordinator.complete
    assert [host.worker.result() for host in apart] == [host.worker.result() for host in hosts]
    for one in (*apart, coordinator):
        one.close()


def test_a_lying_party_moves_a_median_little(tmp_path):
    """One of five says 1e6 instead of its sums, well-formed and signed: nobody can prove it wrong."""
    data = {"name": "logistic", "rows": 4_000, "features": 3, "test": 10, "seed": 2}
    weights = {}
    for trim in (False, True):
        algorithm = {"name": "private-admm", "epsilon": 4.0, "rounds": 8, "trim": trim}
        plan = plan_of("consensus", 5, 700, algorithm=algorithm, data=data)
        for liar in (False, True):
            folder = tmp_path / f"{trim}-{liar}"
            hosts = [host_of(plan, index, folder) for index in range(5)]
            if liar:
                local = hosts[2].worker.party.local
                local.draw = lambda *about, draw=local.draw: {
                    name: np.full_like(value, 1e6) for name, value in draw(*about).items()
                }
            coordinator = Coordinator(plan, folder / "coordinator")
            carrier = Inline({host.index: host.answer for host in hosts})
            drive(coordinator, carrier, clock=iter(range(10**6)).__next__)
            weights[trim, liar] = np.array(hosts[0].worker.result()["weights"])
            for one in (*hosts, coordinator):
                one.close()
    honest = weights[False, False]
    direction = {key: value @ honest / np.linalg.norm(value) / np.linalg.norm(honest) for key, value in weights.items()}
    assert direction[False, True] < 0.5
    assert min(direction[True, False], direction[True, True]) > 0.9


def test_a_party_that_misses_two_synchronisations_comes_back(federation):
    made = federation(quorum=2)
    made.ask(0, 1, 2)
    for _ in range(2):
        made.ask(0, 1)
        made.ask(0, 1)
        made.wait()
    assert made.coordinator.sync == 2
    assert made.hosts[2].sync == 0
    rows = made.hosts[2].party.played
    for _ in range(4):
        made.ask(2, 0, 1)
    assert made.coordinator.complete
    presents = [table(entry.content)["present"] for entry in made.entries(CLOSE)]
    assert presents == [[0, 1], [0, 1], [0, 1, 2]]
    late = [Message.from_bytes(entry.content) for entry in made.entries(MESSAGE) if entry.by == 2]
    assert [int(message.payload["rows"]) for message in late] == [16]  # its rows of all three blocks, in one message
    assert rows <= 4
    released = [host.party.state["released"] for host in made.hosts]
    np.testing.assert_array_equal(released[0], released[2])
    assert made.hosts[2].ledger.spent.units == made.hosts[0].ledger.spent.units


def test_a_message_that_comes_after_the_close_is_dropped_with_its_rows(federation):
    made = federation(quorum=2)
    made.ask(0, 1, 2)
    late = made.hosts[2].answer(made.coordinator.ask(2))
    assert [said.purpose for said in Answer.from_bytes(late).says] == [MESSAGE]
    made.ask(0, 1)
    made.wait()
    assert made.coordinator.sync == 1
    assert made.coordinator.take(2, late, made.now).reason == "not awaited any more"
    made.ask(2)
    made.ask(0, 1, 2)
    assert table(made.entries(CLOSE)[1].content)["present"] == [0, 1, 2]
    second = [Message.from_bytes(one.content) for one in made.entries(MESSAGE) if one.sync == 1]
    assert [int(message.payload["rows"]) for message in second] == [4, 4, 4]  # the four before are gone for good


def test_without_the_quorum_everybody_waits(federation):
    made = federation(quorum=2)
    made.ask(0, 1, 2)
    made.ask(0)
    made.ask(0)
    for _ in range(3):
        made.wait()
    assert made.coordinator.sync == 0
    assert not made.coordinator.complete


def test_nothing_is_released_before_the_quorum_agreed_on_the_plan(federation):
    made = federation()
    for _ in range(3):
        made.ask(0, 1)
    assert {entry.purpose for entry in made.coordinator.journal.entries} == {HELLO}
    assert made.hosts[0].ledger.spent.units == 0
    assert made.hosts[0].party.played == 0


def test_a_party_that_left_for_good_is_not_waited_for(federation):
    made = federation(quorum=2)
    made.ask(0, 1, 2)
    leave(made.hosts[2].folder)
    made.ask(2)
    assert made.coordinator.retired == {2}
    for _ in range(6):
        made.ask(0, 1)
    assert made.coordinator.complete
    assert made.hosts[2].ledger.spent.units == 0
    assert [entry.by for entry in made.entries(RETIRE)] == [2]


def speak(federation, party, purpose, content, *, by=None, key=None, sync=0, plan=None, union=""):
    """An answer that a dishonest party makes by hand."""
    plan = plan or federation.plan.fingerprint()
    statement = Statement(purpose, party if by is None else by, sync, content, union)
    signed = statement.signed(keys(5)[party if key is None else key], plan)
    return Answer(plan, federation.coordinator.have[party], (signed,)).to_bytes()


def test_bad_statements_are_refused_in_words_that_repeat_nothing(federation, caplog):
    made = federation()
    made.ask(0, 1, 2)
    made.ask(0, 1)
    entries = len(made.coordinator.journal.entries)
    good = Message.from_bytes(made.entries(MESSAGE)[0].content)
    canary = "9876543219876"

    def changed(**facts):
        return dataclasses.replace(good, **{"sender": 2, **facts}).to_bytes()

    payload = dict(good.payload)
    for answer, reason in (
        (b"rubbish " + canary.encode(), "cannot be read"),
        (b"x" * (made.plan.most_bytes + 1), "too large"),
        (Answer("another", 0).to_bytes(), "another plan"),
        (Answer(made.plan.fingerprint(), 10**6).to_bytes(), "another log"),
        (speak(made, 2, MESSAGE, changed(), by=1), "stranger"),
        (speak(made, 2, MESSAGE, changed(sender=1)), "stranger"),
        (speak(made, 2, MESSAGE, changed(), key=4), "not signed"),
        (speak(made, 2, CLOSE, b"{}"), "stranger"),
        (speak(made, 2, MESSAGE, canary.encode()), "not a message"),
        (speak(made, 2, MESSAGE, changed(payload={**payload, "gram": np.full((2, 2), np.nan)})), "not finite"),
        (speak(made, 2, MESSAGE, changed(payload={**payload, "gram": np.full((2, 2), 9e99)})), "too large"),
        (speak(made, 2, MESSAGE, changed(payload={**payload, "gram": np.zeros((3, 3))})), "wrong shape"),
        (speak(made, 2, MESSAGE, changed(guarantee={"epsilon": float(canary)})), "another guarantee"),
        (speak(made, 2, MESSAGE, changed(round=5)), "not in the schedule"),
        (speak(made, 2, MESSAGE, changed(sync=1), sync=1), "out of order"),
        (speak(made, 2, "masked", b""), "another kind of sums"),
    ):
        receipt = made.coordinator.take(2, answer, 0.0)
        assert not receipt.accepted
        assert reason in receipt.reason
        assert canary not in receipt.reason
    assert canary not in caplog.text
    assert len(made.coordinator.journal.entries) == entries


def test_the_same_answer_twice_is_one_statement_and_another_one_is_a_replay(federation):
    made = federation()
    made.ask(0, 1, 2)
    answer = made.hosts[0].answer(made.coordinator.ask(0))
    entries = len(made.coordinator.journal.entries)
    assert made.coordinator.take(0, answer, 0.0).accepted
    assert made.coordinator.take(0, answer, 0.0).accepted
    assert len(made.coordinator.journal.entries) == entries + 1
    good = Message.from_bytes(made.entries(MESSAGE)[0].content)
    other = dataclasses.replace(good, payload={**good.payload, "rows": np.asarray(3.0)})
    assert made.coordinator.take(0, speak(made, 0, MESSAGE, other.to_bytes()), 0.0).reason == "replayed"


def test_a_party_believes_no_log_that_nobody_signed(federation):
    made = federation()
    made.ask(0, 1, 2)
    made.ask(0, 1, 2)
    made.ask(0, 1, 2)
    host, first = made.hosts[0], made.hosts[0].position
    forged = made.entries(MESSAGE)[1]
    for entry in (
        dataclasses.replace(forged, content=forged.content + b" "),
        Statement(CLOSE, -1, host.sync, json.dumps({"present": [0]}).encode()),
        Statement(CLOSE, -1, host.sync, json.dumps({"present": [0, 1, 7]}).encode()),
        Statement(CLOSE, -1, host.sync + 1, json.dumps({"present": [0, 1, 2]}).encode()),
        Statement(CLOSE, -1, host.sync, b"{"),
        Statement("void", -1, host.sync, b"{}"),
    ):
        request = LogPart(made.plan.fingerprint(), first, first + 1, (entry,)).to_bytes()
        answer = Answer.from_bytes(host.answer(request))
        assert answer.word == "refused: privacy"
        assert answer.says == ()
        assert host.position == first
    other = Answer.from_bytes(host.answer(LogPart("another", 0, 0, ()).to_bytes()))
    assert other.word == "refused: another plan"
    assert Answer.from_bytes(host.answer(b"?")).word == "refused: input"
    assert Answer.from_bytes(host.answer(b"x" * (made.plan.most_bytes + 1))).word == "refused: input"


def test_the_text_of_an_error_stays_at_the_party(federation, monkeypatch, caplog):
    made = federation()
    made.ask(0, 1, 2)

    def breaks():
        raise ValueError("the row of somebody: 123456789")

    monkeypatch.setattr(made.hosts[0].worker, "work", breaks)
    with caplog.at_level(logging.CRITICAL + 1):
        answer = made.hosts[0].answer(made.coordinator.ask(0))
    assert b"123456789" not in answer
    assert b"stopped" in answer
    made.coordinator.take(0, answer, 0.0)
    assert "stopped" in made.coordinator.status()["words"]["north"]


def test_folders_belong_to_one_party_of_one_plan(tmp_path):
    plan = plan_of()
    host = host_of(plan, 0, tmp_path)
    with pytest.raises(InputError, match="in use"):
        host_of(plan, 0, tmp_path)
    host.close()
    with pytest.raises(PrivacyError, match="another party"):
        PartyHost(plan, "east", "environment", tmp_path / "north", keys(3)[1], noise_of=seeded(1))
    with pytest.raises(PrivacyError, match="another plan"):
        host_of(plan_of(timeout=300.0), 0, tmp_path)
    with pytest.raises(PrivacyError, match="signing key"):
        PartyHost(plan, "east", "environment", tmp_path / "east", keys(3)[0], noise_of=seeded(1))
    with pytest.raises(SpecError, match="no party"):
        PartyHost(plan, "nobody", "environment", tmp_path / "x", keys(3)[0])
    with pytest.raises(SpecError, match="source"):
        PartyHost(plan, "east", "moon", tmp_path / "y", keys(3)[1])


def test_folders_are_where_they_were_named_from(tmp_path, monkeypatch):
    """Programs of a transport have working directories of their own."""
    monkeypatch.chdir(tmp_path)
    host, coordinator = host_of(plan_of(), 0, Path()), Coordinator(plan_of(), Path("coordinator"))
    assert (host.folder, coordinator.folder) == (tmp_path / "north", tmp_path / "coordinator")
    host.close()
    coordinator.close()


def test_a_party_whose_folder_is_lost_has_no_right_to_its_rows(federation, tmp_path):
    made = federation(quorum=2)
    for _ in range(3):
        made.ask(0, 1, 2)
    made.hosts[2].close()
    (tmp_path / "south").rename(tmp_path / "gone")
    made.hosts[2] = host_of(made.plan, 2, tmp_path)
    made.ask(2)  # tells that it has nothing of the log
    answer = Answer.from_bytes(made.hosts[2].answer(made.coordinator.ask(2)))
    assert answer.word == "refused: privacy"
    assert made.hosts[2].ledger.spent.units == 0


def test_a_torn_end_of_the_log_is_dropped_and_a_changed_middle_is_not(tmp_path):
    plan = plan_of()
    run(plan, tmp_path)
    file = tmp_path / "coordinator" / "log"
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    again = Coordinator(plan, tmp_path / "coordinator")
    entries = len(again.journal.entries)
    again.close()
    file.write_bytes(whole)
    again = Coordinator(plan, tmp_path / "coordinator")
    assert len(again.journal.entries) == entries + 1
    again.close()
    file.write_bytes(whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
    with pytest.raises(StoreError, match="damaged"):
        Coordinator(plan, tmp_path / "coordinator")


def test_a_long_log_travels_in_parts(tmp_path):
    plan = plan_of(most_bytes=6_000)
    coordinator, hosts = run(plan, tmp_path)
    assert coordinator.complete
    fresh = Coordinator(plan, tmp_path / "coordinator")
    assert len(LogPart.from_bytes(fresh.ask(0)).entries) < len(fresh.journal.entries)
    opened = [host_of(plan, index, tmp_path) for index in range(3)]
    drive(fresh, Inline({host.index: host.answer for host in opened}), clock=lambda: 0.0)
    for one in (*opened, fresh):
        one.close()
    assert hosts[0].sync == plan.made.syncs


def test_a_bandit_message_is_short(tmp_path):
    policy = {"name": "batched-priv-fairx", "dimension": 5, "horizon": 64, "epsilon": 2.0, "delta": 0.1}
    coordinator, _ = run(plan_of(policy=policy), tmp_path)
    sizes = [len(entry.to_bytes()) for entry in coordinator.journal.entries if entry.purpose == MESSAGE]
    assert 0 < max(sizes) <= 2000
