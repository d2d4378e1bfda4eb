"""Renders tools for a prompt, as short signatures or as JSON schemas, with as much detail as fits.

A signature takes a quarter of the tokens of a schema. It has one line per parameter with type, enumeration, default and
description. Nested objects and arrays are written as types. Tool definitions are untrusted (an MCP server may have
written them), so control tokens are neutralised here. All functions are pure; remote references are never fetched.
"""

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import islice
from typing import Literal, TypeAlias

from ...core.types import JSONObject, JSONValue, Tool, is_array, is_object
from .escaping import json_text, neutralise, one_line

ListingStyle = Literal["compact", "schema"]


class ListingDetail(IntEnum):
    """How much of a tool definition to list. Higher values leave out more."""

    ALL = 0
    NO_EXAMPLES = 1
    NO_NESTED_DESCRIPTIONS = 2
    NO_PARAMETER_DESCRIPTIONS = 3
    FIRST_SENTENCES = 4
    NO_DESCRIPTIONS = 5


#: Maximum nesting depth of a type. Deeper types are written as `object` or `any`; models rarely fill them in anyway.
MAX_DEPTH = 6
#: Maximum length of a chain of references. A longer chain is treated as a loop.
MAX_REFERENCES = 16
#: Maximum number of keywords copied from a referenced schema. Real schemas have fewer.
MAX_KEYWORDS = 64
#: Maximum number of types written out for one tool, because references can expand a small schema to a huge one.
MAX_TYPES = 1000
#: Maximum number of enumeration values, object members or union branches to write out.
MAX_VALUES = 64
#: Maximum length of a parameter description. Coding agents write up to about 1,500 characters.
MAX_DESCRIPTION = 2000
#: Maximum length of a default or an example. Longer ones are left out.
MAX_LITERAL = 80
_ANY = "any"
_DESCRIPTIVE = ("description", "title", "$comment")
#: How many characters of a request or description to search when ranking tools.
MAX_QUERY = 4000
#: A call in any dialect contains at least one of these characters.
_CODE = frozenset("{[(<`")


def resolve(schema: JSONValue, root: JSONValue) -> JSONObject:
    """Replace a local `$ref` with its target. Keywords next to the `$ref` take precedence."""
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
    """Return the target of a JSON pointer in this document, or an empty object if there is no such target."""
    if not reference.startswith("#"):
        return {}
    target: JSONValue = root
    for token in reference[1:].split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        target = target.get(key) if is_object(target) else None
    return target if is_object(target) else {}


class _TypeWriter:
    def __init__(self, root: JSONValue, detail: ListingDetail) -> None:
        self._root = root
        self._detail = detail
        self._remaining = MAX_TYPES
        self._open: list[str] = []  # references currently being expanded

    def type(self, schema: JSONValue, depth: int = 0) -> str:
        """Write a schema as a type. A recursive schema is expanded once and then referred to by name."""
        self._remaining -= 1
        if self._remaining < 0:
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
        described = self._detail < ListingDetail.NO_NESTED_DESCRIPTIONS
        text = _description(resolve(schema, self._root)) if described else ""
        return self.typed(name, schema, required, depth + 1) + (f" ({text})" if text else "")

    def _array(self, body: JSONObject, depth: int) -> str:
        items = body.get("items", {})
        inner = self.type(items, depth + 1) if depth < MAX_DEPTH else _ANY
        if depth == 0 and self._detail < ListingDetail.NO_NESTED_DESCRIPTIONS:
            text = _description(resolve(items, self._root))
            inner += f" ({text})" if text else ""
        return f"({inner})[]" if "|" in inner or "(" in inner else f"{inner}[]"

    def choice(self, body: JSONObject, depth: int) -> str:
        values = body["enum"] if is_array(body["enum"]) else []
        more = ["..."] if len(values) > MAX_VALUES else []
        return "|".join([_literal(value, MAX_DESCRIPTION) for value in values[:MAX_VALUES]] + more) or _ANY

    def constant(self, body: JSONObject, depth: int) -> str:
        return _literal(body["const"], MAX_DESCRIPTION)

    def union(self, body: JSONObject, depth: int) -> str:
        """Write a union (`anyOf`, `oneOf`)."""
        branches = body.get("anyOf", body.get("oneOf"))
        if not is_array(branches) or depth >= MAX_DEPTH:
            return _ANY
        outside = {key: value for key, value in body.items() if key not in ("anyOf", "oneOf")}
        return _union(self.type(_merged(outside, (each,), self._root), depth + 1) for each in branches[:MAX_VALUES])

    def all_of(self, body: JSONObject, depth: int) -> str:
        """Write an intersection (`allOf`), merged into one type."""
        outside: JSONObject = {key: value for key, value in body.items() if key != "allOf"}
        parts = body["allOf"][:MAX_VALUES] if is_array(body["allOf"]) and depth < MAX_DEPTH else ()
        return self.type(_merged(outside, parts, self._root), depth + 1)

    def properties(self, body: JSONObject) -> Iterator[tuple[str, JSONValue, bool]]:
        """Yield the name and schema of each property, and whether it is required, in order of declaration."""
        table, required = body.get("properties"), body.get("required")
        required_names = {name for name in (required if is_array(required) else ()) if isinstance(name, str)}
        for name, schema in table.items() if is_object(table) else ():
            yield name, schema, name in required_names

    def typed(self, name: str, schema: JSONValue, required: bool, depth: int = 0) -> str:
        """Write a parameter as `name?: type = default`."""
        default = _default(resolve(schema, self._root))
        return f"{one_line(name, MAX_LITERAL)}{'' if required else '?'}: {self.type(schema, depth)}{default}"

    def line(self, name: str, schema: JSONValue, required: bool) -> str:
        """Write a parameter on a separate line, with its description and an example."""
        body = resolve(schema, self._root)
        text = _description(body) if self._detail < ListingDetail.NO_PARAMETER_DESCRIPTIONS else ""
        example = _example(body) if self._detail < ListingDetail.NO_EXAMPLES else ""
        return f"  {self.typed(name, schema, required)}" + "".join(f" - {each}" for each in (text, example) if each)


