"""What is erased, when, and what is answered afterwards: the table of `fairveil.loop.kept` and all that reads it."""

from __future__ import annotations

import struct
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from fairveil.loop import ManualClock, Retention, Reward, Store, kept
from fairveil.loop.problems import EventReused, Forgotten

POLICY = {"name": "even-blocks", "arms": 3, "epsilon": 1.0}
QUEUE = {
    "policy": {"name": "batched-private-fair-greedy", "epsilon": 1.0, "delta": 1e-6, "first_batch": 8},
    "groups": ["a", "b"],
    "features": [{"name": name, "low": -1.0, "high": 1.0} for name in "xyz"],
    "reward": Reward(0, 1, wait="60s"),
}
FEATURE, REWARD = 0.7310585786300049, 0.8807970779778823
CONTENT = kept.columns("events", "block")
PATTERNS = [struct.pack(order, value) for value in (FEATURE, REWARD) for order in ("<d", ">d")]


def people(*names, feature=FEATURE):
    return [{"id": one, "group": "a", "features": [feature, 0.25, 0.5], "subject": f"s-{one}"} for one in names]


def content(store, event, columns=CONTENT):
    with store.reading() as tx:
        [row] = tx.execute(f"SELECT {', '.join(columns)} FROM events WHERE key = ?", (store.keys.event(event),))
    return row


def appearances(store):
    with store.reading() as tx:
        return tx.execute("SELECT count(*) FROM appearances")[0][0]


@pytest.fixture
def queue(store):
    return store.create("queue", **QUEUE)


def through(store, clock, loop, count=8):
    """Play and release the first batch; every second event has a reward."""
    for index in range(count):
        loop.decide(f"e-{index}", candidates=people("ann", "bob"))
        if index % 2 == 0:
            loop.reward(f"e-{index}", REWARD)
    clock.advance(61)
    assert store.tick() == 1


# The table ------------------------------------------------------------------------------------------------------------


def test_every_column_of_the_store_has_a_line_in_the_table(store):
    with store.reading() as tx:
        if store.driver.dialect == "sqlite":
            rows = tx.execute(
                "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'"
            )
        else:
            rows = tx.execute(
                "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"
            )
    tables = {table for table, _ in rows if table not in ("entries", "ledgers")}
    assert {one.table for one in kept.TABLE} >= tables - {"sqlite_sequence"}
    for table in ("events", "appearances"):
        listed = [name for one in kept.TABLE if one.table == table for name in one.columns]
        assert len(listed) == len(set(listed))
        found = {column for name, column in rows if name == table}
        assert set(listed) - {"room"} == found - {"room"}


def test_the_guide_shows_the_table():
    assert kept.page() in (Path(__file__).parents[2] / "docs/guides/service.md").read_text()


# Release, DELETE and retention ----------------------------------------------------------------------------------------


def test_fingerprint_times_and_appearances_go_with_the_block(store, clock, queue):
    through(store, clock, queue)
    assert kept.left_behind(store, queue.facts.id, 8) == []
    assert content(store, "e-0") == content(store, "e-1") == (None,) * 4
    assert appearances(store) == 0


def test_after_the_release_nothing_tells_whether_a_reward_had_come(store, clock, queue):
    through(store, clock, queue)
    for event in ("e-0", "e-1"):
        assert queue.event(event)["reward"] == "released"
        for value in (REWARD, 0.25):
            assert queue.reward(event, value)[1:] == (True, "never", "released")
        assert content(store, event) == (None,) * 4  # and nothing was written


def test_a_replay_after_erasure_gives_what_is_stored_and_names_nobody(store, clock, queue):
    through(store, clock, queue)
    told = queue.event("e-0")
    for names in (("ann", "bob"), ("eve", "dan"), ("eve", "dan", "kim")):
        again = queue.decide("e-0", candidates=people(*names, feature=0.125))
        assert again.replayed
        assert again.action_id is None
        assert (again.action, again.propensity, again.round, again.policy_version) == (
            told["action"], told["propensity"], told["round"], told["policy_version"],
        )  # fmt: skip
    chosen = next(f"e-{index}" for index in range(8) if queue.event(f"e-{index}")["action"] == 1)
    with pytest.raises(EventReused):
        queue.decide(chosen, candidates=people("eve"))


