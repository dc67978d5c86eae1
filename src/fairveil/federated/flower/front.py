"""The only door of a federation: TLS, and of the SuperLink behind it `/v1/fleet/` alone, for nodes of the plan.

Whoever reaches a SuperLink's port may submit a run, register a node or stop a run: node keys guard `/v1/fleet/` only,
and there only after the whole body was read.
"""

from __future__ import annotations

import re
import ssl
import threading
import time
from pathlib import Path
from typing import Any

from fairveil.errors import DependencyError, InputError
from fairveil.federated.flower.certificates import NodeKeys

FLEET = re.compile(rb"/v1/fleet/[a-z-]{1,60}")
DROPPED = {"host", "connection", "transfer-encoding", "content-length", "content-encoding", "keep-alive"}
STRANGER = b'{"code": 2004, "detail": "Failed to activate SuperNode."}'
"""What Flower says to a key that it does not know: a SuperNode ends with these words."""
START_SECONDS = 120.0


class Front:
    """A TLS server in a thread of this process that passes one prefix on to a SuperLink on loopback.

    Whoever is none of ``nodes`` gets 412 before a byte of its body is read; bodies of theirs have at most
    ``most_bytes``.
    """

    def __init__(self, host: str, port: int, certificate: Path, key: Path, *, nodes: NodeKeys, most_bytes: int) -> None:
        try:
            import uvicorn
        except ImportError:
            raise DependencyError("the front is a web server", fix="pip install 'fairveil[federation]'") from None
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError):
            raise InputError(
                "this is not a certificate with its key", path=str(certificate), fix="name two PEM files that belong"
            ) from None
        self.host, self.nodes, self.most_bytes = host, nodes, most_bytes
        self._client: Any = None
        facts: dict[str, Any] = {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
        made = uvicorn.Config(
            self._serve,
            host=host,
            port=port,
            interface="asgi3",
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            **facts,
        )
        self._server = uvicorn.Server(made)
        self._thread = threading.Thread(target=self._server.run, name="front", daemon=True)

    def open(self, upstream: str, authority: Path) -> None:
        """Pass on to this SuperLink from now on."""
        import httpx

        context = ssl.create_default_context(cafile=str(authority))
        self._client = httpx.AsyncClient(base_url=upstream, verify=context, timeout=120.0)

    def start(self) -> None:
        self._thread.start()
        end = time.monotonic() + START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > end:
                address = f"{self._server.config.host}:{self._server.config.port}"
                raise InputError("nobody can listen here", path="host", given=address, fix="choose a free port")
            time.sleep(0.05)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.servers[0].sockets[0].getsockname()[1])

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        """An ASGI application of one route."""
        if scope["type"] != "http":
            return
        path = scope.get("raw_path", b"").split(b"?")[0]
        if scope["method"] != "POST" or FLEET.fullmatch(path) is None or scope["query_string"]:
            await _reply(send, 404, b"")
            return
        if not self.nodes.sent(dict(scope["headers"])):
            await _reply(send, 412, STRANGER)
            return
        body = await self._body(receive)
        if body is None:
            await _reply(send, 413, b"")
            return
        await self._pass_on(path.decode(), scope["headers"], body, send)

    async def _body(self, receive: Any) -> bytes | None:
        parts, size = list[bytes](), 0
        while True:
            event = await receive()
            if event["type"] == "http.disconnect":
                return None
            parts.append(event.get("body", b""))
            size += len(parts[-1])
            if size > self.most_bytes:
                return None
            if not event.get("more_body", False):
                return b"".join(parts)

    async def _pass_on(self, path: str, headers: list[tuple[bytes, bytes]], body: bytes, send: Any) -> None:
        import httpx

        passed = [(name, value) for name, value in headers if name.decode("latin-1").lower() not in DROPPED]
        try:
            answer = await self._client.post(path, content=body, headers=passed)
        except (httpx.HTTPError, AttributeError):
            await _reply(send, 503, b"")
            return
        kept = [(name, value) for name, value in answer.headers.raw if name.decode("latin-1").lower() not in DROPPED]
        await _reply(send, answer.status_code, answer.content, kept)


async def _reply(send: Any, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers or []})
    await send({"type": "http.response.body", "body": body})
