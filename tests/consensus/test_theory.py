"""The theorems as functions: what holds, what fails where, and the numbers that the errata state."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from fairveil.consensus import (
    check_theorem_1,
    check_theorem_3,
    make_graph,
    rate_theorem_2,
    samples_theorem_6,
    samples_theorem_7,
)
from fairveil.consensus.theory import weak_step
from fairveil.errors import SpecError


def test_theorem_1_names_the_inequality_the_node_and_the_iteration():
    ring = make_graph("ring", 3)
    below = check_theorem_1(ring, [[1.0, 0.4, 1.0]], [[0.5] * 3])
    assert (below.holds, below.fails, below.node, below.iteration) == (False, "eta_i(t) >= theta", 1, 1)
    assert below.numbers == {"eta": 0.4, "theta": 0.5}
    assert check_theorem_1(ring, [[1.0] * 3], [[0.0] * 3]).fails == "theta > 0"
    fine = check_theorem_1(ring, [[1.0, 2.0, 3.0]] * 2, [[0.5] * 3] * 2, grows_for_ever=True)
    assert fine.holds
    assert any("positive semidefinite" in note for note in fine.notes)
    assert any("without bound" in note for note in fine.notes)
    later = check_theorem_1(graph=ring, eta=lambda t: [1.0, 1.0, 1.2 - 0.1 * t], theta=0.95, T=4)
    assert (later.holds, later.fails, later.node, later.iteration) == (False, "eta_i(t) >= eta_i(t-1)", 2, 2)
    assert check_theorem_1(ring, 0.5, 0.5, 10).holds
    with pytest.raises(SpecError, match="one column a node"):
        check_theorem_1(ring, [1.0, 2.0], 0.5, 10)
    with pytest.raises(SpecError, match="needs their number"):
        check_theorem_1(ring, lambda t: 1.0, 0.5)


def test_the_product_in_the_proof_of_theorem_1_is_not_positive():
    assert weak_step(make_graph("star", 2), [1.5, 0.5], 0.5) < -0.2
    assert weak_step(make_graph("ring", 5), [1.0] * 5, 0.5) > -1e-12


def test_theorem_2_printed_and_corrected():
    found = rate_theorem_2(make_graph("complete", 5), 0.5, 0.25, 0.044, 222.0).numbers
    assert found["printed"] == pytest.approx(1.6e-5, rel=0.05)
    assert found["corrected"] == pytest.approx(5.6e-7, rel=0.05)
    assert not rate_theorem_2(make_graph("ring", 3), [0.5, 0.1, 0.5], 0.25, 1.0, 2.0).holds


def test_theorem_3_never_on_bipartite_graphs_and_only_for_large_gamma_elsewhere():
    for name, nodes in (("star", 5), ("ring", 4)):
        found = check_theorem_3(make_graph(name, nodes), 0.5, 1e9, 222.0)
        assert not found.holds
        assert found.numbers["least_gamma"] is None
    ring = check_theorem_3(make_graph("ring", 5), 0.5, 0.5, 222.0)
    assert not ring.holds
    assert 500 < ring.numbers["least_gamma"] < 2000
    assert check_theorem_3(make_graph("ring", 5), 0.5, 2000.0, 222.0).holds


def test_samples_of_theorems_6_and_7():
    plain = samples_theorem_6(10.0, 0.1, 0.05).numbers["rows"]
    rich = samples_theorem_7(10.0, 0.1, 0.05, dimension=105, C=1750.0, alpha=1e6)
    assert rich.numbers["rows"] == pytest.approx(2 * plain, rel=1e-6)
    poor = samples_theorem_7(10.0, 0.1, 0.05, dimension=105, C=1750.0, alpha=2.0)
    assert not poor.holds
    assert poor.numbers["least_alpha"] == pytest.approx(64.9, abs=0.05)
    with pytest.raises(SpecError, match="tau > Delta"):
        samples_theorem_6(10.0, 0.0, 0.05)


def test_lemma_12_bounds_what_noise_in_the_objective_costs_and_a_thousandth_does_not():
    """O(f with noise) - O(f) <= N d^2/(rho alpha^2) ln(d/delta)^2 but with chance delta; logistic, five features."""
    rng = np.random.default_rng(12)
    nodes, rho, alpha, delta, size = 5, 0.22, 2.0, 0.1, 5
    rows = rng.normal(size=(60, size))
    signs = np.where(rng.random(60) < 0.5, -1.0, 1.0)

    def objective(f, noise=0.0):
        return np.logaddexp(0.0, -signs * (rows @ f)).mean() + rho / nodes * 0.5 * f @ f + np.sum(noise * f)

    best = objective(minimize(objective, np.zeros(size)).x)
    costs = []
    for _ in range(60):
        direction = rng.normal(size=size)
        noise = rng.gamma(size, 1 / alpha) * direction / np.linalg.norm(direction)
        costs.append(objective(minimize(objective, np.zeros(size), (noise,)).x) - best)
    bound = nodes * size**2 / (rho * alpha**2) * math.log(size / delta) ** 2
    assert np.mean(np.array(costs) > bound) <= delta
    assert np.mean(np.array(costs) > bound / 1000) > delta
