"""Fair-Greedy by its definition: weights from the first half of the history, ranks in the second half."""

import numpy as np

from fairveil.bandits.meritocratic import FairGreedy
from fairveil.bandits.protocol import Candidate, Feedback, Round
from fairveil.privacy.noise import SeededNoise
from fairveil.randomness import generator

GROUPS, SLOTS = 2, 3


def history(rounds, seed=1):
    """Candidates (rounds, slots, features), their groups, the slots chosen and the rewards."""
    rng = np.random.default_rng(seed)
    features, group = rng.normal(size=(rounds, SLOTS, 2)), rng.integers(0, GROUPS, (rounds, SLOTS))
    chosen = rng.integers(0, SLOTS, rounds)
    reward = features[np.arange(rounds), chosen] @ [1.0, -0.5] + rng.normal(0, 0.1, rounds)
    return features, group, chosen, reward


def shown(index, features, group):
    return Round(index, tuple(Candidate(int(g), row) for g, row in zip(group, features)))


def played(policy, features, group, chosen, reward, rounds):
    state = policy.start()
    for index in range(rounds):
        asked = shown(index, features[index], group[index])
        state = policy.learn(state, Feedback(index, int(chosen[index]), float(reward[index]), asked))
        if policy.due(state, index + 1) is not None:
            state = policy.release(state, SeededNoise(0))
    return state


def test_decisions_are_those_of_the_definition():
    policy = FairGreedy(groups=GROUPS, features=2, ridge=0.1)
    compared = 0
    for seed, now in enumerate([3, 4, 9, *range(20, 60)]):
        features, group, chosen, reward = history(now + 1, seed)
        state = played(policy, features, group, chosen, reward, now)
        half = now // 2
        rows = features[np.arange(half), chosen[:half]]
        theta = np.linalg.solve(rows.T @ rows + 0.1 * np.eye(2), rows.T @ reward[:half])
        np.testing.assert_allclose(state["theta"], theta, rtol=1e-9)
        ranks = np.full(SLOTS, np.nan)
        for slot in range(SLOTS):
            own = features[half:now][group[half:now] == group[now, slot]]
            ranks[slot] = np.mean(own @ theta <= features[now, slot] @ theta) if len(own) else np.nan
        if np.isnan(ranks).any() or np.sum(ranks == ranks.max()) > 1:  # a coin decides
            continue
        found = policy.decide(state, shown(now, features[now], group[now]), generator(0))
        assert (now, found.arm, found.propensity) == (now, int(np.argmax(ranks)), 1.0)
        compared += 1
    assert compared > 20


def test_the_best_of_a_group_of_low_scores_comes_before_the_middle_of_a_group_of_high_ones():
    """What the notion is for: merit is the place in one's own group, whatever the groups' scores are."""
    policy = FairGreedy(groups=2, features=1)
    rng, state = np.random.default_rng(1), policy.start()
    for index in range(400):
        low, high = rng.normal(0.0, 1.0), rng.normal(10.0, 1.0)
        asked = shown(index, [[low], [high]], [0, 1])
        state = policy.learn(state, Feedback(index, index % 2, float((low, high)[index % 2]), asked))
        if policy.due(state, index + 1) is not None:
            state = policy.release(state, SeededNoise(0))
    assert policy.decide(state, shown(400, [[2.0], [10.0]], [0, 1]), generator(0)).arm == 0
    assert policy.decide(state, shown(400, [[0.0], [12.0]], [0, 1]), generator(0)).arm == 1


def test_nothing_is_promised():
    assert FairGreedy(groups=2, features=2).guarantee() is None
