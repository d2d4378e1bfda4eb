"""OpenTelemetry spans of model requests: names, counts and times, never prompts or answers.

A span is created after its request has ended. It continues the trace given in the client's headers.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ... import telemetry
from ..proxy.exchange import RequestRecord
from .metrics import tools_label
from .request_context import RequestContext

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer
    from opentelemetry.util.types import AttributeValue

_MAX_MODEL_CHARS = 256  # maximum length of a model name; longer names are truncated
#: Trace propagation headers; OpenTelemetry sees no other part of a request.
_TRACE_HEADERS = frozenset({b"traceparent", b"tracestate", b"baggage", b"b3"})
_MAX_HEADER_BYTES = 8192


class Spans:
    """Exports model requests as spans."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def trace_request(self, record: RequestRecord, context: RequestContext, provider: str) -> None:
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind, Status, StatusCode

        end = time.time_ns()
        model = record.model[:_MAX_MODEL_CHARS]
        headers = ((name, value) for name, value in context.scope["headers"] if name in _TRACE_HEADERS)
        trace = {name.decode(): value.decode("latin-1") for name, value in headers if len(value) <= _MAX_HEADER_BYTES}
        attributes = _attributes(record, context, provider, model)
        about = (f"{telemetry.CHAT} {model}", extract(trace), SpanKind.CLIENT, attributes)
        span = self._tracer.start_span(*about, start_time=end - int(context.seconds() * 1e9))
        if record.error:
            span.set_status(Status(StatusCode.ERROR))
        span.end(end)


def create_spans() -> Spans | None:
    """Return the exporter, or None if OpenTelemetry is not set up."""
    tracer = telemetry.tracer()
    return None if tracer is None else Spans(tracer)


def _attributes(record: RequestRecord, context: RequestContext, provider: str, model: str) -> dict[str, AttributeValue]:
    attempts = record.trace.attempts
    attributes: dict[str, AttributeValue] = {
        telemetry.OPERATION: telemetry.CHAT,
        telemetry.PROVIDER: provider,
        telemetry.REQUEST_MODEL: model,
        telemetry.RESPONSE_ID: record.id,
        telemetry.STATUS: context.status,
        telemetry.FACE: record.client_protocol,
        telemetry.PLAN: record.plan,
        telemetry.TOOLS: tools_label(record),
        telemetry.REQUESTS: record.requests,
    }
    if attempts:
        attributes[telemetry.INPUT_TOKENS] = sum(attempt.usage.input_tokens for attempt in attempts)
        attributes[telemetry.OUTPUT_TOKENS] = sum(attempt.usage.output_tokens for attempt in attempts)
        attributes[telemetry.FINISH_REASONS] = [attempts[-1].finish_reason]
    if record.error:
        # Export only the kind of error: upstream error messages may quote prompts.
        attributes[telemetry.ERROR_TYPE] = str(context.status) if context.status >= 400 else "stream"
    return attributes
