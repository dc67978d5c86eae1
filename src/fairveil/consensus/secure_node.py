"""One node of a federation with secure sums: it shows masked numbers, each iteration in one union for ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairveil.arrays import Ints
from fairveil.consensus.node import Node
from fairveil.consensus.private_admm import GradientLocal
from fairveil.errors import PrivacyError
from fairveil.federated.party import MaskedNumbers, Union, check_union
from fairveil.federated.secure_sum import as_words
from fairveil.ledger import release_once
from fairveil.privacy.noise import Noise


class SecureNode(Node):
    """A node whose numbers nobody sees: they leave with a share of the noise, behind masks that cancel in the sum.

    Guarantee: the algorithm's, against everybody but more than ``colluding`` nodes who pool what they know. The ledger
    holds the masked numbers and the digest of their union; noise is drawn once the union is fixed, for its size. The
    digest covers every party's view of the sums so far, so a stored answer belongs to one public point.
    """

    def contribute(self, union: Union, noise: Noise | None = None) -> MaskedNumbers | None:
        local, account, iteration = self._secure(), self._account(), self.iteration
        if account is None or self.index not in union.parties or len(union.parties) <= local.colluding:
            raise PrivacyError(
                "this node has no part in this union", path="union", given=list(union.parties),
                allowed="a ledger, itself among more parties than may collude",
            )  # fmt: skip

        def draw(source: Noise) -> dict[str, Any]:
            units = local.share(iteration, self.rows, source, len(union.parties))
            return {"masked": as_words(units) + union.masks(len(units)), "union": union.digest}

        found = release_once(account, account.block(f"iteration-{iteration}"), draw, noise)
        value = found.answer(drawn=lambda shown: shown, stored=lambda shown: shown, lost=lambda _: None)
        if value is not None:
            check_union(value["union"], union, f"iteration {iteration}")
        return None if value is None else MaskedNumbers(value["masked"], len(self.rows))

    def take_sum(self, parties: Sequence[int], total: Ints, rows: int) -> None:
        self._hear_sum(total, parties)

    def void(self, parties: Sequence[int]) -> None:
        self._hear_sum(None, parties)

    def _hear_sum(self, total: Ints | None, parties: Sequence[int]) -> None:
        self._note("summed", [sorted(parties), total])
        self._sync += 1
        self._secure().hear_sum(self.iteration, total, parties)

    def _secure(self) -> GradientLocal:
        if not isinstance(self.local, GradientLocal) or not self.algorithm.secure_sums:
            raise PrivacyError("this algorithm has no secure sums", path="algorithm", given=self.algorithm.name)
        return self.local

    def _replay(self, item: Any) -> None:
        if isinstance(item, dict) and "summed" in item:
            parties, total = item["summed"]
            self._hear_sum(total, [int(node) for node in parties])
        else:
            super()._replay(item)
