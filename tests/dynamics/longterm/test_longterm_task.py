from __future__ import annotations

import copy

import numpy as np
import pytest

import fairveil
from fairveil.dynamics import LongtermTask
from fairveil.errors import SpecError
from fairveil.lab.result_charts import result_charts

SPEC = {
    "task": "longterm",
    "model": "participation",
    "learner": {"name": "private-logistic", "epsilon": 1.0},
    "groups": {
        "a": {
            "arrivals": 150,
            "qualified": 0.6,
            "features": {"0": ["truncnorm", 4, 5, -8, 19], "1": ["truncnorm", 20, 6, 5, 35]},
        },
        "b": {
            "arrivals": 150,
            "qualified": 0.4,
            "features": {"0": ["truncnorm", 8, 3, -6, 25], "1": ["truncnorm", 27, 6, 9, 43]},
        },
    },
    "steps": 4,
    "runs": 2,
    "evaluation": 300,
}
QUALIFICATION = {
    **SPEC,
    "model": "qualification",
    "people": 300,
    "transitions": [[0.2, 0.5], [0.6, 0.9]],
    "groups": {name: {k: v for k, v in group.items() if k != "arrivals"} for name, group in SPEC["groups"].items()},
}


def _run(spec):
    task = LongtermTask()
    full = task.complete(spec)
    assert task.complete(copy.deepcopy(full)) == full
    return full, task.finish(full, [task.work(full, block) for block in task.blocks(full)])


@pytest.mark.parametrize("spec", [SPEC, QUALIFICATION], ids=["participation", "qualification"])
@pytest.mark.parametrize("learner", ["logistic", "private-logistic", "fair-reductions"])
def test_every_learner_runs_in_both_models(spec, learner) -> None:
    table = {"name": learner, "epsilon": 1.0} if learner == "private-logistic" else {"name": learner}
    _, outcome = _run({**spec, "learner": table, "steps": 2, "runs": 1})
    for name in ("share", "qualified", "loss"):
        assert set(outcome.metrics[name]) == {"a", "b"}
        assert all(len(values) == 2 for values in outcome.metrics[name].values())
    assert (outcome.guarantee is None) == (learner != "private-logistic")
    assert len(outcome.metrics["epsilon_spent"]) == 2


def test_the_same_spec_gives_the_same_result_in_any_order_of_blocks() -> None:
    task = LongtermTask()
    full = task.complete(SPEC)
    blocks = task.blocks(full)
    parts = [task.work(full, block) for block in blocks]
    backwards = [task.work(full, block) for block in reversed(blocks)][::-1]
    first, second = task.finish(full, parts), task.finish(full, backwards)
    assert first.metrics == second.metrics
    assert first.series == second.series
    other = task.complete({**SPEC, "seed": 1})
    assert task.work(other, blocks[0])["loss"].tolist() != parts[0]["loss"].tolist()


def test_the_budget_is_split_over_all_retrainings_and_spent_exactly() -> None:
    full, outcome = _run(SPEC)
    assert full["learner"]["retrainings"] == 4
    assert full["learner"]["rows"] == 300
    spent = outcome.metrics["epsilon_spent"]
    assert spent == sorted(spent)
    assert 0 < spent[0] < spent[-1] <= 1.0
    assert spent[-1] == pytest.approx(1.0, rel=1e-3)
    assert outcome.guarantee is not None
    assert outcome.guarantee.epsilon == 1.0
    assert "4 retrainings" in outcome.guarantee.unit
    assert outcome.simulated


def test_fresh_people_are_in_one_retraining_and_pay_once() -> None:
    full, outcome = _run({**SPEC, "persons": "fresh"})
    assert full["learner"]["retrainings"] == 1
    assert outcome.metrics["epsilon_spent"] == [1.0] * 4
    assert outcome.guarantee is not None
    assert "exactly one retraining" in outcome.guarantee.unit


def test_replacing_a_history_is_the_neighbour_of_output_perturbation() -> None:
    _, outcome = _run({**SPEC, "learner": {"name": "private-logistic", "epsilon": 1.0, "method": "output"}, "runs": 1})
    assert outcome.guarantee is not None
    assert outcome.guarantee.neighbours == "replace-sequence"


