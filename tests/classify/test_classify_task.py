"""Tasks ``classify`` and ``impossibility`` by spec."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

import fairveil
from fairveil import data
from fairveil.classify.measures import GAPS, RATES, WEIGHTED
from fairveil.errors import FairveilError, InputError, PrivacyError, SpecError

SPEC = {
    "task": "classify",
    "learner": {"name": "private-fair", "epsilon": 1.0, "rounds": 20},
    "data": {"name": "synthetic-adult", "sensitive": ["sex"], "rows": 2000},
    "runs": 2,
}


def _with(**changes):
    spec = copy.deepcopy(SPEC)
    for path, value in changes.items():
        place = spec
        *parents, key = path.split("__")
        for parent in parents:
            place = place[parent]
        place[key] = value
    return spec


LEARNERS = [
    {"name": "logistic"},
    {"name": "private-logistic", "epsilon": 1.0},
    {"name": "private-fair", "epsilon": 1.0, "rounds": 20},
    {"name": "private-fair", "epsilon": 1.0, "rounds": 20, "awareness": "blind"},
    {"name": "private-fair", "epsilon": 1.0, "fairness": "none"},
    {"name": "exponential-fair", "epsilon": 1.0},
    {"name": "exponential-fair", "epsilon": 1.0, "hypotheses": "linear", "count": 20, "neighbours": "replace-row"},
    {"name": "exponential-fair", "epsilon": 1.0, "hypotheses": "threshold-pairs"},
    {"name": "exponential-fair", "epsilon": 1.0, "variant": "printed"},
    {"name": "private-game", "epsilon": 1.0},
    {"name": "private-game", "epsilon": 1.0, "hypotheses": "stumps", "rounds": 10},
    {"name": "fair-nr", "rounds": 10},
    {"name": "fair-nr", "rounds": 3, "oracle": "exact"},
    {"name": "fair-nr", "rounds": 3, "plays": 1, "oracle": "logistic"},
    {"name": "threshold-optimizer"},
    {"name": "threshold-optimizer", "fairness": "equalized-odds"},
    {"name": "fair-reductions", "constraint": "odds", "iterations": 3},
    {"name": "fair-reductions", "constraint": "fp", "iterations": 3},
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda table: "-".join(str(value) for value in table.values()))
def test_every_learner_runs_by_spec(learner) -> None:
    result = fairveil.run(_with(learner=learner, runs=1))
    metrics = result["metrics"]
    assert 0.5 < metrics["accuracy"] <= 1
    assert metrics["accuracy"] == pytest.approx(1 - metrics["error"])
    assert set(metrics["discrimination"]) == set(metrics["pooled"]) == set(GAPS)
    assert set(metrics["weighted"]) == set(WEIGHTED)
    assert metrics["accuracy_std"] is None
    private = "epsilon" in learner
    assert (result["guarantee"] is not None) == private
    assert result["meta"].get("evaluation", False) == private
    if private:
        assert result["guarantee"]["established"] == (learner.get("variant") != "printed")
        assert any("held-out" in note for note in result["guarantee"]["notes"])
    reports = learner["name"] == "fair-nr" or (learner["name"] == "private-fair" and learner.get("fairness") != "none")
    assert (metrics["estimated"] is not None) == reports


def test_the_printed_game_runs_and_warns() -> None:
    with pytest.warns(UserWarning, match="theorem"):
        result = fairveil.run(_with(learner={"name": "private-fair-nr", "epsilon": 1.0, "rounds": 3}, runs=1))
    assert not result["guarantee"]["established"]


def test_metrics_are_means_over_runs_with_their_spread_and_repeat() -> None:
    first, again = fairveil.run(SPEC), fairveil.run(SPEC)
    assert first["metrics"] == again["metrics"]
    metrics = first["metrics"]
    assert metrics["accuracy_std"] > 0
    assert set(metrics["discrimination_std"]) == set(GAPS)
    assert set(metrics["by_group"]) == {"Female", "Male"}
    for facts in metrics["by_group"].values():
        for rate in RATES:
            assert facts[f"{rate}_low"] <= facts[rate] <= facts[f"{rate}_high"]
    assert metrics["unestimable"] == {}
    assert 0 < metrics["randomised"] < 1
    assert metrics["pooled"]["demographic-parity"] <= metrics["discrimination"]["demographic-parity"] + 1e-12
    assert set(first["spec"]["data"]) == {"name", "sensitive", "features", "bins", "rows"}
    assert fairveil.run(_with(seed=1))["metrics"] != metrics


def test_groups_that_nobody_of_a_kind_is_in_are_named() -> None:
    spec = _with(data__rows=150, data__sensitive=["sex", "race"], learner={"name": "logistic"}, runs=1)
    metrics = fairveil.run(spec)["metrics"]
    assert set(metrics["by_group"]) == {
        f"sex={s}, race={r}" for s in ("Female", "Male") for r in ("White", "Black", "Other")
    }
    for rate, groups in metrics["unestimable"].items():
        for group in groups:
            assert metrics["by_group"][group][rate] is None
    assert metrics["unestimable"]
    assert all(value is None or not math.isnan(value) for value in metrics["discrimination"].values())


def test_classes_of_subgroups_nest() -> None:
    found = {
        kind: fairveil.run(
            _with(subgroups=kind, data__sensitive=["sex", "race"], learner={"name": "logistic"}, runs=1)
        )["metrics"]["subgroup_violation"]
        for kind in ("groups", "intersections", "thresholds")
    }
    assert found["groups"] <= found["intersections"] <= found["thresholds"]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"learner__epsilno": 1.0}, "learner.epsilno"),
        ({"learner__name": "private-fare"}, "learner.name"),
        ({"learner__rounds": 5}, "learner.rounds"),
        ({"data__sensitive": []}, "data.sensitive"),
        ({"data__sensitive": ["sex"] * 2}, "data.sensitive"),
        ({"data__sensitive": ["age"]}, "data.sensitive"),
        ({"data__sensitive": ["tax"]}, "data.sensitive"),
        ({"data__features": ["sex", "shoe"]}, "data.features"),
        ({"data__bins": -1}, "data.bins"),
        ({"data__rows": 1}, "data.rows"),
        ({"data__name": "adultt"}, "data"),
        ({"data__colour": 1}, "data"),
        ({"test_fraction": 1.0}, "test_fraction"),
        ({"subgroups": "all"}, "subgroups"),
    ],
)
def test_wrong_specs_are_refused_with_their_path(change, path) -> None:
    with pytest.raises(FairveilError) as caught:
        fairveil.run(_with(**change))
    assert caught.value.path.startswith(path)


@pytest.mark.parametrize("features", ["all", ["age", "sex"]])
def test_a_blind_rule_never_gets_the_attribute(features) -> None:
    blind = {"name": "private-fair", "epsilon": 1.0, "awareness": "blind", "rounds": 20}
    with pytest.raises(SpecError, match="blind") as caught:
        fairveil.run(_with(learner=blind, data__features=features))
    assert caught.value.path == "data.features"
    assert fairveil.run(_with(learner=blind, runs=1))["spec"]["data"]["features"] == "without-sensitive"


def test_secure_noise_is_for_one_sound_fit_on_recorded_people() -> None:
    assert not fairveil.run(_with(noise="secure", runs=1))["meta"]["simulated"]
    with pytest.raises(SpecError, match="again and again"):
        fairveil.run(_with(noise="secure", data={"name": "adult", "sensitive": ["sex"]}))
    for learner in (
        {"name": "private-fair-nr", "epsilon": 1.0},
        {"name": "exponential-fair", "epsilon": 1.0, "variant": "printed"},
    ):
        with pytest.raises(PrivacyError, match="not established"):
            fairveil.run(_with(noise="secure", runs=1, learner=learner))


def test_learners_without_privacy_say_when_people_are_of_one_kind() -> None:
    with pytest.raises(InputError, match="only"):
        fairveil.run(_with(learner={"name": "logistic"}, data__rows=2, runs=1))
    fairveil.run(_with(data__rows=2, runs=1))  # a private learner never says so


@pytest.mark.skipif(not data.available("adult"), reason="adult is not on this machine")
def test_recorded_people_are_drawn_without_replacement() -> None:
    spec = _with(data={"name": "adult", "sensitive": ["race"], "rows": 3000}, learner={"name": "logistic"}, runs=1)
    metrics = fairveil.run(spec)["metrics"]
    assert sum(group["count"] for group in metrics["by_group"].values()) == 750
    with pytest.raises(SpecError, match="fewer rows"):
        fairveil.run(_with(data={"name": "adult", "sensitive": ["race"], "rows": 10**6}))


@pytest.mark.skipif(not data.available("compas"), reason="compas is not on this machine")
def test_compas_keeps_its_own_rows() -> None:
    spec = _with(data={"name": "compas", "sensitive": ["race"], "rows": "all"}, runs=1)
    metrics = fairveil.run(spec)["metrics"]
    assert sum(group["count"] for group in metrics["by_group"].values()) == round(7214 / 4)


@pytest.mark.parametrize("learner", ["private-fair", "fair-nr", "threshold-optimizer"])
def test_some_fair_learners_run_in_the_long_term_loop(learner) -> None:
    law = {"0": ["normal", -1, 1], "1": ["normal", 1, 1]}
    groups = {
        "a": {"arrivals": 60, "qualified": 0.5, "features": law},
        "b": {"arrivals": 40, "qualified": 0.3, "features": law},
    }
    table = {
        "private-fair": {"epsilon": 5.0, "rounds": 20},
        "fair-nr": {"rounds": 5},
        "threshold-optimizer": {},
    }[learner]
    spec = {"task": "longterm", "learner": {"name": learner, **table}, "groups": groups, "steps": 3}
    result = fairveil.run(spec)
    assert len(result["metrics"]["share"]["a"]) == 3
    if learner == "private-fair":
        spent = result["metrics"]["epsilon_spent"]
        assert spent == sorted(spent)
        assert 4.9 < spent[-1] <= 5.0
        assert result["spec"]["learner"]["groups"] == ["a", "b"]
    for other in ({"name": "exponential-fair", "epsilon": 1.0}, {"name": "private-game", "epsilon": 1.0}):
        with pytest.raises(SpecError, match="long-term"):
            fairveil.run({**spec, "learner": other})
    blind = {"name": "private-fair", "epsilon": 1.0, "awareness": "blind"}
    with pytest.raises(SpecError, match="blind"):
        fairveil.run({**spec, "learner": blind, "group_feature": True})


def test_the_impossibility_is_counted_exactly() -> None:
    metrics = fairveil.run({"task": "impossibility"})["metrics"]
    assert metrics["printed"] == {"fair": 56, "still_fair": 56}
    assert metrics["corrected"] == {"fair": 167, "fair_on_some": 14, "fair_on_all": 0, "smallest_gap": 0.004}
    other = fairveil.run({"task": "impossibility", "zeta": 0.001, "levels": 5})["metrics"]
    assert other["corrected"]["fair_on_all"] == 0
    with pytest.raises(SpecError, match="zeta"):
        fairveil.run({"task": "impossibility", "zeta": 0.5})


def test_rates_are_expected_rates() -> None:
    """Decision probabilities, not draws: another stream of draws gives the same numbers."""
    from fairveil.classify.task import one_run

    full = fairveil.run(_with(runs=1))["spec"]
    counted = one_run(full, 0)["counted"]
    assert (counted == one_run(full, 0)["counted"]).all()
    assert np.abs(counted - np.rint(counted)).max() > 1e-6


@pytest.mark.parametrize("awareness", ["aware", "blind"])
@pytest.mark.parametrize("fairness", ["equal-opportunity", "false-positive"])
def test_many_small_groups_are_treated_alike_by_weight(fairness, awareness) -> None:
    people = {"name": "synthetic-adult", "sensitive": ["sex", "race"], "rows": 12_000}
    learner = {"name": "private-fair", "epsilon": 3.0, "fairness": fairness, "awareness": awareness}
    found = fairveil.run(_with(learner=learner, data=people, runs=2))["metrics"]
    plain = fairveil.run(_with(learner={"name": "logistic"}, data=people, runs=2))["metrics"]
    assert found["weighted"][fairness] < 0.6 * plain["weighted"][fairness]
    assert found["accuracy"] > plain["accuracy"] - 0.04


def test_lumpy_scores_need_the_mixture() -> None:
    """Generated defendants: few different scores, so one threshold cannot equalise and the mixture can."""
    people = {"name": "synthetic-compas", "sensitive": ["race"], "rows": 10_000}
    runs = {
        name: fairveil.run(_with(learner=learner, data=people, runs=3))["metrics"]
        for name, learner in {
            "mixture": {"name": "private-fair", "epsilon": 3.0},
            "plain": {"name": "logistic"},
        }.items()
    }
    assert runs["mixture"]["accuracy"] > 0.6
    assert (
        runs["mixture"]["discrimination"]["equal-opportunity"]
        < 0.4 * runs["plain"]["discrimination"]["equal-opportunity"]
    )
    assert runs["mixture"]["randomised"] > 0.01