def test_arms_keep_their_declared_name_after_erasure(store, clock):
    loop = store.create("t", policy=POLICY, actions=["a", "b", "c"], reward=Reward(0, 1, wait="60s"))
    first = [loop.decide(f"e-{index}", subject="p") for index in range(5)]
    clock.advance(61)
    store.tick()
    assert loop.decide("e-0", subject="another").action_id == first[0].action_id


@pytest.mark.parametrize("missing", ["default", "public"])
def test_an_erased_open_round_counts_as_missing_and_is_never_opened_again(store, clock, missing):
    rounds = {}
    for name in ("erased", "silent"):
        loop = store.create(
            name, policy={**POLICY, "epsilon": 1000.0}, reward=Reward(0, 1, wait="60s", missing=missing)
        )
        for index in range(5):
            loop.decide(f"{name}-{index}", subject=f"{name}-p-{index}", defer=index == 4)
            if index or name == "erased":
                loop.reward(f"{name}-{index}", 1.0)
        loop.activate(f"{name}-4")
        rounds[name] = loop
    loop = rounds["erased"]
    assert loop.erase_subject("erased-p-0") == 1
    assert content(store, "erased-0", ("learn", "erased")) == ("erased", "content")
    assert loop.reward("erased-0", 1.0)[1:] == (True, "never", "erased")
    again = loop.decide("erased-0", subject="erased-p-0")
    assert (again.learning, again.reason, again.round) == ("never", "erased", 0)
    assert loop.event("erased-0")["reward"] == "never"
    assert content(store, "erased-0") == (None,) * 4
    assert store.tick() == 0  # like a missing reward it settles when its window has closed
    clock.advance(61)
    assert store.tick() == 2
    erased, silent = (one.status().state for one in rounds.values())
    assert erased["counts"].tolist() == silent["counts"].tolist()
    assert abs(int(erased["sums"][0]) - int(silent["sums"][0])) < 2**20 // 10  # equal but for noise of scale 1/1000


def test_an_erased_deferred_decision_is_not_shown(store, clock, loop):
    loop.decide("e-0", subject="p", defer=True)
    loop.erase_subject("p")
    assert not loop.activate("e-0")
    assert content(store, "e-0", ("activated",)) == (0,)


def test_an_erasure_finds_events_that_are_not_learned_and_people_left_out(store, queue):
    queue.decide("learned", candidates=people("ann", "bob"))
    queue.decide("without", candidates=people("ann", "bob", "eve"), exclude=[2])
    queue.set_mode("shadow")
    queue.decide("shadow", candidates=people("eve", "dan"))
    queue.set_mode("frozen")
    queue.decide("frozen", candidates=people("dan", "eve"))
    assert queue.erase_subject("s-eve") == 3
    for event in ("without", "shadow", "frozen"):
        assert content(store, event) == (None,) * 4
    assert content(store, "learned")[0] is not None
    assert queue.erase_subject("s-eve") == 0


def test_an_erasure_and_a_decision_that_wait_together(store, queue):
    """In one batch an erasure must see the decision before it, and a reward behind it must not fill the row again."""
    from fairveil.loop.requests import DecisionRequest, checked
    from fairveil.loop.writer import Item

    def erasing(batch):
        from fairveil.loop import settle

        return settle.erase_person(batch, store.keys.subject("s-ann"))

    asked = checked(DecisionRequest, {"event_id": "e", "candidates": people("ann", "bob")})
    items = [queue.decision(asked), Item(erasing, alone=True), queue.reward_item("e", REWARD)]
    queue.writer.run(items)
    assert items[1].outcome() == 1
    assert items[2].outcome()[2:] == ("never", "erased")
    assert content(store, "e") == (None,) * 4


