"""How a loop's published numbers came about: estimates after each release, from the ledger alone.

Post-processing of what is published, so it costs nothing and may be shown for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fairveil.bandits.nash.base import NashPolicy
from fairveil.bandits.protocol import HEADER
from fairveil.loop.blocks import block_name
from fairveil.loop.clock import in_words
from fairveil.loop.pages import without_page

if TYPE_CHECKING:
    from fairveil.loop.loop import Loop

POINTS = 60
"""Releases that a series shows at most: spread over all, the first and the last among them."""


def history(loop: Loop) -> list[dict[str, Any]]:
    """Of releases in their order: after how many rounds, when, what was then known of every arm, and its share of
    the rounds in them.

    Empty for policies without arms, and for a loop that started from another one: its releases alone say too little.
    """
    policy, spec = loop.facts.policy, loop.facts.spec
    if not isinstance(policy, NashPolicy) or spec.start_from is not None:
        return []
    version = loop.status().version
    if loop.history is not None and loop.history[0] == version:
        return loop.history[1]
    query = (
        "SELECT epoch, name, released_at FROM blocks WHERE loop = ? AND status = 'released' ORDER BY released_at, first"
    )
    with loop.store.reading() as tx:
        rows = tx.execute(query, (loop.facts.id,))
    values = [without_page(loop.ledger.value(block_name(loop.facts, epoch, name))) for epoch, name, _ in rows]
    releases = [(name, value) for (_, name, _), value in zip(rows, values, strict=True)]
    low, width, made = spec.reward.low, spec.reward.high - spec.reward.low, list[dict[str, Any]]()
    for place in sorted({round(one) for one in np.linspace(0, len(rows) - 1, POINTS)} if rows else ()):
        then = policy.restored(releases[: place + 1])
        found, given = policy.arm_intervals(then), policy.rounds_by_arm(then)
        arms = [
            None if np.isnan(mean) else [float(low + width * number) for number in (mean, least, most)]
            for mean, least, most in found
        ]
        rounds = max(int(value[HEADER][-1]) for value in values[: place + 1])
        shares = None if given is None or not given.sum() else (given / given.sum()).tolist()
        made.append({"rounds": rounds, "time": in_words(rows[place][2]), "arms": arms, "shares": shares})
    loop.history = version, made
    return made
