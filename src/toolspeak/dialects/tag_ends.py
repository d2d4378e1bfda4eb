"""Where a value between tags ends.

A value may be a file that contains tags of calls, so a tag ends it only in the grammar of its own call:

- its own closing tag, if what follows can follow there: another parameter, or the closing tags of the call;
- a closing tag of the call, if the value's own is missing and the answer ends there;
- at the start of a line, the opening tag of a parameter that the tool declares and the call does not have yet.

Only the first of these is regular. The others, and a closing tag with another name, are repairs with a note. Calls
quoted in a value are skipped: their tags are counted, so their closing tags do not end the value.
"""

import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from ..core.json_repair.containers import Allowance
from ..core.json_repair.lookahead import LOOKAHEAD, Tristate, always_matching
from ..core.parsing.call_builder import CallBuilder
from ..core.parsing.tags import MORE, NO_TAG, Tag, lex_head, lex_name, lex_tag
from ..core.schema.argument_schema import ArgumentSchema
from .tag_names import (
    ANSWER_ENDS,
    BLOCK_TAGS,
    CALL_ENDS,
    CALL_TAGS,
    CONTAINER_TAGS,
    INLINE_BLOCKS,
    KEY_ATTRIBUTES,
    NOISE,
    PARAMETER_TAGS,
    REASONING_TAGS,
    RESULTS,
)

#: What follows a closing tag: another parameter; another call, after the closing tag of this one or without it; the end
#: of the answer; after all closing tags of the call and its block, text on a new line, on the same line or without a
#: space; or anything else, so that the tag belongs to the value.
_Follows = Literal["parameter", "call", "call_too_early", "end", "line", "same_line", "glued", "text"]
#: Levels of closing tags, from the inside to the outside. Each must be outside the one before it.
_PARAMETER, _CONTAINER, _CALL, _BLOCK, _BLOCKS, _MESSAGE = range(6)
_PAIR_TAGS = frozenset({"arg_key", "arg_value"})
_PLURALS = frozenset({"tool_calls", "function_calls", "tools"})
_BLANK = always_matching(r"[\s,]*")
#: What may follow a parameter besides tags: the end of a code block, of a CDATA section, or of an unclosed tag.
_OTHER_ENDS = ("```", "]]>", "/>")
#: The beginning of a code fence.
FENCE = re.compile(r"```[a-z]{0,12}+").match
_SHORT_ELEMENTS = always_matching(r"(?:\s{0,16}+<[^<>/][^<>]{0,64}>[^<]{0,128}</[^<>]{1,64}>)*")
_KEY_ELEMENT = re.compile(r"<[^<>]{1,64}>\s{0,16}([^<>]{1,64}?)\s{0,16}</").match
_LINE_END = re.compile(r"[ \t\r]{0,16}\n").match
_CALL_OPENING = re.compile(
    r"<(?:[^<>/\s]{0,24}?(?:tool_call|function|invoke)|\|open\|>(?:call|tools)\b|[|｜]DSML[|｜]\s?(?:calls|invoke)\b)"
).search
#: Characters after an unusual end of a value within which the answer must end.
_FAR = 4096
_LINE_START = re.compile(r"(?:.*\n)?[ \t]*\Z", re.DOTALL).match
_NO_LETTERS = re.compile(r"[^A-Za-z0-9]").sub
#: Kimi K3 writes out whether a tag opens or closes.
_LONG_HEADS = ("<|open|", "<|close|")
_LONG_PREFIX = "|"


