"""Fields that an upstream refuses and that can be left out, or said by another word: found by its own words.

Of a request to a service that only resembles the one a protocol was made for, some fields are ours: how a stream tells
its tokens, a stop sequence that saves some, a rule that is enforced behind the answer anyway. A 400 that names one of
them is not the caller's fault. The request goes once more without it, and so does every later one for a while.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from ...core.types import JSONObject, Note, Request, is_array, is_object
from ...errors import UpstreamError

#: Statuses that blame the request.
_BLAMING = frozenset({400, 422})
#: What stands in place of a field that is refused; nothing where it is left out.
_INSTEAD = {
    "stream_options": "",
    "store": "",
    "parallel_tool_calls": "",
    "stop": "",
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
    "reasoning_content": "",
}
#: Those that stand in messages: some services want back what their models have thought, others refuse it.
_IN_MESSAGES = frozenset({"reasoning_content"})
#: Those that are the caller's unless the request says otherwise.
_CALLERS = frozenset({"parallel_tool_calls", "stop"})
#: Seconds after which a field is tried again: services learn.
_REMEMBERED = 24 * 3600.0
#: Models that are remembered. They are named by requests, so they are bounded.
_MOST_MODELS = 256


class Refused:
    """What one service refuses, by model."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, tuple[str, ...]]] = OrderedDict()

    def known(self, request: Request) -> tuple[str, ...]:
        """The fields that this request is better sent without."""
        if not self._known:
            return ()
        until, fields = self._known.get(request.model, (0.0, ()))
        return tuple(field for field in fields if _is_ours(field, request)) if self._clock() < until else ()

    def remember(self, request: Request, fields: tuple[str, ...]) -> None:
        """A request without these fields was taken, and one with them was not."""
        _, before = self._known.pop(request.model, (0.0, ()))
        self._known[request.model] = (self._clock() + _REMEMBERED, tuple(dict.fromkeys((*before, *fields))))
        if len(self._known) > _MOST_MODELS:
            self._known.popitem(last=False)


def refused_field(error: UpstreamError, payload: bytes, request: Request) -> str:
    """The field of ours that an error names as its reason; empty: none."""
    if error.upstream_status not in _BLAMING:
        return ""
    told = f"{error} {error.body}"
    sent: JSONObject = msgspec.json.decode(payload)
    ours = (
        field for field in _INSTEAD if any(field in each for each in _holders(sent, field)) and _is_ours(field, request)
    )
    return next((field for field in ours if re.search(rf"(?<!\w){field}(?!\w)", told)), "")


def _holders(body: JSONObject, field: str) -> list[JSONObject]:
    """The objects in a body that may hold a field."""
    if field not in _IN_MESSAGES:
        return [body]
    listed = body.get("messages")
    return list(filter(is_object, listed)) if is_array(listed) else []


def _is_ours(field: str, request: Request) -> bool:
    options = request.options
    if field in _CALLERS:
        return field in options.dispensable
    return field not in options.own and not (field == "store" and field in options.extra)


def changed(payload: bytes, fields: tuple[str, ...]) -> bytes:
    """A request's body without these fields, or with other words for them."""
    body = msgspec.json.decode(payload)
    for field in fields:
        for holder in _holders(body, field):
            if field in holder:
                value = holder.pop(field)
                if instead := _INSTEAD[field]:
                    holder[instead] = value
    return msgspec.json.encode(body)


def note_of(field: str) -> Note:
    """What a reader of the reply should know."""
    instead = _INSTEAD[field]
    how = f"sent as `{instead}`" if instead else "left out"
    return Note("field_refused", f"the upstream refuses `{field}`: it is {how}")
