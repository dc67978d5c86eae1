"""A process that dies at any write point of a report: never two values, never an uncharged one."""

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

WORKER = Path(__file__).with_name("report_worker.py")
SUPPORT = Path(__file__).resolve().parents[1] / "support"


@pytest.mark.slow
def test_killed_at_every_write_point_of_a_report():
    _killed()


@pytest.mark.slow
@pytest.mark.postgres
def test_killed_at_every_write_point_of_a_report_on_a_server(postgres):
    _killed(FAIRVEIL_CRASH_SERVER=postgres)


def _killed(**more):
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="fairveil-crash-", dir=fast)
    path = os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])
    try:
        done = subprocess.run(
            [sys.executable, str(WORKER)], capture_output=True, text=True, timeout=3600,
            env={**os.environ, "PYTHONPATH": path, "FAIRVEIL_CRASH_FOLDER": folder, **more},
        )  # fmt: skip
    finally:
        shutil.rmtree(folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    source = (Path(fairveil.loop.__file__).parent / "reports.py").read_text()
    assert set(re.findall(r'point\("([a-z-]+)"\)', source)) <= set(found["points"])
    assert found["killed"] >= 20
    assert found["lost"] >= 2
