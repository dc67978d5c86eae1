"""Qualification: printed values, exact identities, oscillation, interventions and the theory on random instances."""

from __future__ import annotations

import numpy as np
import pytest

import fairveil
from fairveil.dynamics import draws
from fairveil.dynamics.qualification import (
    common_condition,
    common_rates,
    condition,
    constant_thresholds,
    endings,
    equalising,
    equilibria,
    long_run,
    model,
    path,
    response_table,
    settle,
    transition_grid,
    uniqueness,
)
from fairveil.errors import AssumptionError
from fairveil.lab.theorems import qualification as theorems
from fairveil.randomness import generator

FEATURES = {"0": ["normal", -5, 5], "1": ["normal", 5, 5]}
BLUR = {"0": ["normal", -0.4, 5], "1": ["normal", 0.4, 5]}


def two(first, second, features=FEATURES, start=(0.5, 0.5), other=None):
    return {
        "a": {"share": 0.5, "qualified": start[0], "features": features, "transitions": first},
        "b": {"share": 0.5, "qualified": start[1], "features": other or features, "transitions": second},
    }


FIGURE = two([[0.4, 0.5], [0.5, 0.9]], [[0.1, 0.5], [0.5, 0.7]])


def test_spot_values_of_figure_5_2():
    free = long_run(model(FIGURE))
    assert free.equilibrium[0] == pytest.approx([0.784254, 0.255480], abs=1e-6)
    fair = model(FIGURE, fairness="eqopt")
    end = long_run(fair).equilibrium
    assert fair.thresholds(end)[0] == pytest.approx([-0.340458] * 2, abs=1e-6)


@pytest.mark.parametrize("fairness", ["none", "eqopt", "dp"])
def test_equilibria_are_fixed_points_and_the_path_gets_there(fairness):
    system = model(FIGURE, fairness=fairness)
    found = long_run(system)
    np.testing.assert_allclose(system.step(found.equilibrium), found.equilibrium, atol=1e-13)
    np.testing.assert_allclose(path(system, 300)[-1], found.equilibrium, atol=1e-11)
    odds = 1.0 / found.equilibrium - 1.0
    np.testing.assert_allclose(system.balance(found.equilibrium), odds, rtol=1e-10)
    assert found.unique[0]
    assert found.stable[0]
    everything = equilibria(system, per_axis=5)
    assert len(everything) == 1


@pytest.mark.parametrize("steps", [1, 2, 10, 60])
def test_final_is_where_the_series_ends_and_the_long_run_is_the_same_for_any_number_of_steps(steps):
    for fairness in ("none", "dp"):
        spec = {"task": "qualification", "groups": FIGURE, "fairness": fairness}
        found, far = (fairveil.run({**spec, "steps": count}) for count in (steps, 200))
        ends = {name: found["series"][f"qualified_{name}"]["y"] for name in "ab"}
        assert len(ends["a"]) == steps + 1
        last = {name: course[-1] for name, course in ends.items()}
        assert found["metrics"]["final"] == pytest.approx(last, abs=1e-11)
        for name in ("oscillates", "unique", "stable", "period"):
            assert found["metrics"][name] == far["metrics"][name]
        assert found["metrics"]["equilibrium"] == pytest.approx(far["metrics"]["equilibrium"], abs=1e-12)
        assert found["metrics"]["gap"] == pytest.approx(far["metrics"]["gap"], abs=1e-12)
    grid = fairveil.run({**spec, "steps": steps, "grid": {"groups.a.qualified": [0.2, 0.5]}})["metrics"]["final"]
    assert [grid["a"][1], grid["b"][1]] == pytest.approx(list(last.values()), abs=1e-11)


def test_policies_do_not_matter_when_decisions_have_no_effect():
    groups = two([[0.3, 0.3], [0.8, 0.8]], [[0.2, 0.2], [0.6, 0.6]])
    ends = [long_run(model(groups, fairness=f)).equilibrium[0] for f in ("none", "eqopt", "dp")]
    expected = [0.3 / (1 - 0.8 + 0.3), 0.2 / (1 - 0.6 + 0.2)]
    for end in ends:
        assert end == pytest.approx(expected, abs=1e-12)
    assert condition([[0.3, 0.3], [0.8, 0.8]]) == "0"


