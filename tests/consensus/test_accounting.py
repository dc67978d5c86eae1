"""What a run costs: hand-computed totals, exact densities, events, calibration, what is refused."""

import math

import numpy as np
import pytest
from scipy.special import expit

from fairveil.consensus import (
    Dvp,
    PrivateAdmm,
    PrivateMAdmm,
    PrivateMrAdmm,
    PrivateRAdmm,
    Pvp,
    Setting,
    make_graph,
)
from fairveil.errors import SpecError
from fairveil.privacy.accounting import Accountant
from fairveil.privacy.charges import Currency, charge

GRAPH = {"adjacency": [[0, 1, 1, 0, 1], [1, 0, 0, 0, 1], [1, 0, 0, 0, 1], [0, 0, 0, 0, 1], [1, 1, 1, 1, 0]]}


def setting(iterations=50, nodes=5, size=8000, width=105, graph=GRAPH):
    return Setting(make_graph(graph, nodes), (size,) * nodes, width, 14, iterations)


def test_hand_computed_totals_of_the_recycled_family():
    place = setting(4)
    full = PrivateMrAdmm(alpha=2.0, penalty=1.0, growth=1.04, variant="printed").complete(place)
    tight, printed = full.privacy_loss(place)
    q, expected, claimed = 1750 / 8000, [], []
    for degree in (3, 2, 2, 1, 4):
        kappas = [0.22 / 5 + 2 * 1.04**k * degree for k in (1, 2)]
        expected.append([math.log(1 + 0.25 * q / kappa) + 2 * q * 2.0 for kappa in kappas])
        claimed.append([2 * q * (1.4 * 0.25 / kappa + 2.0) for kappa in kappas])
    worst, bound = np.cumsum(expected, 1).max(0), np.cumsum(claimed, 1).max(0)
    assert tight == pytest.approx([worst[0], worst[0], worst[1], worst[1]], rel=1e-12)
    assert printed == pytest.approx([bound[0], bound[0], bound[1], bound[1]], rel=1e-12)


def test_hand_computed_totals_of_dual_and_primal_perturbation():
    place = setting(3)
    q = 1750 / 8000
    tight, printed = Dvp(alpha=2.0, penalty=0.5, variant="printed").complete(place).privacy_loss(place)
    each = math.log(1 + 0.25 * q / (0.044 + 1.0)) + q * 2.0 / 0.5
    assert tight == pytest.approx([each, 2 * each, 3 * each], rel=1e-12)
    assert printed == pytest.approx([k * q * (0.35 + 2.0) / 0.5 for k in (1, 2, 3)], rel=1e-12)
    tight, printed = Pvp(alpha=2.0, penalty=0.5, variant="printed").complete(place).privacy_loss(place)
    assert tight == pytest.approx([k * 2.0 * 2 * q / (0.044 + 1.0) for k in (1, 2, 3)], rel=1e-12)
    assert printed == [None] * 3
    growing = PrivateMAdmm(alpha=2.0, penalty=0.5, growth=1.1, variant="printed").complete(place)
    steps = [0.5 * 1.1**k for k in range(3)]
    expected = np.cumsum([math.log(1 + 0.25 * q / (0.044 + 2 * eta)) + q * 2.0 / eta for eta in steps])
    assert growing.privacy_loss(place)[0] == pytest.approx(expected.tolist(), rel=1e-12)


def test_a_flatter_loss_costs_less_and_the_tail_one_per_cent():
    place = setting(2)
    facts = {"alpha": 1.0, "penalty": 1.0, "growth": 1.0}
    steep = PrivateMrAdmm(variant="printed", **facts).complete(place).privacy_loss(place)[0][0]
    flat = PrivateMrAdmm(variant="printed", loss="clipped-logistic", **facts).complete(place).privacy_loss(place)[0][0]
    assert steep - flat == pytest.approx(1750 / 8000, rel=1e-12)
    sound = PrivateMrAdmm(**facts).complete(place).privacy_loss(place)[0][0]
    assert sound == pytest.approx(steep * 100 / 99, rel=1e-12)


def test_side_condition_is_reported_by_node():
    place = Setting(make_graph(GRAPH, 5), (8000, 8000, 8000, 40, 8000), 105, 14, 4)
    full = PrivateRAdmm(alpha=1.0, penalty=0.05, C=40.0).complete(place)
    assert set(full.costs(place).side_condition()) == {3}
    assert full.privacy_loss(place)[1] == [None] * 4
    assert any("side condition fails at node 3" in note for note in full.guarantee(place).notes)


