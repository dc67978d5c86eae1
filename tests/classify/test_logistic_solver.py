from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from fairveil.classify.solver import CHUNK, solve
from fairveil.errors import PrivacyError
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
    found = solve(rows, signs, strength, 1e-7)
    assert np.linalg.norm(_gradient(found, rows, signs, strength, 0.0)) <= 1e-7


def test_it_agrees_with_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression

    rows, signs = _problem(400, 4)
    reference = LogisticRegression(C=1 / 2.5, fit_intercept=False, tol=1e-12, solver="newton-cholesky").fit(rows, signs)
    assert np.allclose(solve(rows, signs, 2.5, 1e-8), reference.coef_[0], atol=1e-6)


def test_many_linear_terms_are_solved_together_as_one_by_one() -> None:
    rows, signs = _problem(30, 3)
    linear = 20 * generator(1).normal(size=(50, 3))
    together = solve(rows, signs, 0.5, 1e-9, linear)
    alone = np.array([solve(rows, signs, 0.5, 1e-9, term) for term in linear])
    assert np.abs(together - alone).max() < 1e-8


def test_a_huge_linear_term_does_not_stop_it() -> None:
    rows, signs = _problem(20, 2)
    linear = np.array([1e6, -1e6])
    found = solve(rows, signs, 0.1, 1e-3, linear)
    assert np.linalg.norm(_gradient(found, rows, signs, 0.1, linear)) <= 1e-3


def test_no_rows_is_a_problem_too() -> None:
    assert solve(np.zeros((0, 2)), np.zeros(0), 1.0, 1e-9).tolist() == [0.0, 0.0]


def test_a_tolerance_below_rounding_is_refused_not_pretended() -> None:
    rows, signs = _problem(3 * CHUNK, 3)
    with pytest.raises(PrivacyError, match="tolerance"):
        solve(rows, signs, 1.0, 1e-14)
