"""The consensus task: complete specs, metrics of every algorithm, splits, the words of `fairveil explain`."""

import numpy as np
import pytest
from typer.testing import CliRunner

import fairveil
from fairveil import registry
from fairveil.cli import app
from fairveil.consensus import tables
from fairveil.randomness import generator
from fairveil.running.runner import complete

DATA = {"name": "logistic", "rows": 300, "features": 3, "test": 50}
ALGORITHMS = [entry.name for entry in registry.entries("algorithm")]
LISTS = ("train_loss", "consensus_error", "objective_gap", "privacy_loss", "privacy_loss_printed", "data_reads")
SOUND = {"private-admm", "private-m-admm", "private-r-admm", "private-mr-admm"}


def table(name):
    example = registry.get("algorithm", name)
    facts = {"epsilon": 5.0} if "epsilon" in example.__dataclass_fields__ else {}
    return {"name": name, **facts}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_gives_every_metric_and_repeats_itself(name):
    spec = {"task": "consensus", "algorithm": table(name), "data": DATA, "iterations": 4, "runs": 2, "seed": 3}
    result = fairveil.run(spec)
    metrics = result["metrics"]
    lengths = {len(metrics[key]) for key in LISTS}
    entries = metrics["rounds"] + (name == "private-admm")  # the curvature comes before the first round
    assert lengths == {entries}
    assert result["metrics"] == fairveil.run(spec)["metrics"]
    assert complete(result["spec"]) == result["spec"]
    promise = result["guarantee"]
    assert (promise is not None and promise["established"]) == (name in SOUND)
    private = promise is not None
    assert (metrics["privacy_loss"][-1] is not None) == private
    if private:
        assert metrics["privacy_loss"][-1] <= 5.0 * (1 + 1e-9)
        assert promise["model"] == "federated"
        assert any("experimenter" in note for note in promise["notes"])
    if name in ("dvp", "pvp"):
        assert "printed" in promise["notes"][0]
    assert len(result["series"]["train_loss"]["low"]) == entries
    assert metrics["messages"]["bytes"] >= metrics["messages"]["count"] * 24


@pytest.mark.parametrize("name", ALGORITHMS)
def test_explain_says_what_an_algorithm_promises(name):
    shown = CliRunner().invoke(app, ["explain", f"algorithm:{name}"])
    assert shown.exit_code == 0
    assert "Reference" in shown.stdout
    assert ("guarantee of" in shown.stdout) == ("epsilon" in registry.get("algorithm", name).__dataclass_fields__)


def test_splits_deal_every_row_once():
    full = tables.data_table({"name": "synthetic-adult", "rows": 500})
    assert full["train"] == 400
    made = tables.encoded(full, 1, 0)
    for split, nodes in (
        ("even", 3),
        ({"sizes": [10, 390]}, 2),
        ({"by": "label", "skew": 0.8}, 4),
        ({"by": "race"}, 3),
    ):
        share = tables.deal(made, {**full, "split": split}, nodes, generator(2))
        assert sum(share.sizes) == 400
        assert len(share.test) == 100
    skewed = tables.deal(made, {**full, "split": {"by": "label", "skew": 0.8}}, 4, generator(2))
    assert len(set(skewed.sizes)) == 1
    rates = [float((part.signs > 0).mean()) for part in skewed.nodes]
    assert max(rates) - min(rates) > 0.4


def test_every_run_has_a_fresh_split_and_the_graph_stays():
    spec = {"task": "consensus", "algorithm": {"name": "admm"}, "data": DATA, "iterations": 2, "runs": 3}
    result = fairveil.run(spec)
    assert len(set(result["metrics"]["test_errors"])) > 1
    assert result["spec"]["graph"] == {"name": "random", "seed": 0, "edges": None}
    assert np.isfinite(result["metrics"]["central"]["objective"])


def test_the_loaders_own_split_stays_its_own():
    full = tables.data_table({"name": "adult", "split": {"by": "sex"}})
    assert full["split"] == {"by": "sex"}
    assert full["train"] == 40_000
    assert full["complete"] is True
