"""What an application installs to talk to the service: httpx, and nothing of numpy."""

from fairveil.errors import DependencyError

try:
    from fairveil.client.clients import AsyncClient, AsyncLoop, Client, LocalClient, RemoteLoop
    from fairveil.client.problems import Problem, Unreachable
except ModuleNotFoundError as problem:
    if problem.name != "httpx":
        raise
    fix = "pip install 'fairveil[service]', or 'fairveil[client]' where the service runs elsewhere"
    raise DependencyError("talking to a service needs httpx", given="no httpx", fix=fix) from None

__all__ = ["AsyncClient", "AsyncLoop", "Client", "LocalClient", "Problem", "RemoteLoop", "Unreachable"]
