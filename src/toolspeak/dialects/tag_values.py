"""The text between two tags, on its way to being an argument.

A value that the schema wants as a string flows out as it comes; every other value is held until its tag
closes and then read as a whole. Wrong and missing closers end a value where another tag makes clear that it
is over. A call that is quoted in a value is part of it: its tags are counted, so that its closers are its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import ClassVar

import msgspec

from ..core.events import CallArgs
from ..core.json_repair.containers import Allowance
from ..core.json_repair.literals import escape_text
from ..core.json_repair.lookahead import LOOKAHEAD
from ..core.json_repair.strings import first_at
from ..core.json_repair.tokens import END_STRING, KEY, OBJECT, PART, STRING
from ..core.parsing.call_builder import CallBuilder
from ..core.parsing.fast_paths import MarkupRun, Run
from ..core.parsing.tags import MORE, Tag, lex_name, lex_tag, unescape
from ..core.schema.arguments import ArgumentSchema
from ..core.types import JSONValue, Note
from .bodies import Steps
from .tag_names import CALL_ENDS, CALL_TAGS, CDATA, CDATA_END, NOISE, PARAMETER_TAGS
from .tag_stops import Stops
from .values import value_of

#: The value is over here.
_ENDED = -2
_ENTITY = Note("entity")


class ValuePlace(msgspec.Struct):
    """The call that a value belongs to."""

    builder: CallBuilder
    schema: ArgumentSchema
    #: For the values of the answer.
    allowance: Allowance
    #: The tag that opened the call.
    own: str = ""
    #: Every tag inside the call is a key.
    markup: bool = False
    #: Keys and values have tags of their own.
    pairs: bool = False
    #: The tags carry DeepSeek's prefix, so that no tag in a value is mistaken for one.
    prefixed: bool = False
    #: The argument object has been begun, because a value flows.
    opened: bool = False
    #: The tag of the value has its key behind `=`, so that no tag with attributes is the next one.
    equals: bool = False
    #: No opening tag ends a value: the caller wants marks that carry a nonce, or no guesses at all.
    guarded: bool = False
    #: Nobody offers tools, so nothing is carried out: the opening tag of a call ends a value that lacks its closer.
    open_ended: bool = False


class TagValue(Steps):
    """One value. When it is `done`, `ended_by` is the tag that ended it, at the position that `feed` answered."""

    def __init__(self, place: ValuePlace, key: str, closer: str, typed: str, flows: bool) -> None:
        super().__init__()
        self.ended_by: Tag | None = None
        self.flowed = False
        self.value: JSONValue = None
        self._place = place
        self._key = key
        self._closer = closer
        self._typed = typed
        self._own_line = False
        self._quoted: Counter[str] = Counter()  # tags of quoted calls that are still open
        self._quoted_calls = 0  # how many of them carry a call
        self._stops = Stops("held", closer, place.own)
        self._coded = False  # an entity stood in the value
        self._text: list[str] = []
        self._sink: list[str] | None = None  # takes what is said, while a run reads
        self._phase: Callable[[str, int, bool], int] = self._lead if flows else self._hold

    def _step(self, buf: str, pos: int, final: bool) -> int:
        return self._phase(buf, pos, final)

    def run(self, room: int, grow: Callable[[int], None]) -> Run | None:
        """The shortcut through the value, for `room` characters at most."""
        if self._phase == self._hold:
            return Run(self._stops.search, self._text.append, self._read_held, room, grow, silent=True)
        builder = self._place.builder
        arguments = builder.arguments
        if self._phase != self._flow or arguments is None:
            return None
        live, index = builder.state == "live", builder.index
        keep = arguments.record if live else arguments.keep
        assert keep is not None  # inside a string

        def read(text: str, found: re.Match[str]) -> tuple[CallArgs | None, int, bool]:
            sink = self._sink = [self._decoded(text[: found.start()])]
            end, waits = self._read_flowing(text, found.start())
            self._sink = None
            fragment = escape_text("".join(sink))
            if fragment:
                keep(fragment)
            return (CallArgs(index, fragment) if live and fragment else None), end, waits

        stops, spoken = self._stops, index if live else None
        return MarkupRun(stops.pattern, stops.resolve, keep, spoken, read, self._decoded, room, grow)

    def _read_flowing(self, text: str, pos: int) -> tuple[int, bool]:
        """Say as much of a chunk as belongs to the value: how much that is, and whether the rest needs more text."""
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
            pos = first_at(self._stops.search, text, new)
            self._say(self._decoded(text[new:pos]), pos)
        return pos, False

    def _read_held(self, text: str, found: re.Match[str]) -> tuple[None, int, bool]:
        """Keep as much of a chunk as belongs to the value: how much that is, and whether the rest needs more text."""
        pos, end, new = found.start(), len(text), 0
        while pos < end and new >= 0:
            new = self._pass_tag(text, pos)
            pos = pos if new < 0 else first_at(self._stops.search, text, new)
        self._text.append(text[:pos])
        return None, pos, new == MORE

    def _pass_tag(self, text: str, pos: int) -> int:
        """Behind the bracket of a tag that is text; MORE, or that the value is over, or that CDATA begins."""
        if self._may_begin_cdata(text, pos):
            return _ENDED if self._begins_cdata(text, pos) else MORE
        tag = self._ends(text, pos, False)
        if tag is None:
            return self._text_tag(text, pos, False)
        return MORE if tag == MORE else _ENDED

    # ---- what ends a value

    def _ends(self, buf: str, pos: int, final: bool) -> Tag | int | None:
        """The tag at `pos` if it ends the value, None if it is text; MORE."""
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
        """Whether a tag of this name belongs to a call that is quoted in the value."""
        if self._place.markup:
            return False
        if closing:
            return self._quoted[name] > 0
        return name in CALL_ENDS or (name in PARAMETER_TAGS and self._quotes_call)

    def _text_tag(self, buf: str, pos: int, final: bool) -> int:
        """Behind the bracket of a tag that is text, once it is clear whether it belongs to a quoted call; MORE."""
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

    # ---- a value that flows

    def _lead(self, buf: str, pos: int, final: bool) -> int:
        """Decide on the first characters whether the value really flows."""
        at = pos
        if self._place.markup:
            while at < len(buf) and at < pos + LOOKAHEAD and buf[at] in " \t":
                at += 1
        rest = buf[at : at + 2]
        if len(rest) < 2 and not final:
            return MORE
        if self._place.pairs and rest[:1] == '"':
            self._phase = self._hold
            return pos
        self._own_line = rest.startswith(("\n", "\r\n"))
        lines = self._own_line or self._place.markup
        self._stops = Stops("lines" if lines else "inline", self._closer, self._place.own)
        self._begin_string()
        return at + (0 if not self._own_line else 2 if rest[0] == "\r" else 1)

    def _begin_string(self) -> None:
        builder = self._place.builder
        if not self._place.opened:
            self._place.opened = True
            builder.token((OBJECT, ""))
        builder.token((KEY, self._key))
        builder.token((STRING, ""))
        self.flowed = True
        self._phase = self._flow

    def _say(self, text: str, pos: int) -> int:
        if self._sink is not None:
            self._sink.append(text)
        else:
            self._place.builder.token((PART, escape_text(text)))
        return pos

    def _decoded(self, text: str) -> str:
        """The text that the entities in it stand for."""
        decoded = unescape(text)
        if decoded != text and not self._coded:
            self._coded = True
            self._place.builder.note(_ENTITY)
        return decoded

    def _flow(self, buf: str, pos: int, final: bool) -> int:
        end = first_at(self._stops.search, buf, pos)
        if end > pos:
            return self._say(self._decoded(buf[pos:end]), end)
        return self._INTERRUPTS[buf[pos]](self, buf, pos, final)

    def _flow_newline(self, buf: str, pos: int, final: bool) -> int:
        """The line break before the closing tag is not part of the value."""
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
        """What the text ends with may be the beginning of an entity."""
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
            self.state = "failed"  # behind this mark stands a tag for sure, and it is a wrong one
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
        self._place.builder.token((END_STRING, ""))
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

    # ---- a value that is held

    def _hold(self, buf: str, pos: int, final: bool) -> int:
        end = first_at(self._stops.search, buf, pos)
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
        quoted = place.pairs and raw[:1] == '"' and raw[-1:] == '"' and "string" in place.schema.wants(self._key)
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
    """The end of what is CDATA for sure."""
    keep = 0 if final else 2 if buf.endswith("]]") else 1 if buf.endswith("]") else 0
    return len(buf) - keep