_SHAPES = {
    "enum": _TypeWriter.choice,
    "const": _TypeWriter.constant,
    "allOf": _TypeWriter.all_of,
    "anyOf": _TypeWriter.union,
    "oneOf": _TypeWriter.union,
}


def _union(types: Iterator[str]) -> str:
    return "|".join(dict.fromkeys(types)) or _ANY


def _merged(one: JSONObject, others: Sequence[JSONValue], root: JSONValue) -> JSONObject:
    """Merge schemas: combine their properties and required names, and use the last value of every other keyword."""
    bodies = [one, *(resolve(each, root) for each in others)]
    merged: JSONObject = {}
    for body in bodies:
        merged |= body
    # Several schemas may share one `properties` object, so remove duplicates.
    tables = {id(table): table for body in bodies if is_object(table := body.get("properties"))}
    if tables:
        merged["properties"] = {name: schema for table in tables.values() for name, schema in table.items()}
    demands = {id(names): names for body in bodies if is_array(names := body.get("required"))}
    if demands:
        merged["required"] = [name for names in demands.values() for name in names]
    return merged


def _limits(body: JSONObject) -> str:
    """Write the numeric bounds and the format of a type."""
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
    """Whether the JSON of a value is certainly longer than `limit`. Stops counting as soon as it is."""
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
    # References can repeat a long description many times, so process only about as much as can be shown.
    return one_line(text[: MAX_DESCRIPTION * 2], MAX_DESCRIPTION) if isinstance(text, str) else ""


def _example(body: JSONObject) -> str:
    examples = body.get("examples")
    text = _literal(examples[0], MAX_LITERAL) if is_array(examples) and examples else "..."
    return f"e.g. {text}" if text != "..." else ""


def signature(tool: Tool, style: ListingStyle, detail: ListingDetail) -> str:
    """Render a tool for the tool list of a prompt."""
    return _schema(tool, detail) if style == "schema" else _compact(tool, detail)


def _compact(tool: Tool, detail: ListingDetail) -> str:
    writer = _TypeWriter(tool.parameters, detail)
    body = resolve(tool.parameters, tool.parameters)
    if "allOf" in body:
        body = _merged(body, body["allOf"] if is_array(body["allOf"]) else (), tool.parameters)
    lines = [writer.line(*item) for item in writer.properties(body)]
    if not lines:
        closed = is_object(tool.parameters) and not tool.parameters.get("additionalProperties")
        lines = ["  (no parameters)" if closed else "  (any parameters)"]
    about = _about(tool, detail)
    return "\n".join([f"- {tool.name}: {about}" if about else f"- {tool.name}", *lines])


