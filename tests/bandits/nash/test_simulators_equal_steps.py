"""The compiled simulators and the step API are the same algorithm: equal arms where the randomness allows it."""

import numpy as np
import pytest

from fairveil.bandits.environments.bernoulli import Bernoulli
from fairveil.bandits.environments.mixed import Mixed
from fairveil.bandits.environments.table import RecordedArms
from fairveil.bandits.feedback import AT_ONCE, Lateness
from fairveil.bandits.nash.adap_ucb import AdapUcb
from fairveil.bandits.nash.adap_ucb_figure import FigureAdapUcb
from fairveil.bandits.nash.anytime import Anytime
from fairveil.bandits.nash.gdp_ncb import GdpNcb
from fairveil.bandits.nash.gdp_ncb_figure import FigureGdpNcb
from fairveil.bandits.nash.gdp_ncb_printed import PrintedGdpNcb
from fairveil.bandits.nash.ldp_ncb import LdpNcb
from fairveil.bandits.nash.ldp_ncb_figure import FigureLdpNcb
from fairveil.bandits.nash.ldp_ncb_printed import PrintedLdpNcb
from fairveil.bandits.nash.ldp_ucb import LdpUcb
from fairveil.bandits.nash.ldp_ucb_figure import FigureLdpUcb
from fairveil.bandits.nash.local_nash import LocalNash
from fairveil.bandits.nash.ncb import Ncb, PrintedNcb
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.nash.ucb import Ucb
from fairveil.bandits.simulate import Case, StepSimulator, Streams

ROUNDS = 1500
REWARDS = np.random.default_rng(3).random((ROUNDS, 6)) ** np.array([0.2, 0.5, 1.0, 2.0, 4.0, 0.3])
RECORDED = RecordedArms(rewards=tuple(map(tuple, REWARDS.tolist())))


def compiled(policy, world, rounds, seed, run=0, late=AT_ONCE):
    return policy.simulator(Case.of(policy, world, rounds, lateness=late), Streams.of(seed, run))


def stepwise(policy, world, rounds, seed, run=0, late=AT_ONCE):
    return StepSimulator(Case.of(policy, world, rounds, lateness=late), Streams.of(seed, run))


def steps(policy, world, rounds, seed, late=AT_ONCE):
    simulator = stepwise(policy, world, rounds, seed, late=late)
    return simulator.advance(rounds), simulator.releases


