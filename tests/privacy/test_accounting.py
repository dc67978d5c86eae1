"""The accountant against closed forms, brute force over two outcomes, and a second implementation."""

from __future__ import annotations

import math
import time
import tracemalloc
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from scipy.stats import binom

from fairveil.errors import PrivacyError, SpecError
from fairveil.privacy.accounting import Accountant
from fairveil.privacy.charges import Charge, Currency, charge, cost
from fairveil.privacy.conversions import gdp_delta, gdp_epsilon, zcdp_epsilon
from fairveil.privacy.events import (
    FINE_GRID,
    ApproximateEvent,
    BoundedRangeEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    NothingEvent,
    ParallelEvent,
    PureEvent,
    RepeatedEvent,
    ZcdpEvent,
)
from fairveil.privacy.mechanisms import Gaussian
from fairveil.privacy.sums import ToeplitzSum


def accountant(*events: Event) -> Accountant:
    made = Accountant()
    for event in events:
        made.compose(event)
    return made


def composed_response_delta(epsilon: float, times: int, at: float) -> float:
    """The exact delta of ``times`` randomized responses: the loss is epsilon times (heads minus tails)."""
    heavy = 1 / (1 + math.exp(-epsilon))
    heads = np.arange(times + 1)
    loss = epsilon * (2 * heads - times)
    return float((binom.pmf(heads, times, heavy) * np.maximum(0, -np.expm1(at - loss))).sum())


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("times", [1, 2, 10, 100])
def test_pure_events_never_below_brute_force_and_close_to_it(epsilon, times):
    made = accountant(RepeatedEvent(PureEvent(epsilon), times))
    delta = 1e-6
    bound = made.at_delta(delta)
    assert composed_response_delta(epsilon, times, bound.epsilon) <= delta * (1 + 1e-6)
    assert bound.epsilon <= epsilon * times * (1 + 1e-9)
    if bound.route == "pld":  # the pessimistic rounding costs little
        assert composed_response_delta(epsilon, times, bound.epsilon * 0.99 - 1e-3) > delta


@pytest.mark.parametrize("epsilon", [0.05, 0.4])
@pytest.mark.parametrize("times", [5, 60])
def test_every_route_alone_is_an_upper_bound(epsilon, times):
    made = accountant(RepeatedEvent(PureEvent(epsilon), times))
    routes = made._routes()
    assert set(routes) == {"basic", "zcdp", "gaussian", "renyi", "pld"}
    for name, route in routes.items():
        for delta in (1e-3, 1e-6, 1e-9):
            assert composed_response_delta(epsilon, times, route(delta)) <= delta * (1 + 1e-6), name


def test_gaussian_events_add_up_and_convert_exactly():
    made = accountant(*[GaussianEvent(0.3)] * 4, GaussianEvent(0.8))
    bound = made.at_delta(1e-5)
    assert bound.route == "gaussian"
    assert bound.epsilon == pytest.approx(gdp_epsilon(1.0, 1e-5), rel=1e-9)
    assert made.at_epsilon(2.0).delta == pytest.approx(gdp_delta(1.0, 2.0), rel=1e-9)


def test_zcdp_events_add_up():
    made = accountant(ZcdpEvent(0.1), RepeatedEvent(ZcdpEvent(0.2), 2))
    assert made.at_delta(1e-5).epsilon == pytest.approx(zcdp_epsilon(0.5, 1e-5), rel=1e-9)


def test_mixture_of_pure_and_gaussian_against_a_second_implementation():
    made = accountant(RepeatedEvent(PureEvent(0.2), 20), GaussianEvent(0.5))
    # randomized response over two values with this epsilon is the worst pure mechanism
    coin = dp_accounting.RandomizedResponseDpEvent(2 / (1 + math.exp(0.2)), 2)
    other = PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE, value_discretization_interval=1e-3)
    other.compose(dp_accounting.GaussianDpEvent(4.0))  # replacing moves twice as far there
    for _ in range(20):  # one by one: dp-accounting 0.6 counts a repeated randomized response once
        other.compose(coin)
    assert made.at_delta(1e-6).epsilon == pytest.approx(other.get_epsilon(1e-6), rel=0.01)


def test_mixture_with_zcdp_uses_the_renyi_curve():
    made = accountant(RepeatedEvent(PureEvent(0.1), 50), ZcdpEvent(0.03))
    bound = made.at_delta(1e-6)
    assert bound.route == "renyi"
    assert bound.epsilon < min(5.0 + zcdp_epsilon(0.03, 1e-6), zcdp_epsilon(0.03 + 50 * 0.005, 1e-6))


def test_approximate_events_take_their_delta_off_first():
    made = accountant(ApproximateEvent(0.5, 4e-7), ApproximateEvent(0.5, 4e-7))
    assert made.at_delta(1e-6).epsilon == pytest.approx(1.0, rel=1e-3)
    assert made.at_delta(7e-7).epsilon == math.inf
    assert made.at_epsilon(1.0).delta == pytest.approx(8e-7, rel=1e-6)


