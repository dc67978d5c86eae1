"""What never changes about a loop, worked out once when it is opened."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fairveil.bandits.protocol import Policy
from fairveil.loop.accept import missing_of
from fairveil.loop.clock import SECOND, seconds_of
from fairveil.loop.config import LoopSpec
from fairveil.loop.play import ArmsPlay, CandidatesPlay, play_of
from fairveil.loop.storage import Transaction
from fairveil.loop.storage.driver import STATUS
from fairveil.state import State, load_state, save_state

if TYPE_CHECKING:
    from fairveil.loop.batch import Status

GRACE = 60 * SECOND
_COLUMNS = STATUS.split(", ")


@dataclass(frozen=True)
class Facts:
    """The number of a loop in its store, its description and its policy."""

    id: int
    spec: LoopSpec
    policy: Policy
    created: int

    @cached_property
    def play(self) -> ArmsPlay | CandidatesPlay:
        return play_of(self.policy, self.spec.explore)

    @cached_property
    def wait(self) -> int:
        """Length of the window in microseconds."""
        return self.spec.reward.seconds * SECOND

    @property
    def grace(self) -> int:
        """After a start no window closes for so long."""
        return min(self.wait, GRACE)

    @cached_property
    def missing(self) -> str:
        return missing_of(self.spec, self.policy)

    @cached_property
    def horizon(self) -> int | None:
        return None if self.policy.horizon_free else int(self.policy.horizon)  # type: ignore[attr-defined]

    @property
    def counts_persons(self) -> bool:
        return self.spec.person.max_events is not None

    @property
    def looks_at_persons(self) -> bool:
        return self.counts_persons or self.spec.person.sticky

    @cached_property
    def keeps_raw(self) -> int | None:
        raw = self.spec.retention.raw
        return None if raw is None else seconds_of(raw, "retention.raw") * SECOND

    @cached_property
    def keeps_events(self) -> int:
        return seconds_of(self.spec.retention.events, "retention.events") * SECOND

    @cached_property
    def default(self) -> float:
        """The reward that a missing one counts as, in the policy's range."""
        given = self.spec.reward.default
        return self.mapped(self.spec.reward.low if given is None else given)

    def mapped(self, value: float) -> float:
        """A reward of the declared range in the policy's: arms take [0, 1], the others read declared bounds."""
        if isinstance(self.play, ArmsPlay):
            low, high = self.spec.reward.low, self.spec.reward.high
            return (value - low) / (high - low)
        return value

    def reach(self, state: State) -> int:
        """The first round behind every block that is open."""
        if "ahead" in state:
            return int(state["ahead"][0])
        opened: Any = state.get("open") if isinstance(self.play, ArmsPlay) else None
        return 0 if opened is None or not len(opened) else int(opened[-1][2])

    def save(self, tx: Transaction, before: Status, after: Status) -> None:
        """Write the row of the loop; the state only when it changed."""
        changed: dict[str, Any] = {
            name: value for name in _COLUMNS if (value := getattr(after, name)) != getattr(before, name)
        }
        if after.revision != before.revision:
            changed["state"] = save_state(after.state)
        if changed:
            columns = ", ".join(f"{name} = ?" for name in changed)
            tx.execute(f"UPDATE loops SET {columns} WHERE id = ?", (*changed.values(), self.id))

    def load(self, tx: Transaction) -> State:
        [(data,)] = tx.execute("SELECT state FROM loops WHERE id = ?", (self.id,))
        return load_state(bytes(data))
