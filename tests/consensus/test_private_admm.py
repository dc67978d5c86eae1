"""private-admm: integer sums, exchange, skew, dense rows, encodings; error bands where the data are there."""

import numpy as np
import pytest

import fairveil
from fairveil import data
from fairveil.consensus import PrivateAdmm, Rows, Setting, make_graph, tables
from fairveil.consensus.public_path import InnerAdmm
from fairveil.consensus.rows import UnitRows
from fairveil.privacy.noise import SeededNoise, ZeroNoise

DATA = {"name": "logistic", "rows": 10_000, "features": 6, "test": 4_000}


def run(algorithm, **keys):
    full = {"task": "consensus", "seed": 2, "graph": "random", "algorithm": {"name": "private-admm", **algorithm}}
    return fairveil.run({**full, "data": DATA, **keys})


def test_contributions_of_single_rows_stay_within_their_bounds_exactly():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(200, 5)) * 10.0 ** rng.integers(-3, 3, (200, 1))
    for bits, reach in ((20, 2**20), (12, 3000)):
        for row in values:
            units = UnitRows(Rows.dense(row[None], [1.0]), bits, reach)
            first, second = units.moments()
            assert int((first**2).sum()) <= 4**bits
            assert int(np.abs(first).sum()) <= reach
            assert int(second.sum()) <= 4**bits
            pull = units.pulls(rng.normal(size=5) * 1e3, 2**15)
            assert np.abs(pull).max(initial=0) <= 2**15 * np.abs(first).max()
    broken = UnitRows(Rows.dense([[1.0]], [1.0]), 20, 2**20)
    assert abs(int(broken.pulls(np.array([np.nan]), 2**15)[0])) <= 2**35


@pytest.mark.parametrize("name, nodes", [("ring", 20), ("star", 20), ("complete", 5), ("random", 8), ("ring", 1)])
def test_talking_to_neighbours_finds_the_mean(name, nodes):
    inner = InnerAdmm(make_graph(name, nodes, seed=3))
    values = np.random.default_rng(1).normal(size=(nodes, 4))
    assert np.abs(inner.agree(values) - values.mean(0)).max() < 1e-6
    assert inner.rounds <= 400


def test_both_exchanges_give_the_same_classifier_and_flooding_agrees_exactly():
    flood, inner = run({"epsilon": 2.0}), run({"epsilon": 2.0, "exchange": "admm"})
    assert flood["metrics"]["test_error"] == pytest.approx(inner["metrics"]["test_error"], abs=1e-3)
    assert max(flood["metrics"]["consensus_error"]) == 0.0
    assert max(inner["metrics"]["consensus_error"]) < 1e-5
    assert inner["guarantee"] == flood["guarantee"]


@pytest.mark.parametrize("definition", ["gaussian", "pure"])
def test_dense_rows_stay_near_the_optimum(definition):
    found = run({"epsilon": 1.0, "definition": definition}, runs=3)["metrics"]
    assert found["test_error"] < found["central"]["test_error"] + 0.02


def test_skewed_labels_change_nothing_but_the_noise():
    even = run({"epsilon": 1.0}, runs=6)["metrics"]["test_error"]
    skewed = run({"epsilon": 1.0}, runs=6, data={**DATA, "split": {"by": "label", "skew": 0.8}})["metrics"]
    assert abs(even - skewed["test_error"]) < 0.01


def test_without_noise_the_sum_over_nodes_is_all_that_enters():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(60, 3)) / 2, np.where(rng.random(60) < 0.5, 1.0, -1.0)
    points = []
    for order in (np.arange(60), np.argsort(y, kind="stable")):
        setting = Setting(make_graph("ring", 3), (20, 20, 20), 3, 3, 1)
        algorithm = PrivateAdmm(epsilon=1.0, rounds=5).complete(setting)
        locals_ = [algorithm.local(setting, node) for node in range(3)]
        parts = [Rows.dense(x[part], y[part]) for part in np.array_split(order, 3)]
        sent: list = [{}] * 3
        for t in range(1, 8):
            for node, local in enumerate(locals_):
                local.hear(t, {j: m for j, m in enumerate(sent) if j != node and m}, frozenset())
            if t < 7:
                sent = [local.draw(t, rows, ZeroNoise()) for local, rows in zip(locals_, parts)]
                for local, message in zip(locals_, sent):
                    local.keep(t, message)
        points.append(locals_[0].weights)
    assert np.allclose(points[0], points[1], atol=1e-12)


