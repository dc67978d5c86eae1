"""The compiled run of Private-Fair-Greedy: the integers that its releases would draw, in their order, drawn at once."""

from __future__ import annotations

import numpy as np

from fairveil.bandits.feedback import AT_ONCE
from fairveil.bandits.meritocratic.exact import Drawn, ExactRunner
from fairveil.bandits.meritocratic.halved_history import UNIFORM_ROUNDS
from fairveil.bandits.meritocratic.noisy_history import UNIT, NoisyHistory
from fairveil.bandits.meritocratic.schema import Floats, Ints
from fairveil.bandits.meritocratic.world import Chunk
from fairveil.bandits.simulate import Case, Streams
from fairveil.errors import HorizonError
from fairveil.privacy.noise import Noise

AT_A_TIME = 1024
"""Leaves whose noise is drawn in one call: bounds the memory of the levels."""


def noisy_runner(policy: NoisyHistory, case: Case, streams: Streams) -> NoisyRunner | None:
    """The compiled run where rewards come at once; late ones are played step by step."""
    return NoisyRunner(policy, case, streams) if case.lateness == AT_ONCE else None


class NoisyRunner(ExactRunner):
    """Any source of noise, secure too. Every draw of the horizon is made before the first round."""

    def __init__(self, policy: NoisyHistory, case: Case, streams: Streams) -> None:
        super().__init__(policy, case, streams)
        slots = self.environment.slots()
        policy.check_queries(slots, len(slots))
        self.noisy = policy
        self.counts = np.zeros((policy.last_round, policy.draws_a_count, len(slots)))
        self.moments = self._draw(streams.noise)

    def _draw(self, noise: Noise) -> Floats:
        """Noise of the moments by leaf; fills the noise of the counts. A leaf closes, then two rounds get counts."""
        policy, sums = self.noisy, self.noisy.sums
        rounds, leaf_levels = policy.last_round, sums.sigma * sums.grid.spread
        leaves = np.empty((policy.leaves, sums.grid.width), np.int64)
        levels = np.array([policy.count_std(now) for now in range(rounds)]) * UNIT
        width, each = sums.grid.width, self.counts[0].size
        for first in range(0, policy.leaves, AT_A_TIME):
            last = min(first + AT_A_TIME, policy.leaves)
            own = np.arange(first, last)
            # Leaf h closes before round 2h; rounds 2h and 2h + 1 follow, the last of them perhaps past the horizon.
            pair = np.minimum(2 * own[:, None] + UNIFORM_ROUNDS + np.arange(2), rounds - 1)
            wanted = np.concatenate(
                [np.broadcast_to(leaf_levels, (len(own), width)), np.repeat(levels[pair], each, axis=1)], axis=1
            )
            drawn = noise.gaussians(wanted)
            leaves[first:last] = drawn[:, :width]
            self._keep(drawn[:, width:], pair)
        return sums.noise_of(leaves)

    def _keep(self, drawn: Ints, pair: Ints) -> None:
        values = drawn.reshape(len(drawn), 2, *self.counts.shape[1:]) / UNIT
        for half in (1, 0):  # where both rounds are the last one, the first of them counts
            self.counts[pair[:, half]] = values[:, half]

    def play(self, chunk: Chunk) -> tuple[Ints, Floats]:
        if chunk.first + len(chunk) > self.noisy.last_round:
            raise HorizonError(
                "the run is longer than the policy's horizon",
                path="rounds",
                given=chunk.first + len(chunk),
                allowed=f"at most {self.noisy.last_round}",
            )
        self.releases = (chunk.first + len(chunk)) // 2
        return super().play(chunk)

    def drawn(self, first: int, shape: tuple[int, ...]) -> Drawn:
        own = self.counts[first : first + shape[0]]
        totals = own[:, 1] if own.shape[1] == 2 else np.zeros(shape)
        return Drawn(self.moments, np.ascontiguousarray(own[:, 0]), np.ascontiguousarray(totals))

    def rank_uncertainty(self) -> Floats | None:
        seen = np.maximum(self.store.end - self.store.start, 1)
        now = min(int(self.store.end.max()), self.noisy.last_round)
        return np.sqrt(0.25 / seen + (self.noisy.count_std(now) / seen) ** 2)
