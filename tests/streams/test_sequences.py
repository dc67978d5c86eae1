"""Sequences: a value of the data is never repeated."""

import pytest

import fairveil
from fairveil.errors import FairveilError

FOUR = {"name": "values", "values": [1.0, 2.0, 3.0, 4.0]}
BUDGET = {"epsilon": 1.0, "delta": 1e-7}


def run(releaser, data=FOUR, **keys):
    return fairveil.run({"task": "stream", "releaser": releaser, "data": data, **keys})


@pytest.mark.parametrize("bad", ["17,25", 1725.5e308, True, [1725.0]])
def test_a_value_of_the_data_is_never_repeated(bad):
    with pytest.raises(FairveilError) as problem:
        run({"name": "baseline-gaussian", **BUDGET}, {"name": "values", "values": [1.0, bad]})
    assert problem.value.path.startswith("data.values")
    assert problem.value.given is None
    assert "17" not in str(problem.value)
