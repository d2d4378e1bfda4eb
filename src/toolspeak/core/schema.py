"""A tool's `parameters`, compiled once: what is allowed, what is wrong with a value, what may be streamed.

A schema comes from a client and is not trusted: its size and depth are bounded, nothing is ever fetched, and
its patterns run only inside jsonschema-rs, whose regular expressions cannot blow up. The scanner and every
dialect sit above this module; below it are `alignment` (which repairs values), the model and the errors.
Nothing here does IO, and no value that is already valid is ever changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import NoReturn, TypeAlias

import jsonschema_rs
import msgspec

from ..errors import SchemaError
from .alignment import (
    MAX_DEPTH,
    ParseText,
    align,
    explain,
    fault,
    fold,
    fold_key,
    is_array,
    is_object,
    json_text,
    strict_json,
    type_name,
)
from .model import JSONObject, JSONValue, Note

__all__ = ["Aligned", "ArgumentSchema", "Subschema"]

#: Coding agents send up to 75 kB for all their tools together; one schema of this size compiles in 0.3 s.
MAX_SCHEMA_BYTES = 256 * 1024
#: Compiled schemas kept: some twenty agents with twenty-five tools each. Large ones get few places, so that the
#: sources kept stay below 20 MiB in all whatever clients send.
CACHED_SCHEMAS = 512
CACHED_LARGE_SCHEMAS = 16
LARGE_SCHEMA_BYTES = 32 * 1024
#: Patterns of `patternProperties` kept compiled.
CACHED_PATTERNS = 1024
#: How often one value may be judged, at worst, by a schema that fans out through shared references. The validator
#: repeats such work, thirty judgements a microsecond; an ordinary tool needs about ten.
MAX_EFFORT = 1_000_000
#: So many sentences about what is wrong say enough.
MAX_PROBLEMS = 5
#: Longest part of a compiler message that is passed on.
MAX_MESSAGE_CHARS = 200

#: A base for local references only. The `.invalid` domain (RFC 2606) can never be resolved.
_BASE = "https://parameters.invalid/"
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS = ("$anchor", "$dynamicAnchor")
#: Keywords whose value is data, not a schema: a `$ref` inside is only text.
_DATA = frozenset({"const", "default", "enum", "example", "examples"})
#: Keywords that map names to schemas.
_TABLES = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
#: Keywords whose schemas may, under some condition, judge the same value.
_CONDITIONS = ("if", "then", "else", "dependentSchemas")
#: Keywords whose schemas judge what is inside the value.
_INSIDE = (
    "properties patternProperties additionalProperties unevaluatedProperties propertyNames "
    "items prefixItems additionalItems unevaluatedItems contains"
).split()
#: Keywords by which a root may judge a property other than through `properties`.
_JUDGES_MEMBERS = frozenset(
    "$ref $dynamicRef $recursiveRef allOf anyOf oneOf not if then else const enum patternProperties propertyNames "
    "dependencies dependentRequired dependentSchemas extends disallow".split()
)
#: Keywords by which a schema may judge a string other than through `type`.
_JUDGES_TEXT = frozenset(
    "$dynamicRef $recursiveRef allOf anyOf oneOf not if then else const enum pattern format minLength maxLength "
    "contentEncoding contentMediaType contentSchema extends disallow".split()
)
#: Keywords that can be checked alone, without the document around them.
_ASSERTIONS = (
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern format "
    "minItems maxItems uniqueItems minProperties maxProperties"
).split()

_ANY: frozenset[str] = frozenset()
_TEXT = frozenset({"string"})
_OBJECT = frozenset({"object"})
_SLASH = ord("/")
_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")


class Aligned(msgspec.Struct, frozen=True):
    """Arguments after alignment: what was done to them, and what is still wrong (empty: they are valid)."""

    value: JSONValue
    notes: tuple[Note, ...] = ()
    problems: tuple[str, ...] = ()


class ArgumentSchema:
    """The compiled schema of one tool's arguments. Shared between callers: treat it as read-only."""

    def __init__(self, parameters: JSONValue) -> None:
        """Use `ArgumentSchema.of`, which caches."""
        self.parameters = parameters
        document = _Document({"type": "object"} if parameters is None else parameters)
        plain = document.at("", document.body)
        #: Arguments are an object unless the schema plainly says something else.
        self._root = Subschema(document, "", document.body, object_only=plain.wanted <= _OBJECT)
        #: Whether each property is judged for itself, so that one may be sent before the others are known.
        self.piecewise = self._root.object_only and _JUDGES_MEMBERS.isdisjoint(plain.body)
        #: Properties whose value may be streamed as it comes; `None`: no schema was given, every value may.
        self.live_strings = None if parameters is None else _live_strings(plain) if self.piecewise else _ANY
        #: The top-level properties, in the order in which they are declared.
        self.names = tuple(self._root.names)
        self._required = frozenset(fold_key(name) for node in self._root.in_place for name in node.required)

    @staticmethod
    def of(parameters: JSONValue) -> ArgumentSchema:
        """The compiled form of `parameters`; `None` accepts any object.

        Raises `SchemaError` if it is no schema, too large, too deep, or refers to another document.
        """
        if parameters is not None and not isinstance(parameters, bool | dict):
            raise SchemaError(f"`parameters` must be a JSON schema, not `{type(parameters).__name__}`")
        try:
            # The order of the keys stays as it is: the order of properties says which argument comes first.
            source = msgspec.json.encode(parameters)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise SchemaError(f"`parameters` are not JSON: {_cut(str(error))}") from error
        if len(source) > MAX_SCHEMA_BYTES:
            raise SchemaError(
                f"`parameters` take {len(source)} bytes, more than {MAX_SCHEMA_BYTES}",
                hint="shorten the descriptions or split the tool",
            )
        return _compiled_large(source) if len(source) > LARGE_SCHEMA_BYTES else _compiled(source)

    def knows(self, name: str) -> bool:
        """Whether the schema declares a top-level property of this name."""
        return name in self._root.names

    def forbids(self, name: str) -> bool:
        """Whether a top-level property of this name must wait: it is not allowed, or means a required one."""
        if self._root.declares(name):
            return self._root.forbids(name)
        return fold_key(name) in self._required or any(node.forbids(name) for node in self._root.in_place)

    def wants(self, name: str) -> frozenset[str]:
        """The JSON types a top-level property may have; empty: unknown, or anything."""
        certain = [node.prop(name).wanted for node in self._root.conjuncts if name in node.table("properties")]
        possible = [node.prop(name).wanted for node in self._root.in_place if name in node.table("properties")]
        return _meet_all(certain) if certain else _join_all(possible)

    def property_schema(self, name: str) -> JSONValue | None:
        """The schema of a top-level property, with a local `$ref` replaced by what it refers to."""
        for node in self._root.in_place:
            if name in node.table("properties"):
                return node.prop(name).inlined
        return None

    def problems(self, arguments: JSONValue, limit: int = MAX_PROBLEMS) -> tuple[str, ...]:
        """What is wrong with the arguments, at most `limit` short sentences (never fewer than one); empty: valid."""
        return _problems((self._root,), arguments, (), limit)

    def align(self, arguments: JSONValue, parse_text: ParseText = strict_json) -> Aligned:
        """The arguments, changed as little as possible so that they fit. Valid ones come back untouched.

        `parse_text` reads JSON that was given as a string; it returns a value or raises `ValueError`.
        """
        return _aligned((self._root,), arguments, parse_text, ())

    def align_property(self, name: str, value: JSONValue, parse_text: ParseText = strict_json) -> Aligned:
        """The value of one top-level property, aligned and judged by itself."""
        return _aligned(self._root.slots(name), value, parse_text, (name,))


