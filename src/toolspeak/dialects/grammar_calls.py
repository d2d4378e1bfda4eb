"""Calls in the own grammar of a dialect: a function reads the whole text between two marks."""

import re
from collections.abc import Callable, Sequence

import msgspec

from ..core.json_repair.containers import MAX_SIZE
from ..core.parsing.acceptance import Evidence
from ..core.parsing.arguments import to_json
from ..core.parsing.context import ParseContext
from ..core.parsing.dialect_interface import Opening
from ..core.parsing.tags import MORE
from ..core.types import JSONObject, ToolCall
from .body_grammars import BlockContext, Body
from .call_block import BlockReader
from .dialect import Grammar

#: Where a block ends whose opening has no closing mark.
_LINE_END = ("\n",)


class GrammarReader(BlockReader):
    """Reads a block whose text is in the own grammar of its dialect. Marks and the nonce are read as in any block."""

    def __init__(self, opening: Opening, context: ParseContext, evidence: Evidence, grammar: Grammar) -> None:
        super().__init__(opening, context, evidence)
        self._read = grammar

    def _dispatch(self, buf: str, pos: int, at: int, final: bool) -> int:
        return self._leave(pos) if self._calls else self._begin(_GrammarBody(self._block, self._read), at)


class _GrammarBody(Body):
    """Collects the text up to the closing mark, and takes the calls that the grammar finds in it."""

    def __init__(self, block: BlockContext, read: Callable[[str], Sequence[ToolCall]]) -> None:
        super().__init__(block)
        stops = block.stops or _LINE_END
        self._stop = re.compile("|".join(map(re.escape, stops))).search
        self._held = max(map(len, stops)) - 1  # characters that may be the beginning of a closing mark
        self._read = read
        self._parts: list[str] = []
        self._room = MAX_SIZE

    def _step(self, buf: str, pos: int, final: bool) -> int:
        stop = self._stop(buf, pos)
        end = stop.start() if stop is not None else len(buf) if final else max(pos, len(buf) - self._held)
        if end - pos > self._room:
            self.state = "failed"
            return pos + self._room
        self._room -= end - pos
        self._parts.append(buf[pos:end])
        if stop is not None:
            self._take("".join(self._parts))
        elif end == pos:
            return MORE
        return end

    def finish(self) -> None:
        """Fail: without its closing mark, the last value may be cut. Only a line may end with the answer."""
        if self.block.stops or self.block.context.cut:
            self.state = "failed"
        else:
            self._take("".join(self._parts))

    def _take(self, text: str) -> None:
        try:
            calls = [(call.name, _as_json(call)) for call in self._read(text)]
        except Exception as error:
            detail = f"the grammar of dialect `{self.block.evidence.dialect}` raised {type(error).__name__}"
            self.block.context.note("grammar_failed", detail)
            calls = []
        self.state = "done" if calls else "failed"
        for name, arguments in calls:
            builder = self.block.builder()
            if self.block.context.full or not builder.take_name(name):
                self.block.vain = True
                return
            builder.take_values(arguments)


def _as_json(call: ToolCall) -> JSONObject:
    """Return the arguments as plain JSON. Raises an exception if they are none."""
    return msgspec.json.decode(to_json(call.arguments), type=dict[str, object])
