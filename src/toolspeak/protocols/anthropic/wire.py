"""What all request modules of `anthropic` share: its name, the words it adds to `extra`, and what a request loses.

`Sending` goes along while a request is encoded: it knows whose words the request speaks, keeps ids in the shape that
the service wants, and collects a note for everything that could not be sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Final

from ...core.types import BESIDE, JSONObject, Message, Note, is_object

PROTOCOL: Final = "anthropic"

#: The one word of ours that means the same in every protocol's `extra`: how far a prompt may be cached.
CACHE_CONTROL: Final = "cache_control"

#: Words in `Message.extra` that are ours: a system message that stands among the others, how parts, calls and results
#: follow each other where that is not their usual order, and what the calls say besides, by position.
INLINE: Final = "toolspeak_inline"
ORDER: Final = "toolspeak_order"
USES: Final = "toolspeak_tool_use"
#: A word in `ToolResult.extra` that is ours: how its texts and parts follow each other.
LAYOUT: Final = "toolspeak_layout"

#: All of them: whoever sends one from outside did not mean us.
MARKS: Final = (INLINE, ORDER, USES, LAYOUT)
#: What the service refuses in an id.
_ODD = re.compile(r"[^a-zA-Z0-9_-]")


class Sending:
    """One request on its way to the wire."""

    def __init__(self, protocol: str, ids: Iterable[str] = ()) -> None:
        #: It came by this protocol: it goes out as it came.
        self.native = protocol == PROTOCOL
        #: Its extras speak this protocol.
        self.ours = protocol in (PROTOCOL, "")
        self._notes: dict[tuple[str, str], Note] = {}
        self._ids: dict[str, str] = {}
        self._taken = set(ids)
        self._nameless = {"call": 0, "result": 0}

    def by(self, message: Message) -> Sending:
        """The same for one message, which may speak another protocol than the request."""
        if not message.protocol or (message.protocol == PROTOCOL) == self.ours:
            return self
        other = copy(self)  # what it learns, it shares
        other.ours = not self.ours
        return other

    @property
    def notes(self) -> tuple[Note, ...]:
        """What could not be sent as it was."""
        return tuple(self._notes.values())

    def note(self, code: str, detail: str, of: str = "") -> None:
        """Tell of something that could not be sent as it was; the first of its kind is told, or one for each `of`."""
        self._notes.setdefault((code, of), Note(code, detail))

    def extra(self, extra: Mapping[str, object]) -> JSONObject:
        """What goes to the wire of an `extra`: all of ours but our marks; of another protocol's the common word."""
        if self.ours:
            return {key: value for key, value in extra.items() if key not in MARKS}
        beside = extra.get(BESIDE)  # chat completions put there what stands outside of the thing itself
        said = {**beside, **extra} if is_object(beside) else extra
        return {CACHE_CONTROL: said[CACHE_CONTROL]} if CACHE_CONTROL in said else {}

    def id(self, given: str, of: str) -> str:
        """The id of a call, or of the call that a result answers, in the shape that the service takes."""
        if self.native or (given and _ODD.search(given) is None):
            return given
        if not given:
            self._nameless[of] += 1
            given = f"\0{self._nameless[of]}"  # the n-th result without an id answers the n-th call without one
        if given not in self._ids:
            unique = _ODD.sub("_", given)
            while unique in self._taken:
                unique += f"_{len(self._taken)}"
            self._taken.add(unique)
            self._ids[given] = unique
            self.note("call_id_changed", "an id was written with the characters that the service takes")
        return self._ids[given]
