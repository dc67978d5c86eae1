"""`fairveil release`: files, pipes, clocks, people, resume, and every kind of bad input."""

import csv
import io
import json
import os
import subprocess
import sys
import threading
import traceback

import pytest

from fairveil.cli import app
from fairveil.errors import FairveilError, HorizonError, InputError, LedgerError, PrivacyError, SpecError
from fairveil.privacy.ledger import Ledger, verify

SECRET = "98765.4321"


def run(*words):
    """The command in this process; errors come out as they are."""
    app([str(word) for word in words], standalone_mode=False)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


class Place:
    def __init__(self, folder):
        self.folder, self.out, self.ledger = folder, folder / "private.csv", folder / "stream.db"

    def rows(self, rows, header="n"):
        file = self.folder / "in.csv"
        file.write_text("\n".join([header, *map(str, rows)]) + "\n")
        return file

    def release(self, file, *more, budget=("--epsilon", 1, "--delta", 1e-6), horizon=40, ledger=True, column="n"):
        words = ["--in", file, "--column", column, *budget, "--out", self.out, *more]
        words += ["--horizon", horizon] if horizon else []
        run("release", *words, *(["--ledger", self.ledger] if ledger else []))

    def lines(self):
        return list(csv.DictReader(io.StringIO(self.out.read_text())))

    def untouched(self):
        return not self.out.exists() and not self.ledger.exists() and not list(self.folder.glob("*.guarantee.json"))


def test_a_file_is_released_line_by_line_and_charged_once(place):
    place.release(place.rows([*range(100, 120), "", *range(120, 130)]))
    shown = place.lines()
    assert [row["status"] for row in shown].count("missing") == 1
    assert len(shown) == 31
    assert float(shown[3]["n_low"]) < float(shown[3]["n"]) < float(shown[3]["n_high"])
    promise = json.loads((place.folder / "private.csv.guarantee.json").read_text())
    assert promise["epsilon"] == 1.0
    assert not promise["simulated"]
    report = verify(place.ledger)
    assert report.remaining.startswith("mu^2 0")
    assert report.lost == 0


def test_going_on_keeps_every_line_and_draws_nothing_again(place):
    rows = list(range(100, 130))
    place.release(place.rows(rows[:20]))
    before = place.out.read_bytes()
    place.release(place.rows(rows))
    assert place.out.read_bytes().startswith(before)
    whole = place.out.read_bytes()
    place.release(place.rows(rows))
    assert place.out.read_bytes() == whole
    place.out.write_bytes(whole[:-7])  # a line that was cut in the middle is written again
    place.release(place.rows(rows))
    assert place.out.read_bytes() == whole
    place.out.unlink()
    place.release(place.rows(rows))
    assert place.out.read_bytes() == whole


@pytest.mark.parametrize(
    "more",
    [["--lag", 3], ["--neighbours", "add-remove"], ["--unit", "event", "--memory", 0.7], ["--releaser", "ba"]],
    ids=["lag", "offset", "memory", "absorption"],
)
def test_other_releasers_go_on_too(place, more):
    budget = ("--epsilon", 1) if "ba" in more else ("--epsilon", 1, "--delta", 1e-6)
    horizon = None if "event" in more else 40
    rows = list(range(100, 130))
    place.release(place.rows(rows[:12]), *more, budget=budget, horizon=horizon)
    before = place.out.read_bytes()
    place.release(place.rows(rows), *more, budget=budget, horizon=horizon)
    assert place.out.read_bytes().startswith(before)
    assert len(place.lines()) == 30


def test_starts_that_were_paid_for_run_out(place):
    more = ["--neighbours", "add-remove", "--starts", 2]
    for size in (5, 10):
        place.release(place.rows(range(size)), *more)
    with pytest.raises(PrivacyError, match="starts"):
        place.release(place.rows(range(15)), *more)
    assert len(place.lines()) == 10


def test_a_clock_fills_gaps_and_columns_share_a_budget(place):
    rows = ["2024-01-01T00:00,1,2", "2024-01-01T01:00,3,", "2024-01-01T04:00,5,6"]
    file = place.rows(rows, header="ts,n,m")
    words = ["--in", file, "--column", "n", "--column", "m", "--time", "ts", "--step", "1h", "--plain", "--seed", 7]
    run("release", *words, "--epsilon", 1, "--delta", 1e-6, "--horizon", 5, "--out", place.out, "--simulate")
    shown = place.lines()
    assert [row["status"] for row in shown] == ["released", "released", "missing", "missing", "released"]
    assert shown[2]["ts"] == "2024-01-01T02:00:00"
    assert {"n_plain", "m_low", "simulated"} <= set(shown[0])


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