def test_bounded_range_is_better_than_pure_in_large_numbers():
    selections = accountant(RepeatedEvent(BoundedRangeEvent(0.1), 100))
    plain = accountant(RepeatedEvent(PureEvent(0.1), 100))
    assert selections.at_delta(1e-6).epsilon == pytest.approx(zcdp_epsilon(0.125, 1e-6), rel=1e-6)
    assert selections.at_delta(1e-6).epsilon < 0.6 * plain.at_delta(1e-6).epsilon


def test_parallel_events_are_paid_once():
    once = accountant(ParallelEvent(PureEvent(0.5)))
    assert once.at_delta(0.0).epsilon == 0.5


def test_discrete_gaussian_pays_its_distance_in_delta():
    draws, sigma = 10**6, FINE_GRID
    made = accountant(GaussianEvent(0.5, draws=draws, grid_sigma=sigma))
    distance = draws * 0.021 / sigma**2
    bound = made.at_delta(1e-6)
    assert gdp_delta(0.5, bound.epsilon) + (1 + math.exp(bound.epsilon)) * distance <= 1e-6
    assert bound.epsilon > gdp_epsilon(0.5, 1e-6)
    assert made.at_delta(3e-8).route == "zcdp" or made.at_delta(3e-8).epsilon < math.inf
    assert made._corrected(lambda rest: gdp_epsilon(0.5, rest), 3e-8) == math.inf  # the correction alone exceeds it


def test_at_delta_zero_only_pure_events_have_an_answer():
    assert accountant(PureEvent(0.25), NothingEvent()).at_delta(0.0).epsilon == 0.25
    assert accountant(PureEvent(0.25), GaussianEvent(0.1)).at_delta(0.0).epsilon == math.inf
    assert accountant().at_delta(0.0).epsilon == 0.0


def test_order_does_not_matter_and_repetition_is_composition():
    events = [PureEvent(0.1), GaussianEvent(0.2), ZcdpEvent(0.01), ApproximateEvent(0.1, 1e-9)]
    bounds = {accountant(*order).at_delta(1e-6).epsilon for order in permutations(events)}
    assert max(bounds) - min(bounds) < 1e-12
    one, other = accountant(*[PureEvent(0.3)] * 7), accountant(RepeatedEvent(PureEvent(0.3), 7))
    assert one.at_delta(1e-6) == other.at_delta(1e-6)
    assert accountant(ComposedEvent(tuple(events))).at_delta(1e-6).epsilon == pytest.approx(max(bounds), rel=1e-9)


def test_more_events_never_cost_less_and_reading_changes_nothing():
    made, last = Accountant(), 0.0
    for event in [PureEvent(0.1), GaussianEvent(0.3), BoundedRangeEvent(0.2), ApproximateEvent(0.1, 1e-9)] * 3:
        made.compose(event)
        now = made.at_delta(1e-6).epsilon
        assert now >= last - 1e-3  # the discretisation of another route may differ in the last digits
        assert made.at_delta(1e-6).epsilon == now
        last = now


@dataclass(frozen=True)
class Discounted(PureEvent):
    """Claims to be a pure event."""

    kind = "discounted"


def test_an_unknown_event_is_refused_and_nothing_is_added():
    made = accountant(PureEvent(0.1))
    for event in (Discounted(0.1), Event(), ComposedEvent((PureEvent(0.1), ParallelEvent(Discounted(0.1))))):
        with pytest.raises(PrivacyError, match="does not know"):
            made.compose(event)
        with pytest.raises(PrivacyError, match="does not know"):
            cost(event, Currency.EPSILON)
    assert made.epsilon_units == 100_000
    assert made.events == 1


@pytest.mark.parametrize("bad", [0, -1, True, 1.5])
def test_counts_are_positive_integers(bad):
    with pytest.raises(PrivacyError, match="count"):
        Accountant().compose(PureEvent(0.1), bad)


@pytest.mark.parametrize("bad", [-1e-9, 1.0, math.nan, "0", True])
def test_bad_targets_are_refused(bad):
    with pytest.raises(SpecError):
        Accountant().at_delta(bad)
    if bad != 1.0:
        with pytest.raises(SpecError):
            Accountant().at_epsilon(bad)


def test_compose_is_constant_in_time_and_memory():
    """Ten times as many events take about ten times as long (at most 20 on a busy machine) and no more memory."""

    def run(count: int) -> float:
        made = Accountant()
        began = time.process_time()
        for number in range(count):
            made.compose(PureEvent(0.001 + 0.001 * (number % 7)))
        return time.process_time() - began

    run(500)
    few = min(run(500) for _ in range(3))
    assert min(run(5000) for _ in range(2)) < 20 * few
    tracemalloc.start()
    run(200)
    small = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    run(2000)
    large = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert large < small + 200_000


def test_too_many_different_epsilons_cost_the_pld_route_only():
    made = accountant(*[PureEvent(0.01 + index * 1e-4) for index in range(70)])
    assert made.different is None
    assert made.at_delta(1e-6).route in ("renyi", "zcdp")


