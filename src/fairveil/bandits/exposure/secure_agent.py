"""One agent of a federation with secure sums: it shows masked numbers, each block in one union for ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairveil.arrays import Ints
from fairveil.bandits.exposure.agent import Agent
from fairveil.bandits.exposure.batched_priv_fairx import BatchedPrivFairx
from fairveil.federated.party import MaskedNumbers, Union
from fairveil.federated.secure_sum import release_masked
from fairveil.ledger import ReleaseLost
from fairveil.privacy.noise import Noise
from fairveil.state import State, copy_state


class SecureAgent(Agent):
    """An agent whose numbers nobody sees: they leave with a share of the noise, behind masks that cancel in the sum.

    Guarantee: the policy's, against everybody but more than ``colluding`` agents who pool what they know. The ledger
    holds the masked numbers and the digest of their union; noise is drawn once the union is fixed, for its size, and
    what is under the mask is never stored. A personal agent takes its own exact rows off the sum, never its numbers.
    Cost: as `Agent`, and one key agreement a party and synchronisation.
    """

    policy: BatchedPrivFairx

    def contribute(self, union: Union, noise: Noise | None = None) -> MaskedNumbers | None:
        policy, sync = self.policy, self.syncs
        union.check_part(self.index, policy.colluding, "agent")
        rows, exact = int(self.state["rows"][self.index]), self.state["leaf"][self.index].copy()

        def units(source: Noise) -> Ints:
            self._known = True
            shares: Ints = policy.share(len(union.parties)).draws(source)[0]
            return policy.exact_units(self.state, self.index) + shares

        def drawn(_: Any) -> State:
            """The rows are in the sum now; a personal agent remembers them, to take them off again."""
            after = self._dropped()
            if policy.personal:
                after["block"][self.index] += exact
            return after

        found = release_masked(self.account, f"sync-{sync}", union, units, noise, resume=self._known, rows=rows)
        self._known = True
        if self._contributed <= sync:
            self.state = found.answer(drawn=drawn, stored=lambda _: self._dropped(), lost=lambda _: self._dropped())
            self._contributed = sync + 1
        if isinstance(found.value, ReleaseLost):
            return None
        return MaskedNumbers(found.value["masked"], int(found.value["rows"]))

    def take_sum(self, parties: Sequence[int], total: Ints, rows: int) -> None:
        after = self._settled(parties)
        self.policy.publish_sum(after, total, parties, rows)
        self.state = after
        self._learn()

    def void(self, parties: Sequence[int]) -> None:
        after = self._settled(parties)
        if "block" in after:
            after["block"][:] = 0.0
        self.policy.close(after, parties)
        self.state = after
        self._learn()

    def _settled(self, parties: Sequence[int]) -> State:
        """The state in which this agent's rows of the block are gone if it was in the union, and kept if not."""
        if self.index in parties and self._contributed <= self.syncs:
            self.state = self._dropped()
        return copy_state(self.state)
