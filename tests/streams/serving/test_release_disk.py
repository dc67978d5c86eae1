"""`fairveil release` on a disk that is full or may not be written: refused in words, nothing lost, goes on later."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fairveil.ledger import Ledger, verify

STEPS = 1_200  # their output alone is larger than `small_files` allows, however the ledger cuts its commits
NOBODY = 65534


def command() -> list[str]:
    column, budget = ["--in", "x.csv", "--column", "count"], ["--epsilon", "1", "--delta", "1e-6"]
    rest = ["--horizon", str(STEPS), "--sensitivity", "1", "--ledger", "l.db", "--out", "o.csv"]
    return [sys.executable, "-c", "from fairveil.cli import main; main()", "release", *column, *budget, *rest]


def run(folder: Path, **more) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(), cwd=folder, capture_output=True, text=True, check=False, timeout=300, **more)


@pytest.fixture
def folder(tmp_path):
    values = np.random.default_rng(3).normal(100.0, 10.0, STEPS)
    (tmp_path / "x.csv").write_text("count\n" + "".join(f"{value:.3f}\n" for value in values))
    return tmp_path


def small_files() -> None:
    """No file may grow beyond what a part of the stream needs."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))


def test_a_full_disk_stops_it_in_words_and_it_goes_on_when_there_is_room(folder):
    first = run(folder, preexec_fn=small_files)
    assert first.returncode not in (0, 1)
    assert "Traceback" not in first.stderr
    assert first.stderr.strip()
    printed = (folder / "o.csv").read_text() if (folder / "o.csv").exists() else ""
    whole = printed[: printed.rfind("\n") + 1]
    second = run(folder)
    assert second.returncode == 0, second.stderr
    shown = (folder / "o.csv").read_text()
    assert shown.startswith(whole)
    rows = [line.split(",") for line in shown.splitlines()[1:]]
    assert [int(row[0]) for row in rows] == list(range(STEPS))
    assert {row[-1] for row in rows} <= {"released", "lost"}
    with Ledger.open(folder / "l.db") as ledger:
        assert 0 < ledger.spent.units <= ledger.limit.units
    assert verify(folder / "l.db").entries > 1


def as_nobody(folder, arguments):
    """Exit code of the command line in a forked child that gives up its rights after everything is imported."""
    from fairveil.cli import main

    for parent in (folder, *list(folder.parents)[:3]):
        parent.chmod(parent.stat().st_mode | stat.S_IXOTH | stat.S_IROTH)
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.chdir(folder)
            with open(os.devnull, "w") as quiet:
                os.dup2(quiet.fileno(), 2)
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            main(arguments)
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user who may not write")
def test_places_that_may_not_be_written_are_refused_and_nothing_is_charged(folder, monkeypatch):
    """A folder without anything, and the ledger and output of somebody else's stream that is to go on."""
    from fairveil.cli import main

    arguments = command()[3:]
    theirs = folder / "theirs"
    theirs.mkdir()
    rows = (folder / "x.csv").read_text().splitlines(keepends=True)
    (theirs / "x.csv").write_text("".join(rows[:5]))
    monkeypatch.chdir(theirs)
    with pytest.raises(SystemExit, match="0"):
        main(arguments)  # everything that is needed is imported now
    before = {name: (theirs / name).read_bytes() for name in ("l.db", "o.csv")}
    (theirs / "x.csv").write_text("".join(rows))
    # the ledger is its owner's alone, so that the command line cannot read it; else ledger or file system refuse
    assert as_nobody(theirs, arguments) in (2, 5, 7)
    assert {name: (theirs / name).read_bytes() for name in before} == before
    assert as_nobody(folder, arguments) in (5, 7)
    assert not (folder / "l.db").exists()
    assert not (folder / "o.csv").exists()