def _about(tool: Tool, detail: ListingDetail) -> str:
    """Return the tool's description, with its lines indented so that none looks like a new tool."""
    if detail >= ListingDetail.NO_DESCRIPTIONS:
        return ""
    lines = [line.rstrip() for line in neutralise(tool.description).strip().splitlines()]
    text = "\n    ".join(line for line in lines if line)
    return _first_sentence(text) if detail >= ListingDetail.FIRST_SENTENCES else text


def _first_sentence(text: str) -> str:
    line = text.partition("\n")[0]
    head, dot, _ = line.partition(". ")
    return one_line(head + dot.strip(), MAX_LITERAL * 2)


def _schema(tool: Tool, detail: ListingDetail) -> str:
    parameters = {"type": "object"} if tool.parameters is None else _trimmed(tool.parameters, detail, 0)
    about = _about(tool, detail).replace("\n    ", "\n")
    described = {"description": about} if about else {}
    return json_text({"name": tool.name, **described, "parameters": parameters})


def _trimmed(value: JSONValue, detail: ListingDetail, depth: int) -> JSONValue:
    """Remove the annotations that this level of detail leaves out from a schema."""
    if is_array(value):
        return [_trimmed(each, detail, depth) for each in value]
    if not is_object(value) or detail < ListingDetail.NO_EXAMPLES or depth > MAX_REFERENCES * 4:
        return value
    return {
        key: _trimmed_keyword(key, each, detail, depth)
        for key, each in value.items()
        if not _is_cut(key, each, detail, depth)
    }


def _trimmed_keyword(key: str, value: JSONValue, detail: ListingDetail, depth: int) -> JSONValue:
    """Trim subschemas. Keywords that hold data, such as `enum` and `default`, stay unchanged."""
    if key in ("properties", "$defs", "definitions"):
        return {name: _trimmed(each, detail, depth + 1) for name, each in value.items()} if is_object(value) else value
    return value if key in ("enum", "const", "default", "required") else _trimmed(value, detail, depth)


def _is_cut(key: str, value: JSONValue, detail: ListingDetail, depth: int) -> bool:
    if key in ("examples", "example"):
        return True
    if key not in _DESCRIPTIVE or not isinstance(value, str):
        return False
    return detail >= (ListingDetail.NO_PARAMETER_DESCRIPTIONS if depth <= 1 else ListingDetail.NO_NESTED_DESCRIPTIONS)


def declared_texts(tools: tuple[Tool, ...]) -> tuple[str, ...]:
    """Return the descriptions that may contain code, because a model may copy a call from them."""
    texts = [text for tool in tools for text in (tool.description, *_texts_in(tool.parameters, 0))]
    return tuple(dict.fromkeys(text for text in texts if not _CODE.isdisjoint(text)))


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


_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
#: Weight of a word in the tool's name, relative to a word in its description.
_NAME_WEIGHT = 4


#: The words in a tool's name, and the words in its description and parameter names.
Vocabulary: TypeAlias = tuple[set[str], set[str]]


def vocabulary(tool: Tool) -> Vocabulary:
    """Collect the words of a tool for `relevance`."""
    table = tool.parameters.get("properties") if is_object(tool.parameters) else None
    parameter_words = {word for name in (table if is_object(table) else ()) for word in _words(name)}
    return _words(tool.name), _words(tool.description[:MAX_QUERY]) | parameter_words


def relevance(words: Vocabulary, query: str) -> int:
    """Score a tool by the number of words it shares with the user's request."""
    query_words = _query_words(query[:MAX_QUERY])
    return _NAME_WEIGHT * len(query_words & words[0]) + len(query_words & words[1])


@lru_cache(maxsize=4)  # all tools are ranked against the same request
def _query_words(query: str) -> set[str]:
    return _words(query)


def _words(text: str) -> set[str]:
    """Split text into lower-case words without plural endings. Non-ASCII words are split into pairs of characters."""
    words: set[str] = set()
    for word in _WORDS.findall(text):
        folded = word.lower()
        if folded.isascii():
            words.add(folded.rstrip("s") if len(folded) > 3 else folded)
        else:
            words.update(folded[at : at + 2] for at in range(max(1, len(folded) - 1)))
    return words - _COMMON


#: Stop words, which are ignored when ranking tools.
_COMMON = frozenset("a an and by for from get in into is it of on or set the to use with you your".split())
