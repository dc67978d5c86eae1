"""What an application installs to talk to the service: httpx, and nothing of numpy."""

from fairveil.client.clients import AsyncClient, AsyncLoop, Client, LocalClient, RemoteLoop
from fairveil.client.verbs import Problem, Unreachable

__all__ = ["AsyncClient", "AsyncLoop", "Client", "LocalClient", "Problem", "RemoteLoop", "Unreachable"]
