"""Decode and encode error objects of OpenAI's protocols."""

import re
from collections.abc import Mapping

import msgspec

from ...core.events import Failure
from ...core.types import JSONObject
from ...errors import ToolspeakError, UpstreamError
from .fields import error_value, failure_from, http_status, shorten, to_wire

_TYPES = (
    dict.fromkeys((400, 422), "invalid_request_error")
    | {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
    | {429: "rate_limit_error", 504: "timeout_error"}
)
_WORD_BOUNDARY = re.compile(r"(?<!^)(?=[A-Z])")


def error_of(failure: Failure) -> JSONObject:
    kind = "timeout_error" if failure.kind == "timeout" else _TYPES.get(failure.status, "upstream_error")
    return _error(failure.message, failure, kind, failure.kind)


def code_of(error: Failure | UpstreamError, default: str) -> str:
    """Return the upstream's error code, which clients act on (for example by compacting a long conversation).

    Return `default` unless the code is in lower case, as in OpenAI's protocols. Gemini's codes are in upper case.
    """
    return error.code if error.code.islower() else default


def _error(message: str, error: Failure | UpstreamError, type: str, code: str) -> JSONObject:
    """Build an error object. `type` and `code` are used if the upstream did not send its own."""
    return {
        "message": message,
        "type": error.error_type or type,
        "param": error.param or None,
        "code": code_of(error, code),
    }


def decode_error(status: int, body: bytes, headers: Mapping[str, str]) -> Failure:
    """Convert an HTTP error response to a `Failure`. Header names must be in lower case."""
    failure = failure_from(error_value(body), status, body, f"the upstream returned status {status}")
    identifier = headers.get("x-request-id")
    if not identifier:
        return failure
    return msgspec.structs.replace(failure, message=f"{failure.message} (request {shorten(identifier)})")


def encode_error(error: ToolspeakError) -> tuple[int, bytes]:
    """Return the HTTP status and body for an error. An upstream's own status is preserved."""
    status = http_status(error)
    default = "invalid_request_error" if status < 500 else "server_error"
    code = _WORD_BOUNDARY.sub("_", type(error).__name__).lower()
    kind = _TYPES.get(status, default)
    if isinstance(error, UpstreamError):
        return status, to_wire({"error": _error(str(error), error, kind, code)})
    return status, to_wire({"error": {"message": str(error), "type": kind, "param": None, "code": code}})
