"""State shared by the modules that encode requests, and the names of internal `extra` fields.

`EncodingContext` knows which protocol the `extra` fields belong to, replaces call ids that the service would reject,
and collects a note for everything that cannot be sent.
"""

import re
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Final

from ...core.types import SIBLING_FIELDS, JSONObject, Message, Note, is_object

PROTOCOL: Final = "anthropic"

#: Marks a prompt cache breakpoint. It is the only `extra` field with the same meaning in every protocol.
CACHE_CONTROL: Final = "cache_control"

#: Internal fields of `Message.extra`: whether a system message is in `messages` (not in `system`), a non-default order
#: of parts, calls and results, and the extra fields of each call by position.
INLINE: Final = "toolspeak_inline"
ORDER: Final = "toolspeak_order"
CALL_EXTRAS: Final = "toolspeak_tool_use"
#: Internal field of `ToolResult.extra`: the order of the texts and parts in a result.
LAYOUT: Final = "toolspeak_layout"

#: Fields that are dropped from incoming requests, because clients must not set them.
INTERNAL_FIELDS: Final = (INLINE, ORDER, CALL_EXTRAS, LAYOUT)

_INVALID_ID_CHARS = re.compile(r"[^a-zA-Z0-9_-]")


class EncodingContext:
    def __init__(self, protocol: str, ids: Iterable[str] = ()) -> None:
        #: Whether the request was decoded from this protocol and is sent unchanged.
        self.native = protocol == PROTOCOL
        #: Whether the `extra` fields belong to this protocol.
        self.same_protocol = protocol in (PROTOCOL, "")
        self._notes: dict[tuple[str, str], Note] = {}
        self._ids: dict[str, str] = {}
        self._used_ids = set(ids)
        self._missing_ids = {"call": 0, "result": 0}

    def for_message(self, message: Message) -> "EncodingContext":
        """Return the context for a message, whose protocol may differ from that of the request."""
        if not message.protocol or (message.protocol == PROTOCOL) == self.same_protocol:
            return self
        other = copy(self)  # a shallow copy shares notes and ids
        other.same_protocol = not self.same_protocol
        return other

    @property
    def notes(self) -> tuple[Note, ...]:
        return tuple(self._notes.values())

    def note(self, code: str, detail: str, of: str = "") -> None:
        """Record a note about something that cannot be sent unchanged, once for each `code` and `of`."""
        self._notes.setdefault((code, of), Note(code, detail))

    def extra(self, extra: Mapping[str, object]) -> JSONObject:
        """Return the `extra` fields to send: all but internal ones; for other protocols, only `cache_control`."""
        if self.same_protocol:
            return {key: value for key, value in extra.items() if key not in INTERNAL_FIELDS}
        siblings = extra.get(SIBLING_FIELDS)  # chat completions store an object's sibling fields here
        fields = {**siblings, **extra} if is_object(siblings) else extra
        return {CACHE_CONTROL: fields[CACHE_CONTROL]} if CACHE_CONTROL in fields else {}

    def id(self, original: str, of: str) -> str:
        """Return an id that the service accepts for a call or its result. `of` is "call" or "result"."""
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
            self.note("call_id_changed", "a call id was replaced because the service would reject it")
        return self._ids[original]
