"""Feedback that is delivered again and again: queues deliver at least once, an attacker as often as they like."""

from __future__ import annotations

from fairveil.bandits.environments.arms import UNIT
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.protocol import Feedback
from fairveil.privacy.mechanisms import Laplace
from fairveil.privacy.noise import SecureNoise
from fairveil.proof.attacks import Attack, guess_chance
from fairveil.randomness import Generator
from fairveil.registry import register

EPSILON = 0.5
TIMES = 20


@register("attack", "duplicates")
class Duplicates(Attack):
    """Deliver one person's reward twenty times: a sum that counts deliveries has twenty times their weight.

    The twin adds up what arrives and adds the noise of one reward. Ours is `private-nash`, whose block takes every
    round once.
    """

    game = "guess whether a person's reward is 0 or 1"
    words = "a block takes its rounds in rising order, each once: a second delivery changes nothing"
    chance = guess_chance(EPSILON)

    def play(self, protected: bool, rng: Generator) -> bool:
        secret = int(rng.integers(2))
        shown = self._ours(secret, rng) if protected else self._bare(secret)
        return int(shown > (0.5 if protected else TIMES / 2)) == secret

    def _bare(self, secret: int) -> float:
        counted = sum(float(secret) for _ in range(TIMES))
        return float(Laplace(sensitivity=1.0, epsilon=EPSILON).release(counted, SecureNoise()))

    def _ours(self, secret: int, rng: Generator) -> float:
        policy = PrivateNash(arms=2, epsilon=EPSILON)
        state = policy.open(policy.start(), 0, rng)
        block = policy.block(state)
        assert block is not None
        for index in range(block.first, block.stop):
            for _ in range(TIMES if index == block.first else 1):
                reward = float(secret) if index == block.first else 0.0
                state = policy.learn(state, Feedback(index, block.arm, reward))
        state = policy.learn(state, Feedback(block.first, block.arm, float(secret)))  # once more, late
        return float(policy.draw(state, SecureNoise())["total"][0]) / UNIT
