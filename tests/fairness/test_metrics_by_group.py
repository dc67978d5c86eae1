from __future__ import annotations

import fairlearn.metrics as reference
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairveil.errors import InputError
from fairveil.fairness.groups import Groups, intersections
from fairveil.fairness.metrics import (
    GAPS,
    demographic_parity_gap,
    equal_opportunity_gap,
    equalized_odds_gap,
    error_gap,
    group_rates,
)
from fairveil.randomness import generator


@pytest.mark.parametrize("seed", range(5))
def test_gaps_agree_with_fairlearn(seed) -> None:
    rng = generator(seed)
    y, d = rng.integers(0, 2, 300), rng.integers(0, 2, 300)
    group = rng.choice(["a", "b", "c"], 300)
    assert demographic_parity_gap(y, d, group) == pytest.approx(
        reference.demographic_parity_difference(y, d, sensitive_features=group)
    )
    assert equal_opportunity_gap(y, d, group) == pytest.approx(
        reference.equal_opportunity_difference(y, d, sensitive_features=group)
    )
    assert equalized_odds_gap(y, d, group) == pytest.approx(
        reference.equalized_odds_difference(y, d, sensitive_features=group)
    )
    frame = reference.MetricFrame(
        metrics={
            "error": lambda truth, decision: float(np.mean(truth != decision)),
            "selected": reference.selection_rate,
            "true_positive": reference.true_positive_rate,
            "false_positive": reference.false_positive_rate,
            "count": reference.count,
        },
        y_true=y,
        y_pred=d,
        sensitive_features=group,
    ).by_group
    mine = group_rates(y, d, group).to_dict()
    for name in frame.index:
        assert mine[name] == pytest.approx(frame.loc[name].to_dict())
    assert error_gap(y, d, group) == pytest.approx(frame["error"].max() - frame["error"].min())


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from("abc")), min_size=1, max_size=40))
def test_gaps_lie_in_the_unit_interval_and_names_do_not_matter(rows) -> None:
    y, d, group = (np.array(part) for part in zip(*rows, strict=True))
    renamed = np.char.add("z", group)
    for gap in GAPS.values():
        assert 0 <= gap(y, d, group) <= 1
        assert gap(y, d, group) == gap(y, d, renamed)


def test_empty_cells_are_nan_and_take_no_part() -> None:
    rates = group_rates([0, 0, 1], [0, 1, 1], Groups(("a", "b", "empty"), np.array([0, 0, 1])))
    assert np.isnan(rates.true_positive[0])
    assert np.isnan(rates.error[2])
    assert equal_opportunity_gap([0, 0, 1], [0, 1, 1], ["a", "a", "b"]) == 0.0


def test_intersections_of_attributes() -> None:
    table = {"sex": np.array(["f", "f", "m", "m"]), "race": np.array([1, 2, 1, 1])}
    groups = Groups.of(table)
    assert groups.names == ("sex=f, race=1", "sex=f, race=2", "sex=m, race=1")
    assert groups.counts().tolist() == [1, 1, 2]
    masks = intersections(table, order=2)
    assert masks["race=1"].tolist() == [True, False, True, True]
    assert (masks["sex=f, race=1"] == masks["sex=f"] & masks["race=1"]).all()
    assert len(intersections(table, order=1)) == 4
    import pandas

    assert Groups.of(pandas.DataFrame(table)).names == groups.names


def test_fixed_names_are_public_and_strangers_are_refused() -> None:
    assert Groups.of(["b", "b"], names=("a", "b")).counts().tolist() == [0, 2]
    with pytest.raises(InputError, match="no known group") as caught:
        Groups.of(["secret"], names=("a", "b"))
    assert "secret" not in str(caught.value)
    assert "its value is not repeated here: it is private" in str(caught.value)
    assert "groups=" in caught.value.fix


@pytest.mark.parametrize(
    ("truth", "decision", "group"),
    [
        ([0, 2], [0, 1], ["a", "b"]),
        ([0, 1], [1.5, 1], ["a", "b"]),
        ([0, 1], [0], ["a", "b"]),
        ([0], [0], ["a", "b"]),
        ([[0]], [0], ["a"]),
    ],
)
def test_wrong_input_is_refused(truth, decision, group) -> None:
    with pytest.raises(InputError):
        group_rates(truth, decision, group)
    with pytest.raises(InputError):
        intersections({"s": ["a"]}, order=2)
