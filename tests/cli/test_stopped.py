"""Commands that are stopped or hindered: Ctrl-C, killed twice, a folder of somebody else, a full disk.

Each says what happened in a sentence, keeps what was done, and goes on when it is asked again.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from release_place import run as command

from fairveil.cli import main
from fairveil.cli.interrupted import after_interruption
from fairveil.lab import plots
from fairveil.running import runner
from fairveil.running.store import ResultStore

SPEC = {
    "task": "bandit", "rounds": 100, "runs": 600, "policy": {"name": "private-nash", "epsilon": 1.0},
    "environment": {"name": "bernoulli", "means": [0.2, 0.8]},
}  # fmt: skip
PLUGIN = '''
import os, time
from fairveil.lab.artefact import Artefact, Chart, line
from fairveil.registry import register
from fairveil.task import Outcome, Task, TaskSpec

class Spec(TaskSpec):
    wait: bool = False

@register("task", "stop-test")
class StopTest(Task):
    """A run that may wait for ever."""
    Spec = Spec
    def work(self, spec, block):
        with open("worked.txt", "a") as file:
            file.write(f"{spec['wait']}\\\\n")
        while spec["wait"] and not os.path.exists("go-on"):
            time.sleep(0.05)
        return {"number": 1}
    def finish(self, spec, parts):
        return Outcome({"error": 0.5}, {"error": {"x": [1.0, 2.0], "y": [1.0, 0.5]}})

class Both(Artefact):
    """One run."""
    data, words, wait = (), {}, False
    source = "nowhere"
    def specs(self, scale):
        return {"one": {"task": "stop-test", "wait": self.wait}}
    def pictures(self, results):
        return [Chart("error", "round", "error", (line("one", results["one"], "error"),))]
    def claims(self, results):
        return []

@register("artefact", "stop-test/a")
class First(Both):
    """The first figure."""
    name, title = "stop-test/a", "the first figure"

@register("artefact", "stop-test/b")
class Second(Both):
    """The second figure."""
    name, title, wait = "stop-test/b", "the second figure", True
'''
MOMENTS = {
    "the first block": (runner._Sweep, "take", 1),
    "the second block": (runner._Sweep, "take", 2),
    "a block is stored": (ResultStore, "put_part", 1),
    "the result is made": (runner._Sweep, "_finish", 1),
    "the result is drawn": (plots, "draw_result", 1),
}


def interrupted(monkeypatch, place, name, when):
    """Ctrl-C at the ``when``-th call."""
    calls, real = [], getattr(place, name)

    def hindered(*given, **options):
        calls.append(name)
        if len(calls) == when:
            raise KeyboardInterrupt
        return real(*given, **options)

    monkeypatch.setattr(place, name, hindered)


def ended(arguments):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return stopped.value.code


@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_in_a_run_keeps_what_was_stored(moment, tmp_path, monkeypatch, capsys):
    """Five moments; the other five are those of a stream, in test_release.py."""
    monkeypatch.chdir(tmp_path)
    Path("spec.json").write_text(json.dumps(SPEC))
    words = ["run", "spec.json", "--store", "store", "--plot", "plot.html", "--json"]
    with monkeypatch.context() as patched:
        interrupted(patched, *MOMENTS[moment])
        assert ended(words) == 130
    told = capsys.readouterr()
    assert "interrupted; what was stored is kept" in told.err
    assert "Traceback" not in told.err + told.out
    assert ended(words) == 0
    again = json.loads(capsys.readouterr().out)
    assert ended(["run", "spec.json", "--json"]) == 0
    assert again["metrics"] == json.loads(capsys.readouterr().out)["metrics"]
    assert Path("plot.html").stat().st_size > 10_000


def test_ctrl_c_in_a_run_without_a_store_says_that_it_begins_anew(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("spec.json").write_text(json.dumps(SPEC))
    with monkeypatch.context() as patched:
        interrupted(patched, *MOMENTS["the second block"])
        assert ended(["run", "spec.json"]) == 130
    told = capsys.readouterr().err
    assert "nothing is kept: the same command begins anew; with --store FOLDER it would go on" in told


def test_ctrl_c_in_a_run_on_a_ledger_says_that_it_does_not_go_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("arms.csv").write_text("usual care,new drug\n" + "0,1\n1,1\n" * 100)
    recorded = {"name": "table", "file": "arms.csv", "order": "recorded"}
    Path("spec.json").write_text(json.dumps({**SPEC, "runs": 1, "noise": "secure", "environment": recorded}))
    words = ["run", "spec.json", "--ledger", "trial.db"]
    with monkeypatch.context() as patched:
        interrupted(patched, *MOMENTS["the result is made"])
        assert ended(words) == 130
    told = capsys.readouterr().err
    assert "what was released is paid for" in told
    assert "A run on a ledger does not go on" in told
    assert "--store" not in told
    assert ended(words) == 4
    assert "already holds this run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compare", "a.toml"], "goes on from there"),
        (["run", "a.toml", "--store=kept"], "goes on from there"),
        (["release", "--ledger", "trips.db"], "goes on from there"),
        (["release", "--column", "trips"], "pays again for the same people; with --ledger FILE it would go on"),
        (["release", "--column", "trips", "--quote"], "give the same command again"),
        (["data", "fetch", "adult"], "goes on from there"),
        (["data", "verify"], "give the same command again"),
        (["federate", "join", "plan.toml"], "goes on from there"),
        (["federate", "check", "plan.toml"], "give the same command again"),
        (["results", "list", "--store", "kept"], "give the same command again"),
        (["plan", "a.toml", "--out", "plan.html"], "give the same command again"),
        ([], "give the same command again"),
    ],
)
def test_what_is_kept_is_said_of_the_command_that_was_given(words, said):
    assert said in after_interruption(words)


LOADING = """
import sys
from fairveil.__main__ import main

