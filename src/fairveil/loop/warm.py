"""One round and one release on nothing, so that compiled code is ready before the first person asks."""

from __future__ import annotations

import contextlib

import numpy as np

from fairveil.bandits.protocol import Candidate, Round
from fairveil.errors import FairveilError
from fairveil.loop.facts import Facts
from fairveil.loop.play import CandidatesPlay
from fairveil.privacy.noise import SecureNoise, SeededNoise
from fairveil.randomness import generator


def warm_noise() -> None:
    """Draw secure noise for nobody: its library takes seconds to load, which the first release should not wait for."""
    source = SecureNoise()
    source.laplace(1.0)
    source.gaussian(1.0)


def warm(facts: Facts) -> None:
    """Decide, learn, draw and adopt on made-up rows of a state that is thrown away. Takes seconds on a cold machine."""
    if not facts.spec.simulated:
        warm_noise()
    policy, rng = facts.policy, generator(0, "warm")
    shown: tuple[Candidate, ...] = ()
    if isinstance(facts.play, CandidatesPlay):
        width = len(facts.spec.features or ())
        shown = tuple(Candidate(0, np.full(width, 0.1 * place)) for place in range(2))
    with contextlib.suppress(FairveilError):  # what does not fit shows when somebody asks
        state = policy.open(policy.start(), 0, rng)
        arm = policy.decide(state, Round(0, shown), rng).arm
        block = policy.block(state)
        if block is None:
            return
        context = None if not shown else facts.play.context_of(shown, arm)
        full = policy.learn_all(state, [facts.play.feedback(0, arm, facts.default, context)])
        after = policy.adopt(state, block.name, policy.draw(full, SeededNoise(0)))
        policy.decide(policy.open(after, block.stop, rng), Round(block.stop, shown), rng)