def _aligned(nodes: Sequence[Subschema], value: JSONValue, parse: ParseText, path: tuple[str, ...]) -> Aligned:
    trouble = fault(value)
    if trouble:
        return Aligned(value, (), (trouble,))
    if _accept(nodes, value):
        return Aligned(value)
    value, notes = align(nodes, value, parse, path)
    return Aligned(value, notes, _problems(nodes, value, path, MAX_PROBLEMS))


def _accept(nodes: Sequence[Subschema], value: JSONValue) -> bool:
    """Whether all schemas accept the value. A loop: most values are valid and have one schema."""
    for node in nodes:  # noqa: SIM110
        if not node.accepts(value):
            return False
    return True


def _problems(nodes: Sequence[Subschema], value: JSONValue, path: tuple[str, ...], limit: int) -> tuple[str, ...]:
    trouble = fault(value)
    if trouble:
        return (trouble,)
    if _accept(nodes, value):
        return ()
    found: dict[str, None] = {}
    for sentence in explain(nodes, value, path):
        found[sentence] = None
        if len(found) >= limit:
            break
    return tuple(found)


class Subschema:
    """One schema inside a document, with the questions that alignment asks of it."""

    def __init__(self, document: _Document, pointer: str, schema: JSONValue, *, object_only: bool = False) -> None:
        self.pointer = pointer
        self.schema = schema
        self.body: JSONObject = schema if is_object(schema) else {}
        self._document = document
        self.object_only = object_only

    def accepts(self, value: JSONValue) -> bool:
        """Whether the value is valid. A part that the validator itself ignores accepts everything."""
        if self.object_only and not is_object(value):
            return False
        return self._validator is None or self._validator.is_valid(value)

    @cached_property
    def _validator(self) -> jsonschema_rs.Validator | None:
        try:
            return self._document.validator(self.pointer)
        except ValueError:  # a keyword this draft does not know, never compiled with the root
            return None

    def broken(self, value: JSONValue) -> Iterator[str]:
        """The simple keywords of this schema that the value breaks, each with its operand."""
        for keyword in _ASSERTIONS:
            if keyword in self.body and not self._document.holds(keyword, self.body[keyword], value):
                yield f"`{keyword}` {_cut(json_text(self.body[keyword]))}"

    def table(self, keyword: str) -> JSONObject:
        """The value of a keyword that maps names to schemas."""
        value: JSONValue = self.body.get(keyword)
        return value if is_object(value) else {}

    def listed(self, keyword: str) -> list[JSONValue]:
        """The value of a keyword that holds a list."""
        value: JSONValue = self.body.get(keyword)
        return value if is_array(value) else []

    def prop(self, name: str) -> Subschema:
        return self._child("properties", name)

    def _child(self, *tokens: str | int) -> Subschema:
        schema: JSONValue = self.body
        for token in tokens:
            schema = schema[token]
        return self._document.at(self.pointer + "".join(f"/{_escape(str(token))}" for token in tokens), schema)

    def parts(self, *keywords: str) -> list[Subschema]:
        """The schemas that some keywords hold: one, a list, or a table of them."""
        found: list[Subschema] = []
        for keyword in keywords:
            value: JSONValue = self.body.get(keyword)
            if is_array(value):
                found += [self._child(keyword, index) for index in range(len(value))]
            elif is_object(value) and keyword in _TABLES:
                found += [self._child(keyword, name) for name in value]
            elif isinstance(value, bool | dict):
                found.append(self._child(keyword))
        return found

    @cached_property
    def members(self) -> tuple[Subschema, ...]:
        """Schemas that must hold as well, for the same value: what is referred to, and `allOf`."""
        found = [self._document.resolve(self.body[keyword]) for keyword in _REFERENCES if keyword in self.body]
        return (*(node for node in found if node is not None), *self.parts("allOf"))

    @cached_property
    def branches(self) -> tuple[Subschema, ...]:
        """Alternatives for the same value."""
        return tuple(self.parts("anyOf", "oneOf"))

    @cached_property
    def in_place(self) -> tuple[Subschema, ...]:
        """Every schema that may judge the same value, this one first."""
        return _reach(self, lambda node: (*node.members, *node.branches, *node.parts(*_CONDITIONS)))

    @cached_property
    def conjuncts(self) -> tuple[Subschema, ...]:
        """Every schema that must hold for the same value, this one first."""
        return _reach(self, lambda node: node.members)

    @cached_property
    def names(self) -> dict[str, None]:
        """Property names declared here or by any schema for the same value, in order."""
        tables = (node.table("properties") for node in self.in_place)
        return {name: None for table in tables for name, schema in table.items() if schema is not False}

    @cached_property
    def required(self) -> frozenset[str]:
        return frozenset(name for name in self.listed("required") if isinstance(name, str))

    @cached_property
    def options(self) -> tuple[JSONValue, ...]:
        """The members of `enum` or `const`; empty: no such keyword."""
        return (self.body["const"],) if "const" in self.body else tuple(self.listed("enum"))

    @cached_property
    def choices(self) -> dict[str, list[JSONValue]]:
        """The options by their folded text."""
        found: dict[str, list[JSONValue]] = {}
        for option in self.options:
            found.setdefault(fold(option if isinstance(option, str) else json_text(option)), []).append(option)
        return found

    @cached_property
    def types(self) -> frozenset[str]:
        """The JSON types that this schema's own keywords allow; empty: any."""
        named = self.body.get("type")
        own = frozenset([named]) if isinstance(named, str) else frozenset(map(str, self.listed("type")))
        kinds = frozenset(type_name(option) for option in self.options)
        return _meet_all([own, kinds, _OBJECT if self.object_only else _ANY])

    @cached_property
    def wanted(self) -> frozenset[str]:
        """The JSON types allowed, references and alternatives included; empty: any, or unknown."""
        return _wanted(self, {}, 0)

    def declares(self, name: str) -> bool:
        """Whether this or any schema for the same value has a place for a property of this name."""
        return name in self.names or any(
            schema is not False and _matches(pattern, name)
            for node in self.in_place
            for pattern, schema in node.table("patternProperties").items()
        )

    def slots(self, name: str) -> list[Subschema]:
        """The schemas of a property's value by this schema's own keywords."""
        found = [self.prop(name)] if name in self.table("properties") else []
        patterns = (pattern for pattern in self.table("patternProperties") if _matches(pattern, name))
        found += [self._child("patternProperties", pattern) for pattern in patterns]
        return found or ([self._child("additionalProperties")] if self.table("additionalProperties") else [])

    def forbids(self, name: str) -> bool:
        """Whether this schema's own keywords rule out any property of this name."""
        verdicts = [self.body["properties"][name]] if name in self.table("properties") else []
        verdicts += [schema for pattern, schema in self.table("patternProperties").items() if _matches(pattern, name)]
        if verdicts:
            return any(schema is False for schema in verdicts)
        if self.body.get("additionalProperties") is False:
            return True
        return self.body.get("unevaluatedProperties") is False and not self.declares(name)

    def item(self, index: int) -> Subschema | None:
        """The schema of an array's item, or `None` where anything goes."""
        for keyword in ("prefixItems", "items"):
            if index < len(self.listed(keyword)):
                return self._child(keyword, index)
        rest = "additionalItems" if self.listed("items") else "items"
        return self._child(rest) if isinstance(self.body.get(rest), bool | dict) else None

    @property
    def inlined(self) -> JSONValue:
        """The schema with a reference at its top replaced by the target, its own keywords on top of those."""
        body, target = self.body, self
        for _ in range(MAX_DEPTH):
            target = self._document.resolve(target.body["$ref"]) if "$ref" in target.body else None
            if target is None:
                break
            body = {**target.body, **body}
        return {key: value for key, value in body.items() if key != "$ref"} if self.body else self.schema