def test_what_is_not_learned_has_no_fingerprint_of_features_and_keeps_it_for_a_window(store, clock, queue):
    queue.set_mode("frozen")
    queue.decide("e", candidates=people("ann", "bob"))
    full, outline = (queue.prepare(one) for one in _two_bodies())
    assert content(store, "e", ("body",))[0] == full.outline == outline.outline != full.body
    assert queue.decide("e", candidates=people("ann", "bob", feature=0.5)).replayed  # nobody knows the features
    with pytest.raises(EventReused):
        queue.decide("e", candidates=people("ann", "eve"))
    assert queue.reward("e", 0.5)[1:] == (True, "never", "mode")
    assert content(store, "e", ("rewarded",)) == (None,)
    clock.advance(122)
    store.tick()
    assert content(store, "e") == (None,) * 4
    assert appearances(store) == 0
    again = queue.decide("e", candidates=people("eve", "dan"))
    assert again.replayed
    assert again.action_id is None


def _two_bodies():
    from fairveil.loop.requests import DecisionRequest, checked

    return [
        checked(DecisionRequest, {"event_id": "e", "candidates": people("ann", "bob", feature=feature)})
        for feature in (FEATURE, 0.5)
    ]


def test_raw_content_is_kept_at_most_ninety_days_or_two_windows(store, clock):
    short = store.create("short", policy=POLICY, reward=Reward(0, 1, wait="80d", missing="public"))
    # a block of five never fills
    assert short.facts.spec.retention == Retention(raw=f"{160 * 86400}s")
    other = store.create("other", policy=POLICY, reward=Reward(0, 1, wait="1d"))
    assert other.facts.spec.retention.raw == "90d"
    other.decide("e", subject="p")
    other.reward("e", 1.0)
    clock.advance(89 * 86400.0)
    store.tick()
    assert content(store, "e")[1] == 1.0
    clock.advance(2 * 86400.0)
    store.tick()
    assert content(store, "e", ("learn", "erased")) == ("erased", "content")
    assert other.decide("e", subject="q").replayed  # 410 comes with retention.events, not before
    clock.advance(400 * 86400.0)
    store.tick()
    with pytest.raises(Forgotten):
        other.decide("e", subject="p")


BODIES = some.lists(
    some.tuples(some.sampled_from(["ann", "bob", "eve", None]), some.floats(-1, 1), some.sampled_from("ab")),
    min_size=1,
    max_size=6,
)
ANSWERED = some.lists(some.booleans(), min_size=8, max_size=8)


@pytest.mark.parametrize("way", ["release", "person", "retention"])
def test_no_two_bodies_under_an_erased_id_name_another_person(tmp_path_factory, way):
    """Property: whatever is sent under an erased id, whoever had answered, is answered alike and names nobody."""

    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
    @given(BODIES, BODIES, ANSWERED)
    def check(first, second, answered):
        clock = ManualClock()
        folder = tmp_path_factory.mktemp("erased")
        with Store.open(f"sqlite:///{folder}/store.db", clock=clock, key=bytes(32)) as store:
            loop = store.create("queue", **QUEUE, retention=Retention(raw="100s", events="1d"))
            for index in range(8 if way == "release" else 7):
                loop.decide(f"e-{index}", candidates=people("kim", "lee"))
                if answered[index]:
                    loop.reward(f"e-{index}", 0.5)
            if way == "person":
                loop.erase_subject("s-kim")
            clock.advance(101 if way == "retention" else 61)
            store.tick()
            told = [loop.event(f"e-{index}") for index in range(7)]
            assert len({one["reward"] for one in told}) == 1
            rewards = {loop.reward(f"e-{index}", 0.75)[1:] for index in range(7)}
            assert len(rewards) == 1
            for index in range(7):
                for body in (first, second):
                    shown = [
                        {"group": group, "features": [number] * 3, **({} if name is None else {"id": name})}
                        for name, number, group in body
                    ]
                    if told[index]["action"] >= len(shown):
                        with pytest.raises(EventReused) as caught:
                            loop.decide(f"e-{index}", candidates=shown)
                        assert (caught.value.code, caught.value.status) == ("event-reused", 422)
                        continue
                    again = loop.decide(f"e-{index}", candidates=shown)
                    assert again.replayed
                    assert again.action_id is None
                    assert (again.action, again.round) == (told[index]["action"], told[index]["round"])

    check()


