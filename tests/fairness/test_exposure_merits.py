"""Merit functions, the fair law and fairness regret."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairveil import registry
from fairveil.errors import AssumptionError, InputError, SpecError
from fairveil.fairness.exposure import (
    AffineMerit,
    ExpMerit,
    PowerMerit,
    TableMerit,
    fair_law,
    fairness_regret,
    log_merit,
    merit_codes,
    merit_from,
    merits_from,
    user_merit,
)

MERITS = [
    ExpMerit(10.0),
    ExpMerit(0.3),
    AffineMerit(1.0, 0.7),
    AffineMerit(0.2, -0.5),
    PowerMerit(2.0, 1.0),
    PowerMerit(0.5, 1.5),
    user_merit(lambda mu: 2.0 + math.sin(3 * mu), lipschitz=3.0, lower_bound=1.0),
]


@pytest.mark.parametrize("merit", MERITS, ids=lambda merit: f"{merit.name}-{merit.lipschitz:.3g}")
def test_declared_constants_hold_on_the_range(merit):
    points = np.linspace(merit.low, merit.high, 5001)
    values = merit(points)
    assert (values > 0).all()
    assert values.min() >= merit.lower_bound * (1 - 1e-9)
    steepest = np.abs(np.diff(values) / np.diff(points)).max()
    assert steepest <= merit.lipschitz * (1 + 1e-6)
    assert steepest >= 0.5 * merit.lipschitz  # the stated constant is not idly large


@pytest.mark.parametrize("merit", MERITS, ids=lambda merit: f"{merit.name}-{merit.lipschitz:.3g}")
def test_the_derivative_of_the_log_is_right(merit):
    for mean in (-0.71, -0.2, 0.13, 0.66):
        kind, numbers, table = merit.code()
        step = 1e-6
        slope = log_merit(mean, kind, numbers, table)[1]
        rise = log_merit(mean + step, kind, numbers, table)[0] - log_merit(mean - step, kind, numbers, table)[0]
        assert slope == pytest.approx(rise / (2 * step), abs=2e-3)


def test_merits_are_registered_and_survive_the_short_form():
    assert {"exp", "affine", "power", "table"} <= set(registry.names("merit"))
    for merit in MERITS:
        assert merit_from(merit.to_list()) == merit
        assert merit_from(list(merit.to_list())) == merit
    assert merit_from(["exp", 10]) == ExpMerit(10.0)
    assert merit_from("exp") == ExpMerit()
    assert merit_from({"name": "power", "exponent": 3.0}) == PowerMerit(3.0)


@settings(deadline=None)
@given(
    st.lists(st.floats(-50, 50), min_size=1, max_size=12),
    st.sampled_from(MERITS),
)
def test_the_fair_law_is_a_law_in_proportion_to_merit(means, merit):
    law = fair_law(means, merit)
    assert law.min() >= 0
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    worth = np.array([float(log_merit(mean, *merit.code())[0]) for mean in means])
    best = int(np.argmax(worth))
    np.testing.assert_allclose(law / law[best], np.exp(worth - worth[best]), rtol=1e-9, atol=1e-300)


def test_steep_merits_do_not_overflow():
    law = fair_law([1000.0, 999.0], ExpMerit(700.0))
    assert law.tolist() == [1.0, pytest.approx(0.0, abs=1e-300)]


def test_fairness_regret_is_the_l1_distance():
    assert fairness_regret([0.5, 0.5, 0.0], [0.2, 0.3, 0.5]) == pytest.approx(1.0)
    assert fairness_regret([0.2, 0.8], [0.2, 0.8]) == 0.0


@pytest.mark.parametrize(
    ("function", "lipschitz", "lower", "part"),
    [
        (lambda mu: mu, 1.0, 0.1, "not positive"),
        (lambda mu: 2 + mu, 1.0, 1.1, "lower bound"),
        (lambda mu: 2 + 3 * mu**2, 1.0, 1.0, "Lipschitz"),
        (lambda mu: math.inf if mu > 0.5 else 1.0, 10.0, 0.5, "not finite"),
        (lambda mu: math.nan, 10.0, 0.5, "not finite"),
        (lambda mu: "high", 10.0, 0.5, "not finite"),
        (lambda mu: 1.0 if mu < 0 else 2.0, 5.0, 1.0, "Lipschitz"),
    ],
)
def test_a_users_merit_is_checked(function, lipschitz, lower, part):
    with pytest.raises(AssumptionError, match=part):
        user_merit(function, lipschitz=lipschitz, lower_bound=lower)


@pytest.mark.parametrize("build", [lambda: ExpMerit(1e4), lambda: PowerMerit(5000.0), lambda: PowerMerit(2.0, 1e200)])
def test_a_merit_too_large_for_a_number_is_refused(build):
    with pytest.raises(AssumptionError, match="not finite"):
        build()


def test_a_power_far_outside_its_interval_has_a_law_all_the_same():
    law = fair_law([1e3, 2e3, 1e3], PowerMerit(200.0))
    assert law.argmax() == 1
    assert law.sum() == pytest.approx(1.0)


def test_wrong_parameters_are_refused():
    for low, high in ((1.0, -1.0), (-math.inf, 1.0)):
        with pytest.raises(SpecError, match="interval"):
            user_merit(lambda mu: 2.0, lipschitz=1.0, lower_bound=1.0, low=low, high=high)
    with pytest.raises(SpecError, match="interval"):
        TableMerit((1.0, 2.0), lipschitz=1.0, lower_bound=1.0, low=1.0, high=0.0)
    with pytest.raises(SpecError, match="rate"):
        ExpMerit(-1.0)
    with pytest.raises(SpecError, match="constant"):
        AffineMerit(-2.0, 0.5)
    with pytest.raises(SpecError, match="two points"):
        TableMerit((1.0,), lipschitz=1.0, lower_bound=0.5)
    with pytest.raises(SpecError, match=r"merit\.2"):
        merits_from([["exp", 1], ["exp", 2], ["exp", -2]], 3)
    with pytest.raises(SpecError, match="one merit per agent"):
        merits_from([["exp", 1], ["exp", 2]], 3)
    with pytest.raises(SpecError, match="did you mean affine"):
        merit_from(["afine", 1, 2])
    with pytest.raises(SpecError, match=r"merit\.1: one value too many; given 2\.0; allowed: rate; take it out"):
        merit_from(["exp", 1, 2, 3])
    with pytest.raises(SpecError, match="a merit is a list"):
        merit_from(3)
    with pytest.raises(InputError, match="finite"):
        fair_law([0.1, math.nan], ExpMerit())


def test_codes_of_different_merits_stack_without_changing_them():
    # Three cells do not fit into 4,096: a kink must stay where it is.
    coarse = TableMerit((1.0, 3.0, 1.0, 2.0), lipschitz=3.0, lower_bound=1.0)
    fine = user_merit(lambda mu: 2.0 + mu**2, lipschitz=2.0, lower_bound=2.0)
    kinds, numbers, tables = merit_codes((ExpMerit(), coarse, fine))
    assert kinds.tolist() == [0, 3, 3]
    for i, merit in enumerate((ExpMerit(), coarse, fine)):
        for mean in (-0.9, -1 / 3, 0.2, 1 / 3, 0.5, 1.5):
            found = math.exp(log_merit(mean, kinds[i], numbers[i], tables[i])[0])
            assert found == pytest.approx(float(merit(mean)), rel=1e-12)
    assert float(coarse(-1 / 3)) == pytest.approx(3.0, rel=1e-12)
