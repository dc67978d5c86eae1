"""Environments: groups, intersections, absences, arrivals; and that ranks are measured against the truth."""

import numpy as np
import pytest

import fairveil
from fairveil import data, registry
from fairveil.bandits.feedback import NEVER
from fairveil.bandits.meritocratic.world import round_of
from fairveil.errors import SpecError
from fairveil.randomness import generator

needs_acs = pytest.mark.skipif(not data.available("acs"), reason="the acs data set is not on this machine")


def build(name, **options):
    registry.load()
    return registry.build("environment", {"name": name, **options}, "environment")


GAUSSIAN = {"weights": [1.0, -0.5], "means": [[0.0, 0.0], [2.0, 1.0], [-1.0, 0.0]]}


@pytest.mark.parametrize(
    "name,options",
    [
        ("synthetic-census", {"people_per_group": 500}),
        ("gaussian", GAUSSIAN),
        pytest.param("census", {}, marks=needs_acs),
        pytest.param("adult", {}, marks=pytest.mark.skipif(not data.available("adult"), reason="no adult data")),
    ],
)
def test_true_ranks_are_uniform_and_scores_are_linear(name, options):
    world = build(name, **options)
    chunk = world.draw(0, 3000, generator(1))
    np.testing.assert_allclose(chunk.score, chunk.features @ world.theta, atol=1e-9)
    np.testing.assert_allclose(
        world.relative_rank(chunk.group.ravel(), chunk.score.ravel()), chunk.rank.ravel(), atol=1e-9
    )
    for group in range(world.groups):
        ranks = chunk.rank[chunk.group == group]
        assert abs(ranks.mean() - 0.5) < 0.03
    schema = world.schema
    assert len(schema.names) == world.features == len(schema.centre)
    inside = (chunk.features >= schema.low - 1e-9) & (chunk.features <= schema.high + 1e-9)
    assert inside.mean() > 0.999


@needs_acs
def test_census_has_the_documented_groups_and_no_played_row_is_in_the_hold_out():
    world = build("census")
    assert world.group_names == ("RAC1P=1", "RAC1P=2", "RAC1P=3", "RAC1P=6", "RAC1P=9")
    assert world.features == 24
    assert world.pool.size.sum() == pytest.approx(0.8 * 88_177, rel=0.01)


@needs_acs
def test_groups_may_be_intersections_of_attributes():
    world = build("census", attributes=["RAC1P", "SEX"])
    assert "RAC1P=1/SEX=2" in world.group_names
    assert len(world.group_names) >= 6
    kept = [name for name, used in zip(world.schema.names, world.schema.informative) if used]
    assert not any(name.startswith(("SEX", "RAC1P")) for name in kept)


def test_several_candidates_of_a_group_absent_groups_and_joining_groups():
    world = build("synthetic-census", people_per_group=300, candidates=3, presence=0.5, joins={"g2": 100})
    chunk = world.draw(0, 200, generator(2))
    assert chunk.group.shape == (200, 12)
    assert not (chunk.group[:100] == 1).any()
    assert (chunk.group[100:] == 1).any()
    assert 0.4 < (chunk.group[100:] >= 0).mean() < 0.6
    shown = round_of(chunk, 150)
    assert len(shown.candidates) == (chunk.group[150] >= 0).sum()
    assert not world.steady


def test_late_and_missing_rewards_arrive_once_or_never():
    lateness = build("gaussian", **GAUSSIAN, delay=20.0, missing=0.25).lateness
    assert (lateness.treat, lateness.window) == ("public", 92)
    waits = lateness.waits(20_000, generator(3))
    lost = waits == NEVER
    assert abs(lost.mean() - 0.25 - 0.75 * 0.01) < 0.02  # one reward in a hundred is later than the window
    assert (waits[~lost] >= 0).all()
    assert abs(waits[~lost].mean() - 19) < 1


def test_the_gaussian_world_refuses_shapes_that_do_not_fit():
    for wrong in (
        {"weights": [1.0], "means": [[0.0, 1.0], [1.0, 0.0]]},
        {"weights": [1.0, 0.0], "means": [[0.0, 0.0]]},
        {"weights": [1.0], "means": [[0.0], [1.0]], "covariances": [[[1.0]], [[-1.0]]]},
        {"weights": [0.0], "means": [[0.0], [1.0]]},
    ):
        with pytest.raises(SpecError):
            build("gaussian", **wrong)


def test_an_unknown_joining_group_is_named():
    with pytest.raises(SpecError, match="joins"):
        build("synthetic-census", joins={"g9": 5})


def test_oful_on_the_synthetic_census_is_a_quarter_of_random_and_skewed():
    def run(policy):
        return fairveil.run(
            {
                "task": "bandit", "policy": {"name": policy}, "environment": {"name": "synthetic-census"},
                "rounds": 10_000, "runs": 2, "seed": 3, "checkpoints": [10_000],
            }
        )["metrics"]  # fmt: skip

    random, oful = run("random"), run("oful")
    assert random["fair_regret"][-1] == pytest.approx(3000, rel=0.03)
    assert 0.15 < oful["fair_regret"][-1] / random["fair_regret"][-1] < 0.35
    assert max(oful["selection_share"].values()) > 0.45
    assert random["parity_gap"][-1] < 0.03
