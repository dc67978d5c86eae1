"""Budgets, events, the integer grid, and bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairveil.configuration import describe
from fairveil.errors import InputError, SpecError
from fairveil.privacy.conversions import gdp_delta, gdp_mu, zcdp_rho
from fairveil.privacy.events import FINE_GRID, GaussianEvent, ParallelEvent, PureEvent, ZcdpEvent
from fairveil.privacy.noise import ZeroNoise
from fairveil.privacy.sums import BatchSum, HybridSum, ToeplitzSum, TreeSum
from fairveil.privacy.sums.shapes import Grid
from fairveil.registry import build, names

EVERY = [
    lambda **f: BatchSum(**f),
    lambda **f: TreeSum(1000, **f),
    lambda **f: ToeplitzSum(1000, **f),
    lambda **f: HybridSum(**f),
    lambda **f: HybridSum(inner="tree", **f),
]
IDS = ["batch", "tree", "toeplitz", "hybrid", "hybrid-tree"]
SUMS = pytest.mark.parametrize("make", EVERY, ids=IDS)


def inner(event):
    return event.event if isinstance(event, ParallelEvent) else event


@SUMS
def test_a_mu_budget_is_a_gaussian_event_on_a_fine_grid(make):
    for mu in (1e-3, 0.3, 1.0, 20.0):
        event = inner(make(mu=mu).event())
        assert isinstance(event, GaussianEvent)
        assert event.mu == mu
        assert event.draws >= 1
        assert event.grid_sigma >= FINE_GRID


@SUMS
@pytest.mark.parametrize("shape", ["scalar", "vector", "symmetric"])
@pytest.mark.parametrize("epsilon, delta", [(0.1, 1e-6), (1.0, 1e-5), (15.0, 0.1)])
def test_epsilon_and_delta_are_spent_exactly_with_the_correction_for_the_grid(make, shape, epsilon, delta):
    sums = make(epsilon=epsilon, delta=delta, shape=shape, dimension=1 if shape == "scalar" else 5)
    event = inner(sums.event())
    assert isinstance(event, GaussianEvent)
    correction = (1 + math.exp(epsilon)) * event.draws * 0.021 / event.grid_sigma**2
    assert gdp_delta(event.mu, epsilon) + correction <= delta * (1 + 1e-12)
    assert event.mu == pytest.approx(gdp_mu(epsilon, delta), rel=1e-3)
    assert event.mu <= gdp_mu(epsilon, delta) * (1 + 1e-12)


@SUMS
def test_a_rho_budget_stays_in_zcdp(make):
    assert inner(make(rho=0.125).event()) == ZcdpEvent(0.125)
    assert make(rho=0.125).sigma == pytest.approx(make(mu=0.5).sigma, rel=1e-9)


def test_a_coarse_grid_is_accounted_in_zcdp_and_costs_noise():
    coarse = BatchSum(mu=1.0, bits=4)
    assert coarse.event() == ParallelEvent(ZcdpEvent(0.5))
    fine, rough = BatchSum(epsilon=1.0, delta=1e-5), BatchSum(epsilon=1.0, delta=1e-5, bits=4)
    assert rough.event() == ParallelEvent(ZcdpEvent(zcdp_rho(1.0, 1e-5)))
    assert rough.expected_std(1) > fine.expected_std(1)


def test_a_pure_budget_is_laplace_for_scalar_batches_only():
    sums = BatchSum(epsilon=0.25, bound=3.0)
    assert sums.event() == ParallelEvent(PureEvent(0.25))
    assert sums.expected_std(1) == pytest.approx(math.sqrt(2) * 3.0 / 0.25, rel=1e-9)
    for wrong in (
        lambda: BatchSum(epsilon=0.25, shape="vector", dimension=2),
        lambda: TreeSum(4, epsilon=0.25),
        lambda: ToeplitzSum(4, epsilon=0.25),
        lambda: HybridSum(epsilon=0.25),
    ):
        with pytest.raises(SpecError, match="delta is missing"):
            wrong()


def test_only_disjoint_blocks_are_charged_in_parallel():
    assert isinstance(BatchSum(mu=1.0).event(), ParallelEvent)
    assert isinstance(HybridSum(mu=1.0).event(), ParallelEvent)
    assert not isinstance(TreeSum(4, mu=1.0).event(), ParallelEvent)
    assert not isinstance(ToeplitzSum(4, mu=1.0).event(), ParallelEvent)


@SUMS
@pytest.mark.parametrize(
    "budget",
    [
        {},
        {"mu": 0.0},
        {"mu": -1.0},
        {"mu": math.nan},
        {"mu": math.inf},
        {"mu": "1"},
        {"mu": 1.0, "rho": 1.0},
        {"mu": 1.0, "delta": 1e-5},
        {"epsilon": 5e-324, "delta": 1e-5},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": 1.0, "delta": 0.0},
        {"delta": 1e-5},
        {"rho": True},
        {"mu": 1e-250},
    ],
    ids=str,
)
def test_bad_budgets_fail_closed(make, budget):
    with pytest.raises(SpecError):
        make(**budget)


@pytest.mark.parametrize(
    "fields",
    [
        {"bound": 0.0},
        {"bound": -1.0},
        {"bound": math.inf},
        {"shape": "matrix"},
        {"dimension": 2},
        {"shape": "vector", "dimension": 0},
        {"neighbours": "add"},
        {"bits": 2.5},
        {"bits": 40, "shape": "symmetric", "dimension": 2},
        {"bound": 1e280, "bits": 30},
        {"unknown": 1},
    ],
    ids=str,
)
def test_bad_fields_are_named(fields):
    with pytest.raises(SpecError) as caught:
        BatchSum(mu=1.0, **fields)
    assert any(name in str(caught.value) for name in fields)


@pytest.mark.parametrize("releases", [0, -3, 2.5, "8", True, 2**26 + 1])
def test_bad_horizons(releases):
    with pytest.raises(SpecError, match="releases"):
        ToeplitzSum(releases, mu=1.0)


def test_coefficients_that_vanish_are_refused():
    with pytest.raises(SpecError, match="coefficient_bits"):
        ToeplitzSum(2**16, mu=1.0, coefficient_bits=5)


@SUMS
def test_bad_rows_are_refused_without_showing_them(make):
    sums = make(mu=1.0, shape="vector", dimension=2)
    secret = 0.123456789
    for rows in ([secret, math.nan], [math.inf, secret], [[secret] * 3], secret, [[[secret, secret]]], ["x", secret]):
        with pytest.raises(InputError) as caught:
            sums.add(sums.start(), rows)
        assert "0.1234" not in str(caught.value)
    for releases in (0, -1, 1.5, True):
        with pytest.raises(InputError):
            sums.expected_std(releases)


def test_the_integer_sum_refuses_to_overflow_by_the_number_of_rows_alone():
    sums = BatchSum(mu=1.0, bits=40)
    state = sums.start() | {"rows": np.array(2**21 - 1)}
    state = sums.add(state, 0.0)
    with pytest.raises(InputError, match="no room"):
        sums.add(state, 0.0)
    code = ToeplitzSum(2**16, mu=1.0, shape="symmetric", dimension=2)
    ones = np.ones((2**17, 2)) / math.sqrt(2)
    with pytest.raises(InputError, match="no room"):
        code.add(code.start(), np.concatenate([ones] * 4))


def test_a_long_toeplitz_stream_of_rows_has_room():
    """Old leaves fade in the code: 400 leaves of 50 rows fit although 20,000 rows in one leaf might not."""
    code = ToeplitzSum(400, mu=1.0, shape="symmetric", dimension=2, bits=16)
    state, rows = code.start(), np.tile([[1.0, 0.0]], (50, 1))
    for _ in range(400):
        state, estimate = code.release(code.add(state, rows), ZeroNoise())
    assert estimate[0, 0] == pytest.approx(20_000, rel=1e-12)


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(st.lists(st.floats(-1e308, 1e308), min_size=3, max_size=3), min_size=1, max_size=5),
    bound=st.floats(1e-3, 1e3),
    bits=st.integers(-2, 18),
)
def test_integer_rows_never_exceed_the_bound(rows, bound, bits):
    """In exact arithmetic: the squared norm of every integer row is at most (bound 2^bits)^2."""
    grid = Grid("symmetric", 3, bound, "replace-row", bits)
    for row in grid.rows(rows):
        squared = sum(int(x) ** 2 for x in row)
        assert squared <= grid.row_limit**2 * (1 + 1e-15)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-2, 2), min_size=6, max_size=6))
def test_no_pair_of_rows_moves_a_sum_beyond_its_sensitivity(numbers):
    first, second = np.array(numbers[:3]), np.array(numbers[3:])
    for shape in ("vector", "symmetric"):
        grid = Grid(shape, 3, 1.25, "replace-row", 12)
        moved = (grid.total(first)[0] - grid.total(second)[0]).astype(float)
        weights = 1 / grid.spread**2  # entries above the diagonal count twice in the Frobenius norm
        assert math.sqrt(weights @ moved**2) <= grid.sensitivity * (1 + 1e-12)
    scalar = Grid("scalar", 1, 1.25, "replace-row", 12)
    assert abs(int((scalar.total(numbers[0])[0] - scalar.total(numbers[1])[0])[0])) <= scalar.sensitivity


def test_rounding_rows_first_keeps_products_in_the_bound_where_rounding_products_would_not():
    grid = Grid("symmetric", 2, 1.0, "replace-row", 2)
    row = np.array([0.6, 0.8])
    flat, _ = grid.total(row)
    assert flat.tolist() == [2 * 2, 3 * 3, 2 * 3]  # 0.6 and 0.8 become 2/4 and 3/4
    assert flat[0] + flat[1] <= 16


def test_registered_and_described():
    assert {"batch", "tree", "toeplitz", "hybrid", "histogram"} <= set(names("sum"))
    made = build("sum", {"name": "tree", "releases": 9, "mu": 0.5, "refine": True}, "sum")
    assert build("sum", describe(made), "sum") == made
    with pytest.raises(SpecError, match=r"sum\.mu"):
        build("sum", {"name": "batch", "mu": -0.5}, "sum")
