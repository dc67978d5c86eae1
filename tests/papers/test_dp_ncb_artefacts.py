"""The artefacts of DP-NCB: complete specs at every scale, pictures, and claims that can go either way."""

import copy
import math

import pytest

from fairveil.bandits.nash.ncb import Ncb, PrintedNcb
from fairveil.lab.artefact import SCALES, Chart, Table
from fairveil.lab.papers import dp_ncb
from fairveil.running.runner import complete, run_many

KINDS = [
    dp_ncb.FigureA,
    dp_ncb.FigureB,
    dp_ncb.FigureC,
    dp_ncb.FigureD,
    dp_ncb.FigureE,
    dp_ncb.FigureF,
    dp_ncb.ReleaseAudit,
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", SCALES)
def test_specs_are_complete_at_every_scale(kind, scale):
    for spec in kind().specs(scale).values():
        full = complete(spec)
        assert complete(full) == full


def test_paper_scale_is_the_papers():
    specs = dp_ncb.FigureB().specs("paper")
    assert all((spec["rounds"], spec["runs"]) == (10**8, 50) for spec in specs.values())
    assert complete(specs[dp_ncb.GDP])["policy"]["variant"] == "figure"


@pytest.fixture(scope="module")
def small():
    def shrink(spec):
        found = copy.deepcopy(spec)
        if found["task"] == "audit":
            found["trials"] = 20_000
        elif found["environment"]["name"] != "extreme":
            found.update(rounds=2000, runs=3, checkpoints=[100, 200, 2000])
        else:
            found["runs"] = 10
        return found

    return {
        kind: run_many({label: shrink(spec) for label, spec in kind().specs("quick").items()}, workers=1)
        for kind in KINDS
    }


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_and_claims(kind, small):
    artefact, results = kind(), small[kind]
    pictures, claims = artefact.pictures(results), artefact.claims(results)
    assert any(isinstance(picture, Chart | Table) for picture in pictures)
    assert claims
    for claim in claims:
        assert claim.low <= claim.margin <= claim.high or claim.margin == 0
        assert claim.verdict in ("holds", "does not hold", "undecided")


def test_the_audit_decides_both_of_its_claims(small):
    claims = dp_ncb.ReleaseAudit().claims(small[dp_ncb.ReleaseAudit])
    assert [claim.verdict for claim in claims] == ["does not hold", "holds"]


def test_ncb_is_shown_with_the_printed_factor_and_with_that_of_the_public_code():
    for kind in (dp_ncb.FigureB, dp_ncb.FigureE, dp_ncb.FigureF):
        specs = kind().specs("quick")
        assert complete(specs[dp_ncb.NCB])["policy"]["variant"] == "figure"
        assert complete(specs[dp_ncb.NCB_4])["policy"]["variant"] == "printed"
    widths = [kind(arms=50, horizon=10**6).numbers().width / math.sqrt(math.log(10**6)) for kind in (Ncb, PrintedNcb)]
    assert widths == pytest.approx([8.485, 4.0], abs=1e-3)


def test_the_blow_up_is_avoided(small):
    blown, avoided, below, ours = dp_ncb.FigureA().claims(small[dp_ncb.FigureA])
    assert [claim.verdict for claim in (blown, avoided, below)] == ["holds"] * 3
    assert ours.margin > -0.2


def test_no_blow_up_is_refuted_by_the_measuring_code(small):
    """GDP-NCB's results under AdaP-UCB's name."""
    planted = dict(small[dp_ncb.FigureA])
    planted.update(
        {
            label.replace(dp_ncb.GDP, dp_ncb.ADAP): one
            for label, one in planted.items()
            if label.startswith(f"{dp_ncb.GDP} @")
        }
    )
    assert dp_ncb.FigureA().claims(planted)[0].verdict != "holds"


def test_claims_follow_the_numbers(small):
    """Swapping two results turns a claim over."""
    results = dict(small[dp_ncb.FigureB])
    claim = dp_ncb.FigureB().claims(results)[4]
    results[dp_ncb.GDP], results[dp_ncb.GLOBAL] = results[dp_ncb.GLOBAL], results[dp_ncb.GDP]
    assert dp_ncb.FigureB().claims(results)[4].margin == -claim.margin
    assert claim.verdict == "holds"