def test_secure_noise_is_not_marked_as_simulated() -> None:
    _, outcome = _run({**SPEC, "noise": "secure", "runs": 1, "steps": 2})
    assert not outcome.simulated


def test_less_budget_means_more_loss() -> None:
    losses = []
    for epsilon in (0.2, 20.0):
        learner = {"name": "private-logistic", "epsilon": epsilon, "definition": "pure"}
        _, outcome = _run({**SPEC, "learner": learner, "runs": 6, "steps": 5})
        losses.append(np.mean([outcome.metrics["loss"][name] for name in "ab"]))
    assert losses[0] > losses[1] + 0.05


def test_pictures_count_years_where_the_spec_says_how_many_steps_make_one() -> None:
    plain, _ = _run(SPEC)
    assert "steps_per_year" not in plain
    [chart, *_] = result_charts(fairveil.run({**SPEC, "steps_per_year": 2.0}))
    assert chart.x_label == "years"
    assert chart.lines[0].x == (0.5, 1.0, 1.5, 2.0)


def test_series_have_limits_around_the_mean() -> None:
    _, outcome = _run(SPEC)
    line = outcome.series["share_a"]
    assert line["x"] == [1.0, 2.0, 3.0, 4.0]
    assert all(low <= y <= high for low, y, high in zip(line["low"], line["y"], line["high"], strict=True))
    total = np.sum([outcome.metrics["share"][name] for name in "ab"], axis=0)
    assert total == pytest.approx(np.ones(4))


def _changed(path: str, value):
    spec = copy.deepcopy(SPEC)
    target = spec
    *parents, leaf = path.split(".")
    for part in parents:
        target = target[part]
    if value is None:
        del target[leaf]
    else:
        target[leaf] = value
    return spec


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model", "strategic"),
        ("learner", {"name": "nobody"}),
        ("learner", {"name": "private-logistic", "epsilon": 0.0}),
        ("learner", {"name": "private-logistic", "epsilon": 1.0, "retrainings": 2}),
        ("learner", {"name": "logistic", "colour": 1}),
        ("groups", {}),
        ("groups.a.arrivals", None),
        ("groups.a.arrivals", 0),
        ("groups.a.qualified", 1.0),
        ("groups.a.features", {"0": ["normal", 0, 1]}),
        ("groups.a.features.0", ["normal", 0, -1]),
        ("groups.a.features.0", [["normal", 0, 1], ["normal", 0, 1]]),
        ("groups.a.features.0", ["normal", 1e308, 1]),
        ("groups.a.wrong", 1),
        ("retention", "loyalty"),
        ("retention", {"driver": "own", "right": 2.0}),
        ("steps", 0),
        ("persons", "ghosts"),
        ("evaluation", 0),
        ("people", 10**12),
    ],
)
def test_wrong_specs_are_refused_with_their_path(path, value) -> None:
    with pytest.raises(SpecError) as caught:
        LongtermTask().complete(_changed(path, value))
    assert caught.value.path.split(".")[0] == path.split(".")[0]


def test_qualification_needs_transitions() -> None:
    spec = copy.deepcopy(QUALIFICATION)
    del spec["transitions"]
    with pytest.raises(SpecError, match="transitions"):
        LongtermTask().complete(spec)
    spec["transitions"] = [[0.2, 1.5], [0.6, 0.9]]
    with pytest.raises(SpecError, match="transitions"):
        LongtermTask().complete(spec)


def test_the_guarantee_says_that_the_metrics_are_not_protected() -> None:
    _, outcome = _run({**SPEC, "runs": 1, "steps": 2})
    assert outcome.guarantee is not None
    assert any("counted on the people themselves" in note for note in outcome.guarantee.notes)


def test_laws_without_a_spread_are_refused_before_anything_is_scaled() -> None:
    flat = {"0": ["normal", 1.0, 1e-300], "1": ["normal", 1.0, 1e-300]}
    spec = copy.deepcopy(SPEC)
    for group in spec["groups"].values():
        group["features"] = flat
    with pytest.raises(SpecError, match="cannot be scaled"):
        LongtermTask().complete(spec)
