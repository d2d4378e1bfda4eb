"""Parse the text between tags into values: plain text, JSON, nested elements, or simple YAML.

Markup carries no types, so a value is text unless the schema, a type attribute or its syntax says otherwise. Parsing
takes linear time, and the nesting depth is limited.
"""

import re

import msgspec

from ..core.json_repair.containers import Allowance
from ..core.json_repair.whole_text import parse_value
from ..core.parsing.tags import Tag, lex_tag
from ..core.schema.argument_schema import ArgumentSchema
from ..core.text import TOOL_NAME
from ..core.types import JSONObject, JSONValue, Note, is_object
from .tag_names import CDATA, CDATA_END

#: Maximum nesting depth of elements; deeper markup is not parsed.
_MAX_DEPTH = 64


def plain_text(raw: str) -> str:
    """Return the content of a CDATA section, or of several in a row, or any other text as it is."""
    bare = raw.strip()
    if bare.startswith(CDATA) and bare.endswith(CDATA_END):
        return bare[len(CDATA) : -len(CDATA_END)].replace(CDATA_END + CDATA, "")
    return raw


def trim(raw: str) -> str:
    """Remove the line breaks after the opening tag and before the closing tag."""
    newline = "\r\n" if raw.startswith("\r\n") else "\n"
    if not raw.startswith(newline):
        return raw
    raw = raw[len(newline) :]
    head, last_newline, last = raw.rpartition("\n")
    if not last_newline or last.strip(" \t"):
        return raw
    return head.removesuffix("\r") if newline == "\r\n" else head


def value_of(
    raw: str,
    schema: ArgumentSchema,
    key: str,
    typed: str,
    markup: bool,
    allowance: Allowance | None = None,
    trims: bool = True,
    prefix: str = "",
) -> JSONValue:
    """Convert `raw` to the value of `key`. `typed` is the type from an attribute, or empty. With `markup`, nested tags
    are keys of an object. Each JSON value counts against the `allowance`, which limits the values of an answer. With
    `trims`, the line breaks next to the tags do not belong to the text. `prefix` precedes every tag of an element."""
    key = schema.meant(key)
    wants = schema.property_types(key)
    marked, raw = raw.removesuffix(prefix), raw.replace(prefix, "") if prefix else raw
    text = plain_text(trim(raw) if trims else raw)
    if typed == "string":
        return text
    if typed:
        return _json_or(text, text, allowance)
    if not wants and not schema.declares(key):
        return _undeclared(raw, text, schema, markup, allowance)
    bare = text.strip()
    if "null" in wants and bare == "null":
        return None
    if not wants or "string" in wants:
        return text
    nested = tree(marked, trims=trims, prefix=prefix) if bare.startswith("<") else None
    return _json_or(bare, bare, allowance) if nested is None else nested


def _undeclared(raw: str, text: str, schema: ArgumentSchema, markup: bool, allowance: Allowance | None) -> JSONValue:
    """Convert the value of a property that the schema does not declare. Its type is guessed from the syntax."""
    bare = text.strip()
    if markup:
        nested = tree(raw) if bare.startswith("<") else None
        if nested is not None:
            return nested
        return plain_text(raw) if schema.parameters is None else _json_or(bare, plain_text(raw), allowance)
    is_apart = raw.startswith(("\n", "\r\n"))
    return _json_or(bare, text, allowance) if is_apart or bare[:1] in ("{", "[") else text


def _json_or(text: str, otherwise: str, allowance: Allowance | None) -> JSONValue:
    """Parse `text` as JSON; return `otherwise` unless all of it is JSON."""
    bare = text.strip()
    if not bare:
        return otherwise
    read = parse_value(bare, allowance=allowance)
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
    """Parse the body of a tag named after a tool: elements, YAML, or text for the tool's only string parameter.

    Text without structure counts only if the tag begins a line; elsewhere it is prose. Repairs that may have changed a
    value are added to `notes`. Returns None if the body contains no arguments.
    """
    notes = [] if notes is None else notes
    if not raw.strip():
        return {}
    mapping = read_yaml(raw, allowance)
    if mapping is not None and (not schema.names or any(schema.declares(key) for key in mapping)):
        return mapping
    lines = _keyed_lines(raw, schema)
    if lines is not None:
        return lines
    elements = _Tree(raw, schema, False, allowance)
    nested = elements.read()
    if elements.too_deep:
        return None
    has_text_outside = raw[: raw.find("<")].strip() or raw[raw.rfind(">") + 1 :].strip()
    if nested and not (schema.names and has_text_outside):
        notes.extend([Note("wrong_closer")] if elements.wrongly_closed else ())
        return nested
    return _only_text(raw, schema, notes) if line_start or has_structure(raw) else None


