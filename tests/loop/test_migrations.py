"""Upgrades of a store: interrupted at any statement they begin again, and indexes of full tables lock nobody out."""

from __future__ import annotations

import contextlib
import json

import pytest

from fairveil.loop import ManualClock, Person, Reward, Store
from fairveil.loop.listing import page
from fairveil.loop.public import loop_table
from fairveil.loop.storage import NOTED, bring_up_to_date, driver_of, steps, version_of

KEY = bytes(range(32))
SCHEMA = {
    "sqlite": "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' AND sql IS NOT NULL ORDER BY name",
    "postgresql": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1",
}


class Interrupted(Exception):
    pass


def first_version(driver):
    """A store as the first release made it."""
    with driver.writing() as tx:
        for statement in filter(None, map(str.strip, steps(driver.dialect)[1].split(";\n"))):
            tx.execute(statement)
        tx.execute("INSERT INTO meta (key, value) VALUES ('version', '1')")


def schema(driver):
    with driver.reading() as tx:
        return {name: sql.split("ON ")[-1].split(".")[-1] for name, sql in tx.execute(SCHEMA[driver.dialect])}


class Until:
    """A driver whose statements end after so many."""

    def __init__(self, driver, most):
        self.driver, self.left = driver, most

    def __getattr__(self, name):
        return getattr(self.driver, name)

    def _count(self):
        if self.left == 0:
            raise Interrupted
        self.left -= 1

    @contextlib.contextmanager
    def writing(self):
        with self.driver.writing() as tx:
            execute = tx.execute

            def counted(statement, values=()):
                self._count()
                return execute(statement, values)

            tx.execute = counted
            yield tx

    def index(self, name, statement):
        self._count()
        made = self.driver.index(name, statement)
        self._count()  # made, and not yet crossed out
        return made


def test_an_upgrade_that_is_interrupted_at_any_statement_begins_again(store_url):
    driver = driver_of(store_url)
    driver.prepare()
    first_version(driver)
    newest, stopped = max(steps(driver.dialect)), 0
    for most in range(10_000):
        try:
            bring_up_to_date(Until(driver, most), migrate=True)
        except Interrupted:
            stopped += 1
            with driver.reading() as tx:
                assert version_of(tx) in (1, newest)
        else:
            break
    assert stopped > 20
    with driver.reading() as tx:
        assert version_of(tx) == newest
    with driver.reading() as tx:
        assert tx.execute("SELECT count(*) FROM meta WHERE key LIKE ?", (NOTED + "%",)) == [(0,)]
    found = schema(driver)
    driver.close()
    with Store.open(store_url, clock=ManualClock(), key=bytes(32)) as store:
        assert store.names() == []
    assert {"events_by_time", "places_by_event", "loops_by_due"} <= set(found)


@pytest.mark.postgres
def test_an_index_is_made_while_somebody_writes_and_a_broken_one_again(database):
    driver = driver_of(database)
    first_version(driver)
    statement = "CREATE INDEX events_by_time ON events (loop, decided) WHERE decided IS NOT NULL"
    with driver._server.connection() as connection:
        connection.execute("CREATE INDEX events_by_time ON events (loop, decided)")
        connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass('events_by_time')")
    assert driver.index("events_by_time", statement)
    assert "IS NOT NULL" in schema(driver)["events_by_time"]
    assert driver.index("events_by_time", statement)  # there already
    driver.close()


def test_a_loop_that_had_started_from_another_counts_its_own_decisions_after_an_upgrade(store_url):
    about = {"policy": {"name": "private-nash", "arms": 2, "epsilon": 1.0}, "reward": Reward(0, 1, wait="60s")}
    with Store.open(store_url, key=KEY) as store:
        first = store.create("first", **about)
        first.decide_many([{"event_id": f"e-{number}"} for number in range(30)])
        second = store.create("second", start_from="first", **about)
        second.decide_many([{"event_id": f"e-{number}"} for number in range(7)])
        store.create("third", start_from="second", **about)
        with store.writing() as tx:
            tx.execute("ALTER TABLE loops DROP COLUMN began")
            tx.execute("ALTER TABLE appearances DROP COLUMN places")
            tx.execute("ALTER TABLE place_appearances DROP COLUMN places")
            tx.execute("DROP INDEX trail_by_action")
            tx.execute("UPDATE meta SET value = '8' WHERE key = 'version'")
    with Store.open(store_url, key=KEY, migrate=True) as store:
        told = {name: (row["decided"], row["first_round"]) for name, row in page(store).items()}
    assert told == {"first": (30, 0), "second": (7, 30), "third": (0, 37)}


