"""Calls written as tags: Qwen-Coder, invoke, DSML, GLM pairs, tags named like the tool.

One reader for all of them: a table says which tag names carry a call, a parameter or nothing. A value that
the schema wants as a string flows; everything else is read when its tag closes. Wrong and missing closers
are taken for what they most likely mean. Above: `block`. Below: `values`, `bodies`, `core.markup`.
"""

from __future__ import annotations

import re

from ..core.arguments import to_json
from ..core.builder import CallBuilder
from ..core.events import CallArgs
from ..core.lenient_json import END_OBJECT, END_STRING, KEY, OBJECT, PART, SCALAR, STRING
from ..core.literals import escape_text
from ..core.markup import MORE, Tag, lex_name, lex_tag, unescape
from ..core.model import JSONValue, Note
from ..core.quotes import LOOKAHEAD
from ..core.schema import ArgumentSchema
from ..core.scanner import Run
from .bodies import ArgumentsBody, Body, Context
from .values import body_of, plain_text, trim, value_of

__all__ = ["CALL_TAGS", "NOISE", "TagCalls"]

#: Tags that carry a call, with the attributes that may name it.
CALL_TAGS = frozenset({"function", "invoke", "call", "tool"})
#: Tags whose text is the name of the call.
NAME_TAGS = frozenset({"tool_name", "name", "function_name", "function", "tool"})
_NAME_ATTRIBUTES = ("name", "tool", "function")
_KEY_ATTRIBUTES = ("name", "key")
PARAMETER_TAGS = frozenset({"parameter", "param", "argument", "arg"})
#: Tags around all parameters: they mean nothing themselves.
_CONTAINERS = frozenset({"parameters", "arguments", "args", "tool_input", "input", "params", "tool_sep"})
#: Tags that end a call when they close, whatever opened it.
CALL_ENDS = CALL_TAGS | {"tool_call", "tool_calls", "function_call", "function_calls", "toolcall", "tool-call"}
#: MiniMax M3 puts this before every tag.
NOISE = "]<]minimax[>["
_CDATA, _CDATA_END = "<![CDATA[", "]]>"
#: Where a flowing value must be looked at; a line break matters only before a tag.
_INTERRUPT = re.compile(
    r"<(?=[!A-Za-z|｜]|/[\s\w|｜]|/?\Z)|&(?=[#a-zA-Z]|\Z)|\](?=<|\Z)|\n(?=[ \t]*+(?:<[/!A-Za-z|｜]|<?\Z))"
).search
_PLAIN = re.compile(r"[^<&\]\n]*+(?:\n(?=[ \t]*+[^\s<])[^<&\]\n]*+)*+").fullmatch
_ENTITY = re.compile(r"&(?:#?\w{1,8};)?").match
_BLANK = re.compile(r"[\s,]*").match
_TYPE_ATTRIBUTES = {"true": "string", "false": "json"}