def test_dp_equalises_when_state_does_not_matter():
    """T0d = T1d makes the next rate a function of the acceptance rate alone."""
    groups = two([[0.3, 0.7], [0.3, 0.7]], [[0.3, 0.7], [0.3, 0.7]], other=BLUR)
    utility = {"gain": 1.0, "loss": 1.5}
    end = long_run(model(groups, utility, fairness="dp")).equilibrium[0]
    assert end[0] == pytest.approx(end[1], abs=1e-12)
    free = long_run(model(groups, utility)).equilibrium[0]
    assert abs(free[0] - free[1]) > 0.01


def test_eqopt_equalises_when_only_the_qualified_react():
    groups = two(
        [[0.4, 0.4], [0.5, 0.9]], [[0.4, 0.4], [0.5, 0.9]], other={"0": ["normal", -2, 5], "1": ["normal", 2, 5]}
    )
    end = long_run(model(groups, fairness="eqopt")).equilibrium[0]
    assert end[0] == pytest.approx(end[1], abs=1e-12)


def test_mirrored_groups_mirror_the_result():
    first = long_run(model(two([[0.4, 0.5], [0.5, 0.9]], [[0.1, 0.5], [0.5, 0.7]]), fairness="dp")).equilibrium[0]
    second = long_run(model(two([[0.1, 0.5], [0.5, 0.7]], [[0.4, 0.5], [0.5, 0.9]]), fairness="dp")).equilibrium[0]
    assert first == pytest.approx(second[::-1], abs=1e-12)


def test_oscillation_is_found_and_damped_iteration_still_finds_the_equilibrium():
    groups = two([[0.9, 0.1], [0.9, 0.1]], [[0.5, 0.4], [0.7, 0.6]], BLUR, start=(0.6, 0.5))
    system = model(groups)
    ending = settle(system)
    assert ending.oscillates[0]
    assert ending.period[0] == 2
    assert ending.swing[0] > 0.5
    found = long_run(system)
    np.testing.assert_allclose(system.step(found.equilibrium), found.equilibrium, atol=1e-9)
    assert not found.stable[0]
    result = fairveil.run({"task": "qualification", "groups": groups})["metrics"]
    assert result["oscillates"] is True
    assert result["period"] == 2


def test_no_oscillation_under_1b():
    rng = generator(7, "1b")
    tables = [two(draws.random_transitions(rng, "1b"), draws.random_transitions(rng, "1b"), BLUR) for _ in range(60)]
    assert not settle(model(tables)).oscillates.any()


def test_condition_1c_can_oscillate_when_features_say_little():
    """T01 > T00 and T11 < T10: above one half everybody is accepted and most qualified people are lost."""
    table = [[0.89, 0.94], [0.92, 0.15]]
    groups = two(table, table, BLUR, start=(0.6, 0.6))
    assert condition(table) == "1c"
    ending = settle(model(groups))
    assert ending.period[0] == 2
    assert ending.swing[0] > 0.5
    clear = settle(model(two(table, table, FEATURES, start=(0.6, 0.6))))
    assert clear.period[0] == 1


def test_longer_cycles_are_recognised():
    rng = generator(7, "long")
    tables = [
        two(draws.random_transitions(rng, "1a"), [[0.3, 0.3], [0.6, 0.6]], BLUR, start=(0.6, 0.5)) for _ in range(300)
    ]
    system = model(tables)
    ending = settle(system)
    long = np.flatnonzero(ending.period > 2)
    assert long.size > 0
    for k in long[:5]:
        p = int(ending.period[k])
        tail = path(system.select(np.array([k])), 2 * p, ending.final[k][None])[:, 0]
        np.testing.assert_allclose(tail[p:], tail[: p + 1], atol=1e-9)
        for shorter in range(1, p):
            assert np.abs(tail[shorter] - tail[0]).max() > 1e-9


