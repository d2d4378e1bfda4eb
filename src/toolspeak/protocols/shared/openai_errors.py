"""Errors as OpenAI's services word them, in whichever of their protocols: from an answer, and to a client."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ...core.events import Failure
from ...core.types import JSONObject
from ...errors import ToolspeakError, UpstreamError
from .fields import failure_from, read_json, shorten, status_of, to_wire

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
    504: "timeout_error",
}
_WORDS = re.compile(r"(?<!^)(?=[A-Z])")


def error_of(failure: Failure) -> JSONObject:
    """The error object of a turn that broke."""
    kind = "timeout_error" if failure.kind == "timeout" else _TYPES.get(failure.status, "upstream_error")
    return _error(failure.message, failure, kind, failure.kind)


def code_of(error: Failure | UpstreamError, otherwise: str) -> str:
    """The upstream's own code: clients go by it, as to make a conversation shorter that has grown too long.

    Only those in small letters, as these protocols have them: Gemini's words are in capitals.
    """
    return error.code if error.code.islower() else otherwise


def _error(message: str, error: Failure | UpstreamError, type: str, code: str) -> JSONObject:
    """An error object in the upstream's own words; `type` and `code` where it has none."""
    return {
        "message": message,
        "type": error.error_type or type,
        "param": error.param or None,
        "code": code_of(error, code),
    }


def decode_error(status: int, body: bytes, headers: Mapping[str, str]) -> Failure:
    """The failure that an answer with an error status stands for. The names of the headers are in lower case."""
    value = read_json(body)
    if value is None:
        text = shorten(body)
        value = "" if text.startswith("<") else text  # a page says nothing in one line
    failure = failure_from(value, status, body, f"the upstream answered with status {status}")
    identifier = headers.get("x-request-id")
    if not identifier:
        return failure
    return msgspec.structs.replace(failure, message=f"{failure.message} (request {shorten(identifier)})")


def encode_error(error: ToolspeakError) -> tuple[int, bytes]:
    """The status and body that tell a client of an error; an upstream's own status is passed on."""
    status = status_of(error)
    default = "invalid_request_error" if status < 500 else "server_error"
    code = _WORDS.sub("_", type(error).__name__).lower()
    kind = _TYPES.get(status, default)
    if isinstance(error, UpstreamError):
        return status, to_wire({"error": _error(str(error), error, kind, code)})
    return status, to_wire({"error": {"message": str(error), "type": kind, "param": None, "code": code}})