def expand(run, rounds):
    assert run.ends[-1] == rounds
    return np.repeat(run.codes, np.diff(np.append(0, run.ends)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "policy",
    [
        AdapUcb(arms=6, epsilon=1.0),
        FigureAdapUcb(arms=6, epsilon=1.0),
        AdapUcb(arms=6, epsilon=1.0, arrivals="private"),
        PrivateNash(arms=6, epsilon=0.7),
        PrivateNash(arms=6, epsilon=3.0, arrivals="private", growth=1.0),
        GdpNcb(arms=6, horizon=ROUNDS, epsilon=1.0),
        GdpNcb(arms=6, horizon=ROUNDS, epsilon=1.0, arrivals="private", episodes="forget"),
        FigureGdpNcb(arms=6, horizon=ROUNDS, epsilon=1.0),
        PrintedGdpNcb(arms=6, horizon=ROUNDS, epsilon=1.0, tau=20.0),
        GdpNcb(arms=6, horizon=ROUNDS, epsilon=2.0, phase1="threshold", tau=15.0),
    ],
    ids=lambda policy: f"{policy.name}-{getattr(policy, 'variant', '')}-{policy.arrivals}",
)
def test_episodic_runs_are_equal_on_a_recorded_table(policy, seed):
    """Rewards are given, so both draw the same noise in the same order and must play the same arms."""
    fast = compiled(policy, RECORDED, ROUNDS, seed)
    slow, _ = steps(policy, RECORDED, ROUNDS, seed)
    run = fast.advance(ROUNDS)
    assert np.array_equal(expand(run, ROUNDS), slow.codes)
    assert np.array_equal(run.pulls, slow.pulls)


@pytest.mark.parametrize(
    "late", [{"delay": 7}, {"delay": 300}, {"delay": 40, "window": 90, "treat": "default"}], ids=str
)
@pytest.mark.parametrize(
    "policy",
    [
        AdapUcb(arms=6, epsilon=1.0),
        PrivateNash(arms=6, epsilon=0.7),
        PrivateNash(arms=6, epsilon=3.0, arrivals="private", growth=1.0),
    ],
    ids=lambda policy: f"{policy.name}-{policy.arrivals}",
)
def test_delayed_runs_are_equal_on_a_recorded_table(policy, late):
    """However many blocks are open at a time, both choose the same arms and release at the same rounds."""
    when = Lateness.of(late)
    fast = compiled(policy, RECORDED, ROUNDS, 4, late=when)
    slow, releases = steps(policy, RECORDED, ROUNDS, 4, late=when)
    run = fast.advance(ROUNDS)
    assert np.array_equal(expand(run, ROUNDS), slow.codes)
    assert np.array_equal(run.pulls, slow.pulls)
    assert fast.releases == releases


@pytest.mark.parametrize("world", [Bernoulli(arms=20), Mixed(arms=20)], ids=["bernoulli", "mixed"])
@pytest.mark.parametrize(
    "policy",
    [
        Ucb(arms=20),
        Ncb(arms=20, horizon=ROUNDS),
        PrintedNcb(arms=20, horizon=ROUNDS, phase_factor=0.2),
        FigureLdpNcb(arms=20, horizon=ROUNDS, epsilon=1.0),
        PrintedLdpNcb(arms=20, horizon=ROUNDS, epsilon=40.0, c=0.02),
        FigureLdpUcb(arms=20, epsilon=2.0),
    ],
    ids=lambda policy: f"{policy.name}-{getattr(policy, 'variant', '')}",
)
def test_sequential_runs_are_equal(policy, world):
    """Same streams in the same order, whatever the chunks: the fast search finds the arms of a full scan."""
    fast = compiled(policy, world, ROUNDS, 1)
    runs = [fast.advance(min(start + 400, ROUNDS)) for start in range(0, ROUNDS, 400)]
    slow, _ = steps(policy, world, ROUNDS, 1)
    assert np.array_equal(np.concatenate([run.codes for run in runs]), slow.codes)
    assert np.array_equal(runs[-1].pulls, slow.pulls)


@pytest.mark.parametrize("arms", [1, 2, 3, 7, 64, 65])
def test_search_equals_scan_for_any_number_of_arms(arms):
    world = Bernoulli(means=tuple(np.linspace(0.1, 0.9, arms)) if arms > 1 else (0.5,))
    for policy in (Ucb(arms=arms), Ncb(arms=arms, horizon=600, c=0.5)):
        out = compiled(policy, world, 600, 2).advance(600).codes
        assert np.array_equal(out, steps(policy, world, 600, 2)[0].codes)


def shares(policy, world, rounds, runs, fast, late=AT_ONCE):
    """Pull shares and releases of every run."""
    found = np.zeros((runs, world.arms + 1))
    for run in range(runs):
        simulator = (compiled if fast else stepwise)(policy, world, rounds, 11, run, late)
        found[run] = [*simulator.advance(rounds).pulls / rounds, simulator.releases]
    return found


def agree(policy, world, late=AT_ONCE, runs=(50, 500)):
    slow, fast = (shares(policy, world, 150, count, quick, late) for count, quick in zip(runs, (False, True)))
    error = np.sqrt(slow.var(axis=0) / len(slow) + fast.var(axis=0) / len(fast))
    assert (np.abs(slow.mean(axis=0) - fast.mean(axis=0)) <= 4 * error + 1e-12).all()
    assert np.allclose(fast[:, :-1].sum(axis=1), 1)


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
    agree(policy, world)


@pytest.mark.parametrize(
    "late",
    [
        {"delay": ["geometric", 8.0], "window": 20},
        {"delay": ["uniform", 2, 20], "missing": 0.3},
        {"delay": 5, "window": 12, "missing": 0.3},
        {"delay": ["uniform", 0, 30], "window": 9, "treat": "default", "default": 0.4},
        {"delay": 6, "missing": 0.5, "treat": "private"},
    ],
    ids=str,
)
def test_late_and_missing_rewards_agree_in_law(late):
    arrivals = "private" if late.get("treat") == "private" else "public"
    agree(PrivateNash(arms=3, epsilon=2.0, arrivals=arrivals), Mixed(means=(0.9, 0.6, 0.1)), Lateness.of(late))


def test_late_reports_agree_in_law():
    late = Lateness.of({"delay": ["uniform", 0, 25], "missing": 0.2})
    agree(LocalNash(arms=3, epsilon=2.0), Bernoulli(means=(0.9, 0.6, 0.1)), late)
