"""Helpers that cut texts into chunks and join events again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hypothesis import strategies as st

from toolspeak.core.events import CallArgs, Event, ReasoningDelta, TextDelta


def joined(events: Iterable[Event]) -> list[Event]:
    """Adjacent pieces of one text, or of the arguments of one call, as one."""
    out: list[Event] = []
    for event in events:
        match out[-1:], event:
            case [TextDelta(before)], TextDelta(text):
                out[-1] = TextDelta(before + text)
            case [ReasoningDelta(before)], ReasoningDelta(text):
                out[-1] = ReasoningDelta(before + text)
            case [CallArgs(first, before)], CallArgs(second, text) if first == second:
                out[-1] = CallArgs(first, before + text)
            case _:
                out.append(event)
    return out


def cut(text: str, places: Iterable[int]) -> list[str]:
    """The text in pieces, some of them perhaps empty."""
    at = sorted(place % (len(text) + 1) for place in places)
    return [text[a:b] for a, b in zip([0, *at], [*at, len(text)], strict=True)]


#: Where to cut a text of whatever length.
PLACES: st.SearchStrategy[Sequence[int]] = st.lists(st.integers(0, 10_000), max_size=8)
#: Any text that Python can hold, halves of surrogate pairs included.
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
