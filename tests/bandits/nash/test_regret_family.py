"""Nash, average and p-mean regret from whole runs: definitions, bias, spread, determinism, bad input."""

import itertools
import math

import numpy as np
import pytest

import fairveil
from fairveil.bandits.nash.tally import Welfare, merge
from fairveil.errors import FairveilError, HorizonError, InputError, SpecError
from fairveil.fairness.welfare import log_p_mean, p_mean

BASE = {"task": "bandit", "environment": {"name": "bernoulli", "means": [0.1, 0.5, 0.9]}, "rounds": 2000, "runs": 6}
POLICIES = [
    {"name": "random"},
    {"name": "ucb"},
    {"name": "ncb"},
    {"name": "adap-ucb", "epsilon": 1.0},
    {"name": "gdp-ncb", "epsilon": 1.0},
    {"name": "ldp-ncb", "epsilon": 1.0},
    {"name": "ldp-ucb", "epsilon": 1.0},
    {"name": "private-nash", "epsilon": 1.0},
    {"name": "local-nash", "epsilon": 1.0},
    {"name": "anytime", "inner": {"name": "gdp-ncb", "epsilon": 1.0}},
]


def run(**changes):
    return fairveil.run({**BASE, **changes})


@pytest.mark.parametrize("policy", POLICIES, ids=lambda table: table["name"])
def test_order_of_regrets_and_plain_values(policy):
    """A p-mean never falls when p rises, so regrets fall from p = -1 over Nash and 1/2 to the average."""
    result = run(policy=policy, powers=[-1.0, 0.5, 1.0])
    metrics = result["metrics"]
    ordered = [
        metrics["p_mean_regret"]["-1"],
        metrics["nash_regret"],
        metrics["p_mean_regret"]["0.5"],
        metrics["average_regret"],
    ]
    for larger, smaller in itertools.pairwise(ordered):
        assert (np.array(larger) >= np.array(smaller) - 1e-12).all()
    assert np.allclose(metrics["p_mean_regret"]["1"], metrics["average_regret"])
    assert (np.array(metrics["nash_regret_per_run"]) >= np.array(metrics["nash_regret"]) - 1e-12).all()
    assert abs(sum(metrics["pull_share"]) - 1) < 1e-12
    assert len(metrics["nash_regret_std"]) == len(result["spec"]["checkpoints"])
    private = result["guarantee"] is not None
    assert metrics["spent"] == ({"epsilon": 1.0} if private else {})
    assert result["series"]["nash_regret"]["low"][-1] <= metrics["nash_regret"][-1]


def test_tally_equals_the_definition():
    rng = np.random.default_rng(0)
    means = np.array([0.05, 0.4, 0.9])
    codes = rng.integers(0, 4, (5, 300)).astype(np.int32)
    values = np.append(means, means.mean())[codes]
    tally = Welfare(means, np.log(means), [1.0, 0.0, -1.0, 0.5, -3.0], 5)
    for start in (0, 100, 250):
        stop = {0: 100, 100: 250, 250: 300}[start]
        tally.add(np.ascontiguousarray(codes[:, start:stop]), np.ones(stop - start, np.int64))
    snapshot = tally.snapshot()
    per_round = values.mean(axis=0)
    for row, p in enumerate([1.0, 0.0, -1.0, 0.5, -3.0]):
        assert math.isclose(snapshot.welfare[row], p_mean(per_round, p), rel_tol=1e-12)
        for r in range(5):  # influence is the derivative of the welfare in the weight of a run
            step = 1e-6
            weights = np.full(5, (1 - step) / 5)
            weights[r] += step
            moved = p_mean(weights @ values, p)
            assert math.isclose(snapshot.influence[row, r], (moved - snapshot.welfare[row]) / step, abs_tol=2e-5)
    assert np.allclose(snapshot.log_runs, np.log(values).mean(axis=1))


