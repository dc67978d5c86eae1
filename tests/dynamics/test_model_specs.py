"""Specs of the three models: contract keys, grids, refusals, assumption checks."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest

import fairveil
from fairveil.dynamics import distribution, fico_groups, population
from fairveil.dynamics.assumptions import (
    assumption_7,
    feature_violations,
    likelihood_ratio_fall,
    rising_gain_limit,
)
from fairveil.errors import AssumptionError, SpecError
from fairveil.running.runner import complete

FEATURES = {"0": ["normal", -5, 5], "1": ["normal", 5, 5]}
BOUNDED = {"0": ["truncnorm", 4, 5, -8, 19], "1": ["truncnorm", 20, 6, 5, 35]}
STRATEGIC = {
    "task": "strategic",
    "groups": {
        "a": {"share": 0.6, "qualified": 0.7, "features": FEATURES, "cost": ["beta", 10, 2]},
        "b": {"share": 0.4, "qualified": 0.4, "features": FEATURES, "cost": ["uniform", 0, 1]},
    },
}
QUALIFICATION = {
    "task": "qualification",
    "groups": {
        "a": {"share": 0.5, "qualified": 0.5, "features": FEATURES, "transitions": [[0.4, 0.5], [0.5, 0.9]]},
        "b": {"share": 0.5, "qualified": 0.5, "features": FEATURES, "transitions": [[0.1, 0.5], [0.5, 0.7]]},
    },
}
PARTICIPATION = {
    "task": "participation",
    "groups": {
        "a": {"arrivals": 1e4, "qualified": 0.6, "features": BOUNDED},
        "b": {"arrivals": 1e4, "qualified": 0.4, "features": BOUNDED},
    },
    "steps": 20,
}
ALL = [STRATEGIC, QUALIFICATION, PARTICIPATION]


def changed(spec, path, value):
    out = copy.deepcopy(spec)
    *parents, leaf = path.split(".")
    place = out
    for part in parents:
        place = place[part]
    place[leaf] = value
    return out


@pytest.mark.parametrize("spec", ALL, ids=lambda s: s["task"])
def test_completing_twice_changes_nothing(spec):
    full = complete(spec)
    assert complete(full) == full


def test_contract_metrics():
    found = fairveil.run(STRATEGIC)["metrics"]
    assert set(found["thresholds"]) == set(found["manipulation"]) == {"a", "b"}
    assert set(found["utility"]) == {"a", "b", "total"}
    assert set(found["unfairness"]) == {"eqopt", "dp"}
    total = 0.6 * found["utility"]["a"] + 0.4 * found["utility"]["b"]
    assert found["utility"]["total"] == pytest.approx(total)
    found = fairveil.run(QUALIFICATION)["metrics"]
    assert found["gap"] == pytest.approx(found["equilibrium"]["a"] - found["equilibrium"]["b"])
    assert found["oscillates"] is False
    assert found["unique"] is True
    found = fairveil.run(PARTICIPATION)["metrics"]
    for key in ("share", "limit", "thresholds", "loss"):
        assert set(found[key]) == {"a", "b"}


@pytest.mark.parametrize("fairness", ["none", "eqopt", "dp"])
@pytest.mark.parametrize("strategic", [True, False])
def test_a_grid_is_its_instances(fairness, strategic):
    base = {**STRATEGIC, "fairness": fairness, "strategic": strategic, "points": 1024}
    grid = {"groups.a.cost.1,groups.a.cost.2": [1.0, 2.5], "utility.loss": [0.5, 1.0, 2.0]}
    many = fairveil.run({**base, "utility": {"gain": 1.0, "loss": 1.0}, "grid": grid})["metrics"]
    for (i, cost), (j, loss) in itertools.product(enumerate([1.0, 2.5]), enumerate([0.5, 1.0, 2.0])):
        one = copy.deepcopy(base)
        one["groups"]["a"]["cost"] = ["beta", cost, cost]
        one["utility"] = {"gain": 1.0, "loss": loss}
        single = fairveil.run(one)["metrics"]
        for name in "ab":
            assert many["thresholds"][name][i][j] == single["thresholds"][name]
            assert many["manipulation"][name][i][j] == single["manipulation"][name]


def test_a_named_axis_changes_several_things_together():
    columns = [{"groups.a.qualified": 0.2, "groups.b.qualified": 0.3}, {"groups.a.qualified": 0.8}]
    many = fairveil.run({**QUALIFICATION, "grid": {"case": columns}})["metrics"]
    assert len(many["equilibrium"]["a"]) == 2
    one = fairveil.run(changed(QUALIFICATION, "groups.a.qualified", 0.8))["metrics"]
    assert many["equilibrium"]["a"][1] == pytest.approx(one["equilibrium"]["a"], abs=1e-12)


def test_results_do_not_depend_on_threads(monkeypatch):
    grid = {"groups.a.qualified": np.linspace(0.1, 0.9, 40).tolist()}
    results = []
    for count in ("1", "2"):
        monkeypatch.setenv("FAIRVEIL_THREADS", count)
        results.append(fairveil.run({**STRATEGIC, "fairness": "dp", "points": 512, "grid": grid})["metrics"])
    assert results[0] == results[1]


def test_four_groups_at_once():
    groups = {name: {**group, "cost": ["beta", 10, 2]} for name, group in fico_groups().items()}
    found = fairveil.run({"task": "strategic", "groups": groups, "fairness": "dp"})["metrics"]
    rates = list(found["acceptance"].values())
    assert max(rates) - min(rates) < 1e-12
    assert len(found["unfairness"]["dp"]) == 6
    moves = {name: {**group, "transitions": [[0.2, 0.5], [0.5, 0.8]]} for name, group in fico_groups().items()}
    found = fairveil.run({"task": "qualification", "groups": moves, "fairness": "eqopt"})["metrics"]
    assert len(found["equilibrium"]) == 4
    people = {name: {"arrivals": 1e3 * (k + 1), "qualified": 0.5, "features": BOUNDED} for k, name in enumerate("abc")}
    found = fairveil.run({"task": "participation", "groups": people, "fairness": "eqloss"})["metrics"]
    assert [found["limit"][name] for name in "abc"] == pytest.approx([1 / 6, 2 / 6, 3 / 6], abs=1e-9)


@pytest.mark.parametrize(
    "spec, path",
    [
        (changed(STRATEGIC, "groups.a.qualified", 1.0), "groups.a.qualified"),
        (changed(STRATEGIC, "groups.a.qualifed", 0.5), "groups.a.qualifed"),
        (changed(STRATEGIC, "groups.a.cost", ["normal", 0, 1]), "groups.a.cost"),
        (changed(STRATEGIC, "groups.a.features", {"1": ["normal", 0, 1]}), "groups.a.features"),
        (changed(STRATEGIC, "fairness", "simple"), "fairness"),
        (changed(STRATEGIC, "grid", {"groups.c.qualified": [0.5]}), "grid.groups.c.qualified"),
        (changed(STRATEGIC, "grid", {"groups.a.qualified": []}), "grid.groups.a.qualified"),
        (changed(STRATEGIC, "grid", {"groups.a.qualified": [0.5, 1.5]}), "groups.a.qualified"),
        (changed(STRATEGIC, "groups.a.share", None), "groups"),
        (changed(QUALIFICATION, "groups.a.transitions", [[0.1, 0.2]]), "groups.a.transitions"),
        (changed(QUALIFICATION, "thresholds", {"a": 0.0}), "thresholds"),
        (changed(PARTICIPATION, "retention", "mood"), "retention"),
        (changed(PARTICIPATION, "retention", {"driver": "accuracy", "response": ["cubic", 1]}), "retention.response"),
        (changed(PARTICIPATION, "groups.a.arrivals", -1.0), "groups.a.arrivals"),
        (changed(PARTICIPATION, "growth", "explode"), "growth"),
    ],
)
def test_wrong_specs_name_the_place(spec, path):
    with pytest.raises(SpecError) as seen:
        fairveil.run(spec)
    assert seen.value.path == path


@pytest.mark.parametrize("spec", ALL, ids=lambda s: s["task"])
@pytest.mark.parametrize(
    "features, assumption, where",
    [
        ({"0": ["truncnorm", 5, 2, 0, 10], "1": ["truncnorm", 0, 2, -1, 9]}, "monotone likelihood ratio", "f1/f0"),
        ({"0": ["uniform", 0, 1], "1": ["uniform", 2, 3]}, "overlap", "[0, 1]"),
    ],
)
def test_violated_assumptions_are_refused_and_can_be_overruled(spec, features, assumption, where):
    bad = changed(spec, "groups.b.features", features)
    with pytest.raises(AssumptionError, match=assumption) as seen:
        fairveil.run(bad)
    assert where in str(seen.value)
    assert "group b" in str(seen.value)
    marked = fairveil.run({**bad, "check": False})["metrics"]["assumptions"]
    assert marked["checked"] is False
    assert any("group b" in text for text in marked["violations"])


def test_unequal_normal_deviations_are_refused():
    bad = changed(STRATEGIC, "groups.a.features", {"0": ["normal", -5, 4], "1": ["normal", 5, 5]})
    with pytest.raises(AssumptionError, match="monotone likelihood ratio"):
        fairveil.run(bad)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_transitions_at_the_edge_are_refused(value):
    bad = changed(QUALIFICATION, "groups.b.transitions", [[0.1, value], [0.5, 0.7]])
    with pytest.raises(AssumptionError, match="transitions lie strictly between 0 and 1") as seen:
        fairveil.run(bad)
    assert f"T01 = {value:g}" in str(seen.value)
    marked = fairveil.run({**bad, "check": False})["metrics"]["assumptions"]
    assert marked == {"checked": False, "violations": [f"group b: T01 = {value:g}"]}


def test_assumption_12_is_reported_not_enforced():
    strong = changed(STRATEGIC, "groups.a.cost", ["beta", 1, 15])
    found = fairveil.run(strong)["metrics"]["assumptions"]
    assert found["rising_manipulation_gain"] == {"a": False, "b": True}
    assert found["violations"] == []


def test_rising_gain_limits():
    for spec in (["beta", 8, 3], ["beta", 10, 2], ["beta", 2.5, 4], ["uniform", 0, 0.7]):
        cost = distribution(spec)
        limit = rising_gain_limit(cost)
        z = np.linspace(1e-6, 1 - 1e-6, 200001)
        gain = cost.cdf(z) + z * cost.pdf(z)
        falls = z[:-1][np.diff(gain) < -1e-12]
        assert limit == pytest.approx(falls[0], abs=1e-4)
    assert rising_gain_limit(distribution(["beta", 3, 1])) == 1.0


def test_likelihood_ratio_of_histograms():
    edges = [0.0, 1.0, 2.0, 3.0]
    flat = distribution(["histogram", edges, [1, 1, 1]])
    assert likelihood_ratio_fall(flat, distribution(["histogram", edges, [1, 2, 3]])) is None
    fall = likelihood_ratio_fall(flat, distribution(["histogram", edges, [1, 3, 2]]))
    assert fall is not None
    assert 2.0 < fall < 3.0
    assert likelihood_ratio_fall(flat, flat) is not None


def test_assumption_7_looks_at_the_overlap():
    people = population(
        {
            "a": {"qualified": 0.6, "features": BOUNDED},
            "b": {"qualified": 0.4, "features": {"0": ["truncnorm", 10, 5, -8, 19], "1": ["truncnorm", 12, 5, 5, 35]}},
        }
    )
    assert assumption_7(people) == {"a": True, "b": False}
    assert feature_violations(people) == []


@pytest.mark.parametrize("task", ["participation", "qualification"])
def test_unchecked_models_still_decide_as_well_as_they_can(task):
    """Without a monotone likelihood ratio a bracketed root would reject everybody here."""
    features = {"0": ["normal", -5, 5], "1": ["normal", 5, 3]}
    more = {"arrivals": 10.0} if task == "participation" else {"transitions": [[0.3, 0.3], [0.6, 0.6]]}
    spec = {"task": task, "groups": {"a": {"qualified": 0.5, "features": features, **more}}, "check": False, "seed": 1}
    metrics = fairveil.run(spec)["metrics"]
    assert -4.0 < metrics["thresholds"]["a"] < 4.0
    assert metrics["assumptions"] | {"monotone_features": None} == {
        "checked": False,
        "violations": ["group a: f1/f0 does not rise at x = 10.625"],
        "monotone_features": None,
    }


def test_truncated_normals_are_decided_exactly():
    f0 = distribution(["truncnorm", 0, 1, -2, 4])
    assert likelihood_ratio_fall(f0, distribution(["truncnorm", 1, 1, -1, 5])) is None
    assert likelihood_ratio_fall(f0, distribution(["truncnorm", -1, 1, -1, 5])) == -1.0
    # The log ratio turns at x = 4/3, inside the overlap; cut off there, it only rises.
    assert likelihood_ratio_fall(f0, distribution(["truncnorm", 1, 0.5, -1, 5])) == pytest.approx(4 / 3)
    short = distribution(["truncnorm", 0, 1, -2, 1.3])
    assert likelihood_ratio_fall(short, distribution(["truncnorm", 1, 0.5, -1, 5])) is None
    # Nested the wrong way round: below f0's support the ratio is infinite.
    assert likelihood_ratio_fall(f0, distribution(["truncnorm", 1, 1, -3, 5])) == -3.0
