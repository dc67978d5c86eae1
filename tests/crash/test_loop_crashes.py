"""Loops when processes die: no acknowledged decision or reward is lost or doubled, no block is drawn twice."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import fairveil.loop

WORKER = Path(__file__).with_name("loop_worker.py")
SUPPORT = Path(__file__).resolve().parents[1] / "support"


def _run(*actions: str, **variables: str) -> dict:
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="fairveil-crash-", dir=fast)
    path = os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])
    try:
        done = subprocess.run(
            [sys.executable, "-W", "error", str(WORKER), *actions],
            capture_output=True,
            text=True,
            timeout=900,
            env={**os.environ, "PYTHONPATH": path, "FAIRVEIL_CRASH_FOLDER": folder, **variables},
        )
    finally:
        shutil.rmtree(folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for result in found.values():
        assert "error" not in result, result["error"] + done.stderr
    return found


@pytest.mark.slow
def test_killed_two_hundred_times_at_every_write_point_and_under_load():
    found = _run("kill", "load", FAIRVEIL_CRASH_KILLS="130", FAIRVEIL_CRASH_LOADED="60")
    assert found["kill"]["killed"] + found["load"]["killed"] >= 200
    source = Path(fairveil.loop.__file__).parent
    named = {name for file in source.glob("*.py") for name in re.findall(r'point\("([a-z-]+)"\)', file.read_text())}
    text = (source.parent / "storage" / "sqlite.py").read_text()
    named = {name for name in named if not name.startswith("report-")}  # tests/crash/test_report_crashes.py
    named |= {f"store-{name}" for name in re.findall(r'point\(prefix \+ "([a-z-]+)"\)', text)}
    assert "store-committed" in named
    assert named <= set(found["kill"]["points"])
    assert found["load"]["acknowledged"] >= 300


@pytest.mark.slow
def test_full_disks_and_torn_logs_are_refused_and_recovered():
    found = _run("starve", "torn", "read-only")
    assert found["read-only"] == {"status": 0}
    assert found["starve"]["refused"] >= 20
    assert found["torn"] == {"whole": 5}


@pytest.mark.slow
@pytest.mark.postgres
def test_killed_beside_a_server(postgres):
    found = _run("kill", "load", FAIRVEIL_CRASH_SERVER=postgres, FAIRVEIL_CRASH_KILLS="20", FAIRVEIL_CRASH_LOADED="5")
    assert found["kill"]["killed"] >= 20