def test_intervals_and_rounds_give_the_same_tally():
    rng = np.random.default_rng(1)
    means, ends, codes, rounds = np.array([0.2, 0.7]), [], [], np.zeros((4, 500), np.int32)
    for r in range(4):
        cuts = np.unique(np.append(rng.integers(1, 500, 20), 500))
        arms = rng.integers(0, 3, len(cuts)).astype(np.int32)
        ends.append(cuts)
        codes.append(arms)
        rounds[r] = np.repeat(arms, np.diff(np.append(0, cuts)))
    powers = [1.0, 0.0, -2.0]
    merged = merge(ends, codes, Welfare(means, np.log(means), powers, 4), [17, 300, 500])
    plain = Welfare(means, np.log(means), powers, 4)
    plain.add(rounds, np.ones(500, np.int64))
    assert np.allclose(merged[-1].welfare, plain.snapshot().welfare)
    assert np.allclose(merged[-1].influence, plain.snapshot().influence)
    assert np.isclose(merged[-1].bias, plain.snapshot().bias)
    assert [snapshot.rounds for snapshot in merged] == [17, 300, 500]


def test_tally_in_logarithms_where_means_underflow():
    logs = np.array([-1693.0, 0.0])
    tally = Welfare(np.exp(logs), logs, [1.0, 0.0, -1.0], 2)
    codes = np.array([[0, 1, 1, 0], [0, 1, 0, 2]], np.int32)  # round 0: all runs on the hopeless arm
    tally.add(codes, np.ones(4, np.int64))
    snapshot = tally.snapshot()
    rounds = [-1693.0, 0.0, math.log(0.5), math.log(0.25)]
    assert math.isclose(math.log(snapshot.welfare[1]), sum(rounds) / 4, rel_tol=1e-12)
    assert math.isclose(snapshot.welfare[0], (0 + 1 + 0.5 + 0.25) / 4)
    assert snapshot.welfare[2] == math.exp(log_p_mean(rounds, -1.0))
    assert np.isfinite(snapshot.influence).all()


def test_correction_removes_the_bias_of_few_runs():
    """Rounds with two equally likely values, where the truth is known: the correction must close most of the gap."""
    means, rng = np.array([0.2, 1.0]), np.random.default_rng(5)
    truth, plain, corrected = math.log(0.6), [], []
    for _ in range(60):
        tally = Welfare(means, np.log(means), [1.0, 0.0], 8)
        tally.add(rng.integers(0, 2, (8, 2000)).astype(np.int32), np.ones(2000, np.int64))
        snapshot = tally.snapshot()
        plain.append(math.log(snapshot.welfare[1]) - truth)
        corrected.append(plain[-1] + snapshot.bias)
    assert np.mean(plain) < -0.025
    assert abs(np.mean(corrected)) < 0.2 * abs(np.mean(plain))


def test_jackknife_std_matches_repetition():
    """The reported standard error against the spread of independent repetitions, within 25 %."""
    values, errors = [], []
    for seed in range(40):
        metrics = run(policy={"name": "adap-ucb", "epsilon": 1.0}, runs=12, seed=seed, checkpoints=[2000])["metrics"]
        values.append(metrics["nash_regret"][0])
        errors.append(metrics["nash_regret_std"][0] / math.sqrt(12))
    assert abs(np.mean(errors) / np.std(values, ddof=1) - 1) < 0.25


@pytest.mark.parametrize("policy", [POLICIES[2], POLICIES[7]], ids=["rounds", "episodes"])
def test_same_seed_same_result_and_other_seed_other_result(policy):
    first, second = run(policy=policy, seed=3), run(policy=policy, seed=3)
    assert first["metrics"] == second["metrics"]
    assert first["metrics"] != run(policy=policy, seed=4)["metrics"]


def test_a_longer_run_repeats_the_shorter_one():
    short = run(policy={"name": "private-nash", "epsilon": 1.0}, rounds=500, checkpoints=[500])["metrics"]
    long = run(policy={"name": "private-nash", "epsilon": 1.0}, rounds=2000, checkpoints=[500, 2000])["metrics"]
    assert short["nash_regret"][0] == long["nash_regret"][0]


