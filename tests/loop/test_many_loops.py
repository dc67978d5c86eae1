"""Many loops: a tick touches those with something to do, and looks at the others once in the background."""

from __future__ import annotations

import gc
import weakref

import pytest

from fairveil.errors import LedgerTampered
from fairveil.ledger import book
from fairveil.loop import Retention, Reward, Store, listing, memory, reports
from fairveil.loop import loop as loops
from fairveil.loop.public import budget_table, loop_table, release_tables
from fairveil.loop.upkeep import believe_clock, check
from fairveil.loop.writer import Writer

POLICY = {"name": "even-blocks", "arms": 3, "epsilon": 1.0}
COUNT = 12


@pytest.fixture
def many(store_url, clock):
    with Store.open(store_url, clock=clock, key=bytes(32)) as store:
        for index in range(COUNT):
            store.create(f"loop-{index:02}", policy=POLICY, reward=Reward(0, 1, wait="10m"))
    with Store.open(store_url, clock=clock, key=bytes(32)) as store:
        yield store


@pytest.fixture
def touched(monkeypatch):
    """The names of loops whose writers ran since it was last emptied."""
    found = []
    real = Writer._commit

    def watched(self, items):
        found.append(self.facts.spec.name)
        return real(self, items)

    monkeypatch.setattr(Writer, "_commit", watched)
    return found


def settled_down(store, clock, touched):
    """Every loop was looked at, and nothing was written for a while."""
    for _ in range(4):
        store.tick()
        clock.advance(61)
    touched.clear()


def test_a_tick_of_idle_loops_touches_none(many, clock, touched):
    settled_down(many, clock, touched)
    for _ in range(5):
        many.tick()
        clock.advance(1)
    assert touched == []


def test_a_loop_is_touched_when_its_window_closes_and_not_before(many, clock, touched):
    settled_down(many, clock, touched)
    loop = many.loop("loop-03")
    for index in range(5):
        loop.decide(f"e-{index}", subject="p")
        loop.reward(f"e-{index}", 1.0)
    for _ in range(3):
        many.tick()
        clock.advance(61)
    touched.clear()
    for _ in range(5):
        assert many.tick() == 0
        clock.advance(1)
    assert touched == []
    clock.advance(600)
    assert many.tick() == 1
    assert set(touched) == {"loop-03"}


def test_what_another_process_decided_is_found(many, store_url, clock, touched):
    settled_down(many, clock, touched)
    with Store.open(store_url, clock=clock, key=bytes(32)) as other:
        for index in range(5):
            other.loop("loop-07").decide(f"e-{index}")
    clock.advance(601)
    assert many.tick() == 1


def test_retention_of_an_idle_loop_comes_when_it_is_time(store, clock, touched):
    loop = store.create("kept", policy=POLICY, reward=Reward(0, 1, wait="10m"), retention=Retention(events="1d"))
    loop.set_mode("frozen")
    loop.decide("e", subject="p")
    settled_down(store, clock, touched)
    clock.advance(700)
    store.tick()
    clock.advance(86400.0)
    store.tick()
    with store.reading() as tx:
        assert tx.execute("SELECT erased, action FROM events") == [("all", None)]


def test_a_loop_that_reports_is_touched_when_a_place_settles_or_is_old_and_not_before(store, clock, touched):
    declared = {"every": 5, "kinds": ["fairness"], "epsilon": 1.0, "keep": "1d", "spare": 1.0}
    loop = store.create(
        "told", policy=POLICY, groups=["a", "b"], reward=Reward(0, 1, wait="10m"), reports=declared, mode="frozen"
    )
    for index in range(5):
        loop.decide(f"e-{index}", group="a")
    settled_down(store, clock, touched)
    store.tick()
    assert touched == []
    clock.advance(600)
    assert store.tick() == 1
    assert [one["kind"] for one in release_tables(loop)] == ["fairness"]
    clock.advance(61)
    store.tick()
    touched.clear()
    for _ in range(5):
        store.tick()
        clock.advance(1)
    assert touched == []
    clock.advance(86400)
    store.tick()
    with store.reading() as tx:
        assert not any(any(bytes(content)) for (content,) in tx.execute("SELECT content FROM places"))


