"""Releases by arrival under a ledger: seats of an arm follow each other, each in one release, whatever dies when."""

from __future__ import annotations

import pytest

from fairveil import Ledger, SeededNoise
from fairveil.bandits.ledgered import drive
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.protocol import HEADER, Feedback, Round
from fairveil.errors import LedgerError, LedgerTampered, PrivacyError
from fairveil.ledger import Limit
from fairveil.ledger.verify import verify
from fairveil.privacy.events import ParallelEvent, PureEvent
from fairveil.randomness import generator
from fairveil.state import load_state, same_state, save_state

POLICY = PrivateNash(arms=2, epsilon=1.0, release="arrivals")


def played(ledger, rounds=60, state=None, first=0):
    """Rounds whose rewards come at once; every third never."""
    state, coins = POLICY.start() if state is None else state, generator(3)
    for index in range(first, rounds):
        state = POLICY.open(state, index, coins)
        arm = POLICY.decide(state, Round(index), coins).arm
        state = POLICY.learn(state, Feedback(index, arm, None if index % 3 == 2 else 1.0))
        state = drive(POLICY, state, index + 1, ledger, noise=SeededNoise(index))
    return state


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "ledger.db", limit=Limit.pure(1.0), simulated=True) as made:
        yield made


def test_the_ledger_alone_shows_that_every_seat_is_in_one_release(ledger):
    state = played(ledger)
    names = [entry["name"] for entry in ledger.entries() if entry["kind"] == "publish"]
    headers = [[int(number) for number in ledger.value(name)[HEADER]] for name in names]
    assert [f"policy/{arm}-{first}-{stop}" for arm, first, stop, _ in headers] == names
    assert [max(stop for arm, _, stop, _ in headers if arm == one) for one in range(2)] == state["taken"].tolist()
    found = verify(str(ledger.place))
    assert any(f"{len(names)} releases by arrival" in note for note in found.notes)
    restored = POLICY.restored([(name, ledger.value(name)) for name in names])
    assert restored["sums"].tolist() == state["sums"].tolist()


def test_after_a_crash_the_stored_release_is_adopted(ledger):
    state, coins = POLICY.open(POLICY.start(), 0, generator(3)), generator(3)
    arm = POLICY.decide(state, Round(0), coins).arm
    state = POLICY.learn_all(state, [Feedback(index, arm, 1.0) for index in range(3)])
    saved = save_state(state)  # with its seats, before the release
    after = drive(POLICY, state, 3, ledger, noise=SeededNoise(1))
    sequence = ledger.sequence
    again = drive(POLICY, load_state(saved), 3, ledger, noise=SeededNoise(2), resume=True)
    assert same_state(again, after)
    assert ledger.sequence == sequence


def test_a_state_that_does_not_know_the_seats_of_a_release_is_refused(ledger):
    """A run that starts again from an older state, and gets more answers before its first release."""
    state, coins = POLICY.open(POLICY.start(), 0, generator(3)), generator(3)
    arm = POLICY.decide(state, Round(0), coins).arm
    rows = [Feedback(index, arm, 1.0) for index in range(3)]
    drive(POLICY, POLICY.learn_all(state, rows), 3, ledger, noise=SeededNoise(1))
    older = POLICY.open_for(state, arm, 3)  # six rounds of the arm now: another interval would fall due
    more = POLICY.learn_all(older, [Feedback(index, arm, 1.0) for index in range(6)])
    with pytest.raises(PrivacyError, match="in a release already"):
        drive(POLICY, more, 6, ledger, noise=SeededNoise(2), resume=True)


def test_seats_of_a_later_epoch_begin_where_the_loop_went_on(ledger):
    for account, start in (("trial/1", 40), ("trial/0", 40)):
        ledger.spend(account, ParallelEvent(PureEvent(0.5)), releases=None)
        name, value = f"{account}/0-{start}-{start + 3}", {HEADER: [0, start, start + 3, 9]}
        ledger.release(name, lambda noise, value=value: value, account=account, noise=SeededNoise(1))
        if account == "trial/1":
            assert any("1 releases by arrival" in note for note in verify(str(ledger.place)).notes)
    with pytest.raises(LedgerTampered, match="one after the other"):
        verify(str(ledger.place))


@pytest.mark.parametrize("second", ["a/0-2-5", "a/0-4-6"], ids=["overlap", "gap"])
def test_seats_that_overlap_or_are_missing_are_found(ledger, second):
    ledger.spend("a", ParallelEvent(PureEvent(1.0)), releases=None)
    for name in ("a/0-0-3", second):
        arm, first, stop = (int(part) for part in name.split("/")[1].split("-"))
        ledger.release(name, lambda noise, header=[arm, first, stop, 9]: {HEADER: header}, account="a",
                       noise=SeededNoise(1))  # fmt: skip
    with pytest.raises(LedgerTampered, match="one after the other"):
        verify(str(ledger.place))


def test_names_that_only_look_like_seats_are_left_alone(ledger):
    ledger.spend("days", ParallelEvent(PureEvent(1.0)), releases=None)
    for day in ("2026-11-17", "2026-11-18"):
        ledger.release(f"days/{day}", lambda noise: 1, account="days", noise=SeededNoise(1))
    assert not any("by arrival" in note for note in verify(str(ledger.place)).notes)


def test_an_account_of_blocks_is_not_one_of_arrivals(ledger):
    drive(PrivateNash(arms=2, epsilon=1.0), due_block(), 3, ledger, noise=SeededNoise(1))
    with pytest.raises(LedgerError):
        played(ledger)


def due_block():
    policy = PrivateNash(arms=2, epsilon=1.0)
    state = policy.open(policy.start(), 0, generator(3))
    arm = policy.decide(state, Round(0), generator(3)).arm
    return policy.learn_all(state, [Feedback(index, arm, 1.0) for index in range(3)])
