"""What a federation refuses before anything is spent, and what never leaves a party."""

import json
import logging

import numpy as np
import pytest
from federations import CONSENSUS, NAMES, host_of, keys, plan_of, rows_of, seeded
from flower_canary import found_in, planted
from flower_runs import toml

from fairveil.cli import main
from fairveil.cli.federate import read_plan
from fairveil.errors import FairveilError
from fairveil.federated import Coordinator, Inline, PartyHost, drive
from fairveil.federated.flower.certificates import NodeKeys, make_certificates, make_node_key, node_public
from fairveil.federated.flower.front import Front
from fairveil.federated.flower.programs import KeptProgram
from fairveil.ledger.verify import verify

SCHEMA = {
    "columns": [
        {"name": "age", "kind": "continuous", "low": 0.0, "high": 100.0},
        {"name": "sex", "kind": "category", "categories": ["f", "m"]},
        {"name": "ill", "kind": "category", "categories": ["no", "yes"]},
    ],
    "target": "ill",
}


def refused(capsys, *words):
    """Exit code and the one sentence that standard error ends with; before it nothing but progress."""
    with pytest.raises(SystemExit) as ended:
        main(["federate", *map(str, words)])
    *before, last = capsys.readouterr().err.strip().splitlines()
    assert last.startswith("error ")
    assert all(line.startswith("synchronisation ") for line in before), before
    return ended.value.code, last


class Place:
    """A folder with keys of all parties, and commands that are refused in it."""

    def __init__(self, folder, capsys, monkeypatch):
        self.folder, self.capsys, self.monkeypatch = folder, capsys, monkeypatch
        self.close = ()
        for name, key in zip(NAMES, keys(3)):
            (folder / name).mkdir()
            key.write(folder / name / "signing.key")
            make_node_key(folder / name / "node.key")
        make_certificates(folder, "127.0.0.1")

    def plan(self, parties=3, rows=30, **changes):
        """A plan as TOML, with keys for everybody."""
        facts = {"run": "trial", "kind": "consensus", **CONSENSUS, **changes}
        lines = [f"{key} = {toml(value)}" for key, value in facts.items()]
        for name, key in zip(NAMES, keys(parties)):
            file = self.folder / name / "node.key"
            own = {"name": name, "signing_key": key.public, "rows": rows}
            own |= {"node_key": node_public(file)} if file.exists() else {}
            lines += ["[[party]]", *(f"{field} = {toml(value)}" for field, value in own.items())]
        file = self.folder / "plan.toml"
        file.write_text("\n".join(lines) + "\n")
        return file

    def host(self, plan, name):
        index = NAMES.index(name)
        made = PartyHost(plan, name, "environment", self.folder / name, keys(3)[index], noise_of=seeded(index))
        self.close = (*self.close, made.close)
        return made

    def front(self, host="127.0.0.1", days=1.0):
        """A server with a certificate for a host; its port."""
        folder = self.folder / "front"
        folder.mkdir()
        make_certificates(folder, host, days=days)
        made = Front("127.0.0.1", 0, folder / "server.pem", folder / "server.key", nodes=NodeKeys([]), most_bytes=1)
        made.start()
        self.close = (*self.close, made.stop)
        return made.port

    def join(self, *, party="north", folder="north", port=1, ca="ca.pem", plan=None, data="environment", **more):
        words = ["--party", party, "--folder", self.folder / folder, "--server", f"127.0.0.1:{port}"]
        words += ["--ca", self.folder / ca, "--data", data, *(word for pair in more.items() for word in pair)]
        return refused(self.capsys, "join", plan or self.plan(), *words)

    def coordinate(self, *words, plan=None):
        where = ["--folder", self.folder / "coordinator", "--port", "0"]
        return refused(self.capsys, "coordinate", plan or self.plan(), *where, *words)

    def check(self, **changes):
        return refused(self.capsys, "check", self.plan(**changes))

    def join_with_file(self, content, rule="clip"):
        file = self.folder / "rows.csv"
        file.write_text(content)
        return self.join(plan=self.plan(data={**SCHEMA, "out_of_range": rule}), data=file)

    # Refusals that need more than one command ---------------------------------------------------------------------

    def another_plan(self):
        self.host(plan_of("consensus", timeout=300.0), "north").close()
        return self.join()

    def another_party(self):
        self.host(plan_of("consensus"), "east").close()
        (self.folder / "east" / "signing.key").unlink()
        keys(1)[0].write(self.folder / "east" / "signing.key")
        facts = {**json.loads((self.folder / "east" / "federation.json").read_text())}
        facts["plan"] = read_plan(self.plan()).fingerprint()
        (self.folder / "east" / "federation.json").write_text(json.dumps(facts))
        return self.join(folder="east")

    def two_joins(self):
        self.host(plan_of("consensus"), "north")
        return self.join()

    def unknown_node_key(self):
        (self.folder / "north" / "node.key").unlink()
        plan = self.plan()
        make_node_key(self.folder / "north" / "node.key")
        return self.join(plan=plan)

    def revoked_node_key(self):
        """The coordinator lets this node in no more: its SuperNode says so and ends, each time."""
        from fairveil.federated.flower import join, programs

        node = self.folder / "node"
        node.write_text(f"#!/bin/sh\necho '{join.NOT_ACTIVATED}'\nexit 49\n")
        node.chmod(0o700)
        for module in (join, programs):
            self.monkeypatch.setattr(module, "program", lambda name: str(node))
        self.monkeypatch.setattr(join, "REFUSED_SECONDS", 0.5)
        self.monkeypatch.setattr(join, "KeptProgram", lambda name, folder: KeptProgram(name, folder, pause=0.1))
        return self.join(plan=self.plan(bundle="0" * 64), port=self.front(), ca="front/ca.pem")

    def old_ledger(self):
        anchor = self.folder / "anchor"
        host = PartyHost(
            read_plan(self.plan()), "north", "environment", self.folder / "north", keys(1)[0], anchor=anchor
        )
        host.close()
        facts = json.loads(anchor.read_text())
        anchor.write_text(json.dumps({**facts, "sequence": facts["sequence"] + 1}))
        return self.join(**{"--anchor": anchor})


