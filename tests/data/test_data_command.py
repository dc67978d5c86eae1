from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from fairveil.cli.data import app
from fairveil.errors import DataError


@pytest.fixture
def empty(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("FAIRVEIL_DATA", raising=False)
    monkeypatch.setenv("FAIRVEIL_OFFLINE", "1")


def test_list_names_data_sets_and_generators(empty) -> None:
    rows = {row["name"]: row for row in json.loads(CliRunner().invoke(app, ["list", "--json"]).stdout)}
    assert rows["adult"]["files"] == "not here"
    assert rows["synthetic-census"]["kind"] == "generator"
    assert CliRunner().invoke(app, ["list"]).exit_code == 0


def test_verify_and_fetch_fail_clearly_without_files(empty) -> None:
    everything = CliRunner().invoke(app, ["verify", "--json"])
    assert everything.exit_code == 0
    assert set(json.loads(everything.stdout)["adult"].values()) == {"missing"}
    for command in (["verify", "adult"], ["fetch", "adult"], ["fetch"]):
        result = CliRunner().invoke(app, command)
        assert isinstance(result.exception, DataError)


def test_a_damaged_file_is_reported(empty, tmp_path) -> None:
    place = tmp_path / "fairveil" / "data" / "fico" / "totals.csv"
    place.parent.mkdir(parents=True)
    place.write_text("nonsense")
    result = CliRunner().invoke(app, ["verify", "--json"])
    assert isinstance(result.exception, DataError)
    assert "fico/totals.csv" in str(result.exception)