def _keyed_lines(raw: str, schema: ArgumentSchema) -> JSONObject | None:
    """Read `key: text` lines that are not valid YAML. Each text extends to the next declared key."""
    sections: dict[str, list[str]] = {}
    key = ""
    for line in raw.lstrip("\n").splitlines(keepends=True):
        name, colon, rest = line.partition(":")
        if colon and schema.declares(name.strip()) and name.strip() not in sections:
            key = name.strip()
            sections[key] = [rest.removeprefix(" ")]
        elif key:
            sections[key].append(line)
        elif line.strip():
            return None
    values: JSONObject = {name: "".join(part) if len(part) > 1 else part[0].strip() for name, part in sections.items()}
    return values or None


def has_structure(raw: str) -> bool:
    """Whether a body begins like elements, JSON or YAML rather than like prose."""
    begin = raw.lstrip()
    return begin.startswith(("<", "{")) or read_yaml(begin.partition("\n")[0]) is not None


def _only_text(raw: str, schema: ArgumentSchema, notes: list[Note]) -> JSONObject | None:
    """Assign text without keys to the tool's only string parameter; return None if there are several or none."""
    if schema.parameters is None:
        return {}
    strings = [name for name in schema.names if schema.property_types(name) <= {"string"}]
    if len(strings) != 1:
        return None
    plain = _without_tags(raw)
    if plain != raw:
        notes.append(Note("stray_text", "tags were removed from the text"))
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


def tree(raw: str, trims: bool = False, prefix: str = "") -> JSONObject | None:
    """Parse nested elements into an object; return None unless the text consists of well-formed elements."""
    return _Tree(raw, None, trims, prefix=prefix).read() if "<" in raw else None


class _Element(msgspec.Struct, eq=False):
    key: str
    at: int  # where its opening tag begins
    start: int
    last: int  # where the last child ended
    has_text: bool = False  # there is text before or between the children
    children: JSONObject = {}

    def add(self, key: str, value: JSONValue, before: str, end: int) -> None:
        """Add a child that ends at `end`. `before` is the text between it and the one before it."""
        self.has_text = self.has_text or bool(before.strip())
        self.last = end
        add_element(self.children, key, value)


class _Tree:
    """Parses elements in one pass, with a stack of the open ones.

    With a schema, the elements are properties, converted to their declared types. Text between them is dropped. An
    element that contains both text and elements is text. With `trims`, the line breaks next to the tags do not belong
    to the text. With a `prefix`, only tags right after it are tags.
    """

    def __init__(
        self, raw: str, schema: ArgumentSchema | None, trims: bool, allowance: Allowance | None = None, prefix: str = ""
    ) -> None:
        self._allowance = allowance
        self._trims = trims
        self._raw = raw
        self._schema = schema
        self._prefix = prefix
        self._stack = [_Element("", 0, 0, 0)]
        self.too_deep = False
        #: A closing tag did not match an open element, so an argument may have ended too early.
        self.wrongly_closed = False

    def read(self) -> JSONObject | None:
        raw = self._raw
        pos = 0
        while True:
            pos = raw.find(f"{self._prefix}<", pos)
            if pos < 0:
                break
            if raw.startswith(CDATA, pos):
                end = raw.find(CDATA_END, pos)
                pos = len(raw) if end < 0 else end + len(CDATA_END)
                continue
            tag = lex_tag(raw, pos + len(self._prefix), True)
            if isinstance(tag, int):
                pos += 1
                continue
            pos = self._tag(tag, pos)
            if pos < 0:
                return None
        while self._schema is not None and len(self._stack) > 1:  # elements that were never closed
            for key, value in self._stack.pop().children.items():
                add_element(self._stack[-1].children, key, value)
        root = self._stack[0]
        is_all = len(self._stack) == 1 and not root.has_text and not raw[root.last :].strip()
        whole = is_all or self._schema is not None
        return root.children if whole and root.children else None

    def _tag(self, tag: Tag, at: int) -> int:
        top = self._stack[-1]
        if tag.kind == "self":
            if self._schema is None or not self._schema.names or self._schema.declares(tag.name):
                top.add(tag.name, "", self._raw[top.last : at], tag.end)
        elif tag.kind == "open":
            if tag.attributes and self._schema is None and tag.name not in _ITEMS:
                return -1  # an attribute suggests HTML, not an argument
            if len(self._stack) >= _MAX_DEPTH:
                self.too_deep = True
                return -1
            self._stack.append(_Element(tag.name, at, tag.end, tag.end))
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
        element = self._stack.pop()  # a mismatched closing tag closes the innermost element
        value, top = self._value(element, at), self._stack[-1]
        top.add(element.key, value, self._raw[top.last : element.at], tag.end)
        return tag.end

    def _value(self, element: _Element, end: int) -> JSONValue:
        raw = self._raw[element.start : end]
        if self._schema is not None and len(self._stack) == 1:
            return value_of(raw, self._schema, element.key, "", True, self._allowance)
        if element.children and not element.has_text and not self._raw[element.last : end].strip():
            return element.children
        return plain_text(trim(raw) if self._trims else raw)


_ITEMS = frozenset({"item", "element", "entry", "value"})


def add_element(children: JSONObject, key: str, value: JSONValue) -> None:
    """Add an element. The values of a repeated element become a list."""
    if key not in children:
        children[key] = value
    elif isinstance(children[key], list):
        children[key].append(value)
    else:
        children[key] = [children[key], value]


