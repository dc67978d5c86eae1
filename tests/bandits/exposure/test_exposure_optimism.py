"""The optimistic step against a brute-force global search, and its edges."""

import numpy as np
import pytest

from fairveil.bandits.exposure.optimism import optimistic_law, value_and_slope
from fairveil.fairness.exposure import AffineMerit, ExpMerit, PowerMerit, fair_law, user_merit

MERITS = {
    "exp": ExpMerit(10.0),
    "affine": AffineMerit(1.0, 0.9),
    "power": PowerMerit(3.0, 1.0),
    "user": user_merit(lambda mu: 1.5 + np.tanh(4 * mu), lipschitz=4.0, lower_bound=0.4),
}


def value(z, base, slopes, merit):
    law, slope = np.empty(len(base)), np.empty(len(base))
    found = value_and_slope(base + slopes @ z, *merit.code(), law, slope)
    return found, slopes.T @ slope


def brute_force(base, slopes, merit, rng, points=600, starts=6):
    """Random points of the ball and of its surface, the best of them polished."""
    z = rng.normal(size=(points, slopes.shape[1]))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    z[: points // 4] *= rng.random((points // 4, 1))
    values = np.array([value(point, base, slopes, merit)[0] for point in z])
    best = values.max()
    for start in np.argsort(-values)[:starts]:
        point = z[start]
        for _ in range(100):
            now, gradient = value(point, base, slopes, merit)
            norm, share, moved = np.linalg.norm(gradient), 1.0, False
            while norm > 0 and share > 1e-4 and not moved:
                trial = point + share * (gradient / norm - point)
                moved = value(trial, base, slopes, merit)[0] > now + 1e-13
                share /= 2
            if not moved:
                break
            point = trial
        best = max(best, value(point, base, slopes, merit)[0])
    return best


@pytest.mark.parametrize("name", MERITS)
@pytest.mark.parametrize("size", [0.02, 0.2, 1.0, 3.0])
def test_the_gap_to_a_global_search_is_small(name, size):
    # Over 12 problems each: 3 dimensions, 5 actions, random ellipsoids. The gap is relative to the largest half-width.
    rng = np.random.default_rng(11)
    merit, gaps = MERITS[name], []
    for _ in range(12):
        contexts = rng.random((5, 3)) / np.sqrt(3)
        centre = np.abs(rng.normal(size=3))
        centre /= np.linalg.norm(centre)
        root = size * np.linalg.qr(rng.normal(size=(3, 3)))[0] @ np.diag(rng.uniform(0.1, 1, 3))
        _, found = optimistic_law(contexts, centre, root, merit)
        slopes = contexts @ root
        best = brute_force(contexts @ centre, slopes, merit, rng)
        gaps.append((best - found) / np.linalg.norm(slopes, axis=1).max())
    assert max(gaps) < 5e-3
    assert np.mean(gaps) < 1e-3


def test_signed_contexts_where_the_centre_is_a_poor_start():
    # Two opposite actions: the centre has no gradient, yet either end of the ellipsoid is better.
    contexts = np.array([[1.0, 0.0], [-1.0, 0.0]])
    _, found = optimistic_law(contexts, [1e-9, 0.0], 0.5 * np.eye(2), ExpMerit(10.0))
    assert found == pytest.approx(0.5 * np.tanh(5.0), abs=1e-6)


def test_without_extent_the_law_is_the_fair_law_of_the_centre():
    contexts = np.random.default_rng(1).random((6, 4))
    centre = np.array([0.1, 0.4, 0.2, 0.3])
    law, _ = optimistic_law(contexts, centre, np.zeros((4, 4)), ExpMerit(10.0))
    np.testing.assert_allclose(law, fair_law(contexts @ centre, ExpMerit(10.0)), atol=1e-14)


def test_optimism_never_earns_less_than_the_centre_and_one_action_is_trivial():
    rng = np.random.default_rng(5)
    for _ in range(50):
        contexts, centre = rng.normal(size=(7, 3)), rng.normal(size=3)
        root = rng.normal(size=(3, 3)) * rng.uniform(0.01, 3)
        law, found = optimistic_law(contexts, centre, root, ExpMerit(4.0))
        means = contexts @ centre
        assert found >= fair_law(means, ExpMerit(4.0)) @ means - 1e-12
        assert law.sum() == pytest.approx(1.0)
    law, found = optimistic_law([[3.0, 4.0]], [0.0, 0.0], np.eye(2), ExpMerit(2.0))
    assert law.tolist() == [1.0]
    assert found == pytest.approx(5.0, abs=1e-3)
