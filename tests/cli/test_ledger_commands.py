"""`fairveil ledger show` and `verify`: what they print, as text and JSON, and their exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairveil import cli
from fairveil.ledger import Ledger, Limit
from fairveil.privacy.events import ParallelEvent, PureEvent

run = CliRunner().invoke


@pytest.fixture
def place(ledger_path, tmp_path):
    path, anchor = ledger_path, tmp_path / "anchor.json"
    with Ledger.create(path, limit=Limit.approximate(1.0, 1e-5), anchor=anchor, unit="one visitor") as ledger:
        ledger.spend("episodes", ParallelEvent(PureEvent(0.1)))
        ledger.release("episode-0", lambda noise: 1.5, account="episodes")
    return path, anchor


def test_show_lists_what_was_spent_and_on_what(place):
    path, anchor = place
    done = run(cli.app, ["ledger", "show", str(path), "--anchor", str(anchor)])
    assert done.exit_code == 0
    for words in (
        "one visitor",
        "(1, 1e-05)-DP in total",
        "1 published",
        "episode-0",
        "parallel",
        "matches at entry 3",
    ):
        assert words in done.output


def test_show_as_json_and_with_fewer_entries(place):
    path, _ = place
    found = json.loads(run(cli.app, ["ledger", "show", str(path), "--json", "--last", "2"]).output)
    assert [entry["kind"] for entry in found["last"]] == ["reserve", "publish"]
    assert found["entries"] == 4
    told = [{key: fact for key, fact in entry.items() if key not in ("time", "hash")} for entry in found["last"]]
    assert "1.5" not in json.dumps(told)  # values stay in the ledger
    assert json.loads(run(cli.app, ["ledger", "show", str(path), "--json", "--last", "0"]).output)["last"] == []


def test_verify_with_and_without_the_anchor(place):
    path, anchor = place
    with_anchor = run(cli.app, ["ledger", "verify", str(path), "--anchor", str(anchor)])
    assert with_anchor.exit_code == 0
    assert "intact: 4 entries" in with_anchor.output
    without = run(cli.app, ["ledger", "verify", str(path)])
    assert "cannot be detected" in without.output
    found = json.loads(run(cli.app, ["ledger", "verify", str(path), "--json", "--anchor", str(anchor)]).output)
    assert found["verdict"] == "intact"
    assert found["anchor"] == "matches at entry 3"


def test_a_ledger_on_a_server_is_named(place, capsys):
    path, anchor = place
    if isinstance(path, Path):
        with pytest.raises(SystemExit):
            cli.main(["ledger", "verify", str(path), "--ledger", "other"])
        assert "a file holds one ledger" in capsys.readouterr().err
        return
    url = path.partition("#")[0]
    done = run(cli.app, ["ledger", "verify", url, "--ledger", "ledger", "--anchor", str(anchor)])
    assert "intact: 4 entries" in done.output
    for options, words in (["--ledger", "other"], "no ledger of this name"), ([], "has a name"):
        with pytest.raises(SystemExit):
            cli.main(["ledger", "show", url, *options])
        assert words in capsys.readouterr().err


def test_an_older_copy_is_exit_code_5(tmp_path, capsys):
    path, anchor = tmp_path / "ledger.db", tmp_path / "anchor.json"
    with Ledger.create(path, limit=Limit.pure(1.0), anchor=anchor) as ledger:
        ledger.spend("episodes", ParallelEvent(PureEvent(0.1)))
    shutil.copy(path, tmp_path / "old.db")
    with Ledger.open(path, anchor=anchor) as ledger:
        ledger.release("episode-1", lambda noise: 2.5, account="episodes")
    shutil.copy(tmp_path / "old.db", path)
    with pytest.raises(SystemExit) as stopped:
        cli.main(["ledger", "verify", str(path), "--anchor", str(anchor), "--json"])
    assert stopped.value.code == 5
    printed = capsys.readouterr()
    assert json.loads(printed.out)["error"] == "ledger-tampered"
    assert "set back" in printed.err
