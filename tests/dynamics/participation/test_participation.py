"""Participation: printed values, limits against simulation, other dynamics, and the theory on random instances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fairveil
from fairveil.dynamics import draws, measure
from fairveil.dynamics.participation import (
    GROWTH,
    Composition,
    Effort,
    fair_set,
    kernel_thresholds,
    limit,
    loss_table,
    model,
    response,
    resting_ratio,
    retention,
    shares_over_time,
    simulate,
    simulate_learned,
    sustaining,
)
from fairveil.errors import SpecError
from fairveil.lab.theorems import participation as theorems
from fairveil.lab.theorems.checks import sweep
from fairveil.randomness import generator


def groups(first=10000.0, second=10000.0):
    return {
        "a": {
            "arrivals": first,
            "qualified": 0.6,
            "features": {"0": ["truncnorm", 4, 5, -8, 19], "1": ["truncnorm", 20, 6, 5, 35]},
        },
        "b": {
            "arrivals": second,
            "qualified": 0.4,
            "features": {"0": ["truncnorm", 8, 3, -6, 25], "1": ["truncnorm", 27, 6, 9, 43]},
        },
    }


def run_out(system, steps=20000):
    """Shares after the dynamics has come to rest, by plain simulation in chunks."""
    start = None
    for _ in range(steps // 500):
        history = simulate(system, 501, start)
        start = history.numbers[-1]
        if np.abs(history.numbers[-1] / history.numbers[-2] - 1).max() < 1e-10:
            break
    return start / start.sum(axis=1, keepdims=True)


def test_spot_value_of_the_simple_limit():
    assert limit(model(groups(), "simple")).share[0, 0] == pytest.approx(0.113982, abs=1e-6)


@pytest.mark.parametrize("fairness", ["none", "simple", "eqopt", "dp", "eqloss"])
@pytest.mark.parametrize("stay", ["accuracy", "disparity", "false-positive", "false-negative"])
def test_limits_agree_with_simulation(fairness, stay):
    system = model(groups(12000.0, 8000.0), fairness, stay)
    end = limit(system)
    assert end.residual[0] < 1e-12
    np.testing.assert_allclose(run_out(system), end.share, atol=2e-4)


@pytest.mark.parametrize("fairness", ["simple", "dp"])
def test_subgroup_limits_agree_with_simulation(fairness):
    system = model(groups(5000.0, 15000.0), fairness, "subgroup")
    end = limit(system)
    np.testing.assert_allclose(simulate(system, 5000).share[-1], end.share, atol=1e-5)
    np.testing.assert_allclose(response(system, end.share), end.share, atol=1e-12)


def test_equal_loss_sustains_and_eqopt_sustains_false_positives():
    for fairness, stay in (("eqloss", "accuracy"), ("eqopt", "false-positive")):
        share = simulate(model(groups(15000.0, 5000.0), fairness, stay), 50).share[:, 0, 0]
        np.testing.assert_allclose(share, 0.75, atol=1e-12)


def test_dp_jumps_between_two_regimes():
    values = np.linspace(9000, 15000, 25)
    ends = limit(model([groups(v, 20000 - v) for v in values], "dp")).share[:, 0]
    assert np.diff(ends).max() > 0.4
    assert np.diff(np.sort(np.delete(np.diff(ends), np.argmax(np.diff(ends)))))[-1] < 0.1


def test_growth_laws_rest_where_they_stay_put():
    stay, draw, arrivals = np.array([[0.4, 0.9]]), np.array([[0.7, 0.2]]), np.array([[0.2, 0.1]])
    for name, law in GROWTH.items():
        rest = law.rest(stay, draw, arrivals)
        np.testing.assert_allclose(law.step(rest, stay, draw, arrivals), rest, rtol=1e-12, err_msg=name)
    assert np.isinf(GROWTH["quadratic"].rest(np.array([0.9]), draw, np.array([1.0]))).all()
    assert np.isinf(GROWTH["arrive"].rest(np.array([1.0]), draw, np.array([1.0]))).all()


def test_quadratic_growth_is_stable_at_the_smaller_root():
    few = groups(0.1, 0.12)
    system = model(few, "simple", growth="quadratic")
    np.testing.assert_allclose(run_out(system), limit(system).share, atol=1e-8)


def test_retention_can_be_a_function():
    system = model(groups(), "simple", lambda seen: 1.0 - seen.loss)
    same = model(groups(), "simple", "accuracy")
    np.testing.assert_array_equal(simulate(system, 20).numbers, simulate(same, 20).numbers)
    seen = measure(same.people, np.array([[12.0, 14.0]]))
    x = seen.loss
    assert retention({"driver": "accuracy", "response": ["linear", 0.9, -0.5]})(seen) == pytest.approx(0.9 - 0.5 * x)
    assert retention({"driver": "accuracy", "response": ["power", 3]})(seen) == pytest.approx((1 - x) ** 3)
    assert retention({"driver": "accuracy", "response": ["exponential", 2]})(seen) == pytest.approx(np.exp(-2 * x))
    assert retention("rejected")(seen) == pytest.approx(seen.accepted)
    with pytest.raises(SpecError):
        model(groups(), growth="explode")


def test_fair_set_of_two_dynamics():
    for system in (
        model(groups()),
        model(groups(), stay="accepted", growth="attract", draw="accuracy"),
        model(groups(0.1, 0.2), growth="quadratic"),
    ):
        x = np.linspace(2, 22, 41)
        found = fair_set(system, x, x)
        first = 11.0
        for second in sustaining(system, first):
            ratio = [float(resting_ratio(system, s, np.array([at]))[0]) for s, at in ((0, first), (1, second))]
            assert ratio[0] == pytest.approx(ratio[1], rel=1e-9)
        assert found.inside(0.5).sum() >= found.inside(0.05).sum() > 0
        pairs = found.sample(generator(1), 0.2, 50)
        for a, b in pairs[:5]:
            i, j = np.searchsorted(x, a), np.searchsorted(x, b)
            assert found.deviation[i, j] <= found.deviation.min() + 0.2


def test_quadratic_fair_set_means_equal_products():
    system = model(groups(0.1, 0.2), growth="quadratic")
    second = sustaining(system, 12.0)[0]
    seen = measure(system.people, np.array([[12.0, second]]))
    products = system.arrivals[0] * (1.0 - seen.loss[0])
    assert products[0] == pytest.approx(products[1], rel=1e-9)


@pytest.mark.parametrize("drift", [Composition(0.05), Effort(0.05)], ids=["composition", "effort"])
def test_reshaping_moves_people_the_way_the_cases_say(drift):
    history = simulate(model(groups(), "simple", drift=drift), 6)
    theta = history.thresholds[:, 0]
    assert (np.diff(theta, axis=0) > 0).all()
    if isinstance(drift, Composition):
        assert (np.diff(history.qualified[1:, 0], axis=0) < 0).all()
    else:
        early, late = (history.people[t].feature(0, 0, 1) for t in (1, 5))
        x = np.linspace(5.5, 18.5, 50)
        assert (late.pdf(x) < early.pdf(x)).all()
        assert late.cdf(35.0) == pytest.approx(1.0)
        assert history.people[5].feature(0, 0, 0) == history.people[0].feature(0, 0, 0)


def test_reshaping_by_spec():
    base = {"task": "participation", "groups": groups(), "fairness": "simple", "steps": 30}
    still = fairveil.run(base)["metrics"]
    unmoved = fairveil.run({**base, "reshape": {"kind": "composition", "pace": 0.0}})["metrics"]
    assert unmoved["share"] == pytest.approx(still["share"], abs=1e-12)
    for kind in ("composition", "effort"):
        moving = fairveil.run({**base, "reshape": {"kind": kind, "pace": 0.1}})["metrics"]
        assert 1e-6 < abs(moving["share"]["a"] - still["share"]["a"]) < 0.05


def test_learned_decisions_approach_the_optimal_ones():
    for fairness in ("none", "simple", "eqopt", "dp", "eqloss"):
        system = model(groups(40000.0, 40000.0), fairness)
        learned = simulate_learned(system, 2, generator(3, fairness))
        best = simulate(system, 2)
        np.testing.assert_allclose(learned.loss[0], best.loss[0], atol=0.02)
    with pytest.raises(SpecError):
        simulate_learned(model(groups(), stay="subgroup"), 2, generator(1))


@pytest.mark.parametrize("fairness", ["none", "simple", "eqopt", "dp", "eqloss"])
def test_kernel_decisions_approach_the_optimal_ones(fairness):
    rng = generator(31, fairness)
    system = model(groups(), fairness)
    people = system.people
    samples = [
        tuple(
            np.sort(people.feature(0, s, y).sample(rng, int(size)))
            for y, size in ((0, 2e5 * (1 - people.qualified[0, s])), (1, 2e5 * people.qualified[0, s]))
        )
        for s in (0, 1)
    ]
    best = measure(people, system.thresholds(people)).loss[0]
    found = measure(people, kernel_thresholds(fairness, "fpr", samples)[None]).loss[0]
    np.testing.assert_allclose(found, best, atol=0.01)


def test_kernel_decisions_cost_the_smaller_group_more():
    """Figure 4.10 for one threshold: smoothing shrinks the group that is shrinking and feeds the other."""
    system = model(groups(60.0, 60.0), "simple", growth="join")
    best = simulate(system, 30).numbers[-1, 0]
    runs = [
        simulate_learned(system, 30, generator(32, run), learn=kernel_thresholds).numbers[-1, 0] for run in range(12)
    ]
    assert best[0] < best[1]
    change, error = np.mean(runs, axis=0) - best, np.std(runs, axis=0) / np.sqrt(12)
    assert change[0] < -3 * error[0]
    assert change[1] > 3 * error[1]


def test_learned_runs_are_repeatable_and_averaged():
    spec = {"task": "participation", "groups": groups(50.0, 50.0), "fairness": "simple", "growth": "join"}
    spec |= {"decisions": "learned", "runs": 3, "seed": 4, "steps": 8}
    first, second = fairveil.run(spec), fairveil.run(spec, engine="processes", workers=2)
    assert first["metrics"] == second["metrics"]
    assert first["meta"]["simulated"] is True


def test_the_spread_of_learned_runs_is_that_of_a_sample():
    spec = {"task": "participation", "groups": groups(50.0, 50.0), "fairness": "simple", "growth": "join"}
    spec |= {"decisions": "learned", "seed": 4, "steps": 8}
    one, two = (fairveil.run({**spec, "runs": runs})["metrics"] for runs in (1, 2))
    second = 2 * two["share"]["a"] - one["share"]["a"]
    assert one["share_std"]["a"] == 0
    assert two["share_std"]["a"] == pytest.approx(abs(second - one["share"]["a"]) / np.sqrt(2))
    assert two["share_std"]["a"] > 0


def test_following_the_labels_of_the_users_present():
    base = {"task": "participation", "groups": groups(), "fairness": "simple", "retention": "subgroup", "steps": 60}
    fixed = fairveil.run(base)["metrics"]["share"]["a"]
    followed = fairveil.run({**base, "follow_labels": True})["metrics"]["share"]["a"]
    assert fixed != followed


def test_trained_participation():
    rng = generator(12)
    group = (rng.random(3000) < 0.3).astype(int)
    labels = (rng.random(3000) < 0.5).astype(float)
    shift = np.where(group == 0, 1.5, 0.6)
    features = np.stack([rng.normal(size=3000) + shift * labels, rng.normal(size=3000) + group], axis=1)
    table = loss_table(features, labels, group, points=5)
    simple = shares_over_time(table, 0, 40)
    assert simple[-1] > 0.5
    equal = shares_over_time(table, table.criteria.index("eqloss"), 40)
    np.testing.assert_allclose(equal, 0.5, atol=1e-9)
    assert (np.diff(simple) >= -1e-12).all()


def test_trained_task_on_generated_data():
    spec = {"task": "participation-trained", "data": "synthetic-adult", "rows": 800, "column": "sex", "value": "Female"}
    found = fairveil.run({**spec, "points": 3, "steps": 10, "seed": 2})
    assert set(found["metrics"]["share"]) == {"simple", "fpr", "fnr", "eqloss"}
    assert found["metrics"]["real_data"] is False
    with pytest.raises(SpecError):
        fairveil.run({**spec, "value": "Martian", "seed": 2})


def test_criterion_task():
    found = fairveil.run({"task": "participation-criterion", "groups": groups(), "points": 41, "steps": 10, "seed": 1})
    assert found["metrics"]["best"] < 0.1
    assert len(found["metrics"]["deviation"]) == 41
    with pytest.raises(SpecError):
        fairveil.run({"task": "participation-criterion", "groups": {"a": groups()["a"]}})


SWEEPS = {
    "14": lambda r, f: theorems.theorem_14(draws.random_model(r, f), *r.uniform(0.05, 0.95, 2).tolist()),
    "15": lambda r, f: theorems.theorem_15(draws.random_model(r, f), 4000),
}


@pytest.mark.parametrize("fairness", ["simple", "eqopt", "dp"])
@pytest.mark.parametrize("name", SWEEPS)
def test_theory_on_random_models(name, fairness):
    rng = generator(4, name, fairness)
    found = sweep(name, ((None, SWEEPS[name](rng, fairness)) for _ in range(4 if name == "15" else 15)))
    assert found.applied == found.tried
    assert found.counterexamples == ()


@pytest.mark.parametrize("fairness", ["simple", "eqopt"])
def test_theorem_16_without_demographic_parity(fairness):
    rng = generator(16, fairness)
    made = [draws.random_model(rng, fairness, drift=Composition(0.005)) for _ in range(40)]
    found = sweep("16", ((None, theorems.theorem_16(one, 12)) for one in made))
    assert found.applied >= 5
    assert found.counterexamples == ()


@pytest.mark.parametrize("fairness", ["simple", "eqopt"])
def test_theorem_16_with_reacting_features(fairness):
    many = draws.overlapping_models(generator(17, fairness), 300, fairness, Effort(0.5))
    slow = np.flatnonzero(theorems.slow_at_first(many))
    assert slow.size >= 5
    found = sweep("16", ((None, theorems.theorem_16(many.select(np.array([k])), 12)) for k in slow))
    assert found.applied >= 5
    assert found.counterexamples == ()


def test_slow_at_first_is_a_premise_of_theorem_16():
    many = draws.random_models(generator(18), 60, "eqopt", Composition(0.02))
    slow = theorems.slow_at_first(many)
    seen = [theorems.theorem_16(many.select(np.array([k])), 12) for k in range(60)]
    assert 5 <= slow.sum() <= 40
    assert [one.applies for one in seen] == slow.tolist()


def test_theorem_16_fails_under_demographic_parity_with_reacting_label_rates():
    """Conditions 3 and 4 hold at every step, and the drifting group still loses ground to the fixed one."""
    rng = generator(16, "dp")
    many = draws.random_models(rng, 300, "dp", Composition(0.02))
    slow = np.flatnonzero(theorems.slow_at_first(many))
    found = sweep("16", ((None, theorems.theorem_16(many.select(np.array([k])))) for k in slow))
    assert found.applied >= 20
    assert 1 <= found.applied - found.held <= 0.4 * found.applied


def test_condition_c4_keeps_the_direction_of_the_theorem():
    """Under demographic parity features that react can move decisions backwards: (C.4) is then false, not mirrored."""
    many = draws.random_models(generator(19), 200, "dp", Effort(0.02))
    still, moving = simulate(replace(many, drift=None), 3), simulate(many, 3)
    onward = np.sign(still.thresholds[1] - still.thresholds[0])
    backward = np.any(onward * (moving.thresholds[2] - still.thresholds[2]) < -1e-9, axis=1)
    assert backward.sum() >= 10
    assert not theorems.slow_at_first(many)[backward].any()


def test_theorem_15_batch_is_theorem_15():
    many = draws.random_models(generator(20), 5, "dp")
    for k, seen in enumerate(theorems.theorem_15_batch(many, 3000)):
        alone = theorems.theorem_15(many.select(np.array([k])), 3000)
        assert (seen.premises, seen.conclusion) == (alone.premises, True)
        assert seen.numbers == pytest.approx(alone.numbers, abs=1e-10)


def test_groups_that_nobody_leaves_keep_the_shares_of_their_arrivals():
    never = {"driver": "accuracy", "response": ["linear", 1, 0]}
    spec = {"task": "participation", "groups": groups(15000.0, 5000.0), "retention": never, "steps": 50}
    found = fairveil.run(spec)["metrics"]
    assert found["share"]["a"] == pytest.approx(0.75)
    assert found["limit"]["a"] == pytest.approx(0.75), "not one half: both grow for ever, at the pace of their arrivals"
    assert found["limit_residual"] == pytest.approx(0.0, abs=1e-12)


def test_where_no_shares_reproduce_themselves_there_is_no_limit():
    """The response jumps over the diagonal: users stay when they are misjudged, under demographic parity."""
    rng = generator(7, "x")
    pair = {"a": draws.random_group(rng), "b": draws.random_group(rng)}
    kept = {"driver": "accuracy", "response": ["linear", 0.0, 3.0]}
    spec = {"task": "participation", "groups": pair, "fairness": "dp", "retention": kept, "steps": 20}
    found = fairveil.run(spec)["metrics"]
    assert found["limit"] == {"a": None, "b": None}
    assert found["limit_thresholds"] == {"a": None, "b": None}
    assert found["limit_residual"] > 0.1
