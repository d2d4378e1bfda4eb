"""Compilation of JSON schema documents, and access to the schemas inside them. Only this module reads schema keywords.

Schemas come from clients and are not trusted: their depth is limited, nothing is ever fetched, and patterns run only
inside jsonschema-rs, whose regular expressions take linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, NoReturn, TypeAlias

import jsonschema_rs

from ...errors import SchemaError
from ..bounded_cache import bounded_cache
from ..types import JSONObject, JSONValue, is_array, is_object
from .json_values import MAX_DEPTH, Path, fold, fold_key, json_text, type_name
from .relaxation import names_only, needs_translation, relax

#: Maximum size of all cached `patternProperties` patterns.
_MAX_PATTERN_BYTES = 512 * 1024
#: Maximum number of checks that one value may need in a schema that fans out through shared references. The validator
#: repeats such checks, at about thirty per microsecond. The schema of an ordinary tool needs about ten.
MAX_EFFORT = 1_000_000
#: Maximum number of schemas on the path to one value: a reference, an alternative and its target on each level.
MAX_STEPS = 4 * MAX_DEPTH
#: Maximum number of nested schemas tried on the same value. A reference to an alternative takes three.
MAX_CHAIN = 32
#: Maximum length of an excerpt in an error message.
MAX_MESSAGE_CHARS = 200

#: Base URI of local references. The `.invalid` domain (RFC 2606) never resolves.
_BASE = "https://parameters.invalid/"
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS = ("$anchor", "$dynamicAnchor")
#: Keywords whose value is data, not a schema. A `$ref` inside them is plain data.
_DATA = frozenset({"const", "default", "enum", "example", "examples"})
#: Keywords that map names to schemas.
_TABLES = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
#: Keywords whose schemas apply to the same value under a condition.
_CONDITIONS = ("if", "then", "else", "dependentSchemas")
#: Keywords whose schemas apply to properties or items of the value.
_INSIDE = (
    "properties patternProperties additionalProperties unevaluatedProperties propertyNames "
    "items prefixItems additionalItems unevaluatedItems contains"
).split()
#: Keywords that can be checked without the surrounding document.
_ASSERTIONS = (
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern format "
    "minItems maxItems uniqueItems minProperties maxProperties"
).split()

#: The empty set of types, which means that any type is allowed.
ANY: frozenset[str] = frozenset()
OBJECT = frozenset({"object"})
_SLASH = ord("/")
_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")


class Subschema:
    def __init__(self, document: SchemaDocument, pointer: str, schema: JSONValue, *, object_only: bool = False) -> None:
        self.pointer = pointer
        self.schema = schema
        self.body: JSONObject = schema if is_object(schema) else {}
        self._document = document
        self.object_only = object_only

    def accepts(self, value: JSONValue) -> bool:
        """Whether the value is valid. A schema that the validator ignores accepts everything."""
        if self.object_only and not is_object(value):
            return False
        return self._validator is None or self._validator.is_valid(value)

    @cached_property
    def _validator(self) -> jsonschema_rs.Validator | None:
        try:
            return self._document.validator(self.pointer)
        except ValueError:  # this draft does not know the surrounding keyword, so the schema was not compiled
            return None

    @property
    def effort(self) -> int:
        """The number of checks that one value may need."""
        return self._document.effort_at(self.pointer)

    def violations(self, value: JSONValue) -> Iterator[str]:
        """Yield the simple keywords of this schema that the value violates, each with its operand."""
        for keyword in _ASSERTIONS:
            if keyword in self.body and not self._document.satisfies(keyword, self.body[keyword], value):
                yield f"`{keyword}` {shorten(json_text(self.body[keyword]))}"

    def table(self, keyword: str) -> JSONObject:
        """Return the value of a keyword that maps names to schemas; empty if the keyword is missing."""
        value: JSONValue = self.body.get(keyword)
        return value if is_object(value) else {}

    def listed(self, keyword: str) -> list[JSONValue]:
        """Return the value of a keyword that is a list; empty if the keyword is missing."""
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
        """Return the schemas under these keywords. A keyword contains one schema, a list or a table of schemas."""
        schemas: list[Subschema] = []
        for keyword in keywords:
            value: JSONValue = self.body.get(keyword)
            if is_array(value):
                schemas += [self._child(keyword, index) for index in range(len(value))]
            elif is_object(value) and keyword in _TABLES:
                schemas += [self._child(keyword, name) for name in value]
            elif isinstance(value, bool | dict):
                schemas.append(self._child(keyword))
        return schemas

    @cached_property
    def members(self) -> tuple[Subschema, ...]:
        """Schemas that also apply to the same value: targets of references, and `allOf`."""
        targets = [self._document.resolve(self.body[keyword]) for keyword in _REFERENCES if keyword in self.body]
        return (*(node for node in targets if node is not None), *self.parts("allOf"))

    @cached_property
    def branches(self) -> tuple[Subschema, ...]:
        """Alternative schemas for the same value: `anyOf` and `oneOf`."""
        return tuple(self.parts("anyOf", "oneOf"))

    @cached_property
    def in_place(self) -> tuple[Subschema, ...]:
        """Every schema that may apply to the same value, this one first."""
        return _reach(self, lambda node: (*node.members, *node.branches, *node.parts(*_CONDITIONS)))

    @cached_property
    def conjuncts(self) -> tuple[Subschema, ...]:
        """Every schema that always applies to the same value, this one first."""
        return _reach(self, lambda node: node.members)

    @cached_property
    def names(self) -> dict[str, None]:
        """Property names declared by this schema or by any other schema for the same value, in order."""
        tables = (node.table("properties") for node in self.in_place)
        return {name: None for table in tables for name, schema in table.items() if schema is not False}

    @cached_property
    def spellings(self) -> dict[str, list[str]]:
        """Names of the properties of this schema, by their normalised spelling."""
        spellings: dict[str, list[str]] = {}
        for name in self.table("properties"):
            if name in self.names:
                spellings.setdefault(fold_key(name), []).append(name)
        return spellings

    @cached_property
    def required(self) -> frozenset[str]:
        return frozenset(name for name in self.listed("required") if isinstance(name, str))

    @cached_property
    def options(self) -> tuple[JSONValue, ...]:
        """The values of `enum` or `const`; empty if the schema has neither."""
        return (self.body["const"],) if "const" in self.body else tuple(self.listed("enum"))

    @cached_property
    def choices(self) -> dict[str, list[JSONValue]]:
        """The options, grouped by their normalised text."""
        options: dict[str, list[JSONValue]] = {}
        for option in self.options:
            options.setdefault(fold(option if isinstance(option, str) else json_text(option)), []).append(option)
        return options

    @cached_property
    def own_types(self) -> frozenset[str]:
        """The JSON types that this schema's own keywords allow; empty means any."""
        type_keyword = self.body.get("type")
        own = frozenset([type_keyword]) if isinstance(type_keyword, str) else frozenset(map(str, self.listed("type")))
        kinds = frozenset(type_name(option) for option in self.options)
        return meet_all([own, kinds, OBJECT if self.object_only else ANY])

    @cached_property
    def allowed_types(self) -> frozenset[str]:
        """The JSON types that this schema, its references and its alternatives allow; empty means any or unknown."""
        return _allowed_types(self, {}, 0)

    def declares(self, name: str) -> bool:
        """Whether this schema, or any other schema for the same value, declares this property."""
        return name in self.names or any(
            schema is not False and _matches(pattern, name)
            for node in self.in_place
            for pattern, schema in node.table("patternProperties").items()
        )

    def slots(self, name: str) -> list[Subschema]:
        """Return the schemas that this schema's own keywords assign to a property."""
        schemas = [self.prop(name)] if name in self.table("properties") else []
        patterns = (pattern for pattern in self.table("patternProperties") if _matches(pattern, name))
        schemas += [self._child("patternProperties", pattern) for pattern in patterns]
        return schemas or ([self._child("additionalProperties")] if self.table("additionalProperties") else [])

    def requires(self, name: str) -> bool:
        """Whether this schema, or any other schema for the same value, may require this property."""
        return any(name in node.required for node in self.in_place)

    def bars_null(self, name: str) -> bool:
        """Whether this schema declares this property and does not allow null for it."""
        return name in self.table("properties") and not self.prop(name).accepts(None)

    def forbids(self, name: str) -> bool:
        """Whether this schema's own keywords forbid this property."""
        schemas = [self.body["properties"][name]] if name in self.table("properties") else []
        schemas += [schema for pattern, schema in self.table("patternProperties").items() if _matches(pattern, name)]
        if schemas:
            return any(schema is False for schema in schemas)
        if self.body.get("additionalProperties") is False:
            return True
        return self.body.get("unevaluatedProperties") is False and not self.declares(name)

    @cached_property
    def positional_items(self) -> int:
        """Number of items at the beginning of an array that have schemas of their own."""
        return max(len(self.listed(keyword)) for keyword in ("prefixItems", "items"))

    def item(self, index: int) -> Subschema | None:
        """Return the schema of the array item at `index`, or `None` if any value is allowed."""
        for keyword in ("prefixItems", "items"):
            if index < len(self.listed(keyword)):
                return self._child(keyword, index)
        rest = "additionalItems" if self.listed("items") else "items"
        return self._child(rest) if isinstance(self.body.get(rest), bool | dict) else None


