"""Locks that the operating system frees when a process dies: one writer at a time, and who is still alive.

Both use flock on small files beside the ledger, so they work between threads, processes and containers that share the
folder (not on network file systems that ignore flock).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from fairveil.errors import LedgerError

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


class FileWriterLock:
    """Held around every write. Waits at most ``wait`` seconds."""

    def __init__(self, ledger: Path, wait: float) -> None:
        self.path = ledger.with_name(ledger.name + ".lock")
        self.wait = wait
        self._descriptor: int | None = None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        if self._descriptor is None:
            self._descriptor = os.open(self.path, _FLAGS, 0o644)
        descriptor = self._descriptor
        self._acquire(descriptor)
        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _acquire(self, descriptor: int) -> None:
        deadline = time.monotonic() + self.wait
        pause = 0.0005
        while True:
            try:
                return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise LedgerError(
                        "another process keeps the ledger locked",
                        path=str(self.path),
                        given=f"waited {self.wait:g} s",
                        fix="wait for it or end it; nothing was charged",
                    ) from None
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class FileSession:
    """A file that stays locked as long as this process lives: others see by it whether a release is still under way."""

    def __init__(self, ledger: Path) -> None:
        self.folder = ledger.with_name(ledger.name + ".live")
        self.token = uuid.uuid4().hex
        self._descriptor: int | None = None

    def begin(self) -> None:
        """Start to be visible; call it under the writer lock."""
        while self._descriptor is None:
            self.folder.mkdir(exist_ok=True)
            try:
                descriptor = os.open(self.folder / self.token, _FLAGS, 0o644)
            except FileNotFoundError:
                continue  # a session that ended just now took the empty folder away
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._descriptor = descriptor

    def alive(self, token: str) -> bool:
        """Whether the process behind a token still holds its lock."""
        if not token.isalnum():  # never a path that leads elsewhere
            return False
        try:
            descriptor = os.open(self.folder / token, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def sweep(self) -> None:
        """Remove the files of dead processes; call it under the writer lock."""
        with contextlib.suppress(OSError):
            for path in list(self.folder.iterdir()):
                if path.name != self.token and not self.alive(path.name):
                    path.unlink(missing_ok=True)
            self.folder.rmdir()  # only when empty

    def end(self) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                (self.folder / self.token).unlink()
            self.forget()
            with contextlib.suppress(OSError):
                self.folder.rmdir()

    def forget(self) -> None:
        """Close without removing: what a forked child does with its parent's session."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
