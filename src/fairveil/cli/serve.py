"""`fairveil serve`: decision loops over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from fairveil.cli.stores import DEFAULT_STORE, KeyFile, StoreUrl


def command(
    store: StoreUrl = DEFAULT_STORE,
    host: Annotated[
        str, typer.Option(help="Address to bind; other than loopback needs tokens and encryption.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to bind.")] = 8080,
    anchor: Annotated[
        str | None,
        typer.Option(envvar="FAIRVEIL_ANCHOR", help="Folder in a second place with a mark for every ledger."),
    ] = None,
    key_file: KeyFile = None,
    clock_gap: Annotated[
        str, typer.Option(help="How long the service may have been down; a clock further ahead needs `store clock`.")
    ] = "7d",
    tls_cert: Annotated[str | None, typer.Option(help="Certificate file.")] = None,
    tls_key: Annotated[str | None, typer.Option(help="Key file of the certificate.")] = None,
    behind_proxy: Annotated[bool, typer.Option("--behind-proxy", help="A proxy in front encrypts.")] = False,
    public: Annotated[bool, typer.Option("--public", help="Public routes need no token.")] = False,
    allow_host: Annotated[list[str] | None, typer.Option(help="Another host name that callers may use.")] = None,
    rate_limit: Annotated[int | None, typer.Option(min=1, help="Requests a second and token.")] = None,
    deadline: Annotated[
        float, typer.Option(min=0.1, max=60, help="Seconds until a request that waits for the store gets 503.")
    ] = 5.0,
    max_connections: Annotated[
        int | None, typer.Option(min=1, help="Connections of a process; 4096 where the system allows so many files.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes on the same store.")] = 1,
    trust_user: Annotated[
        str | None, typer.Option(help="Header in which a proxy on this machine names who is logged in.")
    ] = None,
    map: Annotated[list[str] | None, typer.Option(help="GROUP=ROLE for people whom the proxy names.")] = None,
    streams: Annotated[
        str | None, typer.Option(help="Folder of `fairveil release`: its streams are shown at /streams.")
    ] = None,
    migrate: Annotated[bool, typer.Option("--migrate", help="Upgrade an older store first.")] = False,
    new_key: Annotated[bool, typer.Option("--new-key", help="Go on with a new key: old ids are then unknown.")] = False,
    log_level: Annotated[str, typer.Option(help="error, warning, info (every request) or debug.")] = "warning",
) -> None:
    """Serve decision loops over HTTP, for this machine unless told otherwise.

    Example: fairveil serve --store sqlite:///trial/store.db
    """
    from fairveil.service.serve import first_words, run
    from fairveil.service.settings import Settings

    settings = Settings(
        store=store,
        host=host,
        port=port,
        anchor=anchor,
        clock_gap=clock_gap,
        key_file=None if key_file is None else str(key_file),
        tls_cert=tls_cert,
        tls_key=tls_key,
        behind_proxy=behind_proxy,
        public=public,
        allow_host=tuple(allow_host or ()),
        rate_limit=rate_limit,
        deadline=deadline,
        max_connections=max_connections,
        trust_user=trust_user,
        map=tuple(map or ()),
        streams=streams,
        migrate=migrate,
        new_key=new_key,
        log_level=log_level,
    )
    words = first_words(settings)
    run(settings, workers, lambda: typer.echo(words))
