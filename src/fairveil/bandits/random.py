"""The policy that learns nothing."""

from __future__ import annotations

import numpy as np

from fairveil.bandits.protocol import Decision, Feedback, Policy, Report, Round
from fairveil.bandits.simulate import Case, Streams
from fairveil.bandits.steps import UniformSimulator
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fields import Count, described
from fairveil.privacy.guarantee import Guarantee
from fairveil.randomness import Generator
from fairveil.registry import register
from fairveil.state import State


@register("policy", "random")
@configuration
class Random(Policy):
    """Choose uniformly among the arms, or among the candidates that are shown; works in every family.

    Guarantee: none is needed, no data are read. Cost: none. Decide O(1), no memory.

    >>> import numpy as np
    >>> Random(arms=4).decide({}, Round(0), np.random.default_rng(1)).propensity
    0.25
    """

    arms: Count | None = described("number of arms; candidates count when they are shown", default=None)

    def guarantee(self) -> Guarantee | None:
        return None

    def start(self) -> State:
        return {}

    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        options = len(round.candidates) or self.arms
        if options is None:
            raise SpecError(
                "the number of arms is not known", path="policy.arms", allowed="at least 1", fix="give arms"
            )
        law = np.full(options, 1.0 / options)
        return Decision(int(rng.integers(0, options)), 1.0 / options, law, symmetric=True)

    def learn(self, state: State, feedback: Feedback | Report) -> State:
        return state

    def simulator(self, case: Case, streams: Streams) -> UniformSimulator | None:
        return UniformSimulator(case, streams) if case.family.uniform else None
