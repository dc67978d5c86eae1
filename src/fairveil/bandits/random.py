"""The policy that learns nothing."""

from __future__ import annotations

from typing import Any

from fairveil.bandits.protocol import Decision, Feedback, Policy, Report, Round, drawn_evenly
from fairveil.bandits.simulate import Case, Simulator, Streams
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
        return drawn_evenly(options, rng)

    def learn(self, state: State, feedback: Feedback | Report) -> State:
        return state

    def simulator(self, case: Case, streams: Streams) -> UniformSimulator | None:
        return UniformSimulator(case, streams) if case.family.uniform else None


class UniformSimulator(Simulator[Any]):
    """The policy that learns nothing, without its steps: a family draws the choices of many rounds at once."""

    def __init__(self, case: Case, streams: Streams) -> None:
        self.family, self.streams, self.world = case.family, streams, case.environment
        self.decided, self.seen = 0, None

    def advance(self, stop: int) -> Any:
        self.seen = self.family.at_random(self.world, self.decided, stop, self.streams, self.seen)
        self.decided = stop
        return self.seen
