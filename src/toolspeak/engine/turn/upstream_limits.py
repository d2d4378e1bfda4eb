"""Upstream limitations that a turn can work around, such as alternating roles, no system role or no response format.

If an upstream rejects a feature that toolspeak added to a request, the engine repeats the request without that
feature. The limitation is remembered for that upstream. Fields that a protocol codec adds are handled by
`upstreams.http.service`.
"""

import re

import msgspec

from ...core.events import Failure
from ...core.types import JSONObject, Request, ToolChoice
from ..context.complaints import context_complaint
from ..planning.capabilities import Profile

#: HTTP statuses for requests that an upstream does not understand. Some upstreams return 500 if a chat template fails.
_REJECTION_STATUSES = frozenset({400, 422, 500, 501})
#: HTTP statuses that upstreams use to reject tools.
TOOL_REJECTION_STATUSES = frozenset({400, 404, 405, 415, 422, 500, 501})
#: More such statuses, which usually have other causes.
_BLOCKING_STATUSES = frozenset({403, 503})
_TOOLS = re.compile(r"tool|function")
#: Words that refer to constrained output in upstream error messages. Messages may also name the request field.
_CONSTRAINT_WORDS = ("grammar", "json_schema", "response_format", "guided", "structured output")
#: Words that refer to a response format, in all protocols.
_FORMAT_WORDS = (
    *_CONSTRAINT_WORDS,
    *"json_object output_config output_format text.format response_schema response_mime_type".split(),
    *'responseschema responsejsonschema responsemimetype `format` \'format\' "format" \\"format\\"'.split(),
)
#: How upstreams and chat templates say that user and assistant messages must alternate.
_ALTERNATION = re.compile(
    r"\balternat(?:e|es|ing|ion)\b|\bsuccessive (?:user|assistant)|\broles? in a row|\bconsecutive (?:user|assistant)"
    r"|\bunexpected role\b|\bmust start with an? user\b|\bfirst message must (?:be|have)\b"
)
#: How they say that there is no system role. The last two list the roles that exist.
_NO_SYSTEM = re.compile(
    r"\b(?:system|developer)[ _]?(?:message|prompt|instruction)s?\b[^.]{0,40}(?:\bnot\b|n't\b|unsupported|invalid)"
    r"|(?:\bnot\b|n't\b|\bno|unsupported|invalid)\b[^.]{0,40}\b(?:system|developer)[ _]?(?:message|prompt|instruction)"
    r"|\b(?:unknown|unsupported|invalid) (?:variant|value)\W{1,4}system\b"
    r"|\bonly\W[^.]{0,20}\buser\b[^.]{0,20}\bassistant\b"
    r"|\brole\b[^.]{0,80}\b(?:permitted|expected|be|of|allowed)\b[^.]{0,20}\buser\b[^.]{0,20}\bassistant\b"
)
#: A list of roles that exist, with the system role.
_HAS_SYSTEM = re.compile(
    r"\b(?:permitted|expected|be|of|allowed|only)\b[^.]{0,60}\bsystem\W{1,6}(?:\w+\W{1,6})?(?:user|assist)"
)


class UpstreamLimitation(msgspec.Struct, frozen=True):
    """A request feature that an upstream does not accept."""

    code: str
    why: str
    #: Fields of the model profile to override, with their new values.
    profile_fields: JSONObject


_ALTERNATES = UpstreamLimitation(
    "roles_must_alternate", "the upstream demands alternating user and assistant messages", {"alternates": True}
)
_NO_SYSTEM_ROLE = UpstreamLimitation(
    "system_role_refused", "the upstream refused a system message", {"system_role": False}
)
#: The upstream rejected tools that were sent natively beside the tool prompt.
NO_NATIVE_TOOLS = UpstreamLimitation(
    "native_unsupported", "the upstream refused a request with tools", {"capability": "none"}
)
#: The upstream rejected a request with such tools for an unknown reason. Nothing is remembered: it may be a fault.
_NOT_NOW = UpstreamLimitation("native_unsupported", "the upstream refused a request", {})
_NO_CONSTRAINT = UpstreamLimitation("constraint_refused", "the upstream refused constrained output", {"constraint": ""})
_NO_FORMAT = UpstreamLimitation("format_refused", "the upstream refused a response format", {"response_format": False})


def detect_limitation(
    failure: Failure, request: Request, profile: Profile, teaches_format: bool = False
) -> UpstreamLimitation | None:
    """Return the limitation that explains this failure, or None if the request needs every feature that was rejected.

    `teaches_format`: the prompt asks for the response format as well, so its field may be left out.
    """
    if failure.status not in _REJECTION_STATUSES:
        return None
    error = _error_text(failure)
    if demands_alternation(failure):
        return _alternation_limit(error, request, profile)
    if not request.options.described_tools and not teaches_format:  # only the order of the messages is ours to change
        return None
    if teaches_format and request.options.response_format and any(word in error for word in _FORMAT_WORDS):
        return _NO_FORMAT
    if profile.system_role and request.messages[0].role == "system" and refuses_system_role(failure):
        return _NO_SYSTEM_ROLE
    if request.options.grammar and any(word in error for word in (*_CONSTRAINT_WORDS, *request.options.grammar)):
        return _NO_CONSTRAINT
    return None


def native_tools_limitation(failure: Failure, choice: ToolChoice) -> UpstreamLimitation | None:
    """Return what a failure shows about tools that were sent natively beside the tool prompt; None if it is nothing."""
    if (complaint := context_complaint(failure)) is not None:
        return window_limitation(complaint.window) if complaint.window else _NOT_NOW
    named = names_tools(failure)
    if failure.status not in TOOL_REJECTION_STATUSES and not (named and failure.status in _BLOCKING_STATUSES):
        return None
    return NO_NATIVE_TOOLS if named and choice.mode == "auto" else _NOT_NOW  # it may have rejected only the choice


def window_limitation(tokens: int) -> UpstreamLimitation:
    why = f"the upstream's context window has {tokens} tokens"
    return UpstreamLimitation(NO_NATIVE_TOOLS.code, why, {"context_window": tokens})


def names_tools(failure: Failure) -> bool:
    """Whether an error is about tools or functions."""
    return _TOOLS.search(_error_text(failure)) is not None


def _alternation_limit(error: str, request: Request, profile: Profile) -> UpstreamLimitation | None:
    """Return what to change in a request whose roles the upstream rejected."""
    from ..prompting.history import alternate_roles  # slow: it imports every dialect

    if alternate_roles(request.messages) != request.messages:
        return None if profile.alternates else _ALTERNATES
    # The roles alternate. Templates of models without a system role count a system message as a role out of order.
    has_system = (request.options.described_tools or not request.tools) and request.messages[0].role == "system"
    return _NO_SYSTEM_ROLE if profile.system_role and has_system and "optional system" not in error else None


def demands_alternation(failure: Failure | None) -> bool:
    """Whether the upstream, or its chat template, rejected the order of the roles."""
    if failure is None or failure.status not in _REJECTION_STATUSES:
        return False
    return _ALTERNATION.search(_error_text(failure)) is not None


def refuses_system_role(failure: Failure | None) -> bool:
    """Whether the upstream, or its chat template, rejected the system role."""
    if failure is None or failure.status not in _REJECTION_STATUSES or demands_alternation(failure):
        return False
    error = _error_text(failure)
    if _HAS_SYSTEM.search(error) is not None:
        return False
    return ("system" in error and "role" in error) or _NO_SYSTEM.search(error) is not None


def _error_text(failure: Failure) -> str:
    return f"{failure.message} {failure.body}".lower()
