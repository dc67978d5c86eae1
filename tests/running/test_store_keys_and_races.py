"""What a stored result is keyed by, and what happens when two runs or a kill meet in one folder."""

import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest

import fairveil
from fairveil import plugins
from fairveil.errors import SpecError, StoreError
from fairveil.running import store as stores
from fairveil.running.runner import _points, complete
from fairveil.running.store import ResultStore, circumstances, read_result, spec_hash
from fairveil.task import run_blocks

LAW = {"0": ["normal", -1.0, 1.0], "1": ["normal", 1.0, 1.0]}
TASK = """
from fairveil.registry import register
from fairveil.task import Outcome, Task


@register("task", "{name}")
class Answer(Task):
    \"\"\"One number.\"\"\"

    def work(self, spec, block):
        return {{"value": {value}}}

    def finish(self, spec, parts):
        return Outcome({{"value": float(parts[0]["value"])}})
"""


def groups_spec(order: str) -> dict:
    groups = {name: {"arrivals": size, "qualified": 0.5, "features": LAW} for name, size in (("a", 30), ("b", 20))}
    learner = {"name": "logistic"}
    return {"task": "longterm", "learner": learner, "groups": {name: groups[name] for name in order}, "steps": 2}


def test_the_order_of_groups_is_part_of_the_key_and_survives_the_store(tmp_path):
    one, other = (fairveil.run(groups_spec(order)) for order in ("ab", "ba"))
    assert one["metrics"] != other["metrics"], "people are drawn group by group"
    assert spec_hash(one["spec"]) != spec_hash(other["spec"])
    fairveil.run(groups_spec("ba"), store=ResultStore(tmp_path))
    again = fairveil.run(groups_spec("ba"), store=ResultStore(tmp_path))
    assert list(again["spec"]["groups"]) == ["b", "a"]
    assert fairveil.run(again["spec"])["metrics"] == other["metrics"], "a stored spec repeats its result"


def test_an_edited_plugin_is_run_again(tmp_path):
    values = []
    for value in (1, 2):
        plugins.forget_all_but(())
        stores._source_digest.cache_clear()
        (tmp_path / "answer.py").write_text(TASK.format(name="answer", value=value))
        plugins.load_file(tmp_path / "answer.py")
        values.append(fairveil.run({"task": "answer"}, store=ResultStore(tmp_path / "store"))["metrics"]["value"])
    assert values == [1.0, 2.0]


def test_specs_without_code_of_ones_own_have_no_circumstances():
    example = tomllib.loads((Path(__file__).parents[2] / "examples" / "first.toml").read_text())
    assert circumstances(complete(example)) == []
    assert list(circumstances(complete({"task": "coins"}))[0]) == ["foreign"]


def test_a_stand_in_for_missing_data_is_not_taken_for_the_data(monkeypatch):
    spec = complete({"task": "participation-trained", "data": "adult", "column": "sex", "value": "Female"})
    monkeypatch.setattr(stores, "_there", lambda name: True)
    with_data = spec_hash(spec)
    monkeypatch.setattr(stores, "_there", lambda name: False)
    assert spec_hash(spec) != with_data
    assert circumstances(spec) == [{"absent": ["adult"]}]


