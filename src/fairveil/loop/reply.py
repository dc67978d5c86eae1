"""What callers get back, and the columns of an event that it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fairveil.loop.clock import in_words

(
    LOOP,
    KEY,
    BODY,
    ROUND,
    DECIDED,
    UNTIL,
    ACTION,
    PROPENSITY,
    VERSION,
    MODE,
    LEARN,
    REASON,
    ACTIVATED,
    OWN,
    REWARD,
    REWARDED,
    CONTEXT,
) = range(17)
PENDING, NEVER, FROZEN = "pending", "never", "frozen"


class Reply(NamedTuple):
    """A decision. ``learning``: pending, never or frozen, with the reason; ``replayed``: it was made before."""

    event_id: str
    action: int
    action_id: str | None
    propensity: float
    round: int | None
    policy_version: int
    mode: str
    learning: str
    reason: str | None
    reward_until: str
    simulated: bool = False
    replayed: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The body of the answer; ``simulated`` only where it is so."""
        table = self._asdict()
        del table["replayed"]
        if not self.simulated:
            del table["simulated"]
        return table


class RewardReply(NamedTuple):
    """What becomes of a reward: ``learned`` is pending or never, with the reason."""

    event_id: str
    accepted: bool
    learned: str
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        table = self._asdict()
        if self.reason is None:
            del table["reason"]
        return table


def reply_of(row: Sequence[Any], event: str, name: str | None, simulated: bool, replayed: bool) -> Reply:
    return Reply(
        event,
        row[ACTION],
        name,
        row[PROPENSITY],
        row[ROUND],
        row[VERSION],
        row[MODE],
        row[LEARN],
        row[REASON],
        in_words(row[UNTIL]),
        simulated,
        replayed,
    )
