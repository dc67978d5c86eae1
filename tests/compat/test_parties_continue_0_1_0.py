"""Streams, agents, nodes and estimators of version 0.1.0 go on where they stopped: see `test_continues_0_1_0.py`."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import compat_estimators
import numpy as np
import pytest
from compat_plays import (
    RELEASERS,
    act,
    agent_policy,
    command,
    goes_on,
    kinds,
    known,
    plain,
    releaser_of,
    rows_of,
    unpacked,
    values_of,
)

from fairveil import Ledger, SeededNoise
from fairveil.bandits.exposure.agent import Agent
from fairveil.classify import RefitWarning
from fairveil.consensus import Inline, Node, PrivateAdmm, PrivateMrAdmm, Setting, make_graph
from fairveil.streams import Stream

FACTS = known()


@pytest.mark.parametrize("name", RELEASERS)
def test_a_stream_goes_on_where_it_stopped(tmp_path, name):
    facts, folder = FACTS["streams"][name], unpacked("streams", tmp_path)
    with Ledger.open(folder / f"{name}.db", simulated=True) as ledger:
        stream = Stream(releaser_of(name), ledger, noise=SeededNoise(8))
        assert stream.step == 18
        shown = [stream.release(z) for z in values_of(18, 5)]
        assert [one.status for one in shown] == [row[-1] for row in facts["next"]]
        for one, row in zip(shown, facts["next"], strict=True):
            np.testing.assert_allclose(np.array(one[:-1], float), np.array(row[:-1], float), rtol=1e-9)
        since = goes_on(ledger, facts["ledger"])
        assert [ledger.spent.units, ledger.spent.delta_units] == facts["ledger"]["spent"]
        assert ("lost", "stream/steps/15-17") in [(kind, block.split(":")[0]) for kind, block in kinds(since)]
        assert not any(kind == "account" for kind, _ in kinds(since))
        stream.close()


def test_the_release_command_goes_on(tmp_path):
    facts, folder = FACTS["release"], unpacked("release", tmp_path)
    lines = ["" if value is None else f"{value:g}" for value in values_of(12, 6)]
    with open(folder / "in.csv", "a") as file:
        file.write("\n".join(lines) + "\n")
    found = command("release", "--in", "in.csv", *facts["options"], folder=folder)
    assert found.returncode == 0, found.stderr
    shown = (folder / "out.csv").read_text()
    assert shown.startswith(facts["out"])
    assert len(shown.splitlines()) == 19
    with Ledger.open(folder / "n.db") as ledger:
        since = kinds(goes_on(ledger, facts["ledger"]))
        assert {kind for kind, _ in since} == {"reserve", "publish"}
        assert [ledger.spent.units, ledger.spent.delta_units] == facts["ledger"]["spent"]


@pytest.mark.parametrize("name", FACTS["agents"])
def test_agents_of_a_federation(tmp_path, name):
    """One was saved after its message, one before, one died while it drew: two messages repeat, one is lost."""
    facts, folder = FACTS["agents"][name], unpacked("agents", tmp_path)
    policy, table = agent_policy(name)
    agents = []
    for index in range(3):
        ledger = Ledger.open(folder / f"{name}-{index}.db", simulated=True)
        agent = Agent(policy, index, ledger, neighbours=policy.guarantee().neighbours)
        agent.load((folder / f"{name}-{index}.agent").read_bytes())
        agents.append(agent)
    messages = [agent.send(SeededNoise(13, agent.index)) for agent in agents]
    for index, message in enumerate(messages):
        assert message.lost == (index == 2)
        if index < 2:
            assert {key: plain(value) for key, value in message.payload.items()} == facts["messages"][str(index)]
        since = kinds(goes_on(agents[index].ledger, facts["ledgers"][str(index)]))
        assert [kind for kind, _ in since] == (["account", "reserve", "lost"] if index == 2 else [])
    for agent in agents:
        for message in messages:
            if message.sender != agent.index:
                assert agent.receive(message).accepted
        assert agent.syncs == 1
    spent = [agent.ledger.spent for agent in agents]
    while not all(agent.due() for agent in agents):
        for agent in agents:
            act(agent, table, agent.played + 1)
    assert not any(agent.send(SeededNoise(14, agent.index)).lost for agent in agents)
    for agent, before in zip(agents, spent, strict=True):
        assert agent.ledger.spent == before
        agent.ledger.close()


@pytest.mark.parametrize("name", FACTS["nodes"])
def test_nodes_of_a_consensus_run(tmp_path, name):
    """Two iterations were over; of the third node 1 has drawn its message and node 2 died while it drew."""
    facts, folder = FACTS["nodes"][name], unpacked("nodes", tmp_path)
    setting = Setting(make_graph("ring", 3), (40, 40, 40), 2, 2, 5)
    made = {"private-admm": PrivateAdmm(epsilon=1.0, rounds=5), "private-mr-admm": PrivateMrAdmm(epsilon=2.0, C=0.05)}
    algorithm = made[name].complete(setting)
    nodes = []
    for index in range(3):
        place = folder / f"{name}-{index}"
        ledger = Ledger.open(place / "ledger.db", simulated=True)
        node = Node(
            algorithm, setting, index, rows_of(index), ledger=ledger, folder=place,
            noise_of=lambda t, index=index: SeededNoise(15, index, t),
        )  # fmt: skip
        node.load((place / "log").read_bytes())
        assert node.iteration == facts["iteration"]
        np.testing.assert_allclose(node.weights, facts["weights"][index], rtol=1e-9)
        nodes.append(node)
    spent = [node.ledger.spent for node in nodes]
    transport = Inline(nodes)
    third = nodes[1].send()
    assert {key: plain(value) for key, value in third.payload.items()} == facts["message"]
    seen = list(transport.iterations())
    assert sum(2 in one.lost for one in seen) == 1
    assert all(set(one.lost) <= {2} for one in seen)
    for node, before, told in zip(nodes, spent, facts["ledgers"], strict=True):
        assert node.ledger.spent == before
        since = goes_on(node.ledger, told)
        assert not any(kind == "account" for kind, _ in kinds(since))
    transport.close()


# Estimators ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def pickles(tmp_path, monkeypatch) -> Path:
    folder = unpacked("estimators", tmp_path)
    monkeypatch.chdir(folder)
    return folder


ESTIMATORS = [name for name in FACTS["estimators"] if name != "ledger"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_pickled_estimator_decides_as_before(pickles, name):
    facts = FACTS["estimators"][name]
    X, _, groups = compat_estimators.people()
    model = pickle.loads((pickles / f"{name}.pickle").read_bytes())
    np.testing.assert_allclose(compat_estimators.decided(model, X[:20], groups[:20]), facts["decided"], rtol=1e-9)
    promise = getattr(model, "guarantee_", None)
    assert (None if promise is None else plain(promise.to_dict())) == facts["guarantee"]
    parameters = {key: repr(value) for key, value in model.get_params(deep=False).items()}
    assert {key: parameters[key] for key in facts["parameters"]} == facts["parameters"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["logistic", "fair", "exponential", "game"])
def test_a_pickled_counter_counts_on(pickles, name):
    model = pickle.loads((pickles / f"{name}.pickle").read_bytes())
    with pytest.warns(RefitWarning, match="2 times"):
        compat_estimators.fitted(model, *compat_estimators.people())
    assert model.guarantee_.epsilon == pytest.approx(2.0)
    assert not model.guarantee_.established


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["planned-logistic", "planned-fair"])
def test_a_pickled_plan_is_used_up_before_another_is_paid(pickles, name):
    model = pickle.loads((pickles / f"{name}.pickle").read_bytes())
    people = compat_estimators.people()
    with Ledger.open(os.path.join(pickles, "ledger.db")) as ledger:
        before = ledger.spent
        for expected in (True, True, False):  # one of three fits was made by version 0.1.0
            compat_estimators.fitted(model, *people)
            assert (ledger.spent == before) == expected
        since = kinds(goes_on(ledger, FACTS["estimators"]["ledger"]))
        assert [kind for kind, _ in since].count("account") == 1
