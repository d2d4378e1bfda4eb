"""Calls that count only if nothing but calls follows them, and the text held back until that is known.

Weak evidence, such as a JSON block without marks of its own, is a call only where the model stopped to wait for the
result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from .call_builder import CallBuilder
from .dialect_interface import MarkTable
from .tags import MORE, lex_head, read_head

#: White space and punctuation that may still follow a call that must end the answer.
MAX_TAIL = 4096
_TAIL = re.compile(r"[\s.,;:!?)\]}*_`~\"']*").fullmatch
_BLANK = re.compile(r"[ \t\r\n\u00a0]+").match


def behind_last(buf: str, pos: int, final: bool, table: MarkTable) -> int:
    """Behind white space, or behind a token that ends an answer; `pos` when neither is there, or MORE."""
    blank = _BLANK(buf, pos)
    if blank is not None:
        return blank.end()
    if buf[pos] != "<":
        return pos
    head = lex_head(buf, pos)
    end = pos + len(head)
    if end == len(buf) and not final and table.may_become_tag(read_head(head)[0]):
        return MORE
    meaning = table.meaning(head)
    is_last = meaning is not None and meaning[0] == "last" and buf.startswith(">", end)
    return end + 1 if is_last else pos


class _Tail(msgspec.Struct):
    builders: list[CallBuilder]
    raw: str


class Tails(list[_Tail]):
    """What waits for the end of the answer, in order. Empty: nothing does."""

    def __init__(self) -> None:
        super().__init__()
        self._size = 0

    @property
    def last(self) -> str:
        """The last character that is held."""
        return self[-1].raw[-1:]

    def add(self, builders: list[CallBuilder], raw: str) -> None:
        """Calls that wait, and the text they stand in."""
        self.append(_Tail(builders, raw))

    def end_with_line(self, text: str) -> bool:
        """Whether `text` ends the line behind calls that need no more than that."""
        if "\n" not in text or not all(builder.line_is_enough for tail in self for builder in tail.builders):
            return False
        before, _, _ = text.partition("\n")
        return _TAIL(before) is not None and self._size + len(before) <= MAX_TAIL

    def hold(self, text: str) -> bool:
        """Hold text that may stand behind the calls; False when it may not."""
        self._size += len(text)
        if _TAIL(text) is None or self._size > MAX_TAIL:
            return False
        if self[-1].builders:
            self.add([], "")
        self[-1].raw += text  # one piece, however it came
        return True

    def take_back(self) -> str:
        """The text that was held behind the last call: it is part of a longer one."""
        return "" if self[-1].builders else self.pop().raw

    def resolve(self, answer_end: bool) -> Iterator[tuple[str, bool]]:
        """Decide everything that waits: the texts that are no calls, each with whether a candidate stood in it."""
        tails = self[:]
        self.clear()
        self._size = 0
        for tail in tails:
            calls = [builder.resolve_tail(answer_end) for builder in tail.builders]
            if not any(calls):
                yield tail.raw, bool(tail.builders)
