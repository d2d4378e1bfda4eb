"""OpenTelemetry spans of model requests: names, counts and times, never prompts or answers.

A span is created after its request has ended. It continues the trace given in the client's headers. Spans are recorded
only if `opentelemetry-api` is installed and a tracer provider is configured, for example by `opentelemetry-instrument`.
The semantic conventions for generative AI are not stable yet, so all names are in this file.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from ..proxy.exchange import RequestRecord
from .metrics import tools_label
from .request_context import RequestContext

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer, TracerProvider
    from opentelemetry.util.types import AttributeValue

# ---- semantic conventions

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_ID = "gen_ai.response.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
ERROR_TYPE = "error.type"
STATUS = "http.response.status_code"
CHAT = "chat"

# ---- toolspeak's own attributes

FACE = "toolspeak.face"
PLAN = "toolspeak.plan"
TOOLS = "toolspeak.tools"
REQUESTS = "toolspeak.upstream_requests"  # number of upstream requests for one client request

_NAME = "toolspeak"
#: The API module, and the environment variable that selects its tracer provider.
_API, _PROVIDER_VARIABLE = "opentelemetry.trace", "OTEL_PYTHON_TRACER_PROVIDER"

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
        about = (f"{CHAT} {model}", extract(trace), SpanKind.CLIENT, attributes)
        span = self._tracer.start_span(*about, start_time=end - int(context.seconds() * 1e9))
        if record.error:
            span.set_status(Status(StatusCode.ERROR))
        span.end(end)


def create_spans(provider: TracerProvider | None = None) -> Spans | None:
    """Return the exporter, or None if tracing is not configured."""
    if provider is None and _API not in sys.modules and _PROVIDER_VARIABLE not in os.environ:  # noqa: TID251 - OpenTelemetry's
        return None  # no provider is configured, so avoid importing the API, which is slow
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    active_provider = provider or trace.get_tracer_provider()
    # The default providers of the API drop every span.
    if isinstance(active_provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return Spans(active_provider.get_tracer(_NAME))


def _attributes(record: RequestRecord, context: RequestContext, provider: str, model: str) -> dict[str, AttributeValue]:
    attempts = record.trace.attempts
    attributes: dict[str, AttributeValue] = {OPERATION: CHAT, PROVIDER: provider, REQUEST_MODEL: model}
    attributes |= {RESPONSE_ID: record.id, STATUS: context.status, FACE: record.client_protocol, PLAN: record.plan}
    attributes |= {TOOLS: tools_label(record), REQUESTS: record.requests}
    if attempts:
        attributes[INPUT_TOKENS] = sum(attempt.usage.input_tokens for attempt in attempts)
        attributes[OUTPUT_TOKENS] = sum(attempt.usage.output_tokens for attempt in attempts)
        attributes[FINISH_REASONS] = [attempts[-1].finish_reason]
    if record.error:
        # Export only the kind of error: upstream error messages may quote prompts.
        attributes[ERROR_TYPE] = str(context.status) if context.status >= 400 else "stream"
    return attributes
