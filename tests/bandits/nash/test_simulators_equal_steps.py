"""The compiled simulators and the step API are the same algorithm: equal arms where the randomness allows it."""

import numpy as np
import pytest

from fairveil.bandits.environments.bernoulli import Bernoulli
from fairveil.bandits.environments.mixed import Mixed
from fairveil.bandits.environments.table import RecordedArms
from fairveil.bandits.nash.adap_ucb import AdapUcb
from fairveil.bandits.nash.anytime import Anytime
from fairveil.bandits.nash.gdp_ncb import GdpNcb
from fairveil.bandits.nash.ldp_ncb import LdpNcb
from fairveil.bandits.nash.ldp_ucb import LdpUcb
from fairveil.bandits.nash.local_nash import LocalNash
from fairveil.bandits.nash.ncb import Ncb
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.nash.runs import StepSimulator
from fairveil.bandits.nash.ucb import Ucb
from fairveil.bandits.simulate import Case, Streams

ROUNDS = 1500
REWARDS = np.random.default_rng(3).random((ROUNDS, 6)) ** np.array([0.2, 0.5, 1.0, 2.0, 4.0, 0.3])
RECORDED = RecordedArms(rewards=tuple(map(tuple, REWARDS.tolist())))


def compiled(policy, world, rounds, seed, run=0):
    return policy.simulator(Case.of(policy, world, rounds), Streams.of(seed, run))


def stepwise(policy, world, rounds, seed, run=0):
    return StepSimulator(Case.of(policy, world, rounds), Streams.of(seed, run))


def steps(policy, world, rounds, seed):
    simulator = stepwise(policy, world, rounds, seed)
    return simulator.advance(rounds).codes, simulator.summary()


def expand(run, rounds):
    assert run.ends[-1] == rounds
    return np.repeat(run.codes, np.diff(np.append(0, run.ends)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "policy",
    [
        AdapUcb(arms=6, epsilon=1.0),
        AdapUcb(arms=6, epsilon=1.0, variant="figure"),
        AdapUcb(arms=6, epsilon=1.0, arrivals="private"),
        PrivateNash(arms=6, epsilon=0.7),
        PrivateNash(arms=6, epsilon=3.0, arrivals="private", growth=1.0),
        GdpNcb(arms=6, horizon=ROUNDS, epsilon=1.0),
        GdpNcb(arms=6, horizon=ROUNDS, epsilon=1.0, arrivals="private", episodes="forget"),
        GdpNcb(arms=6, horizon=ROUNDS, epsilon=1.0, variant="figure"),
        GdpNcb(arms=6, horizon=ROUNDS, epsilon=1.0, variant="printed", tau=20.0),
        GdpNcb(arms=6, horizon=ROUNDS, epsilon=2.0, phase1="threshold", tau=15.0),
    ],
    ids=lambda policy: f"{policy.name}-{getattr(policy, 'variant', '')}-{policy.arrivals}",
)
def test_episodic_runs_are_equal_on_a_recorded_table(policy, seed):
    """Rewards are given, so both draw the same noise in the same order and must play the same arms."""
    fast = compiled(policy, RECORDED, ROUNDS, seed)
    arms, summary = steps(policy, RECORDED, ROUNDS, seed)
    assert np.array_equal(expand(fast.advance(ROUNDS), ROUNDS), arms)
    assert np.array_equal(fast.summary().pulls, summary.pulls)


@pytest.mark.parametrize("world", [Bernoulli(arms=20), Mixed(arms=20)], ids=["bernoulli", "mixed"])
@pytest.mark.parametrize(
    "policy",
    [
        Ucb(arms=20),
        Ncb(arms=20, horizon=ROUNDS),
        Ncb(arms=20, horizon=ROUNDS, variant="printed", phase_factor=0.2),
        LdpNcb(arms=20, horizon=ROUNDS, epsilon=1.0, variant="figure"),
        LdpNcb(arms=20, horizon=ROUNDS, epsilon=40.0, variant="printed", c=0.02),
        LdpUcb(arms=20, epsilon=2.0, variant="figure"),
    ],
    ids=lambda policy: f"{policy.name}-{getattr(policy, 'variant', '')}",
)
def test_sequential_runs_are_equal(policy, world):
    """Same streams in the same order, whatever the chunks: the fast search finds the arms of a full scan."""
    fast = compiled(policy, world, ROUNDS, 1)
    out = np.concatenate([fast.advance(min(start + 400, ROUNDS)).codes for start in range(0, ROUNDS, 400)])
    arms, summary = steps(policy, world, ROUNDS, 1)
    assert np.array_equal(out, arms)
    assert np.array_equal(fast.summary().pulls, summary.pulls)


@pytest.mark.parametrize("arms", [1, 2, 3, 7, 64, 65])
def test_search_equals_scan_for_any_number_of_arms(arms):
    world = Bernoulli(means=tuple(np.linspace(0.1, 0.9, arms)) if arms > 1 else (0.5,))
    for policy in (Ucb(arms=arms), Ncb(arms=arms, horizon=600, c=0.5)):
        out = compiled(policy, world, 600, 2).advance(600).codes
        assert np.array_equal(out, steps(policy, world, 600, 2)[0])


def shares(policy, world, rounds, runs, fast):
    """Pull shares of every run."""
    found = np.zeros((runs, world.arms))
    for run in range(runs):
        simulator = (compiled if fast else stepwise)(policy, world, rounds, 11, run)
        simulator.advance(rounds)
        found[run] = simulator.summary().pulls / rounds
    return found


@pytest.mark.parametrize(
    ("policy", "world"),
    [
        (PrivateNash(arms=3, epsilon=1.0), Bernoulli(means=(0.2, 0.5, 0.8))),
        (PrivateNash(arms=3, epsilon=1.0), Mixed(means=(0.9, 0.6, 0.1))),
        (LocalNash(arms=3, epsilon=2.0), Mixed(means=(0.9, 0.6, 0.1))),
        (LdpNcb(arms=3, horizon=150, epsilon=2.0, c=0.2, alpha=0.2), Mixed(means=(0.9, 0.3, 0.1))),
        (LdpUcb(arms=3, epsilon=2.0, alpha=0.5), Bernoulli(means=(0.2, 0.5, 0.8))),
        (
            Anytime(arms=3, inner={"name": "gdp-ncb", "epsilon": 2.0, "c": 0.2, "alpha": 0.2}),
            Bernoulli(means=(0.2, 0.5, 0.8)),
        ),
        (Anytime(arms=3, inner={"name": "ncb", "c": 0.3}), Bernoulli(means=(0.2, 0.5, 0.8))),
    ],
    ids=lambda thing: thing.name,
)
def test_pull_shares_agree_in_law(policy, world):
    """Whole-episode draws change the order of randomness, not the law: mean pull shares within 4 standard errors."""
    slow, fast = shares(policy, world, 150, 50, False), shares(policy, world, 150, 500, True)
    error = np.sqrt(slow.var(axis=0) / len(slow) + fast.var(axis=0) / len(fast))
    assert (np.abs(slow.mean(axis=0) - fast.mean(axis=0)) < 4 * error).all()
    assert np.allclose(fast.sum(axis=1), 1)
