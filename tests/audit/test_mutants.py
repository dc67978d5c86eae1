"""Mutants: served code is broken inside the block, whole again after it, and every break is caught."""

from __future__ import annotations

import numpy as np
import pytest

from fairveil import registry
from fairveil.bandits.protocol import Feedback
from fairveil.privacy import grid
from fairveil.privacy.mechanisms import Laplace
from fairveil.privacy.noise import SeededNoise
from fairveil.proof.engine.everything import AuditEffort, examine, things
from fairveil.proof.mutants import Mutant, Reused, Weakened, method, mutants_of, no_clip
from fairveil.registry import register

LAPLACE = Laplace(sensitivity=1.0, epsilon=1.0)
SMALL = AuditEffort("small", 0.3, (), mutants=True)


def spread(noise, name, *question):
    return float(getattr(noise, name)(*question, 40_000).astype(float).std())


@pytest.mark.parametrize("name, scale", [("laplace", 2.0**20), ("gaussian", 2.0**20)])
def test_weakened_noise_has_the_law_of_a_smaller_scale(name, scale):
    whole, half = spread(SeededNoise(1), name, scale), spread(Weakened(SeededNoise(2), 0.5), name, scale)
    assert half / whole == pytest.approx(0.5, rel=0.03)


def test_weakened_coins_are_those_of_twice_the_budget():
    odds = np.e
    shown = Weakened(SeededNoise(3), 0.5).bernoulli(round(2**40 * odds / (1 + odds)), 2**40, 100_000).mean()
    assert shown == pytest.approx(odds**2 / (1 + odds**2), abs=0.005)
    binomial = Weakened(SeededNoise(4), 0.5).binomial(10_000, 20_000)
    assert binomial.mean() == pytest.approx(5_000, abs=2)
    assert binomial.std() == pytest.approx(25, rel=0.05)


def test_reused_noise_is_one_constant():
    source = Reused(SeededNoise(1))
    assert len(set(source.laplace(1000.0, 50).tolist() + source.laplace(1000.0, 50).tolist())) == 1


def test_a_planted_mutant_is_gone_after_the_block():
    before = LAPLACE.releases(0.0, SeededNoise(1), 5).tolist()
    quiet = next(mutant for mutant in mutants_of("mechanism", LAPLACE) if mutant.name == "no-noise")
    with quiet.plant(LAPLACE):
        assert LAPLACE.releases(0.0, SeededNoise(1), 5).tolist() == [0.0] * 5
    assert LAPLACE.releases(0.0, SeededNoise(1), 5).tolist() == before
    with pytest.raises(ZeroDivisionError), quiet.plant(LAPLACE):
        raise ZeroDivisionError
    assert LAPLACE.releases(0.0, SeededNoise(1), 5).tolist() == before


def test_clips_that_do_not_clip_reach_every_module_that_uses_them():
    from fairveil.privacy.sums import shapes

    held = [name for name in ("row_units", "clip_unit", "clip_norm") if hasattr(shapes, name)]
    with no_clip(None):
        assert grid.clip_unit([7.0]).tolist() == [7.0]
        for name in held:
            assert getattr(shapes, name) is getattr(grid, name)
    assert grid.clip_unit([7.0]).tolist() == [1.0]


def test_a_twin_takes_what_its_original_takes():
    """One of a method that had got another argument failed at every call, and was caught for that."""
    with pytest.raises(TypeError, match="too many"), method(type(LAPLACE), "release", lambda _: lambda self: 0.0):
        pass


def test_mutants_of_ones_own_are_registered_beside_the_rules():
    with registry.isolated():

        @register("mutant", "mechanism:laplace/upside-down")
        def upside_down(mechanism):
            change = lambda original: lambda self, value, noise, count: -original(self, value, noise, count)  # noqa: E731
            return Mutant(
                "upside-down", "the sign is wrong", lambda thing: method(type(thing), "releases", change), "free"
            )

        names = [mutant.name for mutant in mutants_of("mechanism", LAPLACE)]
        assert names == ["no-noise", "half-noise", "reused-noise", "float-noise", "upside-down", "wrong-sensitivity"]
        [thing] = [thing for thing in things(("mechanism",)) if thing.name == "laplace"]
        caught = examine(thing, SMALL).caught
        assert caught["upside-down"] == "harmless: free"


@pytest.mark.parametrize("thing", list(things(("mechanism",))), ids=lambda thing: thing.name)
def test_every_mutant_of_a_mechanism_is_caught(thing):
    share = 1.0 if thing.name in ("binomial", "above-threshold") else 0.5
    verdict = examine(thing, AuditEffort("half", share, (), mutants=True))
    assert verdict.fine, verdict
    assert len(verdict.caught) >= 3


def test_an_estimator_without_a_seed_draws_from_the_operating_system():
    """Seeded instead of secure noise would give the same weights twice."""
    pytest.importorskip("sklearn")
    from fairveil.classify.estimator import PrivateLogisticRegression

    rows, labels = np.tile(np.eye(2), (20, 1)), np.arange(40) % 2
    fits = [PrivateLogisticRegression(classes=(0, 1)).fit(rows, labels) for _ in range(2)]
    assert not np.array_equal(fits[0].coef_, fits[1].coef_)
    assert not any(model.simulated_ for model in fits)


def test_a_noisy_threshold_is_drawn_with_its_scale_and_queries_afresh():
    """GDP-NCB with a threshold: both draws have the scale that the proof needs, and the threshold is drawn once."""
    policy = registry.build(
        "policy", {"name": "gdp-ncb", "arms": 1, "horizon": 50, "epsilon": 1.0, "phase1": "threshold", "tau": 8.0}, "p"
    )
    drawn, scales = [], []

    class Watching(SeededNoise):
        def laplace(self, scale, size=1):
            scales.append(scale)
            return super().laplace(scale, size)

    for seed in range(300):
        state = policy.learn(policy.start(), Feedback(0, 0, 0.0))
        after = policy.release(state, Watching(seed))
        drawn.append(int(after["threshold"][0]) if after["exploring"][0] else 0)
        if after["exploring"][0]:
            again = policy.release(policy.learn(after, Feedback(1, 0, 0.0)), Watching(seed, "again"))
            assert not again["exploring"][0] or again["threshold"][0] == after["threshold"][0]
    assert len(set(drawn)) > 200
    assert min(scales) == pytest.approx(2.0**20 * 2, rel=1e-3)  # the sums at the end of the phase: epsilon/2
    assert sorted(set(np.round(np.array(scales) / 2**20)))[-1] == 4


def test_a_law_that_cannot_be_run_catches_nothing(monkeypatch):
    """A thing that breaks a law without any mutant is a problem of its own, not a catch."""
    from fairveil.proof.engine import everything

    [thing] = [thing for thing in things(("mechanism",)) if thing.name == "laplace"]
    monkeypatch.setattr(everything, "_broken_law", lambda thing, built: "law that cannot be run")
    verdict = examine(thing, SMALL)
    assert "no mutant can be said to break it" in verdict.problem
    assert not verdict.fine


def test_every_private_policy_is_shown_with_each_noisy_array_exact():
    from fairveil.bandits.nash.private_nash import PrivateNash
    from fairveil.proof.mutants.bandits import noisy_names

    assert set(noisy_names(PrivateNash(arms=2, epsilon=1.0))) >= {"sums", "total"}
