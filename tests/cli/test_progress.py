"""Nobody waits in silence: on a terminal every long command says what it does before it has a result.

The commands run on a pseudo-terminal in a process without compiled code. Elsewhere (a log, a pipe) nothing is drawn,
and what takes long says every half a minute how far it is.
"""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import time
import tomllib
from contextlib import suppress

import pytest
from rich.console import Console

from fairveil import run
from fairveil.loop import Store
from fairveil.running import progress
from fairveil.running.progress import COMPILING

TRIAL = """
task = "bandit"
rounds = 400
runs = 2
policy = {{ name = "{name}", epsilon = 1.0 }}
environment = {{ name = "bernoulli", means = [0.2, 0.8] }}
"""
COUNTS = "n\n" + "12\n15\n11\n" * 20
RELEASE = "release --in counts.csv --column n --epsilon 1 --delta 1e-6 --horizon 60 --simulate --seed 1"
SAYS = {
    "run trial.toml": (COMPILING, "guarantee: pure"),
    "run secure.toml": (", run 2 of 2", "guarantee: pure"),
    "quote trial.toml --runs 4": (COMPILING, "policy: private-nash"),
    "plan trial.toml --runs 10": ("planning", "people, 10 runs"),
    "compare trial.toml other.toml --workers 2": (f"compare, {COMPILING}", "report: "),
    f"{RELEASE} --out private.csv": (COMPILING, "60 lines in private.csv"),
    RELEASE: (COMPILING, "60 lines printed"),
    "audit laplace --trials 200000": ("audit laplace", "claimed: epsilon"),
    "schema log.csv --arm drug --outcome well --out log.toml": ("reading log.csv", "written: log.toml"),
    "list policy": ("loading every policy", "private-nash"),
    "run trial.toml --plot trial.html": ("drawing trial.html", "plot: trial.html"),
    "report result.json --out board.html": ("writing board.html", "report: board.html"),
    f"{RELEASE} --out private.csv --plot private.svg": ("drawing private.svg", "plot: private.svg"),
    f"{RELEASE} --quote": ("planning the noise", "noise std"),
    "attack retries": ("attacks", "How often the attacker wins"),
}


def typed(words, folder, **more):
    """What a terminal of 100 columns shows of a command, from its beginning to its end."""
    main, side = pty.openpty()
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "COLUMNS": "100", "TERM": "xterm", **more}
    command = [sys.executable, "-m", "fairveil.cli", *words.split()]
    child = subprocess.Popen(command, cwd=folder, env=environment, stdin=side, stdout=side, stderr=side)
    os.close(side)
    shown = b""
    with suppress(OSError):  # the terminal is gone with its last process
        while part := os.read(main, 65536):
            shown += part
    os.close(main)
    assert child.wait() == 0, shown.decode()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())


@pytest.fixture(scope="module")
def result():
    return json.dumps(run(tomllib.loads(TRIAL.format(name="private-nash"))))


@pytest.fixture
def folder(tmp_path, result):
    (tmp_path / "trial.toml").write_text(TRIAL.format(name="private-nash"))
    (tmp_path / "other.toml").write_text(TRIAL.format(name="adap-ucb"))
    (tmp_path / "secure.toml").write_text('noise = "secure"' + TRIAL.format(name="private-nash").replace("400", "6000"))
    (tmp_path / "result.json").write_text(result)
    (tmp_path / "counts.csv").write_text(COUNTS)
    (tmp_path / "log.csv").write_text("drug,well\n" + "a,1\nb,0\n" * 20)
    return tmp_path


@pytest.mark.parametrize("words", SAYS, ids=lambda words: " ".join(words.split()[:1] + words.split()[16:]))
def test_a_command_says_what_it_does_before_it_has_done_it(words, folder):
    doing, result = SAYS[words]
    shown = typed(words, folder)
    assert doing in shown, shown
    assert result in shown, shown
    assert shown.index(doing) < shown.rindex(result)


def test_a_report_says_that_it_compiles_what_reads_a_loop(folder):
    policy = {"name": "batched-priv-fairx", "epsilon": 5.0, "delta": 1e-5, "horizon": 1000}
    features = [{"name": "price", "low": -1.0, "high": 1.0}]
    with Store.open(f"sqlite:///{folder}/shop/store.db") as store:
        store.create("shop", policy=policy, features=features, reward={"wait": "60s"})
    shown = typed("report shop --loop shop --out board.html", folder)
    assert f"writing board.html, {COMPILING}" in shown, shown


def test_long_work_speaks_now_and_then_into_a_log(monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.02)
    log = io.StringIO()
    with progress.Bar("compare", Console(file=log)) as bar:
        bar.start(20, 3)
        bar.advance()
        wait_for(lambda: re.search(r"^compare: 4 of 20; \d+ s so far$", log.getvalue(), re.MULTILINE))
        bar.say("run 2 of 9")
        wait_for(lambda: re.search(r"^compare, run 2 of 9: 4 of 20; \d+ s so far$", log.getvalue(), re.MULTILINE))
    told = io.StringIO()
    with progress.murmuring(lambda: "writing board.html", Console(file=told)):
        wait_for(lambda: re.search(r"^writing board.html; \d+ s so far$", told.getvalue(), re.MULTILINE))


def wait_for(ready):
    began = time.monotonic()
    while not ready():
        assert time.monotonic() < began + 60, "nothing was said"
        time.sleep(0.005)


def test_nothing_is_drawn_into_a_log(folder):
    command = [sys.executable, "-m", "fairveil.cli", "quote", "trial.toml", "--runs", "4"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    lines = r"(simulating: [^\r\x1b\u2500-\u259f]*; \d+ s so far\n)*"
    assert re.fullmatch(lines, done.stderr), "a line each half minute, and no bar"
    assert "policy: private-nash" in done.stdout
