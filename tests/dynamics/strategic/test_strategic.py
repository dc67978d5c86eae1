"""The strategic model: printed tables, worked examples, and the theory on random scenes."""

from __future__ import annotations

import numpy as np
import pytest

import fairveil
from fairveil.dynamics import Scene, fico_groups
from fairveil.errors import SpecError
from fairveil.lab.theorems.checks import check, sweep


def credit(first, second, cost_a, cost_b):
    groups = fico_groups([first, second])
    return {name: {**group, "cost": cost} for (name, group), cost in zip(groups.items(), (cost_a, cost_b), strict=True)}


@pytest.mark.parametrize(
    "groups, strategic, eqopt, dp",
    [
        (("caucasian", ["beta", 10, 2], ["beta", 10, 6]), True, 0.556, 0.680),
        (("hispanic", ["uniform", 0, 1], ["uniform", 0, 0.5]), True, 0.850, 0.727),
        (("asian", ["beta", 10, 2], ["beta", 10, 2]), True, 0.333, 0.634),
        (("asian", ["beta", 10, 2], ["beta", 10, 2]), False, 0.123, 0.522),
    ],
)
def test_printed_entries_of_table_6_2(groups, strategic, eqopt, dp):
    name, first, second = groups
    people = credit(name, "african-american", first, second)
    found = fairveil.run({"task": "strategic", "groups": people, "strategic": strategic})["metrics"]["unfairness"]
    assert found["eqopt"] == pytest.approx(eqopt, abs=0.0015)
    assert found["dp"] == pytest.approx(dp, abs=0.0015)


def test_several_extreme_points():
    groups = {
        "a": {
            "qualified": 0.6,
            "features": {"0": ["normal", -5, 4.7], "1": ["normal", 5, 4.7]},
            "cost": ["beta", 10, 4],
        }
    }
    scene = Scene(groups)
    turns = scene.turning_points(0)
    assert len(turns) == 3
    assert scene.theta(0) == pytest.approx(turns[0][0], abs=1e-9)
    low, high = scene.around(0, 0.6)
    assert scene.theta(0) < low < scene.peak(0) < high
    assert all(scene.peak(0) < x < high for x, _ in turns[1:])
    for x, _ in turns:
        assert scene.utility(0, x + 1e-4) - scene.utility(0, x - 1e-4) == pytest.approx(0.0, abs=1e-9)


def test_mirror_has_the_same_benefit():
    scene = Scene(credit("asian", "hispanic", ["beta", 10, 2], ["beta", 10, 2]))
    for s in (0, 1):
        x = scene.theta(s)
        assert scene.benefit(s, scene.mirror(s, x)) == pytest.approx(scene.benefit(s, x), abs=1e-12)


def test_manipulators_look_qualified():
    """Utility under manipulation, recomputed from the mixture of manipulated and honest unqualified people."""
    scene = Scene(credit("caucasian", "asian", ["beta", 3, 2], ["uniform", 0, 1]), 1.0, 2.0)
    for s in (0, 1):
        f0, f1 = scene.features(s)
        for x in (0.05, 0.2, 0.5, 0.8):
            fraud = scene.cost(s).cdf(f0.cdf(x) - f1.cdf(x))
            bad = (1 - fraud) * f0.sf(x) + fraud * f1.sf(x)
            expected = scene.alpha(s) * f1.sf(x) - 2.0 * (1 - scene.alpha(s)) * bad
            assert scene.utility(s, x) == pytest.approx(expected, abs=1e-13)


def test_a_scene_needs_costs():
    with pytest.raises(SpecError, match="cost"):
        Scene(fico_groups())


def test_dp_can_disincentivise_both_where_eqopt_cannot():
    """Second half of proposition 8: identical features, opposite majorities, group a near break-even and large."""
    features = {"0": ["normal", -4.86, 4.17], "1": ["normal", 4.86, 4.17]}
    groups = {
        "a": {"share": 0.9915, "qualified": 0.5002, "features": features, "cost": ["beta", 11.6, 1]},
        "b": {"share": 0.0085, "qualified": 0.3325, "features": features, "cost": ["beta", 19.5, 1]},
    }
    before, dp, eqopt = (
        fairveil.run({"task": "strategic", "groups": groups, "fairness": kind})["metrics"]["manipulation"]
        for kind in ("none", "dp", "eqopt")
    )
    assert all(dp[g] < before[g] - 1e-6 for g in "ab")
    assert not all(eqopt[g] < before[g] for g in "ab")


def test_checks_say_nothing_without_premises():
    seen = check("x", {"holds": False}, lambda: 1 / 0)
    assert seen.conclusion is None
    assert not seen.applies
    assert not seen.counterexample
    found = sweep("x", [(None, seen), (1, check("x", {}, lambda: False)), (2, check("x", {}, lambda: True))])
    assert (found.tried, found.applied, found.held) == (3, 2, 1)
    assert found.to_dict()["failed"] == 1


def test_score_tables_have_a_monotone_ratio():
    from fairveil.data import available

    if not available("fico"):
        pytest.skip("the fico data set is not on this machine")
    tables, fitted = fico_groups(source="tables"), fico_groups()
    for name, group in tables.items():
        assert group["qualified"] == pytest.approx(fitted[name]["qualified"], abs=0.005)
        assert group["share"] == pytest.approx(fitted[name]["share"], abs=1e-4)
    groups = {name: {**group, "cost": ["beta", 10, 2]} for name, group in tables.items()}
    found = fairveil.run({"task": "strategic", "groups": groups, "fairness": "eqopt"})["metrics"]
    assert found["assumptions"]["violations"] == []
    assert np.ptp(list(found["unfairness"]["eqopt"].values())) < 1e-9


def test_unknown_credit_groups_are_refused():
    with pytest.raises(SpecError):
        fico_groups(["martian"])
    with pytest.raises(SpecError):
        fico_groups(["asian"], source="guess")
