"""Missing values in people's tables: what is declared in public is used, everything else is refused; header blanks."""

from __future__ import annotations

import tomllib

import numpy as np
import pandas as pd
import pytest

import fairveil
from fairveil import registry
from fairveil.classify import PublicEncoder
from fairveil.cli import main
from fairveil.configuration import describe
from fairveil.consensus.tables import read_rows
from fairveil.data.frames import Frame
from fairveil.data.public_columns import PublicColumn, encode_rows
from fairveil.data.schema import Column, Dataset
from fairveil.errors import InputError, SpecError

YEARS = Column("years", "continuous", low=0, high=40, missing=10)
JOB = Column("job", "category", categories=("a", "b", "missing"), missing="missing")
ROWS = "years,job,sex,rating\n3,a,f,1\n,b,m,4\n20,,f,9\n40,a,m,5\n"
COLUMNS = {
    "years": {"low": 0, "high": 40, "missing": 10},
    "job": {"values": ["a", "b", "missing"], "missing": "missing"},
    "sex": {"values": ["f", "m"]},
}


def people(file, columns):
    table = {"name": "people", "file": str(file), "outcome": "rating", "low": 0.0, "high": 10.0, "groups_by": ["sex"]}
    return registry.build("environment", {**table, "columns": columns}, "environment")


def without(columns, name):
    return {**columns, name: {key: value for key, value in columns[name].items() if key != "missing"}}


@pytest.mark.parametrize("empty", [np.nan, None, "", pd.NA])
def test_an_encoder_uses_what_is_declared(empty):
    rows = pd.DataFrame({"years": [20.0, empty], "job": ["b", empty]}, dtype=object)
    encoded = PublicEncoder([YEARS, JOB], bins=0).fit_transform(rows)
    assert encoded.tolist() == [[0.5, 0, 1, 0], [0.25, 0, 0, 1]]
    bare = [Column("years", "continuous", low=0, high=40), Column("job", "category", categories=("a", "b"))]
    for column in bare:
        with pytest.raises((InputError, TypeError, ValueError)) as refused:
            PublicEncoder([column], bins=0).fit_transform(rows)
        if isinstance(refused.value, InputError):
            assert "missing=" in refused.value.fix


def test_a_data_set_is_filled_once_and_everywhere(tmp_path):
    target = Column("paid", "category", categories=("no", "yes"))
    made = Dataset("own", {"years": np.array([np.nan]), "job": np.array([None]), "paid": np.array(["yes"])},
                   (YEARS, JOB, target), "paid")  # fmt: skip
    assert made["years"].tolist() == [10]
    assert made["job"].tolist() == ["missing"]
    (tmp_path / "node.csv").write_text("years,job,paid\n,b,yes\n20,,no\n")
    rows, nonzeros = read_rows(tmp_path / "node.csv", (YEARS, JOB, target), "paid")
    assert nonzeros == 2
    assert len(rows) == 2


@pytest.mark.parametrize("wrong", [41, "10", True])
def test_a_fill_is_something_that_the_column_can_hold(wrong):
    with pytest.raises(SpecError, match="can hold"):
        Column("years", "continuous", low=0, high=40, missing=wrong)
    with pytest.raises(SpecError, match="can hold"):
        PublicColumn(low=0, high=40, missing=wrong)
    with pytest.raises(SpecError, match="can hold"):
        PublicColumn(values=["a", "b"], missing=wrong)


def test_people_with_empty_cells(tmp_path):
    (tmp_path / "people.csv").write_text(ROWS)
    (tmp_path / "full.csv").write_text(ROWS.replace("\n,b", "\n10,b").replace("20,,", "20,missing,"))
    gaps, full = (people(tmp_path / name, COLUMNS) for name in ("people.csv", "full.csv"))
    assert np.array_equal(encode_rows(gaps.columns, gaps._frame), encode_rows(full.columns, full._frame))
    for name in ("years", "job"):
        with pytest.raises(InputError, match="a cell is empty") as refused:
            people(tmp_path / "people.csv", without(COLUMNS, name))
        assert "missing = " in refused.value.fix
    for written in ("twenty", "NaN", "NA"):
        (tmp_path / "people.csv").write_text(ROWS.replace("20,,", f"{written},,"))
        with pytest.raises(InputError, match="not what the column holds") as refused:
            people(tmp_path / "people.csv", COLUMNS)
        assert "leave the cell of a missing value empty" in refused.value.fix


