"""Propositions 1 and 2 of the thesis: the best linear predictor of the next step of an AR(1) sequence."""

import numpy as np
import pytest

from fairveil.data.series import Ar1, BinomialAr1
from fairveil.randomness import generator

ROWS, RHO = 200_000, 0.7


def fitted(seen: np.ndarray, following: np.ndarray) -> tuple[float, float, float]:
    """Slope, intercept and mean squared error of the least-squares line."""
    slope, intercept = np.polyfit(seen, following, 1)
    return slope, intercept, float(np.mean((following - slope * seen - intercept) ** 2))


@pytest.mark.parametrize("noise", [0.0, 3.0])
@pytest.mark.parametrize("lag", [1, 3])
def test_proposition_1_gaussian(noise, lag):
    rng = generator(31)
    values = Ar1(rows=ROWS, correlation=RHO).generate(rng)["value"]
    mean, variance = values.mean(), values.var()
    seen = values + rng.normal(0.0, noise, ROWS) if noise else values
    share = RHO**lag * variance / (variance + noise**2)
    slope, intercept, error = fitted(seen[:-lag], values[lag:])
    assert slope == pytest.approx(share, abs=0.01)
    assert intercept == pytest.approx(mean * (1 - share), abs=0.02 * max(1.0, np.sqrt(variance)))
    assert error == pytest.approx(variance * (1 - share * RHO**lag), rel=0.02)


@pytest.mark.parametrize("noise", [0.0, 6.0])
def test_proposition_2_binomial(noise):
    rng = generator(32)
    people, share = 100, 0.3
    values = BinomialAr1(rows=ROWS, people=people, share=share, correlation=RHO).generate(rng)["value"].astype(float)
    variance = people * share * (1 - share)
    seen = values + rng.normal(0.0, noise, ROWS) if noise else values
    factor = RHO * variance / (variance + noise**2)
    slope, intercept, _ = fitted(seen[:-1], values[1:])
    assert slope == pytest.approx(factor, abs=0.01)
    assert intercept == pytest.approx(people * share * (1 - factor), abs=0.35)


def test_proposition_2_is_the_conditional_mean_at_every_count():
    """Without noise the line is the mean of what follows each count, not only the best line."""
    values = BinomialAr1(rows=ROWS, people=20, share=0.4, correlation=RHO).generate(generator(33))["value"]
    for count in range(4, 13):
        after = values[1:][values[:-1] == count]
        assert after.size > 500
        assert after.mean() == pytest.approx(
            RHO * count + 20 * 0.4 * (1 - RHO), abs=4.5 * after.std() / after.size**0.5
        )