def density(f, rows, signs, q, kappa, linear, alpha):
    """Exact density of the one-dimensional minimiser at f."""
    z = signs * f * rows
    gradient = -q * (expit(-z) * signs * rows).sum() + kappa * f + linear
    bend = q * (expit(z) * expit(-z) * rows**2).sum() + kappa
    return math.exp(-alpha * abs(gradient)) * bend


def test_exact_densities_of_a_whole_step_stay_below_the_tight_bound_and_come_near():
    rng = np.random.default_rng(5)
    nearest = 0.0
    for _ in range(300):
        count = int(rng.integers(1, 5))
        rows, signs = rng.uniform(-1, 1, count), rng.choice([-1.0, 1.0], count)
        q, kappa, alpha = rng.uniform(0.1, 1), rng.uniform(0.05, 3), 10 ** rng.uniform(-2, 1)
        other, flipped = rows.copy(), signs.copy()
        rows[0], other[0], flipped[0] = 1.0, rng.choice([-1.0, 0.0, 1.0]), -signs[0]
        bound = math.log1p(0.25 * q / kappa) + 2 * q * alpha
        for f in np.linspace(-6, 6, 41):
            one = density(f, rows, signs, q, kappa, 0.3, alpha)
            two = density(f, other, flipped, q, kappa, 0.3, alpha)
            loss = abs(math.log(one) - math.log(two))
            assert loss <= bound * (1 + 1e-12)
            nearest = max(nearest, loss / bound)
    assert nearest > 0.5


@pytest.mark.parametrize("kind", [PrivateMAdmm, PrivateRAdmm, PrivateMrAdmm])
def test_a_total_epsilon_is_met_node_by_node(kind):
    place = setting(10)
    full = kind(epsilon=3.0, penalty=1.0).complete(place)
    assert full.totals(place)[-1] == pytest.approx([3.0] * 5)
    assert full.event(place, 2).epsilon == pytest.approx(3.0)
    printed = kind(epsilon=3.0, penalty=1.0, calibrate="printed").complete(place)
    assert len(set(printed.alphas(place))) == 1
    assert printed.guarantee(place).epsilon == 3.0


@pytest.mark.parametrize("calibrate", ["tight", "printed"])
@pytest.mark.parametrize("kind", [PrivateMAdmm, PrivateRAdmm, PrivateMrAdmm])
def test_a_total_epsilon_is_never_passed_by_rounding(kind, calibrate):
    for epsilon in range(10, 40):
        place = setting(6)
        full = kind(epsilon=float(epsilon), penalty=1.0, calibrate=calibrate).complete(place)
        assert full.totals(place).max() <= epsilon
        assert full.guarantee(place).epsilon == epsilon
        assert full.privacy_loss(place)[0][-1] <= epsilon
        assert max(charge(full.event(place, node), Currency.EPSILON).units for node in range(5)) <= epsilon * 10**6


def test_an_epsilon_below_the_jacobian_says_the_least_and_how_many_iterations_fit():
    with pytest.raises(SpecError, match=r"above 1\.\d+ at node 3 \(printed bound\).*at most \d+ iterations"):
        PrivateMrAdmm(epsilon=1.0, penalty=1.0, calibrate="printed").complete(setting(80))
    with pytest.raises(SpecError, match="no bound is printed"):
        Pvp(epsilon=1.0, calibrate="printed", variant="printed").complete(setting(5))


def test_gaussian_primal_spends_its_budget_and_no_more():
    place = setting(20)
    full = PrivateMrAdmm(epsilon=2.0, delta=1e-5, perturb="gaussian-primal").complete(place)
    accountant = Accountant()
    accountant.compose(full.event(place))
    assert 1.97 < accountant.at_delta(1e-5).epsilon <= 2.0
    assert 2.0 * (1 - 1e-7) < full.privacy_loss(place)[0][-1] <= 2.0


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("definition", ["gaussian", "pure"])
def test_private_admm_spends_its_budget_and_no_more(epsilon, definition):
    place = setting()
    full = PrivateAdmm(epsilon=epsilon, definition=definition).complete(place)
    accountant = Accountant()
    accountant.compose(full.event(place))
    bound = accountant.at_delta(0.0 if definition == "pure" else 1e-5).epsilon
    assert 0.98 * epsilon < bound <= epsilon
    loss = full.privacy_loss(place)[0]
    assert loss == sorted(loss)
    assert loss[-1] == pytest.approx(epsilon, rel=1e-7)
    assert loss[-1] <= epsilon


def test_the_round_rule_uses_public_numbers_only():
    place = setting()
    assert PrivateAdmm(epsilon=1.0).complete(place).rounds == 31
    assert PrivateAdmm(epsilon=1.0, definition="pure").complete(place).rounds == 6
    assert PrivateAdmm(epsilon=1.0, rounds="iterations").complete(place).rounds == 50
