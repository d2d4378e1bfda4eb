"""Positions of the candidates in the text of a recorded answer.

Positions are not tracked while an answer streams. Instead, the whole text is scanned again when a record is viewed.
This finds the same candidates, because chunk boundaries never change the result.
"""

from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from ...core.events import Candidate
from ...core.parsing.acceptance import REGION_REASONS, Policy
from ...core.parsing.call_builder import CallBuilder
from ...core.parsing.context import ParseContext
from ...core.parsing.scanner import TextScanner
from ...core.types import Tool
from ...dialects.marks import Marks

_NATIVE = "native"  # dialect name of native calls, which do not appear in the text
#: The dialect in which the whole answer is one document that contains all candidates.
_DOCUMENT = "envelope"
#: Limits for finding the ends of rejected candidates: characters per candidate, and number of candidates.
_WINDOW, _MAX_EXTENDED = 8192, 200


class Mark(msgspec.Struct, frozen=True):
    """A span of the text, with the indexes of the candidates in it."""

    start: int
    end: int
    candidates: tuple[int, ...]


class _CandidateBlock:
    def __init__(self, start: int, end: int, builders: Sequence[CallBuilder]) -> None:
        self.start = start
        self.end = end
        self.names = [builder.name for builder in builders]
        self.candidates: list[int] = []


def _find_blocks(text: str, tools: tuple[Tool, ...], policy: Policy, nonce: str | None) -> list[_CandidateBlock]:
    """Scan the whole text and return the blocks that contain candidates, in order."""
    blocks: list[_CandidateBlock] = []

    def add_block(start: int, end: int | None, builders: Sequence[CallBuilder]) -> None:
        if builders:
            blocks.append(_CandidateBlock(start, len(text) if end is None else end, builders))

    context = ParseContext(tools, policy, nonce)
    TextScanner(context, Marks(context), add_block).read_all(text)
    return blocks


def marks_in(
    text: str, candidates: Sequence[Candidate], tools: tuple[Tool, ...], policy: Policy, nonce: str
) -> tuple[Mark, ...]:
    """Return the spans of the candidates in the text, from left to right. Candidates not in the text are omitted."""
    in_text = [number for number, each in enumerate(candidates) if each.dialect != _NATIVE]
    if not in_text:
        return ()
    if all(candidates[number].dialect == _DOCUMENT for number in in_text):
        return (Mark(0, len(text), tuple(in_text)),)
    blocks = _find_blocks(text, tools, policy, nonce or None)
    _assign_candidates(blocks, in_text, candidates)
    used = [block for block in blocks if block.candidates]
    if not used:
        return ()
    # A span cannot extend beyond the start of the next one, so no text is scanned twice.
    limits = [*(block.start for block in used[1:]), len(text)]
    # The scan of a block in a place where calls are not accepted stopped after the name.
    truncated = [
        (block, limit)
        for block, limit in zip(used, limits, strict=True)
        if any(candidates[number].reason in REGION_REASONS for number in block.candidates)
    ]
    for block, limit in truncated[:_MAX_EXTENDED]:
        window = text[block.start : min(block.start + _WINDOW, limit)]
        block.end = max(block.end, block.start + _block_length(window, tools))
    return tuple(_to_marks(used))


def _assign_candidates(
    blocks: Sequence[_CandidateBlock], numbers: Sequence[int], candidates: Sequence[Candidate]
) -> None:
    """Assign each candidate to the first free block that contains its name."""
    free: dict[str, deque[_CandidateBlock]] = {}
    for block in blocks:
        for name in block.names:
            free.setdefault(name, deque()).append(block)
    for number in numbers:
        if matches := free.get(candidates[number].name):
            matches.popleft().candidates.append(number)


def _block_length(text: str, tools: tuple[Tool, ...]) -> int:
    """Return the length of the block at the start of the text, as if calls were accepted anywhere; 0 if none."""
    first = next(iter(_find_blocks(text, tools, "eager", None)), None)
    return first.end if first is not None and not first.start else 0


def _to_marks(blocks: Sequence[_CandidateBlock]) -> Iterator[Mark]:
    """Yield the spans of the blocks in order. An outer block ends where an inner one begins."""
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        end = block.end if following is None else min(block.end, following.start)
        if end > block.start:
            yield Mark(block.start, end, tuple(block.candidates))
