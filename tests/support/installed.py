"""Builds the distributions and uses them as somebody does who has no repository: quickstart, demo, service, client.

Needs Python and pip alone. Everything is made below a folder that goes away; a command that fails ends it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLIENT_LIMIT = 15
"""Megabytes that `fairveil-client` may take with all it needs."""
TALK = """
from fairveil.client import Client
service = Client("{url}")
policy = {{"name": "private-nash", "arms": 2, "epsilon": 1.0}}
trial = service.create("trial", policy=policy, reward={{"low": 0, "high": 1, "wait": "1h"}})
for number in range(20):
    visit = trial.decide(subject=f"patient-{{number}}")
    trial.reward(visit["event_id"], 0.5)
assert trial.state()["decided"] == 20, trial.state()
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        build(place)
        whole = environment(
            place / "whole", f"{wheel(place, 'fairveil-')}[lab,service]", ROOT / "constraints" / "dev.txt"
        )
        alone = environment(place / "alone", str(wheel(place, "fairveil_client-")), ROOT / "constraints" / "dev.txt")
        check_size(place, alone)
        work = place / "work"
        work.mkdir()
        shutil.copy(ROOT / "examples" / "first.toml", work)
        call(whole / "fairveil", "run", "first.toml", cwd=work)
        call(whole / "fairveil", "demo", "--out", "demo", cwd=work)
        assert (work / "demo" / "index.html").stat().st_size > 100_000, "the demo wrote no page"
        talk(whole, alone, work)
        sdist = environment(place / "sdist", "--no-deps", str(next((place / "dist").glob("*.tar.gz"))))
        call(sdist / "python", "-c", "import fairveil; print(fairveil.__version__)", cwd=work)
    print("packages: built, installed and used")


def build(place: Path) -> None:
    """One wheel and one source distribution of fairveil, one wheel of its client."""
    tools = environment(place / "tools", "hatchling")
    for folder, kinds in ((ROOT, ()), (ROOT / "deploy" / "client", ("-t", "wheel"))):
        call(tools / "hatchling", "build", *kinds, "-d", place / "dist", cwd=folder)


def wheel(place: Path, start: str) -> Path:
    return next((place / "dist").glob(f"{start}*.whl"))


def environment(folder: Path, *what: str | Path) -> Path:
    """A fresh environment with this installed; the last one may be a file of constraints."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    *names, last = map(str, what)
    wanted = [*names, "-c", last] if last.endswith(".txt") else [*names, last]
    call(folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *wanted)
    return folder / "bin"


def call(*command: object, cwd: Path | None = None) -> None:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "FAIRVEIL", "NUMBA"))}
    began = time.monotonic()
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=clean, capture_output=True, text=True)
    words = " ".join([Path(str(command[0])).name, *(str(part)[:40] for part in command[1:3])]).replace("\n", " ")
    print(f"{words}: {time.monotonic() - began:.0f} s", flush=True)
    if done.returncode:
        sys.exit(f"{words} failed\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def check_size(place: Path, alone: Path) -> None:
    """What the client takes, without pip."""
    target = place / "target"
    call(
        alone / "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--target",
        target,
        wheel(place, "fairveil_client-"),
    )
    size = sum(file.stat().st_size for file in target.rglob("*") if file.is_file()) / 2**20
    print(f"fairveil-client with all it needs: {size:.1f} MB")
    if size > CLIENT_LIMIT:
        sys.exit(f"fairveil-client takes {size:.1f} MB; allowed: {CLIENT_LIMIT}")


def talk(whole: Path, alone: Path, work: Path) -> None:
    """The client by itself creates a loop at a running service, asks and answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    words = [whole / "fairveil", "serve", "--store", "sqlite:///store.db", "--port", port]
    with (work / "serve.log").open("w") as log:
        server = subprocess.Popen([str(word) for word in words], cwd=work, stdout=log, stderr=log)
        try:
            wait_for(f"{url}/health", server)
            call(alone / "python", "-c", TALK.format(url=url), cwd=work)
        finally:
            server.terminate()
            server.wait(60)


def wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if server.poll() is not None:
            sys.exit("the service ended by itself")
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=2):
            return
        time.sleep(0.1)
    sys.exit("the service does not answer")


if __name__ == "__main__":
    main()
