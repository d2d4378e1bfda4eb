"""The answer to a decision request: a document was asked for, and models put words around it.

Ordinary reading takes a document that stands alone, on a line of its own or at the end, since elsewhere it may be a
quotation. Here nothing but the document was asked for, so that the last one in the answer is meant wherever it stands;
it is read by itself, by the same rules, mark and echo included.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.events import CallStart, Event, Noted, TextDelta
from ...core.json_repair.whole_text import read_value
from ...core.parsing.acceptance import Policy
from ...core.parsing.context import Texts
from ...core.types import Note, Tool, is_array, is_object
from .answer_readers import Answer

_KEY = '"tools"'
#: How many places are looked at; a model that has written more documents than these has not decided.
_MOST_PLACES = 4


class Decision:
    """Reads one decision."""

    def __init__(
        self,
        tools: Sequence[Tool],
        policy: Policy,
        nonce: str | None = None,
        untrusted: Sequence[str] = (),
        copied: Texts = tuple,
    ) -> None:
        self._tools = tools
        self._policy: Policy = policy
        self._nonce = nonce
        self._untrusted = untrusted
        self._copied = copied
        self._answer = self._reader()
        self._said: list[str] = []
        self._called = False
        self.flow = None

    def _reader(self) -> Answer:
        return Answer(self._tools, self._policy, nonce=self._nonce, untrusted=self._untrusted, copied=self._copied)

    def feed(self, event: Event) -> list[Event]:
        """What an upstream event makes certain."""
        return self._seen(self._answer.feed(event))

    def _seen(self, events: list[Event]) -> list[Event]:
        for event in events:
            if type(event) is TextDelta:  # not what it thought
                self._said.append(event.text)
            elif type(event) is CallStart:
                self._called = True
        return events

    def close(self, cut: bool) -> list[Event]:
        """The answer is over; `cut`: because of a limit on its length."""
        events = self._seen(self._answer.close(cut))
        return events if self._called or cut else events + self._among_words("".join(self._said))

    def _among_words(self, text: str) -> list[Event]:
        """The calls of the last document that stands among words."""
        document = _last_document(text)
        if not document:
            return []
        reader = self._reader()
        events = [*reader.feed(TextDelta(document)), *reader.close(False)]
        if not any(type(event) is CallStart for event in events):
            return []
        note = Note("decision_in_text", "the decision stood among other words")
        return [Noted(note), *(event for event in events if type(event) is not TextDelta)]


def _last_document(text: str) -> str:
    """The last document in a text that has the form of a decision."""
    at = len(text)
    for _ in range(_MOST_PLACES):
        at = text.rfind(_KEY, 0, at)
        start = text.rfind("{", 0, at) if at > 0 else -1
        if start < 0:
            break
        read = read_value(text, start)
        if read.status == "complete" and is_object(read.value) and is_array(read.value.get("tools")):
            return text[start : read.end]
    return ""
