"""Reader of a call block: one or more calls in any format, then a closing mark.

Models combine opening marks and formats freely, so the first character that is not blank selects the format.
"""

import re

import msgspec

from ..core.json_repair.containers import MAX_SIZE
from ..core.json_repair.lookahead import LOOKAHEAD, always_matching, skip_spaces
from ..core.parsing.acceptance import Evidence
from ..core.parsing.arguments import to_json
from ..core.parsing.call_builder import CallBuilder
from ..core.parsing.context import ParseContext
from ..core.parsing.dialect_interface import REST_OF_ANSWER, Opening, Progress
from ..core.parsing.fast_paths import FastPath
from ..core.parsing.tags import MORE, Tag, lex_tag
from ..core.text import NAME_CHARS, NAME_START, TOOL_NAME
from ..core.types import JSONObject, ToolCall
from .body_grammars import MAX_SIGNATURE, BlockContext, Body, skip_nonce, word_for_nonce
from .dialect import Grammar
from .json_calls import JsonCalls, read_whole
from .mark_tables import mark_tables
from .named_calls import NamedCall
from .tag_calls import TagCalls
from .tag_names import BLOCK_TAGS, CALL_TAGS, META_TAGS, NOISE, REASONING_TAGS
from .tag_parameters import call_name
from .yaml_calls import YamlCall, yaml_ahead

#: Maximum nesting depth of block tags: `<tool_calls><tool_call>` is common, deeper nesting is not.
_MAX_NESTED = 2
#: Characters to buffer after a call to an unknown tool, because calls to known tools may follow in the same block.
MAX_UNKNOWN = 4096
#: Maximum length of reasoning inside a block.
_MAX_REASONING = 4096
_BLANK = always_matching(rf"[\s,;]{{0,{LOOKAHEAD + 1}}}")
_NEXT_NAME = rf"(?:{NAME_START}|\$)[{NAME_CHARS}$.:/-]{{0,127}}+\s{{0,8}}"
_NEXT_CALL = re.compile(_NEXT_NAME + r"(?:\(|\{|\[(?:ARGS|CALL_ID)\]|<(?:arg_key|tool_sep|[|｜]tool))").match
_NEXT_PARTIAL = re.compile(_NEXT_NAME + r"(?:\[[A-Z_]{0,7}|<[a-z_|｜]{0,8})?").match
#: Closing brackets that close nothing. Of square brackets, all but the last one.
_EXTRA_CLOSERS = re.compile(r"[})]+").match
_EXTRA_BRACKETS = re.compile(r"(?:\][\s,;]{0,64}+(?=\]))++").match
_FENCE = re.compile(r"`{3,6}[a-z]{0,12}").match
_LIST_OF_CALLS = re.compile(rf"\[\s{{0,64}}({TOOL_NAME})\(").match
_LIST_PARTIAL = re.compile(rf"\[\s{{0,64}}(?:{TOOL_NAME})?").match
_LIST_OF_OBJECTS = re.compile(r"\[\s{0,64}[{\[\]\"']").match
#: Where a block ends whose opening has no closing mark.
_LINE_END = ("\n",)
#: Call format by opening bracket.
_GRAMMARS = {"{": "object", "[": "list"}


