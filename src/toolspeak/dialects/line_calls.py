"""Calls introduced by labels or headers: ReAct (`Action:` / `Action Input:`) and harmony channels."""

import re

import msgspec

from ..core.json_repair.lookahead import LOOKAHEAD, always_matching, begins, skip_spaces
from ..core.parsing.acceptance import Evidence
from ..core.parsing.call_builder import CallBuilder
from ..core.parsing.context import ParseContext
from ..core.parsing.dialect_interface import Opening, Progress
from ..core.parsing.fast_paths import FastPath
from ..core.parsing.tags import MORE, has_word
from ..core.text import NAME_CHARS, NAME_START, TOOL_NAME
from .body_grammars import ArgumentsBody, BlockContext, Steps, arguments_ahead, skip_nonce, word_for_nonce
from .named_calls import clean_name

#: Labels between the name and the arguments. A label comes before its own prefixes.
_LABELS = ("Action Input:", "**Action Input:**", "**Action Input**:", "✿ARGS✿:", "✿ARGS✿")
_NAME_LINE = always_matching(r"[^\n✿]*")
#: Maximum length of arguments written as a line of text.
_MAX_LINE = 16 * LOOKAHEAD
_GAP = always_matching(r"\s{0,64}")
_AROUND_NAME = " \t\r`*\"'[]:："
_TOOL = re.compile(TOOL_NAME).fullmatch
_WRAPPED = re.compile(rf"{NAME_START}[{NAME_CHARS}]{{0,63}}\((?=\{{)").match
_RECIPIENT = re.compile(rf"to=(?:functions\.)?([{NAME_CHARS}.-]{{1,128}})").search
#: The end of a header. Solar's header may also end where calls or reasoning begin.
_HEADER_END = re.compile(r"<\|(?:message|content)\|>|(?=<\|(?:tool_calls|think)\|>)").search
#: Recipients of text: the user, or the model itself, for its reasoning.
_NO_TOOLS = frozenset({"to=assistant", "to=user", "to=self"})
_PYTHON_CALL = re.compile(rf"{TOOL_NAME}(?=\()").match
#: A further call on the same line, as in `Call: f(a=1); g()`.
_NEXT_CALL = re.compile(rf"[ \t]{{0,4}}+;[ \t]{{0,4}}+({TOOL_NAME})(?=\()").match
_NEXT_CALL_PARTIAL = re.compile(rf"[ \t]{{0,4}}+(?:;[ \t]{{0,4}}+(?:{TOOL_NAME})?)?").fullmatch
#: A remark after the name, as in `search (to find it)`, and input in brackets, as in `search[cats]`.
_REMARK = re.compile(rf"({TOOL_NAME})[ \t]{{1,4}}\([^()]*\)").fullmatch
_BRACKETED = re.compile(rf"({TOOL_NAME})\[(.*)\]").fullmatch
_MAX_HEADER = 256


class LineReader(Steps):
    """Base of readers for one call that consists of a header and arguments."""

    state: Progress

    def __init__(self, context: ParseContext, evidence: Evidence, stops: tuple[str, ...]) -> None:
        super().__init__()
        self.channel = ""
        self.due_closer = ""
        self.fence = ""
        self.closed = True
        self._block = BlockContext(context, evidence, stops)
        self._inner: ArgumentsBody | None = None
        self._closer = ""  # the closing bracket or fence around the arguments

    @property
    def builders(self) -> list[CallBuilder]:
        return self._block.builders

    def fast_path(self) -> FastPath | None:
        return self._inner.fast_path() if self._inner is not None else None

    def finish(self) -> None:
        if self._inner is not None and self._inner.state == "open":
            self._inner.finish()
        if self._inner is not None and self._inner.state == "done":
            self.state = "done"
            return
        for builder in self.builders:
            builder.cut()
        self.state = "failed"

    def _fail(self, pos: int) -> int:
        for builder in self.builders:
            builder.fail("not_a_call")
        self.state = "failed"
        return pos

    def _read_arguments(self, inner: ArgumentsBody, buf: str, pos: int, final: bool) -> int:
        """Read the arguments, then an unmatched brace and the closing bracket or fence around them, if any."""
        if inner.state == "open":
            pos = self._feed_inner(inner, buf, pos, final)
            if self.state == "done":
                self.state = "open"  # a closing bracket or fence may follow
            return pos
        if buf[pos] == "}":
            self._block.note_extra_closer()
            return pos + 1
        at = _GAP(buf, pos).end()
        rest = buf[at : at + len(self._closer)]
        if rest != self._closer and self._closer.startswith(rest) and not final:
            return MORE
        return self._done(at + len(rest) if rest and rest == self._closer else pos)

    def _done(self, pos: int) -> int:
        self.state = "done"
        return pos


