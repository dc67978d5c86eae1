"""Counters of people live as long as a process: whoever goes on has read what was read before, or is told.

The break that this reduces: a stream of people's rows went on with the next file of a rotated log. Everybody was new
again, and "at most 2 steps a person, enforced" let one person count in four.
"""

import json
import os

import pytest
from release_place import run

from fairveil.errors import InputError

HOURS = [f"2024-01-01T{hour:02}:00,ann" for hour in range(12)]


def words(place, until, *more):
    clock = ["--person", "id", "--time", "ts", "--start", "2024-01-01", "--step", "1h", "--until", until]
    budget = ["--participation", 2, "--epsilon", 1, "--delta", 1e-6, "--horizon", 12]
    return [*clock, *budget, "--out", place.out, "--ledger", place.ledger, *more]


def release(place, rows, until, *more):
    run("release", "--in", place.rows(rows, header="ts,id"), *words(place, until, *more))


def promise(place):
    return json.loads((place.folder / "private.csv.guarantee.json").read_text())


def test_the_next_file_of_a_rotated_log_is_refused(place):
    release(place, HOURS[:6], "2024-01-01T06:00")
    before = place.out.read_bytes()
    with pytest.raises(InputError, match="not the rows that were read before"):
        release(place, HOURS[6:], "2024-01-01T12:00")
    assert place.out.read_bytes() == before


@pytest.mark.parametrize("changed", [HOURS[1:], [HOURS[0].replace("ann", "bob"), *HOURS[1:]], HOURS[:5], HOURS[::-1]])
def test_rows_that_were_read_are_there_when_a_stream_goes_on(place, changed):
    release(place, HOURS[:6], "2024-01-01T06:00")
    with pytest.raises(InputError, match="not the rows that were read before"):
        release(place, changed, "2024-01-01T12:00")


def test_a_longer_input_goes_on_and_nobody_is_counted_anew(place):
    for stop in (6, 9, 12):
        release(place, HOURS[:stop], f"2024-01-01T{stop:02}:00")
        assert len(place.lines()) == stop
        assert promise(place)["established"] is True
    record = place.folder / "stream.db.rows"
    assert record.stat().st_mode & 0o777 == 0o600
    assert "ann" not in record.read_text()


def test_what_was_read_is_on_disk_before_its_release_is(place, monkeypatch):
    from fairveil.streams.serving.journal import Journal

    def dies(self, values):
        raise OSError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "release", dies)
        with pytest.raises(OSError, match="gone"):
            release(place, HOURS[:6], "2024-01-01T06:00")
    record = json.loads((place.folder / "stream.db.rows").read_text())
    assert record["bytes"] == os.path.getsize(place.folder / "in.csv")
    release(place, HOURS[:6], "2024-01-01T06:00")
    assert len(place.lines()) == 6


@pytest.mark.parametrize("again", [1, 2])
def test_a_stream_whose_record_is_gone_goes_on_and_says_so_for_ever(place, again):
    release(place, HOURS[:6], "2024-01-01T06:00")
    (place.folder / "stream.db.rows").unlink()
    for stop in range(7, 7 + again):
        release(place, HOURS[:stop], f"2024-01-01T{stop:02}:00")
    told = promise(place)
    assert told["established"] is False
    assert "what was read before is not known" in " ".join(told["notes"])
    with pytest.raises(InputError, match="not the rows"):
        release(place, HOURS[8:], "2024-01-01T12:00")


def test_a_new_ledger_begins_anew_beside_an_old_record(place):
    release(place, HOURS[:6], "2024-01-01T06:00")
    for file in (place.ledger, place.out):
        file.unlink()
    release(place, HOURS[6:], "2024-01-01T12:00")
    assert promise(place)["established"] is True