# Bytes ----------------------------------------------------------------------------------------------------------------


def in_files(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            count = sum(path.read_bytes().count(pattern) for pattern in PATTERNS)
            if count:
                found[path.name] = count
    return found


@pytest.fixture
def folder(tmp_path, clock):
    with Store.open(f"sqlite:///{tmp_path}/data/store.db", clock=clock, key=bytes(32)) as store:
        loops = [store.create(f"queue-{index}", **QUEUE) for index in range(2)]
        yield tmp_path / "data", store, loops


def fill(loops, first, count):
    """Events of several sizes in turn; rewards come out of order, which moves rows that grow between pages."""
    waiting = []
    for index in range(first, first + count):
        loop = loops[index % len(loops)]
        loop.decide(f"e-{index}", candidates=people(*(f"{index}-{place}" for place in range(1 + index * 7 % 20))))
        waiting.append((loop, f"e-{index}"))
        while len(waiting) > index * 13 % 31:
            loop, event = waiting.pop(index * 5 % len(waiting))
            loop.reward(event, REWARD)
    for loop, event in waiting:
        loop.reward(event, REWARD)


def release_all(clock, store, loops):
    """Until every round with a canary is through: the last ones by retention."""
    clock.advance(61)
    while store.tick():
        pass
    clock.advance(91 * 86400.0)
    store.tick()


def test_after_a_release_the_bytes_are_gone_from_every_file(folder, clock):
    where, store, loops = folder
    fill(loops, 0, 400)
    assert in_files(where)
    release_all(clock, store, loops)
    clock.advance(60)
    store.tick()
    assert in_files(where) == {}


@pytest.mark.postgres
def test_a_server_has_erased_bytes_until_its_table_is_written_anew(database, clock):
    """What the guide promises of PostgreSQL, no more: rows are empty at once, files after `VACUUM FULL`."""
    import psycopg

    def in_table(server):
        server.execute("CHECKPOINT")
        [(data,)] = server.execute("SELECT pg_read_binary_file(pg_relation_filepath('events'))").fetchall()
        return [place for place, pattern in enumerate(PATTERNS) if pattern in bytes(data)]

    with (
        Store.open(database, clock=clock, key=bytes(32)) as store,
        psycopg.connect(database, autocommit=True) as server,
    ):
        loop = store.create("queue", **QUEUE)
        through(store, clock, loop)
        fill([loop], 100, 20)
        assert in_table(server)
        release_all(clock, store, [loop])
        columns = ", ".join(f"count({name})" for name in CONTENT if name != "erased")
        assert set(server.execute(f"SELECT {columns} FROM events").fetchone()) == {0}
        server.execute("VACUUM FULL events")
        assert in_table(server) == []


def test_after_an_erasure_the_bytes_are_gone_at_once(folder):
    where, _, loops = folder
    loops[0].decide("e", candidates=people("ann"))
    loops[0].reward("e", REWARD)
    assert in_files(where)
    loops[0].erase_subject("s-ann")
    assert in_files(where) == {}


def test_a_clean_stop_empties_the_log(folder, clock):
    where, store, loops = folder
    fill(loops, 0, 60)
    release_all(clock, store, loops)
    fill(loops, 100, 60)
    clock.advance(91 * 86400.0)
    for loop in loops:
        loop.tick()  # without what a tick of the store does at its end
    assert in_files(where)
    store.close()
    assert in_files(where) == {}


def test_a_reader_that_stays_holds_the_log_up_and_no_longer(folder, clock):
    where, store, loops = folder
    fill(loops, 0, 60)
    entered, leave = threading.Event(), threading.Event()

    def read():
        with store.reading() as tx:
            tx.execute("SELECT count(*) FROM events")
            entered.set()
            leave.wait(60)

    reader = threading.Thread(target=read)
    reader.start()
    assert entered.wait(60)
    release_all(clock, store, loops)
    assert loops[0].decide("while it reads", candidates=people("ann", feature=0.125)).round is not None
    assert in_files(where)
    leave.set()
    reader.join()
    clock.advance(30)
    store.tick()
    assert in_files(where) == {}


def test_bytes_go_while_others_are_decided(folder, clock):
    """A busy store: one loop's batches are released while another one goes on."""
    where, store, loops = folder
    fill(loops, 0, 200)
    release_all(clock, store, loops)
    for index in range(300):
        loops[1].decide(f"busy-{index}", candidates=people("ann", feature=0.125))
        if index % 100 == 99:
            clock.advance(30)
            store.tick()
    assert in_files(where) == {}


def test_zeros_are_given_back_when_nothing_near_has_content(folder, clock, monkeypatch):
    from fairveil.loop.storage import sqlite

    monkeypatch.setattr(sqlite, "MARGIN", 50)
    monkeypatch.setattr(sqlite, "PAGE", 200)
    where, store, loops = folder
    fill(loops, 0, 200)
    release_all(clock, store, loops)
    store.erased()
    store.tidy(at_once=True)
    with store.reading() as tx:
        [(left,)] = tx.execute("SELECT count(*) FROM events WHERE room IS NOT NULL AND length(room) > 40")
    assert 0 < left <= 50
    assert in_files(where) == {}


# The key --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def nowhere(monkeypatch):
    for name in ("FAIRVEIL_KEY", "FAIRVEIL_KEY_FILE", "CREDENTIALS_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_the_key_is_made_where_a_place_is_named(tmp_path, nowhere):
    url, file = f"sqlite:///{tmp_path}/data/store.db", tmp_path / "key"
    with Store.open(url, key_file=file) as store:
        name, place = store.keys.name, store.key_place
    assert place == "in a file"
    assert not (tmp_path / "data" / "store.db.key").exists()
    assert file.stat().st_mode & 0o777 == 0o600
    nowhere.setenv("FAIRVEIL_KEY_FILE", str(file))
    with Store.open(url) as store:
        assert store.keys.name == name
    nowhere.delenv("FAIRVEIL_KEY_FILE")
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "fairveil-key").write_text(file.read_text())
    nowhere.setenv("CREDENTIALS_DIRECTORY", str(credentials))
    with Store.open(url) as store:
        assert (store.keys.name, store.key_place) == (name, "a credential of systemd")


def test_a_key_that_is_not_where_it_was_is_not_made_anew(tmp_path, nowhere):
    url = f"sqlite:///{tmp_path}/data/store.db"
    with Store.open(url) as store:
        assert store.key_place == "beside the store"
    from fairveil.errors import FairveilError

    with pytest.raises(FairveilError, match="move-key"):
        Store.open(url, key_file=tmp_path / "key")
    (tmp_path / "data" / "store.db.key").rename(tmp_path / "elsewhere")
    with pytest.raises(FairveilError, match="new-key"):
        Store.open(url)
    assert not (tmp_path / "data" / "store.db.key").exists()
    with Store.open(url, key_file=tmp_path / "elsewhere") as store:
        assert store.key_place == "in a file"
    with Store.open(url, new_key=True) as store:
        assert store.key_place == "beside the store"


def test_a_backup_has_no_key_unless_asked(tmp_path, nowhere):
    from fairveil.loop.upkeep import backup

    with Store.open(f"sqlite:///{tmp_path}/data/store.db") as store:
        secret = (tmp_path / "data" / "store.db.key").read_bytes()
        backup(store, tmp_path / "plain")
        backup(store, tmp_path / "whole", with_key=True)
    kept_in = [path for path in tmp_path.rglob("*") if path.is_file() and path.read_bytes() == secret]
    assert {path.parent.name for path in kept_in} == {"data", "whole"}
