"""Audits of the served algorithms, and the planted twins beside them. Bands: the audits' own confidence bounds."""

import pytest

from fairveil import registry
from fairveil.proof import audit, find_pair
from fairveil.proof.mutants import mutants_of
from fairveil.proof.mutants.mutant import COPIES

registry.load("mutant")
TWINS = [name for name in COPIES if name.startswith("algorithm:")]


def example(name):
    return registry.example(registry.get("algorithm", name))


def target(name, **facts):
    return find_pair({"kind": "algorithm", "name": name, **facts})[1]


@pytest.mark.parametrize("epsilon", [1.0, 5.0])
@pytest.mark.parametrize("definition", ["gaussian", "pure"])
def test_one_round_of_private_admm_is_consistent_and_the_bound_is_near(epsilon, definition):
    finding = audit(target("private-admm", epsilon=epsilon, definition=definition), trials=200_000, seed=1)
    assert finding.verdict == "consistent"
    if definition == "gaussian":
        assert finding.finer.lower > 0.9 * finding.finer.claimed
    else:
        assert finding.epsilon_lower > 0.85 * epsilon


def test_ten_rounds_of_private_admm_are_consistent():
    finding = audit(target("private-admm", epsilon=5.0, pair="ten"), trials=500, seed=1)
    assert finding.verdict == "consistent"
    assert finding.finer.lower > 0.3 * finding.finer.claimed


@pytest.mark.parametrize("name", ["private-m-admm", "private-r-admm", "private-mr-admm"])
def test_sound_steps_with_noise_in_the_objective_are_consistent(name):
    finding = audit(target(name, epsilon=5.0, penalty=1.0), trials=400, seed=1)
    assert finding.verdict == "consistent"
    assert finding.epsilon_lower > 0.5


@pytest.mark.parametrize("name", TWINS)
def test_every_planted_twin_is_caught(name):
    pair = COPIES[name](1.0)
    finding = audit(pair, trials=pair.trials // 3, seed=1)
    assert finding.violated, (finding.epsilon_lower, finding.finer)


def test_all_eight_mistakes_are_planted():
    planted = {m.name for name in ("private-admm", "private-r-admm") for m in mutants_of("algorithm", example(name))}
    assert len(TWINS) == 4
    assert {"half-noise", "no-clip", "drawn-on-retry", "read-again"} <= planted