class Stop:
    def find_spec(self, name, *rest):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Stop())
main()
"""


def test_ctrl_c_while_the_commands_are_loaded_is_a_sentence(tmp_path):
    done = subprocess.run([sys.executable, "-c", LOADING], cwd=tmp_path, capture_output=True, text=True)
    told = "interrupted before anything began; give the same command again\n"
    assert (done.returncode, done.stdout, done.stderr) == (130, "", told)


CALLED_BACK = "ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))()"
"""As LLVM does when it has compiled."""
DESTROYED = "type('Gone', (), {'__del__': lambda _: signal.raise_signal(signal.SIGINT)})()"


@pytest.fixture
def hears_ctrl_c():
    """Ctrl-C raises here, also where the tests run in the background of a shell, which has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("fallen", [CALLED_BACK, DESTROYED], ids=["called back", "destroyed"])
def test_ctrl_c_in_a_function_that_cannot_raise_is_heard_all_the_same(fallen, tmp_path, capsys, hears_ctrl_c):
    file = tmp_path / "calls_back.py"
    file.write_text(f"import ctypes, signal, time\n\n{fallen}\ntime.sleep(5)\n")
    with pytest.raises(SystemExit) as ended:
        main(["list", "policy", "--plugin", str(file)])
    assert ended.value.code == 130
    assert "interrupted; give the same command again" in capsys.readouterr().err