class TagCalls(Body):
    """One call in tags. The reader starts at its opening tag, or behind its name when `builder` is given."""

    def __init__(self, context: Context, builder: CallBuilder | None = None) -> None:
        super().__init__(context)
        self._builder = builder or context.builder()
        self._phase = self._open if builder is None else self._between
        self._own = ""  # the tag that opened the call
        self._folded = False  # its tags carry DeepSeek's prefix, so no tag in a value is mistaken for one
        self._markup = False  # every tag inside is a key
        self._pairs = False  # keys and values in tags of their own (GLM)
        self._text: list[str] = []
        self._key = ""
        self._typed = ""
        self._values: dict[str, JSONValue] = {}
        self._began = False
        self._opened = False  # the argument object has been begun, because a value flows
        self._own_line = False  # the value stands on lines of its own
        self._closer = ""  # the tag that opened the value
        self._arguments: ArgumentsBody | None = None
        self._schema = ArgumentSchema.of(None)
        #: Whether a closing tag is due. A bare name in front of tags has none.
        self._closes = builder is None or context.evidence.wrapper == "strong"
        if builder is not None:
            self._schema = context.desk.schema(builder.name)
            self._pairs = True
            self._markup = not self._closes

    # ---- reading

    def feed(self, buf: str, pos: int, final: bool) -> int:
        while pos < len(buf) and self.state == "open":
            new = self._phase(buf, pos, final)
            if new == MORE:
                break
            pos = new
        self._builder.tokens(())
        return pos

    def finish(self) -> None:
        if self._arguments is not None:
            self._arguments.finish()
        elif not self._closes and self._phase == self._between and self._values:
            self._end()
            return
        else:
            self._builder.cut()
        self.state = "failed"

    def run(self) -> Run | None:
        if self._arguments is not None:
            return self._arguments.run()
        builder = self._builder
        flows = self._phase == self._live_value and builder.state == "live"
        if not flows or builder.arguments is None:
            return None
        record, index = builder.arguments.record, builder.index

        def pass_on(chunk: str) -> CallArgs:
            fragment = escape_text(chunk)
            record(fragment)
            return CallArgs(index, fragment)

        return Run(_PLAIN, pass_on)

    def _fail(self, pos: int, reason: str = "not_a_call") -> int:
        self._builder.fail(reason)
        self.state = "failed"
        return pos

    # ---- the opening tag

    def _open(self, buf: str, pos: int, final: bool) -> int:
        tag = lex_tag(buf, pos, final)
        if isinstance(tag, int):
            return MORE if tag == MORE else self._fail(pos)
        self._own = tag.name
        self._folded = "DSML" in buf[pos : tag.end]
        name = self._name_in(tag)
        if self.context.desk.knows(tag.name) and not name:
            self._markup = True
            self._take(tag.name, hold=tag.kind != "self")
            self._phase = self._first if self.state == "open" else self._phase
        elif name:
            self._take(name, hold=False)
        elif tag.name in NAME_TAGS:
            self._phase = self._name_text
        elif tag.name in CALL_TAGS or tag.name in PARAMETER_TAGS or tag.kind == "close":
            return self._fail(pos)
        else:
            self._markup = True
            self._take(tag.name, hold=tag.kind != "self")
            self._phase = self._first if self.state == "open" else self._phase
        if tag.kind == "self" and self.state == "open":
            self._end()
        return tag.end

    def _name_in(self, tag: Tag) -> str:
        if tag.name not in CALL_TAGS:
            return ""
        named = tag.value or next((tag.attributes[key] for key in _NAME_ATTRIBUTES if key in tag.attributes), "")
        return named.partition(" ")[0]  # what follows a space is a nonce

    def _take(self, name: str, hold: bool) -> None:
        self._phase = self._between
        if not self._builder.take_name(name, hold=hold):
            self.state = "failed" if self._builder.stops_region or self._markup else "open"
        self._schema = self.context.desk.schema(name)

    def _name_text(self, buf: str, pos: int, final: bool) -> int:
        """`<tool_name>NAME</tool_name>`, or JSON behind a call tag without a name."""
        end = buf.find("<", pos)
        if end < 0:
            return MORE if len(buf) - pos < LOOKAHEAD and not final else self._fail(pos)
        name = buf[pos:end].strip()
        if not name or len(name) > LOOKAHEAD or any(char in name for char in " \n{"):
            return self._fail(pos)
        tag = lex_tag(buf, end, final)
        if isinstance(tag, int):
            return MORE if tag == MORE else self._fail(pos)
        self._take(name, hold=False)
        return tag.end if tag.kind == "close" else end

    # ---- between parameters

    def _first(self, buf: str, pos: int, final: bool) -> int:
        """Right behind a tag named like a tool: its body is JSON, known parameters, or something to hold."""
        at = self._blank(buf, pos, final)
        if at == MORE or (at == len(buf) and not final and at - pos < LOOKAHEAD):
            return MORE
        if buf[at : at + 1] == "{":
            self._phase = self._between
            return at
        if buf[at : at + 1] == "<" and self._schema.names:
            name, closing, end = lex_name(buf, at)
            if end == len(buf) and not final:
                return MORE
            if self._schema.knows(name) and not closing:
                self._builder.go_live()
                self._phase = self._between
                return at
        self._phase = self._body
        return pos

    def _body(self, buf: str, pos: int, final: bool) -> int:
        """Everything up to the closing tag, read as a whole."""
        at = buf.find("</", pos)
        if at < 0:
            keep = 1 if buf.endswith("<") and not final else 0
            self._text.append(buf[pos : len(buf) - keep])
            return len(buf) - keep if len(buf) - keep > pos else MORE
        name, _, end = lex_name(buf, at)
        if end == len(buf) and not final:
            return self._keep(buf, pos, at)
        if name != self._own:
            self._text.append(buf[pos : at + 2])
            return at + 2
        tag = lex_tag(buf, at, final)
        if isinstance(tag, int):
            return self._keep(buf, pos, at) if tag == MORE else self._fail(at)
        self._text.append(buf[pos:at])
        arguments = body_of("".join(self._text), self._schema)
        if arguments is None:
            return self._fail(tag.end, "no_arguments")
        self._values = arguments
        self._end()
        return tag.end

    def _keep(self, buf: str, pos: int, at: int) -> int:
        self._text.append(buf[pos:at])
        return at if at > pos else MORE

    def _blank(self, buf: str, pos: int, final: bool) -> int:
        """Behind white space and noise."""
        while True:
            blank = _BLANK(buf, pos)
            assert blank is not None
            pos = blank.end()
            if buf.startswith(NOISE, pos):
                pos += len(NOISE)
                continue
            rest = buf[pos : pos + len(NOISE)]
            return MORE if rest and not final and NOISE.startswith(rest) else pos

    def _between(self, buf: str, pos: int, final: bool) -> int:
        at = self._blank(buf, pos, final)
        if at == MORE or at == len(buf):
            return at if self._closes or at - pos > LOOKAHEAD else MORE
        char = buf[at]
        if char == "{" and not self._began:
            self._arguments = ArgumentsBody(self.context, self._builder)
            self._phase = self._json
            return at
        if char != "<":
            return self._stray(buf, at, final) if self._closes else self._end_here(pos)
        rest = buf[at : at + len(_CDATA)]
        if rest == _CDATA:
            return at + len(_CDATA)
        if _CDATA.startswith(rest) and not final:
            return MORE
        tag = lex_tag(buf, at, final)
        if isinstance(tag, int):
            return MORE if tag == MORE else self._stray(buf, at, final)
        return self._tag(tag, at)

    def _stray(self, buf: str, pos: int, final: bool) -> int:
        """Text where a tag was due: before anything was read this is no call, later it is dropped with a note."""
        if buf.startswith("```", pos):
            eol = buf.find("\n", pos)
            return MORE if eol < 0 and not final else len(buf) if eol < 0 else eol
        end = buf.find("<", pos + 1)
        end = len(buf) if end < 0 else end
        if buf[pos:end].strip(" \n\t]>`"):
            self._builder.note(Note("stray_text"))
        return end

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
        if at == MORE or at == len(buf):
            return at
        if buf.startswith(_CDATA_END, at):
            return at + len(_CDATA_END)
        if _CDATA_END.startswith(buf[at : at + 3]) and not final:
            return MORE
        if buf[at] != "<":
            self.state = "done"
            return pos
        tag = lex_tag(buf, at, final)
        if tag == MORE:
            return MORE
        own = not isinstance(tag, int) and tag.kind == "close" and tag.name in _CONTAINERS | {self._own}
        if not own or isinstance(tag, int):
            self.state = "done"
            return pos
        self.state = "done" if tag.name == self._own else "open"
        return tag.end

    def _tag(self, tag: Tag, at: int) -> int:
        if tag.kind == "close":
            return self._close_tag(tag, at)
        if (tag.name in CALL_TAGS and self._name_in(tag)) or (not self._closes and self._is_other_tool(tag.name)):
            self._end(missing=self._closes)
            return at
        if tag.name in _CONTAINERS and not self._schema.knows(tag.name):
            return tag.end
        if tag.name == "arg_key" or (tag.name in PARAMETER_TAGS and not tag.value and not tag.attributes):
            self._phase = self._key_text
            return tag.end
        if tag.name == "arg_value":
            return self._begin(self._key, tag)
        return self._begin(self._key_in(tag), tag)

    def _is_other_tool(self, name: str) -> bool:
        return bool(self.context.desk.knows(name)) and not self._schema.knows(name)

    def _close_tag(self, tag: Tag, at: int) -> int:
        if tag.name in (self._own, self._builder.name) or tag.name in CALL_TAGS:
            self._end()
            return tag.end
        if tag.name in CALL_ENDS or tag.name.startswith("|"):
            self._end()
            return at  # the block's own closer
        return tag.end

    def _key_in(self, tag: Tag) -> str:
        if tag.name not in PARAMETER_TAGS:
            return tag.name
        return tag.value or next((tag.attributes[key] for key in _KEY_ATTRIBUTES if key in tag.attributes), "")

    def _key_text(self, buf: str, pos: int, final: bool) -> int:
        """`<arg_key>KEY</arg_key>` or `<parameter>KEY</parameter>`."""
        end = buf.find("<", pos)
        if end < 0:
            return MORE if len(buf) - pos < LOOKAHEAD and not final else self._fail(pos)
        tag = lex_tag(buf, end, final)
        if isinstance(tag, int):
            return MORE if tag == MORE else self._fail(pos)
        key = plain_text(buf[pos:end]).strip()
        self._key = key
        if tag.name == "arg_key":
            self._phase = self._between
        else:
            self._begin(key, Tag("open", "parameter", key, {}, tag.end))
        return tag.end

    def _end_here(self, pos: int) -> int:
        """A call without a closing tag is over when something else follows its parameters."""
        if not self._values:
            return self._fail(pos)
        self._end()
        return pos

    # ---- values

    def _begin(self, key: str, tag: Tag) -> int:
        """The value of `key` begins behind `tag`."""
        self._began = True
        self._key = key
        self._closer = tag.name
        self._typed = _TYPE_ATTRIBUTES.get(tag.attributes.get("string", ""), "") or (
            tag.attributes.get("type", "") if tag.name == "argument" else ""
        )
        self._text = []
        if tag.kind == "self":
            self._add("")
            return tag.end
        self._phase = self._lead
        return tag.end

    def _lead(self, buf: str, pos: int, final: bool) -> int:
        """Decide on the first characters of a value how it is read."""
        live = self._schema.live_strings
        flows = live is not None and self._key in live and self._key not in self._values and not self._typed_json()
        if not flows or self._builder.state not in ("live", "held"):
            return self._hold(pos)
        at = pos
        if self._markup:
            while at < len(buf) and buf[at] in " \t":
                at += 1
        rest = buf[at : at + 2]
        if len(rest) < 2 and not final:
            return MORE if at - pos < LOOKAHEAD else self._hold(pos)
        if self._pairs and rest[0] == '"':
            return self._hold(pos)
        self._own_line = rest.startswith(("\n", "\r\n"))
        self._values[self._key] = None
        self._emit_key()
        self._phase = self._live_value
        return at + (0 if not self._own_line else 2 if rest[0] == "\r" else 1)

    def _hold(self, pos: int) -> int:
        self._phase = self._held_value
        return pos

    def _typed_json(self) -> bool:
        return bool(self._typed) and self._typed != "string"

    def _emit_key(self) -> None:
        if not self._opened:
            self._opened = True
            self._builder.token((OBJECT, ""))
        self._builder.token((KEY, self._key))
        self._builder.token((STRING, ""))

    def _ends(self, buf: str, pos: int, final: bool) -> Tag | int | None:
        """The tag at `pos` if it ends the value, None if it is text; MORE."""
        name, closing, end = lex_name(buf, pos)
        if end == len(buf) and not final and len(buf) - pos < LOOKAHEAD:
            return MORE
        if name not in ("|close|", "|open|") and not self._may_end(name, closing, buf[end : end + 1]):
            return None
        tag = lex_tag(buf, pos, final)
        if isinstance(tag, int):
            return MORE if tag == MORE else None
        return tag if self._may_end(tag.name, tag.kind == "close", "=" if tag.value else " ") else None

    def _may_end(self, name: str, closing: bool, after: str) -> bool:
        if closing:
            if name in (self._closer, self._key) or (name == self._own and name):
                return True
            return (not self._markup or self._folded) and (name in PARAMETER_TAGS or name in CALL_ENDS)
        if self._markup:
            return False
        return name == "arg_key" or name in PARAMETER_TAGS or (name in CALL_TAGS and after in ("=", " "))

    def _live_value(self, buf: str, pos: int, final: bool) -> int:
        """A string on its way out."""
        found = _INTERRUPT(buf, pos)
        end = len(buf) if found is None else found.start()
        if end > pos:
            self._builder.token((PART, escape_text(buf[pos:end])))
            return end
        char = buf[pos]
        if char == "\n":
            return self._live_newline(buf, pos, final)
        if char == "&":
            return self._live_entity(buf, pos, final)
        if char == "]":
            return self._live_noise(buf, pos, final)
        return self._live_tag(buf, pos, final)

    def _live_text(self, text: str, pos: int) -> int:
        self._builder.token((PART, escape_text(text)))
        return pos

    def _live_newline(self, buf: str, pos: int, final: bool) -> int:
        """The line break before the closing tag is not part of the value."""
        at = pos + 1
        limit = pos + LOOKAHEAD
        while at < len(buf) and at < limit and buf[at] in " \t":
            at += 1
        if at == len(buf) and not final and at < limit:
            return MORE
        if (self._own_line or self._markup) and buf[at : at + 1] == "<":
            tag = self._ends(buf, at, final)
            if tag == MORE:
                return MORE
            if tag is not None:
                return at
        return self._live_text("\n", pos + 1)

    def _live_entity(self, buf: str, pos: int, final: bool) -> int:
        match = _ENTITY(buf, pos)
        assert match is not None
        text = match.group()
        if text == "&" and len(buf) - pos < 12 and not final and buf[pos + 1 :].replace("#", "").isalnum():
            return MORE
        if text == "&" and pos + 1 == len(buf) and not final:
            return MORE
        decoded = unescape(text)
        if decoded != text:
            self._builder.note(Note("entity"))
        return self._live_text(decoded, match.end())

    def _live_noise(self, buf: str, pos: int, final: bool) -> int:
        rest = buf[pos : pos + len(NOISE)]
        if rest != NOISE:
            return MORE if not final and NOISE.startswith(rest) else self._live_text("]", pos + 1)
        tag = self._ends(buf, pos + len(NOISE), final)
        if tag == MORE:
            return MORE
        return self._fail(pos, "wrong_close_tag") if tag is None else pos + len(NOISE)

    def _live_tag(self, buf: str, pos: int, final: bool) -> int:
        rest = buf[pos : pos + len(_CDATA)]
        if rest == _CDATA:
            self._phase = self._cdata
            return pos + len(_CDATA)
        if _CDATA.startswith(rest) and not final:
            return MORE
        tag = self._ends(buf, pos, final)
        if tag == MORE:
            return MORE
        if tag is None or isinstance(tag, int):
            return self._live_text("<", pos + 1)
        self._builder.token((END_STRING, ""))
        return self._after_value(tag, pos)

    def _cdata(self, buf: str, pos: int, final: bool) -> int:
        end = buf.find(_CDATA_END, pos)
        if end >= 0:
            self._phase = self._live_value
            return self._live_text(buf[pos:end], end + len(_CDATA_END))
        keep = 0 if final else 2 if buf.endswith("]]") else 1 if buf.endswith("]") else 0
        end = len(buf) - keep
        return self._live_text(buf[pos:end], end) if end > pos else MORE

    def _held_value(self, buf: str, pos: int, final: bool) -> int:
        """A value to be read when its tag closes."""
        at = buf.find("<", pos)
        if at < 0:
            self._text.append(buf[pos:])
            return len(buf)
        if at > pos:
            self._text.append(buf[pos:at])
            return at
        rest = buf[at : at + len(_CDATA)]
        if rest == _CDATA:
            end = buf.find(_CDATA_END, at)
            if end < 0 and not final:
                self._text.append(_CDATA)
                self._phase = self._held_cdata
                return at + len(_CDATA)
            end = len(buf) if end < 0 else end + len(_CDATA_END)
            self._text.append(buf[at:end])
            return end
        if _CDATA.startswith(rest) and not final:
            return MORE
        tag = self._ends(buf, at, final)
        if tag == MORE:
            return MORE
        if tag is None or isinstance(tag, int):
            self._text.append("<")
            return at + 1
        raw = "".join(self._text).removesuffix(NOISE).replace(NOISE, "")
        self._add(self._held_meaning(raw, tag))
        return self._after_value(tag, at)

    def _held_cdata(self, buf: str, pos: int, final: bool) -> int:
        end = buf.find(_CDATA_END, pos)
        if end >= 0:
            self._text.append(buf[pos : end + len(_CDATA_END)])
            self._phase = self._held_value
            return end + len(_CDATA_END)
        keep = 0 if final else 2 if buf.endswith("]]") else 1 if buf.endswith("]") else 0
        end = len(buf) - keep
        self._text.append(buf[pos:end])
        return end if end > pos else MORE

    def _held_meaning(self, raw: str, tag: Tag) -> JSONValue:
        if self._pairs and raw[:1] == '"' and raw[-1:] == '"' and "string" in self._schema.wants(self._key):
            return value_of(raw, ArgumentSchema.of(None), self._key, "json", False)
        return value_of(raw, self._schema, self._key, self._typed, self._markup)

    def _add(self, value: JSONValue) -> None:
        key = self._key
        if key not in self._values:
            self._values[key] = value
        elif not self._schema.knows(key) or "array" in self._schema.wants(key):
            held = self._values[key]
            self._values[key] = [*held, value] if isinstance(held, list) else [held, value]
        else:
            self._builder.note(Note("duplicate_key", f"`{key[:64]}` stands twice"))

    def _after_value(self, tag: Tag, at: int) -> int:
        self._text = []
        self._phase = self._between
        is_own = tag.kind == "close" and (tag.name in (self._closer, self._key) or tag.name in PARAMETER_TAGS)
        if is_own:
            return tag.end
        self._builder.note(Note("missing_close_tag", self._key[:64]))
        return at

    # ---- the end

    def _end(self, missing: bool = False) -> None:
        if missing:
            self._builder.note(Note("missing_close_tag"))
        if not self._opened:
            self._builder.token((OBJECT, ""))
        live = self._schema.live_strings or frozenset[str]()
        for key, value in self._values.items():
            if self._opened and key in live and value is None:
                continue  # went out as it came
            self._builder.token((KEY, key))
            self._builder.token((SCALAR, to_json(value)))
        self._builder.token((END_OBJECT, ""))
        if self._builder.state in ("live", "held"):
            self._builder.end()
        self.state = "done"
