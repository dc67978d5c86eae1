"""When a release comes: a block that waits for its answers tells how long somebody took."""

from __future__ import annotations

from fairveil.bandits.environments.arms import UNIT
from fairveil.bandits.feedback import Lateness, Outstanding, hand_over
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.protocol import Feedback, Round
from fairveil.privacy.noise import SecureNoise
from fairveil.proof.attacks import Attack, guess_chance
from fairveil.randomness import Generator
from fairveil.registry import register

EPSILON = 0.5
WINDOW = 7
SOON, LATE = 0, 5
"""Rounds until a person with reward 1 answers, and until one with reward 0 does."""


@register("attack", "timing")
class Timing(Attack):
    """Watch the round in which the first block is released; the first person answers late when their reward is 0.

    Both sides run the driver of late rewards. The twin declares arrivals public although they depend on the outcome, so
    its block is released when the last answer is there. Ours waits for the window, whoever has answered.
    """

    game = "guess whether a person's reward is 0 or 1"
    words = "a round is settled when its public window has passed, whether or not the reward is there"
    chance = guess_chance(EPSILON)
    games = 200

    def play(self, protected: bool, rng: Generator) -> bool:
        secret = int(rng.integers(2))
        policy, noise = PrivateNash(arms=2, epsilon=EPSILON), SecureNoise()
        lateness = Lateness(numbers=(float(WINDOW),), window=WINDOW, treat="default" if protected else "public")
        outstanding, state, stop = Outstanding(policy, lateness), policy.start(), 0
        while not int(state["released"][0]):
            now = outstanding.now
            state = policy.open(state, now, rng)
            block = policy.block(state)
            stop = stop or (0 if block is None else block.stop)
            outstanding.decided(policy.decide(state, Round(now), rng).arm, Round(now))
            for late in {now, now - LATE} if now >= LATE else {now}:
                wait = (SOON if secret else LATE) if late == stop - 1 else SOON
                arm = outstanding.arm(late)
                if now - late == wait and arm is not None:
                    reward = float(secret) if late == stop - 1 else 0.0
                    outstanding.arrive(Feedback(late, arm, reward, Round(late)))
            state = hand_over(policy, state, outstanding, noise)
        waited = outstanding.now - stop
        if waited < WINDOW:  # somebody was waited for, and no longer than needed
            return int(waited < LATE) == secret
        return int(float(state["sums"].sum()) / UNIT > 0.5) == secret