class ReactReader(LineReader):
    """Reads a ReAct call after `Action:`: a name, `Action Input:`, and JSON or a line of text."""

    def __init__(self, opening: Opening, context: ParseContext, evidence: Evidence) -> None:
        super().__init__(context, evidence, ("\nObservation:", "\n**Observation", "✿RESULT✿", "✿RETURN✿"))
        self._name = ""
        self._is_python = False
        self._builder: CallBuilder | None = None

    def _step(self, buf: str, pos: int, final: bool) -> int:
        if self._inner is not None:
            return self._next_call(buf, pos, final) or self._read_arguments(self._inner, buf, pos, final)
        if not self._name:
            return self._read_name(buf, pos, final)
        if self._builder is None:
            return self._read_label(buf, pos, final)
        return self._read_input(self._builder, buf, pos, final)

    def _read_name(self, buf: str, pos: int, final: bool) -> int:
        python = self._python_call(buf, pos)
        if python:
            return python
        line = _NAME_LINE(buf, pos, pos + LOOKAHEAD)
        if line.end() == pos + LOOKAHEAD:
            return self._fail(pos)
        if line.end() == len(buf) and not final:
            return MORE
        if self._block.context.final_answer:
            return self._fail(pos)
        written = self._unsigned(line.group())
        bracketed = _BRACKETED(written)
        if bracketed is not None and self._block.context.knows(bracketed[1]):
            return self._bracketed(bracketed[1], bracketed[2], line.end())
        remark = _REMARK(written)
        name = (remark[1] if remark is not None else written).strip(_AROUND_NAME)
        if _TOOL(name) is None:
            return self._fail(pos)
        self._name = name
        return line.end()

    def _bracketed(self, name: str, text: str, end: int) -> int:
        """Read `search[cats]`, a call whose input is the text in brackets. `search[query]` only names a parameter."""
        self._name = name
        builder = self._builder = self._block.builder()
        if self._block.context.schema(name).declares(text) or not builder.take_name(name, hold=True):
            return self._fail(end)
        if not text.startswith("{"):
            return self._line_input(builder, text, end)
        inner = ArgumentsBody(self._block, builder)
        inner.feed(text, 0, True)
        return self._done(end) if inner.state == "done" else self._fail(end)

    def _python_call(self, buf: str, pos: int) -> int:
        """Begin a call such as `click(x=1)`. Returns the position of its bracket, or 0."""
        at = skip_spaces(buf, pos)
        call = _PYTHON_CALL(buf, at)
        if call is None or "\n" in buf[pos:at] or not self._block.context.knows(call.group()):
            return 0
        self._name = call.group()
        self._block.evidence = msgspec.structs.replace(self._block.evidence, in_prose=True)
        self._builder = self._block.builder()
        if not self._builder.take_name(self._name):
            return self._fail(pos)
        self._is_python = True
        self._inner = ArgumentsBody(self._block, self._builder, call=True)
        return call.end()

    def _next_call(self, buf: str, pos: int, final: bool) -> int:
        """Begin a further call after a semicolon. Returns MORE if the text is too short to tell, 0 if there is none."""
        if not self._is_python or self._inner is None or self._inner.state == "open":
            return 0
        call = _NEXT_CALL(buf, pos)
        if call is None:
            is_partial = not final and _NEXT_CALL_PARTIAL(buf, pos) is not None
            return MORE if is_partial else 0
        if not self._block.context.knows(call[1]) or self._block.context.full:
            return 0
        return self._python_call(buf, call.start(1)) or self._fail(pos)

    def _unsigned(self, text: str) -> str:
        """Remove the nonce before the name, even if it was miscopied."""
        nonce = self._block.context.nonce
        text = text.strip()
        if nonce is None or self._block.evidence.nonce:
            return text
        end = skip_nonce(text, 0, nonce)
        if end > 0:
            self._block.evidence = msgspec.structs.replace(self._block.evidence, nonce=True)
            return text[end:]
        word = word_for_nonce(text, 0)
        if word is None or self._block.context.knows(text):
            return text
        self._block.evidence = msgspec.structs.replace(self._block.evidence, unmarked_counts=None)
        return text[word[1] :]

    def _read_label(self, buf: str, pos: int, final: bool) -> int:
        at = _GAP(buf, pos).end()
        label = next((label for label in _LABELS if buf.startswith(label, at)), "")
        if not label:
            return MORE if not final and begins(buf, at, _LABELS) is None else self._fail(pos)
        after = _GAP(buf, at + len(label)).end()
        if after == len(buf) and not final:
            return MORE
        self._builder = self._block.builder()
        if not self._builder.take_name(self._name, hold=True):
            return self._fail(pos)
        return after

    def _read_input(self, builder: CallBuilder, buf: str, pos: int, final: bool) -> int:
        wrapped = _WRAPPED(buf, pos)
        if wrapped is not None:
            self._closer = ")"
            return wrapped.end()
        if buf.startswith("```", pos):
            return self._read_fence(buf, pos)
        if buf.startswith(("`{", "`｛"), pos):
            self._closer = "`"
            return pos + 1
        if buf[pos] == "`" and len(buf) - pos < 3 and not final:
            return MORE
        ahead = arguments_ahead(buf, pos)
        if ahead is None:
            return MORE
        if ahead:
            builder.go_live()
            self._inner = ArgumentsBody(self._block, builder)
            return pos
        end = buf.find("\n", pos, pos + _MAX_LINE)
        if end < 0:
            end = len(buf)
            if end - pos >= _MAX_LINE or not final:
                return MORE if end - pos < _MAX_LINE else self._fail(pos)
        return self._line_input(builder, buf[pos:end].strip(), end)

    def _read_fence(self, buf: str, pos: int) -> int:
        """Open a code fence around the arguments."""
        eol = buf.find("\n", pos, pos + LOOKAHEAD)
        self._closer = "```"
        return eol + 1 if eol >= 0 else MORE if len(buf) - pos < LOOKAHEAD else self._fail(pos)

    def _line_input(self, builder: CallBuilder, text: str, end: int) -> int:
        schema = self._block.context.schema(self._name)
        strings = [name for name in schema.names if "string" in schema.property_types(name)]
        key = strings[0] if len(strings) == 1 else "input"
        builder.take_values({key: text} if text else {})
        return self._done(end)


