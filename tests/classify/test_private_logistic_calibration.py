"""Exact checks of the guarantee: densities of one-dimensional releases, compositions, conversions."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from fairveil.classify import PrivateLogistic
from fairveil.classify.perturbation import Perturbation
from fairveil.errors import InputError, SpecError
from fairveil.privacy.calibration import fits as budget
from fairveil.privacy.events import ApproximateEvent, GaussianEvent, PureEvent, RepeatedEvent
from fairveil.privacy.noise import SecureNoise, SeededNoise, ZeroNoise
from fairveil.randomness import generator

CASES = [(m, d) for m in ("output", "objective") for d in ("gaussian", "pure")]


def _noise_of(w, rows, signs, strength):
    """The linear term for which w is the exact minimiser, and its slope, for one column."""
    margin = np.outer(w, rows * signs)
    pull = (expit(-margin) * rows * signs).sum(axis=1)
    bend = (expit(margin) * expit(-margin) * rows**2).sum(axis=1)
    return pull - strength * w, -(strength + bend)


def _log_density(w, rows, signs, made: Perturbation):
    b, slope = _noise_of(w, rows, signs, made.strength)
    scale = made._main_scale(1)
    law = norm.logpdf(b, scale=scale) if made.definition == "gaussian" else -np.abs(b) / scale - math.log(2 * scale)
    return law + np.log(np.abs(slope))


def _made(definition: str, epsilon: float, strength: float, bound: float = 1.0) -> Perturbation:
    return Perturbation("objective", definition, epsilon, 1e-5, 1, bound, strength, 1e-9)  # type: ignore[arg-type]


def test_pure_objective_perturbation_has_the_exact_density_ratio_it_claims() -> None:
    """On random one-dimensional problems the log density ratio stays below epsilon and comes close to it."""
    rng, closest = generator(3), 0.0
    for _ in range(300):
        epsilon, strength = float(rng.uniform(0.3, 4)), float(np.exp(rng.uniform(-2, 4)))
        made = _made("pure", epsilon, strength)
        if made.jacobian >= 0.9 * epsilon:
            continue
        count = int(rng.integers(1, 8))
        rows = rng.uniform(-1, 1, count)
        signs = rng.choice([-1.0, 1.0], count)
        other = rows.copy()
        rows[0], other[0] = 1.0, -1.0
        reach = 40 * made._main_scale(1) / strength
        w = np.linspace(-reach, reach, 4001)
        loss = np.abs(_log_density(w, rows, signs, made) - _log_density(w, other, signs, made)).max()
        assert loss <= epsilon * (1 - budget.TOLERANCE_SHARE) + 1e-9
        closest = max(closest, loss / epsilon)
    assert closest > 0.4


def test_gaussian_objective_perturbation_has_the_exact_delta_it_claims() -> None:
    rng, closest = generator(4), 0.0
    for _ in range(40):
        epsilon, strength = float(rng.uniform(0.5, 4)), float(np.exp(rng.uniform(0, 4)))
        made = _made("gaussian", epsilon, strength)
        if made.jacobian >= 0.5 * epsilon:
            continue
        count = int(rng.integers(2, 8))
        rows = rng.uniform(-1, 1, count)
        rows[0] = 1.0
        signs = rng.choice([-1.0, 1.0], count)
        without = rows.copy()
        without[0] = 0.0
        reach = (12 * made._main_scale(1) + count) / strength
        w = np.linspace(-reach, reach, 40_001)
        first, second = (_log_density(w, side, signs, made) for side in (rows, without))
        step = w[1] - w[0]
        main = epsilon * (1 - budget.TOLERANCE_SHARE)
        for p, q in ((first, second), (second, first)):
            assert np.exp(p).sum() * step == pytest.approx(1.0, abs=1e-4)
            delta = float((np.exp(p) * -np.expm1(np.minimum(main + q - p, 0.0))).sum() * step)
            assert delta <= made.delta
            closest = max(closest, delta / made.delta)
    assert closest > 0.02


def test_the_composition_bound_covers_the_exact_composition_of_two_fits() -> None:
    """Two losses J + v/2 + sqrt(v)|X|: the exact delta of their sum, by quadrature, against the Renyi bound."""
    root, jacobian, delta = 0.3, 0.05, 1e-5
    epsilon = budget.objective_epsilon(root, jacobian, delta, 2)
    x = np.abs(np.linspace(-9, 9, 3601))
    weight = norm.pdf(x) * (18 / 3600)
    loss = jacobian + root**2 / 2 + root * x
    total = loss[:, None] + loss[None, :]
    exact = float((weight[:, None] * weight[None, :] * -np.expm1(np.minimum(epsilon - total, 0))).sum())
    assert exact <= delta
    assert exact >= delta / 50  # not vacuous


def test_one_fit_uses_the_exact_curve_where_it_is_tighter() -> None:
    one = budget.objective_epsilon(0.5, 0.1, 1e-5, 1)
    assert budget.objective_delta(0.5, 0.1, one) <= 1e-5
    assert budget.objective_delta(0.5, 0.1, one * 0.999) > 1e-5


@pytest.mark.parametrize(("method", "definition"), CASES)
@pytest.mark.parametrize("fits", [1, 2, 25])
def test_what_is_spent_grows_to_exactly_the_budget(method, definition, fits) -> None:
    learner = PrivateLogistic(1.5, method=method, definition=definition, retrainings=fits)
    spent = [learner.spent(done) for done in range(fits + 1)]
    assert spent[0] == 0.0
    assert all(a < b for a, b in itertools.pairwise(spent))
    assert spent[-1] == pytest.approx(1.5, rel=1e-3)
    assert spent[-1] <= 1.5


def test_events_say_what_is_spent() -> None:
    assert PrivateLogistic(1.0, definition="pure").event() == PureEvent(1.0)
    assert PrivateLogistic(1.0, definition="pure", retrainings=4).event() == RepeatedEvent(PureEvent(0.25), 4)
    assert PrivateLogistic(1.0, retrainings=4).event() == ApproximateEvent(1.0, 1e-5)
    event = PrivateLogistic(1.0, method="output", retrainings=4).event()
    assert isinstance(event, RepeatedEvent)
    assert isinstance(event.event, GaussianEvent)
    assert event.event.mu == pytest.approx(0.26805 / 2, abs=1e-4)


def test_the_accountant_agrees_with_the_guarantee() -> None:
    """Gaussian output fits added up by the privacy core cost the promised epsilon at the promised delta."""
    from fairveil.privacy.charges import Currency, charge, cost
    from fairveil.privacy.conversions import gdp_epsilon

    learner = PrivateLogistic(1.0, method="output", retrainings=9)
    mu = math.sqrt(float(cost(learner.event(), Currency.GAUSSIAN).amount))
    grid = charge(learner.event(), Currency.GAUSSIAN, epsilon=1.0).delta_units / 1e18
    assert grid < 1e-12
    assert gdp_epsilon(mu, 1e-5 - grid) == pytest.approx(1.0, rel=1e-9)
    assert gdp_epsilon(mu, 1e-5 - grid) <= 1.0


@pytest.mark.parametrize(("method", "definition"), CASES)
def test_without_noise_the_release_is_the_solution(method, definition) -> None:
    from fairveil.classify.solver import solve

    rng = generator(0)
    rows = rng.normal(size=(200, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    signs = np.where(rows[:, 0] > 0, 1.0, -1.0)
    made = PrivateLogistic(1.0, method=method, definition=definition, strength=20.0).perturbation(200, 3)
    found = made.release(rows, signs, ZeroNoise())
    assert np.abs(found - solve(rows, signs, 20.0, 1e-9, bound=1.0)).max() < 1e-6


@pytest.mark.parametrize(("method", "definition"), CASES)
def test_the_noise_has_the_stated_size(method, definition) -> None:
    """On no data the objective is the regulariser alone, so the bound on the noise is attained."""
    made = PrivateLogistic(1.0, method=method, definition=definition, strength=20.0).perturbation(10, 3)
    draws = made.release(np.zeros((0, 3)), np.zeros(0), SeededNoise(5), copies=20_000)
    assert draws.std(axis=0) == pytest.approx(np.full(3, made.noise_std(3)), rel=0.04)


def test_secure_noise_works_and_differs_each_time() -> None:
    rows, signs = np.ones((5, 1)), np.ones(5)
    for method, definition in CASES:
        made = PrivateLogistic(1.0, method=method, definition=definition, strength=5.0).perturbation(5, 1)
        assert made.release(rows, signs, SecureNoise())[0] != made.release(rows, signs, SecureNoise())[0]


def test_too_weak_a_regularisation_is_refused_when_the_configuration_is_made() -> None:
    for definition in ("gaussian", "pure"):
        with pytest.raises(SpecError, match="too weak"):
            PrivateLogistic(0.1, definition=definition, strength=0.1)
    PrivateLogistic(0.1, method="output", strength=0.1)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epsilon", 0.0),
        ("epsilon", -1.0),
        ("epsilon", float("nan")),
        ("epsilon", float("inf")),
        ("epsilon", "1"),
        ("epsilon", 1e-320),
        ("delta", 0.0),
        ("delta", 1.0),
        ("norm_bound", 0.0),
        ("strength", -1.0),
        ("tolerance", 0.0),
        ("tolerance", 0.5),
        ("retrainings", 0),
        ("method", "magic"),
        ("definition", "zcdp"),
    ],
)
def test_bad_parameters_are_named(field, value) -> None:
    with pytest.raises(SpecError, match=field):
        PrivateLogistic(**{"epsilon": 1.0, field: value})


def test_huge_epsilons_are_refused_on_the_grid_but_not_in_pure_form() -> None:
    with pytest.raises(SpecError, match="epsilon"):
        PrivateLogistic(200.0)
    assert PrivateLogistic(200.0, definition="pure").guarantee().epsilon == 200.0


@pytest.mark.parametrize("definition", ["gaussian", "pure"])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.1, 10.0])
@pytest.mark.parametrize("shape", [(1, 1), (3000, 30)])
def test_the_default_tolerance_is_reached_at_every_scale_of_noise(definition, epsilon, shape) -> None:
    rng = generator(6)
    rows = rng.normal(size=shape)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for method in ("output", "objective"):
        learner = PrivateLogistic(epsilon, method=method, definition=definition, intercept=False)
        weights = learner.perturbation(*shape).release(rows, np.sign(rows[:, 0]), SeededNoise(7))
        assert np.isfinite(weights).all()


@pytest.mark.parametrize(("strength", "small"), [(0.01, 0.002), (0.001, 0.0005)])
@pytest.mark.parametrize("definition", ["gaussian", "pure"])
def test_whether_a_release_happens_does_not_depend_on_the_data(monkeypatch, definition, strength, small) -> None:
    """Many short rows and weak regularisation make long weights; one long row then must not make a refusal."""
    from fairveil.classify import solver

    taken = []
    hessian = solver._hessian
    monkeypatch.setattr(solver, "_hessian", lambda *given: taken.append(1) or hessian(*given))
    learner = PrivateLogistic(1.0, method="output", definition=definition, intercept=False, strength=strength)
    made = learner.perturbation(20_000, 1)
    for last in (small, 1.0, -1.0, 0.0):
        rows = np.full((20_000, 1), small)
        rows[-1] = last
        assert np.isfinite(made.release(rows, np.ones(20_000), SeededNoise(0))).all()
        assert len(taken) <= 50
        taken.clear()


def test_the_tolerance_reads_public_numbers_only_and_a_smaller_one_is_refused() -> None:
    for method, definition in CASES:
        learner = PrivateLogistic(1.0, method=method, definition=definition, strength=5.0)
        least = learner.perturbation(500, 3).tolerance / learner.bound
        assert replace(learner, tolerance=least * 1.01).perturbation(500, 3).tolerance > least
        with pytest.raises(SpecError, match="tolerance"):
            replace(learner, tolerance=least / 1.01, rows=500).perturbation(500, 3)
        with pytest.raises(SpecError, match="tolerance"):
            replace(learner, tolerance=1e-11)
        assert replace(learner, most_rows=100).perturbation(500, 3).tolerance == least * learner.bound


def test_too_many_columns_are_refused() -> None:
    made = PrivateLogistic(1.0, method="output").perturbation(1, 5000)
    with pytest.raises(InputError, match="columns"):
        made.release(np.zeros((1, 5000)), np.ones(1), ZeroNoise())


def test_planning_keeps_a_larger_plan_and_refuses_a_smaller_one() -> None:
    assert PrivateLogistic(1.0).planned(7, 500, 900) == PrivateLogistic(1.0, retrainings=7, rows=500, most_rows=900)
    assert PrivateLogistic(1.0, retrainings=9).planned(7, 500, 500).fits == 9
    with pytest.raises(SpecError, match="retrainings"):
        PrivateLogistic(1.0, retrainings=3).planned(7, 500, 500)
    assert replace(PrivateLogistic(1.0), retrainings=2).fits == 2


@pytest.mark.parametrize(("method", "definition"), CASES)
def test_more_fits_than_planned_have_no_price(method, definition) -> None:
    learner = PrivateLogistic(1.0, method=method, definition=definition, retrainings=3)
    assert learner.spent(3) <= 1.0
    for fits in (4, 50, -1):
        with pytest.raises(SpecError, match="fewer fits"):
            learner.spent(fits)


def test_nothing_spent_is_negative_however_large_delta_is() -> None:
    learner = PrivateLogistic(1.0, delta=0.9, retrainings=50, strength=1000.0)
    spent = [learner.spent(fits) for fits in range(1, 51)]
    assert 0 < spent[0] <= spent[-1] <= 1.0


@pytest.mark.parametrize("field", ["norm_bound", "strength"])
@pytest.mark.parametrize("value", [1e-300, 1e-13, 1e13, 1e200, 1e300])
def test_numbers_that_floats_cannot_carry_are_refused_by_name(field, value) -> None:
    for method, definition in CASES:
        with pytest.raises(SpecError, match=field):
            PrivateLogistic(1.0, method=method, definition=definition, **{field: value})


@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("norm_bound", [1e-12, 1e12])
@pytest.mark.parametrize("strength", [1e-12, 1e12, None])
@pytest.mark.filterwarnings("error")
def test_every_configuration_that_can_be_made_can_be_fitted(epsilon, norm_bound, strength) -> None:
    rows = np.array([[norm_bound], [-norm_bound], [norm_bound / 2]])
    for method, definition in CASES:
        try:
            learner = PrivateLogistic(
                epsilon, method=method, definition=definition, norm_bound=norm_bound, strength=strength, intercept=False
            )
        except SpecError:
            continue  # from public numbers: too weak a regularisation, or an epsilon beyond the Gaussian grid
        weights = learner.perturbation(3, 1).release(rows, np.array([1.0, 1.0, -1.0]), SeededNoise(3))
        assert np.isfinite(weights).all()


@pytest.mark.parametrize("epsilon", [1.0, 1e3, 1e6])
def test_weights_do_not_saturate_on_the_grid_of_the_last_noise(epsilon) -> None:
    """Separable rows have weights of norm about 8.5; a grid that is too fine would hold them at 2^61 units."""
    rng = generator(4)
    rows = rng.normal(size=(1000, 2))
    rows *= np.minimum(1.0, 2.0 / np.linalg.norm(rows, axis=1, keepdims=True))
    signs = np.where(rows[:, 0] > 0, 1.0, -1.0)
    for method in ("objective", "output"):
        learner = PrivateLogistic(
            epsilon, method=method, definition="pure", norm_bound=2.0, strength=1.0, intercept=False
        )
        found = learner.perturbation(1000, 2).release(rows, signs, ZeroNoise())
        assert found[0] > 8.0


def test_the_noise_of_the_closed_loop_never_follows_the_number_of_people() -> None:
    """A person who leaves makes one row less; a limit below what can come must not let that show in the tolerance."""
    planned = PrivateLogistic(1.0, rows=100, most_rows=150).planned(5, 100, 500)
    assert planned.most_rows == 500
    assert len({planned.perturbation(rows, 2).tolerance for rows in (1, 100, 300, 301, 500)}) == 1
    alone = PrivateLogistic(1.0, rows=100)
    assert alone.perturbation(100, 2) == alone.perturbation(99, 2)
    assert any("more than 100 rows" in note for note in alone.guarantee().notes)