class BlockReader:
    """Reads a block. `state` becomes `failed` if the block contains no call."""

    def __init__(self, opening: Opening, context: ParseContext, evidence: Evidence) -> None:
        self.state: Progress = "open"
        self.channel = ""
        self.closed = False
        self.due_closer = ""
        self.fence = ""
        self._block = BlockContext(context, evidence, opening.stops + opening.ends)
        self._opening = opening
        self._body: Body | None = None
        self._calls = 0
        self._block.in_list = opening.listed
        self._nested = 0  # depth of block tags inside the block
        self._grammar = ""  # the format of the calls so far
        self._inner: set[str] = set()  # block tags before the first call
        self._prose = 0  # characters of prose still allowed before the call
        self._room = 0  # characters left to buffer after an unknown call; 0 otherwise
        self._in_prefix = False  # the bracket of `print(` or similar code around a call is open
        self._nonce_due = context.nonce if evidence.nonce is False else None

    @property
    def builders(self) -> list[CallBuilder]:
        """The call candidates found in the block so far."""
        return self._block.builders

    def feed(self, buf: str, pos: int, final: bool) -> int:
        """Continue reading. Stop after each call, so the scanner can set a checkpoint."""
        while True:
            pos = self._read_unknown(buf, pos, final) if self._room else self._read_on(buf, pos, final)
            if not self._block.vain or self.state != "open":
                return pos
            self._block.vain = False
            self._room = MAX_UNKNOWN

    def _read_unknown(self, buf: str, pos: int, final: bool) -> int:
        """Continue after a call to an unknown tool, within a limit: a call to a known tool may follow."""
        limit = pos + self._room
        if len(buf) < limit:
            new = self._read_on(buf, pos, final)
            self._room -= new - pos
            return new
        calls_before = self._block.context.calls_seen
        new = pos + self._read_on(buf[pos:limit], 0, False)  # give up at the same position however the text is chunked
        if self.state != "open" or self._block.vain:
            return new
        if self.builders[-1].state == "rejected":
            return self._give_up(limit)
        self._room = 0
        return new if self._block.context.calls_seen > calls_before else self._read_on(buf, new, final)

    def _give_up(self, pos: int) -> int:
        """Reject the block, and let the scanner skip to its closing mark."""
        self.state = "failed"
        self.fence = next((stop for stop in self._opening.stops if stop[0] in "<`~"), "")
        self._settle()
        return pos

    def _read_on(self, buf: str, pos: int, final: bool) -> int:
        calls_before = self._block.context.calls_seen
        block = self._block
        while pos < len(buf) and self.state == "open" and block.context.calls_seen == calls_before and not block.vain:
            new = self._feed_body(self._body, buf, pos, final) if self._body else self._between(buf, pos, final)
            if new == MORE:
                break
            pos = new
        self._settle()
        return pos

    def finish(self) -> None:
        body = self._body
        if body is not None:
            body.finish()
            self._calls += body.state == "done"
        ended = body is None or body.state == "done"
        self.state = "done" if self._calls and ended else "failed"
        self.due_closer = self._due
        self._settle()

    def _settle(self) -> None:
        if self.state == "done":
            self._block.release()
        elif self.state == "failed":
            self._block.refuse()

    def fast_path(self) -> FastPath | None:
        return self._body.fast_path() if self._body is not None else None

    def _feed_body(self, body: Body, buf: str, pos: int, final: bool) -> int:
        new = body.feed(buf, pos, final)
        if body.state == "open":
            return new if new > pos else MORE
        self._body = None
        if body.state == "failed":
            if isinstance(body, NamedCall) and self._may_be_prose(body):
                self._prose = LOOKAHEAD
                return new
            self.state = "failed"
            self.fence = REST_OF_ANSWER if self._block.is_lost else ""
            return new
        return self._after_call(new)

    def _after_call(self, pos: int) -> int:
        self._calls += 1
        if self._opening.one_call and not self._block.in_list:
            self.state = "done"
        return pos

    def _may_be_prose(self, body: NamedCall) -> bool:
        """Whether this may be prose before the call, as in `<tool_call>Let me see: {...}`."""
        return not self._calls and not body.started and bool(self._opening.stops) and self._opening.wrapper == "strong"

    def _skip_prose(self, buf: str, pos: int, final: bool) -> int:
        """Skip prose before the call. It must end with a colon and a line break."""
        end = min(len(buf), pos + self._prose)
        at = buf.find("{", pos, end)
        if at < 0 and end == len(buf) and not final:
            return MORE
        if at < 0 or not buf[pos:at].rstrip(" \t").endswith(":\n"):
            return self._leave(pos)
        self._prose = 0
        return at

    def _between(self, buf: str, pos: int, final: bool) -> int:
        if self._prose:
            return self._skip_prose(buf, pos, final)
        at = _BLANK(buf, pos).end()
        if at - pos > LOOKAHEAD:
            return at
        if at == len(buf):
            return at if self._calls == 0 else MORE
        if self._nonce_due is not None:
            return self._nonce(buf, at, final)
        stop = self._stop(buf, pos, at, final)
        if stop or self.state != "open":
            return stop
        if self._calls and (self._opening.single or self._opening.name):
            return self._leave(pos, failed=self._opening.single)
        if self._is_barred(_grammar(buf[at])):
            return self._leave(pos)
        skipped = 0 if self._calls else _skip_words(self._opening.preamble, buf, at, final)
        return skipped or self._dispatch(buf, pos, at, final)

    def _is_barred(self, grammar: str) -> bool:
        """Whether to reject a call in this format: there are too many calls, or the nonce does not cover it."""
        return bool(grammar and self._block.context.full) or self._is_foreign(grammar)

    def _is_foreign(self, grammar: str) -> bool:
        """Whether a block with a nonce switches to another format. The nonce covers only the first one."""
        if not grammar or self._block.in_list:
            return False
        if not self._calls:
            self._grammar = grammar
        return self._block.evidence.nonce is True and grammar != self._grammar

    def _skip_prefix(self, buf: str, at: int, final: bool) -> int:
        """Skip code around a call, such as `print(`, unless a tool has that name. Returns 0 if there is none."""
        words = self._opening.call_prefix
        if self._in_prefix or self._block.context.knows(words.rstrip("(")):
            return 0
        after = _skip_words(words, buf, at, final)
        self._in_prefix = after > 0
        return after

    def _nonce(self, buf: str, at: int, final: bool) -> int:
        """Read the nonce after the opening mark."""
        nonce = self._nonce_due
        assert nonce is not None
        window = buf[at : at + MAX_SIGNATURE]
        whole = final or len(window) == MAX_SIGNATURE
        end = skip_nonce(window, 0, nonce)
        if not whole and end in (-1, len(window)):
            return MORE
        self._nonce_due = None
        if end > 0:
            self._block.evidence = msgspec.structs.replace(self._block.evidence, nonce=True)
            return at + end
        word = word_for_nonce(window, 0)  # a call with a miscopied nonce is rejected, but reported
        if word is None or self._block.context.knows(word[0]):
            return at
        self._block.evidence = msgspec.structs.replace(self._block.evidence, unmarked_counts=None)
        return at + word[1]

    def _stop(self, buf: str, pos: int, at: int, final: bool) -> int:
        """Read a literal closing mark. Returns MORE if the text is too short to tell, 0 if there is none."""
        for stop in self._opening.stops:
            if buf.startswith(stop, at):
                return self._close_block(buf, pos, at + len(stop), stop, final)
        rest = buf[at : at + 64]
        if not final and any(stop.startswith(rest) for stop in self._opening.stops):
            return MORE
        return 0

    def _close_block(self, buf: str, pos: int, end: int, stop: str, final: bool) -> int:
        """Close the block, even if it contains no call. A fence may be closed by more backticks than opened it."""
        if stop[0] in "`~":
            while buf[end : end + 1] == stop[0]:
                end += 1
            if end == len(buf) and not final:
                return MORE
            if buf[end : end + 1].isalpha():
                self._leave(pos)  # this is the start of the next fence
                self.due_closer = self._due
                return pos
        self.state = "done"
        self.closed = True
        return end

    def _dispatch(self, buf: str, pos: int, at: int, final: bool) -> int:
        char = buf[at]
        if self._opening.name:
            return self._begin(NamedCall(self._block, self._opening.name), at)
        if char == "{":
            return self._object(buf, at)
        if char == "[":
            return self._list(buf, at, final)
        if char == "<":
            return self._tag(buf, pos, at, final)
        if char == "]":
            return self._bracket(buf, pos, at, final)
        if char == "`":
            return self._fence(buf, pos, at, final)
        if (char.isalpha() or char in "_$") and self._opening.wrapper != "weak":
            return self._skip_prefix(buf, at, final) or self._word(buf, pos, at, final)
        if char in "})" and self._calls and (at == pos or self._in_prefix):
            return self._extra_closer(buf, at)
        return self._leave(pos)

    def _extra_closer(self, buf: str, at: int) -> int:
        """Read unmatched closing brackets, or the closing bracket of `print(...)` or similar code around the call."""
        if self._in_prefix:
            self._in_prefix = False
            return at + 1
        self._block.note_extra_closer()
        closers = _EXTRA_CLOSERS(buf, at)
        assert closers is not None
        return closers.end()

    def _object(self, buf: str, at: int) -> int:
        whole = 0 if self._opening.keyed else read_whole(self._block, buf, at, self._opening.single)
        return self._after_call(whole) if whole else self._begin(self._json_calls(), at)

    def _json_calls(self) -> JsonCalls:
        return JsonCalls(self._block, self._opening.single, self._opening.keyed)

    def _word(self, buf: str, pos: int, at: int, final: bool) -> int:
        """Begin a call with its name. After the first call, the word must be followed by arguments, or it is text."""
        is_yaml = bool(self._block.stops) and not self._calls and yaml_ahead(buf, at, final)
        if is_yaml is None:
            return MORE
        if is_yaml:
            return self._begin(YamlCall(self._block), at)
        if not self._calls or _NEXT_CALL(buf, at) is not None:
            return self._begin(NamedCall(self._block), at)
        partial = _NEXT_PARTIAL(buf, at)
        may_be_call = partial is not None and partial.end() == len(buf) and len(buf) - at < LOOKAHEAD
        return MORE if may_be_call and not final else self._leave(pos)

    def _begin(self, body: Body, at: int) -> int:
        self._body = body
        return at

    def _leave(self, pos: int, failed: bool = False) -> int:
        """End the block at text that is not a call."""
        self.state = "done" if self._calls and not failed else "failed"
        if self._due[:1] not in ("`", "~"):  # a fence may contain text after its call
            self.due_closer = self._due
        return pos

    @property
    def _due(self) -> str:
        """The expected closing mark; empty if the block has no calls or needs none."""
        return "".join(self._opening.stops[:1]) if self._calls and not self._opening.open_ended else ""

    def _list(self, buf: str, at: int, final: bool) -> int:
        call = _LIST_OF_CALLS(buf, at)
        if call is not None:
            self._block.in_list = True
            return call.start(1)
        partial = _LIST_PARTIAL(buf, at)
        if partial is not None and partial.end() == len(buf) and not final and len(buf) - at < LOOKAHEAD:
            return MORE
        inner = _LIST_OF_OBJECTS(buf, at)
        return self._leave(at) if inner is None else self._begin(self._json_calls(), at)

    def _bracket(self, buf: str, pos: int, at: int, final: bool) -> int:
        rest = buf[at : at + len(NOISE)]
        if rest == NOISE:
            return at + len(NOISE)
        if not final and len(rest) > 1 and NOISE.startswith(rest):
            return MORE
        if len(rest) == 1 and not final:
            return MORE
        if not self._block.in_list and not self._calls:
            return self._leave(pos)
        if not self._block.in_list:
            return self._extra_brackets(buf, at)
        self._block.in_list = False
        if self._opening.listed:
            self.state = "done"
        return at + 1

    def _extra_brackets(self, buf: str, at: int) -> int:
        """Read unmatched square brackets up to the last one, which may be the start of something else."""
        self._block.note_extra_closer()
        brackets = _EXTRA_BRACKETS(buf, at)
        return at + 1 if brackets is None else brackets.end()

    def _fence(self, buf: str, pos: int, at: int, final: bool) -> int:
        """Skip the marker of a code fence inside the block."""
        fence = _FENCE(buf, at)
        if fence is None or fence.end() == len(buf):
            short = len(buf) - at < 24
            return MORE if short and not final else self._leave(pos)
        return fence.end()

    def _tag(self, buf: str, pos: int, at: int, final: bool) -> int:
        tag = lex_tag(buf, at, final)
        if isinstance(tag, int):
            return MORE if tag == MORE else self._leave(pos)
        name = tag.name
        closing = buf.startswith("/", at + 1)
        if name in REASONING_TAGS:
            return self._leave(pos) if closing else self._skip_element(buf, name, at, tag.end, _MAX_REASONING, final)
        if name in mark_tables().separators and not (closing and self._calls):
            return tag.end
        if name in META_TAGS and not (closing or self._calls or self._block.context.knows(name)):
            return self._skip_element(buf, name, tag.end, tag.end, LOOKAHEAD, final)
        if tag.kind == "close" or name in mark_tables().block_closers:
            return self._closing_tag(tag)
        if self._opening.wrapper == "weak":
            return self._leave(pos)
        if name in CALL_TAGS and not tag.attributes and not tag.value and tag.kind == "open":
            ahead = _object_ahead(buf, tag.end, final)
            if ahead is None:
                return MORE
            if ahead:  # `<invoke>{json}</invoke>`
                self._nested += 1
                return tag.end
        return self._call_tag(name, pos, at, tag.end, bool(call_name(tag)))

    def _closing_tag(self, tag: Tag) -> int:
        """Read a closing tag. It closes the innermost block, whatever its name is."""
        if self._nested:
            self._nested -= 1
            return tag.end
        self.state = "done"
        if tag.name.startswith("|"):
            self.due_closer = self._due
        elif self._due not in ("", f"</{tag.name}>"):
            self._block.context.note("wrong_close_tag", f"found `</{tag.name[:64]}>` instead of `{self._due}`")
        return tag.end

    def _call_tag(self, name: str, pos: int, at: int, end: int, has_name: bool) -> int:
        if name in BLOCK_TAGS and not has_name:
            if self._is_unsigned(name):
                return self._leave(pos)
            opens_nested = not self._calls or f"</{name}>" not in self._opening.stops  # rather than the next block
            if self._opening.stops and self._nested < _MAX_NESTED and opens_nested:
                self._nested += 1
                return end
            return self._leave(pos)
        if (has_name or self._is_call(name)) and not self._is_barred(name if has_name else "tool"):
            return self._begin(TagCalls(self._block, lone=self._opening.at_mark), at)
        return self._leave(pos)

    def _is_unsigned(self, name: str) -> bool:
        """Whether a block tag first appears after a call, so the nonce does not cover it."""
        if not self._calls:
            self._inner.add(name)
        return self._block.evidence.nonce is True and name not in self._inner

    def _is_call(self, name: str) -> bool:
        """Whether a tag may be named after a tool. After the first call, the tool must be known."""
        if self._calls:
            return bool(self._block.context.knows(name))
        return not name.startswith("|")

    def _skip_element(self, buf: str, name: str, start: int, end: int, limit: int, final: bool) -> int:
        """Skip an element that is no call, up to `limit` characters from `start`. `end` is the end of its tag."""
        close = buf.find(f"</{name}>", end, start + limit)
        if close < 0:
            return MORE if not final and len(buf) - start < limit else self._leave(start)
        return close + len(name) + 3


