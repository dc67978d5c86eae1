"""Counters for whoever operates the service. Rewards and arrivals are what `missing` protects: never public."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from fairveil.service.app import Service

BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Metrics:
    """Labels are route templates and statuses, never an id."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made: Any = {"registry": self.registry}
        self.requests = Counter("fairveil_requests", "Answers by route and status", ["route", "status"], **made)
        self.seconds = Histogram("fairveil_request_seconds", "Time to answer", ["route"], buckets=BOUNDS, **made)
        self.commits = Gauge("fairveil_commits", "Transactions of all writers since the start", **made)
        self.waiting = Gauge("fairveil_waiting", "Requests that wait for a writer", **made)
        self.releases = Counter("fairveil_releases", "Blocks released since the start", **made)
        self.failures = Counter("fairveil_tick_failures", "Ticks that failed", **made)
        self._known: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def answered(self, route: str, status: int, seconds: float) -> None:
        known = self._known.get((route, status))
        if known is None:
            known = self.requests.labels(route, str(status)), self.seconds.labels(route)
            self._known[route, status] = known
        known[0].inc()
        known[1].observe(seconds)

    def page(self, service: Service) -> bytes:
        self.commits.set(service.pumps.commits())
        self.waiting.set(service.pumps.waiting())
        return generate_latest(self.registry)
