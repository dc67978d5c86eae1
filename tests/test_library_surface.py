"""The library as a new user meets it: light to import, complete to explore, safe to print and to pickle."""

import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest

import fairveil
from fairveil import data, registry
from fairveil.bandits.protocol import Candidate, Decision, Feedback, Round
from fairveil.configuration import describe
from fairveil.errors import DependencyError
from fairveil.lab.plots import check_picture_file
from fairveil.running.store import ResultStore

SECRET = 0.123456789


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, fairveil; print(sorted({'numpy', 'scipy', 'numba', 'pandas', 'pydantic'} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


def test_completion_shows_every_public_name_and_nothing_else():
    assert dir(fairveil) == sorted(fairveil.__all__)
    for name in fairveil.__all__:
        thing = getattr(fairveil, name)
        assert name == "__version__" or inspect.getdoc(thing), name
    with pytest.raises(AttributeError, match="rum"):
        _ = fairveil.rum


def test_no_value_of_a_person_is_in_a_repr():
    person = Candidate(1, np.array([SECRET]))
    shown = Round(0, (person,))
    rows = data.Dataset("d", {"x": np.array([SECRET])}, (data.Column("x", "continuous", low=0, high=1),))
    for thing in (person, shown, Feedback(0, 0, SECRET, shown), rows, rows.encode(["x"])):
        assert "123456" not in repr(thing)
        assert "123456" not in str(thing)
    assert "Decision(arm=1" in repr(Decision(1))


@pytest.mark.parametrize("kind", ["policy", "environment", "mechanism", "sum", "learner", "merit", "schedule"])
def test_configurations_survive_pickling(kind):
    for entry in registry.entries(kind):
        if entry.target.__module__.startswith("fairveil."):
            made = registry.example(entry.target)
            again = pickle.loads(pickle.dumps(made))
            assert describe(again) == describe(made)


def test_a_missing_extra_is_named_before_any_work(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(DependencyError, match=r"pip install 'fairveil\[lab\]'"):
        ResultStore(tmp_path)
    with pytest.raises(DependencyError, match=r"pip install 'fairveil\[lab\]'"):
        check_picture_file(tmp_path / "plot.svg")
