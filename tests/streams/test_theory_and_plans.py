"""Calibration, theory and accounting of streams against direct computation, simulation and known numbers."""

import math

import numpy as np
import pytest

from fairveil import registry
from fairveil.errors import FairveilError, HorizonError, SpecError
from fairveil.privacy.conversions import gdp_mu
from fairveil.privacy.noise import SeededNoise
from fairveil.streams import BaselineGaussian, BaselineLaplace, Predictive, PrivateKalman, theory
from fairveil.streams.columns import Columns
from fairveil.streams.shares import scheduled


def test_corollary_1_and_both_parts_of_theorem_8_are_inverse():
    for epsilon in np.geomspace(1e-3, 50, 60).tolist():
        for delta in (1e-12, 1e-7, 1e-2):
            phi = theory.corollary1_phi(epsilon, delta)
            assert math.isclose(theory.theorem8_epsilon(phi, delta), epsilon, rel_tol=1e-12)
            assert math.isclose(math.log(theory.theorem8_delta(phi, epsilon)), math.log(delta), rel_tol=1e-9)


def test_theorem_8_as_typeset_is_wrong():
    phi = theory.corollary1_phi(5.0, 1e-7)
    assert round(theory.theorem8_epsilon_as_typeset(phi, 1e-7), 2) == 4.81
    assert round(theory.theorem8_epsilon_as_typeset(theory.corollary1_phi(1.0, 1e-7), 1e-7), 3) == 1.015


@pytest.mark.parametrize("rho", [0.1, 0.8, 0.95])
@pytest.mark.parametrize("weight", [0.05, 0.5, 1.0])
def test_the_stationary_error_is_what_simulation_finds(rho, weight):
    steps, noise = 60_000, 1.0
    mu = math.sqrt(2 + (steps - 2) * weight**2) / (noise * weight)
    known = {"mean": 0.0, "std": 1.0, "correlation": rho}
    releaser = Predictive(mu=mu, horizon=steps, weight=weight, known=known)
    rng = np.random.default_rng(4)
    z = np.empty(steps)
    z[0] = rng.normal()
    pushed = rng.normal(0, math.sqrt(1 - rho**2), steps)
    for t in range(1, steps):
        z[t] = rho * z[t - 1] + pushed[t]
    track = releaser.run(releaser.start(), z.tolist(), SeededNoise(2))[1]
    found = float(np.mean((track.value - z) ** 2))
    assert abs(found / theory.exact_error(rho, weight, noise) - 1) < 0.04
    gap = theory.theorem10_error(rho, weight, noise) - theory.exact_error(rho, weight, noise)
    assert gap == pytest.approx(0.0, abs=1e-12) if weight == 1 else gap < 0


def test_theorem_11_holds_under_the_exact_error():
    for rho in np.linspace(-0.99, 0.99, 25):
        for noise in np.geomspace(0.05, 20, 25):
            low = theory.theorem11_weight(noise)
            for weight in np.linspace(low + 1e-6, 1 - 1e-6, 20):
                assert theory.exact_error(rho, weight, noise) < noise**2


def test_running_estimates_are_algorithm_3():
    """The running sums against the formulae computed from all values, step by step."""
    releaser = Predictive(epsilon=1.0, delta=1e-6, horizon=200, weight=0.3)
    values = (1e6 + np.random.default_rng(1).normal(0, 80, 200)).tolist()
    x = releaser.run(releaser.start(), values, SeededNoise(1))[1]
    noise = releaser.noise_in_shown
    y, shown = x.plain, x.value
    for t in range(2, 200):
        past = shown[:t]
        mean = past.mean()
        variance = max(((past - mean) ** 2).sum() / (t - 1) - noise**2, 0.0)
        rho = ((past[:-1] - mean) * (past[1:] - mean)).sum() / ((past[:-1] - mean) ** 2).sum() + 1 / t
        r = min(max(rho, -1.0), 1.0) * variance / (variance + noise**2)
        expected = 0.7 * (mean * (1 - r) + r * past[-1]) + 0.3 * y[t]
        assert math.isclose(shown[t], expected, rel_tol=1e-9)


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


@pytest.mark.parametrize("table", [{"kind": "geometric", "ratio": 0.999}, {"kind": "power", "power": 1.1, "offset": 3}])
def test_endless_schedules_never_spend_more_than_their_bound(table):
    shares = scheduled(table, None)
    assert sum(float(shares.at(start, 10**6).sum()) for start in range(0, 10**7, 10**6)) < shares.total


def test_noise_that_grew_beyond_use_ends_an_endless_stream():
    releaser = PrivateKalman(epsilon=1.0, delta=1e-6, schedule={"kind": "geometric", "ratio": 0.5})
    with pytest.raises(HorizonError):
        releaser.run(releaser.start(), [0.0] * 100, SeededNoise(1))


def test_large_budgets_are_counted_in_zcdp():
    releaser = PrivateKalman(epsilon=60.0, delta=1e-7, horizon=1000)
    assert releaser.guarantee().definition == "zcdp"
    assert releaser.guarantee().epsilon == 60.0


