"""The theorems as functions: what holds, what fails where, and the numbers that the errata state."""

import pytest

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
