"""Audits of the private classifiers through the functions that serve people, and broken twins that must be caught."""

from __future__ import annotations

import numpy as np
import pytest

from fairveil.classify import ExponentialFair, FollowPerturbedLeader, PrivateFair, PrivateGame
from fairveil.classify.game.learners import PrivateFairNR
from fairveil.lab.papers.fair_private_classification import leader_delta
from fairveil.proof import audit
from fairveil.proof.mutants import classify as classify
from fairveil.proof.mutants.mutant import COPIES
from fairveil.proof.pairs.classify import counts_pair, fair_fit_pair, score_pair
from fairveil.proof.pairs.game import (
    auditor_pair,
    exponential_pair,
    features_pair,
    game_pair,
    leader_pair,
    released_sizes,
    sizes_pair,
)
from fairveil.randomness import generator

TWINS = {name: made for name, made in COPIES.items() if name.startswith("learner:")}
EPSILONS = (0.5, 1.0, 3.0)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_counts_stay_below_their_mu_and_the_audit_sees_half_of_it(epsilon) -> None:
    finding = audit(counts_pair(PrivateFair(epsilon)), trials=60_000, seed=1)
    assert finding.verdict == "consistent"
    assert finding.finer.claimed >= finding.finer.lower >= finding.finer.claimed / 2


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(
    ("pair", "trials"),
    [
        (lambda e: counts_pair(PrivateFair(e, neighbours="replace-row")), 20_000),
        (lambda e: score_pair(PrivateFair(e)), 3_000),
        (lambda e: fair_fit_pair(PrivateFair(e)), 250),
        (lambda e: exponential_pair(ExponentialFair(e)), 1_500),
        (lambda e: exponential_pair(ExponentialFair(e, neighbours="replace-row")), 1_500),
        (lambda e: sizes_pair(ExponentialFair(e)), 50_000),
        (lambda e: game_pair(PrivateGame(e, hypotheses="stumps")), 500),
        (lambda e: auditor_pair(PrivateGame(e, hypotheses="stumps")), 50_000),
    ],
    ids=["counts replaced", "score", "fit", "exponential", "exponential replaced", "sizes", "game", "auditor"],
)
def test_sound_learners_are_consistent_with_their_claims(pair, trials, epsilon) -> None:
    assert audit(pair(epsilon), trials=trials, seed=2).verdict == "consistent"


@pytest.mark.parametrize("name", TWINS)
def test_every_planted_twin_is_caught(name) -> None:
    pair = TWINS[name](1.0)
    assert audit(pair, trials=pair.trials if pair.trials > 1000 else 160, seed=1).verdict == "violated"


def test_a_laplace_scale_of_one_count_for_all_is_caught() -> None:
    broken = released_sizes(ExponentialFair(1.0, neighbours="replace-row"), 1)
    assert audit(broken, trials=200_000, seed=1).verdict == "violated"


def test_the_printed_claims_fail() -> None:
    """Algorithm 1 with two positives in a group, Private-FairNR's features, FTPL* after twenty rounds."""
    finding = audit(exponential_pair(ExponentialFair(2.0, variant="printed")), trials=4_000, seed=1)
    assert finding.verdict == "violated"
    assert finding.epsilon_lower > 2.5  # 3.2 in exact integration
    assert audit(features_pair(PrivateFairNR(1.0)), trials=300, seed=1).verdict == "violated"
    signs = np.array([[0.0], [1.0]])
    printed = FollowPerturbedLeader(signs, 1.0, 1e-5, 20, 1.0, "printed")
    assert audit(leader_pair(printed), trials=500, seed=1).verdict == "violated"
    assert leader_delta(printed, 1.0, 50_000, generator(0)) == pytest.approx(0.77, abs=0.01)
    sound = FollowPerturbedLeader(signs, 1.0, 1e-5, 20, 1.0)
    assert audit(leader_pair(sound), trials=500, seed=1).verdict == "consistent"
