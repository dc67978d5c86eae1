"""What is measured on recorded people is said to be unprotected, and runs on them do not multiply silently."""

import pytest

import fairveil
from fairveil.bandits.task import APART, EVALUATION
from fairveil.errors import SpecError

SPEC = {
    "task": "bandit",
    "rounds": 5,
    "policy": {"name": "private-nash", "epsilon": 0.1},
    "environment": {"name": "table", "rewards": [[0.1, 0.9], [0.3, 0.2], [0.8, 0.5], [0.0, 1.0], [0.4, 0.6]]},
}


def test_metrics_of_recorded_rows_are_marked():
    found = fairveil.run({**SPEC, "noise": "secure"})
    assert found["metrics"]["evaluation"] is True
    assert found["meta"]["simulated"] is False
    assert any("not protected" in note for note in found["guarantee"]["notes"])


def test_exact_numbers_of_a_secure_run_stand_apart_from_its_promise():
    """Version 0.1.0 showed the exact mean of the best arm beside the guarantee."""
    found = fairveil.run({**SPEC, "noise": "secure"})
    assert "best_mean" not in found["metrics"]
    assert not [name for name in found["metrics"] if "regret" in name]
    assert found["metrics"]["lab"]["evaluation"] is True
    assert found["metrics"]["lab"]["best_mean"] == pytest.approx(0.64)
    assert found["series"] == {}
    assert "pull_share" in found["metrics"]  # every decision is in the transcript that the promise covers
    assert APART in found["guarantee"]["notes"]
    assert EVALUATION not in found["guarantee"]["notes"]
    assert "best_mean" in fairveil.run(SPEC)["metrics"]  # a study, which protects nobody


def test_runs_on_the_same_people_are_refused_under_secure_noise():
    with pytest.raises(SpecError, match="add up") as caught:
        fairveil.run({**SPEC, "noise": "secure", "runs": 5})
    assert caught.value.path == "runs"
    assert fairveil.run({**SPEC, "runs": 5})["meta"]["simulated"] is True


def test_invented_worlds_are_not_marked():
    found = fairveil.run({**SPEC, "environment": {"name": "bernoulli", "means": [0.2, 0.8]}})
    assert "evaluation" not in found["metrics"]
