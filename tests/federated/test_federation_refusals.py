"""What a federation refuses before anything is spent, and what never leaves a party."""

import json
import logging

import numpy as np
import pytest
from federations import CONSENSUS, host_of, keys, plan_of, rows_of
from flower_canary import found_in, planted
from flower_runs import toml

from fairveil.cli import main
from fairveil.errors import FairveilError
from fairveil.federated import Coordinator, Inline, PartyHost, drive

SCHEMA = {
    "columns": [
        {"name": "age", "kind": "continuous", "low": 0.0, "high": 100.0},
        {"name": "sex", "kind": "category", "categories": ["f", "m"]},
        {"name": "ill", "kind": "category", "categories": ["no", "yes"]},
    ],
    "target": "ill",
}


def plan_file(folder, node_keys=False, **changes):
    """A plan as TOML, with keys for everybody."""
    facts = {"run": "trial", "kind": "consensus", **CONSENSUS, **changes}
    lines = [f"{key} = {toml(value)}" for key, value in facts.items()]
    for name, key in zip(("north", "east", "south"), keys(3)):
        lines += ["[[party]]", f'name = "{name}"', f'signing_key = "{key.public}"', "rows = 30"]
        lines += [f'node_key = "of {name}"'] * node_keys
    file = folder / "plan.toml"
    file.write_text("\n".join(lines) + "\n")
    return file


def refused(capsys, *words):
    """Exit code and the one sentence on standard error."""
    with pytest.raises(SystemExit) as ended:
        main(["federate", *map(str, words)])
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    return ended.value.code, lines[0]


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"quorum": 4}, "quorum is above"),
        ({"sums": "secure", "colluding": 2, "quorum": 2}, "collude"),
        ({"unknown": 1}, "unknown"),
        ({"version": 9}, "version of plans"),
    ],
)
def test_plans_that_cannot_be(changes, words, tmp_path, capsys):
    code, said = refused(capsys, "check", plan_file(tmp_path, **changes))
    assert code == 2
    assert words in said


def test_joining_as_somebody_else(tmp_path, capsys):
    file, where = plan_file(tmp_path), ["--server", "127.0.0.1:1", "--ca", tmp_path / "ca.pem"]
    for name, key in zip(("north", "east"), keys(2)):
        (tmp_path / name).mkdir()
        key.write(tmp_path / name / "signing.key")
    for words, code, said in (
        (["--party", "nobody", "--folder", tmp_path / "north"], 2, "no party of this name"),
        (["--party", "south", "--folder", tmp_path / "north"], 4, "not the signing key"),
        (["--party", "north", "--folder", tmp_path / "none"], 2, "no signing key"),
        (["--party", "north", "--folder", tmp_path / "north", "--data", tmp_path / "x.csv"], 2, "no schema"),
        (["--party", "north", "--folder", tmp_path / "north"], 2, "no node key"),
    ):
        found = refused(capsys, "join", file, *words, *where)
        assert (found[0], said in found[1]) == (code, True), found
    host = host_of(plan_of("consensus", timeout=300.0), 1, tmp_path)  # a folder of another plan
    host.close()
    code, said = refused(capsys, "join", file, "--party", "east", "--folder", tmp_path / "east", *where)
    assert (code, "another plan" in said) == (4, True)


def test_two_joins_on_one_folder(tmp_path, capsys):
    plan = plan_of("consensus")
    (tmp_path / "north").mkdir()
    keys(1)[0].write(tmp_path / "north" / "signing.key")
    host = PartyHost(plan, "north", "environment", tmp_path / "north", keys(1)[0])
    where = ["--server", "127.0.0.1:1", "--ca", tmp_path / "ca.pem"]
    code, said = refused(
        capsys, "join", plan_file(tmp_path), "--party", "north", "--folder", tmp_path / "north", *where
    )
    assert (code, "in use" in said) == (2, True)
    assert host.ledger.spent.units == 0
    host.close()


def test_coordinating_without_node_keys_or_in_the_open(tmp_path, capsys):
    where = ["--folder", tmp_path / "coordinator"]
    code, said = refused(capsys, "coordinate", plan_file(tmp_path), *where)
    assert (code, "node key" in said) == (2, True)
    file = plan_file(tmp_path, node_keys=True)
    code, said = refused(capsys, "coordinate", file, *where, "--host", "0.0.0.0")
    assert (code, "only loopback" in said) == (2, True)
    assert not (tmp_path / "coordinator").exists()


@pytest.mark.parametrize(
    "rows, rule, words",
    [
        ("age,sex\n30,f\n", "clip", "lacks columns"),
        ("age,sex,ill\n30,x,yes\n", "clip", "categor"),
        ("age,sex,ill\nold,f,yes\n", "clip", "no number"),
        ("age,sex,ill\n130,f,yes\n", "refuse", "out of its public range"),
    ],
)
def test_files_against_the_schema(rows, rule, words, tmp_path):
    data = {**SCHEMA, "out_of_range": rule}
    plan = plan_of("consensus", data=data)
    file = tmp_path / "rows.csv"
    file.write_text(rows)
    with pytest.raises(FairveilError, match=words) as found:
        host_of(plan, 0, tmp_path, str(file))
    assert not any(value in str(found.value) for value in ("130", "old"))


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
