"""Helpers for reply decoder tests: feed bytes in pieces, and make events comparable."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Protocol

import msgspec

from toolspeak.core.events import CallArgs, Event, Failure, ReasoningDelta, TextDelta

#: Other ways to write the same stream.
STYLES: dict[str, Callable[[bytes], bytes]] = {
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "CR": lambda data: data.replace(b"\n", b"\r"),
    "BOM": lambda data: b"\xef\xbb\xbf" + data,
    "no space": lambda data: data.replace(b"data: ", b"data:").replace(b"event: ", b"event:"),
    "blank lines first": lambda data: b"\n \n\n" + data,
}


class Decoder(Protocol):
    def feed(self, data: bytes, /) -> list[Event]: ...

    def close(self) -> list[Event]: ...


def joined(events: Iterable[Event]) -> list[Event]:
    """Adjacent deltas of one kind as one."""
    out: list[Event] = []
    for event in events:
        match out[-1] if out else None, event:
            case (TextDelta(before), TextDelta(text)):
                out[-1] = TextDelta(before + text)
            case (ReasoningDelta(before), ReasoningDelta(text)):
                out[-1] = ReasoningDelta(before + text)
            case (CallArgs(index, before), CallArgs(same, fragment)) if index == same:
                out[-1] = CallArgs(index, before + fragment)
            case _:
                out.append(event)
    return out


def fed(decoder: Decoder, reads: Iterable[bytes]) -> list[Event]:
    """All events of an answer that comes in these reads."""
    events = [event for data in reads for event in decoder.feed(data)]
    return joined(events + decoder.close())


def cut(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """The data in pieces that end at these places."""
    return [data[begin:end] for begin, end in pairwise([0, *cuts, len(data)])]


def ways(data: bytes, seed: str, times: int = 25) -> Iterator[list[bytes]]:
    """Ways to cut the data: byte by byte, and at random."""
    yield cut(data, range(1, len(data)))
    chance = random.Random(seed)
    for _ in range(times):
        yield cut(data, sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(1, 12))))


def with_bodies(events: Iterable[Event], size: int) -> list[Event]:
    """The events with this much of what a failure shows of the answer: enough to compare it by hand."""
    return [
        msgspec.structs.replace(event, body=event.body[:size]) if isinstance(event, Failure) else event
        for event in events
    ]
