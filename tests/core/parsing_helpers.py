"""Helpers for JSON repair tests: read a text whole, in chunks, with stop marks or as an argument list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from toolspeak.core.json_repair.parser import JSONParser
from toolspeak.core.json_repair.tokens import Token, Writer

_LONGEST_NAME = 60


class Reading(NamedTuple):
    """Everything that must not depend on the chunk boundaries."""

    text: str
    status: str
    notes: tuple[Any, ...]
    end: int


def written(tokens: Iterable[Token]) -> str:
    writer = Writer()
    return "".join(map(writer.write, tokens))


def read(text: str, *, close: bool = False, **options: Any) -> Reading:
    """Parse the whole text at once."""
    parser = JSONParser(**options)
    end = parser.feed(text, 0, True)
    return _end(parser, parser.tokens, end, close)


def read_chunks(chunks: Iterable[str], *, close: bool = False, **options: Any) -> Reading:
    """Parse the text chunk by chunk; unread text is prepended to the next chunk."""
    parser = JSONParser(**options)
    tokens: list[Token] = []
    unread, end = "", 0
    for chunk in chunks:
        buf = unread + chunk
        pos = parser.feed(buf, 0, False)
        end += pos
        unread = buf[pos:]
        tokens += parser.tokens
        parser.tokens = []
    end += parser.feed(unread, 0, True)
    return _end(parser, tokens, end, close)


def _end(parser: JSONParser, tokens: list[Token], end: int, close: bool) -> Reading:
    if close:
        parser.close_all()
    else:
        parser.finish()
    if tokens is not parser.tokens:
        tokens += parser.tokens
    return Reading(written(tokens), parser.status, parser.notes, end)


def codes(reading: Reading) -> set[str]:
    return {note.code for note in reading.notes}


def names(rows: Iterable[tuple[Any, ...]]) -> list[str]:
    """Ids for the cases of a table: their text, without backslashes.

    pytest escapes ids again when the same process collects twice, as mutmut does, and then does not find them.
    """
    return [row[0].encode("unicode_escape").decode("ascii").replace("\\", "/")[:_LONGEST_NAME] for row in rows]