@pytest.mark.parametrize("excluded", [[], [0]], ids=["all", "one excluded"])
def test_rows_that_an_older_version_wrote_are_released_and_reported_after_an_upgrade(store_url, excluded):
    """At how many places of a row somebody stood was not kept then."""
    policy = {"name": "batched-private-fair-greedy", "epsilon": 1.0, "delta": 1e-6, "first_batch": 8}
    features, clock = [{"name": "x", "low": -1.0, "high": 1.0}], ManualClock()
    about = {"policy": policy, "groups": ["a"], "features": features, "reward": Reward(0, 1, wait="60s")}
    with Store.open(store_url, key=KEY, clock=clock) as store:
        loop = store.create("queue", **about, person=Person(max_events=1), reports={"spare": 1.0})
        for number in range(8):
            who = ["ann" if excluded else f"p-{number}", f"q-{number}"]
            shown = [{"features": [0.1], "subject": one} for one in who]
            loop.decide(f"e-{number}", candidates=shown, exclude=excluded)
            loop.reward(f"e-{number}", 1.0)
        with store.writing() as tx:
            tx.execute("ALTER TABLE appearances DROP COLUMN places")
            tx.execute("ALTER TABLE place_appearances DROP COLUMN places")
            tx.execute("DROP INDEX trail_by_action")
            tx.execute("UPDATE meta SET value = '9' WHERE key = 'version'")
    with Store.open(store_url, key=KEY, clock=clock, migrate=True) as store:
        clock.advance(61)
        store.tick()
        assert store.loop("queue").status().version > 0
        assert store.loop("queue").release("fairness", epsilon=0.5)["value"]["places"] == 8


def test_a_loop_of_release_0_1_counts_every_candidate_as_one_person(store_url):
    """Nobody looked who they are: ten candidates with one subject were one event, and "epsilon 1" was 3.8."""
    policy = {"name": "batched-private-fair-greedy", "epsilon": 1.0, "delta": 1e-6, "first_batch": 8}
    features, clock = [{"name": "x", "low": -1.0, "high": 1.0}], ManualClock()
    about = {"policy": policy, "groups": ["a"], "features": features, "reward": Reward(0, 1, wait="60s")}
    with Store.open(store_url, key=KEY, clock=clock) as store:
        loop = store.create("queue", **about, person=Person(max_events=1, candidates=10), max_candidates=10)
        ten = loop_table(loop)["person_guarantee"]
        for number in range(8):
            loop.decide(f"e-{number}", candidates=[{"features": [0.1], "subject": f"p-{number}"}] * 10)
            loop.reward(f"e-{number}", 1.0)
        with store.writing() as tx:
            [(stored,)] = tx.execute("SELECT config FROM loops")
            spec = json.loads(stored)
            spec["person"].pop("candidates")
            spec["retention"]["raw"] = None
            tx.execute("UPDATE loops SET config = ?", (json.dumps(spec),))
            tx.execute("UPDATE appearances SET places = NULL")
    with Store.open(store_url, key=KEY, clock=clock, migrate=True) as store:
        clock.advance(61)
        store.tick()
        loop = store.loop("queue")
        assert loop.status().version > 0, "one person stands at ten places of a row that is released"
        told = loop_table(loop)["person_guarantee"]
        assert (told["epsilon"], told["delta"]) == (ten["epsilon"], ten["delta"])
        assert any("all 10 places" in note for note in told["notes"])
