"""A user's own files: what can be read, what a mistake is called, what a draft says, where a path starts."""

from __future__ import annotations

import json
import re
import tomllib

import numpy as np
import pytest

import fairveil
from fairveil.cli import main
from fairveil.data.draft import Roles, draft
from fairveil.data.frames import Frame
from fairveil.data.tables import read_frame
from fairveil.errors import DataError, InputError, SpecError

CELLS = [["drug", "well"], ["a", "1"], ["b", "0"], ["a", "0"]]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_separators_and_byte_order_marks(tmp_path, separator, start):
    (tmp_path / "log.csv").write_text(start + "\n".join(separator.join(row) for row in CELLS) + "\n\n")
    frame = read_frame(tmp_path / "log.csv")
    assert frame.names == ("drug", "well")
    assert frame.numbers("well").tolist() == [1, 0, 0]
    assert [frame.place(row) for row in range(3)] == ["line 2", "line 3", "line 4"]


@pytest.mark.parametrize(
    ("content", "header", "names", "rows"),
    [
        ("0.1,0.2\n0.3,0.4\n", None, None, 2),
        ("diet,drug\n0.3,0.4\n", None, ["diet", "drug"], 1),
        ("2019,2020\n0.3,0.4\n", True, ["2019", "2020"], 1),
    ],
)
def test_reward_tables_with_and_without_a_header(tmp_path, content, header, names, rows):
    (tmp_path / "table.csv").write_text(content)
    environment = {"name": "table", "file": str(tmp_path / "table.csv"), "header": header}
    spec = {"task": "bandit", "rounds": rows, "policy": {"name": "random"}, "environment": environment}
    assert fairveil.run(spec)["metrics"].get("arms") == names
    spec["rounds"] += 1
    with pytest.raises(fairveil.FairveilError, match="ends before"):
        fairveil.run(spec)


@pytest.mark.parametrize(
    ("content", "words", "path"),
    [
        (b"diet,drug\n0.1,0.2\n0.3,secret\n", "table.csv, line 3", "drug"),
        (b"0.1,0.2\n0.3,\n", "table.csv, line 2", "2"),
        (b"diet,drug\n0.1,0.2,0.3\n", "line 2", "file"),
        (b"diet,drug\n0.1,0.2\n0.3,caf\xe9\n", "table.csv, line 3.*UTF-8", "file"),
        (b"\x00\x01", "table.csv|no rows|cannot be read", ""),
    ],
)
def test_bad_tables_name_file_line_column_and_no_cell(tmp_path, content, words, path):
    (tmp_path / "table.csv").write_bytes(content)
    environment = {"name": "table", "file": str(tmp_path / "table.csv")}
    with pytest.raises((InputError, DataError), match=words) as caught:
        fairveil.run({"task": "bandit", "rounds": 1, "policy": {"name": "random"}, "environment": environment})
    assert caught.value.path.endswith(path)
    assert "secret" not in str(caught.value)


def test_strict_policies_name_the_line_that_is_out_of_range(tmp_path):
    (tmp_path / "table.csv").write_text("0.1,0.2\n0.3,1.7\n")
    spec = {"task": "bandit", "rounds": 2, "environment": {"name": "table", "file": str(tmp_path / "table.csv")}}
    spec["policy"] = {"name": "private-nash", "epsilon": 1.0, "strict": True}
    with pytest.raises(InputError, match="line 2"):
        fairveil.run(spec)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_in_memory_run_and_leave_no_row_in_the_result(library):
    module = pytest.importorskip(library)
    frame = module.DataFrame({"arm": ["x", "y"] * 300, "outcome": [0.0, 1.0] * 300})
    log = {"file": frame, "propensity": 0.5}
    spec = {"task": "bandit", "rounds": 200, "policy": {"name": "ucb"}, "environment": {"name": "logged", "log": log}}
    result = fairveil.run(spec)
    held = result["spec"]["environment"]["log"]["file"]
    assert held.startswith("table in memory ")
    assert json.dumps(result)
    again = fairveil.run(result["spec"])
    assert again["metrics"] == result["metrics"]
    values = fairveil.run({"task": "evaluate", "log": log, "target": {"name": "uniform"}})["metrics"]
    assert values["estimates"]["clipped-importance"]["value"] == pytest.approx(0.5)


def test_a_table_of_another_process_is_named():
    with pytest.raises(DataError, match="memory of another process"):
        read_frame("table in memory 0123456789abcdef")


def test_parquet_and_gzip(tmp_path):
    import gzip

    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"drug": ["a", "b"], "well": [1, 0]})
    frame.to_parquet(tmp_path / "log.parquet")
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(b"drug,well\na,1\nb,0\n"))
    for name in ("log.parquet", "log.csv.gz"):
        assert read_frame(tmp_path / name).numbers("well").tolist() == [1, 0]


