"""Accounts and the one way out: what pays, what became of a block, and what its holder answers."""

from __future__ import annotations

import pytest

from fairveil.errors import BudgetError, LedgerError, PrivacyError
from fairveil.ledger import (
    Account,
    Ledger,
    Limit,
    OneEvent,
    Paid,
    ReleaseLost,
    RunCost,
    release_many,
    release_once,
)
from fairveil.ledger.account import adopted
from fairveil.privacy.events import GaussianEvent, ParallelEvent, PureEvent
from fairveil.storage import faults

HALF = PureEvent(0.5)
DISJOINT = ParallelEvent(HALF)


@pytest.fixture
def ledger(ledger_path):
    with Ledger.create(ledger_path, limit=Limit.pure(1.0)) as made:
        yield made


def commits(work):
    seen = []
    faults.hook = lambda name: seen.append(name) if name == "committed" else None
    try:
        work()
    finally:
        faults.hook = None
    return len(seen)


def kinds(ledger):
    return [entry["kind"] for entry in ledger.entries()][1:]


def fails(noise):
    raise ZeroDivisionError


def test_an_account_is_charged_in_the_commit_that_reserves_its_first_block(ledger):
    account = Account(ledger, "run", DISJOINT)
    assert commits(lambda: release_once(account, account.block("a"), lambda noise: 1)) == 2
    assert kinds(ledger) == ["account", "reserve", "publish"]
    names = [account.block(f"block-{number}") for number in range(64)]
    assert commits(lambda: release_many(account, names, lambda noise, earlier: len(earlier))) == 2
    assert ledger.spent.units == 500_000


def test_an_account_that_does_not_fit_reserves_nothing(ledger):
    account = Account(ledger, "run", ParallelEvent(PureEvent(2.0)))
    with pytest.raises(BudgetError):
        release_once(account, account.block("a"), lambda noise: pytest.fail("drawn"))
    assert kinds(ledger) == []


def test_one_event_is_charged_at_every_release(ledger):
    for name in ("a", "b"):
        adopted(release_once(OneEvent(ledger, HALF), name, lambda noise: 1))
    assert ledger.remaining.units == 0
    with pytest.raises(BudgetError):
        release_once(OneEvent(ledger, HALF), "c", lambda noise: pytest.fail("drawn"))


def test_an_account_says_how_many_releases_it_covers(ledger):
    with pytest.raises(PrivacyError, match="how many"):
        Account(ledger, "fits", HALF)
    fits = Account(ledger, "fits", HALF, releases=2)
    for name in ("a", "b"):
        release_once(fits, name, lambda noise: 1)
    with pytest.raises(LedgerError, match="no release left"):
        release_once(fits, "c", lambda noise: pytest.fail("drawn"))
    run = Account(ledger, "run", RunCost(HALF))
    for number in range(5):
        release_once(run, run.block(str(number)), lambda noise: 1)


def test_the_same_facts_again_cost_nothing_and_others_are_refused(ledger):
    account = Account(ledger, "fits", HALF, "one", releases=2)
    account.pay()
    assert account.pay().units == 500_000 == ledger.spent.units
    for other in (
        Account(ledger, "fits", HALF, "two", releases=2),
        Account(ledger, "fits", HALF, "one", releases=3),
        Account(ledger, "fits", PureEvent(0.25), "one", releases=2),
        Account(ledger, "fits", RunCost(HALF), "one"),
    ):
        with pytest.raises(LedgerError, match="something else"):
            release_once(other, "a", lambda noise: pytest.fail("drawn"))
    assert adopted(release_once(Paid(ledger, "fits"), "a", lambda noise: 3)) == 3
    with pytest.raises(LedgerError, match="never paid"):
        release_once(Paid(ledger, "nobody"), "b", lambda noise: pytest.fail("drawn"))


def test_a_holder_that_begins_is_not_served_an_old_first_block(ledger):
    account = Account(ledger, "run", DISJOINT)
    draw, block = (lambda noise: 1), account.block("a")
    assert release_once(account, block, draw, resume=False).fate == "drawn"
    with pytest.raises(PrivacyError, match="released its first block"):
        release_once(account, block, draw, resume=False)
    assert release_once(account, account.block("b"), draw, resume=False).fate == "drawn"
    assert release_once(account, block, draw).fate == "stored"


def test_each_fate_has_its_answer(ledger):
    account = Account(ledger, "run", DISJOINT)

    def told(found):
        return found.answer(
            drawn=lambda value: ("adopt", value),
            stored=lambda value: ("drop", value),
            lost=lambda lost: ("stop", lost.code),
        )

    assert told(release_once(account, "a", lambda noise: 7)) == ("adopt", 7)
    assert told(release_once(account, "a", fails)) == ("drop", 7)
    with pytest.raises(ZeroDivisionError):
        release_once(account, "b", fails)
    lost = release_once(account, "b", lambda noise: pytest.fail("drawn"))
    assert told(lost) == ("stop", "release-lost")
    with pytest.raises(ReleaseLost):
        adopted(lost)


def test_many_blocks_know_what_became_of_those_before(ledger):
    account = Account(ledger, "run", DISJOINT)
    release_once(account, "b", lambda noise: 5)
    with pytest.raises(ZeroDivisionError):
        release_once(account, "c", fails)
    seen = []

    def draw(noise, earlier):
        seen.append([one.fate for one in earlier])
        return len(earlier)

    found = release_many(account, ["a", "b", "c", "d"], draw)
    assert [one.fate for one in found] == ["drawn", "stored", "lost", "drawn"]
    assert seen == [[], ["drawn", "stored", "lost"]]
    assert release_many(account, [], draw) == []


def test_what_was_drawn_and_could_not_be_stored_is_stored_later_and_not_drawn_now(ledger):
    account = Account(ledger, "run", DISJOINT)

    def full(name):
        if name == "insert":
            raise OSError(28, "No space left on device")

    def draw(noise):
        faults.hook = full
        return 7

    try:
        with pytest.raises(LedgerError):
            release_once(account, "a", draw)
    finally:
        faults.hook = None
    again = release_once(account, "a", lambda noise: pytest.fail("drawn"))
    assert (again.fate, again.value) == ("stored", 7)


def test_an_account_goes_on_where_another_version_calibrates_its_last_digits(tmp_path):
    """What was charged pays for it; a difference that costs more, or that is no last digit, is another account."""
    paid = GaussianEvent(0.25)
    with Ledger.create(tmp_path / "ledger.db", limit=Limit.covering(paid)) as ledger:
        Account(ledger, "run", RunCost(paid)).pay()
        assert Account(ledger, "run", RunCost(GaussianEvent(0.25 * (1 - 1e-13)))).pay() == ledger.spent
        for other in (0.25 * (1 + 1e-5), 0.25 * (1 - 1e-5)):
            with pytest.raises(LedgerError, match="used for something else"):
                Account(ledger, "run", RunCost(GaussianEvent(other))).pay()
