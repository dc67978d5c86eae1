"""Several releases in two commits: all charged before the first draw, all stored before anybody sees one."""

from __future__ import annotations

import pytest

from fairveil.errors import LedgerError
from fairveil.ledger import Ledger, Limit, ReleaseLost
from fairveil.privacy.events import ParallelEvent, PureEvent
from fairveil.storage import faults

BLOCKS = ["a", "b", "c"]


@pytest.fixture
def ledger(ledger_path):
    with Ledger.create(ledger_path, limit=Limit.pure(1.0)) as made:
        made.spend("run", ParallelEvent(PureEvent(1.0)))
        yield made


def numbered(noise, earlier):
    return {"place": len(earlier), "before": [getattr(value, "code", value) for value in earlier]}


def kinds(ledger):
    return [(entry["kind"], entry["name"]) for entry in ledger.entries()][2:]


def test_two_commits_for_any_number_of_blocks(ledger):
    steps = []

    def draw(noise, earlier):
        steps.append(f"draw {len(earlier)}")
        assert ledger.status("c") == "reserved"
        return numbered(noise, earlier)

    faults.hook = lambda name: steps.append(name) if name == "committed" else None
    try:
        values = ledger.release_all(BLOCKS, draw, account="run")
    finally:
        faults.hook = None
    assert steps == ["committed", "draw 0", "draw 1", "draw 2", "committed"]
    assert [value["place"] for value in values] == [0, 1, 2]
    assert values[2]["before"] == values[:2]
    assert kinds(ledger) == [*(("reserve", name) for name in BLOCKS), *(("publish", name) for name in BLOCKS)]
    assert ledger.release_all(BLOCKS, lambda *_: pytest.fail("drawn"), account="run") == values
    assert ledger.spent.units == 1_000_000
    assert ledger.release_all([], lambda *_: pytest.fail("drawn"), account="run") == []


def test_a_draw_that_fails_loses_its_block_and_those_behind_it(ledger):
    def draw(noise, earlier):
        if earlier:
            raise ValueError("no")
        return 7

    with pytest.raises(ValueError, match="no"):
        ledger.release_all(BLOCKS, draw, account="run")
    assert [ledger.status(name) for name in BLOCKS] == ["reserved", "lost", "lost"]
    found = ledger.release_all([*BLOCKS, "d"], numbered, account="run")
    assert found[0] == 7
    assert [type(value) for value in found[1:3]] == [ReleaseLost, ReleaseLost]
    assert found[3] == {"place": 3, "before": [7, "release-lost", "release-lost"]}


def test_what_was_drawn_and_could_not_be_stored_is_not_drawn_again(ledger):
    drawn = []

    def draw(noise, earlier):
        drawn.append(len(earlier))
        faults.hook = full
        return len(earlier)

    def full(name: str) -> None:
        if name == "insert":
            raise OSError(28, "No space left on device")

    try:
        with pytest.raises(LedgerError):
            ledger.release_all(BLOCKS, draw, account="run")
    finally:
        faults.hook = None
    assert [ledger.status(name) for name in BLOCKS] == ["reserved"] * 3
    assert ledger.release_all(BLOCKS, draw, account="run") == [0, 1, 2]
    assert drawn == [0, 1, 2]


def test_it_ends_before_a_block_that_somebody_else_draws(ledger, ledger_path):
    with Ledger.open(ledger_path) as other:

        def draw(noise):
            assert ledger.release_all(BLOCKS, numbered, account="run") == [{"place": 0, "before": []}]
            return 5

        assert other.release("b", draw, account="run") == 5
    assert [ledger.status(name) for name in BLOCKS] == ["published", "published", "unknown"]
    assert ledger.release_all(BLOCKS, numbered, account="run")[1:] == [
        5,
        {"place": 2, "before": [{"place": 0, "before": []}, 5]},
    ]


def test_an_account_that_does_not_cover_all_of_them_charges_none(ledger_path):
    with Ledger.create(ledger_path, limit=Limit.pure(1.0)) as ledger:
        ledger.spend("two", PureEvent(0.5), releases=2)
        with pytest.raises(LedgerError, match="no release left"):
            ledger.release_all(BLOCKS, lambda *_: pytest.fail("drawn"), account="two")
        assert [ledger.status(name) for name in BLOCKS] == ["unknown"] * 3
        assert ledger.release_all(BLOCKS[:2], lambda noise, earlier: len(earlier), account="two") == [0, 1]
