"""The service in this process: an ASGI application that httpx calls, or a real server on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import socket
import threading
import time
from typing import Any

import httpx
import uvicorn

from fairveil.loop import Store, tokens
from fairveil.service.app import Service
from fairveil.service.serve import server_options
from fairveil.service.settings import Settings

LOOP = {
    "name": "trial",
    "policy": {"name": "even-blocks", "arms": 3, "epsilon": 1.0},
    "reward": {"low": 0, "high": 1, "wait": "60s"},
}
PATIENT = Settings(deadline=60.0)
"""For tests that are about something else than deadlines: a machine that is busy with other things is no failure."""
QUEUE = {
    "name": "queue",
    "policy": {"name": "batched-private-fair-greedy", "epsilon": 5.0, "delta": 1e-6, "first_batch": 20},
    "groups": ["a", "b"],
    "features": [{"name": name, "low": -1.0, "high": 1.0} for name in "xyz"],
    "reward": {"wait": "60s"},
}


class Direct:
    """Calls an application without a socket, from ordinary tests: one event loop in a thread of its own."""

    def __init__(self, service: Service, **options: Any) -> None:
        self.service = service
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        transport = httpx.ASGITransport(app=service, raise_app_exceptions=True)  # type: ignore[arg-type]
        self._http = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080", **options)

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        self._http.cookies.clear()  # a caller remembers nothing: what it carries is said
        future = asyncio.run_coroutine_threadsafe(self._http.request(method, path, **options), self._loop)
        return future.result(60)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._http.aclose(), self._loop).result(10)
        self.service.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


def token(store: Store, *roles: str, loop: str | None = None, expires: int | None = None) -> dict[str, str]:
    """The header of a new token; the service knows it a second later."""
    with store.writing() as tx:
        text = tokens.add(tx, "test", list(roles), store.clock.now(), loop, expires)
    return {"authorization": f"Bearer {text}"}


def bound() -> tuple[socket.socket, int]:
    """A socket that holds a port of its own: nobody takes it before a server listens, to this socket or to the port."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held, int(held.getsockname()[1])


def _server(service: Service) -> uvicorn.Server:
    return uvicorn.Server(uvicorn.Config(service, **server_options(service.settings), log_config=None))  # type: ignore[arg-type]


def _serve(url: str, held: socket.socket) -> None:
    import even_blocks  # noqa: F401 - registers the policy of these tests

    store = Store.open(url)
    _server(Service(store, PATIENT)).run([held])
    store.close()


@contextlib.contextmanager
def listening_apart(url: str) -> Any:
    """A real server for this store in a process of its own; gives its URL.

    For tests whose own process parses Python source while the server answers: CPython 3.11 keeps the depth of
    `ast.parse` per process, so that two threads that parse at once fail each other with a SystemError.
    """
    held, port = bound()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(url, held), daemon=True)
    process.start()
    held.close()
    deadline = time.monotonic() + 120
    while process.is_alive() and time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            httpx.get(f"http://127.0.0.1:{port}/health", timeout=5)
            break
        time.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.join(15)


@contextlib.contextmanager
def listening(service: Service) -> Any:
    """A real server on loopback; gives its URL."""
    held, port = bound()
    server = _server(service)
    thread = threading.Thread(target=server.run, args=([held],), daemon=True)
    thread.start()
    deadline = time.monotonic() + 120
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.005)
    try:
        yield f"{'http' if service.settings.tls_cert is None else 'https'}://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(15)


def until(what, seconds: float = 60.0):
    """Wait for something that must come; its value."""
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)
    return found
