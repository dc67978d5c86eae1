"""What is refused, and what the refusal says."""

import numpy as np
import pytest

import fairveil
from fairveil.consensus import Node, PrivateAdmm, Rows, Setting, make_graph
from fairveil.errors import FairveilError, InputError, PrivacyError, SpecError
from fairveil.privacy.noise import SeededNoise

SMALL = {"name": "logistic", "rows": 200, "features": 3, "test": 20}


def run(algorithm=None, **keys):
    algorithm = algorithm or {"name": "admm"}
    return fairveil.run({"task": "consensus", "algorithm": algorithm, "data": SMALL, "iterations": 3, **keys})


@pytest.mark.parametrize(
    "keys, path, words",
    [
        ({"graph": {"adjacency": [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]}, "nodes": 4}, "graph",
         "[0, 1] and [2, 3]"),
        ({"graph": {"adjacency": [[0, 1], [0, 0]]}, "nodes": 2}, "graph.adjacency", "node 0 to 1: 1, back: 0"),
        ({"graph": {"adjacency": [[1, 1], [1, 0]]}, "nodes": 2}, "graph.adjacency", "node 0"),
        ({"graph": {"adjacency": [[0, 1], [1, 0]]}}, "graph.adjacency", "another number of nodes"),
        ({"graph": {"adjacency": [[0, 0.5], [0.5, 0]]}, "nodes": 2}, "graph.adjacency", "of 0 and 1"),
        ({"graph": {"adjacency": [["a", 1], [1, 0]]}, "nodes": 2}, "graph.adjacency", "of 0 and 1"),
        ({"graph": {"adjacency": [0, 1]}, "nodes": 2}, "graph.adjacency", "list of rows"),
        ({"graph": {"adjacency": None}, "nodes": 2}, "graph.adjacency", "list of rows"),
        ({"graph": {"name": "random", "seed": "x"}}, "graph.seed", "not usable"),
        ({"graph": "circle"}, "graph", "ring, star, complete, random"),
        ({"graph": {"name": "random", "edges": 3}}, "graph.edges", "4 to 10"),
        ({"data": {**SMALL, "split": {"sizes": [100, 100]}}}, "data.split.sizes", "5 sizes"),
        ({"data": {**SMALL, "split": {"sizes": [0, 50, 50, 50, 50]}}}, "data.split.sizes", "from 1 on"),
        ({"data": {**SMALL, "split": {"sizes": 200}}}, "data.split.sizes", "a list"),
        ({"data": {**SMALL, "split": {"by": "town"}}}, "data.split.by", "label"),
        ({"data": {**SMALL, "split": "odd"}}, "data.split", "even"),
        ({"data": {**SMALL, "train": 500}}, "data.train", "at most 220"),
        ({"data": {**SMALL, "rowz": 3}}, "data.rowz", "not known"),
        ({"data": {"name": "nowhere"}}, "data.name", "no dataset or generator of this name"),
        ({"data": {"name": "synthetic-adul"}}, "data.name", "synthetic-census, synthetic-compas"),
        ({"algorithm": {"name": "admm", "C": 500.0}}, "algorithm.C", "at most 40 (node 0)"),
        ({"algorithm": {"name": "admm", "penalty": [1.0, 2.0]}}, "algorithm.penalty", "5 numbers"),
        ({"algorithm": {"name": "m-admm", "growth": 0.5}}, "algorithm.penalty", "node 0, iteration 2"),
        ({"algorithm": {"name": "m-admm", "dual_step": 2.0}}, "algorithm.penalty", "eta_i(t) >= theta"),
        ({"algorithm": {"name": "m-admm", "dual_step": [0.1] * 5}}, "algorithm.dual_step", "one number"),
        ({"algorithm": {"name": "admm", "penalty": -1.0}}, "algorithm.penalty", "above 0"),
        ({"algorithm": {"name": "private-mr-admm", "alpha": 1.0, "epsilon": 1.0}}, "algorithm.epsilon", "twice"),
        ({"algorithm": {"name": "private-mr-admm"}}, "algorithm.epsilon", "not determined"),
        ({"algorithm": {"name": "dvp", "alpha": 5e-324}}, "algorithm.alpha", "at least 1e-06"),
        ({"algorithm": {"name": "pvp", "alpha": 1e-300}}, "algorithm.alpha", "at least 1e-06"),
        ({"algorithm": {"name": "dvp", "alpha": 1.0, "variant": "sound"}}, "algorithm.variant", "printed"),
        ({"algorithm": {"name": "private-admm", "epsilon": float("nan")}}, "algorithm.epsilon", "finite"),
        ({"algorithm": {"name": "private-admm", "epsilon": 1.0, "rate": 2}}, "algorithm.rate", "not known"),
        ({"algorithm": {"name": "private-m-admm", "epsilon": 1.0}, "nodes": 1}, "algorithm.nodes", "neighbours"),
        ({"algorithm": {"name": "private-mr-admm", "epsilon": 0.001}}, "algorithm.epsilon", "above 0."),
        ({"speed": 3}, "speed", "not known"),
        ({"nodes": 0}, "nodes", "at least 1"),
    ],
)  # fmt: skip
def test_refused_with_path_and_words(keys, path, words):
    with pytest.raises(FairveilError) as problem:
        run(**keys)
    assert problem.value.path == path, str(problem.value)
    assert words in str(problem.value)


