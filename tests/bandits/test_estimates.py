"""Estimates are made of releases alone, cover the truth under adaptive sampling, and stand in results."""

import json

import numpy as np
import pytest

import fairveil
from fairveil import registry
from fairveil.bandits.estimates import Estimate, Estimates
from fairveil.bandits.nash.optimism import Evidence, arm_intervals, block_looks, report_looks
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.simulate import Streams, walk
from fairveil.bandits.task import case_of
from fairveil.errors import ContractError, InputError, PrivacyError
from fairveil.proof.laws.policies import LAWS, fitting

MEANS = (0.3, 0.5, 0.6)


def spec(name, rounds=1_500, runs=1, **more):
    policy = {"name": name} if name in ("ucb", "random") else {"name": name, "epsilon": 1.0}
    world = {"name": "bernoulli", "means": list(MEANS)}
    return {"task": "bandit", "policy": policy, "environment": world, "rounds": rounds, "runs": runs, **more}


@pytest.mark.parametrize("name", ["private-nash", "adap-ucb", "local-nash", "gdp-ncb", "ldp-ucb"])
def test_nominal_95_percent_covers_every_arm_although_sampling_is_adaptive(name):
    lab = fairveil.run(spec(name, runs=400, checkpoints=[1_500], seed=3))["metrics"]["lab"]
    assert lab["evaluation"] is True
    assert min(lab["interval_coverage"]) >= 0.94


def test_intervals_cover_where_rewards_come_late_and_where_counts_are_noisy():
    late = spec("private-nash", runs=200, checkpoints=[1_500], feedback={"delay": 100, "missing": 0.1})
    assert min(fairveil.run(late)["metrics"]["lab"]["interval_coverage"]) >= 0.94
    hidden = spec("private-nash", runs=200, checkpoints=[1_500])
    hidden["policy"]["arrivals"] = "private"
    assert min(fairveil.run(hidden)["metrics"]["lab"]["interval_coverage"]) >= 0.94


def test_rewards_that_count_as_a_default_have_no_coverage():
    filled = spec("private-nash", runs=2, feedback={"delay": 10, "missing": 0.5, "treat": "default"})
    assert "interval_coverage" not in fairveil.run(filled)["metrics"]["lab"]


def test_bounds_are_those_of_chernoff_for_the_sum_and_its_noise():
    """At a fixed number of rewards and draws the two-sided bound fails less often than alpha."""
    rng, size, draws, failed = np.random.default_rng(5), 400, 3, 0
    sums = rng.binomial(size, 0.35, 4_000) + rng.laplace(0, 1 / 0.5, (4_000, draws)).sum(axis=1)
    for total in sums:
        one = Evidence(np.array([total / size]), np.array([400.0]), np.array([draws]), 0.5, np.zeros(1))
        _, low, high = arm_intervals(one, 0.95)[0]
        failed += not low <= 0.35 <= high
    assert failed / 4_000 <= 0.05
    assert failed > 0  # 4,000 trials of a bound that is not empty


def test_anytime_bounds_are_wider_and_grow_with_the_looks():
    policy, world = fitting("private-nash")
    state = list(walk(policy, world, 1_000, Streams.of(1, 0)))[-1].state
    plain, anytime = policy.arm_intervals(state), policy.arm_intervals(state, anytime=True)
    assert (anytime[:, 2] - anytime[:, 1] >= plain[:, 2] - plain[:, 1]).all()
    assert "proven" in policy.estimates(state, anytime=True).notes[1]
    assert block_looks(np.array([1, 20])).tolist() == pytest.approx([np.log(2), np.log(420)])
    assert report_looks(np.array([1, 100])).tolist() == pytest.approx([0.0, np.log(10)])


@pytest.mark.parametrize("name", ["private-nash", "adap-ucb", "gdp-ncb", "ucb"])
def test_a_simulated_run_publishes_what_its_steps_publish(name):
    """Rewards without chance: simulators draw those of a block at once, so only sums of sure ones are equal."""
    full = spec(name, rounds=600, seed=4)
    full["environment"]["means"] = [0.0, 1.0, 1.0]
    case = case_of(full)
    state = list(walk(case.policy, case.environment, 600, case.streams(0)))[-1].state
    found = fairveil.run(full)["metrics"]["estimates"]
    assert found == case.policy.estimates(state).to_dict()


