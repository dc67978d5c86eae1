"""The artefacts of the federated exposure paper: complete specs at every scale, claims that can go either way."""

import copy
import math

import numpy as np
import pytest

import fairveil
from fairveil.federated import schedules
from fairveil.lab.artefact import SCALES, Chart, Heatmap, Table
from fairveil.lab.papers import fairx, fairx_ours, fairx_readings
from fairveil.running.runner import complete, run_many

KINDS = [
    fairx.Experiment1,
    fairx.WithoutOptimism,
    fairx.RewardRegret,
    fairx.Experiment2,
    fairx.Experiment3,
    fairx.Experiment4,
    fairx_ours.Map,
    fairx_ours.GreedyMap,
    fairx_ours.SecureSums,
    fairx_readings.Readings,
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", SCALES)
def test_specs_are_complete_at_every_scale(kind, scale):
    for label, spec in kind().specs(scale).items():
        full = complete(spec)
        assert full["environment"]["name"] == "exposure", label
        assert complete(full) == full


def test_paper_scale_is_the_papers():
    specs = fairx.Experiment1().specs("paper")
    assert all((spec["rounds"], spec["runs"]) == (100_000, 5) for spec in specs.values())
    printed = complete(specs[fairx.PRINTED])
    assert (printed["policy"]["epsilon"], printed["policy"]["delta"]) == (2.0, 0.1)
    assert printed["environment"]["agents"] == 10


@pytest.fixture(scope="module")
def tiny():
    """Every artefact at a size that only shows that pictures and claims can be made."""

    def shrink(spec):
        small = copy.deepcopy(spec)
        small.update(rounds=30, runs=2)
        return small

    found = {}
    for kind in (*KINDS[:1], *KINDS[3:7], fairx_ours.SecureSums, fairx_readings.Readings):
        specs = {label: shrink(spec) for label, spec in kind().specs("quick").items()}
        found[kind] = run_many(specs, workers=1)
    same = {
        fairx.WithoutOptimism: fairx.Experiment1,
        fairx.RewardRegret: fairx.Experiment1,
        fairx_ours.GreedyMap: fairx_ours.Map,
    }
    return found | {kind: found[base] for kind, base in same.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_and_claims(kind, tiny):
    artefact, results = kind(), tiny[kind]
    pictures, claims = artefact.pictures(results), artefact.claims(results)
    assert pictures
    assert all(isinstance(picture, Chart | Heatmap | Table) for picture in pictures)
    assert claims
    for claim in claims:
        assert claim.low <= claim.margin <= claim.high or claim.low == claim.high
        assert claim.verdict in ("holds", "does not hold", "undecided")
    for picture in pictures:
        if isinstance(picture, Chart):
            assert all(len(line.x) == len(line.y) for line in picture.lines)


def test_one_cell_in_which_personal_agents_lose_breaks_the_claim_about_the_map(tiny):
    results = copy.deepcopy(tiny[fairx_ours.Map])
    for label, result in results.items():
        if label.startswith("personal"):
            _, *facts, _ = label.split(", ")
            alone = results[", ".join(["alone", *facts])]["metrics"]["fairness_regret_runs"]
            result["metrics"]["fairness_regret_runs"] = [regret * 0.99 for regret in alone]
    claim = fairx_ours.Map().claims(results)[0]
    assert (claim.verdict, "0 of 18 cells" in claim.note) == ("holds", True)
    lost = results["personal, m = 3, noise = 0.5, eps = 2"]
    alone = results["alone, m = 3, noise = 0.5"]["metrics"]["fairness_regret_runs"]
    lost["metrics"]["fairness_regret_runs"] = [regret * 1.01 for regret in alone]
    claim = fairx_ours.Map().claims(results)[0]
    assert claim.verdict == "does not hold"
    assert "worst cell m = 3, noise = 0.5, eps = 2; 1 of 18 cells" in claim.note
    assert "bands reach up to" in claim.note


def test_both_readings_of_lemma_7_run_in_every_experiment():
    for kind in (fairx.Experiment1, fairx.Experiment2, fairx.Experiment3, fairx.Experiment4):
        variants = {spec["policy"].get("variant") for spec in kind().specs("quick").values()}
        assert {"printed", "dubey-pentland"} <= variants


def test_the_best_cell_of_the_map_is_held_to_the_band_of_all_cells(tiny):
    results = copy.deepcopy(tiny[fairx_ours.Map])
    for label, result in results.items():
        if not label.startswith("alone"):
            result["metrics"]["fairness_regret_runs"] = list(
                results[", ".join(["alone", *label.split(", ")[1:3]])]["metrics"]["fairness_regret_runs"]
            )
    best = results["frozen, m = 3, noise = 0.5, eps = 2"]["metrics"]["fairness_regret_runs"]
    alone = list(best)
    for gaps, verdict in (((5.0, 5.02), "holds"), ((5.0, 5.1), "does not hold")):
        # Two runs: a band of one cell reaches 12.7 standard errors (.64 of the second), that of 18 cells 229 (11.5).
        best[:] = [regret - gap for regret, gap in zip(alone, gaps, strict=True)]
        claim = fairx_ours.Map().claims(results)[1]
        assert claim.verdict == verdict
        assert "all 18 cells at once" in claim.note


def test_one_cell_against_an_inference_is_seen_in_its_table_and_its_claim(tiny):
    results = copy.deepcopy(tiny[fairx_readings.Readings])
    artefact = fairx_readings.Readings()
    name = f"{fairx.PRINTED}: less regret at eps 10 than at eps 0.2, in every cell"
    for cell in artefact.cells():
        for end, regret in (("eps 0.2", 20.0), ("eps 10", 10.0)):
            metrics = results[f"{fairx.PRINTED}, {end} | {cell}"]["metrics"]
            metrics["fairness_regret_runs"] = [regret, 1.01 * regret]
    assert {claim.text: claim.verdict for claim in artefact.claims(results)}[name] == "holds"
    metrics["fairness_regret_runs"] = [30.0, 30.1]
    assert {claim.text: claim.verdict for claim in artefact.claims(results)}[name] == "does not hold"
    assert [row[1] for row in artefact.pictures(results)[3].rows] == ["yes", "yes", "yes", "no"]


def test_a_claim_turns_with_the_numbers(tiny):
    results = copy.deepcopy(tiny[fairx.Experiment1])
    for regret, verdict in ((1.0, "holds"), (1e6, "does not hold")):
        results[fairx.FED]["metrics"]["fairness_regret_runs"] = [regret, regret * 1.01]
        first = fairx.Experiment1().claims(results)[0]
        assert "Fed-FairX" in first.text
        assert first.verdict == verdict


def _regret(policy, rounds, runs, noise=0.1):
    found = fairveil.run({**fairx.spec(policy, rounds, runs, 10, noise), "seed": 5})
    runs_of = np.array(found["metrics"]["fairness_regret_runs"])
    return float(runs_of.mean()), float(runs_of.std(ddof=1) / math.sqrt(runs))


def test_growing_batches_beat_a_tree_over_batches_of_one_length(monkeypatch):
    """Batches of sqrt(T/m) rounds and a tree, the form of Zhou and Chowdhury's local protocol: 4,399 against 2,571."""
    growing, error = _regret({**fairx.POLICIES[fairx.BATCHED], "reward_bound": 1.2}, 8_000, 3)
    monkeypatch.setattr(schedules.EveryRound, "times", lambda _, rounds, *given: list(range(28, rounds + 1, 28)))
    tree, other = _regret({**fairx.POLICIES[fairx.SOUND], "reward_bound": 1.2, "schedule": "every-round"}, 8_000, 3)
    assert tree - growing > 1_000 + 3 * math.hypot(error, other)


def test_with_the_literal_lemma_7_the_regret_falls_with_epsilon():
    """6,607, 5,346 and 3,656 at epsilon .2, 2 and 10, 8,000 rounds; worlds differ: four errors are left."""
    found = [_regret({**fairx.POLICIES[fairx.PRINTED], "epsilon": epsilon}, 8_000, 12) for epsilon in (0.2, 2.0, 10.0)]
    for (mean, error), seen in zip(found, (6_607, 5_346, 3_656), strict=True):
        assert abs(mean - seen) < 4 * error + 0.01 * seen
    assert found[0][0] > found[1][0] > found[2][0]


def test_with_reward_noise_one_the_sound_policy_is_below_learning_alone():
    """Alone 14,531, sound 12,362 at 25,000 rounds with rewards clipped to 3: at noise .1 it is the other way round."""
    alone, error = _regret({"name": "fairx-linucb"}, 25_000, 3, noise=1.0)
    sound, other = _regret({**fairx.POLICIES[fairx.SOUND], "reward_bound": 3.0}, 25_000, 3, noise=1.0)
    assert abs(alone - 14_531) < 0.05 * 14_531
    assert abs(sound - 12_362) < 0.05 * 12_362
    assert alone - sound > 3 * math.hypot(error, other)
