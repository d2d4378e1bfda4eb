"""Reader of a value between two tags.

Values that can only be text are streamed. Other values are buffered and parsed at their closing tag. Text is passed on
as it was written: entities are not decoded. `tag_ends` decides which tag ends the value.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import ClassVar, Literal

from ..core.events import CallArgs
from ..core.json_repair.literals import escape_text
from ..core.json_repair.lookahead import LOOKAHEAD, match_start, skip_spaces
from ..core.json_repair.tokens import END_STRING, KEY, OBJECT, PART, STRING
from ..core.parsing.fast_paths import FastPath, MarkupFastPath, Search
from ..core.parsing.tags import MORE, NAMESPACES, NO_TAG, Tag, fold_name
from ..core.text import NAME_CHARS
from ..core.types import JSONValue
from .body_grammars import Steps
from .tag_ends import ValueEnd, ValuePlace, tag_prefix
from .tag_names import CALL_ENDS, CALL_TAGS, CDATA, CDATA_END, NOISE, PARAMETER_TAGS
from .value_parsing import value_of

#: Returned by a step when the value ends.
_ENDED = -2
_LINE_START = re.compile(r"\n[ \t]*\Z").search
#: The beginning of a value that may be null. Markup may precede the word.
_BLANKS = rf"\s{{0,{LOOKAHEAD}}}+"
_MAY_BE_NULL = re.compile(rf"{_BLANKS}(?:\]|<!|null(?!\w))").match
_MAY_BE_PARTIAL = re.compile(rf"{_BLANKS}(?:<|n|nu|nul|null)?").fullmatch


#: Tags that the reader must examine inside a value, besides the value's own closing tag.
_MEANINGFUL = PARAMETER_TAGS | CALL_ENDS | {"arg_key", "arg_value"}
_PREFIXES = frozenset(prefix for prefix in NAMESPACES if prefix[0] != "|")
#: All prefixes of meaningful names, to recognize a name that is cut off at the end of a chunk.
_BEGINNINGS = frozenset(
    name[:size] for name in _MEANINGFUL | _PREFIXES | {"longcat_arg_"} for size in range(1, len(name) + 1)
)

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
#: The beginning of MiniMax's tag prefix.
_NOISE = r"\](?:\Z|<(?:\Z|\]))"
#: Maximum number of cached tag names per value; real text contains fewer.
_MAX_CACHED = 1024
#: Longest name of a tool or parameter whose opening tags are looked for.
_MAX_OWN = 64
_NAME = re.compile(rf"[{NAME_CHARS}.-]+").fullmatch


@lru_cache(maxsize=256)
def _stop_pattern(kind: str, own: frozenset[str]) -> Search:
    """Return the search for stops. `own`: names of tags besides those that all calls may contain.

    For speed, each alternative begins with a different character, or the pattern with a character class.
    """
    openers = dict.fromkeys(own, _NAME_END) | _OPENERS | _ANYTHING_AFTER
    # The text after `<`: a meaningful name, CDATA, or a closing tag, whose name is captured.
    tag = (
        rf"(?:{_BARRED}|{_name_pattern(openers)}"
        rf"|/\s{{0,8}}+(?:\Z|{_BARRED}|([^|｜{_NO_NAME}][^{_NO_NAME}]*+)))"
    )
    indented = rf"[ \t]{{0,{LOOKAHEAD - 1}}}+(?:\Z|<{tag})"  # a tag at the start of a line, with its indentation
    patterns = {
        "held": rf"[<\ud800-\udfff](?:(?<=<){tag}|(?<!<))",
        "streamed": rf"<{tag}|{_NOISE}|\n{indented}|\r(?:\Z|\n{indented})",
    }
    return re.compile(patterns[kind]).search


class ValueStops:
    """Finds the positions in a value that the reader must examine.

    A value may be a page of HTML, full of irrelevant tags. The patterns match only opening tags that calls contain.
    They match every closing tag, because it may belong to the value itself; its name is then looked up.

    `own` contains the tag names of the value and its call. If they are names of the tool and its parameters, their
    opening tags matter, too (`markup`). A match that reaches the end of the text needs more text.
    """

    def __init__(self, kind: Literal["held", "streamed"], own: Iterable[str], markup: bool) -> None:
        names = (name for name in own if len(name) <= _MAX_OWN and _NAME(name)) if markup else ()
        self.pattern = _stop_pattern(kind, frozenset(names))  # also finds irrelevant closing tags
        self._own = tuple(filter(None, own))
        self._ignored: set[str] = set()  # names of irrelevant closing tags
        self._ignored_prefixes: set[str] = set()  # the same for names cut off at the end of the text

    def search(self, text: str, pos: int = 0) -> re.Match[str] | None:
        """Return the next position at or after `pos` that the reader must examine."""
        match = self.pattern(text, pos)
        return match if match is None or match.lastindex is None else self.resolve(text, match)

    def resolve(self, text: str, match: re.Match[str] | None) -> re.Match[str] | None:
        """Return this match or the next relevant one. Irrelevant closing tags are skipped."""
        search, ignored, size = self.pattern, self._ignored, len(text)
        while match is not None and (group := match.lastindex) is not None:
            name, end = match[group], match.end()  # the name is the end of the match
            passed = ignored if end < size else self._ignored_prefixes
            if name not in passed and self._means(name, passed):
                return match
            match = search(text, end)
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


class TagValue(Steps):
    """Reads one value. When `done`, `ended_by` is the tag that ended it, at the position that `feed` returned."""

    def __init__(self, place: ValuePlace, key: str, closer: str, prefix: str, typed: str, flows: bool) -> None:
        super().__init__()
        self.ended_by: Tag | None = None
        self.streamed = False
        self.value: JSONValue = None
        self._place = place
        self._key = key
        self._closer = closer
        self._typed = typed
        self._is_nullable = not typed and "null" in place.schema.property_types(key)
        self.end = ValueEnd(place, closer, prefix)
        self._newline = ""  # the line break after the opening tag, if it does not belong to the value
        self._line_start = False  # the tag that ends the value begins a line
        self._stops = ValueStops("held", (closer, place.own), place.markup)
        self._text: list[str] = []
        self._sink: list[str] | None = None  # collects the text while the fast path reads
        self._phase: Callable[[TagValue, str, int, bool], int] = TagValue._lead if flows else TagValue._hold

    def _step(self, buf: str, pos: int, final: bool) -> int:
        return self._phase(self, buf, pos, final)

    def fast_path(self, room: int, grow: Callable[[int], None]) -> FastPath | None:
        """Return the fast path for the value, for at most `room` characters."""
        if self._phase is TagValue._hold:
            return FastPath(self._stops.search, self._text.append, self._read_held, room, grow, silent=True)
        builder = self._place.builder
        arguments = builder.arguments
        if self._phase is not TagValue._flow or arguments is None:
            return None
        live, index = builder.state == "live" and arguments.live, builder.index
        keep = arguments.record if live else arguments.keep
        if keep is None:
            return None
        if not self.end.has_lines:
            keep = self._watched(keep)

        def read(text: str, match: re.Match[str]) -> tuple[CallArgs | None, int, bool]:
            sink = self._sink = [text[: match.start()]]
            end, waits = self._read_streamed(text, match.start())
            self._sink = None
            fragment = escape_text("".join(sink))
            if fragment:
                keep(fragment)
            return (CallArgs(index, fragment) if live and fragment else None), end, waits

        stops, live_index = self._stops, index if live else None
        return MarkupFastPath(stops.pattern, stops.resolve, keep, live_index, read, room, grow)

    def _watched(self, keep: Callable[[str], None]) -> Callable[[str], None]:
        """Return a function that calls `keep` and notices the first line break in what it keeps."""

        def watched(fragment: str) -> None:
            if not self.end.has_lines and "\\n" in fragment.replace("\\\\", ""):
                self.end.has_lines = True
            keep(fragment)

        return watched

    def _read_streamed(self, text: str, pos: int) -> tuple[int, bool]:
        """Emit the part of `text` that belongs to the value. Returns its end, and whether to wait for more text."""
        while pos < len(text):
            char = text[pos]
            if char == "<":
                new = self._pass_tag(text, pos, self._line_start)
                if new > pos:
                    self._say("<", new)
            elif self._place.noise and text.startswith(NOISE, pos):
                return pos, False
            else:
                new = self._INTERRUPTS[char](self, text, pos, False)
            if new < 0:
                return pos, new == MORE
            pos = match_start(self._stops.search, text, new)
            self._say(text[new:pos], pos)
        return pos, False

    def _read_held(self, text: str, match: re.Match[str]) -> tuple[None, int, bool]:
        """Buffer the part of `text` that belongs to the value. Returns its end, and whether to wait for more text."""
        pos, end, new = match.start(), len(text), 0
        while pos < end and new >= 0:
            if _may_begin_cdata(text, pos):
                break
            new = self._pass_tag(text, pos, self._begins_line(text[max(0, pos - LOOKAHEAD) : pos]))
            pos = pos if new < 0 else match_start(self._stops.search, text, new)
        self._text.append(text[:pos])
        return None, pos, new == MORE

    def _pass_tag(self, text: str, pos: int, line_start: bool) -> int:
        """Skip the `<` of a tag that is text. Returns _ENDED if the value ends here, or MORE."""
        tag = self.end.at(text, pos, line_start, False)
        if tag == NO_TAG:
            return self.end.pass_text(text, pos, line_start, False)
        return MORE if tag == MORE else _ENDED

    def _end_with(self, tag: Tag, pos: int) -> int:
        self.ended_by = tag
        self.state = "done"
        return pos

    def _lead(self, buf: str, pos: int, final: bool) -> int:
        """Decide from the first characters whether to stream the value. One in a CDATA section is held."""
        at = _skip_indent(buf, pos) if self._place.markup else pos
        rest = buf[at : at + 2]
        if len(rest) < 2 and not final:
            return MORE
        if self._is_nullable and not final and _MAY_BE_PARTIAL(buf, pos) is not None:
            return MORE
        if self._is_nullable and _MAY_BE_NULL(buf, pos) is not None:
            self._phase = TagValue._hold
            return pos
        newline = "\r\n" if rest == "\r\n" else "\n" if rest[:1] == "\n" else ""
        if _may_begin_cdata(buf, at + len(newline)):
            if buf.startswith(CDATA, at + len(newline)):
                self._phase = TagValue._hold
                return pos
            if not final:
                return MORE
        if self._place.trims_lines:
            self._newline = newline
            self.end.apart = bool(newline)
            at += len(newline)
        self._stops = ValueStops("streamed", (self._closer, self._place.own), self._place.markup)
        self._begin_string()
        return at

    def _begin_string(self) -> None:
        builder = self._place.builder
        if not self._place.opened:
            self._place.opened = True
            builder.token((OBJECT, ""))
        builder.token((KEY, self._key))
        builder.token((STRING, ""))
        self.streamed = True
        self._phase = TagValue._flow

    def _say(self, text: str, pos: int) -> int:
        if not self.end.has_lines and "\n" in text:
            self.end.has_lines = True
        if self._sink is not None:
            self._sink.append(text)
        else:
            self._place.builder.token((PART, escape_text(text)))
        return pos

    def _flow(self, buf: str, pos: int, final: bool) -> int:
        end = match_start(self._stops.search, buf, pos)
        if end > pos:
            return self._say(buf[pos:end], end)
        return self._INTERRUPTS[buf[pos]](self, buf, pos, final)

    def _flow_newline(self, buf: str, pos: int, final: bool) -> int:
        """Read a line break. Before the closing tag, it is dropped if there was one after the opening tag."""
        newline = "\r\n" if buf[pos] == "\r" else "\n"
        if not buf.startswith(newline, pos):
            return MORE if pos + 1 == len(buf) and not final else self._say("\r", pos + 1)
        at = pos + len(newline)
        limit = pos + LOOKAHEAD
        while at < len(buf) and at < limit and buf[at] in " \t":
            at += 1
        if at == len(buf) and not final:
            return MORE
        tag = self.end.at(buf, at, True, final) if buf[at : at + 1] == "<" else NO_TAG
        if tag == MORE:
            return MORE
        if tag == NO_TAG:
            return self._pass_line(buf, pos, at, final)
        self._line_start = True
        if isinstance(tag, Tag) and (tag.kind != "close" or tag.name != self._closer):
            return at  # the value has no closing tag of its own
        if not self._newline:
            return self._say(buf[pos:at], at)
        return at if newline in (self._newline, "\n") else self._say("\r", at)

    def _pass_line(self, buf: str, pos: int, at: int, final: bool) -> int:
        """Emit a line break, with the `<` at `at` if there is one."""
        if buf[at : at + 1] != "<":
            return self._say(buf[pos:at], at)
        end = self.end.pass_text(buf, at, True, final)
        return MORE if end == MORE else self._say(buf[pos:end], end)

    def _flow_noise(self, buf: str, pos: int, final: bool) -> int:
        """Drop MiniMax's tag prefix before the tag that ends the value."""
        rest = buf[pos : pos + len(NOISE)]
        if rest != NOISE:
            return MORE if not final and NOISE.startswith(rest) else self._say("]", pos + 1)
        after = pos + len(NOISE)
        if not self._place.noise:
            return self._say(NOISE, after)
        tag = self.end.at(buf, after, False, final) if len(buf) > after else MORE
        if tag == MORE and not final:
            return MORE
        if isinstance(tag, int):
            self.state = "failed"  # the tag after this prefix does not belong to the call
            return pos
        return after

    def _flow_tag(self, buf: str, pos: int, final: bool) -> int:
        tag = self.end.at(buf, pos, self._line_start, final)
        if tag == MORE:
            return MORE
        if isinstance(tag, int):
            end = self.end.pass_text(buf, pos, False, final)
            return MORE if end == MORE else self._say("<", end)
        self._place.builder.tokens([(END_STRING, "")])
        return self._end_with(tag, pos)

    _INTERRUPTS: ClassVar[dict[str, Callable[..., int]]] = {
        "\n": _flow_newline,
        "\r": _flow_newline,
        "]": _flow_noise,
        "<": _flow_tag,
    }

    def _hold(self, buf: str, pos: int, final: bool) -> int:
        end = match_start(self._stops.search, buf, pos)
        if end > pos:
            self._text.append(buf[pos:end])
            return end
        if self._is_blank() and _may_begin_cdata(buf, pos):
            if not buf.startswith(CDATA, pos):
                return len(buf) if final else MORE
            self._text.append(CDATA)
            self._phase = TagValue._hold_cdata
            return pos + len(CDATA)
        tag = self.end.at(buf, pos, self._begins_line(""), final)
        if tag == MORE:
            return MORE
        if isinstance(tag, int):
            end = self.end.pass_text(buf, pos, self._begins_line(""), final)
            self._text.append("<" if end != MORE else "")
            return end
        self.value = self._meaning("".join(self._text))
        return self._end_with(tag, pos)

    def _is_blank(self) -> bool:
        """Whether only white space has been buffered so far."""
        return len(self._text) < LOOKAHEAD and not any(map(str.strip, self._text))

    def _begins_line(self, before: str) -> bool:
        """Whether only spaces precede the text after `before` on its line."""
        for piece in reversed(self._text):
            if len(before) >= LOOKAHEAD or before.strip(" \t"):
                break
            before = piece[-LOOKAHEAD:] + before
        return _LINE_START(before) is not None

    def _hold_cdata(self, buf: str, pos: int, final: bool) -> int:
        end = buf.find(CDATA_END, pos)
        if end >= 0:
            end += len(CDATA_END)
            self._phase = TagValue._hold
        else:
            end = _before_cdata_end(buf, final)
        self._text.append(buf[pos:end])
        return end if end > pos else MORE

    def _meaning(self, raw: str) -> JSONValue:
        place = self._place
        trims = place.trims_lines or self._typed != "string"
        prefix = NOISE if place.noise else ""
        return value_of(raw, place.schema, self._key, self._typed, place.markup, place.allowance, trims, prefix)


