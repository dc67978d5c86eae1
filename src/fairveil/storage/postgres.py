"""PostgreSQL: commits that wait for the disk, a bounded pool of connections a process, and who is alive."""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from fairveil.errors import DependencyError
from fairveil.storage.alive import Guarded, Life, OneEach, lives
from fairveil.storage.faults import point
from fairveil.storage.patience import shortest

if TYPE_CHECKING:
    import psycopg

Connection = Any
"""A psycopg connection; psycopg is an optional part."""
Kind = Literal["busy", "full", "denied", "undurable", "local", "down"]
MOST = 14
"""Connections of the pool to one server; with the one that says that the process lives, 15."""
WAIT = 30.0
"""Seconds to wait for a free connection and for locks."""
CONNECT = 5.0
"""Seconds to wait for a new connection."""
STATEMENT, IDLE = 60.0, 30.0
"""Seconds after which the server ends a statement, and the session of who stopped in the middle of a transaction."""
_KEEP_ALIVE = {
    **{"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3},
    "tcp_user_timeout": 25_000,
}
_SETTINGS = (
    # one statement in each transaction must see what others committed just before it
    "SET default_transaction_isolation = 'read committed'; "
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3; "
    # a plan kept from the day when a table was empty reads all of it, and goes on so while the table grows
    "SET plan_cache_mode = force_custom_plan; "
    f"SET statement_timeout = {STATEMENT * 1000:.0f}; "
    f"SET idle_in_transaction_session_timeout = {IDLE * 1000:.0f}"
)
_DURABLE = {"synchronous_commit": ("on", "remote_apply"), "fsync": ("on",), "full_page_writes": ("on",)}
_left_behind: list[Connection] = []


class Undurable(OSError):
    """A server whose commits may be gone after a crash."""


def driver() -> Any:
    """The module psycopg."""
    try:
        import psycopg
    except ImportError:
        raise DependencyError(
            "PostgreSQL needs psycopg", given="no psycopg", fix="pip install 'fairveil[postgres]'"
        ) from None
    return psycopg


@lru_cache(maxsize=1)
def _patient() -> Any:
    """Connections that give up when this thread may not wait any longer, and then say no more."""

    class Patient(driver().Connection):  # type: ignore[misc]
        gave_up = False

        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
            if self.gave_up:
                raise driver().OperationalError("the server did not answer in time")
            try:
                return super().wait(gen, interval, shortest(timeout))
            except driver().errors._WaitTimeout:
                self.gave_up = True
                raise driver().OperationalError("the server did not answer in time") from None

    return Patient


def connect(url: str, wait: float = WAIT) -> psycopg.Connection[Any]:
    """A connection that commits only what was told to; ``wait``: seconds for the server and for locks."""
    seconds = max(2, round(shortest(min(wait, CONNECT)) or CONNECT))
    connection: psycopg.Connection[Any]
    connection = _patient().connect(url, autocommit=True, connect_timeout=seconds, **_KEEP_ALIVE)
    try:
        connection.execute(f"{_SETTINGS}; SET lock_timeout = {_milliseconds(wait)}")
    except BaseException:
        connection.close()
        raise
    return connection


def check_durable(connection: Connection) -> None:
    """Refuse a server whose commits may be gone after a crash."""
    settings = ", ".join(f"current_setting('{name}')" for name in _DURABLE)
    for (name, allowed), given in zip(
        _DURABLE.items(), connection.execute(f"SELECT {settings}").fetchone(), strict=True
    ):
        if given not in allowed:
            raise Undurable(f"this server does not keep what it commits: {name} = {given}, not {allowed[0]}")


def kind_of(problem: Exception) -> Kind:
    """What a failure was, in one word; ``local``: not the server's."""
    errors, low = driver().errors, str(problem).lower()
    if isinstance(problem, errors.LockNotAvailable | TimeoutError):
        return "busy"
    if isinstance(problem, Undurable):
        return "undurable"
    if isinstance(problem, errors.DiskFull) or "no space" in low or "full" in low:
        return "full"
    if isinstance(problem, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction) or "read-only" in low:
        return "denied"
    return "local" if isinstance(problem, OSError) else "down"


def words_of(problem: Exception) -> str:
    """The first line of a failure. It may repeat the address that was given; it never holds the password."""
    return (str(problem) or type(problem).__name__).splitlines()[0]


def leave(connection: Connection, owner: int) -> None:
    """Close; in a child that inherited it, without a word to the server, because the parent still uses it."""
    if owner == os.getpid():
        connection.close()
    else:
        with contextlib.suppress(OSError, driver().Error), open(os.devnull, "r+b", buffering=0) as nothing:
            os.dup2(nothing.fileno(), connection.fileno())  # not closed: another file must not get its number
        _left_behind.append(connection)  # its destructor must not run here


def lock_number(kind: str, name: str) -> int:
    """The key of an advisory lock, a signed 64-bit number; the words before it are those of the first release."""
    digest = hashlib.sha256(f"fairveil ledger {kind} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def without_secrets(url: str) -> str:
    """Server and database for messages: no user, no password, no options."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"postgresql://{parts.hostname or 'local'}{port}{parts.path}"


def _milliseconds(wait: float) -> int:
    return int(max(wait, 0.001) * 1000)


def _silent(connection: Connection) -> bool:
    """Whether nothing came unasked. A server that cuts a connection says so, or closes it: both can be read."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


class _Held:
    """A place in the pool: its connection once there is one, and which checks it has passed."""

    __slots__ = ("checked", "connection")

    def __init__(self) -> None:
        self.connection: Connection = None
        self.checked: set[Callable[[Connection], None]] = set()

    def pass_check(self, check: Callable[[Connection], None]) -> None:
        if check not in self.checked:
            check(self.connection)
            self.checked.add(check)


class Server(Guarded):
    """The pool of this process to one database: at most `MOST` connections, whatever many use it."""

    guard: threading.Condition

    def __init__(self, url: str) -> None:
        self.url = url
        self._idle: list[_Held] = []
        self._busy: set[_Held] = set()
        self._users: weakref.WeakSet[object] = weakref.WeakSet()
        super().__init__(1, threading.Condition)

    def join(self, user: object) -> Server:
        """Connections are kept from here on until the user leaves."""
        with self.guard:
            self._users.add(user)
        return self

    def leave(self, user: object) -> None:
        """After the last user nothing stays open."""
        with self.guard:
            self._users.discard(user)
            last = not self._users
        if last:
            self._close_idle()

    @contextlib.contextmanager
    def connection(self, wait: float = WAIT, *checks: Callable[[Connection], None]) -> Iterator[Connection]:
        """A connection for the length of a block, which passed the checks once. One that failed is not used again."""
        owner, held = os.getpid(), self._take(wait)
        whole = False
        try:
            for check in checks:
                held.pass_check(check)
            yield held.connection
            whole = True
        except BaseException as problem:
            whole = not isinstance(problem, driver().Error | OSError)
            raise
        finally:
            if owner == os.getpid():
                self._give(held, whole)

    @contextlib.contextmanager
    def writing(
        self, wait: float = WAIT, *checks: Callable[[Connection], None], lock: int | None = None, prefix: str = ""
    ) -> Iterator[Connection]:
        """A transaction that is durable when it ends without an error, alone under an advisory lock if one is named.

        ``prefix`` stands before the names of its fault points.
        """
        alone = "" if lock is None else f"; SET LOCAL lock_timeout = {_milliseconds(wait)}"
        alone += "" if lock is None else f"; SELECT pg_advisory_xact_lock({lock})"
        with self.connection(wait, check_durable, *checks) as connection:
            point(prefix + "begin")
            try:
                connection.execute(f"BEGIN{alone}")
                point(prefix + "begun")
                yield connection
                point(prefix + "commit")
                if connection.execute("COMMIT").statusmessage != "COMMIT":  # a failed one is rolled back in silence
                    raise driver().OperationalError("the transaction was rolled back")
            except BaseException:
                with contextlib.suppress(driver().Error):
                    connection.execute("ROLLBACK")
                raise
            point(prefix + "committed")

    @contextlib.contextmanager
    def reading(self, wait: float = WAIT, *checks: Callable[[Connection], None]) -> Iterator[Connection]:
        """Reads that see one moment."""
        with self.connection(wait, *checks) as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                yield connection
            finally:
                with contextlib.suppress(driver().Error):
                    connection.execute("ROLLBACK")

    def _take(self, wait: float) -> _Held:
        wait = shortest(wait) or 0.0
        deadline = time.monotonic() + wait
        with self.guard:
            while True:
                with contextlib.suppress(IndexError):  # also when the garbage collector ends the last user just now
                    while True:
                        held = self._idle.pop()
                        if not held.connection.closed and _silent(held.connection):
                            self._busy.add(held)
                            return held
                        held.connection.close()
                if len(self._busy) < MOST:
                    break
                if not self.guard.wait(deadline - time.monotonic()):
                    raise TimeoutError(f"waited {wait:g} s for one of {MOST} connections")
            held = _Held()
            self._busy.add(held)
        try:
            held.connection = connect(self.url, wait)
        except BaseException:
            self._give(held, False)
            raise
        return held

    def _give(self, held: _Held, whole: bool) -> None:
        connection, idle = held.connection, driver().pq.TransactionStatus.IDLE
        whole = whole and not connection.closed and connection.info.transaction_status == idle
        with self.guard:
            self._busy.discard(held)
            keep = whole and len(self._users) > 0
            if keep:
                self._idle.append(held)
            self.guard.notify()
        if connection is not None and not keep:
            cut = connection.broken or connection.gave_up
            connection.close()
            if cut:  # the others were too
                self._close_idle()

    def _close_idle(self) -> None:
        with self.guard:
            closing, self._idle = self._idle, []
        for held in closing:
            held.connection.close()

    def after_fork_in_child(self) -> None:
        """The connections are the parent's."""
        for held in (*self._idle, *self._busy):
            if held.connection is not None:
                leave(held.connection, 0)
        super().after_fork_in_child()
        self._idle, self._busy = [], set()


_servers: OneEach[Server] = OneEach()


def server_of(url: str) -> Server:
    """The pool of this process to a database."""
    return _servers.get(url, lambda: Server(url))


class ServerLife(Life):
    """A connection of its own, never one of the pool, that holds an advisory lock on the token and nothing else.

    Advisory locks can be taken again by the connection that holds them, so who looks is never who holds: others look
    into the server's table of locks. When the connection is cut, what was begun under its token counts as lost as soon
    as somebody looks, even if its process lives: it is then thrown away unseen.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Connection | None = None
        self._owner = os.getpid()
        super().__init__()

    def begin(self, name: str) -> None:
        with self.guard:
            self._connected()

    def sees(self, name: str, token: str) -> bool:
        key = lock_number("session", token) % 2**64
        query = (
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND database = "
            "(SELECT oid FROM pg_database WHERE datname = current_database()) "
            "AND classid::bigint = %s AND objid::bigint = %s"
        )
        with self.guard:
            [found] = self._connected().execute(query, (key >> 32, key % 2**32)).fetchone()
        return bool(found)

    def hide(self, name: str) -> None:
        """Nothing says which names a token stands for."""

    def let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            leave(connection, self._owner)

    def _connected(self) -> Connection:
        """The connection that holds the lock; where it was cut, a new one under a new token."""
        if self._connection is not None and not self._well(self._connection):
            self.let_go()
        if self._connection is None:
            connection, token = connect(self._url), uuid.uuid4().hex
            try:
                connection.execute("SELECT pg_advisory_lock(%s)", (lock_number("session", token),))
            except BaseException:
                connection.close()
                raise
            self._connection, self.token, self._owner = connection, token, os.getpid()
        return self._connection

    def _well(self, connection: Connection) -> bool:
        if not connection.closed and _silent(connection):
            return True
        try:
            connection.execute("SELECT 1")
        except driver().Error:
            return False
        return True


def server_life(url: str) -> Life:
    """The life of this process on a server; the names there are free."""
    return lives.get(f"server {url}", lambda: ServerLife(url))
