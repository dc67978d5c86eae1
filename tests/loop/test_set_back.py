"""A ledger that is older than its store has seen it: learning stops, and nothing else is drawn on it or charged to it.

The break that this reduces: the loop had noticed and no longer learned, and a report by hand, or a new loop that paid
from the same ledger, spent once more what had been spent before.
"""

from __future__ import annotations

import shutil

import pytest

from fairveil.errors import LedgerTampered
from fairveil.loop import Reward, Store
from fairveil.loop.problems import LedgerInDoubt

POLICY = {"name": "even-blocks", "arms": 3, "epsilon": 1.0}
KEY = bytes(range(32))
UNIT = 1_000_000


def opened(data, clock):
    return Store.open(f"sqlite:///{data}/store.db", clock=clock, key=KEY)


def play(loop, clock, first):
    for index in range(first, first + 10):
        loop.decide(f"e-{index}")
        loop.reward(f"e-{index}", 1.0)
    clock.advance(61)
    loop.store.tick()


@pytest.fixture
def spent(tmp_path, clock):
    """A loop that has spent all of its ledger, and the ledger as it was before its one report."""
    data = tmp_path / "data"
    with opened(data, clock) as store:
        loop = store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s"), reports={"spare": 1.0})
        play(loop, clock, 0)
        shutil.copytree(data / "ledgers", tmp_path / "before")
        loop.release("fairness", first=0, stop=5, epsilon=1.0)
        assert loop.ledger.spent.units == 2 * UNIT
    shutil.rmtree(data / "ledgers")
    shutil.copytree(tmp_path / "before", data / "ledgers")
    return data


@pytest.mark.parametrize("ticked", [True, False])
def test_a_report_by_hand_draws_on_no_ledger_that_was_set_back(spent, clock, ticked):
    with opened(spent, clock) as store:
        loop = store.loop("trial")
        if ticked:
            store.tick()
        with pytest.raises(LedgerInDoubt, match="in doubt"):
            loop.release("fairness", first=5, stop=10, epsilon=1.0)
        assert loop.status().stopped == "ledger"
        assert loop.decide("after").learning == "frozen"
        assert loop.release("fairness", first=0, stop=5, epsilon=1.0)["value"]["places"] == 5, "what is published stays"


def test_no_loop_is_made_on_a_ledger_that_was_set_back(spent, clock):
    with opened(spent, clock) as store:
        with pytest.raises(LedgerTampered, match="older than this store has seen it"):
            store.create("next", policy=POLICY, reward=Reward(0, 1, wait="60s"), budget={"ledger": "trial"})
        assert store.names() == ["trial"]
        assert store.ledger("trial").holder_of("next") is None


def test_a_loop_that_shares_the_ledger_sees_what_another_one_has_charged(tmp_path, clock):
    data, shared = tmp_path / "data", {"ledger": "both", "epsilon": 3.0}
    with opened(data, clock) as store:
        first = store.create("one", policy=POLICY, reward=Reward(0, 1, wait="60s"), budget=shared, reports={})
        play(first, clock, 0)
        shutil.copytree(data / "ledgers", tmp_path / "before")
        store.create("two", policy=POLICY, reward=Reward(0, 1, wait="60s"), budget={"ledger": "both"})
    shutil.rmtree(data / "ledgers")
    shutil.copytree(tmp_path / "before", data / "ledgers")
    with opened(data, clock) as store:
        store.tick()
        with pytest.raises(LedgerInDoubt):
            store.loop("one").release("fairness", first=0, stop=10, epsilon=2.0)
