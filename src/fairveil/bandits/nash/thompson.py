"""Thompson sampling without privacy: the yardstick everybody knows (Thompson 1933; Agrawal and Goyal 2012)."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairveil.arrays import Floats, Ints
from fairveil.bandits.environments.arms import draw_one
from fairveil.bandits.nash.rounds import RoundSimulator
from fairveil.bandits.nash.sequential import SequentialPolicy
from fairveil.bandits.protocol import Decision, Round
from fairveil.compiling import njit
from fairveil.configuration import configuration
from fairveil.fields import Count, Positive, described
from fairveil.randomness import Generator
from fairveil.registry import register
from fairveil.state import State

NODES = 128
"""Points of the quadrature that gives the chance of an arm."""


class Numbers(NamedTuple):
    """The prior Beta(successes, failures) of every mean."""

    successes: float
    failures: float


@cache
def _quadrature() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return nodes, weights


class ThompsonSimulator(RoundSimulator):
    """Advances one run; its arrays are those of the step API."""

    def play(self, out: NDArray[np.int32]) -> None:
        _play(self.numbers, self.known, self.laws, self.sources, self.now, out)


@njit(cache=True, nogil=True)
def drawn_arm(numbers: Any, sums: Floats, counts: Ints, rng: Generator) -> int:
    """The arm with the largest draw from its posterior."""
    best, arm = -1.0, 0
    for i in range(counts.size):
        value = rng.beta(numbers.successes + sums[i], numbers.failures + counts[i] - sums[i])
        if value > best:
            best, arm = value, i
    return arm


@njit(cache=True, nogil=True)
def _play(numbers, known, laws, sources, start, out):
    for place in range(out.size):
        arm = drawn_arm(numbers, known.sums, known.counts, sources.explore)
        known.sums[arm] += draw_one(laws, arm, start + place, sources.world)
        known.counts[arm] += 1
        out[place] = arm


@register("policy", "thompson")
@configuration
class Thompson(SequentialPolicy):
    """Draw a mean of every arm from its Beta posterior and play the largest.

    Guarantee: none; raw rewards decide, although draws are random (its own privacy is weak and depends on the data).
    Cost: no privacy budget. Decide O(arms), memory O(arms). Needs no horizon. Rewards between 0 and 1 count as parts of
    a success. The propensity of a decision is the chance that its arm has the largest draw, by quadrature (an error
    below 1 %); the simulator leaves it out.

    >>> import fairveil
    >>> spec = {"task": "bandit", "policy": {"name": "thompson"}, "runs": 4, "rounds": 5000, "checkpoints": [5000],
    ...         "environment": {"name": "bernoulli", "means": [0.2, 0.5, 0.9]}}
    >>> fairveil.run(spec)["metrics"]["average_regret"][0] < 0.01
    True

    Reference: Thompson 1933; Agrawal and Goyal 2012.
    """

    simulated_by: ClassVar[type[RoundSimulator]] = ThompsonSimulator

    arms: Count = described("number of treatments", example=3)
    successes: Positive = described("successes that the prior counts", default=1.0)
    failures: Positive = described("failures that the prior counts", default=1.0)
    strict: bool = described("refuse a reward outside [0, 1] instead of clipping it", default=False)

    def numbers(self) -> Numbers:
        return Numbers(self.successes, self.failures)

    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        arm = int(drawn_arm(self._numbers, state["sums"], state["counts"], rng))
        return Decision(arm, self._chance(state, arm))

    def _chance(self, state: State, arm: int) -> float:
        """P(the draw of this arm is the largest) = mean over its quantiles of the others' distribution functions."""
        from scipy.special import betainc, betaincinv

        a = self.successes + state["sums"]
        b = self.failures + state["counts"] - state["sums"]
        nodes, weights = _quadrature()
        draws = betaincinv(a[arm], b[arm], (nodes + 1) / 2)
        others = np.delete(np.arange(self.arms), arm)
        below = betainc(a[others, None], b[others, None], draws[None, :]).prod(axis=0)
        return float(np.clip((weights / 2) @ below, 1e-12, 1.0))
