"""What we can do without where an upstream refuses it: the system role, and a form that it was to enforce.

An upstream that refuses a request because of something that only we have put into it is asked again at once, without;
what it refuses is true of it from then on. Fields that a codec adds are seen to by `upstreams.refused`.
"""

from __future__ import annotations

import msgspec

from ...core.events import Failure
from ...core.types import JSONObject, Request
from ..planning.capabilities import Profile

#: Statuses with which upstreams refuse what they do not understand; templates that raise are a 500 with some.
_REFUSING = frozenset({400, 422, 500, 501})
#: How refusals call a form that is to be enforced, besides by the field that asks for it.
_FORMS = ("grammar", "json_schema", "response_format", "guided", "structured output")


class Concession(msgspec.Struct, frozen=True):
    """What an upstream does not take."""

    code: str
    why: str
    #: What of its profile is otherwise than it was believed.
    fields: JSONObject


_SYSTEM = Concession("system_role_refused", "the upstream refused a system message", {"system_role": False})
_FORM = Concession("constraint_refused", "the upstream refused the form that it was to enforce", {"constraint": ""})


def concession(failure: Failure, request: Request, profile: Profile) -> Concession | None:
    """What to do without, after this failure of this request; None: nothing of ours was refused."""
    if failure.status not in _REFUSING:
        return None
    if profile.system_role and request.messages[0].role == "system" and refuses_system(failure):
        return _SYSTEM
    told = _told(failure)
    if request.options.grammar and any(word in told for word in (*_FORMS, *request.options.grammar)):
        return _FORM
    return None


def refuses_system(failure: Failure | None) -> bool:
    """Whether an upstream, or the template behind it, says that it takes no system message."""
    if failure is None or failure.status not in _REFUSING:
        return False
    told = _told(failure)
    return "system" in told and "role" in told


def _told(failure: Failure) -> str:
    return f"{failure.message} {failure.body}".lower()
