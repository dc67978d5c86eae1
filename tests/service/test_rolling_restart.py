"""Two processes on one PostgreSQL are restarted in turn under load: what fails, a client's retry heals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "service" / "kill.py"


@pytest.mark.postgres
def test_rolling_restart_of_two_processes(postgres):
    words = ["--which", "rolling", "--times", "2", "--between", "40", "--filled", "3000"]
    environment = {**os.environ, "FAIRVEIL_POSTGRES": postgres}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words], capture_output=True, text=True, env=environment, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok" in done.stdout