class ValuePlace(msgspec.Struct):
    """Properties of the call that a value belongs to."""

    builder: CallBuilder
    schema: ArgumentSchema
    #: Remaining number of values that the answer may contain.
    allowance: Allowance
    #: Name of the tag that opened the call.
    own: str = ""
    #: Whether every tag inside the call is a key.
    markup: bool = False
    #: Whether keys and values are in separate tags.
    pairs: bool = False
    #: Name of the tag that opened the block around the call; empty if there is none.
    block: str = ""
    #: Whether the call has a closing tag. Without one, any text may follow its parameters.
    closes: bool = True
    #: Whether MiniMax's tag prefix precedes the tags of the call.
    noise: bool = False
    #: Whether the argument object has been started for a streamed value.
    opened: bool = False
    #: Whether keys are written as `<parameter=KEY>`, so `<parameter name="KEY">` is not the next parameter.
    equals: bool = False
    #: Whether opening tags never end a value, because a nonce is required or the policy is strict.
    guarded: bool = False
    #: Whether the tools are unknown. Any key and any call may then end an unclosed value, because no call runs.
    open_ended: bool = False
    #: Whether the tool has side effects.
    side_effects: bool = False
    #: Whether a name is one of the tools.
    is_tool: Callable[[str], bool | None] = bool
    #: The keys that the call has so far.
    keys: set[str] = msgspec.field(default_factory=set[str])

    @property
    def trims_lines(self) -> bool:
        """Whether the line breaks next to the tags do not belong to the value, as in the templates of these models."""
        return (self.equals and self.block not in INLINE_BLOCKS) or self.markup


def tag_prefix(buf: str, at: int, name: str) -> str:
    """Return the letters before or after the name of the tag at `at`, such as those of its namespace."""
    return _prefix(lex_head(buf, at), name)


@lru_cache(maxsize=128)
def _prefix(head: str, name: str) -> str:
    return _LONG_PREFIX if head in _LONG_HEADS else _NO_LETTERS("", head.replace(name, "", 1))


def skip_blank(buf: str, pos: int, final: bool) -> int:
    """Return the position after white space, commas and MiniMax's tag prefix; MORE if more text is needed."""
    while True:
        pos = _BLANK(buf, pos).end()
        if not buf.startswith(NOISE[0], pos):
            return pos
        if buf.startswith(NOISE, pos):
            pos += len(NOISE)
            continue
        return MORE if not final and NOISE.startswith(buf[pos : pos + len(NOISE)]) else pos


def key_of(tag: Tag) -> str:
    """Return the key in the tag of a parameter, such as `<parameter=KEY>`; empty if there is none."""
    return tag.value or next((tag.attributes[name] for name in KEY_ATTRIBUTES if name in tag.attributes), "")


def _is_other_end(buf: str, at: int, final: bool) -> Tristate:
    """Whether the text at `at` is one of `_OTHER_ENDS`. None: more text is needed to tell."""
    if buf.startswith(_OTHER_ENDS, at):
        return True
    rest = buf[at : at + 3]
    return None if not final and len(rest) < 3 and any(end.startswith(rest) for end in _OTHER_ENDS) else False


class _Closed(NamedTuple):
    """The closing tags before a text."""

    #: Level of the last one.
    level: int
    #: What a text after them means.
    after: _Follows
    #: Whether a tag of another grammar is among them.
    is_foreign: bool
    #: Whether the value's own closing tag comes first.
    is_own: bool
    #: Whether a token that ends answers ends this one, even if text follows it.
    ends_by_token: bool


def _ends_answer(tag: Tag) -> bool:
    """Whether a tag is a special token, which ends the calls or the answer."""
    return tag.name.startswith("|") or tag.name in ANSWER_ENDS or (tag.name == "s" and tag.kind == "close")


def _gap(blank: str) -> _Follows:
    """Return how the text after a call is separated from it."""
    return "glued" if not blank else "line" if "\n" in blank else "same_line"


def _goes_far(buf: str, pos: int, closer: str, final: bool) -> Tristate:
    """Whether the value may go on, unless the answer ends soon without its closing tag. None: more text is needed."""
    if buf.find(closer, pos, pos + _FAR) >= 0 or len(buf) - pos >= _FAR:
        return True
    return False if final else None


