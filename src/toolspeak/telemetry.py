"""OpenTelemetry attribute names, and the tracer if tracing is configured.

The semantic conventions for generative AI are not stable yet, so all names are in this file. Spans are recorded only if
`opentelemetry-api` is installed and a tracer provider is configured, for example by `opentelemetry-instrument`.
"""

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer, TracerProvider

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


def tracer(provider: "TracerProvider | None" = None) -> "Tracer | None":
    """Return the tracer, or None if tracing is not configured."""
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
    return active_provider.get_tracer(_NAME)
