"""Upstream limitations that a turn can work around: no system role, no constrained output.

If an upstream rejects a request because of something that toolspeak added, the request is repeated at once without
it, and the limitation is remembered for that upstream. Fields that a codec adds are handled by
`upstreams.http.service`.
"""

from __future__ import annotations

import msgspec

from ...core.events import Failure
from ...core.types import JSONObject, Request
from ..planning.capabilities import Profile

#: Statuses that upstreams use for input they do not understand. Some answer 500 when a chat template raises.
_REJECTION_STATUSES = frozenset({400, 422, 500, 501})
#: How error messages refer to constrained output, besides by the name of the field.
_CONSTRAINT_WORDS = ("grammar", "json_schema", "response_format", "guided", "structured output")


class UpstreamLimitation(msgspec.Struct, frozen=True):
    """Something that an upstream does not accept."""

    code: str
    why: str
    #: Profile fields to override.
    profile_fields: JSONObject


_NO_SYSTEM_ROLE = UpstreamLimitation(
    "system_role_refused", "the upstream refused a system message", {"system_role": False}
)
_NO_CONSTRAINT = UpstreamLimitation("constraint_refused", "the upstream refused constrained output", {"constraint": ""})


def detect_limitation(failure: Failure, request: Request, profile: Profile) -> UpstreamLimitation | None:
    """Find what to leave out after this failure; None if nothing that toolspeak added was rejected."""
    if failure.status not in _REJECTION_STATUSES:
        return None
    if profile.system_role and request.messages[0].role == "system" and refuses_system_role(failure):
        return _NO_SYSTEM_ROLE
    error = _error_text(failure)
    if request.options.grammar and any(word in error for word in (*_CONSTRAINT_WORDS, *request.options.grammar)):
        return _NO_CONSTRAINT
    return None


def refuses_system_role(failure: Failure | None) -> bool:
    """Whether the upstream, or its chat template, rejected the system role."""
    if failure is None or failure.status not in _REJECTION_STATUSES:
        return False
    error = _error_text(failure)
    return "system" in error and "role" in error


def _error_text(failure: Failure) -> str:
    return f"{failure.message} {failure.body}".lower()
