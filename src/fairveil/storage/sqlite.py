"""SQLite: commits that are on disk when they return, a few connections for all files, locks beside a file.

Locks are flock on small files, so they work between threads, processes and containers that share the folder (not on
network file systems that ignore flock), and the kernel frees them when a process dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fairveil.storage.alive import Life, forks, lives
from fairveil.storage.faults import point
from fairveil.storage.patience import shortest

FAILURES: tuple[type[Exception], ...] = (sqlite3.Error, OSError)
"""What a database in a file raises when it fails."""
MOST_KEPT = 12
"""Connections, and locks, that a process keeps open over all files; a connection costs three descriptors."""
BUSY = 30.0
"""Seconds that a statement waits for a lock of SQLite's own."""
LOCK = ".lock"
"""Ends the name of the file beside a database whose writers take turns by `locked`."""
FORK = 5.0
"""Seconds that a fork waits for transactions of other threads: SQLite's connections must not cross it."""
FULL = 2
"""What SQLite calls synchronous = FULL."""
_PRAGMAS = ("synchronous = FULL", "fullfsync = ON", "trusted_schema = OFF")
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC

Connection = sqlite3.Connection
Kind = Literal["damaged", "denied", "full", "busy", "other"]


def connect(path: str, pragmas: tuple[str, ...] = ()) -> Connection:
    """A connection whose commits return when they are on disk; transactions begin and end when told to."""
    connection = sqlite3.connect(path, timeout=BUSY, isolation_level=None, check_same_thread=False)
    for pragma in (*_PRAGMAS, *pragmas):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def tables_in(path: Path) -> frozenset[str]:
    """Names of the tables in a file, read without a word to whoever works on it; none where it is no database."""
    if not path.is_file():
        return frozenset()
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as found:
            return frozenset(name for (name,) in found.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))
    except sqlite3.DatabaseError:
        return frozenset()


def durable(connection: Connection) -> bool:
    """Whether a commit returns only when it is on disk."""
    return int(connection.execute("PRAGMA synchronous").fetchone()[0]) >= FULL


def kind_of(problem: Exception) -> Kind:
    """What a failure was, in one word."""
    low = str(problem).lower()
    if isinstance(problem, TimeoutError):
        return "busy"
    if "malformed" in low or "not a database" in low:
        return "damaged"
    if "readonly" in low or "read-only" in low or "permission" in low or "unable to open" in low:
        return "denied"
    if "full" in low or "no space" in low or "too large" in low or "disk i/o" in low or "quota" in low:
        return "full"
    return "busy" if "locked" in low or "busy" in low else "other"


