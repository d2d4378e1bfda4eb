"""The names by which OpenTelemetry knows what happens here, and whether anybody listens.

The conventions for models are still in development, so all names stand in this one file. Nothing is told unless
`opentelemetry-api` is installed and a provider is set up, as `opentelemetry-instrument` does.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer, TracerProvider

# ---- by the conventions

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_ID = "gen_ai.response.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
ERROR_TYPE = "error.type"
STATUS = "http.response.status_code"
#: What is done: an operation.
CHAT = "chat"

# ---- our own

FACE = "toolspeak.face"
PLAN = "toolspeak.plan"
TOOLS = "toolspeak.tools"
#: Requests that went upstream for one that came in.
REQUESTS = "toolspeak.upstream_requests"

_NAME = "toolspeak"
#: The API, and its own variable by which it finds a provider by itself.
_API, _NAMED = "opentelemetry.trace", "OTEL_PYTHON_TRACER_PROVIDER"


def tracer(provider: TracerProvider | None = None) -> Tracer | None:
    """What spans are made with; None where nobody listens."""
    if provider is None and _API not in sys.modules and _NAMED not in os.environ:  # noqa: TID251 - its own, not ours
        return None  # who has set a provider up has loaded the API for that; for all others it takes its time
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    found = provider or trace.get_tracer_provider()
    # What the API alone brings drops everything.
    if isinstance(found, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return found.get_tracer(_NAME)