def test_a_range_that_was_taken_and_left_is_found_by_the_clock(store, clock, touched, monkeypatch):
    loop = store.create(
        "told", policy=POLICY, groups=["a"], reward=Reward(0, 1, wait="10m"), reports={"spare": 2.0}, mode="frozen"
    )
    loop.decide("e", group="a")
    clock.advance(601)
    store.tick()
    with monkeypatch.context() as broken:
        broken.setattr(reports, "_finish", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            loop.release("fairness", first=0, stop=1, epsilon=0.5)
    touched.clear()
    store.tick()
    assert touched == []
    clock.advance(62)
    assert store.tick() == 1
    assert [one["id"] for one in release_tables(loop)] == ["report-fairness-0-1"]


def test_a_reward_where_arrivals_are_public_is_settled_by_the_next_tick_of_any_process(store, store_url, clock):
    loop = store.create("open", policy=POLICY, reward=Reward(0, 1, wait="1d", missing="public"))
    for index in range(5):
        loop.decide(f"e-{index}")
        loop.reward(f"e-{index}", 1.0)
    with Store.open(store_url, clock=clock, key=bytes(range(32))) as other:
        assert other.tick() == 1
        assert other.loop("open").status().settled == 5


def test_what_the_clock_had_put_off_is_looked_at_when_it_is_set_right(store, clock):
    loop = store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="10m"))
    loop.decide("e")
    store.tick()
    believe_clock(store)
    assert store.ticks.due() == ["trial"]


# Memory --------------------------------------------------------------------------------------------------------------


def test_idle_loops_leave_memory_and_come_back_from_their_last_checked_entry(store, clock, monkeypatch):
    loop = store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s"))
    for index in range(5):
        loop.decide(f"e-{index}")
        loop.reward(f"e-{index}", 1.0)
    clock.advance(61)
    assert store.tick() == 1
    last = loop.ledger.sequence
    store.memory.rest()
    assert store.memory.known("trial") is loop  # used since nobody had looked
    store.memory.rest()
    store.memory.rest()
    assert store.memory.known("trial") is None
    assert store.loop("trial") is loop  # somebody holds it: there are never two
    store.memory.rest()
    store.memory.rest()
    gone = weakref.ref(loop), weakref.ref(loop.ledger)
    del loop
    gc.collect()
    assert [one() for one in gone] == [None, None]
    replayed, compared = list[int](), list[str]()
    real = book.advance
    monkeypatch.setattr(
        book, "advance", lambda state, row, rows: replayed.append(row.sequence) or real(state, row, rows)
    )
    monkeypatch.setattr(loops, "check_ledger", lambda loop: compared.append(loop.name))
    again = store.loop("trial")
    assert again.ledger.sequence == last
    assert again.decide("e-0")._replace(replayed=False, learning=0, reason=0).round == 0
    assert (replayed, compared, again.verify()) == ([], [], True)
    for index in range(5, 20):
        again.decide(f"e-{index}")
        again.reward(f"e-{index}", 1.0)
    clock.advance(61)
    assert store.tick() >= 1
    assert min(replayed) == last + 1
    check(store)


def test_a_ledger_that_was_set_back_while_its_loop_was_away_is_refused(tmp_path, clock):
    with Store.open(f"sqlite:///{tmp_path}/store.db", clock=clock, key=bytes(32)) as store:
        store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s"))
        old = (tmp_path / "ledgers" / "trial.db").read_bytes()
        for index in range(5):
            store.loop("trial").decide(f"e-{index}")
        clock.advance(61)
        assert store.tick() == 1
        for _ in range(2):
            store.memory.rest()
        gc.collect()
        assert store.memory.loops() == []
        for file in (tmp_path / "ledgers").glob("trial.db*"):
            if file.is_file():
                file.unlink()
        (tmp_path / "ledgers" / "trial.db").write_bytes(old)
        with pytest.raises(LedgerTampered):
            _ = store.loop("trial").ledger