class ValuePosition(NamedTuple):
    """Position of a value in the arguments, and the schemas that are being tried on it."""

    path: Path
    #: The first schema for this value. Its parts must not drop a key that it declares.
    entry: Subschema
    steps: int
    #: JSON pointers of the schemas being tried on this value, to break reference cycles.
    trying: frozenset[str]

    def blocks(self, node: Subschema) -> bool:
        return node.pointer in self.trying or len(self.trying) > MAX_CHAIN or self.steps > MAX_STEPS

    def entering(self, node: Subschema) -> ValuePosition:
        return self._replace(steps=self.steps + 1, trying=self.trying | {node.pointer})

    def inside(self, step: str | int, node: Subschema) -> ValuePosition:
        return ValuePosition((*self.path, step), node, self.steps, frozenset())


class SchemaDocument:
    """A whole schema document, with lookup and compilation of its parts."""

    def __init__(self, schema: JSONValue) -> None:
        """Compile a schema. What is invalid in it is translated or ignored; `changes` holds the places."""
        # Without `$id`, all local references have the same base. Remote references are rejected anyway.
        body = {k: v for k, v in schema.items() if k not in ("$id", "id")} if is_object(schema) else schema
        self.changes: tuple[Path, ...] = ()
        _check_depth(body)
        if not needs_translation(body) and self._compiles(body):
            return
        relaxed, self.changes = relax(body)
        if not self._compiles(relaxed):
            self.changes = ((),)
            self._compiles(names_only(body))

    def _compiles(self, body: JSONValue) -> bool:
        """Compile `body` as the whole document. Return False if it is not a valid schema."""
        self.body = body
        self._anchors = dict(_anchors(body))
        self._nodes: dict[str, Subschema] = {}
        try:
            self._validator = jsonschema_rs.validator_for(body, retriever=_refuse, base_uri=_BASE)
            self._class = jsonschema_rs.validator_cls_for(body)
            self._registry = jsonschema_rs.Registry([(_BASE, body)], retriever=_refuse)
            self._efforts = _efforts(self.at("", body))
        except ValueError:
            return False
        if self.effort > MAX_EFFORT:
            raise SchemaError("`parameters` contain too many nested alternatives")
        return True

    @property
    def effort(self) -> int:
        """The number of checks that one value may need."""
        return self.effort_at("")

    def effort_at(self, pointer: str) -> int:
        """Return the number of checks that one value may need in the schema at `pointer`."""
        return self._efforts.get(pointer, 1)

    def validator(self, pointer: str) -> jsonschema_rs.Validator:
        if not pointer:
            return self._validator
        fragment = "".join(f"%{byte:02X}" if byte != _SLASH else "/" for byte in pointer.encode())
        return self._class({"$ref": f"{_BASE}#{fragment}"}, registry=self._registry, retriever=_refuse)

    def satisfies(self, keyword: str, operand: JSONValue, value: JSONValue) -> bool:
        try:
            return self._class({keyword: operand}, retriever=_refuse).is_valid(value)
        except ValueError:  # the keyword is meaningless without its siblings
            return True

    def at(self, pointer: str, schema: JSONValue) -> Subschema:
        node = self._nodes.get(pointer)
        if node is None:
            node = self._nodes[pointer] = Subschema(self, pointer, schema)
        return node

    def resolve(self, reference: JSONValue) -> Subschema | None:
        """Return the target of a local reference, or `None` if it cannot be resolved."""
        if not str(reference).startswith("#"):
            return None
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
    """Retriever for jsonschema-rs that never fetches anything, because schemas from clients could cause SSRF."""
    raise ValueError(f"reference to another document: `{shorten(uri)}`")


