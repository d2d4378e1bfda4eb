"""Parameters of a call written as tags.

Wrong and missing closing tags are repaired with a note. A JSON object instead of parameter tags is accepted.
"""

from collections.abc import Callable

from ..core.json_repair.containers import MAX_REPAIRS, MAX_SIZE
from ..core.json_repair.lookahead import LOOKAHEAD, always_matching
from ..core.json_repair.tokens import END_OBJECT, KEY, OBJECT, SCALAR
from ..core.parsing.arguments import to_json
from ..core.parsing.call_builder import CallBuilder
from ..core.parsing.dialect_interface import Progress
from ..core.parsing.fast_paths import FastPath, WholeObject
from ..core.parsing.tags import MORE, Tag, lex_tag
from ..core.types import JSONObject, JSONValue, Note
from . import tag_names
from .body_grammars import ArgumentsBody, BlockContext, arguments_ahead
from .tag_ends import FENCE, ValuePlace, key_of, skip_blank, tag_prefix
from .tag_values import TagValue, read_whole_text
from .value_parsing import add_element, plain_text

#: Type of a value, by its `string` attribute.
_STRING_ATTRIBUTE = {"true": "string", "false": "json"}

#: What may precede the value of a parameter: white space, and the key in a tag of its own.
_WHOLE_KEY = r"<((?:longcat_)?arg_key)>\s*([^\s<>{&](?:[^<>&]{0,62}[^\s<>&])?)\s*</\1>\s*"
_whole_key = always_matching(rf"\s*(?:{_WHOLE_KEY})?")

#: Parsing a value between tags takes about as long as parsing this many JSON values.
_VALUE_COST = 2


