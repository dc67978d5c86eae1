"""The paper's artefacts: complete specs, pictures and claims that can be answered."""

import pytest

from fairveil.lab.papers import private_fair_greedy as paper
from fairveil.running.runner import complete, run_many

FIGURES = [paper.Shares, paper.Regret, paper.Epsilons, paper.Deltas, paper.EpsilonShares, paper.DeltaShares, paper.Ours]


@pytest.fixture(autouse=True)
def only_generated(monkeypatch):
    monkeypatch.setattr(paper, "have", lambda dataset: False)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.__name__)
@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_every_spec_is_valid(figure, scale):
    for spec in figure().specs(scale).values():
        done = complete(spec)
        assert done["rounds"] <= 50_000
        assert complete(done) == done


@pytest.mark.parametrize("figure", [paper.Shares, paper.Regret, paper.Epsilons, paper.Ours], ids=lambda f: f.__name__)
def test_pictures_and_claims_follow_from_small_runs(figure):
    made = figure()
    small = {
        label: {**spec, "rounds": 600, "checkpoints": [150, 300, 450, 600], "runs": 2}
        for label, spec in made.specs("quick").items()
    }
    results = run_many(small)
    assert made.pictures(results)
    claims = made.claims(results)
    assert claims
    assert all(claim.verdict in ("holds", "does not hold", "undecided") for claim in claims)


def test_a_wrong_claim_would_not_hold():
    made = paper.Shares()
    results = run_many(
        {k: {**s, "rounds": 400, "checkpoints": [400], "runs": 2} for k, s in made.specs("quick").items()}
    )
    fair = results["synthetic-census: Fair-Greedy"]["metrics"]
    fair["parity_gap"], fair["parity_gap_std"] = [0.5], [0.0]
    oful = results["synthetic-census: OFUL"]["metrics"]
    oful["selection_share"] = dict.fromkeys(oful["selection_share"], 1 / len(oful["selection_share"]))
    verdicts = {claim.text.split(" ")[0]: claim.verdict for claim in made.claims(results)}
    assert verdicts["Fair-Greedy"] == verdicts["OFUL"] == "does not hold"
