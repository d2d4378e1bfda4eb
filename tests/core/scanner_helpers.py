"""Helpers for scanner tests: tools, calls, and a short notation for events.

The notation: `say x`, `think x`, `start 0 f`, `args 0 {}` (all fragments of one chunk joined), `end 0`, `refuse 0`,
`judge f call accepted`, `note code`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from toolspeak import Reply, Scanner, fold
from toolspeak.core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Judged,
    Noted,
    ReasoningDelta,
    TextDelta,
)

FILE = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["content"],
}
TOOLS = [{"name": "f"}, {"name": "write_file", "parameters": FILE}]

OBJECT = '{"name":"f","arguments":{}}'
CALL = f"<tool_call>{OBJECT}</tool_call>"
FENCED = f"```json\n{OBJECT}\n```"
CALLED = ["start 0 f", "args 0 {}", "end 0", "judge f call accepted"]
CLOSE = None

Stream = list[tuple[str | None, list[str]]]


def brief(event: Event) -> str:
    match event:
        case TextDelta(text):
            return f"say {text}"
        case ReasoningDelta(text):
            return f"think {text}"
        case CallStart(index, name):
            return f"start {index} {name}"
        case CallArgs(index, fragment):
            return f"args {index} {fragment}"
        case CallEnd(index, valid):
            return f"end {index}" if valid else f"refuse {index}"
        case Judged(candidate):
            return f"judge {candidate.name} {candidate.verdict} {candidate.reason}"
        case Noted(note):
            return f"note {note.code}"
        case _:
            raise AssertionError(event)


def told(events: Iterable[Event]) -> list[str]:
    found: list[str] = []
    for is_args, group in groupby(map(brief, events), lambda each: each.startswith("args ")):
        each = list(group)
        found += [each[0] + "".join(more.split(" ", 2)[2] for more in each[1:])] if is_args else each
    return found


def scan(pieces: Iterable[str], **options: Any) -> list[Event]:
    reader = Scanner(**{"tools": TOOLS, **options})
    events = [event for piece in pieces for event in reader.feed(piece)]
    return events + reader.close()


def read(text: str, **options: Any) -> Reply:
    """The reply, which is the same whole and one character at a time."""
    reply = fold(scan([text], **options))
    assert fold(scan(text, **options)) == reply
    return reply


def why(reply: Reply) -> list[str]:
    return [f"{each.verdict} {each.reason}" for each in reply.candidates]


def codes(reply: Reply) -> list[str]:
    return [note.code for note in reply.notes]


def evidence(text: str, **options: Any) -> dict[str, Any]:
    reply = read(text, **{"policy": "eager", **options})
    assert len(reply.candidates) == 1
    return reply.candidates[0].evidence
