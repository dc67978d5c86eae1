"""Five people with tables of their own: each script goes from a raw CSV to a report that can be handed over."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
JOBS = sorted(file.stem for file in (ROOT / "examples" / "people").glob("*.py") if file.stem != "commands")


ANSWERS = {
    "data_scientist": "topic=sport",
    "hr_analyst": "gender=f/site=north",
    "policy_analyst": "What the rule would have earned",
    "researcher": "video",
    "trial_statistician": "budget spent",
}
"""Something that the page must say."""


@pytest.fixture(autouse=True)
def _scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "people"))
    yield
    for name in (*JOBS, "commands"):
        sys.modules.pop(name, None)


def test_there_are_five():
    assert JOBS == ["data_scientist", "hr_analyst", "policy_analyst", "researcher", "trial_statistician"]


@pytest.mark.parametrize("generated", [False, True], ids=["as it is", "without data"])
@pytest.mark.parametrize("job", JOBS)
def test_a_job_ends_in_a_report_without_a_row_of_the_table(job, generated, tmp_path, monkeypatch, capsys):
    """Secure noise, a public spec: the page has the promise and no banner of a simulation."""
    if generated:
        if job != "trial_statistician":
            pytest.skip("generates its table anyway")
        monkeypatch.setenv("FAIRVEIL_DATA", str(tmp_path))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    report = importlib.import_module(job).work(tmp_path)
    page = report.read_text()
    typed = re.findall(r"^\$ (fairveil .*)$", capsys.readouterr().out, re.MULTILINE)
    assert len(typed) <= 4
    assert typed[-1].startswith("fairveil report ")
    assert "Simulated" not in page
    assert "epsilon" in page
    assert "<script src=" not in page
    [result] = [json.loads(file.read_text()) for file in tmp_path.glob("*.json")]
    assert result["meta"]["simulated"] is False
    assert result["guarantee"]["established"]
    assert "read off" not in " ".join(result["guarantee"]["notes"])
    assert "applicant 17" not in page
    assert ANSWERS[job] in page


def test_a_newcomer_gets_from_a_csv_to_a_report_with_the_commands_of_the_quickstart(tmp_path):
    """Exactly the commands of the page, in a shell, in a folder with a CSV and nothing else; at most four."""
    page = (ROOT / "docs" / "quickstart.md").read_text()
    section = page.split("## Your own CSV, from nothing to a report\n")[1].split("\n## ")[0]
    commands = re.findall(r"^    (fairveil .*?)(?: +#.*)?$", section, re.MULTILINE)
    assert 2 <= len(commands) <= 4
    rows = "".join(f"{'ab'[k % 2]},{int(k % 10 < (3 if k % 2 else 7))}\n" for k in range(1000))
    (tmp_path / "trial.csv").write_text("drug,recovered\n" + rows)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in commands:
        done = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env={**os.environ, "PATH": programs},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
    assert "epsilon" in (tmp_path / "report.html").read_text()