@pytest.mark.parametrize(
    ("event", "currency", "units"),
    [
        (PureEvent(0.1), Currency.EPSILON, 100_000),
        (BoundedRangeEvent(0.2), Currency.EPSILON, 200_000),
        (BoundedRangeEvent(0.2), Currency.ZCDP, 5_000_000_000),
        (ZcdpEvent(0.01), Currency.ZCDP, 10_000_000_000),
        (GaussianEvent(0.2), Currency.ZCDP, 20_000_000_000),
        (GaussianEvent(0.2), Currency.GAUSSIAN, 40_000_000_000),
        (RepeatedEvent(PureEvent(1 / 3), 3), Currency.EPSILON, 1_000_000),
        (NothingEvent(), Currency.GAUSSIAN, 0),
    ],
)
def test_charges_in_units(event, currency, units):
    assert charge(event, currency) == Charge(units, 0)


@pytest.mark.parametrize("epsilon", [1e-5, 0.1, 1.0, 12.0])
def test_charges_of_pure_events_round_up_from_the_exact_number(epsilon):
    with mpmath.workdps(50):
        e = mpmath.mpf(repr(epsilon))
        rho = e * mpmath.tanh(e / 2) * 10**12
        mu = 2 * mpmath.sqrt(2) * mpmath.erfinv(mpmath.tanh(e / 2))  # Phi^-1(1 / (1 + e^-e)), since 2p - 1 is tanh
        for exact, currency in ((rho, Currency.ZCDP), (mu**2 * 10**12, Currency.GAUSSIAN)):
            units = charge(PureEvent(epsilon), currency).units
            assert exact <= units <= exact * (1 + 1e-8) + 1


def test_currencies_refuse_what_they_cannot_express():
    for event, currency in [
        (ZcdpEvent(0.1), Currency.EPSILON),
        (GaussianEvent(0.1), Currency.EPSILON),
        (ZcdpEvent(0.1), Currency.GAUSSIAN),
    ]:
        with pytest.raises(PrivacyError, match="cannot count"):
            charge(event, currency)
    with pytest.raises(PrivacyError, match="states no delta"):
        charge(GaussianEvent(0.1, 10, FINE_GRID), Currency.GAUSSIAN)
    assert charge(GaussianEvent(0.1, 10, FINE_GRID), Currency.ZCDP).delta_units == 0
    with pytest.raises(PrivacyError, match="more than any budget"):
        charge(PureEvent(1e300), Currency.EPSILON)


def test_a_charge_of_less_than_a_unit_is_a_unit():
    assert charge(PureEvent(1e-9), Currency.EPSILON).units == 1
    assert charge(ApproximateEvent(1.0, 1e-30), Currency.EPSILON).delta_units == 1


def test_the_accountant_refuses_counts_that_no_float_holds_and_adds_nothing():
    accountant = Accountant()
    with pytest.raises(PrivacyError, match="too often"):
        accountant.compose(RepeatedEvent(RepeatedEvent(ZcdpEvent(1e-300), 2**60), 2**60))
    assert accountant.rho_units == 0
    assert accountant.at_delta(1e-5).epsilon == 0.0


def test_the_renyi_curve_of_many_small_events_is_rounded_up():
    one, many = Accountant(), Accountant()
    one.compose(ZcdpEvent(1e-7 / 3))
    for _ in range(3000):
        many.compose(ZcdpEvent(1e-7 / 3))
    # exactly, in fractions: a sum of rounded floats lies below 3000 times its term at about half of the orders
    term = [Fraction(float(np.nextafter(value, 0.0))) for value in one.curve]
    assert all(Fraction(float(total)) >= 3000 * value for total, value in zip(many.curve, term, strict=True))


def test_loss_distributions_do_not_undercut_the_exact_delta():
    """One Gaussian and four coins, exactly; the convolutions alone fell short of delta = 1e-12 by 2e-5 of it."""
    accountant, mu, coins, epsilon = Accountant(), 2.0, 4, 1.0
    accountant.compose(GaussianEvent(mu))
    accountant.compose(PureEvent(epsilon), coins)
    for delta in (1e-5, 1e-9, 1e-12, 3e-13):
        found = accountant.at_delta(delta).epsilon
        keep = 1 / (1 + np.exp(-epsilon))
        exact = 0.0
        for heads in range(coins + 1):
            likelihood = math.comb(coins, heads) * keep**heads * (1 - keep) ** (coins - heads)
            rest = found - (2 * heads - coins) * epsilon
            exact += likelihood * gdp_delta(mu, rest)  # every rest is positive here
        assert exact <= delta


@pytest.mark.parametrize(("epsilon", "delta"), [(17.5, 4.5e-10), (39.6, 0.0927), (62.0, 0.3)])
def test_the_accountant_confirms_gaussian_noise_at_large_epsilon(epsilon, delta):
    """e^epsilon multiplies the distance of discrete noise: rounding it to units of delta cost up to 14 % of epsilon."""
    budget = {"epsilon": epsilon, "delta": delta}
    for thing in (Gaussian(sensitivity=0.2, **budget), ToeplitzSum(80, shape="vector", dimension=3, **budget)):
        accountant = Accountant()
        accountant.compose(thing.event())
        assert accountant.at_delta(delta).epsilon <= epsilon * (1 + 1e-6)
