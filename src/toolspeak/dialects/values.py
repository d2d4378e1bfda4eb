"""Text between tags as a value.

Markup carries no types: what stands between two tags is text until the schema, an attribute or its own
shape says otherwise. `value_of` decides; `tree` reads nested elements. Linear, bounded in depth.
"""

from __future__ import annotations

from ..core.json_repair.containers import Allowance
from ..core.json_repair.whole_text import read_value
from ..core.parsing.tags import Tag, lex_tag, unescape
from ..core.schema.arguments import ArgumentSchema
from ..core.types import JSONObject, JSONValue, Note
from .tag_names import CDATA, CDATA_END
from .yaml_like import read_yaml

#: Elements nested deeper than this are text.
_MAX_DEPTH = 64


def plain_text(raw: str) -> str:
    """The text that markup stands for: entities decoded once, CDATA sections as they are."""
    if CDATA not in raw:
        return unescape(raw)
    pieces: list[str] = []
    pos = 0
    while True:
        start = raw.find(CDATA, pos)
        if start < 0:
            pieces.append(unescape(raw[pos:]))
            return "".join(pieces)
        pieces.append(unescape(raw[pos:start]))
        end = raw.find(CDATA_END, start)
        end = len(raw) if end < 0 else end
        pieces.append(raw[start + len(CDATA) : end])
        pos = end + len(CDATA_END)


def trim(raw: str) -> str:
    """Without the line break behind the opening tag and the one before the closing tag."""
    if raw.startswith("\r\n"):
        raw = raw[2:]
    elif raw.startswith("\n"):
        raw = raw[1:]
    else:
        return raw
    head, newline, last = raw.rpartition("\n")
    return head.removesuffix("\r") if newline and not last.strip(" \t") else raw


def value_of(
    raw: str, schema: ArgumentSchema, key: str, typed: str, markup: bool, allowance: Allowance | None = None
) -> JSONValue:
    """What `raw` means as the value of `key`. `typed` is the type that an attribute claims, if any; `markup`
    tells that every tag is a key here, so that nested tags are structure; JSON takes from the `allowance`."""
    wants = schema.wants(key)
    text = plain_text(raw)
    if typed == "string":
        return plain_text(trim(raw))
    if typed:
        return _json_or(text, text, allowance)
    if not wants:
        return _untyped(raw, text, schema, key, markup, allowance)
    bare = text.strip()
    if "null" in wants and bare == "null":
        return None
    if wants <= {"string", "null"}:
        return bare if markup and "\n" not in text else plain_text(trim(raw))
    nested = tree(raw, strip=True) if bare.startswith("<") or ("<" in raw and "string" not in wants) else None
    if nested is not None:
        return nested
    return plain_text(trim(raw)) if "string" in wants else _json_or(bare, bare, allowance)


def _untyped(
    raw: str, text: str, schema: ArgumentSchema, key: str, markup: bool, allowance: Allowance | None
) -> JSONValue:
    """No type is known. A declared property without a type takes text; otherwise the shape decides."""
    if schema.knows(key):
        return plain_text(trim(raw))
    bare = text.strip()
    if markup:
        nested = tree(raw)
        if nested is not None:
            return nested
        return text if schema.parameters is None else _json_or(bare, text, allowance)
    own_line = raw.startswith(("\n", "\r\n"))
    if own_line or bare[:1] in ("{", "["):
        return _json_or(bare, plain_text(trim(raw)), allowance)
    return text


def _json_or(text: str, otherwise: str, allowance: Allowance | None) -> JSONValue:
    """The JSON that `text` is through and through, or the text."""
    bare = text.strip()
    if not bare:
        return otherwise
    read = read_value(bare, allowance=allowance)
    whole = read.status == "complete" and not bare[read.end :].strip()
    if not whole or any(note.code == "unquoted_value" for note in read.notes):
        return otherwise
    return read.value


def body_of(
    raw: str,
    schema: ArgumentSchema,
    line_start: bool,
    allowance: Allowance | None = None,
    notes: list[Note] | None = None,
) -> JSONObject | None:
    """The arguments in the body of a tag named like a tool: elements, YAML, or the text of its only string.

    Text without structure counts only where the tag begins a line; elsewhere a sentence mentions the tag. Repairs
    that may have changed a value are added to `notes`.
    """
    notes = [] if notes is None else notes
    if not raw.strip():
        return {}
    mapping = read_yaml(raw, allowance)
    if mapping is not None and (not schema.names or any(schema.knows(key) for key in mapping)):
        return mapping
    lines = _keyed_lines(raw, schema)
    if lines is not None:
        return lines
    elements = _Tree(raw, schema, False, allowance)
    nested = elements.read()
    if elements.too_deep:
        return None
    if nested and not (schema.names and _has_text_outside(raw)):
        notes.extend([Note("wrong_closer")] if elements.wrongly_closed else ())
        return nested
    return _only_text(raw, schema, notes) if line_start or has_structure(raw) else None


def _keyed_lines(raw: str, schema: ArgumentSchema) -> JSONObject | None:
    """Like YAML, but the text behind a known key was never meant to be: it runs to the next known key."""
    found: dict[str, list[str]] = {}
    key = ""
    for line in raw.lstrip("\n").splitlines(keepends=True):
        name, colon, rest = line.partition(":")
        if colon and schema.knows(name.strip()) and name.strip() not in found:
            key = name.strip()
            found[key] = [rest.removeprefix(" ")]
        elif key:
            found[key].append(line)
        elif line.strip():
            return None
    values: JSONObject = {name: "".join(part) if len(part) > 1 else part[0].strip() for name, part in found.items()}
    return values or None