def test_late_rows_of_people_are_refused_or_dropped(place):
    file = place.rows(["2024-01-01T03:00,ann", "2024-01-01T01:00,bob"], header="ts,id")
    words = ["--in", file, "--person", "id", "--time", "ts", "--start", "2024-01-01", "--step", "1h", "--horizon", 4]
    budget = ["--epsilon", 1, "--delta", 1e-6]
    with pytest.raises(InputError, match="over"):
        run("release", *words, *budget, "--out", place.out)
    run("release", *words, *budget, "--late", "drop", "--out", place.folder / "other.csv")


def test_json_lines_quote_and_picture(place, capsys):
    run("release", "--column", "n", "--epsilon", 1, "--delta", 1e-6, "--horizon", 9, "--quote", "--json")
    assert json.loads(capsys.readouterr().out)["columns"]["n"]["noise_std"] > 0
    place.release(place.rows(range(9)), "--json", "--plot", place.folder / "picture.svg")
    assert [json.loads(line)["step"] for line in place.out.read_text().splitlines()] == [str(n) for n in range(9)]
    assert (place.folder / "picture.svg").stat().st_size > 1000


def test_a_pipe_is_answered_before_it_goes_on(place):
    """Each line comes back before the next is written."""
    words = [sys.executable, "-m", "fairveil.cli", "release", "--column", "n", "--epsilon", "1", "--delta", "1e-6"]
    words += ["--horizon", "4"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1) as process:
        timer = threading.Timer(60, process.kill)
        timer.start()
        process.stdin.write("n\n5\n")
        process.stdin.flush()
        assert process.stdout.readline().startswith("step,n,")
        assert process.stdout.readline().startswith("0,")
        process.stdin.write("6\n")
        process.stdin.flush()
        assert process.stdout.readline().startswith("1,")
        process.stdin.close()
        process.wait()
        timer.cancel()