def test_the_safeguard_doubles_the_curvature_on_an_ill_natured_start():
    setting = Setting(make_graph("ring", 2), (50, 50), 1, 1, 1)
    path = PrivateAdmm(epsilon=100.0, rounds=9, definition="pure").complete(setting).local(setting, 0).path
    path.take_curvature({0: {"m": np.zeros(1), "v": np.ones(1)}, 1: {"m": np.zeros(1), "v": np.ones(1)}})
    for size in (1.0, 1e4, 1e6):
        path.take_gradient({0: {"g": np.full(1, size)}, 1: {"g": np.full(1, size)}})
    assert path.doublings == 2
    assert path.kappa == 6.0


def test_encodings_follow_the_schema_and_keep_rows_short():
    people = data.load("synthetic-adult", seed=0, rows=300)
    plain, log = tables.encode(people), tables.encode(people, "log")
    assert plain.width == log.width == 11
    assert plain.nonzeros == 7
    assert (np.linalg.norm(plain.values, axis=1) <= 1 + 1e-12).all()
    gains = people["capital_gain"] > 0
    assert (log.values[gains, 3] > plain.values[gains, 3]).all()


@pytest.mark.skipif(not data.available("adult"), reason="Adult is not here")
def test_adult_error_at_epsilon_one():
    spec = {"task": "consensus", "seed": 5, "runs": 3, "data": {"name": "adult"}, "graph": "random"}
    private = fairveil.run({**spec, "algorithm": {"name": "private-admm", "epsilon": 1.0}})["metrics"]
    assert private["test_error"] < 0.178
    rival = {"name": "private-mr-admm", "epsilon": 1.0, "penalty": 1.0}
    assert fairveil.run({**spec, "iterations": 2, "algorithm": rival})["metrics"]["test_error"] > private["test_error"]


@pytest.mark.skipif(not data.available("adult"), reason="Adult is not here")
@pytest.mark.parametrize("epsilon, most", [(1.0, 0.168), (0.3, 0.178)])
def test_secure_sums_on_adult(epsilon, most):
    """Five nodes, delta 1e-5, one may collude, six splits."""
    spec = {"task": "consensus", "seed": 5, "runs": 6, "nodes": 5, "data": {"name": "adult"}, "graph": "complete"}
    own = {"name": "private-admm", "epsilon": epsilon, "delta": 1e-5}
    found = {sums: fairveil.run({**spec, "algorithm": {**own, "sums": sums}})["metrics"] for sums in ("own", "secure")}
    assert found["secure"]["test_error"] <= most
    assert found["secure"]["test_error"] < found["own"]["test_error"]


@pytest.mark.skipif(not data.available("acs"), reason="ACS is not here")
def test_one_node_a_state():
    spec = {"task": "consensus", "seed": 5, "nodes": 14, "data": {"name": "acs", "split": {"by": "ST"}}}
    found = fairveil.run({**spec, "algorithm": {"name": "private-admm", "epsilon": 1.0}})["metrics"]
    assert found["test_error"] < 0.237


def test_secure_noise_runs_and_is_not_simulated():
    result = run({"epsilon": 5.0, "rounds": 3}, noise="secure", data={**DATA, "rows": 1000})
    assert result["meta"]["simulated"] is False
    assert SeededNoise(1).simulated


def test_a_data_set_that_names_its_rows_by_a_word():
    assert tables.data_table({"name": "compas"})["train"] is None