class ValueEnd:
    """Finds the tag that ends one value.

    `closer` and `prefix`: the name and the namespace of its opening tag. Without a `closer`, the value has no closing
    tag, and the next tag of the call ends it.
    """

    def __init__(self, place: ValuePlace, closer: str, prefix: str) -> None:
        self._place = place
        self._closer = closer
        self._opener = "arg_key" if place.pairs else closer  # the tag with which the next parameter begins
        self._prefix = prefix
        #: Whether the value begins on a line of its own, so that its closing tag begins a line.
        self.apart = False
        #: Whether the value contains a line break.
        self.has_lines = False
        #: Whether the value may have ended earlier: it contains its own closing tag, or another call begins in it.
        self.has_closer = False
        #: Whether the value, which has several lines, may contain its closing tag and a parameter of another call: the
        #: tool does not declare the key that follows.
        self.is_ambiguous = False
        #: Whether the value contains what may have been another parameter of the call.
        self.is_doubtful = False
        self._passed_parameter = False  # a closing tag in a quoted call was followed by a parameter
        #: The number of open tags in quoted calls, by name: of all tags, and of those at the start of a line.
        self._quoted: tuple[Counter[str], Counter[str]] = (Counter(), Counter())

    def at(self, buf: str, pos: int, line_start: bool, final: bool) -> Tag | int:
        """Return the tag at `pos` if it ends the value, NO_TAG if it is text, or MORE."""
        name, closing, end = lex_name(buf, pos)
        if end == len(buf) and not final and len(buf) - pos < LOOKAHEAD:
            return MORE
        if name not in ("|close|", "|open|") and not self._concerns(name, closing, line_start):
            return NO_TAG
        tag = lex_tag(buf, pos, final)
        if isinstance(tag, int) or not self._closer:
            return tag
        if tag.kind == "close":
            ends = self._closes(buf, pos, tag, line_start, final)
        else:
            ends = line_start and self._is_next(buf, pos, tag, final)
        return MORE if ends is None else tag if ends else NO_TAG

    def _concerns(self, name: str, closing: bool, line_start: bool) -> bool:
        """Whether a tag with this name may end the value."""
        place = self._place
        if closing:
            known = name == self._closer or (name == place.own and bool(name))
            return known or ((not place.markup or bool(self._prefix)) and (name in PARAMETER_TAGS or name in CALL_ENDS))
        if not self._closer:
            return name in PARAMETER_TAGS
        if place.markup or place.guarded or not line_start:
            return False
        return name == "arg_key" or name in PARAMETER_TAGS or (place.open_ended and name in CALL_TAGS)

    def _closes(self, buf: str, pos: int, tag: Tag, line_start: bool, final: bool) -> bool | None:
        """Whether a closing tag ends the value; None if more text is needed."""
        name = tag.name
        prefix = tag_prefix(buf, pos, name)
        is_own = name == self._closer and prefix == self._prefix
        quoted = self._quoted[self.apart and line_start][name] > 0
        if _LONG_PREFIX in (prefix, self._prefix) and prefix != self._prefix:
            return False
        if not is_own:
            is_parameter = name == self._closer or name in PARAMETER_TAGS
            follows = "text" if quoted else self._follows(buf, tag.end if is_parameter else pos, final, is_own=False)
            self.has_closer = self.has_closer or (follows in ("call", "call_too_early") and not is_parameter)
            return None if follows is None else follows == "end" or (follows == "parameter" and is_parameter)
        if not self._place.closes:
            return not quoted
        follows = self._follows(buf, tag.end, final, is_quoted=quoted)
        if quoted:
            return self._ends_quote(buf, tag.end, follows, final)
        ends = None if follows is None else follows != "text"
        if follows in ("line", "same_line", "glued"):
            ends = (line_start or not self.apart) and self._ends_before(follows, buf, pos, tag, final)
        elif follows == "parameter" and self.has_lines:
            ends = self._declares_next(buf, tag.end, final)
            self.is_ambiguous = ends is False
            ends = ends if ends is None else True
        elif follows == "call_too_early":
            self.is_ambiguous, self.is_doubtful = self._is_risky, True
        self.has_closer = self.has_closer or ends is False
        return ends

    def _ends_before(self, text: _Follows, buf: str, pos: int, tag: Tag, final: bool) -> Tristate:
        """Whether the value ends before a text that follows all closing tags of the call. None: unknown yet."""
        if text == "line" and not self.has_lines and not self.apart:
            return True
        is_like_template = text == "line" or not self.has_lines or _LINE_END(buf, tag.end) is not None
        look = self._closes_again if is_like_template else _goes_far
        goes_on = look(buf, tag.end, buf[pos : tag.end], final)
        self.is_doubtful = self.is_doubtful or goes_on is True
        return None if goes_on is None else not goes_on

    def _closes_again(self, buf: str, pos: int, closer: str, final: bool) -> Tristate:
        """Whether the closing tag of the value occurs again soon, outside of another call. None: more text is needed.

        It must be where the value can end: at the start of a line if the value began on one, and before another tag.
        """
        window = buf[pos : pos + LOOKAHEAD]
        call, own = _CALL_OPENING(window), window.find(f"<{self._place.own}") if self._place.markup else -1
        limit = min(call.start() if call is not None else len(window), own if own >= 0 else len(window))
        is_short = len(window) < LOOKAHEAD and not final
        again = window.find(closer, 0, limit)
        while again >= 0:
            end = skip_blank(window, again + len(closer), True)
            if (not self.apart or _LINE_START(window, 0, again)) and window[end : end + 1] in ("<", ""):
                return None if is_short and end == len(window) else True
            again = window.find(closer, again + 1, limit)
        return None if is_short else False

    def _declares_next(self, buf: str, pos: int, final: bool) -> Tristate:
        """Whether the tool declares the key of the parameter that follows, if it declares any. None: unknown yet."""
        place = self._place
        at = skip_blank(buf, pos, final)
        tag = lex_tag(buf, at, final)
        assert isinstance(tag, Tag)  # `_follows` has found a parameter there
        key = key_of(tag)
        if tag.name == "arg_key":
            element = _KEY_ELEMENT(buf, at)
            if element is None and not final and len(buf) - at < LOOKAHEAD:
                return None
            key = "" if element is None else element[1]
        return place.open_ended or not key or not place.schema.names or place.schema.declares(place.schema.meant(key))

    def _ends_quote(self, buf: str, pos: int, follows: _Follows | None, final: bool) -> bool | None:
        """Whether the value ends inside a call that it quotes: only if nothing else follows in the answer."""
        if self.has_closer:
            return False
        ends = self._is_last(buf, pos, final) if follows == "parameter" else follows and follows == "end"
        if ends:
            self.is_doubtful = self._passed_parameter
        elif ends is not None:
            self._passed_parameter = self._passed_parameter or follows == "parameter"
        return ends

    def _is_last(self, buf: str, pos: int, final: bool) -> bool | None:
        """Whether nothing but a few short parameters and the closing tags of the call follow in the answer."""
        if len(buf) - pos >= LOOKAHEAD or not final:
            return False if len(buf) - pos >= LOOKAHEAD else None
        return self._follows(buf, _SHORT_ELEMENTS(buf, pos).end(), final, is_quoted=True) == "end"

    def _follows(
        self, buf: str, pos: int, final: bool, *, is_own: bool = True, is_quoted: bool = False
    ) -> _Follows | None:
        """Return what follows at `pos`, after the closing tags of the call; None if more text is needed.

        `is_own`: the value's own closing tag comes before it. Another one counts only in the grammar of the call.
        `is_quoted`: it may be the closing tag of a quoted call. The answer must then end with the call.
        """
        start, level, is_foreign = pos, _PARAMETER, False
        whole = _BLOCK if self._place.block else _CALL
        while True:
            at = skip_blank(buf, pos, final)
            is_whole = level >= whole and not is_foreign
            if at - pos >= LOOKAHEAD:
                return "line" if is_whole else "text"
            if at == MORE or (at == len(buf) and not final):
                return None
            if at == len(buf):
                return "end"
            other = not is_whole and _is_other_end(buf, at, final)
            if other is None:
                return None
            if other:
                fence = FENCE(buf, at)
                pos = at + 3 if fence is None else fence.end()
                continue
            tag = self._tag_at(buf, at, final)
            if tag == MORE:
                return None
            inner = level
            level = self._level(tag) if isinstance(tag, Tag) and tag.kind == "close" else -1
            if level <= inner or (pos == start and not self._has_prefix(buf, at, tag)):
                after = "text" if not is_whole else _gap(buf[pos:at])
                ends_by_token = is_whole and is_own and not is_quoted
                return self._other(buf, at, tag, _Closed(inner, after, is_foreign, is_own, ends_by_token), final)
            assert isinstance(tag, Tag)
            is_foreign = is_foreign or self._is_foreign(tag, tag_prefix(buf, at, tag.name), inner, level)
            pos = tag.end

    @property
    def _is_risky(self) -> bool:
        """Whether the value may only end in the grammar of its call."""
        return self.has_lines or self._place.guarded or self._place.side_effects

    def _is_foreign(self, tag: Tag, prefix: str, inner: int, level: int) -> bool:
        """Whether a closing tag belongs to another grammar, or is not the next one of the call."""
        place = self._place
        if level == _CALL:
            return tag.name not in (place.own, place.builder.name) and tag.name not in BLOCK_TAGS
        if level < _CALL or tag.name.startswith("|"):
            return False
        if not place.block or inner >= _BLOCK:
            return inner < _CALL
        if not place.own and prefix not in (self._prefix, ""):
            return True
        skips_call = inner < _CALL and place.own not in ("", place.block)
        return tag.name != place.block or (skips_call and self._is_risky)

    def _tag_at(self, buf: str, at: int, final: bool) -> Tag | int:
        if buf[at] != "<":
            return NO_TAG
        name, _, end = lex_name(buf, at)
        if end == len(buf) and not final and len(buf) - at < LOOKAHEAD:
            return MORE
        return lex_tag(buf, at, final) if name else NO_TAG

    def _level(self, tag: Tag) -> int:
        name, place = tag.name, self._place
        if name != place.block and (name in (place.own, place.builder.name) or name in CALL_TAGS):
            return _CALL
        if not place.own and place.block in _PLURALS and name in BLOCK_TAGS - _PLURALS:
            return _CALL
        if name in _PLURALS:
            return _BLOCKS
        if name in BLOCK_TAGS or name.startswith("|"):
            return _BLOCK
        if name in CONTAINER_TAGS:
            return _CONTAINER
        return _MESSAGE if self._prefix == _LONG_PREFIX and name == "message" else -1

    def _has_prefix(self, buf: str, at: int, tag: Tag | int) -> bool:
        """Whether a tag has a namespace if the value's own tags have one."""
        if not self._prefix or not isinstance(tag, Tag):
            return True
        return tag.name.startswith(self._prefix) or tag_prefix(buf, at, tag.name) != ""

    def _other(self, buf: str, at: int, tag: Tag | int, closed: _Closed, final: bool) -> _Follows | None:
        """Return what follows at `at`, if it is no further closing tag of the call."""
        if not isinstance(tag, Tag):
            other = _is_other_end(buf, at, final)
            return None if other is None else "line" if other else closed.after
        if _ends_answer(tag):
            return "end" if closed.ends_by_token else self._after_token(buf, tag, final)
        if tag.kind == "close" and tag.name == self._closer:  # the value contains the closing tags, or they repeat
            self.is_doubtful = self.is_doubtful or closed.ends_by_token
            return "text"
        is_call = tag.name in BLOCK_TAGS or (tag.name in CALL_TAGS and (tag.value or tag.attributes))
        if tag.kind != "close" and is_call:
            return "call" if closed.level >= _CALL and not closed.is_foreign else "call_too_early"
        is_tool = tag.kind == "open" and self._place.markup and self._place.is_tool(tag.name)
        if is_tool and closed.level >= _CALL and not closed.is_foreign:
            return "call"
        if closed.level < _CONTAINER and tag.kind != "close" and self._is_parameter(buf, at, tag, closed.is_own):
            return "parameter"
        if tag.name in RESULTS or tag.name in REASONING_TAGS:
            return "line" if closed.level >= _CALL and not closed.is_foreign else "text"
        return "line" if tag.kind == "open" and closed.after == "glued" else closed.after

    def _after_token(self, buf: str, tag: Tag | int, final: bool) -> _Follows | None:
        """Return whether the answer ends after a token that ends answers, and further ones."""
        while isinstance(tag, Tag) and _ends_answer(tag):
            at = skip_blank(buf, tag.end, final)
            if at == MORE or (at == len(buf) and not final):
                return None
            if at == len(buf):
                return "end"
            tag = self._tag_at(buf, at, final)
        return None if tag == MORE else "text"

    def _is_parameter(self, buf: str, at: int, tag: Tag, is_own: bool) -> bool:
        schema = self._place.schema
        if self._closer not in PARAMETER_TAGS and self._closer != "arg_value":  # every tag is a key
            is_other_grammar = tag.name in PARAMETER_TAGS or tag.name in _PAIR_TAGS
            return tag.kind == "open" and ((is_own and not is_other_grammar) or schema.declares(tag.name))
        if not is_own:
            is_opener = tag.name == self._opener and self._has_prefix(buf, at, tag)
            return is_opener and (self._place.pairs or schema.declares(key_of(tag)))
        is_declared = not schema.names or schema.declares(tag.value)
        is_other_grammar = not tag.value if self._place.equals else bool(tag.value) and not is_declared
        own_tags = _PAIR_TAGS if self._closer == "arg_value" else PARAMETER_TAGS
        known = tag.name in own_tags and not is_other_grammar
        return self._has_prefix(buf, at, tag) and (known or schema.declares(tag.name))

    def _is_next(self, buf: str, pos: int, tag: Tag, final: bool) -> bool | None:
        """Whether an opening tag begins the next parameter, though this value has no closing tag."""
        place = self._place
        if self._quotes_call(True) or not self._concerns(tag.name, False, True):
            return False
        if tag.name in CALL_TAGS:
            return bool(tag.value or tag.attributes)
        if tag.name != self._opener or tag_prefix(buf, pos, tag.name) != self._prefix:
            return False
        key = key_of(tag)
        if place.equals and not tag.value:
            return False
        if tag.name == "arg_key":
            element = _KEY_ELEMENT(buf, pos)
            if element is None:
                return None if not final and len(buf) - pos < LOOKAHEAD else False
            key = element[1]
        return key not in place.keys and (place.schema.declares(key) or place.open_ended)

    def _quotes_call(self, line_start: bool) -> bool:
        quoted = self._quoted[self.apart and line_start]
        return any(quoted[name] for name in CALL_ENDS)

    def _may_quote(self, name: str, closing: bool, line_start: bool) -> bool:
        """Whether a tag with this name belongs to a call quoted in the value."""
        if closing:
            return any(quoted[name] for quoted in self._quoted)
        if self._place.markup:
            return name in (self._place.own, self._closer)
        is_parameter = name in PARAMETER_TAGS or name == self._closer
        return name in CALL_ENDS or (is_parameter and (self._quotes_call(line_start) or self._quotes_call(False)))

    def pass_text(self, buf: str, pos: int, line_start: bool, final: bool) -> int:
        """Skip the `<` of a tag that is text, and count it if it belongs to a quoted call."""
        name, closing, _ = lex_name(buf, pos)
        is_long = name in ("|open|", "|close|")
        if is_long is not (self._prefix == _LONG_PREFIX) or not (is_long or self._may_quote(name, closing, line_start)):
            return pos + 1
        tag = lex_tag(buf, pos, final)
        if isinstance(tag, int):
            return MORE if tag == MORE else pos + 1
        closing = tag.kind == "close"
        if self._may_quote(tag.name, closing, line_start) and tag.kind != "self":
            self._count(tag, closing, line_start)
        return pos + 1

    def _count(self, tag: Tag, closing: bool, line_start: bool) -> None:
        if tag.name in CALL_TAGS and not closing and not (tag.value or tag.attributes):
            return  # a mention of the tag
        for quoted in self._quoted[: 1 + line_start]:
            if not closing or quoted[tag.name]:
                quoted[tag.name] += -1 if closing else 1