def test_columns_share_one_budget():
    table = {"name": "baseline-gaussian", "epsilon": 1.0, "delta": 1e-6, "horizon": 10}
    alone = registry.build("releaser", table, "releaser").quote().noise_std
    four = Columns.build(table, ["a", "b", "c", "d"])
    assert four.releasers[0].quote().noise_std == pytest.approx(2 * alone, rel=1e-3)
    one = Columns.build(table, ["a", "b", "c", "d"], columns_per_person=1)
    assert one.releasers[0].quote().noise_std == pytest.approx(math.sqrt(2) * alone, rel=1e-3)
    uneven = Columns.build(table, ["a", "b"], shares=[0.9, 0.1])
    squares = sum(releaser.event().mu ** 2 for releaser in uneven.releasers)
    assert squares == pytest.approx(uneven.event().mu ** 2)
    with pytest.raises(SpecError):
        Columns.build(table, ["a", "b"], shares=[1.0])


BAD = {
    "weight 0": ({"name": "predictive", "weight": 0.0, "horizon": 5}, "weight"),
    "weight above 1": ({"name": "predictive", "weight": 1.5, "horizon": 5}, "weight"),
    "weights of another length": ({"name": "predictive", "weight": [0.5, 0.5], "horizon": 5}, "weight"),
    "known without std": ({"name": "predictive", "known": {"mean": 0.0}, "horizon": 5}, "known"),
    "no window": ({"name": "private-kalman", "unit": "window"}, "window"),
    "no horizon": ({"name": "private-kalman"}, "horizon"),
    "schedule": ({"name": "private-kalman", "schedule": {"kind": "linear"}}, "schedule"),
    "ratio": ({"name": "private-kalman", "schedule": {"kind": "geometric", "ratio": 1.0}}, "schedule"),
    "period": ({"name": "private-kalman", "seasons": [1], "horizon": 5}, "seasons"),
    "half period": ({"name": "private-kalman", "seasons": [2.5], "horizon": 5}, "seasons"),
    "lag": ({"name": "private-kalman", "lag": -1, "horizon": 5}, "lag"),
    "fractional sensitivity": (
        {"name": "private-kalman", "law": "discrete-gaussian", "sensitivity": 0.5, "horizon": 5},
        "sensitivity",
    ),
    "more samples than steps": ({"name": "fast", "samples": 9, "horizon": 5}, "samples"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_keys_name_their_path(case):
    table, path = BAD[case]
    budget = {"epsilon": 1.0} if table["name"] in ("fast",) else {"epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(SpecError) as caught:
        registry.build("releaser", {**budget, **table}, "releaser")
    assert path in caught.value.path


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, 1e-310, "1"])
@pytest.mark.parametrize("key", ["epsilon", "delta", "mu", "rho", "sensitivity"])
def test_bad_numbers_fail_closed(key, value):
    table = {"name": "private-kalman", "horizon": 5, "epsilon": 1.0, "delta": 1e-6, key: value}
    if key in ("mu", "rho"):
        table |= {"epsilon": None, "delta": None}
    with pytest.raises(FairveilError):
        registry.build("releaser", table, "releaser")


@pytest.mark.parametrize("count, each", [(2, 1), (3, 1), (4, 1), (10, 1), (4, 2)])
def test_columns_per_person_hold_where_a_person_moves_from_column_to_column(count, each):
    """The exact mu of a person who spends equally many steps in every column, with the offset's covariance."""
    steps = 120
    table = {"name": "baseline-gaussian", "mu": 0.5, "horizon": steps, "neighbours": "add-remove"}
    made = Columns.build(table, [f"c{place}" for place in range(count)], columns_per_person=each)
    here, total = steps * each / count, 0.0
    for releaser in made.releasers:
        plan = releaser.plan
        noise, offset = plan.std, math.ldexp(plan.offset, -plan.bits)
        total += (here - (here * offset) ** 2 / (noise**2 + steps * offset**2)) / noise**2
    assert 0.4 < math.sqrt(total) <= 0.5


@pytest.mark.parametrize("table", [{"name": "fast", "samples": 3}, {"name": "ba"}, {"name": "dft"}])
def test_columns_per_person_are_refused_where_steps_do_not_add_up(table):
    with pytest.raises(SpecError, match="step by step"):
        Columns.build({**table, "epsilon": 1.0, "horizon": 20}, ["a", "b"], columns_per_person=1)


def test_intervals_of_a_lag_with_seasons_keep_their_width():
    releaser = PrivateKalman(mu=2.0, horizon=100, lag=2, seasons=(24,))
    values = 100 + 10 * np.sin(np.arange(100) * 2 * np.pi / 24)
    for seed in range(5):
        state = releaser.start()
        track = releaser.advance(state, values, SeededNoise(seed))
        wide = np.array([row.high - row.low for row in track.rows() + releaser.finish(state)])
        assert wide.min() > 0.2 * releaser.quote().noise_std
