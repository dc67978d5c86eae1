"""Traces of requests: the caller's trace stands in the log, and with the extra ``otel`` spans go to a collector.

A span has method, route template, status and time; never an id, a body or a query. The variables are the standard ones
(``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_SERVICE_NAME``, ``OTEL_TRACES_EXPORTER``, ...), read by the SDK itself.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from fairveil.errors import DependencyError
from fairveil.service.messages import Scope, header

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
