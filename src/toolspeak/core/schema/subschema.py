"""One schema inside a document: the questions that alignment and problems ask of it, and how it is compiled.

A schema comes from a client and is not trusted: its depth is bounded, nothing is ever fetched, and its patterns run
only inside jsonschema-rs, whose regular expressions cannot blow up. Only this module reads JSON schema keywords, and nothing here does IO.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple, NoReturn, TypeAlias

import jsonschema_rs

from ...errors import SchemaError
from ..types import JSONObject, JSONValue, is_array, is_object
from .json_values import MAX_DEPTH, Path, fold, json_text, type_name

#: Patterns of `patternProperties` kept compiled.
CACHED_PATTERNS = 1024
#: How often one value may be judged, at worst, by a schema that fans out through shared references. The validator
#: repeats such work, thirty judgements a microsecond; an ordinary tool needs about ten.
MAX_EFFORT = 1_000_000
#: Most schemas entered on the way to one value: a reference, an alternative and its target on each level.
MAX_STEPS = 4 * MAX_DEPTH
#: Most schemas tried one inside the other on the same value. A reference to an alternative takes three.
MAX_CHAIN = 32
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
#: Keywords that can be checked alone, without the document around them.
_ASSERTIONS = (
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern format "
    "minItems maxItems uniqueItems minProperties maxProperties"
).split()

#: No type named: any will do.
ANY: frozenset[str] = frozenset()
OBJECT = frozenset({"object"})
_SLASH = ord("/")
_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")


class Subschema:
    """One schema inside a document, with the questions that alignment asks of it."""

    def __init__(self, document: Document, pointer: str, schema: JSONValue, *, object_only: bool = False) -> None:
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
                yield f"`{keyword}` {cut(json_text(self.body[keyword]))}"

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
        return meet_all([own, kinds, OBJECT if self.object_only else ANY])

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

    def requires(self, name: str) -> bool:
        """Whether this or any schema for the same value may ask for a property of this name."""
        return any(name in node.required for node in self.in_place)

    def bars_null(self, name: str) -> bool:
        """Whether this schema declares a property of this name, and null is no value for it."""
        return name in self.table("properties") and not self.prop(name).accepts(None)

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


class At(NamedTuple):
    """Where a value stands."""

    path: Path
    #: The first schema for this value: a key that it declares anywhere is not dropped by one of its parts.
    entry: Subschema
    steps: int
    #: Pointers of the schemas being tried on this very value, so that a cycle of references ends.
    trying: frozenset[str]

    def blocks(self, node: Subschema) -> bool:
        return node.pointer in self.trying or len(self.trying) > MAX_CHAIN or self.steps > MAX_STEPS

    def trying_too(self, node: Subschema) -> At:
        return self._replace(steps=self.steps + 1, trying=self.trying | {node.pointer})

    def inside(self, step: str | int, node: Subschema) -> At:
        return At((*self.path, step), node, self.steps, frozenset())


class Document:
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
            message = _located(error) if isinstance(error, jsonschema_rs.ValidationError) else str(error)
            raise SchemaError(f"`parameters` are not a valid JSON schema: {cut(message)}") from error

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


def _located(error: jsonschema_rs.ValidationError) -> str:
    """What is wrong with a schema, and where."""
    place = ".".join(map(str, error.instance_path))
    return f"`{place}`: {error.message}" if place else error.message


def _refuse(uri: str, /) -> NoReturn:
    """Stands where jsonschema-rs would fetch another document: tool schemas come from clients (SSRF)."""
    raise ValueError(f"`{cut(uri)}` is another document")


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
                f"`{keyword}` to another document is not followed: `{cut(target)}`",
                hint="put the definition under `$defs` and refer to it as `#/$defs/name`",
            )


@lru_cache(CACHED_PATTERNS)
def _pattern(pattern: str) -> jsonschema_rs.Validator | None:
    try:
        return jsonschema_rs.validator_for({"pattern": pattern}, retriever=_refuse)
    except ValueError:  # it stands where the validator does not look
        return None


def _matches(pattern: str, name: str) -> bool:
    validator = _pattern(pattern)
    return validator is not None and validator.is_valid(name)


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
        return known.get(node.pointer, ANY)
    known[node.pointer] = ANY
    parts = [node.types, *(_wanted(each, known, depth + 1) for each in node.members)]
    parts.append(join_all([_wanted(each, known, depth + 1) for each in node.branches]))
    known[node.pointer] = meet_all(parts)
    return known[node.pointer]


def meet_all(parts: Iterable[frozenset[str]]) -> frozenset[str]:
    """The types that all parts allow; an empty part allows any."""
    result = ANY
    for part in parts:
        result = _meet(result, part) if result and part else result or part
    return result


def _meet(one: frozenset[str], other: frozenset[str]) -> frozenset[str]:
    both = _widened(one) & _widened(other)
    return both - {"integer"} if "number" in both else both


def _widened(kinds: frozenset[str]) -> frozenset[str]:
    return kinds | {"integer"} if "number" in kinds else kinds


def join_all(parts: list[frozenset[str]]) -> frozenset[str]:
    """The types that any part allows; an empty part, or no part at all, allows any."""
    return ANY.union(*parts) if all(parts) else ANY


def _escape(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1")


def cut(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= MAX_MESSAGE_CHARS else f"{line[:MAX_MESSAGE_CHARS]}…"
