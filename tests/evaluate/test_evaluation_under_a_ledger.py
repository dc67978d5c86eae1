"""`fairveil run --ledger` of a private evaluation: charged, drawn once, stored; studies are refused."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import fairveil
from fairveil.cli import app
from fairveil.errors import BudgetError, PrivacyError, SpecError
from fairveil.evaluate import PrivateValue
from fairveil.ledger import Ledger, Limit, ReleaseLost
from fairveil.ledger.account import releases_into
from fairveil.proof.mutants import method

ROWS = 60


@pytest.fixture
def spec(tmp_path):
    return {
        "task": "evaluate", "noise": "secure", "epsilon": 1.0, "clip": 2.0,
        "log": {"file": write_log(tmp_path), "propensity": 0.5, "arms": ["a", "b"]},
        "target": {"name": "arm", "arm": "a"},
    }  # fmt: skip


def write_log(folder, rows=ROWS):
    lines = [f"{'ab'[row % 2]},{row % 3 % 2}" for row in range(rows)]
    (folder / "log.csv").write_text("\n".join(["arm,outcome", *lines]) + "\n")
    return str(folder / "log.csv")


@pytest.fixture
def command(tmp_path):
    def run(spec, *more):
        (tmp_path / "spec.json").write_text(json.dumps(spec))
        asked = ["run", str(tmp_path / "spec.json"), "--ledger", str(tmp_path / "ledger.db"), "--json", *more]
        return CliRunner().invoke(app, asked)

    return run


def test_the_command_makes_a_ledger_charges_it_once_and_repeats_what_is_stored(spec, command, tmp_path):
    first, again = command(spec), command(spec)
    assert first.exit_code == again.exit_code == 0, first.output
    found = json.loads(first.output)["metrics"]
    assert found == json.loads(again.output)["metrics"]
    assert set(found) == {"estimates", "sums"}
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        assert ledger.limit.same(Limit.pure(1.0))
        assert ledger.spent.units == 1_000_000
        [block] = [entry["name"] for entry in ledger.entries() if entry["kind"] == "publish"]
        [account] = [entry for entry in ledger.entries() if entry["kind"] == "account"]
        assert block == f"{account['name']}/sums"
        assert account["name"] == f"evaluate-{account['holder']}"
        assert account["releases"] == 1
        stored = ledger.value(block)
    assert stored["sums"].tolist() == found["sums"]
    assert stored["rows"] == ROWS


def test_another_question_costs_its_own_budget(spec, tmp_path):
    with Ledger.create(tmp_path / "two.db", limit=Limit.pure(2.0)) as ledger, releases_into(ledger):
        values = [fairveil.run({**spec, **change})["metrics"]["sums"] for change in ({}, {"seed": 1}, {})]
        assert values[0] == values[2] != values[1]
        with pytest.raises(BudgetError):
            fairveil.run({**spec, "target": {"name": "uniform"}})


def test_a_log_that_has_grown_is_not_answered_from_storage(spec, tmp_path):
    with Ledger.create(tmp_path / "one.db", limit=Limit.pure(1.0)) as ledger, releases_into(ledger):
        fairveil.run(spec)
        write_log(tmp_path, ROWS + 1)
        with pytest.raises(PrivacyError, match="another number of rows") as refused:
            fairveil.run(spec)
        assert str(ROWS) in refused.value.allowed


def test_a_lost_evaluation_is_told(spec, tmp_path):
    def dies(self, weights, outcomes, noise):
        raise ZeroDivisionError

    with Ledger.create(tmp_path / "lost.db", limit=Limit.pure(1.0)) as ledger, releases_into(ledger):
        with method(PrivateValue, "release", lambda _: dies), pytest.raises(ZeroDivisionError):
            fairveil.run(spec)
        with pytest.raises(ReleaseLost):
            fairveil.run(spec)
        assert ledger.remaining.units == 0


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"noise": "seeded"}, "noise"),
        ({"epsilon": None, "clip": None}, "epsilon"),
        ({"runs": 2}, "runs"),
        (
            {"log": {"dataset": {"name": "synthetic-adult", "seed": 1}, "propensity": 0.5, "arms": ["a", "b"]}},
            "log.dataset",
        ),
    ],
)
def test_what_a_ledger_cannot_stand_for_is_refused_before_a_ledger_is_made(spec, command, tmp_path, change, path):
    refused = command({**spec, **change})
    assert isinstance(refused.exception, SystemExit | SpecError | PrivacyError), refused.output
    assert refused.exit_code != 0
    assert not (tmp_path / "ledger.db").exists()
    with Ledger.create(tmp_path / "open.db", limit=Limit.pure(1.0)) as ledger, releases_into(ledger):
        with pytest.raises((SpecError, PrivacyError)) as caught:
            fairveil.run({**spec, **change})
        assert caught.value.path == path
        assert ledger.spent.units == 0


def test_only_decisions_and_evaluations_run_with_a_ledger(command):
    refused = command({"task": "classify"})
    assert refused.exit_code != 0
    assert refused.exception is not None


def test_without_a_ledger_nothing_has_changed(spec):
    found = fairveil.run({**spec, "noise": "seeded", "seed": 3})
    assert found["metrics"] == fairveil.run({**spec, "noise": "seeded", "seed": 3})["metrics"]
