"""Compiled JSON schema of a tool's arguments: validation, coercion, and which values may be streamed early.

Schemas come from clients and are not trusted. Their size is limited here, everything else in `subschema`. Valid
arguments are never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from ...errors import SchemaError
from ..types import MAX_SCHEMA_BYTES, JSONValue, Note
from .coercion import coerce
from .json_values import ParseText, Path, fold_key, strict_json, unusable_reason
from .subschema import ANY, OBJECT, SchemaDocument, Subschema, join_all, meet_all, shorten
from .validation_errors import explain
from .work_limit import TOO_EXPENSIVE, UNEXPLAINED, WorkLimit

#: Number of compiled schemas to cache: enough for twenty agents with twenty-five tools each. Only a few
#: large schemas are cached, so that the sources of all cached schemas stay below 20 MiB.
CACHED_SCHEMAS = 512
CACHED_LARGE_SCHEMAS = 16
LARGE_SCHEMA_BYTES = 32 * 1024
#: Maximum number of problems to report.
MAX_PROBLEMS = 5

#: Keywords other than `properties` with which a root schema can constrain a property.
_CONSTRAINS_PROPERTIES = frozenset(
    "$ref $dynamicRef $recursiveRef allOf anyOf oneOf not if then else const enum patternProperties propertyNames "
    "dependencies dependentRequired dependentSchemas extends disallow".split()
)
#: Keywords other than `type` with which a schema can constrain a string.
_CONSTRAINS_TEXT = frozenset(
    "$dynamicRef $recursiveRef allOf anyOf oneOf not if then else const enum pattern format minLength maxLength "
    "contentEncoding contentMediaType contentSchema extends disallow".split()
)
_TEXT = frozenset({"string"})


class CoercionResult(msgspec.Struct, frozen=True):
    """Coerced arguments, notes on the changes, and the remaining problems. No problems: the arguments are valid."""

    value: JSONValue
    notes: tuple[Note, ...] = ()
    problems: tuple[str, ...] = ()


class ArgumentSchema:
    """The compiled schema of one tool's arguments. It is shared between callers and must not be changed."""

    def __init__(self, parameters: JSONValue) -> None:
        """Compile a schema. Prefer `ArgumentSchema.of`, which uses a cache."""
        self.parameters = parameters
        document = SchemaDocument({"type": "object"} if parameters is None else parameters)
        plain = document.at("", document.body)
        #: Arguments are an object unless the schema clearly says otherwise.
        self._root = Subschema(document, "", document.body, object_only=plain.allowed_types <= OBJECT)
        #: Whether each property is validated on its own, so that it can be streamed before the others are known.
        self.piecewise = self._root.object_only and _CONSTRAINS_PROPERTIES.isdisjoint(plain.body)
        #: Properties whose string value may be streamed as it arrives. `None` (no schema): all strings may be streamed.
        self.streamable_strings = None if parameters is None else _streamable_strings(plain) if self.piecewise else ANY
        #: The top-level properties in declaration order.
        self.names = tuple(self._root.names)
        self._effort = document.effort
        self._property_types: dict[str, frozenset[str]] = {}  # filled on demand
        self._required = frozenset(fold_key(name) for node in self._root.in_place for name in node.required)

    @staticmethod
    def of(parameters: JSONValue) -> ArgumentSchema:
        """Return the compiled schema of `parameters` from a cache. `None` accepts any object.

        Raises:
            SchemaError: the schema is invalid, too large or too deeply nested, or refers to another document.
        """
        if parameters is not None and not isinstance(parameters, bool | dict):
            raise SchemaError(f"`parameters` must be a JSON schema, not `{type(parameters).__name__}`")
        try:
            # Keep the order of the keys: positional arguments follow the order of the properties.
            source = msgspec.json.encode(parameters)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise SchemaError(f"`parameters` cannot be encoded as JSON: {shorten(str(error))}") from error
        if len(source) > MAX_SCHEMA_BYTES:
            raise SchemaError(
                f"`parameters` are too large: {len(source)} bytes (limit: {MAX_SCHEMA_BYTES})",
                hint="shorten the descriptions or split the tool into several",
            )
        return _compiled_large(source) if len(source) > LARGE_SCHEMA_BYTES else _compiled(source)

    def declares(self, name: str) -> bool:
        """Whether the schema declares a top-level property with this name."""
        return name in self._root.names

    def forbids(self, name: str) -> bool:
        """Whether a top-level property is not allowed, or may be a misspelling of a required one."""
        if self._root.declares(name):
            return self._root.forbids(name)
        return fold_key(name) in self._required or any(node.forbids(name) for node in self._root.in_place)

    def drops_null(self, name: str) -> bool:
        """Whether null is dropped for this top-level property, because it is optional and not nullable."""
        return self._root.bars_null(name) and not self._root.requires(name)

    def property_types(self, name: str) -> frozenset[str]:
        """Return the JSON types that a top-level property may have. Empty: unknown or any."""
        if not self.declares(name):
            return ANY
        types = self._property_types.get(name)
        if types is None:
            types = self._property_types[name] = self._compute_types(name)
        return types

    def _compute_types(self, name: str) -> frozenset[str]:
        certain = [node.prop(name).allowed_types for node in self._root.conjuncts if name in node.table("properties")]
        possible = [node.prop(name).allowed_types for node in self._root.in_place if name in node.table("properties")]
        return meet_all(certain) if certain else join_all(possible)

    def accepts(self, arguments: JSONValue, work: WorkLimit | None = None) -> bool:
        """Whether the arguments are valid. Faster than `problems`. `work`: see `coerce`."""
        return not self._unusable(arguments, work) and self._root.accepts(arguments)

    def problems(
        self, arguments: JSONValue, limit: int = MAX_PROBLEMS, work: WorkLimit | None = None
    ) -> tuple[str, ...]:
        """Return what is wrong with the arguments, as at most `limit` short sentences. Empty: they are valid."""
        reason = self._unusable(arguments, work)
        if reason:
            return (reason,)
        if self._root.accepts(arguments):
            return ()
        return _explained(self._root, arguments, limit) if work is None or work.explains else (UNEXPLAINED,)

    def coerce(
        self, arguments: JSONValue, parse_text: ParseText = strict_json, work: WorkLimit | None = None
    ) -> CoercionResult:
        """Change the arguments as little as possible to make them valid. Valid arguments are returned unchanged.

        `parse_text` parses JSON inside a string; it returns a value or raises `ValueError`. `work` limits the work for
        all arguments of an answer.
        """
        value, notes = self._coerce((self._root,), arguments, parse_text, (), work)
        return CoercionResult(value, notes, self.problems(value, work=work))

    def coerce_property(
        self, name: str, value: JSONValue, parse_text: ParseText = strict_json, work: WorkLimit | None = None
    ) -> tuple[JSONValue, tuple[Note, ...]]:
        """Coerce the value of one top-level property on its own. Returns it and notes on the changes."""
        return self._coerce(self._root.slots(name), value, parse_text, (name,), work)

    def charge(self, arguments: JSONValue, work: WorkLimit) -> None:
        """Count the work of validating these arguments."""
        work.charge(self._effort, arguments)

    def _coerce(
        self, nodes: Sequence[Subschema], value: JSONValue, parse: ParseText, path: Path, work: WorkLimit | None
    ) -> tuple[JSONValue, tuple[Note, ...]]:
        if self._unusable(value, work) or _accept(nodes, value):
            return value, ()
        return coerce(nodes, value, parse, path, work)

    def _unusable(self, value: JSONValue, work: WorkLimit | None) -> str:
        """Return why a value cannot be validated at all. Empty: it can be validated."""
        reason = unusable_reason(value)
        return reason or ("" if work is None or work.allows(self._effort, value) else TOO_EXPENSIVE)


