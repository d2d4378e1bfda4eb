"""Calls written as tags: Qwen-Coder, invoke, DSML, GLM pairs, tags named like the tool.

One reader for all of them: `tag_names` says which tags carry a call, a parameter or nothing. Here is read what comes
first: the tag that opens the call, its name, and whether this is a call or a mention of one; the rest is
`tag_parameters`.
"""

from __future__ import annotations

from ..core.json_repair.lookahead import LOOKAHEAD
from ..core.parsing.call_builder import CallBuilder
from ..core.parsing.tags import MORE, Tag, lex_name, lex_tag
from ..core.types import Note
from .bodies import Context, arguments_ahead
from .tag_names import (
    BLOCK_TAGS,
    CALL_TAGS,
    CONTAINER_TAGS,
    LONE_NAME_TAGS,
    NAME_ATTRIBUTES,
    NAME_TAGS,
    PARAMETER_TAGS,
)
from .tag_parameters import TagParameters
from .values import body_of, has_structure, value_of

#: How much text without structure may stand between two tags named like a tool.
MAX_MENTION = 2048
_SENTENCE_ENDS = (".", "!", "?", ":", "。")


class TagCalls(TagParameters):
    """One call in tags. The reader starts at its opening tag, or behind its name when `builder` is given."""

    def __init__(self, context: Context, builder: CallBuilder | None = None, lone: bool = False) -> None:
        super().__init__(context, builder or context.builder(), builder is None or context.evidence.wrapper == "strong")
        self._lone = lone  # no block stands around the call
        self._text: list[str] = []  # a body that is held as a whole
        self._held = 0
        self._spoken = False  # a space and a word stand behind the tag, as in a sentence that mentions it
        if builder is None:
            self._phase = self._open
        else:
            self._place.pairs = True
            self._place.markup = not self._closes

    def finish(self) -> None:
        if self._arguments is not None and self._arguments.state == "done":
            self.state = "done"
            return
        if self._arguments is not None:
            self._arguments.finish()
        elif not self._closes and self._phase == self._between and self._began:
            self._end()
            return
        elif self._spoken and not has_structure("".join(self._text)):
            self._builder.fail("not_a_call")
        else:
            self._builder.cut()
        self.state = "failed"

    # ---- the opening tag

    def _open(self, buf: str, pos: int, final: bool) -> int:
        tag = lex_tag(buf, pos, final)
        assert not isinstance(tag, int)  # the block has seen it whole
        self._place.own = tag.name
        self._place.prefixed = "DSML" in buf[pos : tag.end]
        self._bracket_due = buf[tag.end - 1] != ">"
        name = self.name_in(tag)
        if name:
            self._take(name, hold=tag.kind != "self")
        elif self._names(tag):
            self._phase = self._name_text
        elif self.context.desk.knows(tag.name) or not self._is_reserved(tag):
            self._take_tag(tag)
        elif tag.name in NAME_TAGS:
            self._phase = self._name_text
        else:
            return self._fail(pos)
        if tag.kind == "self" and self.state == "open":
            self._take_attributes(tag, bool(name))
            self._end()
        return tag.end

    def _take_attributes(self, tag: Tag, named: bool) -> None:
        """A tag without a body: what does not name the call is an argument."""
        for key, text in tag.attributes.items():
            if not (named and key in NAME_ATTRIBUTES):
                self._values[key] = value_of(text, self._place.schema, key, "", True, self._place.allowance)

    def _names(self, tag: Tag) -> bool:
        """Whether the tag can only hold the name: in a block it does, whatever the tools are called."""
        return tag.name in LONE_NAME_TAGS and tag.kind == "open" and not (self._lone or tag.attributes)

    @staticmethod
    def _is_reserved(tag: Tag) -> bool:
        """Whether a tag cannot be named like a tool unless a tool of that name is on offer."""
        reserved = tag.name in NAME_TAGS or tag.name in CALL_TAGS or tag.name in PARAMETER_TAGS
        return reserved or tag.kind == "close"

    def _take(self, name: str, hold: bool = False) -> None:
        """The name is known. Behind an opening tag the call is held until its body shows that it is no mention."""
        self._phase = self._proof if hold else self._between
        if not self._builder.take_name(name, hold=hold):
            self.state = "failed" if self._builder.stops_region else self.state
            self.context.vain = True
        self._place.schema = self.context.desk.schema(name)

    def _take_tag(self, tag: Tag) -> None:
        """The tag is named like the tool. Until its body shows structure it may be a mere mention."""
        self._place.markup = True
        self._place.schema = self.context.desk.schema(tag.name)
        self._phase = self._first
        if not self._builder.take_name(tag.name, hold=tag.kind != "self"):
            self.state = "failed"

    def _name_text(self, buf: str, pos: int, final: bool) -> int:
        """`<tool_name>NAME</tool_name>`."""
        end = buf.find("<", pos, pos + LOOKAHEAD)
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
        self._apart = closed
        self._closes = self._closes and not (closed and self._lone)
        self._take(name, hold=closed and self._lone)
        self._phase = self._next_part if closed and self._lone else self._phase
        return tag.end if closed else end

    def _next_part(self, buf: str, pos: int, final: bool) -> int:
        """Behind a name in a tag of its own that no block stands around: the arguments in tags, or a mere element."""
        at = self._blank(buf, pos, final)
        if at == MORE or (at == len(buf) and at - pos < LOOKAHEAD):
            return MORE
        tag = lex_tag(buf, at, final) if at - pos < LOOKAHEAD and buf[at] == "<" else None
        if tag == MORE:
            return MORE
        named = isinstance(tag, Tag) and tag.name in PARAMETER_TAGS and bool(tag.value or tag.attributes)
        if not (named or (isinstance(tag, Tag) and tag.name in CONTAINER_TAGS and tag.kind == "open")):
            return self._fail(pos)
        self._builder.go_live()
        self._phase = self._between
        return at

    def _proof(self, buf: str, pos: int, final: bool) -> int:
        """The first visible character behind the opening tag: a tag or JSON, or else this was a mention in prose."""
        at = self._blank(buf, pos, final)
        if at - pos >= LOOKAHEAD:
            return self._fail(pos)
        if at == MORE or at == len(buf):
            return MORE
        ahead = buf[at] in "<`" or arguments_ahead(buf, at)
        if ahead is None:
            return MORE
        if not ahead:
            return self._fail(pos)
        self._builder.go_live()
        self._phase = self._between
        return at

    # ---- a body that is held as a whole

    def _first(self, buf: str, pos: int, final: bool) -> int:
        """Right behind a tag named like a tool: its body is JSON, known parameters, or something to hold."""
        at = self._blank(buf, pos, final)
        if at - pos >= LOOKAHEAD:
            self._phase = self._body
            return pos
        if at == MORE or at == len(buf):
            return MORE
        if buf[at] == "{":
            self._phase = self._between
            return at
        self._spoken = at > pos and buf[at].isalpha() and not buf[pos:at].strip(" ")
        if self._spoken and not self.context.evidence.line_start:
            return self._fail(pos)
        if buf[at] == "<" and self._place.schema.names:
            name, closing, end = lex_name(buf, at)
            if end == len(buf) and not final:
                return MORE
            if self._place.schema.knows(name) and not closing:
                self._builder.go_live()
                self._phase = self._between
                return at
        self._phase = self._body
        return pos

    def _body(self, buf: str, pos: int, final: bool) -> int:
        """Everything up to the closing tag."""
        at = buf.find("<", pos)
        if at != pos:
            return self._keep(buf, pos, len(buf) if at < 0 else at)
        name, closing, end = lex_name(buf, at)
        if end == len(buf) and not final:
            return MORE
        if not closing and name in BLOCK_TAGS:
            return self._fail(at)  # a call of another kind begins: this was only a mention
        if not closing or name != self._place.own:
            return self._keep(buf, pos, at + 1)
        tag = lex_tag(buf, at, final)
        if tag == MORE:
            return MORE
        if isinstance(tag, int):
            # The closing tag is there; if the text ends right here, only its bracket is missing.
            return self._end_body(len(buf), missing=True) if final and not buf[end:].strip() else self._fail(at)
        return self._end_body(tag.end)

    def _end_body(self, end: int, missing: bool = False) -> int:
        body = "".join(self._text)
        said = self._spoken and body.rstrip().endswith(_SENTENCE_ENDS)
        place = self._place
        alone = self.context.evidence.line_start and not said
        repairs: list[Note] = []
        arguments = body_of(body, place.schema, alone, place.allowance, repairs)
        if arguments is None:
            return self._fail(end, "no_arguments")
        self._builder.note(*repairs)
        if not arguments and body.strip():
            self._builder.note(Note("stray_text", "the text in the tag is no argument of the tool"))
        self._values = arguments
        self._end(missing)
        return end

    def _keep(self, buf: str, pos: int, end: int) -> int:
        """Hold text of the body. Text that shows no structure is held only for a while: it may be prose."""
        if self._held <= MAX_MENTION:
            end = min(end, pos + MAX_MENTION + 1 - self._held)
        self._text.append(buf[pos:end])
        self._held += end - pos
        if self._held == MAX_MENTION + 1 and not has_structure("".join(self._text)):
            return self._fail(end)
        return end
