"""Every mechanism stands at 100,000 trials, every planted twin is caught; by function, by spec and by command."""

from __future__ import annotations

import json
import math

import pytest

from fairveil import registry
from fairveil.errors import SpecError
from fairveil.privacy.events import ApproximateEvent, GaussianEvent, NothingEvent, ParallelEvent, PureEvent, ZcdpEvent
from fairveil.proof import audit, find_pair
from fairveil.proof.mutants.mutant import COPIES
from fairveil.proof.pairs import claim_of, sample_target
from fairveil.running.runner import run

registry.load("mutant")
TWINS = {name: made for name, made in COPIES.items() if name.startswith("mechanism:")}
MECHANISMS = registry.names("mechanism")
BUDGETS = [0.1, 1.0, 5.0]


def table(name: str, epsilon: float) -> dict:
    sample = sample_target(f"mechanism:{name}")
    assert sample is not None
    return {**sample, "epsilon": epsilon}


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_has_a_pair_and_an_example(name):
    thing, pair = find_pair(table(name, 1.0))
    assert thing.name == name
    assert pair.epsilon == pytest.approx(1.0, rel=1e-6)
    assert thing.guarantee().epsilon == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("epsilon", BUDGETS)
@pytest.mark.parametrize("name", MECHANISMS)
def test_sound_mechanisms_stand(name, epsilon):
    _, pair = find_pair(table(name, epsilon))
    finding = audit(pair, trials=100_000, seed=0)
    assert finding.epsilon_lower <= epsilon
    assert finding.verdict == "consistent"


MONOTONE = [
    {"name": "exponential", "sensitivity": 1.0},
    {"name": "permute-and-flip", "sensitivity": 1.0},
    {"name": "report-noisy-max", "sensitivity": 1.0},
    {"name": "above-threshold", "sensitivity": 1.0, "threshold": 3.0},
]


@pytest.mark.parametrize("epsilon", BUDGETS)
@pytest.mark.parametrize("target", MONOTONE, ids=lambda t: t["name"])
def test_monotone_versions_stand_and_are_tight(target, epsilon):
    _, pair = find_pair({**target, "epsilon": epsilon, "monotone": True})
    finding = audit(pair, trials=100_000, seed=0)
    assert finding.epsilon_lower <= epsilon
    assert epsilon < 1.0 or finding.epsilon_lower > 0.3 * epsilon


VECTORS = [
    {"name": "laplace", "sensitivity": 0.25, "dimension": 3},
    {"name": "gaussian", "sensitivity": 8.0, "delta": 1e-3, "dimension": 5},
    {"name": "discrete-laplace", "sensitivity": 3, "dimension": 2},
    {"name": "discrete-gaussian", "sensitivity": 2.0, "delta": 1e-3, "dimension": 2},
    {"name": "norm-gamma", "sensitivity": 0.1, "dimension": 5},
    {"name": "randomized-response", "categories": 6},
]


@pytest.mark.parametrize("target", VECTORS, ids=lambda t: t["name"])
def test_other_shapes_stand(target):
    _, pair = find_pair({**target, "epsilon": 1.0})
    finding = audit(pair, trials=40_000, seed=1)
    assert 0.2 < finding.epsilon_lower <= 1.0


@pytest.mark.parametrize("epsilon", BUDGETS)
@pytest.mark.parametrize("twin", TWINS)
def test_every_broken_twin_is_caught(twin, epsilon):
    finding = audit(TWINS[twin](epsilon), trials=100_000, confidence=1 - 1e-6)
    assert finding.violated
    ratios = [finding.epsilon_lower / epsilon, finding.finer.lower / finding.finer.claimed if finding.finer else 0.0]
    assert max(ratios) > 1.2


def test_claims_of_events():
    assert claim_of(ParallelEvent(PureEvent(0.5))) == (0.5, 0.0)
    assert claim_of(ApproximateEvent(0.5, 1e-6)) == (0.5, 1e-6)
    assert claim_of(ZcdpEvent(0.5), 1e-6)[1] == 1e-6
    assert claim_of(GaussianEvent(1.0), 1e-5)[0] == pytest.approx(4.3772, abs=1e-3)
    with pytest.raises(SpecError, match="no single claim"):
        claim_of(NothingEvent())