def test_a_schema_that_declares_nothing_keeps_its_fingerprint(tmp_path):
    (tmp_path / "people.csv").write_text(ROWS.replace("\n,b", "\n10,b").replace("20,,", "20,a,"))
    old = people(tmp_path / "people.csv", without(without(COLUMNS, "years"), "job"))
    keys = {"low", "high", "typical", "spread", "values", "shares"}
    assert {frozenset(column) for column in describe(old)["columns"].values()} == {frozenset(keys)}
    new = describe(people(tmp_path / "people.csv", COLUMNS))["columns"]
    assert new["years"]["missing"] == 10
    assert set(new["sex"]) == keys


def test_a_draft_of_a_log_with_empty_outcomes_says_that_they_never_came(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{'ab'[k % 2]},{'' if k % 7 == 0 else k % 3}" for k in range(900)]
    (tmp_path / "trial.csv").write_text("\n".join(["drug,days", *rows]))
    with pytest.raises(SystemExit) as ended:
        main(["schema", "trial.csv", "--outcome", "days", "--out", "trial.toml"])
    assert ended.value.code == 0
    text = (tmp_path / "trial.toml").read_text()
    spec = tomllib.loads(text)
    assert spec["environment"]["missing"] == "never"
    assert (spec["environment"]["log"]["low"], spec["environment"]["log"]["high"]) == (0, 2)
    replay = fairveil.run(spec)["metrics"]["replay"]
    assert replay["rows_without_outcome"] > 0
    (tmp_path / "full.csv").write_text("drug,days\n" + "a,1\nb,0\n" * 200)
    with pytest.raises(SystemExit):
        main(["schema", "full.csv", "--outcome", "days", "--out", "full.toml"])
    assert "never" not in (tmp_path / "full.toml").read_text()


def test_people_without_an_outcome_are_refused_with_what_can_be_done(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("sex,age,rating\n" + "f,30,1\nm,40,\n" * 20)
    with pytest.raises(SystemExit) as ended:
        main(["schema", "people.csv", "--outcome", "rating", "--group", "sex", "--out", "people.toml"])
    assert ended.value.code
    assert "speaks of people with an outcome" in capsys.readouterr().err
    (tmp_path / "none.csv").write_text("drug,days\n" + "a,\nb,\n" * 20)
    with pytest.raises(SystemExit) as ended:
        main(["schema", "none.csv", "--outcome", "days", "--out", "none.toml"])
    assert ended.value.code
    assert "no cell of the outcome is filled" in capsys.readouterr().err


def test_a_draft_of_a_table_with_gaps_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(ROWS)
    with pytest.raises(SystemExit) as ended:
        main(["schema", "people.csv", "--outcome", "rating", "--group", "sex", "--out", "people.toml"])
    assert ended.value.code == 0
    spec = tomllib.loads((tmp_path / "people.toml").read_text())
    assert spec["environment"]["columns"]["job"] == {"values": ["a", "b", "missing"], "missing": "missing"}
    assert 0 <= spec["environment"]["columns"]["years"]["missing"] <= 40
    assert fairveil.run({**spec, "rounds": 20})["metrics"]


def test_blanks_around_names_of_columns_are_no_matter():
    rows = pd.DataFrame({" years ": [20.0], "job": ["b"]})
    assert PublicEncoder([YEARS, JOB], bins=0).fit_transform(rows).tolist() == [[0.5, 0, 1, 0]]
    frame = Frame({" years ": np.array([20.0])}, "table")
    assert frame.numbers("years").tolist() == frame.numbers(" years ").tolist() == [20.0]
    with pytest.raises(SpecError, match="no such column"):
        frame.numbers("year")