def _accept(nodes: Sequence[Subschema], value: JSONValue) -> bool:
    """Whether all schemas accept the value. A plain loop is fastest, because most values have only one schema."""
    for node in nodes:  # noqa: SIM110
        if not node.accepts(value):
            return False
    return True


def _explained(root: Subschema, value: JSONValue, limit: int) -> tuple[str, ...]:
    sentences: dict[str, None] = {}
    for sentence in explain((root,), value, ()):
        sentences[sentence] = None
        if len(sentences) >= limit:
            break
    return tuple(sentences)


@lru_cache(CACHED_SCHEMAS)
def _compiled(source: bytes) -> ArgumentSchema:
    return ArgumentSchema(msgspec.json.decode(source))


@lru_cache(CACHED_LARGE_SCHEMAS)
def _compiled_large(source: bytes) -> ArgumentSchema:
    return ArgumentSchema(msgspec.json.decode(source))


def _streamable_strings(root: Subschema) -> frozenset[str]:
    return frozenset(name for name in root.table("properties") if _is_plain_text(root.prop(name)))


def _is_plain_text(node: Subschema) -> bool:
    """Whether the schema requires a string and has no further constraints."""
    chain = node.conjuncts
    return (
        all(_CONSTRAINS_TEXT.isdisjoint(each.body) for each in chain) and meet_all(n.own_types for n in chain) == _TEXT
    )
