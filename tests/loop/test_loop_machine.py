"""A loop against a small model: duplicates, reorderings, late and unknown rewards, modes, ticks, jumps of the clock."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import even_blocks  # noqa: F401 - registers the policy of these tests
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from fairveil.loop import ManualClock, Reward, Store
from fairveil.loop.problems import EventReused, RewardDiffers, UnknownEvent
from fairveil.loop.upkeep import check

FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
WAIT, LENGTH = 60.0, 5
KEY = bytes(32)
events = st.integers(0, 30).map(lambda number: f"e-{number}")
values = st.sampled_from([0.0, 0.5, 1.0])
MODES = ["shadow", "apprentice", "online", "frozen"]


class LoopMachine(RuleBasedStateMachine):
    """The model: when each event was decided, its reply, the first reward in time, and how far rounds have settled."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="fairveil-loop-", dir=FAST))
        self.clock = ManualClock()
        self.replies: dict[str, tuple] = {}
        self.until: dict[str, int] = {}
        self.rewards: dict[str, float] = {}
        self.late: set[str] = set()
        self.mode = "online"
        self.rounds = 0
        self.settled = 0
        self.seen: dict[int, str] = {}

    def url(self) -> str:
        return f"sqlite:///{self.folder}/store.db"

    @initialize(missing=st.sampled_from(["default", "public"]))
    def create(self, missing) -> None:
        self.missing, self.grace = missing, 0
        self.store = Store.open(self.url(), clock=self.clock, key=KEY)
        policy = {"name": "even-blocks", "arms": 2, "epsilon": 1.0, "length": LENGTH}
        self.loop = self.store.create("t", policy=policy, reward=Reward(0, 1, wait="60s", missing=missing))

    @rule(event=events, defer=st.booleans())
    def decide(self, event, defer) -> None:
        known = self.replies.get(event)
        if known is not None and known[0] != defer and not self.gone(event):
            with pytest.raises(EventReused):
                self.loop.decide(event, defer=defer)
            return
        reply = self.loop.decide(event, defer=defer, baseline=None)
        assert reply.replayed == (known is not None)
        if known is not None:
            assert reply._replace(replayed=False) == known[1]
            return
        self.replies[event] = defer, reply
        self.until[event] = self.clock.now() + round(WAIT * 1e6)
        assert reply.mode == self.mode
        if self.mode in ("shadow", "frozen"):
            assert reply.round is None
        else:
            assert reply.round == self.rounds  # gapless, in the order of decisions
            self.seen[self.rounds] = event
            self.rounds += 1

    @rule(event=events, value=values)
    def reward(self, event, value) -> None:
        if event not in self.replies:
            with pytest.raises(UnknownEvent):
                self.loop.reward(event, value)
            return
        _, reply = self.replies[event]
        if event in self.rewards and reply.round >= self.erased() and self.rewards[event] != value:
            with pytest.raises(RewardDiffers):
                self.loop.reward(event, value)
            return
        answer = self.loop.reward(event, value)
        if reply.learning != "pending":
            assert answer.learned == "never"
        elif event in self.rewards:
            assert answer.learned == ("pending" if reply.round >= self.erased() else "never")
        elif self.is_open(event) and reply.round >= self.settled and event not in self.late:
            assert answer.learned == "pending"
            self.rewards[event] = value
        else:
            assert answer[2:] == ("never", "released" if reply.round < self.erased() else "late")
            self.late.add(event)  # the first one stands: a restart opens its window again for nobody who has answered

    @rule(event=events)
    def activate(self, event) -> None:
        if event in self.replies and self.replies[event][0]:
            self.loop.activate(event)

    @rule(mode=st.sampled_from(MODES))
    def change_mode(self, mode) -> None:
        self.loop.set_mode(mode)
        self.mode = mode

    @rule(seconds=st.sampled_from([1.0, 20.0, 61.0]))
    def wait(self, seconds) -> None:
        self.clock.advance(seconds)

    @rule()
    def tick(self) -> None:
        self.store.tick()
        status = self.loop.status()
        assert self.settled <= status.settled <= self.rounds
        self.settled = status.settled
        for round in range(self.rounds):
            closed = self.until[self.seen[round]] < self.clock.now()
            if not closed and self.missing == "default":
                assert status.settled <= round
                break

    def is_open(self, event) -> bool:
        """A window lasts ``wait``, and after a start none closes for the grace."""
        return self.clock.now() <= self.until[event] or self.clock.now() < self.grace

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.grace = self.clock.now() + round(WAIT * 1e6)
        self.store = Store.open(self.url(), clock=self.clock, key=KEY)
        self.loop = self.store.loop("t")

    def gone(self, event) -> bool:
        """Whether the content is erased: then any body gets the stored reply."""
        with self.store.reading() as tx:
            [(erased,)] = tx.execute("SELECT erased FROM events WHERE key = ?", (self.store.keys.event(event),))
        return erased is not None

    def erased(self) -> int:
        return self.loop.status().erased

    @invariant()
    def blocks_are_released_in_order_and_at_most_once(self) -> None:
        if not hasattr(self, "loop"):
            return
        status = self.loop.status()
        assert status.round == self.rounds
        assert status.erased == status.version * LENGTH
        assert status.erased <= status.settled

    def teardown(self) -> None:
        if hasattr(self, "store"):
            assert check(self.store)["loops"]["t"]["rounds"] == self.rounds
            assert self.loop.ledger.spent.units == 1_000_000
            self.store.close()
        shutil.rmtree(self.folder)


@pytest.mark.slow
def test_loop_machine():
    run_state_machine_as_test(LoopMachine, settings=settings(max_examples=40, stateful_step_count=50, deadline=None))


@pytest.mark.slow
@pytest.mark.postgres
def test_loop_machine_on_a_server(postgres):
    import postgres_server

    class OnAServer(LoopMachine):
        def url(self) -> str:
            if not hasattr(self, "_url"):
                self._url = postgres_server.own_schema(postgres)
            return self._url

    run_state_machine_as_test(OnAServer, settings=settings(max_examples=6, stateful_step_count=40, deadline=None))