def test_several_equilibria_are_told_apart():
    """Strong leg-up effect with clear features: a low and a high equilibrium, and an unstable one between."""
    sharp = {"0": ["normal", -1, 1], "1": ["normal", 1, 1]}
    table = [[0.02, 0.9], [0.05, 0.98]]
    groups = two(table, table, sharp, start=(0.05, 0.05))
    system = model(groups)
    everything = equilibria(system)
    kinds = [stable for _, stable in everything]
    assert len(everything) >= 3
    assert kinds.count(True) >= 2
    low = long_run(system)
    high = long_run(model(two(table, table, sharp, start=(0.95, 0.95))))
    assert not low.unique[0]
    assert (high.equilibrium[0] > low.equilibrium[0] + 0.1).all()
    assert not uniqueness(system).holds


def test_close_transitions_meet_theorem_18():
    groups = two([[0.3, 0.305], [0.6, 0.605]], [[0.4, 0.405], [0.7, 0.705]])
    found = uniqueness(model(groups, fairness="dp"))
    assert found.case == "1b"
    assert found.holds
    assert common_condition(np.array([[[0.5, 0.1], [0.5, 0.1]], [[0.1, 0.5], [0.1, 0.5]]])) == "mixed"


def test_separate_thresholds_reach_any_common_rate():
    system = model(FIGURE)
    low, high = common_rates(system)
    for part in (0.01, 0.5, 0.99):
        target = low + part * (high - low)
        led = constant_thresholds(system, equalising(system, target))
        end = long_run(led).equilibrium[0]
        assert end == pytest.approx([target, target], abs=1e-9)
    with pytest.raises(AssumptionError, match="no threshold"):
        equalising(system, 0.99)
    result = fairveil.run(
        {
            "task": "qualification",
            "groups": FIGURE,
            "thresholds": dict(zip("ab", equalising(system, 0.5).tolist(), strict=True)),
        }
    )
    assert result["metrics"]["gap"] == pytest.approx(0.0, abs=1e-9)


def test_raising_a_transition_can_hurt_the_other_group():
    """Proposition 5 with a constraint under condition 1a: the own group rises, the other falls."""
    groups = two([[0.5, 0.2], [0.9, 0.4]], [[0.6, 0.3], [0.8, 0.3]])
    seen = theorems.proposition_5(model(groups, fairness="dp"), 0, 1, 1, 0.1)
    assert seen.conclusion is True
    assert seen.numbers["seen"]["own"] > 0 > seen.numbers["seen"]["other"]


@pytest.mark.parametrize(
    ("transitions", "limit"), [([[0.2, 0.5], [0.5, 0.9]], 0.72626), ([[0.3, 0.7], [0.4, 0.8]], 0.65391)]
)
@pytest.mark.parametrize("second", [((-2, 5), (8, 5)), ((-10, 10), (10, 10))], ids=["moved", "stretched"])
@pytest.mark.parametrize("fairness", ["none", "eqopt", "dp"])
def test_theorem_19_as_printed_is_false_where_features_are_moved_or_stretched(fairness, second, transitions, limit):
    """Other features, and yet the constraint changes nothing: the unconstrained policy satisfies it by itself."""
    groups = {}
    for name, share, features in (("a", 0.3, ((-5, 5), (5, 5))), ("b", 0.7, second)):
        table = {str(y): ["normal", *features[y]] for y in (0, 1)}
        groups[name] = {"share": share, "qualified": 0.5, "features": table, "transitions": transitions}
    system = model(groups, {"gain": 1.5, "loss": 1.0}, fairness)
    [(point, _)] = equilibria(system, per_axis=4)
    assert point == pytest.approx([limit, limit], abs=5e-6)
    assert abs(point[0] - point[1]) < 1e-12
    if fairness != "none":
        assert theorems.unfairness(system, fairness, limit) < 1e-9
        printed = theorems.theorem_19(system, fairness, 0.45, printed=True)
        assert printed.counterexample
        assert theorems.theorem_19(system, fairness, 0.45).conclusion is None


