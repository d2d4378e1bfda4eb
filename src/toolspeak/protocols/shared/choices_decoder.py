"""Decoder for replies with several choices: it splits a reply and gives each choice a decoder of its own.

The first choice also gets everything that belongs to no choice, such as usage and errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from ...core.events import Event, Failure, Noted, UsageSeen
from ...core.types import JSONValue, is_array, is_object
from .fields import to_wire, without
from .framing import FrameTemplate, encode_sse
from .reply_decoder import BaseReplyDecoder, is_done

#: Receives events of a choice other than the first, with the number of the choice.
Deliver: TypeAlias = Callable[[int, list[Event]], None]

#: The list of choices in each protocol that has one.
_LISTS = ("choices", "candidates")
_USAGE = ("usage", "usageMetadata", "x_groq")
#: A failure after only these events may be followed by a new request, so nothing is delivered before others arrive.
_BEFORE_CONTENT = (Noted, UsageSeen, Failure)


class ChoicesDecoder(BaseReplyDecoder):
    """Decodes a reply with up to `n` choices. Returns the events of the first one and delivers those of the others."""

    def __init__(self, stream: bool, make: Callable[[bool], BaseReplyDecoder], n: int, deliver: Deliver) -> None:
        super().__init__(stream)
        self._make = make
        self._n = n
        self._deliver = deliver
        self._decoders = {0: make(stream)}
        self._undelivered: list[tuple[int, list[Event]]] = []
        self._has_content = False

    @property
    def finished(self) -> bool:
        return len(self._decoders) == self._n and all(decoder.finished for decoder in self._decoders.values())

    def _event(self, name: str, payload: bytes) -> None:
        if is_done(payload):
            self._end()
            return
        for number, part in self._parts(self._json(payload), payload):
            self._feed(number, encode_sse(part, name))

    def _whole(self, body: bytes) -> None:
        for number, part in self._parts(self._json(body), body, whole=True):
            self._feed(number, part)
        self._end()

    def _parts(self, reply: JSONValue, payload: bytes, *, whole: bool = False) -> Iterator[tuple[int, bytes]]:
        """Split a reply or a chunk by choice. What cannot be split goes to the first choice."""
        field = next((name for name in _LISTS if is_object(reply) and is_array(reply.get(name))), "")
        if not field:
            yield 0, payload
            return
        own: list[JSONValue] = []
        for position, choice in enumerate(reply[field]):
            index = choice.get("index") if is_object(choice) else None
            number = position if whole or type(index) is not int else index
            if 0 < number < self._n:
                yield number, to_wire({**without(reply, *_USAGE), field: [choice]})
            else:
                own.append(choice)
        yield 0, to_wire({**reply, field: own})

    def _feed(self, number: int, data: bytes) -> None:
        if number not in self._decoders:
            self._decoders[number] = self._make(self._stream)
        self._take(number, self._decoders[number].feed(data))

    def _end(self) -> None:
        self._over = True
        for number, decoder in self._decoders.items():
            self._take(number, decoder.close())

    def _take(self, number: int, events: list[Event]) -> None:
        if number:
            self._undelivered.append((number, events))
        else:
            self._events += events

    def _drain(self) -> list[Event]:
        events = super()._drain()
        self._has_content = self._has_content or any(not isinstance(event, _BEFORE_CONTENT) for event in events)
        if self._has_content:
            undelivered, self._undelivered = self._undelivered, []
            for number, batch in undelivered:
                if batch:
                    self._deliver(number, batch)
        return events

    def _learn(self, read: bytes, name: str, payload: bytes) -> FrameTemplate | None:
        """Return None: the decoders of the choices learn templates of their own."""
        return None
