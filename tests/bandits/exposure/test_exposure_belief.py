"""Beliefs: exact statistics give the ridge, released ones are always positive definite, confidence sets cover."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairveil.bandits.exposure import BatchedPrivFairx, FedFairx, PrivFairx, PrivFairxDubeyPentland, PrivFairxPrinted
from fairveil.bandits.exposure.belief import BeliefFacts, Beliefs, PersonalFacts, Radius, refresh, ridge, weigh
from fairveil.bandits.exposure.kernel import add_row, make_row, raw_row
from fairveil.privacy.noise import SeededNoise


def problem(seed, dimension=4, rows=60):
    rng = np.random.default_rng(seed)
    x = rng.random((rows, dimension)) / np.sqrt(dimension)
    y = x @ np.full(dimension, dimension**-0.5) + 0.1 * rng.normal(size=rows)
    return x.T @ x, x.T @ y


def test_without_noise_weighing_is_the_ridge():
    gram, moment = problem(1)
    one, two, a, b = np.empty((4, 4)), np.empty((4, 4)), np.empty(4), np.empty(4)
    ridge(gram, moment, 1.0, 0.0, 0.01, one, a)
    weigh(gram, moment, 1.0, 0.0, 1.0, 0.01, two, b)
    np.testing.assert_allclose(one, (gram + np.eye(4)) / 0.01, rtol=1e-9)
    np.testing.assert_allclose(two, one, rtol=1e-9)
    np.testing.assert_allclose(a, b, rtol=1e-9)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.floats(0.01, 1e6), st.sampled_from(["ridge", "weigh"]))
def test_the_precision_is_positive_definite_whatever_the_noise(seed, scale, how):
    gram, moment = problem(seed)
    rng = np.random.default_rng(seed)
    noise = scale * rng.normal(size=(4, 4))
    noisy = gram + (noise + noise.T) / 2
    precision, target = np.empty((4, 4)), np.empty(4)
    if how == "ridge":
        ridge(noisy, moment, 1.0, 0.0, 0.01, precision, target)
    else:
        weigh(noisy, moment, 1.0, scale**2, 1.0, 0.01, precision, target)
    eigenvalues = np.linalg.eigvalsh(precision)
    assert eigenvalues[0] >= 100.0 * (1 - 1e-6) - 1e-9 * eigenvalues[-1]


PUBLIC = BeliefFacts(1.0, 1.0, 1.0, 0.01, 1.0, 0.0, 1.0)


def belief(prior, target, **radius):
    """One agent's belief with a radius of these numbers."""
    numbers = {"offset": 0.0, "level": 0.0, "follows": 1.0, "base": 1.0, "growth": 0.0, **radius}
    known = Radius(*(np.array([numbers[name]]) for name in Radius._fields))
    d = len(target)
    return Beliefs(prior[None].copy(), np.array([target]), np.zeros((1, d)), np.zeros((1, d, d)), np.zeros(1), known)


def test_refresh_solves_and_factors_as_numpy_does():
    gram, moment = problem(3)
    own = np.zeros((5, 5))
    own[:4, :4], own[:4, 4] = gram, moment
    prior, target = 100 * np.eye(4), np.array([1.0, 2.0, 3.0, 4.0])
    held = belief(prior, target, offset=1.5, level=-1.0, base=2.0, growth=0.5)
    log_det = refresh(0, held, own, PUBLIC._replace(width=0.7), 3.0, np.empty((2, 4, 4)))
    precision = prior + 100 * gram
    np.testing.assert_allclose(held.centre[0], np.linalg.solve(precision, target + 100 * moment), rtol=1e-10)
    assert log_det == pytest.approx(np.linalg.slogdet(precision)[1])
    radius = 0.7 * (1.5 + np.sqrt(-1.0 + log_det + 4 * np.log(3.5)))
    root = held.root[0]
    np.testing.assert_allclose(root @ root.T, radius**2 * np.linalg.inv(precision), rtol=1e-9)
    assert np.allclose(np.tril(root, -1), 0)


