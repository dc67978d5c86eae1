"""Limits: what they charge, and that they keep their promise."""

import pytest

from fairveil.errors import SpecError
from fairveil.privacy.events import GaussianEvent, PureEvent, RepeatedEvent
from fairveil.privacy.limits import Limit


@pytest.mark.parametrize(("currency", "epsilon", "power"), [("zcdp", 1e-170, 340), ("gaussian", 1e-17, 34)])
def test_a_tiny_epsilon_repeated_often_enough_is_never_free(currency, epsilon, power):
    """rho and mu^2 of these add up to half a unit and more; as floats a single one rounded to zero."""
    limit = Limit.approximate(1.0, 1e-5, currency=currency)
    one, many = RepeatedEvent(PureEvent(epsilon), 10 ** (power - 1)), RepeatedEvent(PureEvent(epsilon), 10**power)
    assert limit.charge(many).units > 0.4 * 10**12
    assert limit.charge(many).units == pytest.approx(10 * limit.charge(one).units, rel=1e-9)


@pytest.mark.parametrize(
    "facts",
    [
        ("epsilon", 2_000_000, 0, 1.0, 0.0),
        ("epsilon", 1_000_000, 10**13, 1.0, 1e-6),
        ("zcdp", 10**12, 0, 1.0, 1e-5),
        ("gaussian", 10**12, 0, 1.0, 1e-5),
        ("zcdp", 10**6, 10**13, 1.0, 1e-5),
        ("zcdp", 10**6, 0, 1.0, None),
        ("zcdp", 10**6, 0, "1", 1e-5),
    ],
)
def test_a_limit_cannot_promise_more_than_its_units(facts):
    with pytest.raises(SpecError):
        Limit(*facts)


@pytest.mark.parametrize("currency", ["epsilon", "zcdp", "gaussian"])
def test_every_limit_that_is_made_keeps_its_promise_when_it_is_read_back(currency):
    for epsilon in (1e-6, 1e-3, 0.7, 30.0, 1e4):
        for delta in (1e-300, 1e-18, 1e-5, 0.3):
            limit = Limit.approximate(epsilon, delta, currency=currency)
            assert Limit.from_dict(limit.to_dict()) == limit


def test_the_distance_of_a_very_fine_grid_is_paid_for_when_it_is_repeated():
    limit = Limit.gaussian(1.0, 1e-5)
    fine = RepeatedEvent(GaussianEvent(1e-300, draws=1, grid_sigma=1e200), 10**385)
    assert limit.charge(fine).delta_units > 0
