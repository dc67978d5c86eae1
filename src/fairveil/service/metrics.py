"""What whoever operates the service is told of it: `/metrics`, and traces of requests.

The caller's trace stands in the log, and with the extra ``otel`` spans go to a collector. A span has method, route
template, status and time; never an id, a body or a query. The variables are the standard ones
(``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_SERVICE_NAME``, ``OTEL_TRACES_EXPORTER``, ...), read by the SDK itself.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from fairveil._version import __version__
from fairveil.errors import DependencyError
from fairveil.loop.guards import shares_fit
from fairveil.loop.listing import backup_age, budgets_left, unsettled_ages
from fairveil.loop.waiting import waiting
from fairveil.service.messages import Scope, header

if TYPE_CHECKING:
    from fairveil.service.app import Service

BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class RouteCounts(Collector):
    """How many answers of which status every route gave, and how long they took. Counted by the event loop alone, so
    without the locks of prometheus_client, which cost more than the rest of an answer."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], int] = {}
        self._times: dict[str, list[float]] = {}

    def add(self, route: str, status: int, seconds: float) -> None:
        key = route, status
        self._counts[key] = self._counts.get(key, 0) + 1
        times = self._times.get(route)
        if times is None:
            times = self._times[route] = [0.0] * (len(BOUNDS) + 2)  # one for each bound, one above all, their sum
        times[bisect_left(BOUNDS, seconds)] += 1.0
        times[-1] += seconds

    def collect(self) -> Iterator[CounterMetricFamily | HistogramMetricFamily]:
        counts = CounterMetricFamily("fairveil_requests", "Answers by route and status", labels=["route", "status"])
        for (route, status), count in list(self._counts.items()):
            counts.add_metric([route, str(status)], count)
        yield counts
        times = HistogramMetricFamily("fairveil_request_seconds", "Time to answer", labels=["route"])
        for route, (*found, total) in list(self._times.items()):
            bounds = [*map(str, BOUNDS), "+Inf"]
            times.add_metric([route], list(zip(bounds, accumulate(found), strict=True)), total)
        yield times


class Metrics:
    """Counters for whoever operates the service. Labels are route templates and statuses, never an id.

    Rewards and arrivals are what `missing` protects: never public.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made: Any = {"registry": self.registry}
        self.routes = RouteCounts()
        self.registry.register(self.routes)
        self.commits = Gauge("fairveil_commits", "Transactions of all writers since the start", **made)
        self.waiting = Gauge("fairveil_waiting", "Requests that wait for a writer", **made)
        self.releases = Counter("fairveil_releases", "Blocks released since the start", **made)
        self.failures = Counter("fairveil_tick_failures", "Ticks that failed", **made)
        self.commit = Histogram("fairveil_commit_seconds", "Time of one transaction", buckets=BOUNDS, **made)
        self.backup = Gauge("fairveil_backup_age_seconds", "Since the last backup, or the first loop", **made)
        self.left = Gauge("fairveil_budget_left_ratio", "Of what was kept for reports", ["ledger"], **made)
        self.ready = Gauge("fairveil_ready", "Whether it can serve", **made)
        self.stopped = Gauge("fairveil_learning_stopped", "Loops that do not learn because a ledger refused", **made)
        self.age = Gauge("fairveil_loop_settled_age_seconds", "Age of the oldest unsettled round", ["loop"], **made)
        self.wait = Gauge("fairveil_loop_wait_seconds", "Length of a window", ["loop"], **made)
        self.shares = Gauge("fairveil_loop_shares_fit", "Whether shares served fit the declared", ["loop"], **made)
        lines: Any = {"labelnames": ["loop", "action"], **made}
        self.under_way = Gauge("fairveil_arm_under_way", "Rounds that may still be released, by arm", **lines)
        self.answers = Gauge("fairveil_arm_answers_waiting", "Answers that wait for a release, by arm", **lines)
        self.since = Gauge("fairveil_arm_rounds_since_release", "Rounds since the last release, by arm", **lines)
        Info("fairveil_build", "This program", **made).info({"version": __version__})

    def page(self, service: Service) -> bytes:
        self.commits.set(service.pumps.batches)
        self.waiting.set(service.pumps.waiting())
        if not service.watch.running:
            service.watch.once()
        table = service.watch.table
        self.ready.set(bool(table["ready"]))
        self.stopped.set(table.get("learning_stopped") or 0)
        for name, age, wait in unsettled_ages(service.store):
            self.age.labels(name).set(age)
            self.wait.labels(name).set(wait)
        self.backup.set(backup_age(service.store))
        for name, left in budgets_left(service.store):
            self.left.labels(name).set(left)
        for name, fits in shares_fit(service.store):
            self.shares.labels(name).set(fits)
        for loop in service.store.memory.loops():
            status = loop.status()
            for row in waiting(loop, status) or ():
                names = loop.name, "" if row["action"] is None else loop.facts.arm_names[row["action"]]
                self.under_way.labels(*names).set(row["under_way"])
                self.answers.labels(*names).set(row["answered"])
                self.since.labels(*names).set(status.round if row["since"] is None else row["since"])
        return generate_latest(self.registry)


# Traces ---------------------------------------------------------------------------------------------------------------


Traced = Callable[[Scope, str, int, float], None]
_PARENT = re.compile(rb"00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_ASKED = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")


def trace_of(scope: Scope) -> str | None:
    """The trace that a caller names in ``traceparent`` (W3C Trace Context); None where it names none."""
    given = header(scope, b"traceparent")
    found = None if given is None else _PARENT.fullmatch(given)
    return None if found is None else found[1].decode()


def tracing(variables: Mapping[str, str]) -> Traced | None:
    """What is told of every answer; None unless the standard variables ask for it."""
    exporter = variables.get("OTEL_TRACES_EXPORTER", "otlp")
    off = variables.get("OTEL_SDK_DISABLED", "").lower() == "true" or exporter == "none"
    if off or not any(variables.get(name) for name in _ASKED):
        return None
    return spans(_provider(exporter).get_tracer("fairveil"))


def _provider(exporter: str) -> Any:
    try:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

        if exporter == "console":
            made: Any = ConsoleSpanExporter()
        else:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            made = OTLPSpanExporter()
    except ImportError:
        raise DependencyError(
            "the variables of OpenTelemetry are set, and it is not installed", given="OTEL_*",
            fix="pip install 'fairveil[otel]', or OTEL_SDK_DISABLED=true",
        ) from None  # fmt: skip
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(made))
    return provider


def spans(tracer: Any) -> Traced:
    """A span for every answer, below the caller's own where ``traceparent`` names one."""
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    propagator = TraceContextTextMapPropagator()

    def tell(scope: Scope, route: str, status: int, taken: float) -> None:
        given = header(scope, b"traceparent")
        parent = None if given is None else propagator.extract({"traceparent": given.decode("latin-1")})
        end = time.time_ns()
        facts = {"http.request.method": scope["method"], "http.route": route, "http.response.status_code": status}
        span = tracer.start_span(
            f"{scope['method']} {route}", context=parent, kind=SpanKind.SERVER, attributes=facts,
            start_time=end - round(taken * 1e9),
        )  # fmt: skip
        span.end(end_time=end)

    return tell
