"""Tools as short signatures, or as JSON schemas, with as much detail as there is room for.

A signature says what a schema says in a quarter of the tokens: one line for each parameter with its type,
enumeration, default and description; nested objects and arrays are written as types. What a tool declares is
foreign text (an MCP server may have written it), so control tokens are neutralised here. Pure functions; nothing is ever fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import islice
from typing import Literal, TypeAlias

from ...core.types import JSONObject, JSONValue, Tool, is_array, is_object
from .escaping import json_text, neutralise, one_line

ListingStyle = Literal["compact", "schema"]


class Detail(IntEnum):
    """How much is said of a tool; each step says less than the one before."""

    ALL = 0
    NO_EXAMPLES = 1
    NO_NESTED_DESCRIPTIONS = 2
    NO_PARAMETER_DESCRIPTIONS = 3
    FIRST_SENTENCES = 4
    NO_DESCRIPTIONS = 5


#: Deeper types are written as `object` or `array`: nobody fills them in from a prompt.
MAX_DEPTH = 6
#: References that lead to references; a longer chain is a loop.
MAX_REFERENCES = 16
#: So many keywords are taken from what is referred to: no schema has as many, and everything may refer to one.
MAX_KEYWORDS = 64
#: Types written out for one tool: references can make a small schema stand for a huge one.
MAX_TYPES = 1000
#: So many values of an enumeration, members of a type and parts of a union are written out.
MAX_VALUES = 64
#: A description of a parameter longer than this is cut. Coding agents write up to some 1,500 characters.
MAX_DESCRIPTION = 2000
#: A default or an example longer than this says nothing.
MAX_LITERAL = 80
_ANY = "any"
_DESCRIPTIVE = ("description", "title", "$comment")
#: How much of a request or a description is looked at to tell which tools matter.
MAX_QUERY = 4000
#: Characters that a call written in any dialect needs at least one of.
_CODE = frozenset("{[(<`")


def resolve(schema: JSONValue, root: JSONValue) -> JSONObject:
    """The schema with a local `$ref` replaced by what it refers to; its own keywords stay on top."""
    body: JSONObject = schema if is_object(schema) else {}
    for _ in range(MAX_REFERENCES):
        reference = body.get("$ref")
        if not isinstance(reference, str):
            return body
        target = dict(islice(_at_pointer(root, reference).items(), MAX_KEYWORDS))
        rest = {key: value for key, value in body.items() if key != "$ref"}
        body = {**target, **rest}
    return {}


def _at_pointer(root: JSONValue, reference: str) -> JSONObject:
    """What a JSON pointer of this document leads to; nothing, if it leads elsewhere."""
    if not reference.startswith("#"):
        return {}
    found: JSONValue = root
    for token in reference[1:].split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        found = found.get(key) if is_object(found) else None
    return found if is_object(found) else {}


# ---- types


class _Writer:
    """Writes the types of one tool."""

    def __init__(self, root: JSONValue, detail: Detail) -> None:
        self._root = root
        self._detail = detail
        self._left = MAX_TYPES
        self._open: list[str] = []  # the references that are being written out

    def type(self, schema: JSONValue, depth: int = 0) -> str:
        """The schema as a type. One that refers to itself is written out once, then named."""
        self._left -= 1
        if self._left < 0:
            return _ANY
        reference = schema.get("$ref") if is_object(schema) else None
        if not isinstance(reference, str):
            return self._shape(resolve(schema, self._root), depth)
        if reference in self._open:
            return one_line(reference.rpartition("/")[2], MAX_LITERAL) or _ANY
        self._open.append(reference)
        text = self._shape(resolve(schema, self._root), depth)
        self._open.pop()
        return text

    def _shape(self, body: JSONObject, depth: int) -> str:
        for keyword, write in _SHAPES.items():
            if keyword in body:
                return write(self, body, depth)
        kind = body.get("type")
        if is_array(kind):
            return _union(self._kind(body, each, depth) for each in kind[:MAX_VALUES])
        return self._kind(body, kind, depth)

    def _kind(self, body: JSONObject, kind: JSONValue, depth: int) -> str:
        if kind == "object" or (kind is None and "properties" in body):
            return self._object(body, depth)
        if kind == "array" or (kind is None and "items" in body):
            return self._array(body, depth)
        if not isinstance(kind, str):
            return _ANY
        return one_line(kind, MAX_LITERAL) + _limits(body)

    def _object(self, body: JSONObject, depth: int) -> str:
        if depth >= MAX_DEPTH:
            return "object"
        members = [self._member(*item, depth) for item in self.properties(body)]
        if members:
            return "{" + ", ".join(members[:MAX_VALUES]) + "}"
        values = body.get("additionalProperties")
        return f"{{[key]: {self.type(values, depth + 1)}}}" if is_object(values) and values else "object"

    def _member(self, name: str, schema: JSONValue, required: bool, depth: int) -> str:
        described = self._detail < Detail.NO_NESTED_DESCRIPTIONS
        text = _description(resolve(schema, self._root)) if described else ""
        return self.typed(name, schema, required, depth + 1) + (f" ({text})" if text else "")

    def _array(self, body: JSONObject, depth: int) -> str:
        items = body.get("items", {})
        inner = self.type(items, depth + 1) if depth < MAX_DEPTH else _ANY
        if depth == 0 and self._detail < Detail.NO_NESTED_DESCRIPTIONS:
            text = _description(resolve(items, self._root))
            inner += f" ({text})" if text else ""
        return f"({inner})[]" if "|" in inner or "(" in inner else f"{inner}[]"

    def choice(self, body: JSONObject, depth: int) -> str:
        """One of several values."""
        values = body["enum"] if is_array(body["enum"]) else []
        more = ["..."] if len(values) > MAX_VALUES else []
        return "|".join([_literal(value, MAX_DESCRIPTION) for value in values[:MAX_VALUES]] + more) or _ANY

    def constant(self, body: JSONObject, depth: int) -> str:
        """One value."""
        return _literal(body["const"], MAX_DESCRIPTION)

    def union(self, body: JSONObject, depth: int) -> str:
        """One of several types."""
        branches = body.get("anyOf", body.get("oneOf"))
        if not is_array(branches) or depth >= MAX_DEPTH:
            return _ANY
        outside = {key: value for key, value in body.items() if key not in ("anyOf", "oneOf")}
        return _union(self.type(_merged(outside, (each,), self._root), depth + 1) for each in branches[:MAX_VALUES])

    def all_of(self, body: JSONObject, depth: int) -> str:
        """All of several types at once, as one."""
        outside: JSONObject = {key: value for key, value in body.items() if key != "allOf"}
        parts = body["allOf"][:MAX_VALUES] if is_array(body["allOf"]) and depth < MAX_DEPTH else ()
        return self.type(_merged(outside, parts, self._root), depth + 1)

    # ---- parameters

    def properties(self, body: JSONObject) -> Iterator[tuple[str, JSONValue, bool]]:
        """Name, schema and whether it must be there, in the order in which they are declared."""
        table, required = body.get("properties"), body.get("required")
        wanted = {name for name in (required if is_array(required) else ()) if isinstance(name, str)}
        for name, schema in table.items() if is_object(table) else ():
            yield name, schema, name in wanted

    def typed(self, name: str, schema: JSONValue, required: bool, depth: int = 0) -> str:
        """`name?: type = default`."""
        default = _default(resolve(schema, self._root))
        return f"{one_line(name, MAX_LITERAL)}{'' if required else '?'}: {self.type(schema, depth)}{default}"

    def line(self, name: str, schema: JSONValue, required: bool) -> str:
        """A parameter on a line of its own, with its description."""
        body = resolve(schema, self._root)
        text = _description(body) if self._detail < Detail.NO_PARAMETER_DESCRIPTIONS else ""
        example = _example(body) if self._detail < Detail.NO_EXAMPLES else ""
        return f"  {self.typed(name, schema, required)}" + "".join(f" - {each}" for each in (text, example) if each)


_SHAPES = {
    "enum": _Writer.choice,
    "const": _Writer.constant,
    "allOf": _Writer.all_of,
    "anyOf": _Writer.union,
    "oneOf": _Writer.union,
}


def _union(types: Iterator[str]) -> str:
    return "|".join(dict.fromkeys(types)) or _ANY


def _merged(one: JSONObject, others: Sequence[JSONValue], root: JSONValue) -> JSONObject:
    """Schemas that all hold, as one: members and demands of all, of other keywords the last."""
    bodies = [one, *(resolve(each, root) for each in others)]
    merged: JSONObject = {}
    for body in bodies:
        merged |= body
    # The same table may be referred to many times.
    tables = {id(table): table for body in bodies if is_object(table := body.get("properties"))}
    if tables:
        merged["properties"] = {name: schema for table in tables.values() for name, schema in table.items()}
    demands = {id(names): names for body in bodies if is_array(names := body.get("required"))}
    if demands:
        merged["required"] = [name for names in demands.values() for name in names]
    return merged


def _limits(body: JSONObject) -> str:
    """The bounds and the format, where they are short."""
    low, high, form = body.get("minimum"), body.get("maximum"), body.get("format")
    numbers = ["" if each is None or not isinstance(each, int | float) else _literal(each, 24) for each in (low, high)]
    bounds = f" {numbers[0]}..{numbers[1]}" if any(numbers) else ""
    return bounds + (f" ({one_line(form, MAX_LITERAL)})" if isinstance(form, str) and form else "")


def _literal(value: JSONValue, limit: int) -> str:
    if _is_longer(value, limit):
        return "..."
    text = json_text(value)
    return text if len(text) <= limit else "..."


def _is_longer(value: JSONValue, limit: int) -> bool:
    """Whether a value surely takes more characters; no more of it is looked at than it takes to know."""
    waiting = [value]
    while waiting and limit >= 0:
        each = waiting.pop()
        limit -= len(each) if isinstance(each, str) or is_array(each) or is_object(each) else 1
        if limit >= 0 and is_object(each):
            waiting += [*each, *each.values()]
        elif limit >= 0 and is_array(each):
            waiting += each
    return limit < 0


def _default(body: JSONObject) -> str:
    if body.get("default") is None:
        return ""
    text = _literal(body["default"], MAX_LITERAL)
    return f" = {text}" if text != "..." else ""


def _description(body: JSONObject) -> str:
    text = body.get("description")
    # Everything may refer to the same one, so that no more is looked at than can be shown.
    return one_line(text[: MAX_DESCRIPTION * 2], MAX_DESCRIPTION) if isinstance(text, str) else ""


def _example(body: JSONObject) -> str:
    examples = body.get("examples")
    text = _literal(examples[0], MAX_LITERAL) if is_array(examples) and examples else "..."
    return f"e.g. {text}" if text != "..." else ""


# ---- tools


def signature(tool: Tool, style: ListingStyle, detail: Detail) -> str:
    """The tool as it is listed in a prompt."""
    return _schema(tool, detail) if style == "schema" else _compact(tool, detail)


def _compact(tool: Tool, detail: Detail) -> str:
    writer = _Writer(tool.parameters, detail)
    body = resolve(tool.parameters, tool.parameters)
    if "allOf" in body:
        body = _merged(body, body["allOf"] if is_array(body["allOf"]) else (), tool.parameters)
    lines = [writer.line(*item) for item in writer.properties(body)]
    if not lines:
        closed = is_object(tool.parameters) and not tool.parameters.get("additionalProperties")
        lines = ["  (no parameters)" if closed else "  (any parameters)"]
    about = _about(tool, detail)
    return "\n".join([f"- {tool.name}: {about}" if about else f"- {tool.name}", *lines])


def _about(tool: Tool, detail: Detail) -> str:
    """The description; a long one keeps its lines, set in so that none can be taken for a tool."""
    if detail >= Detail.NO_DESCRIPTIONS:
        return ""
    lines = [line.rstrip() for line in neutralise(tool.description).strip().splitlines()]
    text = "\n    ".join(line for line in lines if line)
    return _first_sentence(text) if detail >= Detail.FIRST_SENTENCES else text


def _first_sentence(text: str) -> str:
    line = text.partition("\n")[0]
    head, dot, _ = line.partition(". ")
    return one_line(head + dot.strip(), MAX_LITERAL * 2)


def _schema(tool: Tool, detail: Detail) -> str:
    parameters = {"type": "object"} if tool.parameters is None else _trimmed(tool.parameters, detail, 0)
    about = _about(tool, detail).replace("\n    ", "\n")
    described = {"description": about} if about else {}
    return json_text({"name": tool.name, **described, "parameters": parameters})


def _trimmed(value: JSONValue, detail: Detail, depth: int) -> JSONValue:
    """The schema without the annotations that there is no room for."""
    if is_array(value):
        return [_trimmed(each, detail, depth) for each in value]
    if not is_object(value) or detail < Detail.NO_EXAMPLES or depth > MAX_REFERENCES * 4:
        return value
    return {
        key: _members(each, detail, depth)
        if key in ("properties", "$defs", "definitions")
        else _kept(key, each, detail, depth)
        for key, each in value.items()
        if not _is_cut(key, each, detail, depth)
    }


def _members(table: JSONValue, detail: Detail, depth: int) -> JSONValue:
    if not is_object(table):
        return table
    return {name: _trimmed(schema, detail, depth + 1) for name, schema in table.items()}


def _kept(key: str, value: JSONValue, detail: Detail, depth: int) -> JSONValue:
    """Values of keywords that hold data are left as they are."""
    return value if key in ("enum", "const", "default", "required") else _trimmed(value, detail, depth)


def _is_cut(key: str, value: JSONValue, detail: Detail, depth: int) -> bool:
    if key in ("examples", "example"):
        return True
    if key not in _DESCRIPTIVE or not isinstance(value, str):
        return False
    return detail >= (Detail.NO_PARAMETER_DESCRIPTIONS if depth <= 1 else Detail.NO_NESTED_DESCRIPTIONS)


# ---- what a declaration says


def declared_texts(tools: tuple[Tool, ...]) -> tuple[str, ...]:
    """Descriptions that hold something like code: a model may copy a call out of them."""
    found = [text for tool in tools for text in (tool.description, *_texts_in(tool.parameters, 0))]
    return tuple(dict.fromkeys(text for text in found if not _CODE.isdisjoint(text)))


def _texts_in(value: JSONValue, depth: int) -> Iterator[str]:
    if depth > MAX_REFERENCES * 4:
        return
    if is_object(value):
        for key, each in value.items():
            if key in _DESCRIPTIVE and isinstance(each, str):
                yield each
            else:
                yield from _texts_in(each, depth + 1)
    elif is_array(value):
        for each in value:
            yield from _texts_in(each, depth + 1)


# ---- relevance

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
#: A word in the name says more than one in the description.
_NAME_WEIGHT = 4


#: The words of a tool's name, and of what else it says about itself.
Vocabulary: TypeAlias = tuple[set[str], set[str]]


def vocabulary(tool: Tool) -> Vocabulary:
    """The words by which a tool is found."""
    table = tool.parameters.get("properties") if is_object(tool.parameters) else None
    named = {word for name in (table if is_object(table) else ()) for word in _words(name)}
    return _words(tool.name), _words(tool.description[:MAX_QUERY]) | named


def relevance(words: Vocabulary, query: str) -> int:
    """How much the words of a tool have in common with the words of a request."""
    asked = _asked(query[:MAX_QUERY])
    return _NAME_WEIGHT * len(asked & words[0]) + len(asked & words[1])


@lru_cache(maxsize=4)  # each tool is asked about the same request
def _asked(query: str) -> set[str]:
    return _words(query)


def _words(text: str) -> set[str]:
    """Words without case and ending; scripts without spaces give pairs of characters."""
    found: set[str] = set()
    for word in _WORDS.findall(text):
        folded = word.lower()
        if folded.isascii():
            found.add(folded.rstrip("s") if len(folded) > 3 else folded)
        else:
            found.update(folded[at : at + 2] for at in range(max(1, len(folded) - 1)))
    return found - _COMMON


#: Words that say nothing about what is wanted.
_COMMON = frozenset("a an and by for from get in into is it of on or set the to use with you your".split())
