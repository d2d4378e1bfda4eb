"""A tool's `parameters`, compiled once: what is allowed, what is wrong with a value, what may be streamed.

A schema comes from a client: its size is bounded here, the rest in `subschema`. The scanner and every dialect sit above
this module; below it are `alignment` (which repairs values), `problems` (which says what is wrong) and `subschema`
(which knows the keywords). Nothing here does IO, and no value that is already valid is ever changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from ...errors import SchemaError
from ..types import MAX_SCHEMA_BYTES, JSONValue, Note
from .coercion import align
from .json_values import ParseText, fault, fold_key, strict_json
from .subschema import ANY, OBJECT, Document, Subschema, cut, join_all, meet_all
from .validation_errors import explain

#: Compiled schemas kept: some twenty agents with twenty-five tools each. Large ones get few places, so that the
#: sources kept stay below 20 MiB in all whatever clients send.
CACHED_SCHEMAS = 512
CACHED_LARGE_SCHEMAS = 16
LARGE_SCHEMA_BYTES = 32 * 1024
#: So many sentences about what is wrong say enough.
MAX_PROBLEMS = 5

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
_TEXT = frozenset({"string"})


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
        document = Document({"type": "object"} if parameters is None else parameters)
        plain = document.at("", document.body)
        #: Arguments are an object unless the schema plainly says something else.
        self._root = Subschema(document, "", document.body, object_only=plain.wanted <= OBJECT)
        #: Whether each property is judged for itself, so that one may be sent before the others are known.
        self.piecewise = self._root.object_only and _JUDGES_MEMBERS.isdisjoint(plain.body)
        #: Properties whose value may be streamed as it comes; `None`: no schema was given, every value may.
        self.live_strings = None if parameters is None else _live_strings(plain) if self.piecewise else ANY
        #: The top-level properties, in the order in which they are declared.
        self.names = tuple(self._root.names)
        self._wanted: dict[str, frozenset[str]] = {}  # what has been asked before
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
            raise SchemaError(f"`parameters` are not JSON: {cut(str(error))}") from error
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

    def drops_null(self, name: str) -> bool:
        """Whether null for this top-level property means nothing: it is optional and must not be null."""
        return self._root.bars_null(name) and not self._root.requires(name)

    def wants(self, name: str) -> frozenset[str]:
        """The JSON types a top-level property may have; empty: unknown, or anything."""
        if not self.knows(name):
            return ANY
        wanted = self._wanted.get(name)
        if wanted is None:
            wanted = self._wanted[name] = self._types_of(name)
        return wanted

    def _types_of(self, name: str) -> frozenset[str]:
        certain = [node.prop(name).wanted for node in self._root.conjuncts if name in node.table("properties")]
        possible = [node.prop(name).wanted for node in self._root.in_place if name in node.table("properties")]
        return meet_all(certain) if certain else join_all(possible)

    def property_schema(self, name: str) -> JSONValue | None:
        """The schema of a top-level property, with a local `$ref` replaced by what it refers to."""
        for node in self._root.in_place:
            if name in node.table("properties"):
                return node.prop(name).inlined
        return None

    def accepts(self, arguments: JSONValue) -> bool:
        """Whether nothing is wrong with the arguments; sooner known than what is."""
        return not fault(arguments) and self._root.accepts(arguments)

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


@lru_cache(CACHED_SCHEMAS)
def _compiled(source: bytes) -> ArgumentSchema:
    return ArgumentSchema(msgspec.json.decode(source))


@lru_cache(CACHED_LARGE_SCHEMAS)
def _compiled_large(source: bytes) -> ArgumentSchema:
    return ArgumentSchema(msgspec.json.decode(source))


def _live_strings(root: Subschema) -> frozenset[str]:
    return frozenset(name for name in root.table("properties") if _is_plain_text(root.prop(name)))


def _is_plain_text(node: Subschema) -> bool:
    """Whether the schema asks for a string and for nothing else."""
    chain = node.conjuncts
    return all(_JUDGES_TEXT.isdisjoint(each.body) for each in chain) and meet_all(n.types for n in chain) == _TEXT