# By spec ------------------------------------------------------------------------------------------------------------

SPEC = {"task": "audit", "target": {"kind": "mechanism", "name": "laplace", "sensitivity": 1.0, "epsilon": 1.0}}


def test_the_audit_task_reports_what_it_measured():
    result = run({**SPEC, "trials": 50_000, "seed": 3})
    metrics = result["metrics"]
    assert metrics["verdict"] == "consistent"
    assert 0.9 < metrics["epsilon_lower"] <= 1.0
    assert metrics["pair"]
    assert metrics["statistic"].startswith("noisy value")
    assert result["spec"]["claimed"] == {"epsilon": 1.0, "delta": 0.0}
    assert result["spec"]["target"]["dimension"] == 1  # defaults are filled
    assert result["guarantee"]["epsilon"] == 1.0
    assert result["meta"]["simulated"] is True
    assert run(result["spec"])["metrics"] == metrics


def test_the_audit_task_breaks_a_false_claim():
    result = run({**SPEC, "claimed": {"epsilon": 0.5}, "trials": 20_000})
    assert result["metrics"]["verdict"] == "violated"
    assert result["metrics"]["claimed"] == {"epsilon": 0.5, "delta": 0.0}


def test_the_audit_task_is_the_same_on_every_engine():
    spec = {**SPEC, "trials": 60_000, "seed": 9}
    serial, parallel = run(spec), run(spec, engine="processes", workers=2)
    for key in ("spec", "guarantee", "metrics", "series"):
        assert serial[key] == parallel[key]


def test_the_audit_task_takes_secure_noise():
    result = run({**SPEC, "noise": "secure", "trials": 2000, "confidence": 0.999999})
    assert result["meta"]["simulated"] is False
    assert result["metrics"]["verdict"] == "consistent"


@pytest.mark.parametrize(
    "change, path",
    [
        ({"target": {"kind": "mechanism"}}, "target.name"),
        ({"target": {"kind": "mechanism", "name": "lapalce"}}, "target"),
        (
            {"target": {"kind": "mechanism", "name": "laplace", "epsilon": 1.0, "sensitivity": -1.0}},
            "target.sensitivity",
        ),
        (
            {"target": {"kind": "mechanism", "name": "laplace", "epsilon": 1.0, "sensitivity": 1.0, "pair": "x"}},
            "target",
        ),
        ({"claimed": {"epsilon": math.nan}}, "claimed.epsilon"),
        ({"claimed": {"epsilon": 1.0, "delta": 1.0}}, "claimed.delta"),
        ({"claimed": {"epsilon": 1.0, "rho": 1.0}}, "claimed.rho"),
        ({"trials": 0}, "trials"),
        ({"confidence": 1.0}, "confidence"),
        ({"trails": 5}, "trails"),
    ],
)
def test_wrong_specs_name_the_field(change, path):
    with pytest.raises(SpecError) as caught:
        run({**SPEC, **change})
    assert caught.value.path == path


def test_the_command_audits_names_and_files(tmp_path):
    from typer.testing import CliRunner

    from fairveil.cli import app
    from fairveil.errors import AuditViolation

    shell = CliRunner()
    done = shell.invoke(app, ["audit", "laplace", "--trials", "5000", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["metrics"]["verdict"] == "consistent"
    shown = shell.invoke(app, ["audit", "mechanism:one-bit", "--trials", "5000", "--epsilon", "0.5"])
    assert "consistent" in shown.output
    assert "claimed: epsilon 0.5" in shown.output
    file = tmp_path / "audit.json"
    file.write_text(json.dumps({**SPEC, "claimed": {"epsilon": 0.1}}))
    broken = shell.invoke(app, ["audit", str(file), "--trials", "20000"])
    assert isinstance(broken.exception, AuditViolation)
    assert broken.exception.exit_code == 6
    unknown = shell.invoke(app, ["audit", "lapalce"])
    assert isinstance(unknown.exception, SpecError)
    assert "laplace" in str(unknown.exception)
    file.write_text(json.dumps({"task": "bandit"}))
    assert isinstance(shell.invoke(app, ["audit", str(file)]).exception, SpecError)
