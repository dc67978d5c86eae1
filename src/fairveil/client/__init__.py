"""What an application installs to talk to the service: httpx, and nothing of numpy."""

from fairveil.client.asynchronous import AsyncClient, AsyncLoop
from fairveil.client.local import LocalClient
from fairveil.client.problems import Problem, Unreachable
from fairveil.client.synchronous import Client, RemoteLoop

__all__ = ["AsyncClient", "AsyncLoop", "Client", "LocalClient", "Problem", "RemoteLoop", "Unreachable"]
