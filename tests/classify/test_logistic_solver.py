from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from fairveil.classify import solver
from fairveil.classify.solver import CHUNK, descent_steps, least_tolerance, radius, solve
from fairveil.randomness import generator


def _problem(count: int, width: int, seed: int = 0):
    rng = generator(seed)
    rows = rng.normal(size=(count, width))
    signs = np.where(rows @ rng.normal(size=width) + rng.normal(size=count) > 0, 1.0, -1.0)
    return rows, signs


def _gradient(w, rows, signs, strength, linear):
    return strength * w + linear - (expit(-signs * (rows @ w)) * signs) @ rows


@pytest.mark.parametrize(("count", "width"), [(1, 1), (50, 3), (CHUNK * 2 + 7, 5)])
@pytest.mark.parametrize("strength", [1e-3, 1.0, 1e3])
def test_the_certified_gradient_norm_is_reached(count, width, strength) -> None:
    rows, signs = _problem(count, width)
    found = solve(rows, signs, strength, 1e-7, bound=6.0)
    assert np.linalg.norm(_gradient(found, rows, signs, strength, 0.0)) <= 1e-7


def test_it_agrees_with_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression

    rows, signs = _problem(400, 4)
    reference = LogisticRegression(C=1 / 2.5, fit_intercept=False, tol=1e-12, solver="newton-cholesky").fit(rows, signs)
    assert np.allclose(solve(rows, signs, 2.5, 1e-8, bound=6.0), reference.coef_[0], atol=1e-6)


def test_many_linear_terms_are_solved_together_as_one_by_one() -> None:
    rows, signs = _problem(30, 3)
    linear = 20 * generator(1).normal(size=(50, 3))
    together = solve(rows, signs, 0.5, 1e-9, linear, bound=6.0)
    alone = np.array([solve(rows, signs, 0.5, 1e-9, term, bound=6.0) for term in linear])
    assert np.abs(together - alone).max() < 1e-8


def test_a_huge_linear_term_does_not_stop_it() -> None:
    rows, signs = _problem(20, 2)
    linear = np.array([1e6, -1e6])
    found = solve(rows, signs, 0.1, 1e-3, linear, bound=6.0)
    assert np.linalg.norm(_gradient(found, rows, signs, 0.1, linear)) <= 1e-3


def test_no_rows_is_a_problem_too() -> None:
    assert solve(np.zeros((0, 2)), np.zeros(0), 1.0, 1e-9, bound=1.0).tolist() == [0.0, 0.0]


def _exact(rows, signs, strength, linear):
    """The minimiser of a one-column problem, by bisection with fifty digits."""
    from mpmath import mp

    with mp.workdps(50):
        pairs = [mp.mpf(float(z * y)) for z, y in zip(rows[:, 0], signs, strict=True)]
        low, high = mp.mpf(-(10**6)), mp.mpf(10**6)
        for _ in range(140):
            w = (low + high) / 2
            slope = strength * w + linear - sum(m / (1 + mp.exp(m * w)) for m in pairs)
            low, high = (low, w) if slope > 0 else (w, high)
        return float(low)


@pytest.mark.parametrize("linear", [0.0, 300.0])
@pytest.mark.parametrize("small", [1e-6, 0.01, 1.0])
def test_descent_alone_keeps_the_promise_in_its_public_number_of_steps(monkeypatch, small, linear) -> None:
    """Newton is switched off: what is left is the part that the proof is about."""
    monkeypatch.setattr(solver, "STEPS", 0)
    taken = []
    gradient = solver._gradient
    monkeypatch.setattr(solver, "_gradient", lambda *given: taken.append(1) or gradient(*given))
    rows = np.full((40, 1), small)
    rows[-1] = -1.0
    signs, strength = np.ones(40), 0.2
    tolerance = least_tolerance(40, 1, 1.0, strength, linear)
    found = solve(rows, signs, strength, tolerance, np.array([linear]), bound=1.0)
    assert abs(found[0] - _exact(rows, signs, strength, linear)) <= tolerance / strength
    assert 1 < len(taken) <= descent_steps(40, 1.0, strength, tolerance, linear) + 1


def test_a_tolerance_that_cannot_be_certified_ends_after_the_public_number_of_steps(monkeypatch) -> None:
    rows, signs = _problem(3 * CHUNK, 3)
    taken = []
    gradient = solver._gradient
    monkeypatch.setattr(solver, "_gradient", lambda *given: taken.append(1) or gradient(*given))
    found = solve(rows, signs, 1000.0, 1e-15, bound=6.0)
    assert np.isfinite(found).all()
    descent = descent_steps(len(rows), 6.0, 1000.0, 1e-15, 0.0)
    assert descent <= len(taken) <= descent + 1 + solver.STEPS * solver.HALVINGS


@pytest.mark.parametrize("push", [0.0, 0.5, 50.0])
@pytest.mark.parametrize("strength", [1e-2, 1.0, 100.0])
def test_no_minimiser_leaves_the_public_ball(strength, push) -> None:
    rows = np.ones((30, 1))
    for signs in (np.ones(30), np.where(np.arange(30) % 2, 1.0, -1.0)):
        found = solve(rows, signs, strength, 1e-8, np.array([-push]), bound=1.0)
        assert abs(found[0]) <= radius(30, 1.0, strength, push)


def test_a_singular_curvature_is_no_error(monkeypatch) -> None:
    """Rounding can make it one, on some data sets only: an error would be seen."""

    def singular(*_):
        raise np.linalg.LinAlgError

    rows, signs = _problem(20, 2)
    expected = solve(rows, signs, 50.0, 1e-9, bound=6.0)
    monkeypatch.setattr(np.linalg, "solve", singular)
    assert np.abs(solve(rows, signs, 50.0, 1e-9, bound=6.0) - expected).max() <= 2e-9 / 50.0