LARGE = 2**20 - 1
REFUSALS = {
    "other plan": (Place.another_plan, 4, "another plan"),
    "unknown party": (lambda at: at.join(party="nobody"), 2, "no party of this name"),
    "no signing key": (lambda at: at.join(folder="none"), 2, "no signing key"),
    "another's signing key": (lambda at: at.join(party="south"), 4, "not the signing key"),
    "unknown node key": (Place.unknown_node_key, 4, "not the node key"),
    "revoked node key": (Place.revoked_node_key, 4, "does not take this node key"),
    "no node key": (lambda at: at.coordinate(plan=at.plan(4)), 2, "no node key of its own"),
    "expired certificate": (lambda at: at.join(port=at.front(days=-0.5), ca="front/ca.pem"), 4, "expired"),
    "wrong host name": (lambda at: at.join(port=at.front("other.example"), ca="front/ca.pem"), 4, "mismatch"),
    "another authority": (lambda at: at.join(port=at.front()), 4, "not to be trusted"),
    "wider bind without TLS": (lambda at: at.coordinate("--host", "0.0.0.0"), 2, "only loopback"),
    "quorum above parties": (lambda at: at.check(quorum=4), 2, "quorum is above"),
    "t >= quorum": (lambda at: at.check(sums="secure", colluding=2, quorum=2), 2, "collude"),
    "sums beyond 2^62": (lambda at: at.check(parties=5, rows=LARGE, data=SCHEMA, sums="secure"), 2, "62 bits"),
    "folder of another party": (Place.another_party, 4, "another party"),
    "two joins on one folder": (Place.two_joins, 2, "in use"),
    "ledger older than its anchor": (Place.old_ledger, 5, "set back"),
    "missing column": (lambda at: at.join_with_file("age,sex\n30,f\n"), 2, "lacks columns"),
    "unknown category": (lambda at: at.join_with_file("age,sex,ill\n30,x,yes\n"), 2, "categor"),
    "no number": (lambda at: at.join_with_file("age,sex,ill\nold,f,yes\n"), 2, "no number"),
    "out of range": (lambda at: at.join_with_file("age,sex,ill\n130,f,yes\n", "refuse"), 2, "out of its public range"),
    "other number of rows": (lambda at: at.join_with_file("age,sex,ill\n30,f,yes\n"), 2, "announced"),
    "no schema": (lambda at: at.join(data=at.folder / "x.csv"), 2, "no schema"),
    "unknown key": (lambda at: at.check(unknown=1), 2, "unknown"),
    "unknown version": (lambda at: at.check(version=9), 2, "version of plans"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_every_refusal_is_an_exit_code_and_a_sentence_and_costs_nothing(name, tmp_path, capsys, monkeypatch):
    act, code, words = REFUSALS[name]
    at = Place(tmp_path, capsys, monkeypatch)
    try:
        found, said = act(at)
    finally:
        for close in at.close:
            close()
    assert (found, words in said) == (code, True), said
    assert not any(value in said for value in ("130", "old,"))
    for file in () if "anchor" in name else tmp_path.rglob("ledger.db"):
        report = verify(file)
        assert (report.published, report.entries <= 2) == (0, True)  # it was made, and nothing is charged
    assert not (tmp_path / "coordinator" / "log").exists()


def test_numbers_out_of_range_are_clipped_where_the_schema_says_so(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("age,sex,ill\n" + "130,f,yes\n100,f,yes\n" * 15)
    host = host_of(plan_of("consensus", data={**SCHEMA, "out_of_range": "clip"}), 0, tmp_path, str(file))
    values = host.party.rows.values
    assert len(values) == 30
    assert (values == values[0]).all()  # 130 is 100
    assert host.ledger.spent.units == 0
    host.close()


def replay_file(folder, rows=24, propensity=0.5):
    """A log of two actions with two features each, chosen by a fair coin."""
    rng = np.random.default_rng(1)
    names = ["arm", "outcome", "propensity", "x0_0", "x0_1", "x1_0", "x1_1"]
    lines = [",".join(names)]
    for number in range(rows):
        features = rng.uniform(0, 0.7, 4)
        lines.append(f"{number % 2},{number % 3 / 2},{propensity}," + ",".join(f"{one:.4f}" for one in features))
    file = folder / "log.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize("sums", ["own", "secure"])
def test_a_log_is_replayed_row_by_row_and_rows_that_do_not_fit_take_their_round(sums, tmp_path):
    plan, source = plan_of(sums=sums, environment={"floor": 0.4}), f"replay:{replay_file(tmp_path)}"
    hosts = [host_of(plan, index, tmp_path / "whole", source) for index in range(3)]
    coordinator = Coordinator(plan, tmp_path / "whole" / "coordinator")
    drive(coordinator, Inline({host.index: host.answer for host in hosts}), clock=iter(range(10**6)).__next__)
    said = {entry.place: entry for entry in coordinator.journal.entries}
    counts = [rows_of(said, party, sync) for party in range(3) for sync in range(3)]
    for one in (*hosts, coordinator):
        one.close()
    assert all(host.party.played == 24 for host in hosts)
    assert counts == [4, 4, 8] * 3  # whatever was chosen
    rounds = plan.made._rounds(0, source)(hosts[0].party)
    rounds.next = 0
    known = [(rounds.contexts(), rounds.reward(number % 2)) for number in range(24)]
    shown = [reward for _, reward in known if reward is not None]
    assert 10 < len(shown) < 24  # four of five are kept
    rounds.next = 0
    assert all(rounds.contexts() is not None and rounds.reward(1 - number % 2) is None for number in range(24))


@pytest.mark.parametrize(
    "facts, rows, propensity, words",
    [
        ({}, 24, 0.5, "smallest propensity"),
        ({"floor": 0.6}, 24, 0.5, "smaller propensity"),
        ({"floor": 0.4}, 23, 0.5, "rounds of the plan"),
    ],
)
def test_logs_that_cannot_be_replayed(facts, rows, propensity, words, tmp_path):
    plan = plan_of(environment={"seed": 1, **facts})
    with pytest.raises(FairveilError, match=words):
        host_of(plan, 0, tmp_path, f"replay:{replay_file(tmp_path, rows, propensity)}")


def test_retiring(tmp_path, capsys):
    plan = plan_of(quorum=2)
    host, coordinator = host_of(plan, 0, tmp_path), Coordinator(plan, tmp_path / "coordinator")
    code, said = refused(capsys, "retire", tmp_path)
    assert (code, "no folder of a federation" in said) == (2, True)
    code, said = refused(capsys, "retire", tmp_path / "coordinator", "--party", "nobody")
    assert (code, "no party of this name" in said) == (2, True)
    code, said = refused(capsys, "retire", tmp_path / "north", "--party", "east")
    assert (code, "another party" in said) == (2, True)
    for words in (["north"], ["coordinator", "--party", "south"]):
        with pytest.raises(SystemExit) as ended:
            main(["federate", "retire", str(tmp_path / words[0]), *words[1:]])
        assert ended.value.code == 0
    coordinator.tick(0.0)
    assert coordinator.retired == {2}
    assert coordinator.told_to_retire(2)
    coordinator.take(0, host.answer(coordinator.ask(0)), 0.0)
    assert coordinator.retired == {0, 2}
    assert not coordinator.told_to_retire(0)
    assert host.finished
    host.close()
    coordinator.close()


@pytest.mark.parametrize("sums", ["own", "secure"])
def test_planted_numbers_are_in_no_byte_that_leaves_and_in_no_file_of_the_coordinator(sums, tmp_path, caplog):
    plan, spill = plan_of(sums=sums), []
    hosts = [host_of(plan, index, tmp_path, "python:flower_canary.ROUNDS") for index in range(3)]
    coordinator = Coordinator(plan, tmp_path / "coordinator")

    def recorded(host):
        def answer(request):
            spill.append(host.answer(request))
            return spill[-1]

        return answer

    with caplog.at_level(logging.DEBUG):
        drive(coordinator, Inline({host.index: recorded(host) for host in hosts}), clock=iter(range(10**6)).__next__)
    for one in (*hosts, coordinator):
        one.close()
    assert coordinator.sync == plan.made.syncs
    left = b"".join(spill)
    assert left
    assert not [number for number in planted() if number in left]
    assert found_in(tmp_path / "coordinator") == []
    assert not [number for number in planted() if number in caplog.text.encode()]
    assert json.dumps(coordinator.status())


def test_the_canary_would_be_found(tmp_path):
    """The same search finds the numbers where they are: in the state that a party keeps at home."""
    (tmp_path / "home").write_bytes(b"x" + sorted(planted())[0] + b"y")
    assert len(found_in(tmp_path)) == 1