@pytest.mark.parametrize("fairness", ["eqopt", "dp"])
def test_rounding_does_not_decide_theorem_19(fairness):
    rng = generator(19, fairness)
    found = []
    for _ in range(40):
        groups, utility = draws.moved_groups(rng)
        found.append(theorems.theorem_19(model(groups, utility), fairness, 0.45, printed=True))
    gaps = [abs(np.subtract(*seen.numbers["seen"]["fair"])) for seen in found if seen.applies]
    assert len(gaps) >= 6
    assert max(gaps) < 1e-10
    assert all(seen.conclusion is False for seen in found if seen.applies)


def test_theorem_18_says_nothing_about_large_responses():
    """Condition 1b with a strong leg-up: three equilibria, and the sufficient condition does not hold."""
    features = {"0": ["normal", -5, 5], "1": ["normal", 5, 5]}
    group = {"qualified": 0.5, "features": features, "transitions": [[0.05, 0.9], [0.1, 0.95]]}
    system = model({"a": group, "b": group})
    assert len(equilibria(system)) > 1
    seen = theorems.theorem_18(system)
    assert seen.premises["responses are below one"] is False
    assert seen.conclusion is None


def test_many_equilibria_in_one_call():
    rng = generator(2)
    tables = [two(draws.random_transitions(rng, "1b"), draws.random_transitions(rng, "1a")) for _ in range(300)]
    together = long_run(model(tables, fairness="dp"))
    for k in (0, 17, 299):
        alone = long_run(model(tables[k], fairness="dp"))
        assert together.equilibrium[k] == pytest.approx(alone.equilibrium[0], abs=1e-11)


def test_trained_classifier_depends_on_the_rate():
    rng = generator(9)
    labels = (rng.random(1500) < 0.4).astype(float)
    features = rng.normal(size=(1500, 3)) + labels[:, None]
    table = response_table(features, labels, (0.5, 0.8), points=9)
    for chosen in (table.chosen0, table.chosen1):
        assert np.all(np.diff(chosen, axis=1) >= -0.02)
        assert np.all(chosen[1] <= chosen[0])
    still = endings(table, 0, np.array([[[0.3, 0.3], [0.8, 0.8]]]), 0.4)
    assert still.rate[0] == pytest.approx(0.3 / 0.5, abs=1e-9)
    assert not still.oscillates[0]
    resampled = response_table(features, labels, (0.5,), points=9, rng=generator(1))
    np.testing.assert_allclose(resampled.chosen1[0], table.chosen1[0], atol=0.08)


def test_any_learner_fits_the_trained_dynamics():
    from sklearn.linear_model import LogisticRegression

    rng = generator(10)
    labels = (rng.random(800) < 0.5).astype(float)
    features = rng.normal(size=(800, 2)) + labels[:, None]
    ours = response_table(features, labels, points=5)
    theirs = response_table(features, labels, points=5, learner=LogisticRegression())
    np.testing.assert_allclose(theirs.chosen1, ours.chosen1, atol=0.02)


def test_trained_task_runs_on_generated_data():
    spec = {
        "task": "qualification-trained",
        "data": "synthetic-compas",
        "rows": 600,
        "points": 9,
        "seed": 1,
        "cutoffs": [0.5, 0.8, 0.2],
        "transitions": transition_grid("1b")[:20].tolist(),
    }
    first, second = fairveil.run(spec), fairveil.run(spec)
    assert first["metrics"] == second["metrics"]
    assert first["metrics"]["real_data"] is False
    assert set(first["metrics"]["rate"]) == {"0.5", "0.8", "0.2"}
    with pytest.raises(AssumptionError, match="strictly between"):
        fairveil.run({**spec, "transitions": [[[0.0, 0.5], [0.5, 0.5]]]})