class _Document:
    """A whole schema: where its parts are and how they are compiled."""

    def __init__(self, schema: JSONValue) -> None:
        # Without its own `$id` every local reference has one base; what `$id` could name is refused anyway.
        self.body = {k: v for k, v in schema.items() if k not in ("$id", "id")} if is_object(schema) else schema
        self._anchors = dict(_survey(self.body))
        self._nodes: dict[str, Subschema] = {}
        try:
            self._validator = jsonschema_rs.validator_for(self.body, retriever=_refuse, base_uri=_BASE)
            self._class = jsonschema_rs.validator_cls_for(self.body)
            self._registry = jsonschema_rs.Registry([(_BASE, self.body)], retriever=_refuse)
            if _effort(self.at("", self.body)) > MAX_EFFORT:
                raise ValueError("its alternatives multiply beyond measure")
        except ValueError as error:
            message = error.message if isinstance(error, jsonschema_rs.ValidationError) else str(error)
            raise SchemaError(f"`parameters` are not a valid JSON schema: {_cut(message)}") from error

    def validator(self, pointer: str) -> jsonschema_rs.Validator:
        if not pointer:
            return self._validator
        fragment = "".join(f"%{byte:02X}" if byte != _SLASH else "/" for byte in pointer.encode())
        return self._class({"$ref": f"{_BASE}#{fragment}"}, registry=self._registry, retriever=_refuse)

    def holds(self, keyword: str, operand: JSONValue, value: JSONValue) -> bool:
        try:
            return self._class({keyword: operand}, retriever=_refuse).is_valid(value)
        except ValueError:  # it means nothing without its neighbours
            return True

    def at(self, pointer: str, schema: JSONValue) -> Subschema:
        return self._nodes.setdefault(pointer, Subschema(self, pointer, schema))

    def resolve(self, reference: JSONValue) -> Subschema | None:
        """The schema that a local reference means, or `None` for one that cannot be followed."""
        fragment = _PERCENT.sub(lambda match: bytes.fromhex(match[1].decode()), str(reference)[1:].encode()).decode()
        pointer = self._anchors.get(fragment, fragment)
        if pointer[:1] not in ("", "/"):
            return None
        schema = self.body
        for token in pointer.split("/")[1:]:
            places: JSONObject = {str(n): each for n, each in enumerate(schema)} if is_array(schema) else schema
            key = token.replace("~1", "/").replace("~0", "~")
            if not is_object(places) or key not in places:
                return None
            schema = places[key]
        return self.at(pointer, schema)


