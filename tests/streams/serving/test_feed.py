"""Rows as steps: clocks and gaps; a bad row is refused without showing it."""

import json
import os
import traceback
from itertools import pairwise

import pytest
from release_place import SECRET, run

from fairveil.errors import InputError
from fairveil.ledger.verify import entries

BAD_ROWS = {
    "text": (["1", f"x{SECRET}"], [], InputError),
    "infinite": (["inf"], [], InputError),
    "the word nan": (["nan"], [], InputError),
    "fraction": ([SECRET], ["--law", "discrete-gaussian"], InputError),
    "coins": ([SECRET], ["--law", "binomial"], InputError),
    "too few cells": ([""], ["--time", "ts"], InputError),
    "too many cells": ([f"1,{SECRET}"], [], InputError),
}


def test_a_clock_fills_gaps_and_columns_share_a_budget(place):
    rows = ["2024-01-01T00:00,1,2", "2024-01-01T01:00,3,", "2024-01-01T04:00,5,6"]
    file = place.rows(rows, header="ts,n,m")
    words = ["--in", file, "--column", "n", "--column", "m", "--time", "ts", "--step", "1h", "--plain", "--seed", 7]
    run("release", *words, "--epsilon", 1, "--delta", 1e-6, "--horizon", 5, "--out", place.out, "--simulate")
    shown = place.lines()
    assert [row["status"] for row in shown] == ["released", "released", "missing", "missing", "released"]
    assert shown[2]["ts"] == "2024-01-01T02:00:00"
    assert {"n_plain", "m_low", "simulated"} <= set(shown[0])


@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_first_rows_are_refused_without_showing_them(place, case):
    rows, more, kind = BAD_ROWS[case]
    file = place.rows(rows[-1:] if "ts" not in more else ["1"], header="n" if "ts" not in more else "n,ts")
    with pytest.raises(kind) as caught:
        place.release(file, *more)
    assert SECRET not in str(caught.value)
    assert SECRET not in json.dumps(caught.value.to_dict())
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    for file in place.folder.iterdir():
        if file.name != "in.csv":
            assert SECRET.encode() not in file.read_bytes()
    assert place.untouched()


def test_a_value_that_is_refused_later_leaves_what_was_printed(place):
    whole = ["--law", "discrete-gaussian"]
    place.release(place.rows([1, 2]), *whole)
    with pytest.raises(InputError, match="whole numbers") as caught:
        place.release(place.rows([1, 2, 3, SECRET, 4]), *whole)
    assert SECRET not in str(caught.value)
    assert len(place.lines()) == 3


def test_a_bad_row_later_leaves_what_was_printed(place):
    with pytest.raises(InputError) as caught:
        place.release(place.rows([1, 2, f"{SECRET}x", 4]))
    assert caught.value.path == "in.csv, line 4, column n"
    assert SECRET not in str(caught.value)
    assert len(place.lines()) == 2


@pytest.mark.parametrize("text", ["", "n\n"], ids=["empty file", "no rows"])
def test_an_input_without_rows_is_refused(place, text):
    file = place.folder / "in.csv"
    file.write_text(text)
    with pytest.raises(InputError):
        place.release(file)
    assert place.untouched()


def test_a_column_that_is_not_there_and_times_that_go_back(place):
    with pytest.raises(InputError, match="not in the header"):
        place.release(place.rows([1], header="other"))
    assert place.untouched()
    for second in ("2024-01-01T00:00", "2023-12-31T23:00"):
        file = place.rows(["2024-01-01T00:00,1", f"{second},2"], header="ts,n")
        with pytest.raises(InputError, match="again or goes back"):
            place.release(file, "--time", "ts", "--step", "1h", ledger=False)
        place.out.unlink()
        os.unlink(f"{place.out}.guarantee.json")


def test_a_row_before_the_declared_start_is_said_to_be_so(place):
    file = place.rows(["2023-12-31T23:00,1"], header="ts,n")
    with pytest.raises(InputError, match="before --start"):
        place.release(file, "--time", "ts", "--step", "1h", "--start", "2024-01-01T00:00")


def blocks_of(file, *words):
    """What a ledger names together, of a new stream of this file."""
    ledger = file.parent / f"{file.stem}.db"
    run("release", "--in", file, *words, "--epsilon", 1, "--delta", 1e-6, "--ledger", ledger, "--out", f"{file}.out")
    return [entry["name"] for entry in entries(ledger)][1:]


@pytest.mark.parametrize("people", [False, True])
def test_how_long_a_cell_is_shows_in_no_name_of_a_ledger(place, people):
    """Reads end after so many bytes, and a ledger named together what one held: a digit more moved its names."""
    words, header, rows = ["--column", "n"], "n", ["3.14159265358979"] * 8000
    if people:
        words, header = ["--person", "n", "--time", "ts", "--start", "2024-01-01", "--watermark"], "ts,n"
        hours = [f"2024-01-{1 + hour // 24:02}T{hour % 24:02}:00" for hour in range(300)]
        rows = [f"{now},{who}{'x' * 200}\n{then}," for now, then in pairwise(hours) for who in ("ann", "bob")]
    found = []
    for name, cell in (("one", rows[0]), ("other", rows[0].replace("1415", "1415" * 20).replace("ann", "ann" * 200))):
        file = place.folder / f"{name}.csv"
        file.write_text("\n".join([header, cell, *rows[1:]]) + "\n")
        found.append(blocks_of(file, *words, "--horizon", 8000))
    assert found[0] == found[1]
