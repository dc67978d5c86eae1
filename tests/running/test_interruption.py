"""Ctrl-C and lost parents: one clear line, the right exit code, and no worker left behind."""

import os
import signal
import subprocess
import sys
import time

import pytest

PLUGIN = """
import os, time
from pathlib import Path
from fairveil.registry import register
from fairveil.task import Outcome, Task

@register("task", "nap")
class Nap(Task):
    "Sleep for a minute and leave a sign of life."

    def blocks(self, spec):
        return [{"number": 0}, {"number": 1}]

    def work(self, spec, block):
        Path(f"worker-{block['number']}").write_text(str(os.getpid()))
        time.sleep(60)
        return {}

    def finish(self, spec, parts):
        return Outcome({})
"""


@pytest.fixture
def napping(tmp_path):
    """A command whose two workers are asleep in their blocks, and the workers' process ids."""
    (tmp_path / "nap.py").write_text(PLUGIN)
    (tmp_path / "nap.toml").write_text('task = "nap"')
    words = ["run", "nap.toml", "--plugin", "nap.py", "--engine", "processes", "--workers", "2"]
    command = subprocess.Popen(
        [sys.executable, "-m", "fairveil.cli", *words],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    signs = [tmp_path / "worker-0", tmp_path / "worker-1"]
    until(lambda: all(sign.exists() and sign.read_text() for sign in signs), 60)
    yield command, [int(sign.read_text()) for sign in signs]
    command.kill()
    command.wait()
    command.stderr.close()


def until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def gone(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("everybody", [True, False], ids=["terminal", "parent alone"])
def test_an_interrupted_command_stops_at_once_with_one_line(napping, everybody):
    command, workers = napping
    (os.killpg if everybody else os.kill)(command.pid, signal.SIGINT)
    _, shown = command.communicate(timeout=30)
    assert command.returncode == 130
    assert shown.startswith("interrupted; nothing is kept: the same command begins anew")
    assert shown.count("\n") == 1
    until(lambda: all(gone(worker) for worker in workers), 10)


def test_workers_leave_when_their_parent_is_killed(napping):
    command, workers = napping
    command.kill()
    command.wait()
    until(lambda: all(gone(worker) for worker in workers), 20)