def _refuse(uri: str, /) -> NoReturn:
    """Stands where jsonschema-rs would fetch another document: tool schemas come from clients (SSRF)."""
    raise ValueError(f"`{_cut(uri)}` is another document")


def _survey(schema: JSONValue) -> Iterator[tuple[str, str]]:
    """Every anchor with its pointer. Raises `SchemaError` for a schema too deep or with a remote reference."""
    stack: list[tuple[str, JSONValue, int, bool]] = [("", schema, 1, False)]
    while stack:
        pointer, part, depth, data = stack.pop()
        if depth > MAX_DEPTH and isinstance(part, dict | list):
            raise SchemaError(f"`parameters` are nested deeper than {MAX_DEPTH} levels")
        if is_array(part):
            stack += [(f"{pointer}/{index}", each, depth + 1, data) for index, each in enumerate(part)]
        elif is_object(part):
            if not data:
                _refuse_remote(part)
                yield from ((part[word], pointer) for word in _ANCHORS if isinstance(part.get(word), str))
            stack += [(f"{pointer}/{_escape(k)}", v, depth + 1, data or k in _DATA) for k, v in part.items()]


def _refuse_remote(schema: JSONObject) -> None:
    for keyword in _REFERENCES:
        target = schema.get(keyword)
        if isinstance(target, str) and not target.startswith("#"):
            raise SchemaError(
                f"`{keyword}` to another document is not followed: `{_cut(target)}`",
                hint="put the definition under `$defs` and refer to it as `#/$defs/name`",
            )


