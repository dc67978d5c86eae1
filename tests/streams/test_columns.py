"""Several columns under one budget."""

import math

import pytest

from fairveil import registry
from fairveil.errors import SpecError
from fairveil.proof.adapters.feed import exact_mu
from fairveil.streams.columns import Columns


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


STAGGERED = {
    "geometric": {"name": "baseline-gaussian", "schedule": {"kind": "geometric", "ratio": 0.9}},
    "power": {"name": "baseline-gaussian", "schedule": {"kind": "power", "power": 1.5}},
    "as it comes": {"name": "private-kalman", "horizon": 120},
    "first": {"name": "private-kalman", "horizon": 120, "first": 0.3},
    "even": {"name": "baseline-gaussian", "horizon": 120},
    "weights": {"name": "predictive", "horizon": 120, "weight": 0.1},
    "participation": {"name": "baseline-gaussian", "horizon": 120, "participation": 30},
    "window": {"name": "baseline-gaussian", "unit": "window", "window": 9},
}


REFUSED = ("geometric", "power", "first", "weights")
"""Releases that cost more than others would meet a person in every column."""


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("case", STAGGERED)
@pytest.mark.parametrize("each", [1, 2])
def test_columns_that_begin_at_different_steps_cost_one_person_what_is_claimed(case, neighbours, each):
    """The exact mu of the worst person, where columns begin together, apart, and one after the other's end."""
    table, names = {**STAGGERED[case], "mu": 0.5, "neighbours": neighbours}, [f"c{place}" for place in range(6)]
    if case in REFUSED:
        with pytest.raises(SpecError) as caught:
            Columns.build(table, names, columns_per_person=each)
        assert caught.value.path == "columns_per_person"
        return
    made = Columns.build(table, names, columns_per_person=each)
    found = [exact_mu(made, apart, each) for apart in (0, 1, 20, 120)]
    assert max(found) <= 0.5 * (1 + 1e-9)
    assert found[0] > 0.3  # nothing is given away where columns begin together
