"""Calls written as tags: Qwen-Coder, `<invoke>`, DSML, GLM key-value pairs, tags named after the tool.

Reads the opening tag and the tool name, and decides whether the model calls the tool or only mentions it.
`TagParameters` reads the parameters.
"""

import re
from collections.abc import Callable

from ..core.json_repair.containers import MAX_SIZE
from ..core.json_repair.lookahead import LOOKAHEAD
from ..core.parsing.call_builder import CallBuilder
from ..core.parsing.fast_paths import FastPath
from ..core.parsing.tags import MORE, Tag, lex_name, lex_tag
from ..core.text import TOOL_NAME
from ..core.types import JSONValue, Note
from . import tag_names
from .body_grammars import BlockContext, Body, arguments_ahead
from .tag_ends import skip_blank
from .tag_parameters import TagParameters, call_name
from .value_parsing import body_of, has_structure, value_of

#: Maximum length of unstructured text in a tag named after a tool; longer text is prose.
MAX_MENTION = 2048
_NAME = re.compile(TOOL_NAME).fullmatch
#: Several words that begin like a sentence and end like one.
_SENTENCE = re.compile(r"\s*[A-Z][a-z']*(?: [^\s<>]+){2,}[.!?:]\s*").fullmatch
#: Parameters that take sentences.
_PROSE_KEYS = frozenset(
    "answer comment content description input instruction instructions message note prompt question reason response"
    " result summary task text thought".split()
)
#: Tags with a fixed meaning. They name a tool only if a tool with this name is offered.
_RESERVED = tag_names.NAME_TAGS | tag_names.CALL_TAGS | tag_names.PARAMETER_TAGS
_SENTENCE_ENDS = (".", "!", "?", ":", "。")