def has_structure(raw: str) -> bool:
    """Whether a body begins like elements, a document or YAML rather than like prose."""
    begin = raw.lstrip()
    return begin.startswith(("<", "{")) or read_yaml(begin.partition("\n")[0]) is not None


def _has_text_outside(raw: str) -> bool:
    """Whether text stands before the first tag or behind the last one."""
    first, last = raw.find("<"), raw.rfind(">")
    return bool(raw[:first].strip() or raw[last + 1 :].strip())


def _only_text(raw: str, schema: ArgumentSchema, notes: list[Note]) -> JSONObject | None:
    """Text without keys can only be meant for the one text that the tool takes."""
    if schema.parameters is None:
        return {}
    strings = [name for name in schema.names if schema.wants(name) <= {"string"}]
    if len(strings) != 1:
        return None
    plain = _without_tags(raw)
    if plain != raw:
        notes.append(Note("stray_text", "the text lost its tags"))
    text = plain_text(plain).strip()
    return {strings[0]: text} if text else {}


def _without_tags(raw: str) -> str:
    pieces: list[str] = []
    pos = 0
    while pos < len(raw):
        at = raw.find("<", pos)
        if at < 0 or raw.startswith(CDATA, at):
            return "".join([*pieces, raw[pos:]])
        tag = lex_tag(raw, at, True)
        end = at + 1 if isinstance(tag, int) else tag.end
        pieces.append(raw[pos:end] if isinstance(tag, int) else raw[pos:at])
        pos = end
    return "".join(pieces)


def tree(raw: str, schema: ArgumentSchema | None = None, strip: bool = False) -> JSONObject | None:
    """Nested elements as an object; None when the text is not made of well-formed elements.

    With a schema the elements are properties and their values are read by it; text around them is dropped.
    """
    if "<" not in raw:
        return None
    reader = _Tree(raw, schema, strip)
    return reader.read()


class _Element:
    __slots__ = ("children", "key", "start")

    def __init__(self, key: str, start: int) -> None:
        self.key = key
        self.start = start
        self.children: JSONObject = {}


class _Tree:
    """One pass with a stack."""

    def __init__(
        self, raw: str, schema: ArgumentSchema | None, strip: bool, allowance: Allowance | None = None
    ) -> None:
        self._allowance = allowance
        self._strip = strip
        self._raw = raw
        self._schema = schema
        self._stack = [_Element("", 0)]
        self.too_deep = False
        #: Some argument may have ended too early: another closing tag ended it, or one closes nothing.
        self.wrongly_closed = False

    def read(self) -> JSONObject | None:
        raw = self._raw
        pos = 0
        while True:
            pos = raw.find("<", pos)
            if pos < 0:
                break
            if raw.startswith(CDATA, pos):
                end = raw.find(CDATA_END, pos)
                pos = len(raw) if end < 0 else end + len(CDATA_END)
                continue
            tag = lex_tag(raw, pos, True)
            if isinstance(tag, int):
                pos += 1
                continue
            pos = self._tag(tag, pos)
            if pos < 0:
                return None
        if self._schema is not None:
            self._adopt()
        root = self._stack[0]
        whole = len(self._stack) == 1 or self._schema is not None
        return root.children if whole and root.children else None

    def _adopt(self) -> None:
        """Elements inside one that never closed belong to its parent."""
        while len(self._stack) > 1:
            for key, value in self._stack.pop().children.items():
                _add(self._stack[-1].children, key, value)

    def _tag(self, tag: Tag, at: int) -> int:
        top = self._stack[-1]
        if tag.kind == "self":
            if self._schema is None or not self._schema.names or self._schema.knows(tag.name):
                _add(top.children, tag.name, "")
        elif tag.kind == "open":
            if tag.attributes and self._schema is None and tag.name not in _ITEMS:
                return -1  # HTML, not structure
            if len(self._stack) >= _MAX_DEPTH:
                self.too_deep = True
                return -1
            self._stack.append(_Element(tag.name, tag.end))
        else:
            return self._close(tag, at)
        return tag.end

    def _close(self, tag: Tag, at: int) -> int:
        names = [element.key for element in self._stack]
        if names[-1] != tag.name and self._schema is None:
            return -1
        if len(names) == 1:
            self.wrongly_closed = True
            return tag.end
        if tag.name in names[1:]:
            while self._stack[-1].key != tag.name:
                self._stack.pop()
        elif len(names) == 2:
            self.wrongly_closed = True
        element = self._stack.pop()  # a wrong closer closes what is open
        raw = self._raw[element.start : at]
        _add(self._stack[-1].children, element.key, self._value(element, raw))
        return tag.end

    def _value(self, element: _Element, raw: str) -> JSONValue:
        if self._schema is not None and len(self._stack) == 1:
            return value_of(raw, self._schema, element.key, "", True, self._allowance)
        text = plain_text(raw)
        return element.children or (text.strip() if self._strip else text)


_ITEMS = frozenset({"item", "element", "entry", "value"})


def _add(children: JSONObject, key: str, value: JSONValue) -> None:
    """A repeated element is a list."""
    if key not in children:
        children[key] = value
    elif isinstance(children[key], list):
        children[key].append(value)
    else:
        children[key] = [children[key], value]