def test_two_plugin_files_of_one_name_are_two_plugins(tmp_path):
    for folder, value in (("one", 1), ("two", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.py").write_text(TASK.format(name="same-answer", value=value))
    plugins.load_file(tmp_path / "one" / "same.py")
    with pytest.raises(SpecError, match="already taken"):
        plugins.load_file(tmp_path / "two" / "same.py")
    assert fairveil.run({"task": "same-answer"})["metrics"]["value"] == 1.0


def test_a_run_that_finishes_meanwhile_does_not_stop_this_one(tmp_path, monkeypatch):
    """Another process removes the parts folder between its making and the writing of a part."""
    write = stores.write_atomically
    removed = []

    def racing(path, content):
        if path.parent.name == "parts" and not removed:
            removed.append(path)
            shutil.rmtree(path.parent)
        write(path, content)

    monkeypatch.setattr(stores, "write_atomically", racing)
    spec = {"task": "coins", "runs": 6, "block": 2}
    assert fairveil.run(spec, store=ResultStore(tmp_path))["metrics"] == fairveil.run(spec)["metrics"]
    assert removed


def test_a_kill_never_leaves_the_numbers_of_two_secure_runs(tmp_path, monkeypatch):
    store = ResultStore(tmp_path)
    spec = {"task": "coins", "runs": 2, "noise": "secure"}
    folder = store.folder(fairveil.run(spec, store=store)["spec"])
    assert [place for place, _ in store.all()] == [folder]

    def killed(series):
        raise KeyboardInterrupt

    monkeypatch.setattr(stores, "_series_bytes", killed)
    with pytest.raises(KeyboardInterrupt):
        fairveil.run(spec, store=store)
    assert list(store.all()) == []


def test_what_a_store_gives_back_is_what_was_put_in(tmp_path):
    result = fairveil.run({"task": "coins", "runs": 2})
    values = [0.1, 5e-324, -0.0, 1.7976931348623157e308, 1 / 3, None]
    result["series"] = {"s": {"x": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "y": values, "low": values}}
    result["metrics"] = {"floats": values, "whole": 2**63, "deep": {"b": {"z": 1, "a": [1.5]}}}
    back = read_result(ResultStore(tmp_path).put(result))
    assert back == result
    assert str(back["series"]["s"]["y"]) == str(values)
    assert str(back["metrics"]) == str(result["metrics"])


def test_series_are_the_same_before_and_after_the_store():
    nothing = [float("nan")] * 2
    assert _points("s", {"x": [1, 2], "y": np.array([1, 2]), "low": nothing, "high": nothing}) == {
        "x": [1.0, 2.0],
        "y": [1.0, 2.0],
    }
    assert _points("s", {"x": [], "y": []}) == {}
    for wrong in ({"x": [1, 2], "y": [1]}, {"x": [1]}, {"x": [1], "y": [1], "low": [0, 0]}):
        with pytest.raises(StoreError, match="needs x and y"):
            _points("s", wrong)


def test_a_slip_in_the_number_of_runs_does_not_fill_the_memory():
    with pytest.raises(SpecError, match="too many runs"):
        run_blocks(10**12, 1)
    with pytest.raises(SpecError, match="runs"):
        fairveil.run({**groups_spec("ab"), "runs": 10**12})


def test_a_part_may_have_any_names_and_comes_back_bit_by_bit(tmp_path):
    store, spec = ResultStore(tmp_path), complete({"task": "coins"})
    part = {
        "file": np.array([0.1, -0.0, np.nan, np.inf, 5e-324]),
        "allow_pickle": np.array(3),
        "args/0": np.arange(6, dtype=np.int8).reshape(2, 3),
        "words": np.array(["one", "zwei"]),
        "none": np.zeros((0, 2)),
    }
    store.put_part(spec, 0, part)
    back = store.get_part(spec, 0)
    assert list(back) == list(part)
    for name, value in part.items():
        assert back[name].dtype == value.dtype
        assert back[name].tobytes() == value.tobytes()
        assert back[name].shape == value.shape


def test_a_result_does_not_survive_an_edit_of_its_file(tmp_path):
    rows = tmp_path / "rows.csv"
    spec = {
        "task": "bandit",
        "rounds": 3,
        "policy": {"name": "ucb"},
        "environment": {"name": "table", "file": str(rows)},
    }
    best = []
    for cell in (0.5, 0.75):
        rows.write_text(f"0.25,{cell}\n0.25,{cell}\n0.25,{cell}\n")
        best.append(fairveil.run(spec, store=ResultStore(tmp_path / "store"))["spec"])
        keys = [folder.name for folder, _ in ResultStore(tmp_path / "store").all()]
    assert best[0] == best[1]
    assert len(keys) == 2, "the spec is the same, the file is not"
