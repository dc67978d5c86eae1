"""Quotes: what is known before any data, from public numbers and a declared guess."""

import json
import math

import pytest
from typer.testing import CliRunner

from fairveil import registry
from fairveil.bandits.forecast import forecast
from fairveil.cli import app
from fairveil.proof.laws.policies import fitting

SPEC = {
    "task": "bandit",
    "rounds": 400,
    "policy": {"name": "private-nash", "epsilon": 0.5},
    "environment": {"name": "bernoulli", "means": [0.3, 0.6]},
}
ROWS = [[float(t % 3 == 0), float(t % 2 == 0)] for t in range(400)]


def test_every_private_policy_quotes_its_noise_and_its_limit():
    for entry in registry.entries("policy"):
        policy, _ = fitting(entry.name)
        promise = policy.guarantee()
        if promise is None or not promise.established or not entry.target.__module__.startswith("fairveil."):
            continue
        found = policy.quote(1_000)
        assert found.noise, entry.name
        assert all(one.std > 0 for one in found.noise), entry.name
        assert found.limit.startswith("none") == policy.local, entry.name
        assert json.dumps(found.to_dict(), allow_nan=False)


def test_a_quote_says_how_much_outcomes_are_taken_to_vary(tmp_path):
    world = {"name": "exposure", "agents": 1, "actions": 3, "dimension": 2}
    policy = {"name": "batched-priv-fairx", "epsilon": 2.0, "delta": 1e-5, "reward_std": 0.25}
    (tmp_path / "shop.json").write_text(json.dumps({**SPEC, "policy": policy, "environment": world}))
    told = CliRunner().invoke(app, ["quote", str(tmp_path / "shop.json"), "--runs", "0"], env={"COLUMNS": "200"}).output
    assert "assumes: outcomes are taken to vary by a standard deviation of 0.25 (reward_std)" in told
    assert forecast(SPEC, runs=0).assumes == ()


def test_noise_is_below_the_sampling_error_from_eight_over_epsilon_squared_on():
    policy = registry.build("policy", {"name": "private-nash", "arms": 2, "epsilon": 0.5}, "policy")
    [noise] = policy.quote().noise
    assert noise.std == pytest.approx(math.sqrt(2) / 0.5)
    assert noise.rounds == 32
    assert noise.std <= 0.5 * math.sqrt(noise.rounds) + 1e-9


def test_warnings_name_what_to_think_about():
    table = {"name": "batched-priv-fairx", "agents": 3, "dimension": 2, "horizon": 100, "epsilon": 9.0, "delta": 0.01}
    policy = registry.build("policy", table, "policy")
    words = " ".join(policy.quote(500, people=5_000).warnings)
    assert "above one over 5,000 people" in words
    assert "next to nothing" in words
    assert "built for 100 rounds" in words
    late = forecast({**SPEC, "feedback": {"delay": 500}}, runs=0)
    assert any("may learn nothing" in warning for warning in late.warnings)
    noisy = forecast({**SPEC, "policy": {"name": "private-nash", "epsilon": 0.1}, "rounds": 300}, runs=0)
    assert any("stays above the sampling error" in warning for warning in noisy.warnings)
    bare = forecast({**SPEC, "policy": {"name": "ucb"}}, runs=0)
    assert "no privacy promise" in bare.warnings[0]


def test_people_s_data_are_replaced_by_a_guess():
    recorded = {**SPEC, "environment": {"name": "table", "rewards": ROWS}}
    found = forecast(recorded, runs=3)
    assert "guess" in found.expected["guess"]
    assert list(found.expected["half_widths"]) == ["arm 0", "arm 1"]
    told = forecast(recorded, runs=3, guess={"name": "bernoulli", "means": [0.0, 1.0]})
    assert told.expected["average_regret"] != found.expected["average_regret"]


def test_half_widths_have_the_names_of_the_arms(tmp_path):
    (tmp_path / "log.csv").write_text("drug,well\n" + "usual care,1\nnew drug,0\n" * 300)
    log = {"file": str(tmp_path / "log.csv"), "arm": "drug", "arms": ["usual care", "new drug"], "outcome": "well"}
    found = forecast({**SPEC, "rounds": 100, "environment": {"name": "logged", "log": log}}, runs=3)
    assert list(found.expected["half_widths"]) == ["usual care", "new drug"]


def test_the_command_prints_a_table_or_json(tmp_path):
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(SPEC))
    run = CliRunner()
    shown = run.invoke(app, ["quote", str(file), "--runs", "2", "--people", "100"])
    assert shown.exit_code == 0, shown.output
    assert "smallest ledger limit: epsilon 0.5" in shown.output
    data = json.loads(run.invoke(app, ["quote", str(file), "--runs", "2", "--json"]).stdout)
    assert data["expected"]["nash_regret"] > 0
