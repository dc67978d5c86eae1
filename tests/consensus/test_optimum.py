"""Where the non-private algorithms end: at the optimum of an independent solver, unless they are printed wrong."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import fairveil
from fairveil.consensus import tables
from fairveil.consensus.losses import make_loss
from fairveil.consensus.task import Yardstick
from fairveil.consensus.theory import wrong_limit
from fairveil.randomness import generator

PENALTIES = [4.0, 6.0, 8.0, 4.0, 4.8]
VARIANTS = ("admm", "m-admm", "r-admm", "mr-admm")


def gap(algorithm, **keys):
    spec = {"task": "consensus", "iterations": 150, "graph": "random", "seed": 1, "algorithm": algorithm, **keys}
    spec.setdefault("data", {"name": "logistic", "rows": 4000, "test": 500})
    return fairveil.run(spec)["metrics"]


def test_the_measured_optimum_is_scikit_learns():
    table = tables.data_table({"name": "logistic", "rows": 2000, "features": 5, "test": 10})
    share = tables.deal(tables.encoded(table, 3, 0), table, 4, generator(3))
    problem = Yardstick(share.nodes, make_loss("logistic"), 400.0, 0.22)
    rows = np.concatenate([part.values for part in share.nodes])
    signs = np.concatenate([part.signs for part in share.nodes])
    model = LogisticRegression(C=400.0 / (500 * 0.22), fit_intercept=False, tol=1e-12, max_iter=2000)
    found = problem.optimum()
    assert np.abs(found - model.fit(rows, signs).coef_[0]).max() < 1e-5
    assert problem.objectives(found[None])[0] <= problem.objectives(model.coef_)[0]


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_reaches_the_optimum_with_node_dependent_penalties_and_skewed_labels(name):
    skew = {"name": "logistic", "rows": 4000, "test": 500, "split": {"by": "label", "skew": 0.8}}
    found = gap({"name": name, "penalty": PENALTIES}, data=skew)
    assert 0 <= found["objective_gap"][-1] + 1e-12 < 1e-6
    assert found["weights_distance"] < 1e-2
    assert found["consensus_error"][-1] < 1e-2


@pytest.mark.parametrize("graph", ["ring", "star", "complete", {"adjacency": [[0, 1, 1], [1, 0, 0], [1, 0, 0]]}])
def test_graphs_of_all_kinds(graph):
    nodes = 3 if isinstance(graph, dict) else 5
    assert gap({"name": "admm", "penalty": 4.0}, graph=graph, nodes=nodes)["objective_gap"][-1] < 1e-6


@pytest.mark.parametrize("name", ["huber-hinge", "clipped-logistic"])
def test_other_losses_reach_their_own_optimum(name):
    found = gap({"name": "admm", "penalty": 4.0, "loss": name})
    assert found["objective_gap"][-1] < 1e-6


def test_printed_mr_admm_with_node_dependent_penalties_ends_elsewhere():
    sound = gap({"name": "mr-admm", "penalty": PENALTIES})
    printed = gap({"name": "mr-admm", "penalty": PENALTIES, "variant": "printed"})
    common = gap({"name": "mr-admm", "penalty": 4.0, "variant": "printed"})
    assert printed["objective_gap"][-1] > 5e-6
    assert printed["consensus_error"][-1] < 1e-6  # they agree, on the wrong classifier
    assert sound["objective_gap"][-1] < 1e-8
    assert common["objective_gap"] == gap({"name": "mr-admm", "penalty": 4.0})["objective_gap"]


def test_the_wrong_limit_of_three_quadratics():
    assert wrong_limit([1, 2, 3], [0, 1, 5], [0.5, 1, 2]) == pytest.approx((19 / 11, 17 / 6))


def modified_admm(penalties, growth, steps=3000):
    """(2.10), (2.11) for quadratics a/2 (f - b)^2 on a path of three nodes, dual step .5; end and optimum."""
    a, b, f, dual = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0]), np.zeros(3), np.zeros(3)
    path = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    degrees = path.sum(axis=1)
    for t in range(steps):
        eta = penalties * growth**t
        f = (a * b - 2 * dual + eta * (degrees * f + path @ f)) / (a + 2 * eta * degrees)
        dual = dual + 0.25 * (degrees * f - path @ f)
    return f, float(a @ b / a.sum())


def test_growing_penalties_meet_theorem_1_to_the_letter_and_stop_short():
    """Every penalty is finite at every t; the proof needs them bounded."""
    penalties = np.array([0.55, 0.65, 0.6])
    fixed, optimum = modified_admm(penalties, np.ones(3))
    assert fixed == pytest.approx(np.full(3, optimum), abs=1e-9)
    grown, _ = modified_admm(penalties, np.array([1.01, 1.03, 1.2]))
    assert np.ptp(grown) < 1e-6
    assert grown[0] == pytest.approx(2.799, abs=1e-3)
    assert optimum == pytest.approx(2.833, abs=1e-3)


def test_one_node_needs_nobody():
    found = gap({"name": "admm"}, nodes=1, iterations=2)
    assert found["objective_gap"][-1] < 1e-9
    assert found["messages"]["count"] == 0


@pytest.mark.parametrize("name", ["r-admm", "mr-admm", "private-r-admm", "private-mr-admm"])
def test_even_steps_read_no_data(name):
    budget = {"epsilon": 5.0} if "private" in name else {}
    found = gap({"name": name, "penalty": 4.0, **budget}, iterations=6)
    assert found["data_reads"][1::2] == [0.0, 0.0, 0.0]
    assert min(found["data_reads"][::2]) >= 1


def test_private_admm_reads_rounds_plus_one_times():
    found = gap({"name": "private-admm", "epsilon": 1.0, "rounds": 7})
    assert found["data_reads"] == [1.0] * 8
    assert found["rounds"] == 7