_MAX_YAML_LINES = 20_000
_MAX_YAML_DEPTH = 32
_YAML_KEY = re.compile(rf"""(?:"([^"]{{1,128}})"|'([^']{{1,128}})'|({TOOL_NAME}))[ \t]*:(?:[ \t]+(.*))?$""").match
#: Plain scalars that are not strings.
_YAML_WORDS = frozenset({"true", "false", "null"})
_YAML_BLOCKS = {"|": "\n", "|-": "\n", "|+": "\n", ">": " ", ">-": " ", ">+": " "}


def read_yaml(text: str, allowance: Allowance | None = None) -> JSONObject | None:
    """Parse the subset of YAML that models use for arguments: nested mappings, lists, block text, plain scalars.

    Anchors, tags and multiple documents are not supported. Returns None if the text is not in this subset.
    """
    lines = text.strip("\n").rstrip().split("\n")
    if not lines or len(lines) > _MAX_YAML_LINES:
        return None
    reader = _YamlReader(lines, allowance)
    reader.skip_blank()
    try:
        value = reader.block(reader.indent(), 0)
    except _NotYamlError:
        return None
    reader.skip_blank()
    return value if is_object(value) and reader.at_end() else None


class _NotYamlError(Exception):
    """Raised when the text is not in the supported YAML subset."""


class _YamlReader:
    def __init__(self, lines: list[str], allowance: Allowance | None) -> None:
        self._lines = lines
        self._allowance = allowance
        self._at = 0

    def at_end(self) -> bool:
        return self._at >= len(self._lines)

    def skip_blank(self) -> None:
        while not self.at_end() and not self._lines[self._at].strip():
            self._at += 1

    def indent(self) -> int:
        line = self._lines[self._at] if not self.at_end() else ""
        return len(line) - len(line.lstrip(" "))

    def block(self, indent: int, depth: int) -> JSONValue:
        """Parse the mapping or list whose lines are indented by `indent` spaces."""
        if self.at_end() or depth > _MAX_YAML_DEPTH:
            raise _NotYamlError
        if self._lines[self._at].lstrip().startswith("- "):
            return self._list(indent, depth)
        return self._mapping(indent, depth)

    def _mapping(self, indent: int, depth: int) -> JSONObject:
        mapping: JSONObject = {}
        while not self.at_end() and self.indent() == indent:
            match = _YAML_KEY(self._lines[self._at].strip())
            if match is None:
                raise _NotYamlError
            key = match.group(1) or match.group(2) or match.group(3)
            if key in mapping:
                raise _NotYamlError
            self._at += 1
            mapping[key] = self._value((match.group(4) or "").strip(), indent, depth)
            self.skip_blank()
        if not self.at_end() and self.indent() > indent:
            raise _NotYamlError
        return mapping

    def _list(self, indent: int, depth: int) -> list[JSONValue]:
        items: list[JSONValue] = []
        while not self.at_end() and self.indent() == indent:
            line = self._lines[self._at].strip()
            if not line.startswith("- "):
                break
            inner = line[2:].strip()
            if _YAML_KEY(inner) is not None and inner[:1] not in "\"'":
                self._lines[self._at] = " " * (indent + 2) + inner
                items.append(self._mapping(indent + 2, depth + 1))
            else:
                self._at += 1
                items.append(_yaml_scalar(inner, self._allowance))
            self.skip_blank()
        return items

    def _value(self, text: str, indent: int, depth: int) -> JSONValue:
        if text in _YAML_BLOCKS:
            return self._block_text(text, indent)
        if text:
            return _yaml_scalar(text, self._allowance)
        self.skip_blank()
        if self.at_end() or self.indent() < indent:
            return None
        deeper = self.indent() > indent
        if deeper or self._lines[self._at].lstrip().startswith("- "):
            return self.block(self.indent(), depth + 1)
        return None

    def _block_text(self, style: str, indent: int) -> str:
        start = self._at
        while not self.at_end() and (not self._lines[self._at].strip() or self.indent() > indent):
            self._at += 1
        lines = self._lines[start : self._at]
        used = [len(line) - len(line.lstrip(" ")) for line in lines if line.strip()]
        cut = min(used, default=0)
        text = _YAML_BLOCKS[style].join(line[cut:] for line in lines).rstrip("\n")
        return text if style.endswith("-") or not lines else text + "\n"


def _yaml_scalar(text: str, allowance: Allowance | None) -> JSONValue:
    flow = text[0] in "[{"
    if flow and text[-1] not in "]}":
        raise _NotYamlError
    if text == "~":
        return None
    if not flow and text[0] not in "\"'-." and not text[0].isdigit() and text.lower() not in _YAML_WORDS:
        return text
    read = parse_value(text, allowance=allowance)
    whole = read.status == "complete" and not text[read.end :].strip()
    bare = any(note.code == "unquoted_value" for note in read.notes) and not flow
    return read.value if whole and not bare else text
