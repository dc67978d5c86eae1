"""Starting the service: one process, or several on one store."""

from __future__ import annotations

import os
from typing import Any

from fairveil.errors import DependencyError
from fairveil.loop import tokens
from fairveil.loop.store import Store
from fairveil.service.settings import Settings

VARIABLE = "FAIRVEIL_SERVE"


def open_store(settings: Settings) -> Store:
    return Store.open(settings.store, anchors=settings.anchor, migrate=settings.migrate, new_key=settings.new_key)


def first_words(settings: Settings) -> str:
    """What is printed first: the address, and whether tokens are needed. Refuses to be open to the world."""
    with open_store(settings) as store, store.reading() as tx:
        has_tokens = bool(tokens.every(tx))
        settings.check_exposure(tokens.any_valid(tx, store.clock.now()))
    scheme = "http" if settings.tls_cert is None else "https"
    words = "tokens are needed" if has_tokens else "open to this machine: no token exists"
    return f"fairveil serves {scheme}://{settings.host}:{settings.port} ({words})"


def run(settings: Settings, workers: int) -> None:
    """Serve until a signal ends it; SIGTERM stops accepting and finishes what waits, at most 10 s."""
    try:
        import uvicorn
    except ImportError:
        raise DependencyError(
            "the service is not installed", given="no uvicorn", fix="pip install 'fairveil[service]'"
        ) from None
    os.environ[VARIABLE] = settings.to_json()
    options: dict[str, Any] = {
        "host": settings.host,
        "port": settings.port,
        "workers": workers,
        "log_level": "error",
        "access_log": False,
        "server_header": False,
        "date_header": False,
        "timeout_graceful_shutdown": 10,
        "timeout_keep_alive": 30,
        "ssl_certfile": settings.tls_cert,
        "ssl_keyfile": settings.tls_key,
        "proxy_headers": settings.behind_proxy,
        "lifespan": "on",
    }
    uvicorn.run("fairveil.service.serve:application", factory=True, **options)


def application() -> Any:
    """The application of one process, as its parent's settings say."""
    import logging

    from fairveil.service.app import Service

    settings = Settings.from_json(os.environ[VARIABLE])
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("fairveil").setLevel(settings.log_level.upper())
    return Service(open_store(settings), settings)
