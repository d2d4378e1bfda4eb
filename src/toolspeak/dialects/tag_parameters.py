"""The parameters of a call in tags, from behind its name to its end.

Wrong and missing closers are taken for what they most likely mean; JSON in place of parameters is read as such.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ..core.json_repair.containers import MAX_REPAIRS, MAX_SIZE
from ..core.json_repair.lookahead import LOOKAHEAD
from ..core.json_repair.tokens import END_OBJECT, KEY, OBJECT, SCALAR
from ..core.parsing.arguments import to_json
from ..core.parsing.call_builder import CallBuilder
from ..core.parsing.fast_paths import Run
from ..core.parsing.tags import MORE, Tag, lex_head, lex_tag
from ..core.types import JSONValue, Note, is_array
from .bodies import ArgumentsBody, Body, Context, arguments_ahead
from .tag_names import (
    BLOCK_TAGS,
    CALL_ENDS,
    CALL_TAGS,
    CDATA,
    CDATA_END,
    CONTAINER_TAGS,
    KEY_ATTRIBUTES,
    NAME_ATTRIBUTES,
    NOISE,
    PARAMETER_TAGS,
)
from .tag_values import TagValue, ValuePlace
from .values import plain_text

_BLANK = re.compile(r"[\s,]*").match
_FENCE = re.compile(r"```[a-z]{0,12}+").match
_NO_LETTERS = re.compile(r"[^A-Za-z]").sub
#: Kimi K3 says in words whether a tag opens or closes.
_LONG_HEADS = ("<|open|", "<|close|")
#: What the attribute `string` says about the type of a value.
_STRING_ATTRIBUTE = {"true": "string", "false": "json"}

#: A value between tags takes about as long as so many in JSON.
_VALUES = 2


class TagParameters(Body):
    """What a call in tags holds. The reader starts behind its name."""

    def __init__(self, context: Context, builder: CallBuilder, closes: bool) -> None:
        super().__init__(context)
        self._builder = builder
        self._closes = closes  # a closing tag is due; a bare name in front of tags has none
        self._phase: Callable[[str, int, bool], int] = self._between
        desk = context.desk
        guarded = desk.nonce is not None or desk.policy == "strict"
        self._place = ValuePlace(builder, desk.schema(builder.name), desk.allowance, guarded=guarded)
        self._place.open_ended = desk.tools is None
        self._bracket_due = False  # the opening tag lacks its bracket
        self._apart = False  # the name had a tag of its own
        self._container = ""  # the tag around all arguments, behind such a name
        self._repairs = 0  # values whose closing tag is missing
        self._size = 0
        self._key = ""
        self._values: dict[str, JSONValue] = {}
        self._flowed: set[str] = set()
        self._began = False
        self._fenced = False
        self._value: TagValue | None = None
        self._closer = ""
        self._prefix = ""  # what the tag of the value has before its name
        self._arguments: ArgumentsBody | None = None

    def feed(self, buf: str, pos: int, final: bool) -> int:
        room = MAX_SIZE + 1 - self._size
        if len(buf) - pos > room:  # give up at the same place however the text is cut
            buf, final = buf[: pos + room], False
        desk = self.context.desk
        seen = desk.calls_seen  # behind the JSON of a call come its closers, and a line is drawn before them
        while pos < len(buf) and self.state == "open" and desk.calls_seen == seen and not self.context.vain:
            new = self._phase(buf, pos, final)
            if new == MORE:
                break
            self._grow(new - pos)
            pos = new
            if self._size > MAX_SIZE:
                self._fail(pos, "too_large")
        self._builder.tokens(())
        return pos

    def run(self) -> Run | None:
        if self._arguments is not None:
            return self._arguments.run()
        return self._value.run(MAX_SIZE - self._size, self._grow) if self._value is not None else None

    def _grow(self, count: int) -> None:
        self._size += count

    def _fail(self, pos: int, reason: str = "not_a_call") -> int:
        self._builder.fail(reason)
        self.state = "failed"
        return pos

    @staticmethod
    def name_in(tag: Tag) -> str:
        """The name of the call that the tag itself gives; nothing when it gives none."""
        if tag.name not in CALL_ENDS or (tag.value and tag.name not in CALL_TAGS):
            return ""
        named = tag.value or next((tag.attributes[key] for key in NAME_ATTRIBUTES if key in tag.attributes), "")
        return named.partition(" ")[0]  # what follows a space is a nonce

    # ---- between parameters

    @staticmethod
    def _blank(buf: str, pos: int, final: bool) -> int:
        """Behind white space and noise."""
        while True:
            blank = _BLANK(buf, pos)
            assert blank is not None
            pos = blank.end()
            if not buf.startswith(NOISE[0], pos):
                return pos
            if buf.startswith(NOISE, pos):
                pos += len(NOISE)
                continue
            return MORE if not final and NOISE.startswith(buf[pos : pos + len(NOISE)]) else pos

    def _between(self, buf: str, pos: int, final: bool) -> int:
        at = self._blank(buf, pos, final)
        if at - pos >= LOOKAHEAD and not self._closes:
            return self._end_here(pos)
        if at == MORE or at == len(buf):
            return at if self._closes else MORE
        if buf[at] != "<":
            return self._untagged(buf, pos, at, final)
        if buf.startswith("!", at + 1):
            return self._cdata(buf, pos, at, final)
        tag = lex_tag(buf, at, final)
        if isinstance(tag, int):
            return MORE if tag == MORE else self._stray(buf, pos, at, final)
        self._prefix = _prefix(buf, at, tag)
        return self._tag(tag, at)

    def _untagged(self, buf: str, pos: int, at: int, final: bool) -> int:
        """JSON instead of parameters, or text where a tag was due."""
        if self._bracket_due and buf.startswith("/>"[: len(buf) - at], at):
            return self._late_bracket(buf, at, final)
        ahead = not self._began and arguments_ahead(buf, at)
        if ahead is None:
            return MORE
        if ahead:
            self._arguments = ArgumentsBody(self.context, self._builder, stops=(f"</{self._place.own}>",))
            self._phase = self._json
            return at
        return self._stray(buf, pos, at, final)

    def _late_bracket(self, buf: str, at: int, final: bool) -> int:
        """`<name` and its children, then `/>`: the tag was meant to close itself."""
        if len(buf) - at < 2:
            return len(buf) if final else MORE
        self._end(missing=True)
        return at + 2

    def _cdata(self, buf: str, pos: int, at: int, final: bool) -> int:
        """CDATA around the arguments means nothing; anything else that begins like it is text."""
        if buf.startswith(CDATA, at):
            return at + len(CDATA)
        begun = CDATA.startswith(buf[at : at + len(CDATA)]) and not final
        return MORE if begun else self._stray(buf, pos, at, final)

    def _stray(self, buf: str, before: int, pos: int, final: bool) -> int:
        """Text where a tag was due is dropped with a note, and ends a call that no tag closes; a code fence is
        decoration."""
        if not self._closes:
            return self._end_here(before)
        fence = _FENCE(buf, pos)
        if fence is not None and (fence.end() < len(buf) or final):
            self._fenced = True
            return fence.end()
        if fence is not None or ("```".startswith(buf[pos : pos + 3]) and not final):
            return MORE
        end = buf.find("<", pos + 1)
        end = len(buf) if end < 0 else end
        self._began = True  # no JSON arguments any more
        self._builder.note(Note("stray_text"))
        return end

    def _tag(self, tag: Tag, at: int) -> int:
        if tag.kind == "close":
            return self._close_tag(tag, at)
        if tag.name in BLOCK_TAGS and not self.name_in(tag) and not self._place.schema.knows(tag.name):
            return self._fail(at, "missing_close_tag")  # the next block begins; this call never ended
        if self._is_next(tag):
            self._end(missing=self._closes)
            return at
        plain = not tag.value and not tag.attributes
        if plain and not self._place.pairs and self._place.schema.knows(tag.name):
            return self._begin(tag.name, tag)
        if tag.name in CONTAINER_TAGS and not self._place.schema.knows(tag.name):
            return self._contain(tag)
        if tag.name == "arg_key" or (tag.name in PARAMETER_TAGS and plain):
            self._phase = self._key_text
            return tag.end
        return self._begin(self._key if tag.name == "arg_value" else self._key_in(tag), tag)

    def _contain(self, tag: Tag) -> int:
        """A tag around all arguments. Behind a name in a tag of its own, the call is over when it closes."""
        if self._apart and not self._container and tag.kind == "open":
            self._container = tag.name
            self._closes = True
            self._phase = self._contained
        return tag.end

    def _contained(self, buf: str, pos: int, final: bool) -> int:
        """Right behind the tag around all arguments: tags, JSON, or the one text that the tool takes."""
        at = self._blank(buf, pos, final)
        if at == MORE or (at == len(buf) and at - pos < LOOKAHEAD):
            return MORE
        ahead = at - pos >= LOOKAHEAD or buf[at] in "<`[" or arguments_ahead(buf, at)
        if ahead is None:
            return MORE
        self._phase = self._between
        if ahead:
            return at
        key = self._only_text_key()
        return self._begin(key, Tag("open", self._container, "", {}, pos)) if key else self._fail(at, "no_arguments")

    def _only_text_key(self) -> str:
        """The parameter that text without a key is for; nothing when it can be more than one."""
        schema = self._place.schema
        strings = [name for name in schema.names if schema.wants(name) <= {"string"}]
        return "input" if schema.parameters is None else strings[0] if len(strings) == 1 else ""

    def _is_next(self, tag: Tag) -> bool:
        """Whether a tag belongs to what follows the call: another call, or a token."""
        if tag.name.startswith("|") or self.name_in(tag):
            return True
        other = bool(self.context.desk.knows(tag.name)) and not self._place.schema.knows(tag.name)
        return other and not self._closes

    def _close_tag(self, tag: Tag, at: int) -> int:
        if tag.name in (self._place.own, self._builder.name, self._container) or tag.name in CALL_TAGS:
            self._end()
            return tag.end
        if tag.name in CALL_ENDS or tag.name.startswith("|"):
            self._end()
            return at  # the closer of the block
        return tag.end

    @staticmethod
    def _key_in(tag: Tag) -> str:
        if tag.name not in PARAMETER_TAGS:
            return tag.name
        return tag.value or next((tag.attributes[key] for key in KEY_ATTRIBUTES if key in tag.attributes), "")

    def _key_text(self, buf: str, pos: int, final: bool) -> int:
        """`<arg_key>KEY</arg_key>` or `<parameter>KEY</parameter>`; or all arguments as JSON instead of a key."""
        at = self._blank(buf, pos, final)
        if not self._began and 0 <= at < len(buf) and buf[at] == "{":
            self._phase = self._between
            return at
        end = buf.find("<", pos, pos + LOOKAHEAD)
        if end < 0:
            return MORE if len(buf) - pos < LOOKAHEAD else self._fail(pos)
        tag = lex_tag(buf, end, final)
        if isinstance(tag, int):
            return MORE if tag == MORE else self._fail(pos)
        self._key = plain_text(buf[pos:end]).strip()
        if tag.name == "arg_key":
            self._phase = self._between
            return tag.end
        return self._begin(self._key, Tag("open", "parameter", self._key, {}, tag.end))

    # ---- JSON instead of parameters

    def _json(self, buf: str, pos: int, final: bool) -> int:
        arguments = self._arguments
        assert arguments is not None
        new = arguments.feed(buf, pos, final)
        if arguments.state == "open":
            return new if new > pos else MORE
        if arguments.state == "failed":
            self.state = "failed"
        else:
            self._phase = self._closing
        return new

    def _closing(self, buf: str, pos: int, final: bool) -> int:
        """Behind the JSON arguments: the closing tags of this call, if they are there."""
        at = self._blank(buf, pos, final)
        if at - pos >= LOOKAHEAD:
            self.state = "done"
            return pos
        if at == MORE or at == len(buf):
            return MORE
        if buf.startswith(CDATA_END, at):
            return at + len(CDATA_END)
        if buf[at] == "}" and at == pos and self._closes:
            self.context.note_extra_closer()
            return at + 1
        if self._fenced and buf.startswith("```", at):
            self._fenced = False
            return at + 3
        begun = CDATA_END.startswith(buf[at : at + 3]) or (self._fenced and "```".startswith(buf[at : at + 3]))
        if begun and not final:
            return MORE
        tag = lex_tag(buf, at, final) if buf[at] == "<" else None
        if tag == MORE:
            return MORE
        if tag is None or isinstance(tag, int) or tag.kind != "close" or tag.name not in self._json_closers():
            self.state = "done"
            return pos
        self.state = "done" if tag.name in (self._place.own, self._container) else "open"
        return tag.end

    def _json_closers(self) -> frozenset[str]:
        return CONTAINER_TAGS | PARAMETER_TAGS | {self._place.own}

    # ---- values

    def _begin(self, key: str, tag: Tag) -> int:
        """The value of `key` begins behind `tag`."""
        if self._place.allowance.spent:
            return self._fail(tag.end, "too_many_values")
        self._place.allowance.left -= _VALUES
        self._began = True
        self._key = key
        self._closer = tag.name
        if tag.kind == "self":
            self._add("")
            return tag.end
        typed = _STRING_ATTRIBUTE.get(tag.attributes.get("string", ""), "")
        if not typed and tag.name == "argument":
            typed = tag.attributes.get("type", "")
        live = self._place.schema.live_strings
        flows = live is not None and key in live and key not in self._values and key not in self._flowed
        active = self._builder.state in ("live", "held") and typed in ("", "string")
        self._place.equals = bool(tag.value)
        self._value = TagValue(self._place, key, tag.name, typed, flows and active)
        self._phase = self._read_value
        return tag.end

    def _read_value(self, buf: str, pos: int, final: bool) -> int:
        value = self._value
        assert value is not None
        new = value.feed(buf, pos, final)
        if value.state == "open":
            return new if new > pos else MORE
        self._value = None
        if value.state == "failed" or value.ended_by is None:
            return self._fail(new, "wrong_close_tag")
        if value.flowed:
            self._flowed.add(self._key)
        else:
            self._add(value.value)
        return self._after_value(value.ended_by, new, _prefix(buf, new, value.ended_by))

    def _add(self, value: JSONValue) -> None:
        key = self._key
        known = self._place.schema.knows(key)
        if key in self._flowed or (key in self._values and known and "array" not in self._place.schema.wants(key)):
            self._builder.note(Note("duplicate_key", f"`{key[:64]}` stands twice"))
        elif key not in self._values:
            self._values[key] = value
        else:
            held = self._values[key]
            if is_array(held):
                held.append(value)
            else:
                self._values[key] = [held, value]

    def _after_value(self, tag: Tag, at: int, prefix: str) -> int:
        """Go on after a value that `tag` ended. Without its own closing tag it may be half of what was meant."""
        self._phase = self._between
        if tag.kind == "close" and (tag.name == self._closer or tag.name in PARAMETER_TAGS):
            if tag.name != self._closer or prefix != self._prefix:
                self._builder.note(Note("wrong_closer", self._key[:64]))
            return at if tag.name == self._container else tag.end
        self._repairs += 1
        if self._repairs > MAX_REPAIRS:
            return self._fail(at, "too_many_repairs")
        self._builder.note(Note("missing_closer", self._key[:64]))
        return at

    # ---- the end

    def _end_here(self, pos: int) -> int:
        """A call without a closing tag is over when something else follows its parameters."""
        if not self._began:
            return self._fail(pos)
        self._end()
        return pos

    def _end(self, missing: bool = False) -> None:
        builder = self._builder
        if missing:
            builder.note(Note("missing_close_tag"))
        if not self._place.opened:
            builder.token((OBJECT, ""))
        for key, value in self._values.items():
            builder.token((KEY, key))
            builder.token((SCALAR, to_json(value)))
        builder.token((END_OBJECT, ""))
        if builder.state in ("live", "held"):
            builder.end()
        self.state = "done"


def _prefix(buf: str, at: int, tag: Tag) -> str:
    """The letters that the tag at `at` has before its name: those of a namespace."""
    head = lex_head(buf, at)
    return "" if head in _LONG_HEADS else _NO_LETTERS("", head.removesuffix(tag.name))
