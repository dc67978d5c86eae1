"""Claims in mu and rho: the bounds hold, keep their confidence, and see what one point (epsilon, delta) does not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from fairveil.privacy.conversions import gdp_epsilon
from fairveil.privacy.events import GaussianEvent, ParallelEvent, PureEvent, ZcdpEvent
from fairveil.privacy.mechanisms import Gaussian
from fairveil.proof import AuditPair, attack, audit
from fairveil.proof.engine.bounds import FinerClaim, mu_lower, rho_lower
from fairveil.proof.pairs import finer_claim
from fairveil.running.runner import run

MANY = 10**12


def hits(probability: float) -> int:
    return round(probability * MANY)


@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0])
def test_with_endless_trials_mu_is_found_at_every_threshold(mu):
    for threshold in (-1.0, 0.0, 1.5):
        found = mu_lower(hits(ndtr(mu - threshold)), hits(ndtr(-threshold)), MANY, MANY, 0.0, 0.95)
        assert mu - 1e-4 < found <= mu


@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0])
def test_with_endless_trials_rho_is_never_above_that_of_a_gaussian(mu):
    found = [
        float(rho_lower(hits(ndtr(mu - t)), hits(ndtr(-t)), MANY, MANY, 0.95)) for t in np.linspace(-2, mu + 2, 41)
    ]
    assert max(found) <= mu**2 / 2
    assert max(found) > 0.6 * mu**2 / 2  # 2/pi for a small shift


def test_bounds_are_zero_where_nothing_separates_the_worlds():
    for seen, other in ((0, 0), (50, 50), (100, 100), (0, 100), (10, 90)):
        assert mu_lower(seen, other, 100, 100, 0.0, 0.95) == 0
        assert rho_lower(seen, other, 100, 100, 0.95) == 0


def test_a_distance_to_gaussian_noise_weakens_the_bound():
    free, paid = (mu_lower(60_000, 40_000, 100_000, 100_000, distance, 0.95) for distance in (0.0, 0.01))
    assert 0 < paid < free - 0.04


@pytest.mark.parametrize("finer", [FinerClaim("mu", 0.8), FinerClaim("rho", 0.32)], ids=lambda claim: claim.name)
def test_a_tight_claim_is_called_violated_less_often_than_the_confidence_allows(finer):
    """300 audits of a Gaussian that meets its mu exactly; at confidence 1/2 at most half of them may fail."""
    rng = np.random.default_rng(11)
    wrong = 0
    for _ in range(300):
        zero, one = rng.normal(0.0, 1.0, 400), rng.normal(0.8, 1.0, 400)
        found = attack(zero, one, epsilon=gdp_epsilon(0.8, 1e-5), delta=1e-5, confidence=0.5, finer=finer)
        wrong += found.violated
    assert wrong < 150


def thin(share: float) -> AuditPair:
    sound = Gaussian(sensitivity=1.0, epsilon=1.0, delta=1e-5)

    def run(world, trials, noise, rng):
        return Gaussian(sensitivity=1.0, mu=sound.plan.mu / share).releases(float(world), noise, trials)

    return AuditPair(run, "0 or 1", "noisy value", 1.0, 1e-5, finer_claim(sound.event()))


def test_noise_that_is_a_fifth_too_small_is_seen_in_mu_and_not_in_epsilon():
    found = audit(thin(0.8), trials=100_000, seed=1)
    assert found.violated
    assert found.epsilon_lower < 1.0
    assert found.finer is not None
    assert found.finer.lower > found.finer.claimed
    assert not audit(thin(1.0), trials=100_000, seed=1).violated


def test_a_stated_claim_is_audited_alone():
    assert audit(thin(0.8), epsilon=1.0, delta=1e-5, trials=2000).finer is None


def test_claims_are_read_off_events():
    found = finer_claim(ParallelEvent(GaussianEvent(0.5, draws=3, grid_sigma=2.0**20)))
    assert (found.name, found.value) == ("mu", 0.5)
    assert found.distance == pytest.approx(3 * 0.021 / 2.0**40)
    assert finer_claim(ZcdpEvent(0.1)) == FinerClaim("rho", 0.1)
    assert finer_claim(PureEvent(1.0)) is None


def test_the_audit_task_reports_the_finer_claim():
    target = {"kind": "mechanism", "name": "gaussian", "sensitivity": 1.0, "epsilon": 5.0, "delta": 1e-5}
    found = run({"task": "audit", "target": target, "trials": 20_000})["metrics"]["finer"]
    assert found["name"] == "mu"
    assert 0.85 * found["claimed"] < found["lower"] <= found["claimed"]
    stated = run({"task": "audit", "target": target, "claimed": {"epsilon": 4.0, "delta": 1e-5}, "trials": 4000})
    assert stated["metrics"]["finer"] is None
    assert math.isfinite(stated["metrics"]["epsilon_lower"])
