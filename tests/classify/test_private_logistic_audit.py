"""Audits of the private learner with seeded noise, and broken twins that must be caught."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairveil.classify import PrivateLogistic, perturbation
from fairveil.classify.solver import solve
from fairveil.privacy.calibration.fits import fit_mu
from fairveil.privacy.noise import SeededNoise
from fairveil.proof import attack, audit, estimate_mu
from fairveil.proof.pairs.classify import private_logistic_pair, worlds


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("definition", ["gaussian", "pure"])
@pytest.mark.parametrize(("method", "trials"), [("output", 100_000), ("objective", 8_000)])
def test_no_audit_exceeds_the_claim(method, definition, trials, epsilon) -> None:
    pair = private_logistic_pair(PrivateLogistic(epsilon, method=method, definition=definition))
    finding = audit(pair.run, epsilon=pair.epsilon, delta=pair.delta, trials=trials)
    assert finding.verdict == "consistent"
    assert epsilon < 5 or finding.epsilon_lower > 0.5  # the pair is not blind


def _weights(learner: PrivateLogistic, world: int, copies: int = 60_000, crowd: int = 400, **changes):
    rows, signs = worlds(learner, world, crowd)
    made = replace(learner.perturbation(len(rows), rows.shape[1]), **changes)
    return made.release(rows, signs, SeededNoise(9, "world", world), copies=copies)[:, 1]


OUTPUT = PrivateLogistic(2.0, method="output", intercept=False, strength=1.0, tolerance=1e-6)


def test_the_measured_mu_of_output_perturbation_is_close_to_and_below_the_charged_one() -> None:
    found = estimate_mu(_weights(OUTPUT, 0), _weights(OUTPUT, 1))
    charged = fit_mu(2.0, 1e-5, 1)
    assert found.low <= charged
    assert found.mu > 0.6 * charged


def test_a_wrong_sensitivity_is_caught() -> None:
    """The twin forgets that a replaced row pulls twice: half the noise."""
    half = OUTPUT.bound / 2
    found = estimate_mu(_weights(OUTPUT, 0, bound=half), _weights(OUTPUT, 1, bound=half))
    assert found.low > fit_mu(2.0, 1e-5, 1)


def test_a_missing_clip_is_caught() -> None:
    """The twin lets a row four times longer than the bound through."""

    def unclipped(world: int):
        rows, signs = worlds(OUTPUT, world, 400)
        rows[-1] *= 4
        made = OUTPUT.perturbation(len(rows), 2)
        return made.release(rows, signs, SeededNoise(9, "world", world), copies=60_000)[:, 1]

    assert estimate_mu(unclipped(0), unclipped(1)).low > fit_mu(2.0, 1e-5, 1)


def test_an_ignored_tolerance_is_caught_and_a_charged_one_is_not(monkeypatch) -> None:
    """A solver that keeps its promise may still lean on the data within it: then only the charge protects."""
    tolerance = 2.0

    def leaning(rows, signs, strength, promised, linear=None, *, bound):
        exact = solve(rows, signs, strength, 1e-9, linear, bound=bound)
        lean = np.sign(rows[-1, 1]) * 0.99 * tolerance / strength
        low, high = 0.0, 1.0
        for _ in range(50):  # the furthest point in this direction whose gradient still is within the tolerance
            middle = (low + high) / 2
            trial = exact + np.array([0.0, middle * lean])
            pull = -(signs / (1 + np.exp(signs * (rows @ trial)))) @ rows + strength * trial
            low, high = (middle, high) if np.linalg.norm(pull) <= tolerance else (low, middle)
        return exact + np.array([0.0, low * lean])

    monkeypatch.setattr(perturbation, "solve", leaning)
    charged = fit_mu(2.0, 1e-5, 1)
    ignored = estimate_mu(_weights(OUTPUT, 0, tolerance=0.0), _weights(OUTPUT, 1, tolerance=0.0))
    assert ignored.low > charged
    sound = estimate_mu(_weights(OUTPUT, 0, tolerance=tolerance), _weights(OUTPUT, 1, tolerance=tolerance))
    assert sound.low <= charged


def _grid_distance(learner: PrivateLogistic, world: int, trials: int):
    """How far the linear term that explains the released weight in world 0 is from the noise grid, in grid units."""
    rows, signs = worlds(learner, 0, 6)
    made = learner.perturbation(len(rows), 2)
    mine, _ = worlds(learner, world, 6)
    found = made.release(mine, signs, SeededNoise(3, "world", world), copies=trials)
    pull = (signs / (1 + np.exp(signs * (found @ rows.T)))) @ rows - made.strength * found
    unit = 2.0 ** -perturbation._bits(made._main_scale(2), perturbation.budget.GRID_SIGMA)
    place = pull[:, 1] / unit
    return np.abs(place - np.rint(place))


def test_objective_noise_on_a_grid_without_a_final_noise_is_caught(monkeypatch) -> None:
    """Without the final noise the weight says which data explain it by noise on the grid; with it nothing is seen."""
    learner = PrivateLogistic(1.0, intercept=False, definition="pure", strength=4.0, tolerance=1e-9)
    sound = attack(_grid_distance(learner, 0, 4000), _grid_distance(learner, 1, 4000), epsilon=1.0)
    assert sound.verdict == "consistent"
    # a coarse grid keeps rounding errors of the check itself small next to one unit
    monkeypatch.setattr(perturbation.budget, "GRID_SIGMA", 2.0**20)
    monkeypatch.setattr(perturbation.Perturbation, "_laplace", lambda self, found, reach, epsilon, noise: found)
    broken = attack(_grid_distance(learner, 0, 4000), _grid_distance(learner, 1, 4000), epsilon=1.0)
    assert broken.verdict == "violated"
    assert broken.epsilon_lower > 2.0


def test_reused_noise_is_caught() -> None:
    """Two fits with the same noise: their difference is free of it."""
    learner = PrivateLogistic(2.0, method="output", intercept=False, strength=1.0, retrainings=2)

    def difference(world: int, second_seed: str):
        first = _weights(learner, world, copies=500)
        rows, signs = worlds(learner, world, 40)
        made = learner.perturbation(len(rows), 2)
        again = made.release(rows, signs, SeededNoise(9, second_seed, world), copies=500)[:, 1]
        return again - first

    charged = fit_mu(2.0, 1e-5, 1)
    assert estimate_mu(difference(0, "world"), difference(1, "world")).low > 100 * charged
    assert estimate_mu(difference(0, "other"), difference(1, "other")).low <= charged
