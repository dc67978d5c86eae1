"""Counts of people: bounded, on a public clock, read again from their beginning."""

import os

import pytest
from release_place import run

from fairveil.errors import FairveilError, InputError, SpecError
from fairveil.streams import PersonCounts


def test_people_count_within_their_bounds():
    counts = PersonCounts(per_step=2, participation=3)
    assert [counts.step(["a", "a", "a", "b"]) for _ in range(4)] == [3, 3, 3, 0]
    assert "a" not in repr(counts).replace("participation", "").replace("PersonCounts", "")
    for bad in (0, 1.5, True):
        with pytest.raises(FairveilError):
            PersonCounts(per_step=bad)


def test_people_are_counted_within_their_bounds(place):
    rows = [f"2024-01-01T{hour:02}:05,{who}" for hour in (0, 0, 0, 1, 4) for who in ("ann", "bob")]
    file = place.rows(sorted(rows), header="ts,id")
    words = ["--in", file, "--person", "id", "--time", "ts", "--start", "2024-01-01", "--step", "1h"]
    budget = ["--participation", 2, "--epsilon", 5, "--delta", 1e-3, "--horizon", 6, "--out", place.out]
    run("release", *words, *budget, "--ledger", place.ledger, "--plain")
    shown = place.lines()
    assert len(shown) == 6
    assert all(row["status"] == "released" for row in shown)  # a step nobody attended is a count of 0
    whole = place.out.read_bytes()
    run("release", *words, *budget, "--ledger", place.ledger, "--plain")
    assert place.out.read_bytes() == whole


def test_late_rows_of_people_are_dropped_and_never_refused(place):
    file = place.rows(["2024-01-01T03:00,ann", "2024-01-01T01:00,bob"], header="ts,id")
    words = ["--in", file, "--person", "id", "--time", "ts", "--start", "2024-01-01", "--step", "1h", "--horizon", 4]
    budget = ["--epsilon", 1, "--delta", 1e-6]
    with pytest.raises(SpecError, match="would show"):
        run("release", *words, *budget, "--late", "refuse", "--out", place.out)
    assert place.untouched()
    run("release", *words, *budget, "--late", "drop", "--out", place.out)
    assert len(place.lines()) == 4


def test_an_endless_count_goes_on_day_by_day_until_a_public_time(place):
    file = place.rows(["2024-01-01T03:00,ann", "2024-01-01T01:00,bob"], header="ts,id")
    words = ["--in", file, "--person", "id", "--time", "ts", "--start", "2024-01-01", "--step", "1h", "--endless"]
    words += ["--unit", "event", "--epsilon", 1, "--delta", 1e-6, "--out", place.out, "--ledger", place.ledger]
    with pytest.raises(SpecError, match="public time"):
        run("release", *words)
    assert place.untouched()
    run("release", *words, "--until", "2024-01-01T03:00")
    first = place.out.read_bytes()
    assert len(place.lines()) == 3
    run("release", *words, "--until", "2024-01-02")
    assert len(place.lines()) == 24
    assert place.out.read_bytes().startswith(first)


def test_people_from_a_pipe_cannot_go_on(place, monkeypatch):
    words = ["--person", "id", "--time", "ts", "--start", "2024-01-01", "--step", "1h", "--horizon", 3]
    words += ["--epsilon", 1, "--delta", 1e-6, "--ledger", place.ledger, "--out", place.out]
    file = place.rows(["2024-01-01T00:00,ann"], header="ts,id")
    run("release", "--in", file, *words)
    reader, writer = os.pipe()
    os.write(writer, file.read_bytes())
    os.close(writer)
    with pytest.raises(InputError, match="read again"):
        run("release", "--in", f"/dev/fd/{reader}", *words)
    os.close(reader)