BAD_OPTIONS = {
    "epsilon 0": (["--epsilon", 0, "--delta", 1e-6], "epsilon"),
    "epsilon negative": (["--epsilon", -1, "--delta", 1e-6], "epsilon"),
    "epsilon nan": (["--epsilon", "nan", "--delta", 1e-6], "epsilon"),
    "epsilon inf": (["--epsilon", "inf", "--delta", 1e-6], "epsilon"),
    "epsilon subnormal": (["--epsilon", 1e-310, "--delta", 1e-6], "epsilon"),
    "delta 0": (["--epsilon", 1, "--delta", 0], "delta"),
    "no delta": (["--epsilon", 1], "delta"),
    "no horizon": (["--epsilon", 1, "--delta", 1e-6, "--endless"], "horizon"),
    "window without w": (["--epsilon", 1, "--delta", 1e-6, "--unit", "window"], "window"),
    "participation": (["--epsilon", 1, "--delta", 1e-6, "--participation", 50], "participation"),
    "memory with sequence": (["--epsilon", 1, "--delta", 1e-6, "--memory", 0.5], "memory"),
    "period 1": (["--epsilon", 1, "--delta", 1e-6, "--seasons", "1"], "seasons"),
    "period text": (["--epsilon", 1, "--delta", 1e-6, "--seasons", "2.5"], "seasons"),
    "three periods": (["--epsilon", 1, "--delta", 1e-6, "--seasons", "7,12,24"], "seasons"),
    "phases": (["--epsilon", 1, "--delta", 1e-6, "--seasons", "20000"], "seasons"),
    "range": (["--epsilon", 1, "--delta", 1e-6, "--range", "5,5"], "range"),
    "seed": (["--epsilon", 1, "--delta", 1e-6, "--seed", 3], "seed"),
    "seed 0": (["--epsilon", 1, "--delta", 1e-6, "--seed", 0], "seed"),
    "step without time": (["--epsilon", 1, "--delta", 1e-6, "--step", "1h"], "step"),
    "range and sensitivity": (["--epsilon", 1, "--delta", 1e-6, "--range", "0,9", "--sensitivity", 2], "sensitivity"),
    "offline": (["--epsilon", 1, "--releaser", "dft"], "releaser"),
    "no such releaser": (["--epsilon", 1, "--releaser", "magic"], "releaser"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_options_charge_and_write_nothing(place, case):
    budget, path = BAD_OPTIONS[case]
    with pytest.raises(FairveilError) as caught:
        place.release(place.rows(range(5)), budget=tuple(budget))
    assert path in caught.value.path
    assert place.untouched()


BAD_ROWS = {
    "text": (["1", f"x{SECRET}"], [], InputError),
    "infinite": (["inf"], [], InputError),
    "the word nan": (["nan"], [], InputError),
    "fraction": ([SECRET], ["--law", "discrete-gaussian"], InputError),
    "coins": ([SECRET], ["--law", "binomial"], InputError),
    "too few cells": ([""], ["--time", "ts"], InputError),
    "too many cells": ([f"1,{SECRET}"], [], InputError),
}


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
    assert caught.value.path == "row 4"
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


def test_the_horizon_ends_a_stream_and_its_lines_stay(place):
    with pytest.raises(HorizonError):
        place.release(place.rows(range(10)), horizon=6)
    assert len(place.lines()) == 6


@pytest.mark.parametrize(
    "change",
    [
        {"budget": ("--epsilon", 2, "--delta", 1e-6)},
        {"more": ["--seasons", "7"]},
        {"header": "n,extra"},
        {"horizon": 41},
    ],
    ids=["budget", "seasons", "header", "horizon"],
)
def test_other_options_on_an_old_ledger_are_refused(place, change):
    place.release(place.rows(range(10)))
    before = place.out.read_bytes()
    rows = range(12) if "header" not in change else [f"{n},1" for n in range(12)]
    file = place.rows(rows, header=change.get("header", "n"))
    keys = {key: change[key] for key in ("budget", "horizon") if key in change}
    with pytest.raises(LedgerError, match="other options"):
        place.release(file, *change.get("more", []), **keys)
    assert place.out.read_bytes() == before


def test_last_digits_of_another_processor_do_not_stop_a_stream(place):
    place.release(place.rows(range(10)))
    lines = place.out.read_text().splitlines()
    step, value, *rest = lines[4].split(",")
    near = ",".join([step, repr(float(value) * (1 + 1e-13)), *rest])
    place.out.write_text("\n".join([*lines[:4], near, *lines[5:]]) + "\n")
    place.release(place.rows(range(12)))
    assert place.out.read_text().splitlines()[4] == near
    assert len(place.lines()) == 12
    far = ",".join([step, repr(float(value) + 1.5), *rest])
    place.out.write_text("\n".join([*lines[:4], far, *lines[5:]]) + "\n")
    with pytest.raises(LedgerError, match="not written by this stream"):
        place.release(place.rows(range(12)))


def test_a_picture_needs_an_output(place):
    with pytest.raises(SpecError, match="output file"):
        run("release", "--in", place.rows([1]), "--column", "n", "--epsilon", 1, "--delta", 1e-6, "--horizon", 3,
            "--plot", place.folder / "p.svg")  # fmt: skip


def test_changed_pasts_foreign_ledgers_and_missing_ledgers_are_refused(place, tmp_path):
    timed = ["--time", "ts"]
    place.release(place.rows([f"t{n},{n}" for n in range(6)], header="ts,n"), *timed)
    with pytest.raises(LedgerError, match="times of the input"):
        place.release(place.rows([f"u{n},{n}" for n in range(9)], header="ts,n"), *timed)
    with pytest.raises(InputError, match="shorter"):
        place.release(place.rows([f"t{n},{n}" for n in range(3)], header="ts,n"), *timed)
    before = place.out.read_bytes()
    moved = place.folder / "moved.db"
    place.ledger.rename(moved)
    with pytest.raises(LedgerError, match="ledger"):
        place.release(place.rows([f"t{n},{n}" for n in range(9)], header="ts,n"), *timed)
    assert place.out.read_bytes() == before
    assert not place.ledger.exists()
    moved.rename(place.ledger)
    place.out.write_bytes(before + b"t9,1.0,2.0,3.0,released\n")
    with pytest.raises(LedgerError, match="more lines"):
        place.release(place.rows([f"t{n},{n}" for n in range(9)], header="ts,n"), *timed)


def test_the_ledger_of_another_stream_is_refused(place):
    place.release(place.rows(range(6)))
    place.out = place.folder / "other.csv"
    with pytest.raises(LedgerError, match="other options"):
        place.release(place.rows(range(6), header="m"), column="m")
    assert not place.out.exists()


def test_one_of_two_processes_is_refused(place):
    from fairveil.streams import BaselineLaplace, Stream
    from fairveil.streams.limits import exact_limit

    releaser = BaselineLaplace(epsilon=1.0, horizon=5)
    with Ledger.create(place.ledger, limit=exact_limit(releaser)) as ledger:
        stream = Stream(releaser, ledger)
        stream.release(1.0)
        with pytest.raises(LedgerError, match="another process"):
            Stream(releaser, ledger)
        stream.close()
        again = Stream(releaser, ledger)
        assert again.step == 1


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


def test_a_person_column_needs_a_public_clock():
    with pytest.raises(SpecError) as caught:
        run("release", "--person", "id", "--epsilon", 1, "--delta", 1e-6, "--horizon", 3)
    assert caught.value.path == "time"