def _check_depth(schema: JSONValue) -> None:
    """Raise `SchemaError` for excessive depth."""
    stack: list[tuple[JSONValue, int]] = [(schema, 1)]
    while stack:
        part, depth = stack.pop()
        if depth > MAX_DEPTH and isinstance(part, dict | list):
            raise SchemaError(f"`parameters` are nested deeper than {MAX_DEPTH} levels")
        children: list[JSONValue] = [*part.values()] if is_object(part) else part if is_array(part) else []
        stack += [(each, depth + 1) for each in children]


def _anchors(schema: JSONValue) -> Iterator[tuple[str, str]]:
    """Yield every anchor with its pointer."""
    stack: list[tuple[str, JSONValue]] = [("", schema)]
    while stack:
        pointer, part = stack.pop()
        if is_array(part):
            stack += [(f"{pointer}/{index}", each) for index, each in enumerate(part)]
        elif is_object(part):
            yield from ((part[word], pointer) for word in _ANCHORS if isinstance(part.get(word), str))
            stack += [(f"{pointer}/{_escape(key)}", value) for key, value in part.items() if key not in _DATA]


@bounded_cache(_MAX_PATTERN_BYTES)
def _pattern(pattern: str) -> jsonschema_rs.Validator | None:
    try:
        return jsonschema_rs.validator_for({"pattern": pattern}, retriever=_refuse)
    except ValueError:  # an invalid pattern in a place that the validator ignores
        return None