class TagParameters:
    """Reads the parameters of a call in tags, step by step, from the tool name to the end of the call."""

    def __init__(self, block: BlockContext, builder: CallBuilder, closes: bool) -> None:
        self.state: Progress = "open"
        self.bracket_due = False  # the opening tag lacks its closing bracket
        self.name_is_separate = False  # the name was in a separate tag
        self.size = 0
        self.values: dict[str, JSONValue] = {}
        self._block = block
        self._builder = builder
        context = block.context
        guarded = context.nonce is not None or context.policy == "strict"
        self.place = ValuePlace(builder, context.schema(builder.name), context.allowance, guarded=guarded)
        self.place.open_ended = context.tools is None
        self.place.is_tool = context.knows
        self.place.closes = closes
        self._phase: Callable[[TagParameters, str, int, bool], int] = TagParameters._first
        self._container = ""  # the tag around all arguments, if the name was in a separate tag
        self._repairs = 0  # number of values without a closing tag
        self._key = ""
        self._has_lines = False  # the last value has several lines
        self._streamed: set[str] = set()
        self._started = False
        self._in_fence = False
        self._value: TagValue | None = None
        self._closer = ""
        self._prefix = ""  # the namespace in the opening tag of the value
        self._arguments: ArgumentsBody | None = None

    def step(self, buf: str, pos: int, final: bool) -> int:
        """Read one step from `pos`. Returns the new position, or MORE if more text is needed."""
        return self._phase(self, buf, pos, final)

    def fast_path(self) -> FastPath | None:
        """Return the fast path for the current state, if there is one."""
        if self._arguments is not None:
            return self._arguments.fast_path()
        return self._value.fast_path(MAX_SIZE - self.size, self._grow) if self._value is not None else None

    @property
    def has_json(self) -> bool:
        """Whether the arguments are JSON instead of parameter tags."""
        return self._arguments is not None

    @property
    def may_end(self) -> bool:
        """Whether the call would be complete if the answer ended here."""
        is_between = self._started and self._phase is TagParameters._between
        if not self.place.closes:
            return is_between
        is_closed = self._closer in {*tag_names.PARAMETER_TAGS, "arg_value"} or self.place.schema.declares(self._key)
        return is_between and is_closed and not self._builder.goes_on and not self._block.context.cut

    def take_key(self, key: str) -> None:
        """Set the key of the first value, which has been read already."""
        self._key = key
        self._started = True
        self._phase = TagParameters._between

    def finish_json(self) -> Progress:
        """Handle the end of the answer during or after JSON arguments."""
        assert self._arguments is not None
        if self._arguments.state == "done":
            return "done"
        self._arguments.finish()
        return "failed"

    def _grow(self, count: int) -> None:
        self.size += count

    def _fail(self, pos: int, reason: str = "not_a_call") -> int:
        self._builder.fail(reason)
        self.state = "failed"
        return pos

    def _lose(self, pos: int) -> int:
        """Give up, because it is unknown where a value ends."""
        self._block.is_lost = True
        return self._fail(pos, "wrong_close_tag")

    def _first(self, buf: str, pos: int, final: bool) -> int:
        self._phase = TagParameters._between
        return self._take_whole(buf, pos, final) or self._between(buf, pos, final)

    def _take_whole(self, buf: str, pos: int, final: bool) -> int:
        """Take all parameters at once and end the call. Returns 0 and changes nothing if that is not possible."""
        arguments: JSONObject = {}
        written = _whole_key(buf, pos)
        while not isinstance(tag := lex_tag(buf, at := written.end(), final), int) and tag.kind == "open":
            has_key = tag.name in tag_names.PARAMETER_TAGS
            key = key_of(tag) if has_key else written[2] or "" if tag.name == "arg_value" else tag.name
            whole = None if key in arguments else self._whole_text(key, tag, buf, at, final)
            if whole is None:
                return 0
            arguments[key], pos = whole
            written = _whole_key(buf, pos)
        end = None if isinstance(tag, int) or not arguments else self._end_of_call(tag, at)
        whole = WholeObject(arguments, to_json(arguments), at, _VALUE_COST * len(arguments))
        allowance = self.place.allowance
        if end is None or allowance.remaining <= whole.values or not self._builder.take_arguments(whole):
            return 0
        allowance.remaining -= whole.values
        self.state = "done"
        return end

    def _whole_text(self, key: str, tag: Tag, buf: str, at: int, final: bool) -> tuple[str, int] | None:
        """Return the value after a tag if it is plain text, and the position after its closing tag."""
        place, value_type = self.place, _type_of(tag)
        is_plain = not (tag.value or tag.attributes) and place.pairs is (tag.name == "arg_value")
        is_parameter = (is_plain or tag.name in tag_names.PARAMETER_TAGS) and place.closes and not self.bracket_due
        is_text = bool(value_type) or "null" not in place.schema.property_types(key)
        if not (is_parameter and is_text and self._streams(key, value_type)):
            return None
        place.equals = bool(tag.value)
        place.side_effects = self._block.context.side_effects(self._builder.name)
        return read_whole_text(place, tag.name, tag_prefix(buf, at, tag.name), buf, tag.end, final)

    def _between(self, buf: str, pos: int, final: bool) -> int:
        at = skip_blank(buf, pos, final)
        if at - pos >= LOOKAHEAD and not self.place.closes:
            return self._end_here(pos)
        self.place.noise = self.place.noise or (at != MORE and tag_names.NOISE in buf[pos:at])
        if at == MORE or at == len(buf):
            return at if self.place.closes else MORE
        if buf[at] != "<":
            return self._untagged(buf, pos, at, final)
        if buf.startswith("!", at + 1):
            return self._cdata(buf, pos, at, final)
        tag = lex_tag(buf, at, final)
        if isinstance(tag, int):
            return MORE if tag == MORE else self._stray(buf, pos, at, final)
        self._prefix = tag_prefix(buf, at, tag.name)
        return self._tag(tag, at)

    def _untagged(self, buf: str, pos: int, at: int, final: bool) -> int:
        """Read JSON instead of parameter tags, or unexpected text between tags."""
        if self.bracket_due and buf.startswith("/>", at):  # `<name <key>...</key> />`
            self.end(missing=True)
            return at + 2
        ahead = not self._started and arguments_ahead(buf, at)
        if ahead is None:
            return MORE
        if ahead:
            self._arguments = ArgumentsBody(self._block, self._builder, stops=(f"</{self.place.own}>",))
            self._phase = TagParameters._json
            return at
        return self._stray(buf, pos, at, final)

    def _cdata(self, buf: str, pos: int, at: int, final: bool) -> int:
        """Skip the start of a CDATA section around the arguments. Anything else after `<!` is stray text."""
        if buf.startswith(tag_names.CDATA, at):
            return at + len(tag_names.CDATA)
        is_partial = tag_names.CDATA.startswith(buf[at : at + len(tag_names.CDATA)]) and not final
        return MORE if is_partial else self._stray(buf, pos, at, final)

    def _stray(self, buf: str, before: int, pos: int, final: bool) -> int:
        """Drop unexpected text with a note, or end a call that has no closing tag. Skip code fences."""
        if not self.place.closes:
            return self._end_here(before)
        fence = FENCE(buf, pos)
        if fence is not None and (fence.end() < len(buf) or final):
            self._in_fence = True
            return fence.end()
        if fence is not None or ("```".startswith(buf[pos : pos + 3]) and not final):
            return MORE
        end = buf.find("<", pos + 1)
        end = len(buf) if end < 0 else end
        self._started = True  # JSON arguments are no longer possible
        self._builder.note(Note("stray_text"))
        return end

    def _tag(self, tag: Tag, at: int) -> int:
        if tag.kind == "close":
            return self._close_tag(tag, at)
        if tag.name in tag_names.BLOCK_TAGS and not call_name(tag) and not self.place.schema.declares(tag.name):
            # The next block begins before the end of this call, or the last value contains a part of another call.
            return self._lose(at) if self._has_lines else self._fail(at, "missing_close_tag")
        if self._is_next(tag):
            if self.place.closes and self._builder.goes_on:
                return self._lose(at)
            self.end(missing=self.place.closes)
            return at
        plain = not tag.value and not tag.attributes
        if plain and not self.place.pairs and self.place.schema.declares(tag.name):
            return self._begin(tag.name, tag)
        if tag.name in tag_names.CONTAINER_TAGS and not self.place.schema.declares(tag.name):
            return self._contain(tag)
        if tag.name == "arg_key" or (tag.name in tag_names.PARAMETER_TAGS and plain):
            self._phase = TagParameters._key_text
            return tag.end
        if tag.name in tag_names.PARAMETER_TAGS:
            return self._begin(key_of(tag), tag)
        return self._begin(self._key if tag.name == "arg_value" else tag.name, tag)

    def _contain(self, tag: Tag) -> int:
        """Read a tag around all arguments. After a separate name, its closing tag ends the call."""
        if self.name_is_separate and not self._container and tag.kind == "open":
            self._container = tag.name
            self.place.closes = True
            self._phase = TagParameters._contained
        return tag.end

    def _contained(self, buf: str, pos: int, final: bool) -> int:
        """Decide how to read the content of the tag around all arguments: as tags, JSON, or the only text parameter."""
        at = skip_blank(buf, pos, final)
        if at == MORE or (at == len(buf) and at - pos < LOOKAHEAD):
            return MORE
        ahead = at - pos >= LOOKAHEAD or buf[at] in "<`[" or arguments_ahead(buf, at)
        if ahead is None:
            return MORE
        self._phase = TagParameters._between
        if ahead:
            return at
        key = self._only_text_key()
        return self._begin(key, Tag("open", self._container, "", {}, pos)) if key else self._fail(at, "no_arguments")

    def _only_text_key(self) -> str:
        """Return the tool's only string parameter, to which text without a key belongs; empty if there is none."""
        schema = self.place.schema
        strings = [name for name in schema.names if schema.property_types(name) <= {"string"}]
        return "input" if schema.parameters is None else strings[0] if len(strings) == 1 else ""

    def _is_next(self, tag: Tag) -> bool:
        """Whether a tag begins something after the call: another call, or a special token."""
        if tag.name.startswith("|") or call_name(tag):
            return True
        other = bool(self._block.context.knows(tag.name)) and not self.place.schema.declares(tag.name)
        return other and not self.place.closes

    def _close_tag(self, tag: Tag, at: int) -> int:
        end = self._end_of_call(tag, at)
        if end is not None:
            self.end()
        return tag.end if end is None else end

    def _end_of_call(self, tag: Tag, at: int) -> int | None:
        """Return the end of the call if a closing tag ends it. The block reader handles the closing tag of a block."""
        if tag.name in (self.place.own, self._builder.name, self._container) or tag.name in tag_names.CALL_TAGS:
            return tag.end
        return at if tag.name in tag_names.CALL_ENDS or tag.name.startswith("|") else None

    def _key_text(self, buf: str, pos: int, final: bool) -> int:
        """Read `<arg_key>KEY</arg_key>` or `<parameter>KEY</parameter>`. A JSON object here contains all arguments."""
        at = skip_blank(buf, pos, final)
        if not self._started and 0 <= at < len(buf) and buf[at] == "{":
            self._phase = TagParameters._between
            return at
        end = buf.find("<", pos, pos + LOOKAHEAD)
        if end < 0:
            return MORE if len(buf) - pos < LOOKAHEAD else self._fail(pos)
        tag = lex_tag(buf, end, final)
        if isinstance(tag, int):
            return MORE if tag == MORE else self._fail(pos)
        self._key = plain_text(buf[pos:end]).strip()
        if tag.name == "arg_key":
            self._phase = TagParameters._between
            return tag.end
        if tag.name == "arg_value":  # the closing tag of the key is missing
            return self._begin(self._key, tag)
        return self._begin(self._key, Tag("open", "", self._key, {}, tag.end))

    def _json(self, buf: str, pos: int, final: bool) -> int:
        arguments = self._arguments
        assert arguments is not None
        new = arguments.feed(buf, pos, final)
        if arguments.state == "open":
            return new if new > pos else MORE
        if arguments.state == "failed":
            self.state = "failed"
        else:
            self._phase = TagParameters._closing
        return new

    def _closing(self, buf: str, pos: int, final: bool) -> int:
        """Read the closing tags after JSON arguments, if there are any."""
        at = skip_blank(buf, pos, final)
        if at - pos >= LOOKAHEAD:
            self.state = "done"
            return pos
        if at == MORE or at == len(buf):
            return MORE
        if buf.startswith(tag_names.CDATA_END, at):
            return at + len(tag_names.CDATA_END)
        if buf[at] == "}" and at == pos and self.place.closes:
            self._block.note_extra_closer()
            return at + 1
        if self.bracket_due and buf[at] in ")>":
            return at + 1
        if self._in_fence and buf.startswith("```", at):
            self._in_fence = False
            return at + 3
        rest = buf[at : at + 3]
        if not final and (tag_names.CDATA_END.startswith(rest) or (self._in_fence and "```".startswith(rest))):
            return MORE
        tag = lex_tag(buf, at, final) if buf[at] == "<" else None
        if tag == MORE:
            return MORE
        closers = tag_names.CONTAINER_TAGS | tag_names.PARAMETER_TAGS | {self.place.own}
        if tag is None or isinstance(tag, int) or tag.kind != "close" or tag.name not in closers:
            self.state = "done"
            return pos
        self.state = "done" if tag.name in (self.place.own, self._container) else "open"
        return tag.end

    def _begin(self, key: str, tag: Tag) -> int:
        """Start reading the value of `key` after its opening `tag`."""
        if self.place.allowance.exhausted:
            return self._fail(tag.end, "too_many_values")
        self.place.allowance.remaining -= _VALUE_COST
        self._started = True
        self._key = key
        self._closer = tag.name
        if tag.kind == "self":
            self._add("")
            return tag.end
        value_type = _type_of(tag)
        self.place.equals = bool(tag.value)
        self.place.side_effects = self._block.context.side_effects(self._builder.name)
        self.place.keys.add(key)
        self._value = TagValue(self.place, key, tag.name, self._prefix, value_type, self._streams(key, value_type))
        self._phase = TagParameters._read_value
        return tag.end

    def _streams(self, key: str, value_type: str) -> bool:
        """Whether the value of `key` is text unless its first characters say otherwise, so that it can be streamed."""
        schema = self.place.schema
        if not schema.piecewise or not schema.declares(key) or schema.value.member(key).text_delay is None:
            return False
        if self._builder.state not in ("live", "held") or key in self.values or key in self._streamed:
            return False
        if value_type:
            return value_type == "string"
        types = schema.property_types(key)
        return not types or "string" in types

    def _read_value(self, buf: str, pos: int, final: bool) -> int:
        value = self._value
        assert value is not None
        new = value.feed(buf, pos, final)
        if value.state == "open":
            return new if new > pos else MORE
        self._value = None
        if value.state == "failed" or value.ended_by is None:
            return self._lose(new)
        if value.streamed:
            self._streamed.add(self._key)
        else:
            self._add(value.value)
        return self._after_value(value, value.ended_by, new, tag_prefix(buf, new, value.ended_by.name))

    def _add(self, value: JSONValue) -> None:
        """Add a value. Repeated tags make an array where the schema allows one; otherwise the last value counts."""
        key = self._key
        types = self.place.schema.property_types(key)
        # A string that streams can no longer change. An empty one counts as well, although it was not streamed.
        if key in self._streamed or (key in self.values and types == frozenset({"string"})):
            self._builder.note(Note("duplicate_key", f"`{key[:64]}` occurs twice"))
        elif key in self.values and types and "array" not in types:
            self._builder.note(Note("repeated_tag", f"`{key[:64]}` occurs twice; the last value counts"))
            self.values[key] = value
        else:
            add_element(self.values, key, value)

    def _after_value(self, value: TagValue, tag: Tag, at: int, prefix: str) -> int:
        """Continue after a value. Add a note if the value was not ended by its own closing tag."""
        self._phase = TagParameters._between
        self._has_lines = value.end.has_lines
        self._builder.goes_on = self._builder.goes_on or value.end.has_closer
        if value.end.is_ambiguous:
            return self._lose(at)
        if tag.kind == "close" and (tag.name == self._closer or tag.name in tag_names.PARAMETER_TAGS):
            if self._closer and (tag.name != self._closer or prefix != self._prefix or value.end.is_doubtful):
                self._builder.note(Note("wrong_closer", self._key[:64]))
            return at if tag.name == self._container else tag.end
        if value.end.has_closer:  # it may have ended there or here
            return self._lose(at)
        self._repairs += 1
        if self._repairs > MAX_REPAIRS:
            return self._fail(at, "too_many_repairs")
        self._builder.note(Note("missing_closer", self._key[:64]))
        return at

    def _end_here(self, pos: int) -> int:
        """End a call that has no closing tag, because other text follows its parameters."""
        if not self._started:
            return self._fail(pos)
        self.end()
        return pos

    def end(self, missing: bool = False) -> None:
        """Complete the call. `missing`: whether its closing tag is missing."""
        builder = self._builder
        if missing:
            builder.note(Note("missing_close_tag"))
        if not self.place.opened:
            builder.token((OBJECT, ""))
        for key, value in self.values.items():
            builder.token((KEY, key))
            builder.token((SCALAR, to_json(value)))
        builder.token((END_OBJECT, ""))
        if builder.state in ("live", "held"):
            builder.end()
        self.state = "done"


def call_name(tag: Tag) -> str:
    """Return the tool name given in the tag itself, such as `<invoke name="NAME">`; empty if there is none."""
    if tag.name not in tag_names.CALL_ENDS or (tag.value and tag.name not in tag_names.CALL_TAGS):
        return ""
    name = tag.value or next((tag.attributes[key] for key in tag_names.NAME_ATTRIBUTES if key in tag.attributes), "")
    return name.partition(" ")[0]  # a nonce may follow the name


def _type_of(tag: Tag) -> str:
    """Return the type of a value that its opening tag states; empty if there is none."""
    value_type = _STRING_ATTRIBUTE.get(tag.attributes.get("string", ""), "")
    return tag.attributes.get("type", "") if not value_type and tag.name == "argument" else value_type
