"""Reader of a value between two tags.

Values that can only be text are streamed. Other values are buffered and parsed at their closing tag. If
that tag is wrong or missing, the next tag of the call ends the value. A value may contain a quoted call: the tags of
quoted calls are counted, so their closing tags do not end the value.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import ClassVar, Literal

import msgspec

from ..core.events import CallArgs
from ..core.json_repair.containers import Allowance
from ..core.json_repair.literals import escape_text
from ..core.json_repair.lookahead import LOOKAHEAD, match_start
from ..core.json_repair.tokens import END_STRING, KEY, OBJECT, PART, STRING
from ..core.parsing.call_builder import CallBuilder
from ..core.parsing.fast_paths import FastPath, MarkupFastPath, Search
from ..core.parsing.tags import MORE, NAMESPACES, Tag, fold_name, lex_name, lex_tag, unescape
from ..core.schema.argument_schema import ArgumentSchema
from ..core.types import JSONValue, Note
from .body_grammars import Steps
from .tag_names import CALL_ENDS, CALL_TAGS, CDATA, CDATA_END, NOISE, PARAMETER_TAGS
from .value_parsing import value_of

#: Returned by a step when the value ends.
_ENDED = -2
_ENTITY = Note("entity")
#: The beginning of a value that may be null, or null or elements. Markup may precede the word.
_BLANKS = rf"\s{{0,{LOOKAHEAD}}}+"
_MAY_BE_NULL = re.compile(rf"{_BLANKS}(?:[&\]]|<!|null(?!\w))").match
_MAY_BE_OTHER = re.compile(rf"{_BLANKS}(?:[&\]<]|null(?!\w))").match
_MAY_BE_PARTIAL = re.compile(rf"{_BLANKS}(?:<|n|nu|nul|null)?").fullmatch


#: Tags that the reader must examine inside a value, besides the value's own closing tag.
_MEANINGFUL = PARAMETER_TAGS | CALL_ENDS | {"arg_key"}
_PREFIXES = frozenset(prefix for prefix in NAMESPACES if prefix[0] != "|")
#: All prefixes of meaningful names, to recognize a name that is cut off at the end of a chunk.
_BEGINNINGS = frozenset(name[:size] for name in _MEANINGFUL | _PREFIXES for size in range(1, len(name) + 1))

#: Characters that end a name, matched by look-ahead.
_NO_NAME = r"\s<>=/\"'“”{}()\[\],"
_NAME_END = f"(?=[{_NO_NAME}])"
#: Excludes call tags without a name, which only mention the tag.
_CALL_END = rf"(?!\s{{0,16}}+>){_NAME_END}"
_SPELLINGS = {"_": "[_▁]"}


def _name_pattern(follows: dict[str, str]) -> str:
    """Build a pattern from names and what must follow each. Also matches a prefix of a name at the end of the text."""
    if follows.get("") == "":
        return ""
    branches = [r"\Z", *([follows[""]] if "" in follows else [])]
    for char in sorted({name[0] for name in follows if name}):
        rests = {name[1:]: follow for name, follow in follows.items() if name.startswith(char)}
        branches.append(_SPELLINGS.get(char, re.escape(char)) + _name_pattern(rests))
    return f"(?:{'|'.join(branches)})"


#: Names after one or more bars: Kimi K3's tags and DeepSeek's prefix.
_BARRED = rf"[|｜]{{1,64}}+{_name_pattern(dict.fromkeys(('open', 'close', 'DSML'), ''))}"
_OPENERS = dict.fromkeys(_MEANINGFUL, _NAME_END) | dict.fromkeys(CALL_TAGS, _CALL_END)
_ANYTHING_AFTER = dict.fromkeys((*_PREFIXES, CDATA[1:]), "")
#: The text after `<`: a meaningful name, CDATA, or a closing tag, whose name is captured.
_TAG = (
    rf"(?:{_BARRED}|{_name_pattern(_OPENERS | _ANYTHING_AFTER)}"
    rf"|/\s{{0,8}}+(?:\Z|{_BARRED}|([^|｜{_NO_NAME}][^{_NO_NAME}]*+)))"
)
#: The beginning of an entity, or of MiniMax's tag prefix.
_OTHERS = r"&#?\w{0,8}+\Z|\](?:\Z|<(?:\Z|\]))"
#: A tag at the start of a line, with its indentation.
_INDENTED = rf"[ \t]{{0,{LOOKAHEAD - 1}}}+(?:\Z|<{_TAG})"
#: For speed, each alternative begins with a different character, or the pattern with a character class.
_PATTERNS = {
    "held": rf"[<\ud800-\udfff](?:(?<=<){_TAG}|(?<!<))",
    "inline": rf"<{_TAG}|{_OTHERS}",
    "lines": rf"<{_TAG}|{_OTHERS}|\n{_INDENTED}|\r(?:\Z|\n{_INDENTED})",
}
#: Maximum number of cached tag names per value; real text contains fewer.
_MAX_CACHED = 1024


@cache
def _stop_pattern(kind: str) -> Search:
    """Compile the pattern on first use, because compiling is slow."""
    return re.compile(_PATTERNS[kind]).search


class ValueStops:
    """Finds the positions in a value that the reader must examine.

    A value may be a page of HTML, full of irrelevant tags. The patterns match only opening tags that calls contain.
    They match every closing tag, because it may belong to the value itself; its name is then looked up.

    Kinds: `held` values are buffered, `inline` values are streamed and share a line with their tags, and `lines` values
    are streamed without the line break before the closing tag. `own` contains the tag names of the value and its call.
    A match that reaches the end of the text needs more text.
    """

    def __init__(self, kind: Literal["held", "inline", "lines"], *own: str) -> None:
        self.pattern = _stop_pattern(kind)  # also finds irrelevant closing tags
        self._own = tuple(filter(None, own))
        self._ignored: set[str] = set()  # names of irrelevant closing tags
        self._ignored_prefixes: set[str] = set()  # the same for names cut off at the end of the text

    def search(self, text: str, pos: int = 0) -> re.Match[str] | None:
        """Return the next position at or after `pos` that the reader must examine."""
        match = self.pattern(text, pos)
        return match if match is None or match.lastindex is None else self.resolve(text, match)

    def resolve(self, text: str, match: re.Match[str] | None) -> re.Match[str] | None:
        """Return this match or the next relevant one. Irrelevant closing tags are skipped."""
        while match is not None and match.lastindex is not None:
            passed = self._ignored if match.end() < len(text) else self._ignored_prefixes
            name: str = match[match.lastindex]
            if name not in passed and self._means(name, passed):
                return match
            match = self.pattern(
                text, match.start(match.lastindex)
            )  # continue inside the name, which may contain an entity
        return match

    def _means(self, written: str, passed: set[str]) -> bool:
        name = fold_name(written)
        if passed is self._ignored_prefixes:
            means = name in _BEGINNINGS or any(own.startswith(name) for own in self._own)
        else:
            means = name in _MEANINGFUL or name in self._own
        if not means and len(passed) < _MAX_CACHED:
            passed.add(written)
        return means


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
    #: Whether the tags have DeepSeek's prefix, which distinguishes them from tags inside a value.
    prefixed: bool = False
    #: Whether the argument object has been started for a streamed value.
    opened: bool = False
    #: Whether keys are written as `<parameter=KEY>`, so `<parameter name="KEY">` is not the next parameter.
    equals: bool = False
    #: Whether opening tags never end a value, because a nonce is required or the policy is strict.
    guarded: bool = False
    #: Whether the opening tag of a call may end an unclosed value. True only if the tools are unknown, so no call runs.
    open_ended: bool = False


class TagValue(Steps):
    """Reads one value. When `done`, `ended_by` is the tag that ended it, at the position that `feed` returned."""

    def __init__(self, place: ValuePlace, key: str, closer: str, typed: str, flows: bool) -> None:
        super().__init__()
        self.ended_by: Tag | None = None
        self.streamed = False
        self.value: JSONValue = None
        self._place = place
        self._key = key
        self._closer = closer
        self._typed = typed
        others = frozenset[str]() if typed else place.schema.property_types(key) - {"string"}
        #: Finds the beginning of a value that may be something else than text. None: the value is text.
        self._may_be_other = (_MAY_BE_NULL if others <= {"null"} else _MAY_BE_OTHER) if others else None
        self._own_line = False
        self._quoted: Counter[str] = Counter()  # number of open tags in quoted calls, by name
        self._quoted_calls = 0  # number of open call tags among them
        self._stops = ValueStops("held", closer, place.own)
        self._entity_noted = False  # a note about a decoded entity was added
        self._text: list[str] = []
        self._sink: list[str] | None = None  # collects the text while the fast path reads
        self._phase: Callable[[str, int, bool], int] = self._lead if flows else self._hold

    def _step(self, buf: str, pos: int, final: bool) -> int:
        return self._phase(buf, pos, final)

    def fast_path(self, room: int, grow: Callable[[int], None]) -> FastPath | None:
        """Return the fast path for the value, for at most `room` characters."""
        if self._phase == self._hold:
            return FastPath(self._stops.search, self._text.append, self._read_held, room, grow, silent=True)
        builder = self._place.builder
        arguments = builder.arguments
        if self._phase != self._flow or arguments is None:
            return None
        live, index = builder.state == "live" and arguments.live, builder.index
        keep = arguments.record if live else arguments.keep
        if keep is None:
            return None

        def read(text: str, match: re.Match[str]) -> tuple[CallArgs | None, int, bool]:
            sink = self._sink = [self._decoded(text[: match.start()])]
            end, waits = self._read_streamed(text, match.start())
            self._sink = None
            fragment = escape_text("".join(sink))
            if fragment:
                keep(fragment)
            return (CallArgs(index, fragment) if live and fragment else None), end, waits

        stops, live_index = self._stops, index if live else None
        return MarkupFastPath(stops.pattern, stops.resolve, keep, live_index, read, self._decoded, room, grow)

    def _read_streamed(self, text: str, pos: int) -> tuple[int, bool]:
        """Emit the part of `text` that belongs to the value. Returns its end, and whether to wait for more text."""
        while pos < len(text):
            char = text[pos]
            if char == "<":
                new = self._pass_tag(text, pos)
                if new > pos:
                    self._say("<", new)
            elif text.startswith(NOISE, pos):
                return pos, False
            else:
                new = self._INTERRUPTS[char](self, text, pos, False)
            if new < 0:
                return pos, new == MORE
            pos = match_start(self._stops.search, text, new)
            self._say(self._decoded(text[new:pos]), pos)
        return pos, False

    def _read_held(self, text: str, match: re.Match[str]) -> tuple[None, int, bool]:
        """Buffer the part of `text` that belongs to the value. Returns its end, and whether to wait for more text."""
        pos, end, new = match.start(), len(text), 0
        while pos < end and new >= 0:
            new = self._pass_tag(text, pos)
            pos = pos if new < 0 else match_start(self._stops.search, text, new)
        self._text.append(text[:pos])
        return None, pos, new == MORE

    def _pass_tag(self, text: str, pos: int) -> int:
        """Skip the `<` of a tag that is text. Returns _ENDED if the value ends or CDATA begins, or MORE."""
        if self._may_begin_cdata(text, pos):
            return _ENDED if self._begins_cdata(text, pos) else MORE
        tag = self._ends(text, pos, False)
        if tag is None:
            return self._text_tag(text, pos, False)
        return MORE if tag == MORE else _ENDED

    # ---- the end of a value

    def _ends(self, buf: str, pos: int, final: bool) -> Tag | int | None:
        """Return the tag at `pos` if it ends the value, None if it is text, or MORE if more text is needed."""
        name, closing, end = lex_name(buf, pos)
        if end == len(buf) and not final and len(buf) - pos < LOOKAHEAD:
            return MORE
        if name not in ("|close|", "|open|") and not self._may_end(name, closing):
            return None
        tag = lex_tag(buf, pos, final)
        if isinstance(tag, int):
            return MORE if tag == MORE else None
        other = self._place.equals and tag.name in PARAMETER_TAGS and bool(tag.attributes) and tag.kind != "close"
        bare = tag.name in CALL_TAGS and tag.kind != "close" and not (tag.value or tag.attributes)
        return tag if not (other or bare) and self._may_end(tag.name, tag.kind == "close") else None

    def _may_end(self, name: str, closing: bool) -> bool:
        place = self._place
        if closing:
            if self._quoted[name]:
                return False
            if name == self._closer or (name == place.own and name):
                return True
            return (not place.markup or place.prefixed) and (name in PARAMETER_TAGS or name in CALL_ENDS)
        if place.markup or place.guarded or self._quotes_call:
            return False
        return name == "arg_key" or name in PARAMETER_TAGS or (place.open_ended and name in CALL_TAGS)

    @property
    def _quotes_call(self) -> bool:
        return self._quoted_calls > 0

    def _may_quote(self, name: str, closing: bool) -> bool:
        """Whether a tag with this name belongs to a call quoted in the value."""
        if self._place.markup:
            return False
        if closing:
            return self._quoted[name] > 0
        return name in CALL_ENDS or (name in PARAMETER_TAGS and self._quotes_call)

    def _text_tag(self, buf: str, pos: int, final: bool) -> int:
        """Skip the `<` of a tag that is text, and count it if it belongs to a quoted call."""
        name, closing, _ = lex_name(buf, pos)
        if not self._may_quote(name, closing):
            return pos + 1
        tag = lex_tag(buf, pos, final)
        if tag == MORE:
            return MORE
        if not isinstance(tag, int) and (closing or tag.kind == "open"):
            mention = name in CALL_TAGS and not closing and not (tag.value or tag.attributes)
            more = 0 if mention else -1 if closing else 1
            self._quoted[name] += more
            self._quoted_calls += more if name in CALL_TAGS else 0
        return pos + 1

    def _end(self, tag: Tag, pos: int) -> int:
        self.ended_by = tag
        self.state = "done"
        return pos

    # ---- streamed values

    def _lead(self, buf: str, pos: int, final: bool) -> int:
        """Decide from the first characters whether to stream the value."""
        at = pos
        if self._place.markup:
            while at < len(buf) and at < pos + LOOKAHEAD and buf[at] in " \t":
                at += 1
        rest = buf[at : at + 2]
        if len(rest) < 2 and not final:
            return MORE
        if self._may_be_other and not final and _MAY_BE_PARTIAL(buf, pos) is not None:
            return MORE
        is_quoted = self._place.pairs and rest[:1] == '"'
        if is_quoted or (self._may_be_other is not None and self._may_be_other(buf, pos) is not None):
            self._phase = self._hold
            return pos
        self._own_line = rest.startswith(("\n", "\r\n"))
        lines = self._own_line or self._place.markup
        self._stops = ValueStops("lines" if lines else "inline", self._closer, self._place.own)
        self._begin_string()
        return at + (0 if not self._own_line else 2 if rest[0] == "\r" else 1)

    def _begin_string(self) -> None:
        builder = self._place.builder
        if not self._place.opened:
            self._place.opened = True
            builder.token((OBJECT, ""))
        builder.token((KEY, self._key))
        builder.token((STRING, ""))
        self.streamed = True
        self._phase = self._flow

    def _say(self, text: str, pos: int) -> int:
        if self._sink is not None:
            self._sink.append(text)
        else:
            self._place.builder.token((PART, escape_text(text)))
        return pos

    def _decoded(self, text: str) -> str:
        """Decode entities, and note the first one."""
        decoded = unescape(text)
        if decoded != text and not self._entity_noted:
            self._entity_noted = True
            self._place.builder.note(_ENTITY)
        return decoded

    def _flow(self, buf: str, pos: int, final: bool) -> int:
        end = match_start(self._stops.search, buf, pos)
        if end > pos:
            return self._say(self._decoded(buf[pos:end]), end)
        return self._INTERRUPTS[buf[pos]](self, buf, pos, final)

    def _flow_newline(self, buf: str, pos: int, final: bool) -> int:
        """Drop a line break before the closing tag; emit any other."""
        newline = "\r\n" if buf[pos] == "\r" else "\n"
        if not buf.startswith(newline, pos):
            return MORE if pos + 1 == len(buf) and not final else self._say("\r", pos + 1)
        at = pos + len(newline)
        limit = pos + LOOKAHEAD
        while at < len(buf) and at < limit and buf[at] in " \t":
            at += 1
        if at == len(buf) and not final:
            return MORE
        if buf[at : at + 1] == "<":
            tag = self._ends(buf, at, final)
            if tag == MORE:
                return MORE
            if tag is not None:
                return at
        return self._say(newline, pos + len(newline))

    def _flow_entity(self, buf: str, pos: int, final: bool) -> int:
        """Wait for more text, because an entity may be cut off."""
        return self._say("&", pos + 1) if final else MORE

    def _flow_noise(self, buf: str, pos: int, final: bool) -> int:
        rest = buf[pos : pos + len(NOISE)]
        if rest != NOISE:
            return MORE if not final and NOISE.startswith(rest) else self._say("]", pos + 1)
        tag = self._ends(buf, pos + len(NOISE), final) if len(buf) > pos + len(NOISE) else MORE
        if tag == MORE and not final:
            return MORE
        if tag is None and self._may_quote(*lex_name(buf, pos + len(NOISE))[:2]):
            return self._say(NOISE, pos + len(NOISE))
        if tag is None or isinstance(tag, int):
            self.state = "failed"  # the tag after this prefix does not belong to the call
            return pos
        return pos + len(NOISE)

    def _flow_tag(self, buf: str, pos: int, final: bool) -> int:
        if self._begins_cdata(buf, pos):
            self._phase = self._flow_cdata
            return pos + len(CDATA)
        if self._may_begin_cdata(buf, pos) and not final:
            return MORE
        tag = self._ends(buf, pos, final)
        if tag == MORE:
            return MORE
        if tag is None or isinstance(tag, int):
            end = self._text_tag(buf, pos, final)
            return MORE if end == MORE else self._say("<", end)
        self._place.builder.tokens([(END_STRING, "")])
        return self._end(tag, pos)

    def _flow_cdata(self, buf: str, pos: int, final: bool) -> int:
        end = buf.find(CDATA_END, pos)
        if end >= 0:
            self._phase = self._flow
            return self._say(buf[pos:end], end + len(CDATA_END))
        end = _before_cdata_end(buf, final)
        return self._say(buf[pos:end], end) if end > pos else MORE

    _INTERRUPTS: ClassVar[dict[str, Callable[..., int]]] = {
        "\n": _flow_newline,
        "\r": _flow_newline,
        "&": _flow_entity,
        "]": _flow_noise,
        "<": _flow_tag,
    }

    # ---- buffered values

    def _hold(self, buf: str, pos: int, final: bool) -> int:
        end = match_start(self._stops.search, buf, pos)
        if end > pos:
            self._text.append(buf[pos:end])
            return end
        if self._begins_cdata(buf, pos):
            self._text.append(CDATA)
            self._phase = self._hold_cdata
            return pos + len(CDATA)
        if self._may_begin_cdata(buf, pos) and not final:
            return MORE
        tag = self._ends(buf, pos, final)
        if tag == MORE:
            return MORE
        if tag is None or isinstance(tag, int):
            end = self._text_tag(buf, pos, final)
            self._text.append("<" if end != MORE else "")
            return end
        self.value = self._meaning("".join(self._text).replace(NOISE, ""))
        return self._end(tag, pos)

    def _hold_cdata(self, buf: str, pos: int, final: bool) -> int:
        end = buf.find(CDATA_END, pos)
        if end >= 0:
            end += len(CDATA_END)
            self._phase = self._hold
        else:
            end = _before_cdata_end(buf, final)
        self._text.append(buf[pos:end])
        return end if end > pos else MORE

    def _meaning(self, raw: str) -> JSONValue:
        place = self._place
        quoted = (
            place.pairs and raw[:1] == '"' and raw[-1:] == '"' and "string" in place.schema.property_types(self._key)
        )
        typed = "json" if quoted else self._typed
        return value_of(raw, place.schema, self._key, typed, place.markup, place.allowance)

    # ---- CDATA

    @staticmethod
    def _begins_cdata(buf: str, pos: int) -> bool:
        return buf.startswith(CDATA, pos)

    @staticmethod
    def _may_begin_cdata(buf: str, pos: int) -> bool:
        return CDATA.startswith(buf[pos : pos + len(CDATA)])


def _before_cdata_end(buf: str, final: bool) -> int:
    """Return the end of the CDATA text, before a possible beginning of `]]>`."""
    partial = 0 if final else 2 if buf.endswith("]]") else 1 if buf.endswith("]") else 0
    return len(buf) - partial