class ChannelReader(LineReader):
    """Reads a harmony header. It opens a call if it names a function; otherwise it sets the channel of the text."""

    def __init__(self, opening: Opening, context: ParseContext, evidence: Evidence) -> None:
        super().__init__(context, evidence, ("<|call|>", "<|end|>"))

    def _step(self, buf: str, pos: int, final: bool) -> int:
        if self._inner is not None:
            return self._read_arguments(self._inner, buf, pos, final)
        evidence = self._block.evidence
        if evidence.in_fence or evidence.in_code:
            return self._fail(pos)
        mark = _HEADER_END(buf, pos, pos + _MAX_HEADER)
        if mark is None:
            return MORE if not final and len(buf) - pos < _MAX_HEADER else self._fail(pos)
        end = skip_spaces(buf, mark.end())
        if end == len(buf) and not final and end - mark.end() < LOOKAHEAD:
            return MORE  # the first character after the header decides
        is_marked = buf.startswith("<", end)
        return self._header(buf[pos : mark.start()], mark.end(), is_marked)

    def _header(self, header: str, end: int, is_marked: bool) -> int:
        """Read a header. `is_marked`: the text after it begins with a mark, so the header contains no call."""
        recipient = _RECIPIENT(header)
        nonce = self._block.context.nonce
        if nonce is not None and has_word(header, nonce):
            self._block.evidence = msgspec.structs.replace(self._block.evidence, nonce=True)
        is_code = "<|constrain|>code" in header
        if recipient is None or recipient.group() in _NO_TOOLS or is_code or is_marked:
            is_thought = header.rpartition("<|channel|>")[2].startswith("analysis") or "to=self" in header
            self.channel = "analysis" if is_thought else "final"
            return self._done(end)
        builder = self._block.builder()
        if not builder.take_name(clean_name(recipient.group(1))):
            return self._fail(end)
        self._inner = ArgumentsBody(self._block, builder)
        return end
