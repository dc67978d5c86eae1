"""The calibration of private-fair: the published table, a second implementation, compositions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from scipy.special import log_ndtr

from fairveil.classify import PrivateFair
from fairveil.classify.fair.accounting import Plan, zero_out_budget
from fairveil.errors import SpecError
from fairveil.privacy.events import ApproximateEvent

TABLE = [
    (0.5, 0, 58.1, 0.0892, 0.0655),
    (0.5, 1, 126.0, 0.0608, 0.0631),
    (1.0, 0, 28.2, 0.1698, 0.1246),
    (1.0, 1, 62.0, 0.1160, 0.1204),
    (3.0, 0, 8.2, 0.4644, 0.3407),
    (3.0, 1, 19.4, 0.3188, 0.3309),
]
"""epsilon, block models, strength, r of the score, mu of all counts: 14 columns, delta 1e-5, without tail and grid."""


@pytest.mark.parametrize(("epsilon", "models", "strength", "root", "mu"), TABLE)
def test_the_table_of_the_derivation_is_met_within_two_per_cent(epsilon, models, strength, root, mu) -> None:
    plan = Plan(epsilon, 1e-5, bound=math.sqrt(15), models=models)
    assert plan.strength == pytest.approx(strength, rel=0.02)
    assert plan.score_root == pytest.approx(root, rel=0.02)
    assert plan.mu == pytest.approx(mu, rel=0.02)


@pytest.mark.parametrize("models", [0, 1, 3])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize(("neighbours", "retrainings"), [("zero-out-row", 1), ("replace-row", 1), ("zero-out-row", 7)])
def test_dp_accounting_confirms_the_promise(epsilon, models, neighbours, retrainings) -> None:
    """The same curves, written down anew on a grid of orders and converted by somebody else's code."""
    plan = Plan(epsilon, 1e-5, math.sqrt(15), neighbours, retrainings, models)
    orders = 1 + np.geomspace(0.05, 3e3, 4000)

    def fit(root: float, norm: float) -> np.ndarray:
        determinant = math.log1p(norm**2 / (4 * plan.strength))
        return determinant + orders * root**2 / 2 + (math.log(2) + log_ndtr((orders - 1) * root)) / (orders - 1)

    curve = fit(plan.score_root, plan.bound) + orders * plan.mu**2 / 2
    for _ in range(models):
        curve = curve + fit(plan.block_root, plan.widest)
    inner, delta = zero_out_budget(epsilon, 1e-5, neighbours)
    found = float(rdp_privacy_accountant.compute_epsilon(orders, retrainings * curve, delta)[0])
    total = found + 0.01 * inner
    assert total <= inner * (1 + 1e-6)
    assert total >= 0.995 * inner  # nothing is wasted


def test_all_counts_cost_what_mu_says() -> None:
    plan = PrivateFair(1.0, norm_bound=math.sqrt(14)).plan(2)
    rho = (
        1 / (2 * plan.zone_sigma**2)
        + plan.rounds / (2 * plan.audit_sigma**2)
        + 100**2 / (2 * plan.report_sigma(100) ** 2)
    )
    assert rho == pytest.approx(plan.mu**2 / 2, rel=1e-9)


def test_replacing_is_two_steps_and_their_group_privacy_is_the_promise() -> None:
    epsilon, delta = zero_out_budget(1.0, 1e-5, "replace-row")
    assert 2 * epsilon == 1.0
    assert delta * (1 + math.exp(epsilon)) == pytest.approx(1e-5)


def test_what_is_spent_grows_to_the_budget_and_the_event_is_known_before_data() -> None:
    learner = PrivateFair(1.5, retrainings=4, groups=("a", "b"))
    spent = [learner.spent(fits) for fits in range(5)]
    assert spent == sorted(spent)
    assert spent[0] == 0.0
    assert 1.49 < spent[-1] <= 1.5
    assert learner.event() == ApproximateEvent(1.5, 1e-5)
    with pytest.raises(SpecError, match="fewer fits"):
        learner.spent(5)


def test_without_fairness_the_whole_budget_makes_the_score() -> None:
    alone = PrivateFair(1.0, fairness="none").plan(0)
    assert alone.score_root > 1.2 * PrivateFair(1.0).plan(2).score_root
    assert alone.mu == 0.0


def test_a_budget_that_leaves_nothing_is_refused_from_public_numbers() -> None:
    with pytest.raises(SpecError, match="strength"):
        PrivateFair(0.1, strength=0.01)
    with pytest.raises(SpecError, match="epsilon"):
        PrivateFair(200.0)