class TagCalls(Body):
    """Reads one call in tags. Starts at the opening tag, or after the tool name if a `builder` is passed."""

    def __init__(self, block: BlockContext, builder: CallBuilder | None = None, lone: bool = False) -> None:
        super().__init__(block)
        self._builder = builder or block.builder()
        closes = builder is None or block.evidence.wrapper == "strong"
        self._parameters = TagParameters(block, self._builder, closes)
        self._place = self._parameters.place
        self._lone = lone  # no block surrounds the call
        if not lone and block.stops and block.stops[0].startswith("</"):
            self._place.block = block.stops[0][2:-1]
        self._text: list[str] = []  # the stored body
        self._text_size = 0
        self._like_prose = False  # a space and a word follow the tag, as in a sentence
        self._phase: Callable[[TagCalls, str, int, bool], int] = TagCalls._open
        if builder is not None:
            self._phase = TagCalls._read_parameters
            self._place.pairs = True
            self._place.markup = not closes

    def feed(self, buf: str, pos: int, final: bool) -> int:
        parameters = self._parameters
        room = MAX_SIZE + 1 - parameters.size
        if len(buf) - pos > room:  # give up at the same position however the text is chunked
            buf, final = buf[: pos + room], False
        context = self.block.context
        calls_before = context.calls_seen  # stop after JSON arguments: the next `feed` reads the closing tags
        while pos < len(buf) and self.state == "open" and context.calls_seen == calls_before and not self.block.vain:
            new = self._phase(self, buf, pos, final)
            if new == MORE:
                break
            parameters.size += new - pos
            pos = new
            if parameters.size > MAX_SIZE:
                self._fail(pos, "too_large")
        self._builder.tokens(())
        return pos

    def take_key(self, key: str) -> None:
        """Set the key of the first value, which has been read already."""
        self._parameters.take_key(key)

    def fast_path(self) -> FastPath | None:
        return self._parameters.fast_path()

    def finish(self) -> None:
        parameters = self._parameters
        if parameters.has_json:
            self.state = parameters.finish_json()
        elif self._phase is TagCalls._read_parameters and parameters.may_end:
            parameters.end(missing=self._place.closes)
            self.state = "done"
        else:
            if self._like_prose and not has_structure("".join(self._text)):
                self._builder.fail("not_a_call")
            else:
                self._builder.cut()
            self.state = "failed"

    def _fail(self, pos: int, reason: str = "not_a_call") -> int:
        self._builder.fail(reason)
        self.state = "failed"
        return pos

    def _read_parameters(self, buf: str, pos: int, final: bool) -> int:
        new = self._parameters.step(buf, pos, final)
        self.state = self._parameters.state
        return new

    def _end(self, missing: bool = False) -> None:
        self._parameters.end(missing)
        self.state = "done"

    def _open(self, buf: str, pos: int, final: bool) -> int:
        tag = lex_tag(buf, pos, final)
        assert not isinstance(tag, int)  # the block reader has already checked this tag
        self._place.own = tag.name
        self._parameters.bracket_due = buf[tag.end - 1] != ">"
        name = call_name(tag)
        if name:
            self._take(name, hold=tag.kind != "self")
        elif self._contains_name(tag):
            self._phase = TagCalls._name_text
        elif self.block.context.knows(tag.name) or not (tag.name in _RESERVED or tag.kind == "close"):
            self._take_tag(tag)
        elif tag.name in tag_names.NAME_TAGS:
            self._phase = TagCalls._name_text
        else:
            return self._fail(pos)
        self._builder.apart = len(tag.attributes) > bool(name)
        if tag.kind == "self" and self.state == "open":
            self._take_attributes(tag, bool(name))
            self._end()
        return tag.end

    def _take_attributes(self, tag: Tag, has_name: bool) -> None:
        """Read the attributes of a self-closing tag as arguments, except the one with the tool name."""
        for key, text in tag.attributes.items():
            if not (has_name and key in tag_names.NAME_ATTRIBUTES):
                value = value_of(text, self._place.schema, key, "", True, self._place.allowance)
                self._parameters.values[key] = value

    def _contains_name(self, tag: Tag) -> bool:
        """Whether the tool name is the text of this tag, even if a tool has the tag's name. False outside a block."""
        return tag.name in tag_names.LONE_NAME_TAGS and tag.kind == "open" and not (self._lone or tag.attributes)

    def _take(self, name: str, hold: bool = False) -> None:
        """Set the tool name. With `hold`, emit nothing until the body proves that this is not a mere mention."""
        self._phase = TagCalls._proof if hold else TagCalls._read_parameters
        if not self._builder.take_name(name, hold=hold):
            self.state = "failed" if self._builder.stops_region else self.state
            self.block.vain = True
        self._place.schema = self.block.context.schema(name)

    def _take_tag(self, tag: Tag) -> None:
        """Take the tag's name as the tool name. Emit nothing until the body proves that this is not a mere mention."""
        self._place.markup = True
        self._place.schema = self.block.context.schema(tag.name)
        self._phase = TagCalls._first
        if not self._builder.take_name(tag.name, hold=tag.kind != "self"):
            self.state = "failed"

    def _name_text(self, buf: str, pos: int, final: bool) -> int:
        """Read `<tool_name>NAME</tool_name>`."""
        end = buf.find("<", pos, pos + LOOKAHEAD)
        brace = buf.find("{", pos, pos + LOOKAHEAD if end < 0 else end)
        if brace >= 0 and _NAME(buf[pos:brace].strip()):  # `<function>NAME{...}`
            self._take(buf[pos:brace].strip())
            return brace
        if end < 0:
            return MORE if len(buf) - pos < LOOKAHEAD else self._fail(pos)
        name = buf[pos:end].strip()
        if not name or any(char in name for char in " \n{"):
            return self._fail(pos)
        tag = lex_tag(buf, end, final)
        if isinstance(tag, int):
            return MORE if tag == MORE else self._fail(pos)
        closed = tag.kind == "close"
        if closed and tag.name != self._place.own:
            self._builder.note(Note("wrong_close_tag", tag.name[:64]))
        alone = closed and self._lone
        self._parameters.name_is_separate = closed
        self._place.closes = self._place.closes and not alone
        self._take(name, hold=alone)
        self._phase = TagCalls._next_part if alone else self._phase
        return tag.end if closed else end

    def _next_part(self, buf: str, pos: int, final: bool) -> int:
        """Require argument tags after a name tag outside a block; without them it was an ordinary element."""
        at = self._skip_blank(buf, pos, final)
        if at == MORE or (at == len(buf) and at - pos < LOOKAHEAD):
            return MORE
        tag = lex_tag(buf, at, final) if at - pos < LOOKAHEAD and buf[at] == "<" else None
        if tag == MORE:
            return MORE
        if not isinstance(tag, Tag):
            return self._fail(pos)
        is_parameter = tag.name in tag_names.PARAMETER_TAGS and bool(tag.value or tag.attributes)
        if not (is_parameter or (tag.name in tag_names.CONTAINER_TAGS and tag.kind == "open")):
            return self._fail(pos)
        return self._go_live(at)

    def _skip_blank(self, buf: str, pos: int, final: bool) -> int:
        at = skip_blank(buf, pos, final)
        self._place.noise = self._place.noise or tag_names.NOISE in buf[pos:at]
        return at

    def _go_live(self, at: int) -> int:
        self._builder.go_live()
        self._phase = TagCalls._read_parameters
        return at

    def _proof(self, buf: str, pos: int, final: bool) -> int:
        """Require a tag or JSON after the opening tag; anything else means that the tool was only mentioned."""
        at = self._skip_blank(buf, pos, final)
        if at - pos >= LOOKAHEAD:
            return self._fail(pos)
        if at == MORE or at == len(buf):
            return MORE
        ahead = buf[at] in "<`" or arguments_ahead(buf, at)
        if ahead is None:
            return MORE
        return self._go_live(at) if ahead else self._fail(pos)

    def _first(self, buf: str, pos: int, final: bool) -> int:
        """Decide how to read the body of a tag named after a tool: JSON, declared parameters, or text to store."""
        at = self._skip_blank(buf, pos, final)
        if at - pos >= LOOKAHEAD:
            self._phase = TagCalls._body
            return pos
        if at == MORE or at == len(buf):
            return MORE
        if buf[at] == "{":
            self._phase = TagCalls._read_parameters
            return at
        self._like_prose = at > pos and buf[at].isalpha() and not buf[pos:at].strip(" ")
        if self._like_prose and not self.block.evidence.line_start:
            return self._fail(pos)
        if buf[at] == "<" and self._place.schema.names:
            name, closing, end = lex_name(buf, at)
            if end == len(buf) and not final:
                return MORE
            if self._place.schema.declares(name) and not closing:
                return self._go_live(at)
        self._phase = TagCalls._body
        return pos

    def _body(self, buf: str, pos: int, final: bool) -> int:
        """Store everything up to the closing tag."""
        at = buf.find("<", pos)
        if at != pos:
            return self._store(buf, pos, len(buf) if at < 0 else at)
        name, closing, end = lex_name(buf, at)
        if end == len(buf) and not final:
            return MORE
        if not closing and name in tag_names.BLOCK_TAGS:
            return self._fail(at)  # a call block begins, so this tag was only a mention
        if not closing or name != self._place.own:
            return self._store(buf, pos, at + 1)
        tag = lex_tag(buf, at, final)
        if tag == MORE:
            return MORE
        if isinstance(tag, int):
            # If the text ends here, only the bracket of the closing tag is missing.
            return self._end_body(len(buf), missing=True) if final and not buf[end:].strip() else self._fail(at)
        return self._end_body(tag.end)

    def _end_body(self, end: int, missing: bool = False) -> int:
        body = "".join(self._text)
        place = self._place
        is_sentence = self._like_prose and body.rstrip().endswith(_SENTENCE_ENDS)
        alone = self.block.evidence.line_start and not is_sentence
        repairs: list[Note] = []
        arguments = body_of(body, place.schema, alone, place.allowance, repairs)
        if arguments is None or self._is_remark(body, arguments):
            return self._fail(end, "no_arguments")
        self._builder.note(*repairs)
        if not arguments and body.strip():
            self._builder.note(Note("stray_text", "the text inside the tag is not an argument of the tool"))
        self._parameters.values = arguments
        self._end(missing)
        return end

    def _is_remark(self, body: str, arguments: dict[str, JSONValue]) -> bool:
        """Whether the model speaks of what it does instead of doing it: a sentence where the tool takes no prose."""
        if _SENTENCE(body) is None or body.strip() not in arguments.values():
            return False
        takes_prose = body.rstrip().endswith("?") or not _PROSE_KEYS.isdisjoint(arguments)
        return not takes_prose or self.block.context.side_effects(self._builder.name)

    def _store(self, buf: str, pos: int, end: int) -> int:
        """Store a part of the body. Fail if it grows long without any structure, because it is then prose."""
        if self._text_size <= MAX_MENTION:
            end = min(end, pos + MAX_MENTION + 1 - self._text_size)
        self._text.append(buf[pos:end])
        self._text_size += end - pos
        if self._text_size == MAX_MENTION + 1 and not has_structure("".join(self._text)):
            return self._fail(end)
        return end
