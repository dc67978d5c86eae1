"""The same spec gives the same result on every engine; workers that die are replaced; errors keep their shape."""

import pytest

import fairveil
from fairveil.errors import FairveilError, InputError, SpecError
from fairveil.running.engines import make_engine
from fairveil.running.runner import REPEATED_KEYS, complete, run_many

SPEC = {"task": "coins", "runs": 9, "seed": 4}


def same(first, second):
    return all(first[key] == second[key] for key in REPEATED_KEYS)


def test_result_has_the_agreed_keys_and_marks_simulation():
    result = fairveil.run(SPEC)
    assert list(result) == ["spec", "guarantee", "metrics", "series", "meta"]
    assert result["guarantee"] is None
    assert result["meta"]["simulated"] is True
    assert set(result["meta"]) == {"version", "seed", "simulated", "cpu_seconds", "wall_seconds", "peak_mb"}
    assert result["metrics"]["missing"] is None, "a result is valid JSON"
    assert result["spec"]["noise"] == "seeded"


def test_complete_is_idempotent():
    full = complete(SPEC)
    assert complete(full) == full


def test_processes_equal_serial_for_any_number_of_workers():
    serial = fairveil.run(SPEC)
    engine = make_engine("processes", 2)
    try:
        assert same(serial, fairveil.run(SPEC, engine=engine))
        many = run_many({"a": SPEC, "b": {**SPEC, "seed": 5}, "again": SPEC}, engine=engine)
    finally:
        engine.close()
    assert same(many["a"], serial)
    assert same(many["a"], many["again"])
    assert many["b"]["metrics"] != serial["metrics"]
    assert same(serial, fairveil.run(SPEC, engine="processes", workers=3))


def test_a_worker_that_dies_is_replaced(tmp_path):
    spec = {**SPEC, "die_once": str(tmp_path / "flag")}
    result = fairveil.run(spec, engine="processes", workers=2)
    assert (tmp_path / "flag").exists(), "the worker did die"
    assert result["metrics"]["mean"] == fairveil.run(SPEC)["metrics"]["mean"]


@pytest.mark.parametrize("engine", ["serial", "processes"])
def test_an_error_in_a_block_arrives_as_itself(engine):
    with pytest.raises(InputError, match="a planted failure"):
        fairveil.run({**SPEC, "fail": True}, engine=engine)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({}, "task"),
        ({"task": "coin"}, "task"),
        ({"task": "coins", "runz": 3}, "runz"),
        ({"task": "coins", "runs": 0}, "runs"),
        ({"task": "coins", "runs": 2.5}, "runs"),
        ({"task": "coins", "runs": "3"}, "runs"),
        ({"task": "coins", "seed": -1}, "seed"),
        ({"task": "coins", "seed": 2**63}, "seed"),
        ({"task": "coins", "noise": "none"}, "noise"),
        ({"task": "coins", "sleep": float("nan")}, "sleep"),
    ],
)
def test_a_wrong_spec_names_the_key_and_what_is_allowed(spec, path):
    with pytest.raises(SpecError) as caught:
        fairveil.run(spec)
    assert caught.value.path == path
    assert caught.value.allowed or caught.value.fix
    assert caught.value.to_dict()["error"] == "spec"


def test_a_spec_must_be_a_table():
    with pytest.raises(SpecError, match="a spec is a table"):
        fairveil.run([1, 2])  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "workers"), [("threads", None), ("processes", 0), ("processes", -1)])
def test_engines_refuse_what_they_do_not_know(name, workers):
    with pytest.raises(FairveilError) as caught:
        make_engine(name, workers)
    assert caught.value.allowed
