"""Calls that begin with their name: `name(key="value")`, `name{...}`, `name[ARGS]{...}`, `name<arg_key>`.

The character after the name selects the argument format.
"""

import re

from ..core.json_repair.lookahead import LOOKAHEAD, always_matching, begins
from ..core.parsing.call_builder import CallBuilder
from ..core.parsing.fast_paths import FastPath
from ..core.parsing.tags import MORE, NO_TAG, lex_tag
from ..core.types import JSONValue, Note
from .body_grammars import BODY_NAME, ArgumentsBody, BlockContext, Body, arguments_ahead
from .tag_calls import TagCalls
from .tag_names import BLOCK_TAGS, CALL_ENDS

_NAME = re.compile(BODY_NAME).match
_SPACES = re.compile(r"[ \t]*").match
_BLANK = always_matching(r"(?:[ \t\r\n]|\\n)*")
_FENCE = re.compile(r"```[a-z]{0,12}[ \t]*\n?").match
_ATTRIBUTE = re.compile(r"""([\w.-]{1,64})=("[^"]*"|'[^']*'|[^\s"'<>=/]++)\s*""").match
#: Longest name that is separated from a key without a mark between them.
_MAX_SPLIT = 128
#: Maximum length of a tool name.
_MAX_NAME = 16 * LOOKAHEAD
#: Maximum number of characters between a name and the next tag.
_MAX_LINE = 4 * LOOKAHEAD
_INDEX = re.compile(r":\d{1,6}$").sub
#: Mistral's separators between a name and its arguments.
_ARGS = re.compile(r"(?:\[CALL_ID\][\w-]{1,64}+)?\[ARGS\]").match
_SEPARATORS = ("[ARGS]", "[CALL_ID]")
_CALL_ID_PARTIAL = re.compile(r"\[CALL_ID\][\w-]{0,64}+(?:\[[ARGS]{0,4}+)?").fullmatch
_SEPARATOR_TAGS = frozenset(
    {"tool_sep", "|tool_sep|", "|tool_call_argument_begin|", "|tool_call:args|", "|role_sep|", "|message|"}
)
#: GLM's first key behind a wrong tag.
_KEY_AFTER_TAG = re.compile(r"<tool_call>\s{0,8}([\w.-]{1,64}+)\s{0,8}</arg_key>").match
_KEY_AFTER_PARTIAL = re.compile(
    r"<tool_call>\s{0,8}+(?:[\w.-]{1,64}+\s{0,8}+(?:<(?:/(?:a(?:r(?:g(?:_(?:k(?:e(?:y>?)?)?)?)?)?)?)?)?)?)?\Z"
).match
_KEY_CLOSER = "</arg_key>"
#: GLM's first key without its opening tag, on the line after the name.
_KEY_ON_LINE = re.compile(rf"([\w.-]{{1,64}}+)\s{{0,8}}{_KEY_CLOSER}").match
#: Tags that may lack their `<`, and what precedes the name of the tool in them.
_BARE_TAGS = frozenset({"function", "invoke"})
_BARE_NAME = re.compile(r"(?:name)?=").match
#: A tag before the name. The word before it is the id of the call.
_NAME_MARK = "|tool_call:name|"
#: Labels that some models write before a separator tag, where others write the tool name.
_LABELS = frozenset({"function", "function call", "tool"})


def clean_name(raw: str) -> str:
    """Normalize a tool name: `functions.get_weather:0`, `call:get_weather` and `get_weather:` become `get_weather`."""
    name = raw.removeprefix("call:").removeprefix("functions.").removeprefix("default_api.").rstrip(":")
    name = _INDEX("", name)
    first, _, second = name.partition(":")
    return first if first == second else name


