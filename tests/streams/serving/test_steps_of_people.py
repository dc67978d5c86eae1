"""Whose row it is, when it came and in which order: a row of a person moves its own step and no other."""

import os

import numpy as np
import pytest
from release_place import run

from fairveil.errors import InputError, SpecError
from fairveil.streams import PersonCounts
from fairveil.streams.serving.feed import Feed, Lines, Reading

HOURS, PEOPLE = 24, 200


def rows_of(seed=1):
    """Two hundred people an hour, each a row, in the order of their times."""
    minutes = np.sort(np.random.default_rng(seed).integers(0, 60, (HOURS, PEOPLE)), axis=1)
    return [
        (f"2024-01-01T{hour:02}:{minutes[hour, who]:02}", f"p{who}") for hour in range(HOURS) for who in range(PEOPLE)
    ]


def counts(folder, rows, participation=None, **more):
    """What reaches the noise: one count a step."""
    file = folder / "in.csv"
    file.write_text("ts,id\n" + "".join(f"{time},{who}\n" for time, who in rows))
    keys = {"time": "ts", "step": "1h", "start": "2024-01-01", "person": "id", "horizon": HOURS, **more}
    reader = os.open(file, os.O_RDONLY)
    try:
        feed = Feed(Lines(reader), Reading(("count",), **keys), PersonCounts(1, participation))
        return np.array([step.values[0] for group in feed.steps() for step in group])
    finally:
        os.close(reader)


@pytest.mark.parametrize("place", [0, 1500, -1])
@pytest.mark.parametrize("time", ["2024-01-01T23:30", "2024-01-01T00:00", "2023-01-01T00:00", "2999-01-01T00:00"])
def test_one_time_stamp_moves_one_count_here_and_one_there(tmp_path, place, time):
    rows = rows_of()
    before = counts(tmp_path, rows)
    assert before.tolist() == [PEOPLE] * HOURS
    rows[place] = (time, rows[place][1])
    moved = np.abs(counts(tmp_path, rows) - before)
    assert moved.max() <= 1
    assert np.count_nonzero(moved) <= 2


def test_the_order_of_the_rows_moves_nothing(tmp_path):
    rows = rows_of()
    before = counts(tmp_path, rows, participation=5)
    for seed in range(3):
        mixed = [rows[place] for place in np.random.default_rng(seed).permutation(len(rows))]
        assert np.array_equal(counts(tmp_path, mixed, participation=5), before)


@pytest.mark.parametrize("participation", [1, 3, None])
def test_one_person_more_moves_as_many_counts_as_are_promised(tmp_path, participation):
    rows, rng = rows_of(), np.random.default_rng(2)
    before = counts(tmp_path, rows, participation)
    for _ in range(5):
        extra = [(f"2024-01-01T{hour:02}:30", "new") for hour in rng.integers(0, HOURS, 40)]
        places = rng.integers(0, len(rows), 40)
        mixed = np.insert(np.array(rows), np.sort(places), extra, axis=0).tolist()
        moved = np.abs(counts(tmp_path, mixed, participation) - before)
        assert moved.max() == 1
        assert np.count_nonzero(moved) <= (participation or HOURS)


def test_a_watermark_closes_steps_and_what_comes_late_is_dropped(tmp_path):
    rows = [
        ("2024-01-01T00:10", "ann"),
        ("2024-01-01T02:10", "bob"),
        ("2024-01-01T02:00", ""),
        ("2024-01-01T01:59", "cy"),
    ]
    rows += [("2024-01-01T02:59", "cy"), ("2024-01-01T03:10", "dan")]
    assert counts(tmp_path, rows, watermark=True).tolist() == [1, 0]
    assert counts(tmp_path, rows, watermark=True, until="2024-01-01T04:30").tolist() == [1, 0, 2, 1]
    assert counts(tmp_path, rows, until="2024-01-01T03:00").tolist() == [1, 1, 2]  # nobody's row closes nothing
    assert counts(tmp_path, rows, horizon=None, until="2024-01-01T03:30").tolist() == [1, 1, 2]


def test_an_error_about_a_persons_row_says_neither_which_nor_when(tmp_path):
    rows = [*rows_of()[:40], ("1987-06-05 late", "p7")]
    with pytest.raises(InputError, match="not a time") as caught:
        counts(tmp_path, rows)
    said = f"{caught.value} {caught.value.to_dict()}"
    assert caught.value.path == "time"
    assert "1987" not in said
    assert "4" not in said.replace("2024", "")  # neither the 41st row nor the 42nd line


def test_a_wrong_time_names_its_row_where_rows_are_steps_and_its_option_where_one_gave_it(place):
    file = place.rows(["2024-01-01 00:00,1", "2024-01-01 01:00,2", "1987-06-05 late,3"], header="ts,n")
    with pytest.raises(InputError, match="not a time") as caught:
        place.release(file, "--time", "ts", "--step", "1h")
    assert caught.value.path == "in.csv, line 4, column ts"  # the header is line 1
    for option, path in (("--start", "start"), ("--until", "until")):
        clock = {"--start": "2024-01-01", option: "soon"}
        words = [word for pair in clock.items() for word in pair]
        with pytest.raises(SpecError, match="not a time") as caught:
            run("release", "--in", file, "--person", "n", "--time", "ts", *words, "--epsilon", 1, "--delta", 1e-6,
                "--horizon", 3)  # fmt: skip
        assert (caught.value.path, caught.value.given) == (path, "soon")