# Drafts ---------------------------------------------------------------------------------------------------------------


def write(path, names, rows):
    path.write_text("\n".join(",".join(map(str, row)) for row in [names, *rows]) + "\n")


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(1)
    drugs = rng.choice(["a", "b"], 900)
    write(tmp_path / "trial.csv", ["drug", "recovered"], zip(drugs, rng.integers(0, 2, 900)))
    rows = [
        (
            k,
            rng.choice(["f", "m"]),
            f"name {k}",
            20 + rng.integers(40),
            rng.choice(["x", "y"]),
            round(rng.random() * 9, 2),
        )
        for k in range(300)
    ]
    write(tmp_path / "staff.csv", ["staff_id", "sex", "name", "age", "team", "rating"], rows)
    write(tmp_path / "rewards.csv", ["p", "q"], rng.random((200, 2)).round(3))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "options", "world"),
    [
        ("trial", [], "logged"),
        ("trial", ["--arm", "drug", "--outcome", "recovered"], "logged"),
        ("staff", [], "people"),
        ("staff", ["--group", "sex", "--group", "team", "--outcome", "rating"], "people"),
        ("rewards", [], "table"),
    ],
)
def test_a_draft_runs_from_another_folder_and_says_that_it_is_not_public(files, capsys, name, options, world):
    """The commands of the guide, with the spec in a folder of its own."""
    spec = files / "studies" / f"{name}.toml"
    with pytest.raises(SystemExit) as ended:
        main(["schema", str(files / f"{name}.csv"), "--out", str(spec), *options])
    assert not ended.value.code
    assert "not public" in capsys.readouterr().err
    text = spec.read_text()
    table = tomllib.loads(text)
    assert table["environment"]["name"] == world
    assert "read off the data" in text or world == "table"
    assert not re.search(r"\S ?# ", text)
    assert "name 7" not in text
    assert "staff_id" not in table["environment"].get("columns", {})
    spec.write_text(text.replace("rounds = 2000", "rounds = 60"))
    with pytest.raises(SystemExit) as ended:
        main(["run", str(spec), "--json"])
    assert not ended.value.code
    result = json.loads(capsys.readouterr().out)
    assert any("read off" in note for note in result["guarantee"]["notes"]) or world == "table"
    with pytest.raises(SystemExit) as ended:
        main(["schema", str(files / f"{name}.csv"), "--out", str(spec)])
    assert ended.value.code == 7


def test_relative_paths_start_in_the_folder_of_the_spec(files, monkeypatch, capsys):
    (files / "specs").mkdir()
    main_spec = files / "specs" / "trial.toml"
    main_spec.write_text(
        'task = "bandit"\nrounds = 50\n[policy]\nname = "ucb"\n[environment]\nname = "logged"\n[environment.log]\n'
        'file = "../trial.csv"\narm = "drug"\noutcome = "recovered"\n'
    )
    for folder in (files, files / "specs"):
        monkeypatch.chdir(folder)
        with pytest.raises(SystemExit) as ended:
            main(["run", str(main_spec.relative_to(folder))])
        assert not ended.value.code
        capsys.readouterr()
    main_spec.write_text(main_spec.read_text().replace("../trial", "trial"))
    for command in (["run"], ["compare", "--engine", "serial"]):
        with pytest.raises(SystemExit) as ended:
            main([*command, str(main_spec)])
        assert ended.value.code == 3
        assert "folder of the spec" in capsys.readouterr().err


def test_columns_that_cannot_be_guessed_are_asked_for():
    frame = Frame({"what": np.array(["a", "b"]), "came": np.array([0, 1])}, "log.csv")
    with pytest.raises(SpecError, match="--outcome"):
        draft(frame, "log.csv", Roles(arm="what"))
    with pytest.raises(SpecError, match="--group"):
        draft(frame, "log.csv", Roles(outcome="came"))
    with pytest.raises(SpecError, match="no such column"):
        draft(frame, "log.csv", Roles(arm="whit"))


def test_an_outcome_of_two_words_is_named_and_not_every_row(tmp_path, capsys):
    (tmp_path / "loans.csv").write_text("sex,repaid\n" + "f,yes\nm,no\n" * 50)
    with pytest.raises(SystemExit) as ended:
        main(["schema", str(tmp_path / "loans.csv"), "--group", "sex", "--outcome", "repaid"])
    assert ended.value.code
    said = capsys.readouterr().err
    assert "the outcome has the two values 'no' and 'yes'" in said
    assert "write 0 for one and 1 for the other" in said
    assert "more)" not in said
