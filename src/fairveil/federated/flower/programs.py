"""Flower's programs: where they are, the environment they see, and one that is kept running."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from fairveil.errors import DependencyError

HERE = Path(__file__).parent
REFUSED = ("flwr-agentapp", "flwr-serverapp", "flwr-simulation", "flwr-model", "flwr-connector", "flwr", "uv")
PASSED = ("LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
STOP_SECONDS = 60.0
"""Longer than a leash takes to end all that it holds, also on a busy machine."""


def program(name: str) -> str:
    """A program of the Flower that is installed beside this Python."""
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        raise DependencyError(
            "this command needs Flower", path=name, fix="make federation, or pip install 'fairveil[federation]'"
        )
    return found


def environment(home: Path, path: str, **more: str) -> dict[str, str]:
    """What Flower's programs see: a home of their own, no telemetry, nothing else of this process."""
    passed = {name: os.environ[name] for name in PASSED if name in os.environ}
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    polling = {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5"}  # at 0.2 an idle one takes a tenth of a core
    return {**passed, **quiet, **polling, "HOME": str(home), "FLWR_HOME": str(home), "PATH": path, **more}


def own_programs(folder: Path) -> Path:
    """The only programs that a SuperNode can start: its own executor, the pipe, and refusals for all others."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    scripts = {
        "flower-superexec": f"exec {shlex.quote(program('flower-superexec'))}",
        "flwr-clientapp": f"exec {shlex.quote(sys.executable)} -I {shlex.quote(str(HERE / 'pipe.py'))}",
        **dict.fromkeys(REFUSED, "echo 'fairveil: this party starts no such program' >&2; exit 1;"),
    }
    for name, command in scripts.items():
        file = folder / name
        file.write_text(f'#!/bin/sh\n{command} "$@"\n')
        file.chmod(0o700)
    return folder


def free_port() -> int:
    """A port on loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(host: str, port: int, seconds: float = 2.0) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection((host, port), timeout=seconds).close()
    except OSError:
        return False
    return True


class KeptProgram:
    """A program in a process group of its own that ends with this process, however that ends; its words go to a file.

    `tend` starts it again when it has ended, ``pause`` seconds after it did.
    """

    def __init__(self, name: str, folder: Path, *, pause: float = 5.0) -> None:
        self.name, self.folder, self.pause = name, folder, pause
        self.log = folder / f"{name}.log"
        self.starts, self.ended = 0, 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        leash = [sys.executable, "-I", str(HERE / "leash.py"), str(self.folder / f"{self.name}.pid")]
        with open(self.log, "ab") as out:
            self._process = subprocess.Popen(
                [*leash, *command], stdin=subprocess.PIPE, stdout=out, stderr=out, start_new_session=True,
                env=dict(env), cwd=cwd,
            )  # fmt: skip
        self.starts, self.ended = self.starts + 1, 0.0

    def due(self) -> bool:
        """Whether it has to be started now: never was, or ended and rested."""
        if self.running:
            return False
        if self._process is None:
            return True
        self.ended = self.ended or time.monotonic()
        return time.monotonic() - self.ended >= self.pause

    def last_words(self, size: int = 4000) -> str:
        """The end of what it has written."""
        return self.log.read_bytes()[-size:].decode(errors="replace") if self.log.exists() else ""

    def stop(self) -> None:
        """End it and its group; waits until it has."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, 9)
            self._process.wait()
        self._process = None
