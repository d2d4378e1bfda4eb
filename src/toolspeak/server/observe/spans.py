"""A span for each model request, for whoever collects them: names, counts and times, never what was said.

A span is made when the request has ended, with the times that it had; it continues the trace that the client's headers
name.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ... import telemetry
from ..proxy.exchange import Record
from .metrics import tools_of
from .request_context import Trip

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer
    from opentelemetry.util.types import AttributeValue

#: A name that is longer is no model's.
_LONGEST_NAME = 256
#: The headers by which a trace goes on; nothing else of a request is shown to the library.
_CONTEXT = frozenset({b"traceparent", b"tracestate", b"baggage", b"b3"})
_LONGEST_CONTEXT = 8192


class Spans:
    """Tells of requests as spans."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def told(self, record: Record, trip: Trip, provider: str) -> None:
        """A model request has ended."""
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind, Status, StatusCode

        end = time.time_ns()
        model = record.model[:_LONGEST_NAME]
        span = self._tracer.start_span(
            f"{telemetry.CHAT} {model}",
            extract(_carried(trip)),
            SpanKind.CLIENT,
            _attributes(record, trip, provider, model),
            start_time=end - int(trip.seconds() * 1e9),
        )
        if record.error:
            span.set_status(Status(StatusCode.ERROR))
        span.end(end)


def spans() -> Spans | None:
    """What tells of requests, if anybody listens."""
    tracer = telemetry.tracer()
    return None if tracer is None else Spans(tracer)


def _carried(trip: Trip) -> dict[str, str]:
    found = ((name, value) for name, value in trip.scope["headers"] if name in _CONTEXT)
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in found if len(value) <= _LONGEST_CONTEXT}


def _attributes(record: Record, trip: Trip, provider: str, model: str) -> dict[str, AttributeValue]:
    attempts = record.trace.attempts
    told: dict[str, AttributeValue] = {
        telemetry.OPERATION: telemetry.CHAT,
        telemetry.PROVIDER: provider,
        telemetry.REQUEST_MODEL: model,
        telemetry.RESPONSE_ID: record.id,
        telemetry.STATUS: trip.status,
        telemetry.FACE: record.face,
        telemetry.PLAN: record.plan,
        telemetry.TOOLS: tools_of(record),
        telemetry.REQUESTS: record.requests,
    }
    if attempts:
        told[telemetry.INPUT_TOKENS] = sum(attempt.usage.input_tokens for attempt in attempts)
        told[telemetry.OUTPUT_TOKENS] = sum(attempt.usage.output_tokens for attempt in attempts)
        told[telemetry.FINISH_REASONS] = [attempts[-1].finish_reason]
    if record.error:
        # A kind, not the message: upstreams quote in those.
        told[telemetry.ERROR_TYPE] = str(trip.status) if trip.status >= 400 else "stream"
    return told