def read_whole_text(
    place: ValuePlace, closer: str, prefix: str, buf: str, pos: int, final: bool
) -> tuple[str, int] | None:
    """Return the text at `pos` up to its closing tag, and the position after that tag.

    None: only `TagValue` can read the value, because a tag inside it must be examined, or something must be repaired.
    """
    end = ValueEnd(place, closer, prefix)
    end.apart = place.trims_lines and buf.startswith("\n", pos)
    if place.markup and buf.startswith((" ", "\t"), pos):
        return None
    pos += end.apart
    stop = ValueStops("streamed", (closer, place.own), place.markup).search(buf, pos)
    before = len(buf) if stop is None else stop.start()
    at = skip_spaces(buf, before)
    is_line = at > before
    end.has_lines = buf.find("\n", pos, before) >= 0
    if not buf.startswith("<", at) or buf.find("\r", pos, at) >= 0 or (is_line and not (end.apart or end.has_lines)):
        return None
    tag = end.at(buf, at, is_line, final)
    if isinstance(tag, int) or (tag.kind, tag.name, tag_prefix(buf, at, tag.name)) != ("close", closer, prefix):
        return None
    is_certain = not (end.is_doubtful or end.is_ambiguous or end.has_closer)
    return (buf[pos : before if end.apart else at], tag.end) if is_certain else None


def _may_begin_cdata(buf: str, pos: int) -> bool:
    return CDATA.startswith(buf[pos : pos + len(CDATA)])


def _skip_indent(buf: str, pos: int) -> int:
    """Skip blanks before a line break or a tag. Blanks before a text belong to the value."""
    at = pos
    while at < len(buf) and at < pos + LOOKAHEAD and buf[at] in " \t":
        at += 1
    return pos if at < len(buf) and buf[at] not in "\r\n<" else at


def _before_cdata_end(buf: str, final: bool) -> int:
    """Return the end of the CDATA text, before a possible beginning of `]]>`."""
    partial = 0 if final else 2 if buf.endswith("]]") else 1 if buf.endswith("]") else 0
    return len(buf) - partial
