"""Measure how soon `Scanner` emits a call in each dialect: characters between what is written and what is emitted.

`python scripts/streaming_delays.py` prints the table in docs/parsing.md, which `make docs` writes.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from toolspeak import CallArgs, CallStart, Scanner, Tool, ToolCall, render_calls
from toolspeak.dialects.registry import DIALECTS

MEASURED = "18 November 2026"
#: A long argument without characters that any dialect escapes.
TEXT = " ".join(["The clocks were striking thirteen"] * 12)
NAME, KEY = "save_text", "body"


class Delays(NamedTuple):
    """Characters that were read between a part of the call and its event."""

    name: int
    #: The first character of the argument, and the slowest of the others.
    first: int
    others: int


def measure(dialect: str, schema: dict[str, Any] | None = None) -> Delays:
    """Feed a call with one long argument to a scanner for this dialect, character by character."""
    parameters = {"type": "object", "properties": {KEY: schema or {"type": "string"}}}
    scanner = Scanner([Tool(NAME, parameters=parameters)], dialect)
    text = render_calls(dialect, [ToolCall(NAME, {KEY: TEXT})])
    name_end, value_start = text.index(NAME) + len(NAME), text.index(TEXT)
    name, delays, fragments = len(text), list[int](), ""
    before = len(f'{{"{KEY}":"')
    for size, char in enumerate(text, 1):
        for event in scanner.feed(char):
            if isinstance(event, CallStart):
                name = size - name_end
            elif isinstance(event, CallArgs):
                fragments += event.fragment
        emitted = min(len(fragments) - before, len(TEXT))
        delays += [size - (value_start + index + 1) for index in range(len(delays), emitted)]
    delays += [len(text)] * (len(TEXT) - len(delays))  # emitted only at the end of the answer
    return Delays(name, delays[0], max(delays[1:]))


def streaming_table() -> str:
    """The delays in each dialect, as a table in Markdown."""
    rows = [f"| `{name}` | {delays.name} | {delays.first} | {delays.others} |" for name, delays in measured()]
    heading = f"Measured on {MEASURED} with the tool name `{NAME}` and the argument `{KEY}`, in characters:"
    head = ["| dialect | name | first character of the argument | each further one |", "|---|---|---|---|"]
    return "\n".join([heading, "", *head, *rows])


def measured() -> list[tuple[str, Delays]]:
    """The delays of every dialect."""
    return [(name, measure(name)) for name in DIALECTS]


if __name__ == "__main__":
    sys.stdout.write(streaming_table() + "\n")