def _matches(pattern: str, name: str) -> bool:
    validator = _pattern(pattern)
    return validator is not None and validator.is_valid(name)


def _reach(start: Subschema, step: Callable[[Subschema], Iterable[Subschema]]) -> tuple[Subschema, ...]:
    """Return all schemas that are reachable from `start`, each once, breadth first."""
    pointers = {start.pointer}
    queue = [start]
    for node in queue:
        for each in step(node):
            if each.pointer not in pointers:
                pointers.add(each.pointer)
                queue.append(each)
    return tuple(queue)


_Groups: TypeAlias = tuple[Sequence[Subschema], ...]


def _efforts(root: Subschema) -> dict[str, int]:
    """Return how many checks one value may need in each schema, by pointer.

    Alternatives add up, but only the most expensive property counts.
    Circular references do not count, because the validator caches their results.
    """
    efforts: dict[str, int] = {}
    stack: list[tuple[Subschema, _Groups | None]] = [(root, None)]
    while stack:
        node, groups = stack.pop()
        if groups is not None:
            largest = (max((efforts[each.pointer] for each in group), default=0) for group in groups[1:])
            efforts[node.pointer] = 1 + sum(efforts[each.pointer] for each in groups[0]) + sum(largest)
        elif node.pointer not in efforts:
            efforts[node.pointer] = 1
            in_place = (*node.members, *node.branches, *node.parts("not", "dependencies", *_CONDITIONS))
            fresh: _Groups = (in_place, *(node.parts(keyword) for keyword in _INSIDE))
            stack.append((node, fresh))
            stack += [(each, None) for group in fresh for each in group]
    return efforts


def _allowed_types(node: Subschema, cache: dict[str, frozenset[str]], depth: int) -> frozenset[str]:
    """Return the types that keywords, references, `allOf` and alternatives allow. A cycle or long chain allows any."""
    if node.pointer in cache or depth > MAX_DEPTH:
        return cache.get(node.pointer, ANY)
    cache[node.pointer] = ANY
    parts = [node.own_types, *(_allowed_types(each, cache, depth + 1) for each in node.members)]
    parts.append(join_all([_allowed_types(each, cache, depth + 1) for each in node.branches]))
    cache[node.pointer] = meet_all(parts)
    return cache[node.pointer]


def meet_all(parts: Iterable[frozenset[str]]) -> frozenset[str]:
    """Return the types that all parts allow. An empty part means any type."""
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
    """Return the types that at least one part allows. An empty part means any type, and so does an empty list."""
    return ANY.union(*parts) if all(parts) else ANY


def _escape(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1")


def shorten(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= MAX_MESSAGE_CHARS else f"{line[:MAX_MESSAGE_CHARS]}…"