def test_a_loop_with_something_under_way_stays(store, clock):
    loop = store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s"))
    loop.ledger.draws.session.kept["trial/0/block-0"] = "1"  # drawn, and could not be stored
    for _ in range(3):
        store.memory.rest()
    assert store.memory.known("trial") is loop
    loop.ledger.draws.session.kept.clear()
    for hold in (loop._ticking, loop.reports_lock, loop.writer._turn):
        with hold:
            for _ in range(3):
                store.memory.rest()
            assert store.memory.loops() == [loop]
    for _ in range(2):
        store.memory.rest()
    assert store.memory.loops() == []


def test_looking_at_ledgers_leaves_no_loop_in_memory(many):
    many.tick()
    assert (many.unchecked, many.memory.loops()) == (0, [])
    assert len(many.memory.checked) == COUNT


# Lists ---------------------------------------------------------------------------------------------------------------


def test_a_page_of_loops_is_one_query_with_budget_and_last_release(store, clock, monkeypatch):
    told = store.create("b", policy=POLICY, groups=["a"], reward=Reward(0, 1, wait="60s"), reports={"spare": 2.0})
    store.create("a", policy=POLICY, reward=Reward(0, 1, wait="60s"))
    for index in range(60):
        told.decide(f"e-{index}", group="a")
    clock.advance(61)
    store.tick()
    told.release("summary")
    clock.advance(1)
    told.release("fairness", first=0, stop=60, epsilon=0.5)
    monkeypatch.setattr(listing, "PAGE", 1)
    counted = list[str]()
    real = type(store.driver).reading

    def reading(self):
        counted.append("reading")
        return real(self)

    monkeypatch.setattr(type(store.driver), "reading", reading)
    [first] = listing.page(store).values()
    [second] = listing.page(store, after="a").values()
    assert counted == ["reading"] * 2
    assert listing.page(store, after="b") == {}
    assert list(listing.page(store, only="b")) == ["b"]
    monkeypatch.undo()
    assert (first["name"], first["last_release"], first["places"]) == ("a", None, None)
    whole = loop_table(told)
    assert {key: value for key, value in second.items() if key in whole} == {
        key: value for key, value in whole.items() if key in second
    }
    promises = {"guarantee", "total_guarantee", "person_guarantee", "person_reason"}
    assert set(whole) - set(second) == promises | {"warnings"}
    spent = budget_table(told)
    assert second["budget"] == {key: spent[key] for key in ("definition", "limit", "spent", "remaining")}
    assert (second["last_release"]["kind"], second["last_release"]["id"]) == ("fairness", "report-fairness-0-60")
    assert second["last_release"]["words"] == release_tables(told)[-1]["value"]["words"][0]


def test_a_budget_that_changed_elsewhere_is_listed_after_the_next_look(many):
    with many.writing() as tx:
        tx.execute("DELETE FROM budgets")  # as after an upgrade
    assert {row["budget"] for row in listing.page(many).values()} == {None}
    many.tick()
    assert {row["budget"]["spent"] for row in listing.page(many).values()} == {"epsilon 1"}


def test_ledgers_are_looked_at_in_the_background(many, monkeypatch):
    monkeypatch.setattr(memory, "AT_LEAST", 5)
    monkeypatch.setattr(memory, "BACKGROUND", 0.0)
    left = []
    for _ in range(4):
        many.tick()
        left.append(many.unchecked)
    assert left == [7, 2, 0, 0]


def test_one_loop_of_each_policy_is_named(many):
    assert many.kinds() == ["loop-00"]
