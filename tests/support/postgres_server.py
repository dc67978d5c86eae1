"""A PostgreSQL server for tests: in a folder of its own, on loopback, never as root.

python tests/support/postgres_server.py programs          # where PostgreSQL is installed, if it is
python tests/support/postgres_server.py start FOLDER      # prints its URL
python tests/support/postgres_server.py stop FOLDER
"""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LIMIT = 600


def programs() -> Path | None:
    """The folder of initdb and pg_ctl, None when PostgreSQL is not installed."""
    found = shutil.which("pg_ctl")
    folders = [Path(found).resolve().parent] if found else []
    folders += [Path(path) for path in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)]
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def _run(folder: Path, *command: str) -> None:
    """As the user of the server: root is refused by PostgreSQL."""
    options: dict[str, Any] = {}
    if os.getuid() == 0:
        user = pwd.getpwnam("postgres")
        options = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    with open(folder / "log", "a") as log:
        subprocess.run(command, check=True, stdout=log, stderr=log, timeout=LIMIT, cwd=folder, **options)


def start(folder: Path) -> str:
    """Make a cluster in an empty folder and start it; gives the URL."""
    bin = programs()
    assert bin is not None, "PostgreSQL is not installed"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log").touch()
    if os.getuid() == 0:
        for path in (folder, folder / "log"):
            shutil.chown(path, "postgres", "postgres")
    _run(folder, str(bin / "initdb"), "-D", str(folder / "data"), "-A", "trust", "-U", "fairveil", "--no-sync")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = f"-p {port} -k '' -h 127.0.0.1 -c max_connections=200 -c shared_buffers=64MB"
    _run(folder, str(bin / "pg_ctl"), "-D", str(folder / "data"), "-w", "-o", options, "start")
    return f"postgresql://fairveil@127.0.0.1:{port}/postgres"


def stop(folder: Path) -> None:
    bin = programs()
    assert bin is not None
    _run(folder, str(bin / "pg_ctl"), "-D", str(folder / "data"), "-m", "immediate", "-w", "stop")


def restart(folder: Path) -> None:
    """As after a crash of the server, on the same port with the same options."""
    bin = programs()
    assert bin is not None
    _run(folder, str(bin / "pg_ctl"), "-D", str(folder / "data"), "-m", "immediate", "-w", "restart")


def processes(folder: Path) -> list[int]:
    """The server and all that it has started."""
    main = int((folder / "data" / "postmaster.pid").read_text().split()[0])
    found = [main]
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == main:
                found.append(int(entry.name))
    return found


@contextlib.contextmanager
def paused(folder: Path) -> Iterator[None]:
    """The server takes connections, as its kernel does that for it, and answers nobody."""
    stopped: list[int] = []
    try:
        while new := [pid for pid in processes(folder) if pid not in stopped]:  # one that was started meanwhile
            for pid in new:
                os.kill(pid, signal.SIGSTOP)
            stopped += new
        yield
    finally:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def own_schema(url: str) -> str:
    """A URL whose tables are nobody else's."""
    import psycopg

    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{url}?options=-csearch_path%3D{name}"


def drop_schema(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        [name] = connection.execute("SELECT current_schema()").fetchone() or (None,)
        connection.execute(f"DROP SCHEMA {name} CASCADE")


if __name__ == "__main__":
    command, *where = sys.argv[1:]
    if command == "programs":
        print(programs() or "")
    elif command == "start":
        print(start(Path(where[0])))
    else:
        stop(Path(where[0]))