def started(words, folder):
    (folder / "plugin.py").write_text(PLUGIN.replace("\\\\n", "\\n"))
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen([sys.executable, "-m", "fairveil.cli", *words, "--plugin", "plugin.py", "--out", "out"],
                            cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip


def seen(file, words, process, seconds=120.0):
    """Waits for these words in a file."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if file.exists() and words in file.read_text():
            return True
        assert process.poll() is None, process.stderr.read().decode()
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    ("words", "page", "half", "whole"),
    [
        (["compare", "spec.json", "--vary", "wait=false,true"], "index.html", "error: 1 of 2 runs", "error: 2 runs"),
        (["reproduce", "stop-test"], "quick.html", "1 of 2 artefacts", "2 artefacts"),
    ],
    ids=["compare", "reproduce"],
)
def test_a_page_is_written_as_it_goes_and_a_command_that_was_killed_twice_goes_on(words, page, half, whole, tmp_path):
    (tmp_path / "spec.json").write_text('{"task": "stop-test"}')
    words = [*words, "--engine", "serial"]
    for _ in range(2):
        process = started(words, tmp_path)
        assert seen(tmp_path / "out" / page, half, process)
        assert seen(tmp_path / "worked.txt", "True", process)
        process.kill()
        process.communicate()
        assert half in (tmp_path / "out" / page).read_text()
    (tmp_path / "go-on").touch()
    last = started(words, tmp_path)
    told = last.communicate(timeout=120)
    assert last.returncode == 0, told
    assert whole in (tmp_path / "out" / page).read_text()
    assert (tmp_path / "worked.txt").read_text().split().count("False") == 1  # what was done is not done again


def _as_nobody(folder, words, answer):
    os.chdir(folder)
    os.setuid(65534)
    with os.fdopen(answer[1], "w", closefd=False) as sys.stderr:
        main(words)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("words", [
    ["run", "spec.json", "--store", "store"],
    ["release", "--in", "in.csv", "--column", "n", "--epsilon", "1", "--delta", "1e-6", "--horizon", "9", "--out",
     "o.csv", "--ledger", "s.db"],
    ["schema", "log.csv", "--arm", "drug", "--outcome", "well", "--out", "log.toml"],
], ids=["store", "stream", "draft"])  # fmt: skip
def test_a_folder_of_somebody_else(words, tmp_path, monkeypatch):
    """A process of its own becomes another user, after the same command has worked: nothing is left to be loaded."""
    folder = tmp_path / "theirs"
    for place in (tmp_path / "mine", folder):
        place.mkdir()
        (place / "spec.json").write_text(json.dumps({**SPEC, "runs": 2}))
        (place / "in.csv").write_text("n\n1\n2\n")
        (place / "log.csv").write_text("drug,well\n" + "a,1\nb,0\n" * 2)
    monkeypatch.chdir(tmp_path / "mine")
    command(*words)
    above = list(tmp_path.parents)
    modes = {place: place.stat().st_mode for place in above[:3]}
    for place in modes:
        place.chmod(0o755)
    folder.chmod(0o555)
    reading, writing = os.pipe()
    process = multiprocessing.get_context("fork").Process(target=_as_nobody, args=(folder, words, (reading, writing)))
    process.start()
    os.close(writing)
    told = os.fdopen(reading).read()
    process.join(60)
    for place, mode in modes.items():
        place.chmod(mode)
    assert process.exitcode in (3, 5, 7), told
    assert "error " in told
    assert "ermission" in told or "writable" in told
    assert "Traceback" not in told
    assert sorted(file.name for file in folder.iterdir()) == ["in.csv", "log.csv", "spec.json"]


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 200 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    made = mount and subprocess.run([mount, "-t", "tmpfs", "-o", "size=200k", "tmpfs", place], capture_output=True)
    if not made or made.returncode:
        pytest.skip("a small disk needs the right to mount one")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk_is_said_and_nothing_is_lost(small_disk, monkeypatch, capsys):
    monkeypatch.chdir(small_disk)
    Path("in.csv").write_text("n\n" + "3\n" * 20)
    release = ["release", "--in", "in.csv", "--column", "n", "--epsilon", "1", "--delta", "1e-6", "--horizon", "40",
               "--out", "out.csv", "--ledger", "s.db"]  # fmt: skip
    assert ended(release) == 0
    before = Path("out.csv").read_text()
    Path("filler").write_bytes(b"x" * os.statvfs(".").f_bavail * os.statvfs(".").f_frsize)
    (small_disk.parent / "in.csv").write_text("n\n" + "3\n" * 30)
    hindered = [*release[:2], str(small_disk.parent / "in.csv"), *release[3:]]
    assert ended(hindered) in (3, 5, 7)
    told = capsys.readouterr()
    assert "error " in told.err
    assert "space" in told.err
    assert "Traceback" not in told.err
    (small_disk.parent / "spec.json").write_text(json.dumps({**SPEC, "runs": 2}))
    assert ended(["run", str(small_disk.parent / "spec.json"), "--store", "store"]) in (3, 5, 7)
    assert "space" in capsys.readouterr().err
    assert Path("out.csv").read_text().startswith(before)
    Path("filler").unlink()
    assert ended(hindered) == 0
    lines = Path("out.csv").read_text()
    assert lines.startswith(before)
    assert len(lines.splitlines()) == 31