@pytest.mark.parametrize(
    "kind", ["sound", "printed-shift", "printed-floor", "read-shift", "read-floor", "batched", "personal"]
)
def test_released_beliefs_stay_positive_definite_under_heavy_noise(kind):
    facts = {"agents": 3, "dimension": 4, "horizon": 200, "epsilon": 0.05, "delta": 1e-6, "schedule": "every-round"}
    policy = {
        "sound": lambda: PrivFairx(**facts),
        "printed-shift": lambda: PrivFairxPrinted(**facts),
        "printed-floor": lambda: PrivFairxPrinted(**facts, definite="floor"),
        "read-shift": lambda: PrivFairxDubeyPentland(**facts),
        "read-floor": lambda: PrivFairxDubeyPentland(**facts, definite="floor"),
        "batched": lambda: BatchedPrivFairx(**facts),
        "personal": lambda: BatchedPrivFairx(**facts, personal=True),
    }[kind]()
    state, noise = policy.start(), SeededNoise(5)
    for _ in range(60):
        state = policy.release(state, noise)
        for prior in state["prior"]:
            values = np.linalg.eigvalsh(prior)
            assert values[0] > 0.99 * policy.regularisation / policy.reward_std**2 - 1e-9 * values[-1]
        assert np.isfinite(state["centre"]).all()
        assert np.isfinite(state["root"]).all()


@pytest.mark.parametrize("personal", [False, True])
@pytest.mark.parametrize(("epsilon", "std"), [(0.5, 0.1), (20.0, 0.1), (1.0, 1.0), (20.0, 1.0)])
def test_confidence_sets_of_released_statistics_cover_the_parameter(epsilon, std, personal):
    # 60 independent federations of 4 agents; a set may miss with probability 0.1, so some agent's set misses after the
    # last synchronisation in at most 6 + 3 sqrt(5.4) = 13 of them.
    rng, misses = np.random.default_rng(17), 0
    policy = BatchedPrivFairx(
        agents=4,
        dimension=3,
        horizon=1100,
        epsilon=epsilon,
        delta=1e-3,
        schedule={"name": "growing", "factor": 4.0, "first": 16},
        reward_std=std,
        reward_bound=1 + 3 * std,
        personal=personal,
    )
    row, raw = np.empty(4), np.empty(4)
    for trial in range(60):
        theta = np.abs(rng.normal(size=3))
        theta /= np.linalg.norm(theta)
        state, noise = policy.start(), SeededNoise(trial)
        for time in policy.times:
            state["rows"][:] = time - int(state["last"])
            for i in range(policy.agents):
                contexts = rng.random((time - int(state["last"]), 3)) / np.sqrt(3)
                for x, y in zip(contexts, contexts @ theta + std * rng.normal(size=len(contexts))):
                    make_row(x, y, policy.compiled.rows, row)
                    add_row(row, state["leaf"][i])
                    if personal:
                        raw_row(x, y, policy.compiled.rows, raw)
                        add_row(raw, state["local"][i])
            state = policy.release(state, noise)
        lengths = [np.linalg.norm(np.linalg.solve(state["root"][i], theta - state["centre"][i])) for i in range(4)]
        misses += max(lengths) > 1
    assert misses <= 13


def missed(policy, rounds, trials):
    """How often the set of a first release after so many rounds leaves theta* out, and how far out it is (median)."""
    rng, lengths = np.random.default_rng(23), []
    for trial in range(trials):
        theta = np.abs(rng.normal(size=policy.dimension))
        theta /= np.linalg.norm(theta)
        state = policy.start()
        for leaf in state["leaf"]:
            x = rng.random((rounds, policy.dimension)) / np.sqrt(policy.dimension)
            y = x @ theta + policy.reward_std * rng.normal(size=rounds)
            rows = np.column_stack([x, np.clip(y / policy.reward_bound, -1, 1)])
            leaf[:] = rows.T @ rows
        state["acted"][:] = rounds
        state = policy.release(state, SeededNoise(trial))
        lengths.append(np.linalg.norm(np.linalg.solve(state["root"][0], theta - state["centre"][0])))
    return int((np.array(lengths) > 1).sum()), float(np.median(lengths))


