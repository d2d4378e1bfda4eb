"""State and names shared by the request modules: internal `extra` fields, and the context of one encoding.

`EncodingContext` knows which protocol the `extra` fields belong to, makes call ids valid for the service, and collects
a note for everything that cannot be sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Final

from ...core.types import SIBLING_FIELDS, JSONObject, JSONValue, Message, Note, is_array, is_object

PROTOCOL: Final = "anthropic"

#: The one field that means the same in the `extra` of every protocol: a prompt cache breakpoint.
CACHE_CONTROL: Final = "cache_control"

#: Internal fields of `Message.extra`: a system message after other messages, the order of parts, calls and results if
#: it is not the default, and extra fields of the calls by position.
INLINE: Final = "toolspeak_inline"
ORDER: Final = "toolspeak_order"
CALL_EXTRAS: Final = "toolspeak_tool_use"
#: Internal field of `ToolResult.extra`: the order of its texts and parts.
LAYOUT: Final = "toolspeak_layout"

#: Dropped from incoming requests, so that a client cannot set them.
INTERNAL_FIELDS: Final = (INLINE, ORDER, CALL_EXTRAS, LAYOUT)

_INVALID_ID_CHARS = re.compile(r"[^a-zA-Z0-9_-]")


class EncodingContext:
    """State of encoding one request."""

    def __init__(self, protocol: str, ids: Iterable[str] = ()) -> None:
        #: The request came by this protocol and is sent as it came.
        self.native = protocol == PROTOCOL
        #: `extra` fields belong to this protocol.
        self.same_protocol = protocol in (PROTOCOL, "")
        self._notes: dict[tuple[str, str], Note] = {}
        self._ids: dict[str, str] = {}
        self._used_ids = set(ids)
        self._missing_ids = {"call": 0, "result": 0}

    def for_message(self, message: Message) -> EncodingContext:
        """Return the context for a message, which may be of another protocol than its request."""
        if not message.protocol or (message.protocol == PROTOCOL) == self.same_protocol:
            return self
        other = copy(self)  # shallow: notes and ids are shared
        other.same_protocol = not self.same_protocol
        return other

    @property
    def notes(self) -> tuple[Note, ...]:
        return tuple(self._notes.values())

    def note(self, code: str, detail: str, of: str = "") -> None:
        """Note what could not be sent unchanged, once for each code and `of`."""
        self._notes.setdefault((code, of), Note(code, detail))

    def extra(self, extra: Mapping[str, object]) -> JSONObject:
        """Return the fields of `extra` to send: all but internal ones, or only cache control for other protocols."""
        if self.same_protocol:
            return {key: value for key, value in extra.items() if key not in INTERNAL_FIELDS}
        siblings = extra.get(SIBLING_FIELDS)  # chat completions store fields next to the object here
        fields = {**siblings, **extra} if is_object(siblings) else extra
        return {CACHE_CONTROL: fields[CACHE_CONTROL]} if CACHE_CONTROL in fields else {}

    def id(self, original: str, of: str) -> str:
        """Return a call id with only the characters that the service accepts. `of`: call or result."""
        if self.native or (original and _INVALID_ID_CHARS.search(original) is None):
            return original
        if not original:
            self._missing_ids[of] += 1
            # The n-th result without an id belongs to the n-th call without one.
            original = f"\0{self._missing_ids[of]}"
        if original not in self._ids:
            unique = _INVALID_ID_CHARS.sub("_", original)
            while unique in self._used_ids:
                unique += f"_{len(self._used_ids)}"
            self._used_ids.add(unique)
            self._ids[original] = unique
            self.note("call_id_changed", "characters that the service rejects were replaced in a call id")
        return self._ids[original]


def list_or_empty(value: JSONValue) -> list[JSONValue]:
    return value if is_array(value) else []
