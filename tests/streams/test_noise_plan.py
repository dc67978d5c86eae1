"""From a budget to noise: every unit, law and schedule against known numbers."""

import math

import pytest

from fairveil.errors import HorizonError
from fairveil.privacy.conversions import gdp_mu
from fairveil.privacy.noise import SeededNoise
from fairveil.streams import BaselineGaussian, BaselineLaplace, PrivateKalman, theory


def test_known_noise_levels():
    assert round(BaselineGaussian(epsilon=1.0, delta=1e-7, horizon=1000).quote().noise_std) == 148
    assert round(BaselineGaussian(epsilon=1.0, delta=1e-7, horizon=100, variant="printed").quote().noise_std, 1) == 57.6
    assert round(BaselineLaplace(epsilon=1.0, horizon=1000).quote().noise_std) == 1414
    binomial = BaselineGaussian(epsilon=1.0, delta=1e-7, horizon=100, law="binomial")
    assert 46.5 < binomial.quote().noise_std < 47.2
    assert theory.theorem9_m(1.0, 100, 1.0, 1e-7) == pytest.approx(267_000, rel=0.01)
    integers = BaselineGaussian(epsilon=1.0, delta=1e-7, horizon=100, law="discrete-gaussian")
    assert 1.03 < integers.quote().noise_std / 46.8 < 1.1


@pytest.mark.parametrize(
    "keys, expected",
    [
        ({"horizon": 900}, 30.0),
        ({"horizon": 900, "participation": 8}, 4.0),
        ({"horizon": 900, "participation": 8, "neighbours": "add-remove"}, math.sqrt(8)),
        ({"horizon": 900, "neighbours": "add-remove"}, 0.527 * 30),
        ({"participation": 8}, 4.0),
        ({"unit": "window", "window": 25}, 5.0),
        ({"unit": "event"}, 1.0),
        ({"horizon": 900, "sensitivity": 7.0}, 210.0),
        ({"horizon": 900, "range": (2.0, 5.0)}, 90.0),
    ],
)
def test_noise_of_every_unit(keys, expected):
    releaser = BaselineGaussian(epsilon=0.7, delta=1e-6, **keys)
    assert releaser.quote().noise_std * gdp_mu(0.7, 1e-6) == pytest.approx(expected, rel=1e-3)


def test_noise_that_grew_beyond_use_ends_an_endless_stream():
    releaser = PrivateKalman(epsilon=1.0, delta=1e-6, schedule={"kind": "geometric", "ratio": 0.5})
    with pytest.raises(HorizonError):
        releaser.run(releaser.start(), [0.0] * 100, SeededNoise(1))


def test_large_budgets_are_counted_in_zcdp():
    releaser = PrivateKalman(epsilon=60.0, delta=1e-7, horizon=1000)
    assert releaser.guarantee().definition == "zcdp"
    assert releaser.guarantee().epsilon == 60.0
