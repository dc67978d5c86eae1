"""The ledger in ordinary use: charges, releases, accounts, replay, refusals, noise, values."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import fairveil
from fairveil.errors import BudgetError, InputError, LedgerError, PrivacyError, SpecError
from fairveil.ledger import Ledger, Limit, ReleaseLost, verify
from fairveil.ledger.values import decode, encode
from fairveil.privacy.events import GaussianEvent, NothingEvent, ParallelEvent, PureEvent, ZcdpEvent
from fairveil.privacy.noise import SecureNoise, SeededNoise, ZeroNoise
from fairveil.storage import faults


@pytest.fixture
def path(ledger_path):
    return ledger_path


def test_the_public_name(path):
    with fairveil.Ledger.create(path, limit=Limit.pure(1.0)) as ledger:
        assert isinstance(ledger, Ledger)


def test_a_release_is_charged_stored_and_never_drawn_again(path):
    draws = []

    def draw(noise):
        assert isinstance(noise, SecureNoise)
        draws.append(1)
        return {"mean": np.array([0.25, 0.5]), "count": 7}

    for _ in range(3):
        with Ledger.create(path, limit=Limit.pure(1.0)) as ledger:
            value = ledger.release("monday", draw, event=PureEvent(0.5))
            assert value["count"] == 7
            assert value["mean"].tolist() == [0.25, 0.5]
            assert ledger.spent.units == 500_000
            assert ledger.status("monday") == "published"
            assert ledger.status("tuesday") == "unknown"
    assert draws == [1]


def test_commits_wait_for_the_disk(tmp_path, monkeypatch):
    """Write-ahead log with full synchronisation, and every new name is synced in its folder."""
    path = tmp_path / "ledger.db"
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(descriptor), real(descriptor))[1])
    with Ledger.create(path, limit=Limit.pure(1.0), anchor=path.with_suffix(".anchor")) as ledger:
        with ledger.place.snapshot(1.0) as rows:
            assert rows.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert rows.connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert len(synced) == 3  # the folder of the new ledger; the first mark and its folder
        ledger.spend("a", PureEvent(0.1))
        assert len(synced) == 5


def test_the_caller_gets_what_is_stored_not_what_was_drawn(path):
    drawn = np.arange(3.0)
    with Ledger.create(path, limit=Limit.pure(1.0)) as ledger:
        value = ledger.release("a", lambda noise: drawn, event=PureEvent(0.1))
        drawn += 1
        value += 5
        assert ledger.value("a").tolist() == [0.0, 1.0, 2.0]


def test_a_refusal_charges_nothing_and_says_how_much_would_fit(path):
    with Ledger.create(path, limit=Limit.pure(1.0)) as ledger:
        ledger.release("a", lambda noise: 1, event=PureEvent(0.75))
        with pytest.raises(BudgetError, match=r"largest admissible epsilon 0\.25"):
            ledger.release("b", lambda noise: pytest.fail("drawn"), event=PureEvent(0.5))
        assert ledger.spent.units == 750_000
        assert ledger.status("b") == "unknown"
        assert not ledger.quote(PureEvent(0.5)).admitted
        ledger.release("b", lambda noise: 1, event=PureEvent(0.25))
        assert ledger.remaining.units == 0


def test_a_parallel_event_is_charged_once_for_any_number_of_blocks(path):
    with Ledger.create(path, limit=Limit.pure(1.0)) as ledger:
        for _ in range(2):  # asking again charges nothing
            ledger.spend("episodes", ParallelEvent(PureEvent(1.0)))
        for number in range(20):
            assert ledger.release(f"episode-{number}", lambda noise, n=number: n, account="episodes") == number
        assert ledger.spent.units == 1_000_000
        with pytest.raises(LedgerError, match="used for something else"):
            ledger.spend("episodes", ParallelEvent(PureEvent(0.5)))
        with pytest.raises(LedgerError, match="used for something else"):
            ledger.release("episode-3", lambda noise: 0, event=PureEvent(0.1))


def test_a_plain_event_covers_as_many_releases_as_it_was_paid_for(path):
    with Ledger.create(path, limit=Limit.pure(1.0)) as ledger:
        ledger.spend("one", PureEvent(0.1))
        ledger.release("a", lambda noise: 1, account="one")
        with pytest.raises(LedgerError, match="no release left"):
            ledger.release("b", lambda noise: 1, account="one")
        assert ledger.release("a", lambda noise: 2, account="one") == 1
        ledger.spend("run", PureEvent(0.1), releases=None)
        for number in range(5):
            ledger.release(f"run-{number}", lambda noise: 1, account="run")
        ledger.spend("two", PureEvent(0.1), releases=2)
        ledger.release("c", lambda noise: 1, account="two")
        ledger.release("d", lambda noise: 1, account="two")
        with pytest.raises(LedgerError, match="no release left"):
            ledger.release("e", lambda noise: 1, account="two")
    assert verify(path).published == 8


def test_an_account_must_be_paid_first(path):
    with Ledger.create(path, limit=Limit.pure(1.0)) as ledger, pytest.raises(LedgerError, match="never paid"):
        ledger.release("a", lambda noise: 1, account="free")


@pytest.mark.parametrize("pays", [{}, {"event": PureEvent(0.1), "account": "x"}, {"event": "pure"}])
def test_exactly_one_event_or_account(path, pays):
    with Ledger.create(path, limit=Limit.pure(1.0)) as ledger, pytest.raises(SpecError, match="event"):
        ledger.release("a", lambda noise: 1, **pays)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, 7, None])
def test_names_are_short_printable_words(path, name):
    with Ledger.create(path, limit=Limit.pure(1.0)) as ledger:
        with pytest.raises(SpecError, match="block"):
            ledger.release(name, lambda noise: 1, event=PureEvent(0.1))
        with pytest.raises(SpecError, match="name"):
            ledger.spend(name, PureEvent(0.1))


@pytest.mark.parametrize("releases", [0, -1, 1.5, True])
def test_releases_are_counted(path, releases):
    with Ledger.create(path, limit=Limit.pure(1.0)) as ledger, pytest.raises(SpecError, match="releases"):
        ledger.spend("a", PureEvent(0.1), releases=releases)


class Pretender(SeededNoise):
    protects = True


@pytest.mark.parametrize("noise", [SeededNoise(1), ZeroNoise(), Pretender(1), object()])
def test_only_secure_noise_serves_people(path, noise):
    with Ledger.create(path, limit=Limit.pure(1.0)) as ledger:
        with pytest.raises(PrivacyError, match="noise"):
            ledger.release("a", lambda noise: 1, event=PureEvent(0.1), noise=noise)
        assert ledger.spent.units == 0
        ledger.release("a", lambda noise: 1, event=PureEvent(0.1), noise=SecureNoise())


def test_a_simulated_ledger_takes_seeded_noise_and_is_marked_for_ever(path):
    with Ledger.create(path, limit=Limit.pure(1.0), simulated=True) as ledger:
        ledger.release("a", lambda noise: int(noise.laplace(1e6)[0]), event=PureEvent(0.1), noise=SeededNoise(3))
        with pytest.raises(PrivacyError, match="ZeroNoise"):
            ledger.release("b", lambda noise: 1, event=PureEvent(0.1), noise=ZeroNoise())
    with pytest.raises(PrivacyError, match="stays simulated"):
        Ledger.open(path)
    assert Ledger.open(path, simulated=True).simulated
    assert any("protects nobody" in note for note in verify(path).notes)


def test_a_ledger_that_protects_cannot_become_simulated(path):
    Ledger.create(path, limit=Limit.pure(1.0)).close()
    with pytest.raises(PrivacyError, match="protects people"):
        Ledger.open(path, simulated=True)


def test_a_failed_draw_loses_the_block_and_the_charge_stands(path):
    def draw(noise):
        raise ZeroDivisionError

    with Ledger.create(path, limit=Limit.pure(1.0)) as ledger:
        with pytest.raises(ZeroDivisionError):
            ledger.release("a", draw, event=PureEvent(0.5))
        assert ledger.status("a") == "lost"
        assert ledger.lost() == ["a"]
        assert ledger.spent.units == 500_000
        with pytest.raises(ReleaseLost, match="never drawn again"):
            ledger.release("a", lambda noise: 1, event=PureEvent(0.5))
        assert ledger.spent.units == 500_000


def test_a_value_that_cannot_be_stored_is_not_released(path):
    with Ledger.create(path, limit=Limit.pure(1.0)) as ledger:
        with pytest.raises(InputError, match="released"):
            ledger.release("a", lambda noise: object(), event=PureEvent(0.5))
        assert ledger.status("a") == "lost"


def test_a_draw_may_not_ask_for_its_own_block_but_may_for_another(path):
    with Ledger.create(path, limit=Limit.pure(1.0)) as ledger:

        def draw(noise):
            assert ledger.release("inner", lambda noise: 4, event=PureEvent(0.1)) == 4
            with pytest.raises(LedgerError, match="own block"):
                ledger.release("a", draw, event=PureEvent(0.1))
            return 5

        assert ledger.release("a", draw, event=PureEvent(0.1)) == 5


def test_the_limit_is_needed_once_and_never_changes(path):
    with pytest.raises(LedgerError, match="there is no ledger here"):
        Ledger.open(path)
    Ledger.create(path, limit=Limit.pure(1.0)).close()
    with Ledger.open(path) as ledger:
        assert ledger.limit == Limit.pure(1.0)
    with pytest.raises(LedgerError, match="another limit"):
        Ledger.create(path, limit=Limit.pure(2.0))


def missing_folder(path):
    """A place where no ledger can be: a folder or a server that is not there."""
    return path.parent / "no" / "ledger.db" if isinstance(path, Path) else "postgresql://fairveil@127.0.0.1:1/no#ledger"


def test_a_missing_folder_and_a_closed_ledger_are_clear_errors(path):
    with pytest.raises(LedgerError, match=r"folder|cannot be written"):
        Ledger.create(missing_folder(path), limit=Limit.pure(1.0))
    ledger = Ledger.create(path, limit=Limit.pure(1.0))
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        ledger.spend("a", PureEvent(0.1))
    ledger.close()


def test_a_ledger_cannot_be_copied_or_pickled(path):
    with Ledger.create(path, limit=Limit.pure(1.0)) as ledger:
        with pytest.raises(PrivacyError):
            pickle.dumps(ledger)
        with pytest.raises(PrivacyError):
            copy.copy(ledger)


def test_events_that_the_currency_cannot_count_are_refused(path):
    with Ledger.create(path, limit=Limit.pure(1.0)) as ledger:
        for event in (GaussianEvent(0.1), ZcdpEvent(0.1)):
            with pytest.raises(PrivacyError, match="cannot count"):
                ledger.release("a", lambda noise: 1, event=event)
        ledger.release("free", lambda noise: 1, event=NothingEvent())
        assert ledger.spent.units == 0


def test_unpublished_values_cannot_be_read(path):
    with Ledger.create(path, limit=Limit.pure(1.0)) as ledger, pytest.raises(LedgerError, match="not published"):
        ledger.value("a")


def test_entries_and_the_best_bound_after_the_fact(path):
    with Ledger.create(path, limit=Limit.approximate(5.0, 1e-5), unit="one visitor") as ledger:
        ledger.spend("tree", GaussianEvent(0.5), releases=None)
        ledger.release("a", lambda noise: 1, event=PureEvent(0.1))
        kinds = [entry["kind"] for entry in ledger.entries()]
        assert kinds == ["genesis", "account", "reserve", "publish"]
        assert [entry["sequence"] for entry in ledger.entries(after=1)] == [2, 3]
        bound = ledger.accountant().at_delta(1e-5)
        assert 1.9 < bound.epsilon < 2.1
        json.dumps(list(ledger.entries()))
    report = verify(path)
    assert report.unit == "one visitor"
    assert report.promise == "(5, 1e-05)-DP"


def test_entries_may_be_read_while_the_ledger_grows(path):
    with Ledger.create(path, limit=Limit.pure(1000.0)) as ledger:
        ledger.spend("a", PureEvent(0.1))
        for entry in ledger.entries():
            if entry["sequence"] < 5:
                ledger.spend(f"more-{entry['sequence']}", PureEvent(0.1))
        assert len(list(ledger.entries())) == 7


def test_threads_race_for_the_last_unit(path):
    wins, refused = [], []
    with Ledger.create(path, limit=Limit.pure(0.5)) as ledger:
        gate = threading.Barrier(8)

        def run(number: int) -> None:
            gate.wait()
            try:
                wins.append(ledger.release(f"block-{number}", lambda noise: number, event=PureEvent(0.5)))
            except BudgetError:
                refused.append(number)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(wins) == 1
    assert len(refused) == 7


def test_threads_that_ask_for_one_block_get_one_value(path):
    draws, seen = [], []
    with Ledger.create(path, limit=Limit.pure(0.5)) as ledger:

        def draw(noise) -> int:
            draws.append(1)
            time.sleep(0.05)
            return len(draws)

        threads = [
            threading.Thread(target=lambda: seen.append(ledger.release("same", draw, event=PureEvent(0.5))))
            for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert seen == [1] * 6


def test_waiting_for_a_draw_elsewhere_ends(path):
    started, go_on = threading.Event(), threading.Event()
    with Ledger.create(path, limit=Limit.pure(1.0)) as slow, Ledger.open(path, wait=0.2) as other:

        def draw(noise) -> int:
            started.set()
            assert go_on.wait(20)
            return 3

        thread = threading.Thread(target=lambda: slow.release("a", draw, event=PureEvent(0.1)))
        thread.start()
        assert started.wait(20)
        with pytest.raises(LedgerError, match="still drawing"):
            other.release("a", lambda noise: pytest.fail("drawn"), event=PureEvent(0.1))
        assert other.filter.reserved.units == 100_000
        go_on.set()
        thread.join()
        assert other.release("a", lambda noise: pytest.fail("drawn"), event=PureEvent(0.1)) == 3


def test_a_process_that_runs_on_finds_the_block_of_a_dead_one_lost(path):
    class Killed(BaseException):
        pass

    def die(noise):
        faults.hook = stop  # from here on nothing reaches the disk
        raise Killed

    def stop(name: str) -> None:
        raise LedgerError(name)

    dead = Ledger.create(path, limit=Limit.pure(1.0))
    with Ledger.open(path) as alive:
        try:
            with pytest.raises(Killed):
                dead.release("a", die, event=PureEvent(0.25))
        finally:
            faults.hook = None
        assert alive.status("a") == "reserved"
        dead.draws.session.forget()  # what the kernel does at the end of a process
        dead._book.close()
        with pytest.raises(ReleaseLost):
            alive.release("a", lambda noise: pytest.fail("drawn"), event=PureEvent(0.25))
        assert alive.filter.reserved.units == 0
        assert alive.spent.units == 250_000


def test_time_per_spend_and_memory_do_not_grow(path):
    """Ten times the spends take about ten times the time (at most 20 on a busy machine), in constant memory."""
    import tracemalloc

    def run(ledger: Ledger, name: str, count: int) -> float:
        began = time.process_time()
        for number in range(count):
            ledger.spend(f"{name}-{number}", PureEvent(1e-6))
        return time.process_time() - began

    with Ledger.create(path, limit=Limit.pure(1.0)) as ledger:
        run(ledger, "warm", 20)
        few = run(ledger, "few", 40)
        many = run(ledger, "many", 400)
        assert many < 20 * few
        tracemalloc.start()
        run(ledger, "before", 20)
        before = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        run(ledger, "after", 200)
        assert tracemalloc.get_traced_memory()[1] < before + 100_000
        tracemalloc.stop()


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -(2**80),
        0.1,
        "text with \u2713",
        b"\x00\xff",
        [1, [2.5, None]],
        {"a": {"$array": 1}, "$dict": []},
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.array([math.nan, -0.0, math.inf]),
        np.zeros((0, 4)),
        np.array(3.5),
        np.array([True, False]),
        np.array([1 + 2j], np.complex64),
        np.arange(3, dtype=">i8"),
    ],
)
def test_values_come_back_exactly(value):
    back = decode(encode(value))
    if isinstance(value, np.ndarray):
        assert back.dtype == value.dtype.newbyteorder("=")
        assert back.shape == value.shape
        assert back.tobytes() == value.astype(back.dtype).tobytes()
    else:
        assert back == value
        assert type(back) is type(value)
    assert encode(back) == encode(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_special_floats_come_back(value):
    assert str(decode(encode(value))) == str(value)


@pytest.mark.parametrize("value", [object(), {1: 2}, np.array([object()]), np.array(["a"]), {2, 3}, lambda: 1])
def test_other_values_are_refused(value):
    with pytest.raises(InputError, match="released"):
        encode(value)


@pytest.mark.parametrize("text", ["{", '{"$array":["O",[1],""]}', '{"$what":1}', '{"a":1,"b":2}', '{"$int":"x"}'])
def test_text_that_was_not_written_by_us_is_refused(text):
    with pytest.raises(LedgerError):
        decode(text)


def test_an_account_is_opened_for_an_event_and_nothing_else(tmp_path):
    with Ledger.create(tmp_path / "ledger.db", limit=Limit.pure(1.0)) as ledger:
        with pytest.raises(SpecError, match="not an event"):
            ledger.spend("account", 0.5)
        assert ledger.spent.units == 0
