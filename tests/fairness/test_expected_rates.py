"""Metrics on decision probabilities, weighted gaps, subgroups; agreement with fairlearn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from fairlearn.metrics import MetricFrame, demographic_parity_difference, equalized_odds_difference
from sklearn.metrics import accuracy_score

from fairveil.errors import InputError, SpecError
from fairveil.fairness.groups import Counter, Groups, cells, wilson
from fairveil.fairness.metrics import (
    GAPS,
    demographic_parity_gap,
    equalized_odds_gap,
    false_positive_gap,
    gaps_of,
    group_rates,
    unestimable,
    weighted_of,
)
from fairveil.fairness.subgroups import Subgroups, subgroup_violation, thresholds
from fairveil.randomness import generator


def _people(rows: int = 500):
    rng = generator(1)
    group = rng.choice(["a", "b", "c"], rows, p=[0.6, 0.3, 0.1])
    truth = (rng.random(rows) < 0.4).astype(int)
    chance = np.clip(rng.random(rows) * 0.8 + 0.2 * truth, 0, 1)
    return truth, chance, group


def test_expected_rates_are_the_mean_over_draws_and_agree_with_fairlearn_on_each() -> None:
    truth, chance, group = _people(60)
    rng = generator(2)
    drawn = [(rng.random(60) < chance).astype(int) for _ in range(4000)]
    mean = np.mean([group_rates(truth, d, group).selected for d in drawn], axis=0)
    assert mean == pytest.approx(group_rates(truth, chance, group).selected, abs=0.02)
    for d in drawn[:5]:
        assert demographic_parity_gap(truth, d, group) == pytest.approx(
            demographic_parity_difference(truth, d, sensitive_features=group), abs=1e-12
        )
        assert equalized_odds_gap(truth, d, group) == pytest.approx(
            equalized_odds_difference(truth, d, sensitive_features=group), abs=1e-12
        )
        frame = MetricFrame(metrics=accuracy_score, y_true=truth, y_pred=d, sensitive_features=group)
        assert GAPS["error-gap"](truth, d, group) == pytest.approx(frame.difference(), abs=1e-12)


def test_a_weight_is_a_share_of_everybody() -> None:
    truth, chance, group = _people()
    groups = Groups.of(group)
    counted = cells(groups.index, truth, chance, 3)
    found = weighted_of(counted)
    for name, kept in (
        ("demographic-parity", truth >= 0),
        ("equal-opportunity", truth == 1),
        ("false-positive", truth == 0),
    ):
        overall = chance[kept].mean()
        expected = max((kept & (group == g)).mean() * abs(chance[kept & (group == g)].mean() - overall) for g in "abc")
        assert found[name] == pytest.approx(expected, abs=1e-12)
    assert subgroup_violation(truth, chance, {"g": group}, "groups") == pytest.approx(found["false-positive"])


def test_groups_without_people_of_a_kind_do_not_bind_and_are_named() -> None:
    rates = group_rates([0, 0, 1, 0], [0.5, 0.5, 1, 0], ["a", "a", "b", "b"])
    assert gaps_of(rates)["equal-opportunity"] == 0.0
    assert unestimable(rates) == {"true_positive": {"a": "nobody in this group has label 1"}}
    nobody = group_rates([0, 0], [0, 1], ["a", "b"])
    assert gaps_of(nobody)["equal-opportunity"] is None
    assert false_positive_gap([0, 0], [0, 1], ["a", "b"]) == 1.0
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        group_rates([0, 1], [0.5, float("nan")], ["a", "b"])


def test_counting_votes_is_exact() -> None:
    counter = Counter(np.array([0, 1, 1]), np.array([1, 1, 0]), 2)
    assert counter.count(np.array([3, 0, 7]), 7).tolist() == [[[0, 0], [4, 3]], [[0, 7], [7, 0]]]
    low, high = wilson(np.array([0.0, 0.3]), np.array([0, 1000]))
    assert np.isnan(low[0])
    assert high[1] - low[1] == pytest.approx(0.0567, abs=1e-3)


def test_seventeen_subgroups_of_sex_and_race() -> None:
    known = Subgroups.of("intersections", {"sex": ("f", "m"), "race": tuple("abcde")})
    assert len(known.names) == 17
    truth, chance, _ = _people()
    rng = generator(4)
    attributes = {"sex": rng.choice(["f", "m"], 500), "race": rng.choice(list("abcde"), 500)}
    negative = truth == 0
    overall, worst = chance[negative].mean(), 0.0
    masks = [attributes["sex"] == s for s in "fm"] + [attributes["race"] == r for r in "abcde"]
    masks += [(attributes["sex"] == s) & (attributes["race"] == r) for s in "fm" for r in "abcde"]
    for mask in masks:
        inside = negative & mask
        worst = max(worst, inside.mean() * abs(chance[inside].mean() - overall))
    assert subgroup_violation(truth, chance, attributes) == pytest.approx(worst, abs=1e-12)


@pytest.mark.parametrize("sizes", [(4,), (2, 3), (3, 3), (2, 2, 2)])
def test_linear_thresholds_are_those_that_some_weights_make(sizes) -> None:
    """Random weights only ever make listed sets, and make most of them."""
    listed = {tuple(row) for row in thresholds(sizes).tolist()}
    rng = generator(6)
    places = list(itertools.product(*(range(size) for size in sizes)))
    seen = set()
    for _ in range(8000):
        weights = [rng.normal(size=size) * rng.choice([0.2, 1, 5]) for size in sizes]
        value = np.array([sum(w[v] for w, v in zip(weights, place, strict=True)) for place in places])
        row = tuple((value > rng.normal() * 2).tolist())
        if any(row) and not all(row):
            assert row in listed
            seen.add(row)
    assert len(seen) > 0.9 * len(listed)


def test_thresholds_need_few_cells() -> None:
    with pytest.raises(SpecError, match="16"):
        Subgroups.of("thresholds", {"a": tuple("abcde"), "b": tuple("abcd")})
    with pytest.raises(SpecError, match="groups"):
        Subgroups.of("cliques", {"a": ("x",)})
