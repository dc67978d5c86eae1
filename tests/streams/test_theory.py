"""Theorems of the thesis against direct computation and simulation."""

import math

import numpy as np
import pytest

from fairveil.privacy.noise import SeededNoise
from fairveil.streams import Predictive, theory


def test_corollary_1_and_both_parts_of_theorem_8_are_inverse():
    for epsilon in np.geomspace(1e-3, 50, 60).tolist():
        for delta in (1e-12, 1e-7, 1e-2):
            phi = theory.corollary1_phi(epsilon, delta)
            assert math.isclose(theory.theorem8_epsilon(phi, delta), epsilon, rel_tol=1e-12)
            assert math.isclose(math.log(theory.theorem8_delta(phi, epsilon)), math.log(delta), rel_tol=1e-9)


def test_theorem_8_as_typeset_is_wrong():
    phi = theory.corollary1_phi(5.0, 1e-7)
    assert round(theory.theorem8_epsilon_as_typeset(phi, 1e-7), 2) == 4.81
    assert round(theory.theorem8_epsilon_as_typeset(theory.corollary1_phi(1.0, 1e-7), 1e-7), 3) == 1.015


@pytest.mark.parametrize("rho", [0.1, 0.8, 0.95])
@pytest.mark.parametrize("weight", [0.05, 0.5, 1.0])
def test_the_stationary_error_is_what_simulation_finds(rho, weight):
    steps, noise = 60_000, 1.0
    mu = math.sqrt(2 + (steps - 2) * weight**2) / (noise * weight)
    known = {"mean": 0.0, "std": 1.0, "correlation": rho}
    releaser = Predictive(mu=mu, horizon=steps, weight=weight, known=known)
    rng = np.random.default_rng(4)
    z = np.empty(steps)
    z[0] = rng.normal()
    pushed = rng.normal(0, math.sqrt(1 - rho**2), steps)
    for t in range(1, steps):
        z[t] = rho * z[t - 1] + pushed[t]
    track = releaser.run(releaser.start(), z.tolist(), SeededNoise(2))[1]
    found = float(np.mean((track.value - z) ** 2))
    assert abs(found / theory.exact_error(rho, weight, noise) - 1) < 0.04
    gap = theory.theorem10_error(rho, weight, noise) - theory.exact_error(rho, weight, noise)
    assert gap == pytest.approx(0.0, abs=1e-12) if weight == 1 else gap < 0


def test_theorem_10_is_never_too_high():
    for rho in np.linspace(-0.99, 0.99, 23):
        for noise in np.geomspace(0.05, 20, 15):
            for weight in np.linspace(0.01, 1, 20):
                exact, stated = theory.exact_error(rho, weight, noise), theory.theorem10_error(rho, weight, noise)
                if weight == 1 or abs(rho) < 1e-12:
                    assert stated == pytest.approx(exact, rel=1e-12)
                else:
                    assert stated < exact


def test_theorem_11_holds_under_the_exact_error():
    for rho in np.linspace(-0.99, 0.99, 25):
        for noise in np.geomspace(0.05, 20, 25):
            low = theory.theorem11_weight(noise)
            for weight in np.linspace(low + 1e-6, 1 - 1e-6, 20):
                assert theory.exact_error(rho, weight, noise) < noise**2


def test_theorem_9_by_its_own_letters():
    assert theory.theorem9_epsilon(m=267_187, T=100, w=1.0, delta=1e-7) == pytest.approx(1.0, rel=1e-3)