class NamedCall(Body):
    """Reads one call that begins with the tool name."""

    def __init__(self, block: BlockContext, name: str = "") -> None:
        super().__init__(block)
        self._builder: CallBuilder | None = None
        self._name = name
        self._raw = name
        self._inner: Body | None = None
        self._is_strong = block.evidence.wrapper == "strong"
        self._separated = self._has_id = False  # a separator or an id followed the name, so arguments must follow

    @property
    def started(self) -> bool:
        """Whether the first word turned out to be a tool name."""
        return self._builder is not None

    def _step(self, buf: str, pos: int, final: bool) -> int:
        if self._inner is not None:
            return self._feed_inner(self._inner, buf, pos, final)
        if not self._name:
            return self._read_name(buf, pos, final)
        return self._after_name(buf, pos, final)

    def finish(self) -> None:
        if self._inner is not None:
            self._inner.finish()
            self.state = self._inner.state
            return
        if self._name and self._is_strong and self._raw == self._name and self.block.context.knows(self._name):
            self._start().cut()
        self.state = "failed"

    def fast_path(self) -> FastPath | None:
        return self._inner.fast_path() if self._inner is not None else None

    def _fail(self, pos: int) -> int:
        self.state = "failed"
        return pos

    def _read_name(self, buf: str, pos: int, final: bool) -> int:
        match = _NAME(buf, pos)
        if match is None or match.end() - pos > _MAX_NAME:
            return self._fail(pos)
        if match.end() == len(buf) and not final:
            return MORE
        self._raw = match.group()
        self._name = clean_name(self._raw)
        return match.end()

    def _start(self) -> CallBuilder:
        if self._builder is None:
            self._builder = self.block.builder()
            self._builder.apart = self._has_id or self._raw.rpartition(":")[2].isdigit()  # the index of the call
            if not self._builder.take_name(self._name):
                goes_on = self._is_strong or self.block.in_list
                self.state = "failed" if self._builder.stops_region or not goes_on else self.state
                self.block.vain = True
        return self._builder

    def _after_name(self, buf: str, pos: int, final: bool) -> int:
        at = _BLANK(buf, pos).end()
        if at - pos >= LOOKAHEAD:
            return self._fail(pos)
        if at == len(buf):
            return MORE
        char = buf[at]
        if char == "(" and at == pos:
            return self._begin(ArgumentsBody(self.block, self._start(), call=True), at)
        if char == "{" or (self._is_strong and char in '｛"'):
            return self._object(buf, pos, at, final)
        if char == "<":
            return self._tag(buf, at, final)
        if char in "[`":
            return self._separator(buf, at, final)
        return self._unusual(buf, pos, at, final)

    def _begin(self, inner: Body, pos: int) -> int:
        if self.state == "open":
            self._inner = inner
        return pos

    def _object(self, buf: str, pos: int, at: int, final: bool) -> int:
        """Read an object. After a separator it may also be encoded as a JSON string."""
        ahead = arguments_ahead(buf, at) if buf[at] != '"' or self._separated else False
        if ahead is None:
            return MORE
        if not ahead:
            return self._unusual(buf, pos, at, final)
        return self._begin(ArgumentsBody(self.block, self._start()), at)

    def _separator(self, buf: str, at: int, final: bool) -> int:
        args = _ARGS(buf, at)
        if args is not None:
            self._separated, self._has_id = True, args.group() != "[ARGS]"
            return args.end()
        if not final and (begins(buf, at, _SEPARATORS) is None or _CALL_ID_PARTIAL(buf, at) is not None):
            return MORE
        fence = _FENCE(buf, at)
        rest = buf[at : at + 16]
        is_partial = rest.startswith("`") and len(rest) < 16
        if is_partial and not final and (fence is None or not rest.endswith("\n")):
            return MORE
        return self._fail(at) if fence is None else fence.end()

    def _tag(self, buf: str, at: int, final: bool) -> int:
        tag = lex_tag(buf, at, final)
        if isinstance(tag, int):
            return MORE if tag == MORE else self._fail(at)
        if tag.name == _NAME_MARK:
            self._name = ""
            return tag.end
        if tag.name in _SEPARATOR_TAGS and tag.kind == "open":
            if self._raw in _LABELS:
                return self._label(buf, tag.end, final)
            self._separated = True
            return tag.end
        key = _KEY_AFTER_TAG(buf, at) if tag.name in BLOCK_TAGS else None
        if key is not None or (tag.kind == "close" and tag.name == "arg_key"):
            return self._damaged_key(key, tag.end)
        if tag.kind == "close" or tag.name in CALL_ENDS or tag.name.startswith("|"):
            is_partial = tag.name in BLOCK_TAGS and not final and _KEY_AFTER_PARTIAL(buf, at) is not None
            return MORE if is_partial and len(buf) - at < LOOKAHEAD else self._no_arguments(at)
        return self._begin(TagCalls(self.block, self._start()), at)

    def _damaged_key(self, key: re.Match[str] | None, end: int) -> int:
        """Read a first key without its opening tag: `NAMEKEY</arg_key>` or `NAME<tool_call>KEY</arg_key>`."""
        name, written = self._split_name() if key is None else (self._name, key[1])
        if not written:
            return self._no_arguments(end)
        self._name = name
        builder = self._start()
        builder.note(Note("missing_open_tag", written[:64]))
        calls = TagCalls(self.block, builder)
        calls.take_key(written)
        return self._begin(calls, end if key is None else key.end())

    def _split_name(self) -> tuple[str, str]:
        """Split a word into the name of a tool and one of its parameters."""
        context, word = self.block.context, self._name
        for size in range(min(len(word), _MAX_SPLIT), 0, -1):
            if word[:size] in context.names and context.schema(word[:size]).declares(word[size:]):
                return word[:size], word[size:]
        return word, ""

    def _label(self, buf: str, pos: int, final: bool) -> int:
        """Read what follows a label: `function<sep>NAME` or a call in tags. In `function<sep>{...}` it is the name."""
        at = _BLANK(buf, pos).end()
        if at == len(buf) or at - pos >= LOOKAHEAD:
            return MORE if at - pos < LOOKAHEAD else self._fail(pos)
        if buf[at] == "<":
            tag = lex_tag(buf, at, final)
            return MORE if tag == MORE else self._fail(at) if tag == NO_TAG else self._begin(TagCalls(self.block), at)
        if buf[at] != "{":
            self._name = ""
        return at

    def _no_arguments(self, at: int) -> int:
        """End a call without arguments, whose block closes right after the name."""
        if not self._is_strong:
            return self._fail(at)
        self._finish_with({})
        return at

    def _finish_with(self, arguments: dict[str, JSONValue]) -> None:
        builder = self._start()
        if self.state == "open":
            builder.take_values(arguments)
            self.state = "done"

    def _unusual(self, buf: str, pos: int, at: int, final: bool) -> int:
        """Read forms accepted only in an explicit call block: `name>text`, `name key="value"`, `function=name>`."""
        if not self._is_strong:
            return self._fail(pos)
        if self._raw in _BARE_TAGS and _BARE_NAME(buf, at) is not None:
            return self._bare_tag(buf, at, final)
        end = buf.find("<", at, at + _MAX_LINE)
        if end < 0:  # the text may have been truncated
            return MORE if len(buf) - at < _MAX_LINE else self._fail(pos)
        if buf[at] == ">" and at == pos:
            return self._shorthand(buf[at + 1 : end].strip(), end)
        key = _KEY_ON_LINE(buf, at)
        if key is not None and at > pos:
            return self._damaged_key(key, end)
        if _KEY_CLOSER.startswith(buf[end:]) and not final:
            return MORE
        if buf[at].isalpha() and at > pos:
            return self._attributes(buf, at, end)
        return self._fail(pos)

    def _bare_tag(self, buf: str, at: int, final: bool) -> int:
        """Read `function=name>` or `invoke name="name">`, a tag that lacks its `<`."""
        end = buf.find(">", at, at + LOOKAHEAD)
        if end < 0:
            return MORE if not final and len(buf) - at < LOOKAHEAD else self._fail(at)
        after = _BLANK(buf, end + 1).end()
        if after == len(buf) and not final:
            return MORE
        if not buf.startswith("<", after):  # the tag is only mentioned
            return self._fail(at)
        self._name = clean_name(buf[at:end].partition("=")[2].strip(" \t\"'"))
        return self._begin(TagCalls(self.block, self._start()), end + 1)

    def _shorthand(self, text: str, end: int) -> int:
        """Read `shell>uname -a`: the text is the tool's only string argument."""
        schema = self.block.context.schema(self._name)
        strings = [name for name in schema.names if "string" in schema.property_types(name)]
        key = strings[0] if len(strings) == 1 else "command" if not schema.names else ""
        if not key or not text:
            return self._fail(end)
        lines = [line.partition(": ") for line in text.splitlines() if line.strip()]
        has_keys = len(lines) > 1 and all(colon for _, colon, _ in lines)
        builder = self._start()
        builder.note(Note("shorthand"))
        self._finish_with({name: value for name, _, value in lines} if has_keys else {key: text})
        return end

    def _attributes(self, buf: str, at: int, end: int) -> int:
        arguments: dict[str, JSONValue] = {}
        while at < end:
            match = _ATTRIBUTE(buf, at, end)
            if match is None:
                break
            written = match.group(2)
            arguments[match.group(1)] = written[1:-1] if written[0] in "\"'" else written
            at = match.end()
        if not arguments or buf[at:end].strip(" \n/>"):
            return self._fail(at)
        self._finish_with(arguments)
        return end
