"""Decoder for replies with several choices: it splits a reply and gives each choice a decoder of its own.

The first choice also gets everything that belongs to no choice, such as usage and errors.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import TypeAlias

from ...core.events import Event, Failure, Noted, UsageSeen
from ...core.types import JSONValue, is_array, is_object
from .fields import to_wire, without
from .framing import encode_sse
from .reply_decoder import BaseReplyDecoder, is_done

#: Receives events of a choice other than the first, with the number of the choice.
Deliver: TypeAlias = Callable[[int, list[Event]], None]
_LISTS, _USAGE = ("choices", "candidates"), ("usage", "usageMetadata", "x_groq")
#: After a failure that follows only these events, the request may be sent again. Nothing is delivered before that.
_BEFORE_CONTENT = (Noted, UsageSeen, Failure)


class ChoicesDecoder(BaseReplyDecoder):
    """Decodes a reply with up to `n` choices. Returns the events of the first one and delivers those of the others."""

    def __init__(self, stream: bool, make: Callable[[bool], BaseReplyDecoder], n: int, deliver: Deliver) -> None:
        super().__init__(stream)
        self._n = n
        self._deliver = deliver
        self._decoders = defaultdict[int, BaseReplyDecoder](partial(make, stream))
        self._undelivered: list[tuple[int, list[Event]]] = []
        self._has_content = False

    @property
    def finished(self) -> bool:
        return len(self._decoders) == self._n and all(decoder.finished for decoder in self._decoders.values())

    def _event(self, name: str, payload: bytes) -> None:
        if is_done(payload):
            self._end()
        else:
            self._split(payload, partial(encode_sse, event=name))

    def _whole(self, body: bytes) -> None:
        self._split(body, None)
        self._end()

    def _split(self, payload: bytes, frame: Callable[[bytes], bytes] | None) -> None:
        """Split a chunk, or a whole reply if `frame` is None. What cannot be split goes to the first choice."""
        reply, own = self._json(payload), list[JSONValue]()
        field = next((name for name in _LISTS if is_object(reply) and is_array(reply.get(name))), "")
        for position, choice in enumerate(reply[field] if field else ()):
            index = choice.get("index") if is_object(choice) else None
            number = index if frame and type(index) is int else position
            if 0 < number < self._n:
                part = to_wire({**without(reply, *_USAGE), field: [choice]})
                self._undelivered.append((number, self._decoders[number].feed(frame(part) if frame else part)))
            else:
                own.append(choice)
        part = to_wire({**reply, field: own}) if field else payload
        self._events += self._decoders[0].feed(frame(part) if frame else part)

    def _end(self) -> None:
        self._over = True
        self._events += self._decoders[0].close()
        self._undelivered += [(number, decoder.close()) for number, decoder in self._decoders.items() if number]

    def _drain(self) -> list[Event]:
        events = super()._drain()
        self._has_content = self._has_content or any(not isinstance(event, _BEFORE_CONTENT) for event in events)
        if self._has_content:
            batches, self._undelivered = self._undelivered, []
            for number, batch in filter(itemgetter(1), batches):
                self._deliver(number, batch)
        return events
