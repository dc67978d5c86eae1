"""Breaks that a review of the guarantees found once, kept closed."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fairveil import SecureNoise, SeededNoise
from fairveil.bandits.exposure.priv import PrivFairx
from fairveil.bandits.nash.base import UNIT, laplace_scale
from fairveil.bandits.nash.gdp_ncb import GdpNcb
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.protocol import Feedback
from fairveil.errors import PrivacyError, SpecError
from fairveil.privacy.accounting import Accountant
from fairveil.privacy.conversions import gdp_delta, pure_mu
from fairveil.privacy.events import GaussianEvent, PureEvent, RepeatedEvent, ZcdpEvent
from fairveil.privacy.grid import clip_norm
from fairveil.privacy.ledger import Ledger
from fairveil.privacy.limits import Limit
from fairveil.privacy.mechanisms import Gaussian
from fairveil.privacy.sums import ToeplitzSum


def test_a_huge_row_is_clipped_to_a_tiny_bound():
    bound = 2.6e-16
    assert np.linalg.norm(clip_norm([[1e308, 0.0]], bound)) <= bound * (1 + 1e-12)


def test_printed_priv_fairx_states_the_epsilon_that_its_noise_gives():
    promise = PrivFairx(agents=3, dimension=3, horizon=1000, epsilon=300.0, delta=0.1, variant="printed").guarantee()
    assert gdp_delta(promise.mu, promise.epsilon) <= 0.1
    assert gdp_delta(promise.mu, 300.0) > 0.1, "the asked epsilon would be a false promise"


def test_a_lost_threshold_test_never_meets_the_same_rewards_again():
    policy = GdpNcb(arms=2, horizon=500, epsilon=1.0, phase1="threshold", tau=40.0)
    state = policy.learn(policy.start(), Feedback(0, 0, 1.0))
    block = policy.due(state, 1)
    assert block is not None
    tested = policy.release(state, SeededNoise(1))
    assert tested["threshold"][1] == 1
    after = policy.lost(state, block)
    assert not after["raw"].any()
    assert not after["threshold"].any()


@pytest.mark.parametrize(("currency", "epsilon", "power"), [("zcdp", 1e-170, 340), ("gaussian", 1e-17, 34)])
def test_a_tiny_epsilon_repeated_often_enough_is_never_free(currency, epsilon, power):
    """rho and mu^2 of these add up to half a unit and more; as floats a single one rounded to zero."""
    limit = Limit.approximate(1.0, 1e-5, currency=currency)
    one, many = RepeatedEvent(PureEvent(epsilon), 10 ** (power - 1)), RepeatedEvent(PureEvent(epsilon), 10**power)
    assert limit.charge(many).units > 0.4 * 10**12
    assert limit.charge(many).units == pytest.approx(10 * limit.charge(one).units, rel=1e-9)


def test_the_gaussian_parameter_of_a_tiny_epsilon_keeps_its_digits():
    for power in range(-300, -5):
        ratio = pure_mu(10.0**power) / 10.0**power
        assert np.sqrt(np.pi / 2) < ratio < np.sqrt(np.pi / 2) * (1 + 2e-9), power


def test_the_distance_of_a_very_fine_grid_is_paid_for_when_it_is_repeated():
    limit = Limit.gaussian(1.0, 1e-5)
    fine = RepeatedEvent(GaussianEvent(1e-300, draws=1, grid_sigma=1e200), 10**385)
    assert limit.charge(fine).delta_units > 0


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


def test_an_account_is_opened_for_an_event_and_nothing_else(tmp_path):
    with Ledger.open(tmp_path / "ledger.db", limit=Limit.pure(1.0)) as ledger:
        with pytest.raises(SpecError, match="not an event"):
            ledger.spend("account", 0.5)
        assert ledger.spent.units == 0


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.7, 1.0, 1.1, 1.5, 3.0, 7.3])
def test_no_laplace_scale_of_a_nash_policy_is_rounded_down(epsilon):
    policies = [PrivateNash(arms=2, epsilon=epsilon), PrivateNash(arms=2, epsilon=epsilon, arrivals="private")]
    for policy in [*policies, GdpNcb(arms=2, horizon=100, epsilon=epsilon, phase1="threshold", tau=4.0)]:
        assert Fraction(policy.scale) * Fraction(policy.release_epsilon) >= UNIT
    assert all(Fraction(laplace_scale(k, epsilon)) * Fraction(epsilon) >= k * UNIT for k in (1, 2, 4))


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


@pytest.mark.parametrize("kind", [np.int16, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("high", [3, 4, 2**14])
def test_uniform_integers_take_numpy_integers(kind, high):
    """The product with 2^64 overflowed: another law, an error, or (for powers of two) a loop without end."""
    drawn = SecureNoise().uniform_integers(kind(high), 4000)
    assert drawn.min() >= 0
    assert drawn.max() < high
    assert abs(drawn.mean() / (high - 1) - 0.5) < 0.05


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
