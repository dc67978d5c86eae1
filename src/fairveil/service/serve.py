"""Starting the service: one process, or several on one store."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from fairveil.errors import DependencyError, SpecError
from fairveil.loop import tokens
from fairveil.loop.keys import BESIDE, BESIDE_WORDS
from fairveil.loop.store import Store
from fairveil.service.settings import Settings

VARIABLE = "FAIRVEIL_SERVE"
MOST_CONNECTIONS = 4096
"""Connections of a process unless told otherwise, where the system allows as many."""
OTHERS = 128
"""Descriptors that are not connections: the store, its ledgers, the server itself."""
M_ARENA_MAX = -8
"""The number of glibc's setting, from malloc.h."""
GRACE = 0.7
"""Seconds to finish requests when the service stops; with what its threads get, less than two in all."""


def open_store(settings: Settings) -> Store:
    return Store.open(
        settings.store,
        anchors=settings.anchor,
        key_file=settings.key_file,
        clock_gap=settings.clock_gap,
        migrate=settings.migrate,
        new_key=settings.new_key,
    )


ANCHORING = {
    "none": "no anchor: store and ledgers that are put back together would publish again, and nobody would notice; "
    "name a folder in a second place, which no backup of the store holds: --anchor FOLDER",
    "beside the store": "the anchors stand in the store's own folder: who puts that back puts them back, and nobody "
    "notices; name a folder in a second place with --anchor",
}


def first_words(settings: Settings) -> str:
    """What is printed when it listens: the address, whether tokens are needed, whether a set-back would be noticed.

    Refuses to be open to the world.
    """
    with open_store(settings) as store, store.reading() as tx:
        has_tokens = tokens.exist(tx)
        settings.check_exposure(tokens.any_valid(tx, store.clock.now()))
        anchoring = ANCHORING.get(store.anchoring)
        beside = store.key_place == BESIDE
    scheme = "http" if settings.tls_cert is None else "https"
    words = "tokens are needed" if has_tokens or settings.behind_proxy else "open to this machine: no token exists"
    first = f"fairveil serves {scheme}://{settings.host}:{settings.port} ({words})"
    warnings = [*([] if anchoring is None else [anchoring]), *([BESIDE_WORDS] if beside else [])]
    return "\n".join([first, *(f"warning: {one}" for one in warnings)])


def run(settings: Settings, workers: int, say: Callable[[], None]) -> None:
    """Serve until a signal ends it; ``say`` is called when it listens. SIGTERM stops accepting and finishes what
    waits, in two seconds at most."""
    try:
        import uvicorn
        from uvicorn.supervisors import Multiprocess
    except ImportError:
        raise DependencyError(
            "the service is not installed", given="no uvicorn", fix="pip install 'fairveil[service]'"
        ) from None
    most_connections(settings)
    check_address(settings)
    os.environ[VARIABLE] = settings.to_json()

    class Listening(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                _listens(say)

    config = uvicorn.Config(
        "fairveil.service.serve:application", factory=True, workers=workers, **server_options(settings)
    )
    with contextlib.suppress(KeyboardInterrupt):
        if workers == 1:
            return Listening(config).run()
        threading.Thread(target=_when_connected, args=(settings, lambda: _listens(say)), daemon=True).start()
        Multiprocess(config, sockets=[config.bind_socket()]).run()
    return None


def check_address(settings: Settings) -> None:
    """Refuse an address that cannot be listened to, most often because another program does."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((settings.host, settings.port))
        except OSError as problem:
            taken = problem.errno == errno.EADDRINUSE
            raise SpecError(
                "another program listens there" if taken else f"it cannot listen there: {problem.strerror}",
                path="--port" if taken else "--host, --port",
                given=f"{settings.host}:{settings.port}",
                fix="a service that runs there can be used as it is; else choose another --port, or end that program"
                if taken
                else "choose another --host or --port",
            ) from None


def server_options(settings: Settings) -> dict[str, Any]:
    """How uvicorn is to serve; what it has no limits for is in `fairveil.service.door`."""
    from fairveil.service.door import Door, Entrance, tls_context

    entrance: Any = Door
    if settings.tls_cert is not None:
        certificate = settings.tls_cert, settings.tls_key
        tls_context(*certificate)  # one that cannot be read is known here and not by the first who comes
        entrance = partial(Entrance, certificate)
    return {
        "host": settings.host,
        "port": settings.port,
        "http": entrance,
        "ws": "none",
        "log_level": "error",
        "access_log": False,
        "server_header": False,
        "date_header": False,
        "timeout_graceful_shutdown": GRACE,
        "proxy_headers": settings.behind_proxy,
        "lifespan": "on",
    }


def most_connections(settings: Settings) -> int:
    """How many connections a process takes; raises the limit of open files to what the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    room = 2**31 if hard == resource.RLIM_INFINITY else hard - OTHERS
    asked = settings.max_connections
    if asked is None and room > 0:
        return min(MOST_CONNECTIONS, room)
    if asked is None or asked > room:
        raise SpecError(
            "there are not enough open files for so many connections",
            path="--max-connections",
            given=asked,
            allowed=f"at most {max(room, 0)}: a limit of {hard} open files, {OTHERS} of them for other things",
            fix="ask for fewer, or raise the hard limit (ulimit -Hn, LimitNOFILE=)",
        )
    return asked


def one_heap() -> bool:
    """Let all threads share one heap, where the C library is glibc; whether it is so.

    Otherwise every thread has its own, and what one of them gave back serves none of the others. The interpreter's own
    lock lets threads allocate one after the other anyway. ``MALLOC_ARENA_MAX`` in the environment says it otherwise.
    """
    if "MALLOC_ARENA_MAX" in os.environ:
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(M_ARENA_MAX, 1) == 1


def application() -> Any:
    """The application of one process, as its parent's settings say."""
    import logging

    from fairveil.service.app import Service
    from fairveil.service.door import Door

    one_heap()
    settings = Settings.from_json(os.environ[VARIABLE])
    Door.most = most_connections(settings)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("fairveil").setLevel(settings.log_level.upper())
    return Service(open_store(settings), settings)


def _listens(say: Callable[[], None]) -> None:
    """Tell people, and the system's own manager of services where it waits for that."""
    say()
    place = os.environ.get("NOTIFY_SOCKET")
    if place:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.sendto(b"READY=1", "\0" + place[1:] if place.startswith("@") else place)


def _when_connected(settings: Settings, then: Callable[[], None]) -> None:
    """Several processes share a socket that nobody listens to until the first of them does."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    while True:
        with contextlib.suppress(OSError), socket.create_connection((host, settings.port), 1.0):
            return then()
        time.sleep(0.05)
