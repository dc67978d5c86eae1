"""Laws that every registered mechanism keeps."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

from fairveil import registry
from fairveil.configuration import describe
from fairveil.errors import SpecError
from fairveil.privacy.events import event_from_dict
from fairveil.privacy.noise import SecureNoise, SeededNoise, ZeroNoise

INPUTS = {
    "norm-gamma": np.array([0.5, -0.25]),
    "exponential": np.array([0.0, 1.0, 0.5]),
    "permute-and-flip": np.array([0.0, 1.0, 0.5]),
    "report-noisy-max": np.array([0.0, 1.0, 0.5]),
    "above-threshold": np.array([0.0, 50.0, 3.0]),
    "laplace": 0.75,
    "gaussian": 0.75,
    "one-bit": 0.75,
    "discrete-laplace": 3,
    "discrete-gaussian": 3,
    "binomial": 3,
    "randomized-response": 1,
}
NOISE_FREE = {
    "exponential": 1,
    "permute-and-flip": 1,
    "report-noisy-max": 1,
    "above-threshold": 1,
    "one-bit": pytest.approx(1.5819767),
}

every = pytest.mark.parametrize(
    "mechanism", [registry.example(e.target) for e in registry.entries("mechanism")], ids=lambda m: m.name
)


def same(a, b) -> bool:
    return bool(np.all(np.asarray(a) == np.asarray(b)))


@every
def test_a_mechanism_is_frozen_public_configuration(mechanism):
    table = describe(mechanism)
    assert registry.build("mechanism", table, "target") == mechanism
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    assert hash(mechanism) == hash(registry.build("mechanism", table, "target"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.epsilon = 2.0
    with pytest.raises(SpecError, match=r"target\.epsilom"):
        registry.build("mechanism", {**table, "epsilom": 1.0}, "target")


@every
def test_the_event_and_the_guarantee_are_known_before_any_data(mechanism):
    event = mechanism.event()
    assert event_from_dict(event.to_dict()) == event
    promise = mechanism.guarantee()
    assert promise.established
    assert promise.epsilon == pytest.approx(1.0, rel=1e-6)


@every
def test_the_same_seed_gives_the_same_release(mechanism):
    value = INPUTS[mechanism.name]
    first = mechanism.release(value, SeededNoise(4))
    assert same(first, mechanism.release(value, SeededNoise(4)))
    assert same(first, mechanism.releases(value, SeededNoise(4), 1)[0])
    many = mechanism.releases(value, SeededNoise(4), 50)
    assert len(many) == 50
    assert len(np.unique(np.asarray(many), axis=0)) > 1


@every
def test_secure_noise_runs_through_the_same_code(mechanism):
    value = INPUTS[mechanism.name]
    seeded, secure = mechanism.release(value, SeededNoise(4)), mechanism.release(value, SecureNoise())
    assert np.shape(seeded) == np.shape(secure)
    assert np.asarray(seeded).dtype == np.asarray(secure).dtype


@every
def test_no_noise_gives_the_noise_free_form(mechanism):
    value = INPUTS[mechanism.name]
    assert same(mechanism.release(value, ZeroNoise()), NOISE_FREE.get(mechanism.name, value))


@every
def test_the_input_is_not_changed(mechanism):
    value = INPUTS[mechanism.name]
    before = np.copy(value)
    mechanism.releases(value, SeededNoise(1), 3)
    assert same(before, value)


@every
def test_no_releases_draw_nothing(mechanism):
    assert len(mechanism.releases(INPUTS[mechanism.name], SeededNoise(1), 0)) == 0
    assert len(mechanism.releases(INPUTS[mechanism.name], SecureNoise(), 0)) == 0