@lru_cache(CACHED_SCHEMAS)
def _compiled(source: bytes) -> ArgumentSchema:
    return ArgumentSchema(msgspec.json.decode(source))


@lru_cache(CACHED_LARGE_SCHEMAS)
def _compiled_large(source: bytes) -> ArgumentSchema:
    return ArgumentSchema(msgspec.json.decode(source))


@lru_cache(CACHED_PATTERNS)
def _pattern(pattern: str) -> jsonschema_rs.Validator | None:
    try:
        return jsonschema_rs.validator_for({"pattern": pattern}, retriever=_refuse)
    except ValueError:  # it stands where the validator does not look
        return None


def _matches(pattern: str, name: str) -> bool:
    validator = _pattern(pattern)
    return validator is not None and validator.is_valid(name)


def _live_strings(root: Subschema) -> frozenset[str]:
    return frozenset(name for name in root.table("properties") if _is_plain_text(root.prop(name)))


def _is_plain_text(node: Subschema) -> bool:
    """Whether the schema asks for a string and for nothing else."""
    chain = node.conjuncts
    return all(_JUDGES_TEXT.isdisjoint(each.body) for each in chain) and _meet_all(n.types for n in chain) == _TEXT


def _reach(start: Subschema, step: Callable[[Subschema], Iterable[Subschema]]) -> tuple[Subschema, ...]:
    """The schemas that repeated steps lead to, each once, in the order they are met."""
    found = {start.pointer}
    queue = [start]
    for node in queue:
        for each in step(node):
            if each.pointer not in found:
                found.add(each.pointer)
                queue.append(each)
    return tuple(queue)


