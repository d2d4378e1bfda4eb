"""What an MCP server offers, as a person reads it: what is new, what is gone, and the lines that have changed.

All of it is a stranger's text, which asks to be trusted. So nothing of it is left out, and characters that nobody would
see are written as what they are.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from difflib import unified_diff
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from ..config import shown_url

if TYPE_CHECKING:
    from ..tools.mcp.approved_definitions import Definition
    from ..tools.mcp.config import McpServer
    from ..tools.mcp.servers import Review

#: Lines that are compared; comparing takes time by the square of their number, and a definition has some dozen.
_MOST_COMPARED = 2000
#: Letters and signs that look like nothing at all; with them, selectors of a variation (see `_is_seen`).
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0") | frozenset(map(chr, range(0xE0100, 0xE01F0)))
#: Lines around a change.
_AROUND = 2


def shown(text: str) -> str:
    """A text with everything that is in it: what a terminal would obey or hide is written as its number."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if _is_seen(char) else f"\\u{{{ord(char):x}}}" for char in text)


def _is_seen(char: str) -> bool:
    return char == "\n" or (char.isprintable() and char not in _BLANK and not "\ufe00" <= char <= "\ufe0f")


def place(server: McpServer) -> str:
    """Where a server is; what may be a key in a URL is not told."""
    return shown_url(server.url.partition("?")[0]) or shlex.join([server.command, *server.args])


def standing(review: Review) -> str:
    """How what a server offers stands to what was approved, in one line."""
    verdict, count = review.verdict, len(review.offered)
    tools = f"{count} tool" if count == 1 else f"{count} tools"
    if verdict.first:
        return f"{tools}, nothing approved yet"
    kinds = {"changed": verdict.changed, "new": verdict.added, "gone": verdict.gone}
    told = [f"{len(found)} {kind}" for kind, found in kinds.items() if found]
    return f"{tools}, {', '.join(told)} since the server was approved" if told else f"{tools}, as approved"


def review_lines(review: Review, *, everything: bool = False) -> Iterator[str]:
    """All that somebody has to see who is asked to approve a server; with `everything`, also what was approved."""
    verdict = review.verdict
    yield f"{shown(review.server.name)} ({shown(place(review.server))}): {standing(review)}"
    for each in verdict.unchanged:
        yield f"  {shown(each.name)}: as approved"
        if everything:
            yield from _indented("  ", _told(each))
    for each in verdict.changed:
        yield f"~ {shown(each.name)}: changed"
        yield from _changes(verdict.before.get(each.name), each)
    for each in verdict.added:
        yield f"+ {shown(each.name)}: {'not approved yet' if verdict.first else 'new'}"
        yield from _indented("+ ", _told(each))
    for name in verdict.gone:
        yield f"- {shown(name)}: gone"


def _told(definition: Definition) -> list[str]:
    """What the model is told of a tool, line by line."""
    ordered = msgspec.json.encode(definition.schema, order="sorted")
    whole = f"{definition.description}\nparameters: {msgspec.json.format(ordered, indent=2).decode()}"
    return shown(whole).split("\n")


def _changes(before: Definition | None, after: Definition) -> Iterator[str]:
    new = _told(after)
    old = _told(before) if before is not None else []
    if before is None or len(old) + len(new) > _MOST_COMPARED:
        yield f"    ({'it is too long to be compared' if before else 'what was approved was not kept'}; it is now)"
        yield from _indented("+ ", new)
        return
    # The first two lines name files. All others but those that say where they are begin with what became of them.
    compared = islice(unified_diff(old, new, lineterm="", n=_AROUND), 2, None)
    yield from ("    ..." if line.startswith("@@") else f"    {line[:1]} {line[1:]}" for line in compared)


def _indented(mark: str, lines: Iterable[str]) -> Iterator[str]:
    return (f"    {mark}{line}" for line in lines)