def _skip_words(words: str, buf: str, at: int, final: bool) -> int:
    """Skip `words` at `at`. Returns MORE if the text is too short to tell, 0 if they are missing."""
    if not words:
        return 0
    rest = buf[at : at + len(words)]
    if rest == words:
        return at + len(words)
    return MORE if words.startswith(rest) and not final else 0


def _object_ahead(buf: str, at: int, final: bool) -> bool | None:
    """Whether a JSON object follows; None if more text is needed to tell."""
    at = skip_spaces(buf, at)
    return None if at == len(buf) and not final else buf.startswith("{", at)


def _grammar(char: str) -> str:
    """Return the call format that begins with `char`; empty for tags, closing marks and decoration."""
    return _GRAMMARS.get(char, "word" if char.isalpha() or char in "_$" else "")


# ---- grammars of plugins


class GrammarReader(BlockReader):
    """Reads a block whose text is in the own grammar of its dialect. Marks and the nonce are read as in any block."""

    def __init__(self, opening: Opening, context: ParseContext, evidence: Evidence, grammar: Grammar) -> None:
        super().__init__(opening, context, evidence)
        self._read = grammar

    def _dispatch(self, buf: str, pos: int, at: int, final: bool) -> int:
        return self._leave(pos) if self._calls else self._begin(_GrammarBody(self._block, self._read), at)


class _GrammarBody(Body):
    """Collects the text up to the closing mark, and takes the calls that the grammar finds in it."""

    def __init__(self, block: BlockContext, read: Grammar) -> None:
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