@pytest.mark.parametrize("name", ["priv-fairx", "batched-priv-fairx"])
def test_exposure_runs_publish_what_their_steps_publish(name):
    full = {
        "task": "bandit",
        "policy": {"name": name, "epsilon": 5.0, "delta": 1e-3, "schedule": "doubling"},
        "environment": {"name": "exposure", "agents": 3, "actions": 4, "dimension": 3},
        "rounds": 64,
    }
    case = case_of(full)
    state = list(walk(case.policy, case.environment, 3 * 64, case.streams(0)))[-1].state
    found = fairveil.run(full)["metrics"]["estimates"]
    steps = case.policy.estimates(state).to_dict()
    for ours, theirs in zip(found["items"], steps["items"]):
        assert ours["value"] == pytest.approx(theirs["value"], abs=1e-9)
        assert ours["low"] == pytest.approx(theirs["low"], abs=1e-9)


def test_exposure_intervals_hold_together_and_give_merits_of_items():
    world = {"name": "exposure", "agents": 4, "actions": 4, "dimension": 3, "theta": [0.6, 0.0, 0.8]}
    policy = {"name": "batched-priv-fairx", "epsilon": 5.0, "delta": 1e-3}
    held = 0
    for seed in range(20):
        full = {"task": "bandit", "policy": policy, "environment": world, "rounds": 2_000, "seed": seed}
        items = fairveil.run(full)["metrics"]["estimates"]["items"]
        held += all(item["low"] <= true <= item["high"] for item, true in zip(items, world["theta"]))
    assert held >= 19
    case = case_of({**full, "rounds": 200})
    state = list(walk(case.policy, case.environment, 800, case.streams(0)))[-1].state
    found = case.policy.estimates(state, items=[[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    merits = [item for item in found.items if item.what == "merit"]
    assert [item.name for item in merits] == ["item 0", "item 1"]
    assert all(item.low <= item.value <= item.high for item in merits)
    with pytest.raises(InputError):
        case.policy.estimates(state, items=[[1.0]])


def test_meritocratic_results_name_groups_and_columns():
    full = {
        "task": "bandit",
        "rounds": 1_000,
        "policy": {"name": "batched-private-fair-greedy", "epsilon": 5.0, "delta": 1e-5},
        "environment": {"name": "synthetic-census", "people_per_group": 500},
    }
    metrics = fairveil.run(full)["metrics"]
    tables = metrics["estimates"]["tables"]
    assert {table["name"] for table in tables} == set(metrics["selection_share"])
    assert all(np.diff(table["scores"]).min() > 0 for table in tables)
    assert "age" in {item["name"] for item in metrics["estimates"]["items"]}
    rates = metrics["lab"]["selection_rates"]
    assert all(rate["low"] <= rate["value"] <= rate["high"] for rate in rates.values())


def test_estimates_are_a_table_that_says_private():
    policy = PrivateNash(arms=2, epsilon=1.0)
    table = policy.estimates(policy.start()).to_frame({"arm 0": "usual care"})
    assert list(table.columns) == ["what", "name", "value", "low", "high"]
    assert table["name"].tolist() == ["usual care", "arm 1"]
    assert table.attrs["kind"] == "private"
    assert "private" in table.attrs["title"]


def test_nothing_is_known_before_the_first_release():
    policy = PrivateNash(arms=2, epsilon=1.0)
    found = policy.estimates(policy.start())
    assert [(item.value, item.low, item.high) for item in found.items] == [(None, 0.0, 1.0)] * 2
    assert json.dumps(found.to_dict(), allow_nan=False)


def test_every_private_policy_of_ours_has_estimates_unless_it_keeps_history():
    for entry in registry.entries("policy"):
        policy, _ = fitting(entry.name)
        promise = policy.guarantee()
        if promise is not None and promise.established and entry.target.__module__.startswith("fairveil."):
            assert bool(policy.estimates(policy.start()).items) != policy.keeps_history, entry.name


def test_what_is_refused():
    table = {"name": "gdp-ncb", "variant": "printed", "arms": 2, "epsilon": 1.0, "horizon": 9}
    printed = registry.build("policy", table, "policy")
    with pytest.raises(PrivacyError, match="not established"):
        printed.estimates(printed.start())
    policy = PrivateNash(arms=2, epsilon=1.0)
    for wrong in (0, 1, True, "0.9"):
        with pytest.raises(InputError, match="confidence"):
            policy.estimates(policy.start(), wrong)
    with pytest.raises(InputError, match="no such estimate"):
        policy.estimates(policy.start())["arm 9"]


class Peeks(PrivateNash):
    """Adds up what is not released yet."""

    def estimates(self, state, confidence=0.95, anytime=False):
        return Estimates((Estimate("mean reward", "arm 0", float(state["sum/open"].sum())),), confidence)


def test_a_policy_that_reads_raw_sums_breaks_the_law():
    policy, world = fitting("private-nash")
    with pytest.raises(ContractError, match="not released"):
        LAWS["estimates_read_releases_only"](Peeks(arms=policy.arms, epsilon=1.0), world)
