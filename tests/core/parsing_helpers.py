"""How the tests of tolerant JSON read a text: whole, in chunks, with stop marks or as an argument list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from toolspeak.core.json_repair.parser import Transducer
from toolspeak.core.json_repair.tokens import Token, Writer

_LONGEST_NAME = 60


class Reading(NamedTuple):
    """Everything that must not depend on how the text was cut."""

    text: str
    status: str
    notes: tuple[Any, ...]
    end: int


def written(tokens: Iterable[Token]) -> str:
    writer = Writer()
    return "".join(map(writer.write, tokens))


def read(text: str, *, close: bool = False, **options: Any) -> Reading:
    """The text at once."""
    transducer = Transducer(**options)
    end = transducer.feed(text, 0, True)
    return _end(transducer, transducer.tokens, end, close)


def read_chunks(chunks: Iterable[str], *, close: bool = False, **options: Any) -> Reading:
    """The text as it streams: what was not read stands in front of the next chunk."""
    transducer = Transducer(**options)
    tokens: list[Token] = []
    unread, end = "", 0
    for chunk in chunks:
        buf = unread + chunk
        pos = transducer.feed(buf, 0, False)
        end += pos
        unread = buf[pos:]
        tokens += transducer.tokens
        transducer.tokens = []
    end += transducer.feed(unread, 0, True)
    return _end(transducer, tokens, end, close)


def _end(transducer: Transducer, tokens: list[Token], end: int, close: bool) -> Reading:
    if close:
        transducer.close_all()
    else:
        transducer.finish()
    if tokens is not transducer.tokens:
        tokens += transducer.tokens
    return Reading(written(tokens), transducer.status, transducer.notes, end)


def codes(reading: Reading) -> set[str]:
    return {note.code for note in reading.notes}


def names(rows: Iterable[tuple[Any, ...]]) -> list[str]:
    """What the cases of a table are called by: the text in front, with no backslash in it. pytest escapes a name that
    it is given once more when the same process collects again, as mutmut does, and then does not find it."""
    return [row[0].encode("unicode_escape").decode("ascii").replace("\\", "/")[:_LONGEST_NAME] for row in rows]