def _flock(used: _Open, wait: float | None) -> None:
    """Take the lock, in the order of the kernel's queue. Who gives up leaves the descriptor to the waiting thread."""
    try:
        return fcntl.flock(used.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if wait is None:
            return fcntl.flock(used.handle, fcntl.LOCK_EX)
    guard, got, left = threading.Lock(), threading.Event(), list[_Open]()

    def queue() -> None:
        fcntl.flock(used.handle, fcntl.LOCK_EX)
        with guard:
            if left:
                fcntl.flock(used.handle, fcntl.LOCK_UN)
                os.close(used.handle)
            else:
                got.set()

    threading.Thread(target=queue, name="lock", daemon=True).start()
    if not got.wait(wait):
        with guard:
            if not got.is_set():
                left.append(used)
                raise TimeoutError(f"waited {wait:g} s") from None
    return None


Key = tuple[str, tuple[str, ...]]


@dataclass(eq=False)
class _Open:
    """A connection, and which file the path named when it was opened; or the descriptor of a lock."""

    key: Key
    handle: Any
    file: tuple[int, int] | None = None
    owner: int = field(default_factory=os.getpid)


class _Kept:
    """What this process keeps open and nobody uses now, the least recently used first, and which threads use others.

    Without a lock, because the garbage collector may end a user in the middle of any line: who removes one owns it.
    """

    def __init__(self, close: Callable[[Any], None]) -> None:
        self._close = close
        self._idle: list[_Open] = []
        self._left: list[_Open] = []
        self._using: list[int] = []
        self._forking: int | None = None
        forks.add(self, 1)

    def begin(self) -> None:
        """From here to `end` no other thread forks."""
        thread = threading.get_ident()
        self._using.append(thread)
        while self._forking is not None and self._forking != thread:
            self._using.remove(thread)
            time.sleep(0.0005)
            self._using.append(thread)

    def end(self) -> None:
        self._using.remove(threading.get_ident())

    def take(self, key: Key) -> _Open | None:
        """What is kept of the file that is there now; of one that was replaced it is closed."""
        for one in reversed(list(self._idle)):
            if one.key == key and self._remove(one):
                if one.file is None or one.file == _file(key[0]):
                    return one
                self._close(one.handle)
        return None

    def keep(self, used: _Open) -> None:
        if used.owner != os.getpid():
            self._left.append(used)  # the parent's: closing it here would drop locks and empty the parent's log
            return
        self._idle.append(used)
        if len(self._idle) > MOST_KEPT:
            for oldest in self._idle[:-MOST_KEPT]:
                if self._remove(oldest):
                    self._close(oldest.handle)

    def drop(self, path: str) -> None:
        """Close what is kept of a file."""
        for one in list(self._idle):
            if one.key[0] == path and self._remove(one):
                self._close(one.handle)

    def _remove(self, one: _Open) -> bool:
        try:
            self._idle.remove(one)
        except ValueError:
            return False
        return True

    def before_fork(self) -> None:
        """A connection of SQLite must not cross a fork, and a lock that a child shares keeps nobody out."""
        self._forking = threading.get_ident()
        deadline = time.monotonic() + FORK
        while set(self._using) - {self._forking} and time.monotonic() < deadline:
            time.sleep(0.0005)
        for one in list(self._idle):
            if self._remove(one):
                self._close(one.handle)

    def after_fork_in_parent(self) -> None:
        self._forking = None

    def after_fork_in_child(self) -> None:
        self._using = [thread for thread in self._using if thread == self._forking]
        self._forking = None


def close(connection: Connection) -> None:
    with contextlib.suppress(sqlite3.Error):
        connection.close()


def _file(path: str) -> tuple[int, int] | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


_kept = _Kept(close)
_locks = _Kept(os.close)


@contextlib.contextmanager
def locked(path: str, wait: float | None = None, mode: int = 0o644) -> Iterator[None]:
    """One at a time, over threads and processes. ``wait``: seconds, then TimeoutError; None: as long as it takes."""
    key = path, ()
    used = _locks.take(key) or _Open(key, os.open(path, _FLAGS, mode))
    try:
        _flock(used, shortest(wait))
    except TimeoutError:
        raise
    except BaseException:
        _locks.keep(used)
        raise
    try:
        yield
    finally:
        fcntl.flock(used.handle, fcntl.LOCK_UN)  # a child that was forked meanwhile has the descriptor too
        _locks.keep(used)


class SqliteFile:
    """A database file. Nothing is open between transactions but what the process keeps for all of its files."""

    def __init__(
        self,
        path: Path,
        pragmas: tuple[str, ...] = (),
        check: Callable[[Connection], None] | None = None,
        missing: Callable[[], Exception] | None = None,
    ) -> None:
        """``check``: asked of every connection when it is opened; it raises to refuse the file.

        ``missing``: what is raised where there is no file; without it, one is made.
        """
        self._check, self._missing = check, missing
        self._key = os.fspath(path), pragmas

    @contextlib.contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection for the length of a block. One that failed is not used again."""
        _kept.begin()
        try:
            used = _kept.take(self._key) or self._open()
            try:
                yield used.handle
            except BaseException as problem:
                if isinstance(problem, FAILURES) or used.handle.in_transaction:
                    close(used.handle)
                else:
                    _kept.keep(used)
                raise
            _kept.keep(used)
        finally:
            _kept.end()

    @contextlib.contextmanager
    def writing(self, prefix: str = "") -> Iterator[Connection]:
        """A transaction that nobody else can write beside; durable when it ends without an error.

        ``prefix`` stands before the names of its fault points.
        """
        with self.connection() as connection:
            point(prefix + "begin")
            connection.execute("BEGIN IMMEDIATE")
            try:
                point(prefix + "begun")
                yield connection
                point(prefix + "commit")
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            point(prefix + "committed")

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """Reads that see one moment."""
        with self.connection() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close what this process keeps of it; whoever still uses it connects again."""
        _kept.drop(self._key[0])
        _locks.drop(self._key[0] + LOCK)

    def _open(self) -> _Open:
        if self._missing is not None and not os.path.exists(self._key[0]):
            raise self._missing()
        connection = connect(*self._key)
        try:
            if self._check is not None:
                self._check(connection)
        except BaseException:
            close(connection)
            raise
        return _Open(self._key, connection, _file(self._key[0]))


class FolderLife(Life):
    """A locked file that is linked into the folder ``<file>.live`` of every file that this process works on."""

    def __init__(self) -> None:
        self._links: dict[str, Path] = {}
        self._descriptors: list[int] = []
        super().__init__()

    def begin(self, name: str) -> None:
        if name in self._links:
            return
        with self.guard:
            shown = _live(name) / self.token
            linked = next((path for path in list(self._links.values()) if path.exists()), None)
            while not (linked is not None and _link(linked, shown)) and not self._made(shown):
                pass  # a session that ended just now took the empty folder away
            self._links[name] = shown

    def _made(self, shown: Path) -> bool:
        """The first file of the folder; a further one where files cannot be linked."""
        shown.parent.mkdir(exist_ok=True)
        try:
            descriptor = os.open(shown, _FLAGS, 0o644)
        except FileNotFoundError:
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        self._descriptors.append(descriptor)
        return True

    def sees(self, name: str, token: str) -> bool:
        if not token.isalnum():  # never a path that leads elsewhere
            return False
        try:
            descriptor = os.open(_live(name) / token, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def sweep(self, name: str) -> None:
        folder = _live(name)
        with contextlib.suppress(OSError):
            for path in list(folder.iterdir()):
                if path.name != self.token and not self.sees(name, path.name):
                    path.unlink(missing_ok=True)
            folder.rmdir()  # only when empty

    def hide(self, name: str) -> None:
        shown = self._links.pop(name, None)
        if shown is not None:
            with contextlib.suppress(OSError):
                shown.unlink()
                shown.parent.rmdir()

    def let_go(self) -> None:
        self._links.clear()
        while self._descriptors:
            os.close(self._descriptors.pop())


def folder_life(folder: Path) -> Life:
    """The life of this process in a folder; the names in it are paths of files."""
    return lives.get(f"folder {folder}", FolderLife)


def _live(name: str) -> Path:
    return Path(name + ".live")


def _link(existing: Path, shown: Path) -> bool:
    try:
        shown.parent.mkdir(exist_ok=True)
        os.link(existing, shown)
    except OSError:
        return False
    return True
