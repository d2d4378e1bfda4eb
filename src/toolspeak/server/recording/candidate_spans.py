"""Where the candidates of an answer stand in its text, found by reading the text once more.

Nothing is counted while an answer streams: how it is cut into pieces never changes what is found, so the same text
gives the same candidates when it is read as a whole, and their places. Only who looks at a record pays for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from ...core.events import Candidate
from ...core.parsing.acceptance import REGION_REASONS, Policy
from ...core.parsing.call_builder import CallBuilder
from ...core.parsing.dialect_interface import Opening
from ...core.parsing.scanner import Scanner
from ...core.types import Tool
from ...dialects.openings import Marks
from ...parsing import desk_for

#: Candidates that stand nowhere in the text: the upstream made them itself.
_NATIVE = "native"
#: The dialect whose candidates are parts of one document, which is the whole answer.
_DOCUMENT = "envelope"
#: How much of a rejected candidate is read for its end, and of how many.
_WINDOW, _MOST_WHOLE = 8192, 200


class Mark(msgspec.Struct, frozen=True):
    """A stretch of text, and the candidates (by their numbers) that were found there."""

    start: int
    end: int
    candidates: tuple[int, ...]


class _Block:
    """What one mark opened."""

    def __init__(self, start: int, builders: Sequence[CallBuilder]) -> None:
        self.start = start
        self.end = -1
        self.names = [builder.name for builder in builders]
        self.found: list[int] = []


class _Placer(Scanner):
    """A scanner that is given the whole text at once and remembers where each candidate began and ended."""

    def __init__(self, tools: tuple[Tool, ...], policy: Policy, nonce: str | None) -> None:
        desk = desk_for(tools, policy, nonce, ())
        super().__init__(desk, Marks(desk))
        self._start = 0
        self._blocks: list[_Block] = []

    def blocks(self, text: str) -> list[_Block]:
        """Every block that held candidates, in order."""
        self._unread = text
        self.close()
        for block in self._blocks:
            block.end = block.end if block.end >= 0 else len(text)
        return [block for block in self._blocks if block.names]

    def _open(self, opening: Opening, buf: str, pos: int, end: int, fence: str = "") -> int:
        self._start = pos
        return super()._open(opening, buf, pos, end, fence)

    def _read(self, buf: str, pos: int, final: bool) -> int:
        new = super()._read(buf, pos, final)
        if self._reader is None and self._blocks:
            self._blocks[-1].end = new
        return new

    def _end_reader(self) -> None:
        if self._reader is not None:
            self._blocks.append(_Block(self._start, self._reader.builders))
        super()._end_reader()


def marks_in(
    text: str, candidates: Sequence[Candidate], tools: tuple[Tool, ...], policy: Policy, nonce: str
) -> tuple[Mark, ...]:
    """The places of candidates in the text that they were found in, from left to right; what has none is left out."""
    sought = [number for number, each in enumerate(candidates) if each.dialect != _NATIVE]
    if not sought:
        return ()
    if all(candidates[number].dialect == _DOCUMENT for number in sought):
        return (Mark(0, len(text), tuple(sought)),)
    blocks = _Placer(tools, policy, nonce or None).blocks(text)
    _share_out(blocks, sought, candidates)
    told = [block for block in blocks if block.found]
    if not told:
        return ()
    # A mark ends where the next one begins, so no text is read for two of them.
    limits = [*(block.start for block in told[1:]), len(text)]
    cut = [(block, limit) for block, limit in zip(told, limits, strict=True) if _is_cut(block, candidates)]
    for block, limit in cut[:_MOST_WHOLE]:
        window = text[block.start : min(block.start + _WINDOW, limit)]
        block.end = max(block.end, block.start + _whole(window, tools))
    return tuple(_apart(told))


def _share_out(blocks: Sequence[_Block], sought: Sequence[int], candidates: Sequence[Candidate]) -> None:
    """Each candidate belongs to the first block with its name that no other one has taken."""
    free: dict[str, deque[_Block]] = {}
    for block in blocks:
        for name in block.names:
            free.setdefault(name, deque()).append(block)
    for number in sought:
        if holders := free.get(candidates[number].name):
            holders.popleft().found.append(number)


def _is_cut(block: _Block, candidates: Sequence[Candidate]) -> bool:
    """What is rejected for where it stands is read no further than its name; people want to see all of it."""
    return any(candidates[number].reason in REGION_REASONS for number in block.found)


def _whole(text: str, tools: tuple[Tool, ...]) -> int:
    """Where the block that the text begins with would end if it stood anywhere else."""
    first = next(iter(_Placer(tools, "eager", None).blocks(text)), None)
    return first.end if first is not None and not first.start else 0


def _apart(told: Sequence[_Block]) -> Iterator[Mark]:
    """Blocks with candidates, in order; where one stands in another, the outer one ends before it."""
    for block, following in zip(told, [*told[1:], None], strict=True):
        end = block.end if following is None else min(block.end, following.start)
        if end > block.start:
            yield Mark(block.start, end, tuple(block.found))
