"""Results are what they were: every spec of the golden list gives its record (`record.py` says how to write one).

With FAIRVEIL_GOLDEN=exact they are compared bit for bit, which holds on the machine that recorded them.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from fairveil import registry

PLACE = Path(__file__).with_name("record.py")
LOADED = importlib.util.spec_from_file_location("golden_record", PLACE)
record = importlib.util.module_from_spec(LOADED)
LOADED.loader.exec_module(record)

SPECS = record.specs()
EXACT = os.environ.get("FAIRVEIL_GOLDEN") == "exact"


@pytest.mark.parametrize("name", SPECS)
def test_result_is_what_was_recorded(name):
    allowed = record.allowed()
    found = record.check(name, EXACT)
    wrong = [str(one) for one in found if not any(entry.covers(one) for entry in allowed)]
    assert not wrong, "\n".join(wrong[:10])


def test_every_spec_has_a_record_and_every_change_a_reason():
    assert set(record.recorded()) == set(SPECS)
    assert all(entry.reason.strip() for entry in record.allowed())


def test_every_task_policy_releaser_learner_and_algorithm_is_on_the_list():
    seen = {"task": {spec["task"] for spec in SPECS.values()}}
    for kind in ("policy", "releaser", "learner", "algorithm"):
        tables = [spec[kind] for spec in SPECS.values() if kind in spec]
        tables += [table["inner"] for table in tables if "inner" in table]
        seen[kind] = {table["name"] for table in tables}
        seen[kind] |= {f"{table['name']}/{table['variant']}" for table in tables if "variant" in table}
    for kind, names in seen.items():
        built_in = {entry.name for entry in registry.entries(kind) if entry.target.__module__.startswith("fairveil.")}
        assert built_in <= names, kind


def test_a_changed_value_is_a_difference():
    before = {"metrics": {"a": [1.0, 2.0], "n": 3, "long": record.condensed([float(k) for k in range(100)])}}
    near = {"metrics": {"a": [1.0, 2.0 + 1e-12], "n": 3, "long": record.condensed([k + 1e-13 for k in range(100)])}}
    assert list(record.differences("x", before, before, True)) == []
    assert list(record.differences("x", before, near, False)) == []
    paths = {one.path for one in record.differences("x", before, near, True)}
    assert {"metrics.a.1", "metrics.long.digest"} <= paths
    for path, value in {"metrics.n": 4, "metrics.a.0": 1.001, "metrics.gone": None}.items():
        *_, leaf = path.split(".")
        own = {**before["metrics"], **({"a": [value, 2.0]} if leaf == "0" else {leaf: value})}
        assert [one.path for one in record.differences("x", before, {"metrics": own}, False)] == [path]