def test_secure_noise_runs_the_step_api():
    result = run(policy={"name": "private-nash", "epsilon": 1.0}, noise="secure", rounds=60, runs=2)
    assert result["meta"]["simulated"] is False
    assert result["metrics"]["releases"] > 0
    assert result["metrics"]["spent"] == {"epsilon": 1.0}


@pytest.mark.parametrize("policy", [p for p in POLICIES if p["name"] != "random"], ids=lambda table: table["name"])
def test_one_arm_and_fewer_rounds_than_arms(policy):
    one = run(policy=policy, environment={"name": "bernoulli", "means": [0.3]}, rounds=40, runs=2)
    assert np.allclose(one["metrics"]["nash_regret"], 0, atol=1e-12)
    few = run(policy=policy, environment={"name": "bernoulli", "arms": 50}, rounds=7, runs=2)
    assert few["metrics"]["nash_regret"][-1] > 0


@pytest.mark.parametrize("name", ["adap-ucb", "gdp-ncb", "ldp-ncb", "ldp-ucb", "private-nash", "local-nash"])
@pytest.mark.parametrize("epsilon", [1e-6, 1e6])
def test_extreme_budgets_run(name, epsilon):
    metrics = run(policy={"name": name, "epsilon": epsilon}, rounds=3000, runs=3)["metrics"]
    assert np.isfinite(metrics["nash_regret"]).all()
    if epsilon > 1 and name in ("private-nash", "local-nash"):
        assert metrics["nash_regret"][-1] < 0.05


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan"), float("inf"), "1", 1e-310, None, True])
def test_bad_budgets_are_refused(epsilon):
    with pytest.raises(SpecError, match="epsilon"):
        run(policy={"name": "private-nash", "epsilon": epsilon})


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"policy": {"name": "gdp-ncb", "epsilon": 1.0, "horizon": 10}}, HorizonError, "fewer rounds"),
        ({"policy": {"name": "gdp-ncb", "epsilon": 1.0, "phase1": "threshold"}}, SpecError, "tau"),
        ({"policy": {"name": "anytime", "inner": {"name": "private-nash", "epsilon": 1.0}}}, SpecError, "no horizon"),
        ({"policy": {"name": "ucb"}, "powers": [1.5]}, SpecError, "at most 1"),
        ({"policy": {"name": "ucb", "arms": 4}}, SpecError, "arms"),
        ({"policy": {"name": "ucb"}, "environment": {"name": "bernoulli", "means": []}}, SpecError, "no arms"),
        ({"policy": {"name": "ucb"}, "environment": {"name": "bernoulli", "means": [1.5]}}, SpecError, "out of range"),
        ({"policy": {"name": "ucb"}, "environment": {"name": "table", "rewards": [[1.0]]}}, HorizonError, "recorded"),
        ({"policy": {"name": "ucb"}, "environment": {"name": "table"}}, SpecError, "file"),
    ],
)
def test_bad_specs_are_refused(changes, error, words):
    with pytest.raises(error, match=words):
        run(**changes)


def test_table_rewards_out_of_range_are_clipped_or_refused():
    world = {"name": "table", "rewards": [[0.0, 1.7]] * 5, "order": "resampled"}
    assert run(policy={"name": "ucb"}, environment=world)["metrics"]["best_mean"] == 1.0
    with pytest.raises(InputError) as problem:
        run(policy={"name": "ucb", "strict": True}, environment=world)
    assert "1.7" not in str(problem.value)


def test_tables_are_read_from_files(tmp_path):
    np.save(tmp_path / "t.npy", np.full((4, 2), 0.5))
    np.savetxt(tmp_path / "t.csv", np.full((4, 3), 0.5), delimiter=",")
    for name, arms in (("t.npy", 2), ("t.csv", 3)):
        result = run(policy={"name": "ucb"}, environment={"name": "table", "file": str(tmp_path / name)}, rounds=4)
        assert len(result["metrics"]["pull_share"]) == arms
    with pytest.raises(FairveilError, match="no such file"):
        run(policy={"name": "ucb"}, environment={"name": "table", "file": str(tmp_path / "absent.csv")})
