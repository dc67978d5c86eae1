"""Consensus nodes that are killed at random moments: nothing is drawn twice, nothing is told twice differently."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("consensus_worker.py")


@pytest.mark.slow
def test_a_node_killed_at_a_hundred_random_moments():
    """The checks are in the worker; here: it was killed often enough, and some blocks were lost."""
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="fairveil-nodes-", dir=fast)
    try:
        done = subprocess.run(
            [sys.executable, str(WORKER), "100"], capture_output=True, text=True, timeout=500,
            env={**os.environ, "FAIRVEIL_CRASH_FOLDER": folder},
        )  # fmt: skip
    finally:
        shutil.rmtree(folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["killed"] >= 100
    assert found["lost"] >= 1
