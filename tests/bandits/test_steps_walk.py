"""The step simulator: order of events, delays, missing rewards, any family of policy."""

import numpy as np

from fairveil import SeededNoise, ZeroNoise
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.feedback import AT_ONCE, NEVER, Lateness
from fairveil.bandits.protocol import Decision, Feedback, Policy
from fairveil.bandits.simulate import Streams, walk
from fairveil.randomness import generator


class Diary(Policy):
    """Writes down what it is told, in the state."""

    name = "diary"

    def start(self):
        return {"seen": np.zeros((0, 2)), "releases": np.zeros(1)}

    def decide(self, state, round, rng):
        return Decision(round.index % 2)

    def report(self, feedback, noise):
        return Feedback(feedback.index, feedback.arm, feedback.reward * 10, feedback.round)

    def learn(self, state, feedback):
        row = np.array([[feedback.index, feedback.reward]])
        return {"seen": np.concatenate([state["seen"], row]), "releases": state["releases"]}

    def due(self, state, now):
        return "block" if now // 4 > state["releases"][0] else None

    def release(self, state, noise):
        return {"seen": state["seen"], "releases": state["releases"] + 1}


class Clock(Environment):
    """Pays the number of the round."""

    def reward(self, round, arm, rng):
        return float(round.index)


class Chosen(Lateness):
    """Every third reward never comes, odd rounds wait for six more decisions."""

    def wait(self, round, arm, rng):
        return NEVER if round.index % 3 == 0 else 6 * (round.index % 2)


def steps(late=AT_ONCE, rounds=12):
    return list(walk(Diary(), Clock(), rounds, Streams.of(0, 0, ZeroNoise()), late))


def test_rewards_pass_the_report_and_arrive_in_their_round():
    seen = steps()[-1].state["seen"]
    assert seen.tolist() == [[t, 10.0 * t] for t in range(12)]


def test_releases_are_made_as_soon_as_they_are_due():
    assert [int(step.state["releases"][0]) for step in steps()] == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3]


def test_delays_reorder_and_losses_drop():
    seen = steps(Chosen(window=6))[-1].state["seen"]
    arrived = seen[:, 0].astype(int).tolist()
    assert not any(index % 3 == 0 for index in arrived)
    assert arrived != sorted(arrived)
    assert len(set(arrived)) == len(arrived)
    for index in arrived:
        assert index + 6 * (index % 2) < 12


def test_random_delays_are_bounded_and_lose_their_share():
    waits = Lateness("uniform", (0.0, 4.0), 4, missing=0.25).waits(4000, generator(3))
    kept = waits[waits != NEVER]
    assert set(kept.tolist()) == {0, 1, 2, 3, 4}
    assert abs(len(kept) / 4000 - 0.75) < 0.03
    assert NEVER not in Lateness("uniform", (0.0, 2.0), 2).waits(100, generator(4))


def test_it_is_lazy_and_repeats():
    first = walk(Diary(), Clock(), 10**9, Streams.of(0, 0, SeededNoise(1)))
    assert next(first).reward == 0.0
    assert [step.decision.arm for step in steps()] == [0, 1] * 6