_Groups: TypeAlias = tuple[Sequence[Subschema], ...]


def _effort(root: Subschema) -> int:
    """How often one value may be judged: alternatives add up, while only one property at a time is looked into.

    References in a circle do not count, since the validator remembers their results.
    """
    known: dict[str, int] = {}
    stack: list[tuple[Subschema, _Groups | None]] = [(root, None)]
    while stack:
        node, groups = stack.pop()
        if groups is not None:
            most = (max((known[each.pointer] for each in group), default=0) for group in groups[1:])
            known[node.pointer] = 1 + sum(known[each.pointer] for each in groups[0]) + sum(most)
        elif node.pointer not in known:
            known[node.pointer] = 1
            in_place = (*node.members, *node.branches, *node.parts("not", "dependencies", *_CONDITIONS))
            fresh: _Groups = (in_place, *(node.parts(keyword) for keyword in _INSIDE))
            stack.append((node, fresh))
            stack += [(each, None) for group in fresh for each in group]
    return known[root.pointer]


def _wanted(node: Subschema, known: dict[str, frozenset[str]], depth: int) -> frozenset[str]:
    """Types by own keywords, references, `allOf` and alternatives. A cycle, or too long a way, says nothing."""
    if node.pointer in known or depth > MAX_DEPTH:
        return known.get(node.pointer, _ANY)
    known[node.pointer] = _ANY
    parts = [node.types, *(_wanted(each, known, depth + 1) for each in node.members)]
    parts.append(_join_all([_wanted(each, known, depth + 1) for each in node.branches]))
    known[node.pointer] = _meet_all(parts)
    return known[node.pointer]


def _meet_all(parts: Iterable[frozenset[str]]) -> frozenset[str]:
    """The types that all parts allow; an empty part allows any."""
    result = _ANY
    for part in parts:
        result = _meet(result, part) if result and part else result or part
    return result


def _meet(one: frozenset[str], other: frozenset[str]) -> frozenset[str]:
    both = _widened(one) & _widened(other)
    return both - {"integer"} if "number" in both else both


def _widened(kinds: frozenset[str]) -> frozenset[str]:
    return kinds | {"integer"} if "number" in kinds else kinds


def _join_all(parts: list[frozenset[str]]) -> frozenset[str]:
    """The types that any part allows; an empty part, or no part at all, allows any."""
    return _ANY.union(*parts) if all(parts) else _ANY


def _escape(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1")


def _cut(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= MAX_MESSAGE_CHARS else f"{line[:MAX_MESSAGE_CHARS]}…"