def test_more_nodes_than_rows():
    with pytest.raises(SpecError, match="a node has no rows"):
        run(nodes=300)


def test_unchecked_schedules_run_and_are_marked():
    result = run({"name": "m-admm", "growth": 0.5, "check": False})
    assert result["metrics"]["rounds"] == 3
    assert any("unchecked" in note and "iteration 2" in note for note in result["meta"]["notes"])
    odd = run({"name": "mr-admm", "growth": 0.5, "check": False})["meta"]["notes"]
    assert any("node 0, iteration 3" in note for note in odd)


def test_notes_of_runs_without_a_guarantee():
    assert any("without bound" in note for note in run({"name": "m-admm", "growth": 1.1})["meta"]["notes"])
    printed = run({"name": "mr-admm", "variant": "printed", "penalty": [1.0, 2.0, 1.0, 1.0, 1.0]})["meta"]["notes"]
    assert any("its own penalty" in note for note in printed)
    assert "notes" not in run()["meta"]


def test_one_iteration_is_enough():
    assert len(run(iterations=1)["metrics"]["train_loss"]) == 1


def test_delta_that_allows_publishing_a_row_is_said():
    with pytest.warns(UserWarning, match="whole row"):
        result = run({"name": "private-admm", "epsilon": 1.0, "delta": 0.1})
    assert any("publishing a whole row" in note for note in result["guarantee"]["notes"])


def test_rows_are_refused_without_repeating_them():
    secret = 0.123456789
    for wrong, labels in (([[np.nan, secret]], [1]), ([[secret, 1.0]], [7]), ([[secret, 3.0]], [1])):
        with pytest.raises(InputError) as problem:
            Rows.dense(wrong, labels, strict=True)
        assert "0.1234" not in str(problem.value)
        assert "7" not in str(problem.value).replace("17", "")
    assert np.linalg.norm(Rows.dense([[3.0, 4.0]], [1]).values) <= 1 + 1e-12
    assert "0.6" not in repr(Rows.dense([[3.0, 4.0]], [1]))


def test_one_class_everywhere_is_an_error_and_at_one_node_is_fine():
    sorted_by_label = {**SMALL, "split": {"by": "label", "skew": 1.0}}
    assert run(data=sorted_by_label)["metrics"]["rounds"] == 3
    with pytest.raises(InputError, match="one label"):
        run(data={**SMALL, "signal": 1e-6, "rows": 5, "test": 1000, "train": 1}, nodes=1)


def test_a_setting_needs_rows_and_as_many_nodes_as_the_graph():
    with pytest.raises(SpecError, match="different numbers"):
        Setting(make_graph("ring", 3), (1, 2), 1, 1, 1)


@pytest.mark.parametrize("columns", [[[0, 0]], [[1, 0]], [[0, 2]], [[-1, 0]], [[0.0, 1.0]], [[0]]])
def test_entries_that_would_add_up_or_lie_outside_are_refused(columns):
    with pytest.raises(InputError, match="do not rise"):
        Rows.entries([[0.7, 0.7]], columns, [1], 2)


@pytest.mark.parametrize("stranger", [99, -1, True, None, "0"])
def test_introductions_of_strangers_are_refused(stranger):
    setting = Setting(make_graph("ring", 2), (2, 1), 1, 1, 1)
    algorithm = PrivateAdmm(epsilon=1.0, rounds=1).complete(setting)
    node = Node(algorithm, setting, 0, Rows.dense([[1.0], [0.5]], [1, -1]), noise_of=lambda t: SeededNoise(1, t))
    with pytest.raises(PrivacyError):
        node.meet([node.introduction(), {"node": stranger, "plan": node.fingerprint, "rows": 1}])
