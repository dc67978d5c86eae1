"""One run of `fairveil release`: charged once, goes on, answers a pipe line by line, ends at its horizon."""

import json
import subprocess
import sys
import threading

import pytest

from fairveil.errors import HorizonError
from fairveil.ledger import verify


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


def test_a_pipe_is_answered_before_it_goes_on(place):
    """Each line comes back before the next is written."""
    words = [sys.executable, "-m", "fairveil.cli", "release", "--column", "n", "--epsilon", "1", "--delta", "1e-6"]
    words += ["--horizon", "4"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1) as process:
        timer = threading.Timer(900, process.kill)  # of one that never answers; a busy machine may take minutes
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


def test_the_horizon_ends_a_stream_and_its_lines_stay(place):
    with pytest.raises(HorizonError):
        place.release(place.rows(range(10)), horizon=6)
    assert len(place.lines()) == 6