PAPER = {"agents": 10, "dimension": 5, "horizon": 100_000, "epsilon": 2.0, "delta": 0.1}


@pytest.mark.parametrize("definite", ["shift", "floor"])
@pytest.mark.parametrize("std", [0.1, 1.0])
def test_lemma_7_as_printed_is_no_confidence_set_and_as_read_it_is_one(definite, std):
    # A set may miss with probability 0.1: in 40 federations a valid one misses at most 4 + 3 sqrt(3.6) = 9 times.
    facts = {**PAPER, "definite": definite, "reward_std": std, "reward_bound": 1 + 2 * std}
    misses, distance = missed(PrivFairxPrinted(**facts), 1000, 40)
    assert misses >= 30
    assert distance > 1
    misses, distance = missed(PrivFairxDubeyPentland(**facts), 1000, 40)
    assert misses <= 9
    assert distance < 0.5


def test_a_personal_set_is_shaped_like_the_agents_own_and_never_larger():
    rng = np.random.default_rng(3)
    x = rng.random((50, 4)) / 2
    own = np.zeros((5, 5))
    own[:4, :4], own[:4, 4] = x.T @ x, x.T @ (x @ np.full(4, 0.5))
    prior, confidence, target = 4 * np.eye(4), 2 * np.log(10), np.zeros(4)
    facts = BeliefFacts(1.0, 1.0, 1.0, 0.25, 1.0, confidence, 1.0)
    work = np.empty((2, 4, 4))
    plain = belief(prior, target, offset=2.0, level=confidence - 4 * np.log(4.0))
    refresh(0, plain, own, facts, 1.0, work)
    alone = plain.root[0]
    for gain in (0.0, 1.0, 30.0, 1000.0):
        more = prior + gain * np.diag([1.0, 0.5, 0.2, 0.1])
        level = confidence - np.linalg.slogdet(more)[1]
        held = belief(more, target, offset=2.0, level=level)
        refresh(0, held, own, PersonalFacts(*facts), 1.0, work)
        root = held.root[0]
        share = root[0, 0] / alone[0, 0]
        np.testing.assert_allclose(root, share * alone, atol=1e-12)
        assert share <= 1 + 1e-12
        # and it holds the whole set of the combined precision, whose radius is the elliptic one
        combined = more + 4 * x.T @ x
        radius = 2.0 + np.sqrt(level + np.linalg.slogdet(combined)[1])
        inner = radius * np.linalg.inv(np.linalg.cholesky(combined)).T
        if share < 1 - 1e-9:
            assert np.linalg.norm(np.linalg.solve(root, inner), 2) <= 1 + 1e-9
    assert share < 0.7


def test_more_precise_releases_make_smaller_sets():
    facts = {"agents": 3, "dimension": 3, "horizon": 1000}
    sizes = {}
    for name, policy in {
        "exact": FedFairx(**facts, schedule="doubling", local_raw=False),
        "loose": BatchedPrivFairx(**facts, epsilon=5.0, delta=1e-3, schedule="doubling"),
        "tight": BatchedPrivFairx(**facts, epsilon=0.2, delta=1e-3, schedule="doubling"),
    }.items():
        state, rng = policy.start(), np.random.default_rng(2)
        for time in policy.times:
            rows = time - int(state["last"])
            for i in range(3):
                v = np.trunc(np.column_stack([rng.random((rows, 3)) / 2, rng.random(rows) / 2]) * 2**15) / 2**15
                state["leaf"][i] = v.T @ v
                if "rows" in state:
                    state["rows"][i] = rows
            state = policy.release(state, SeededNoise(4, time))
        sizes[name] = abs(np.linalg.det(state["root"][0]))
    assert sizes["exact"] < sizes["loose"] < sizes["tight"]
