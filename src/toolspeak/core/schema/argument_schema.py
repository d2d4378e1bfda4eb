"""Compiled JSON schema of a tool's arguments: validation, coercion, and which values may be streamed early.

Schemas come from clients and are not trusted. Their size is limited here, everything else in `subschema`. Valid
arguments are never changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import msgspec

from ...errors import SchemaError
from ..bounded_cache import bounded_cache
from ..types import MAX_SCHEMA_BYTES, JSONValue, Note
from .coercion import MAX_TRIES, MAX_TRIES_PER_VALUE, coerce
from .json_values import ParseText, Path, fold_key, strict_json, unusable_reason
from .relaxation import describe
from .streaming import CONSTRAINS_PROPERTIES, streams_items, streams_members, target, text_delay
from .subschema import ANY, OBJECT, SchemaDocument, Subschema, join_all, meet_all, shorten
from .validation_errors import explain
from .work_limit import TOO_EXPENSIVE, UNEXPLAINED, WorkLimit

#: Maximum size of the sources of all cached schemas: enough for twenty agents with twenty-five tools each.
MAX_CACHED_BYTES = 2 * 1024 * 1024
#: Maximum number of problems to report.
MAX_PROBLEMS = 5
#: Maximum number of places in a note on a schema.
MAX_CHANGES = 5


class CoercionResult(msgspec.Struct, frozen=True):
    """Coerced arguments, notes on the changes, and the remaining problems. No problems: the arguments are valid."""

    value: JSONValue
    notes: tuple[Note, ...] = ()
    problems: tuple[str, ...] = ()


class ArgumentSchema:
    """The compiled schema of one tool's arguments. It is shared between callers and must not be changed."""

    def __init__(self, parameters: JSONValue, *, any_value: bool = False) -> None:
        """Compile a schema. Prefer `ArgumentSchema.of`, which uses a cache."""
        self.parameters = parameters
        is_list = parameters == []  # an empty object, as PHP writes it
        if is_list:
            self.parameters = parameters = None
        document = SchemaDocument({"type": "object"} if parameters is None else parameters)
        #: The schema in use: `parameters`, or what is left of them if they are not a valid JSON schema.
        self.schema: JSONValue = None if parameters is None else document.body
        #: A note that names what in the schema was translated or ignored.
        self.notes: tuple[Note, ...] = ()
        if document.changes:
            places = describe(document.changes, MAX_CHANGES)
            self.notes = (Note("schema_relaxed", f"not valid in draft 2020-12, translated or ignored: {places}"),)
        if is_list:
            self.notes = (Note("schema_relaxed", "an empty list was treated as no schema"),)
        plain = document.at("", document.body)
        #: Arguments are an object unless the schema clearly says otherwise.
        object_only = plain.allowed_types <= OBJECT and not any_value
        self._root = Subschema(document, "", document.body, object_only=object_only)
        self._any_value = any_value
        #: Whether each property is validated on its own, so that it can be streamed before the others are known.
        self.piecewise = self._root.object_only and CONSTRAINS_PROPERTIES.isdisjoint(plain.body)
        self._effort = document.effort
        #: The arguments as a whole, as a value.
        self.value = ValueSchema((self._root,), self._effort)
        #: The top-level properties in declaration order.
        self.names = tuple(self._root.names)
        self._property_types: dict[str, frozenset[str]] = {}  # filled on demand

    @staticmethod
    def of(parameters: JSONValue, *, any_value: bool = False) -> ArgumentSchema:
        """Return the compiled schema of `parameters` from a cache. `None` accepts any object.

        `any_value`: the schema is that of an answer, which may be any JSON value. Raises SchemaError if `parameters`
        are not a schema at all, or too large, too deeply nested or too complex.
        """
        if parameters is not None and not isinstance(parameters, bool | dict) and parameters != []:
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
        return _compile(source, any_value)

    def declares(self, name: str) -> bool:
        """Whether the schema declares a top-level property with this name."""
        return name in self._root.names

    def meant(self, name: str) -> str:
        """Return the declared property that a name means: itself, or the only one in another spelling."""
        return name if self.declares(name) else self._spellings.get(fold_key(name), name)

    @cached_property
    def _spellings(self) -> dict[str, str]:
        names = Counter(map(fold_key, self.names))
        return {folded: name for name in self.names if names[folded := fold_key(name)] == 1}

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
        return not self.value.unusable_reason(arguments, work) and self._root.accepts(arguments)

    def problems(
        self, arguments: JSONValue, limit: int = MAX_PROBLEMS, work: WorkLimit | None = None
    ) -> tuple[str, ...]:
        """Return what is wrong with the arguments, as at most `limit` short sentences. Empty: they are valid."""
        reason = self.value.unusable_reason(arguments, work)
        if reason:
            return (reason,)
        if self._root.accepts(arguments):
            return ()
        return explain(self._root, arguments, limit) if work is None or work.explains else (UNEXPLAINED,)

    def coerce(
        self, arguments: JSONValue, parse_text: ParseText = strict_json, work: WorkLimit | None = None
    ) -> CoercionResult:
        """Change the arguments as little as possible to make them valid. Valid arguments are returned unchanged.

        `parse_text` parses JSON inside a string; it returns a value or raises `ValueError`. `work` limits the work for
        all arguments of an answer.
        """
        value, notes = self.value.coerce(arguments, (), parse_text, work)
        if self._any_value and any(note.code == "null_arguments" for note in notes):
            value, notes = arguments, ()  # no arguments are empty ones, but no answer is none
        return CoercionResult(value, notes, self.problems(value, work=work))

    def charge(self, arguments: JSONValue, work: WorkLimit) -> int:
        """Count the work of validating these arguments, or a part of them. Returns the number of checks."""
        return work.charge(self._effort, arguments)


class ValueSchema:
    """The schemas of one value, and which parts of the value may be streamed before it is complete."""

    def __init__(self, nodes: Sequence[Subschema], effort: int, tries: int = MAX_TRIES) -> None:
        self._nodes = nodes
        self._effort = effort  # number of checks that one value may need, in the whole arguments
        self._tries = tries  # number of schemas that one coercion may try
        self._members: dict[str, ValueSchema] = {}  # filled on demand, for declared properties only
        self._items: dict[int, ValueSchema] = {}  # filled on demand; all items without schemas of their own share one

    @cached_property
    def text_delay(self) -> int | None:
        """Number of characters after which a string can no longer change. None: it may change up to its end."""
        return text_delay(self._nodes)

    @cached_property
    def _targets(self) -> list[Subschema]:
        return [target(node) for node in self._nodes]

    @cached_property
    def streams_items(self) -> bool:
        """Whether the items of an array can be emitted one by one."""
        return all(map(streams_items, self._targets))

    @cached_property
    def streams_members(self) -> bool:
        """Whether the properties of an object can be emitted one by one."""
        return all(map(streams_members, self._targets))

    def item(self, index: int) -> ValueSchema:
        index = min(index, self._positional_items)
        known = self._items.get(index)
        if known is None:
            items = [item for node in self._targets if (item := node.item(index)) is not None]
            known = self._items[index] = ValueSchema(items, self._effort, MAX_TRIES_PER_VALUE)  # there may be many
        return known

    @cached_property
    def _positional_items(self) -> int:
        return max((node.positional_items for node in self._targets), default=0)

    def member(self, name: str) -> ValueSchema:
        known = self._members.get(name)
        if known is None:
            slots = [slot for node in self._targets for slot in node.slots(name)]
            known = ValueSchema(slots, self._effort, self._tries)
            if any(name in node.names for node in self._targets):
                self._members[name] = known
        return known

    @cached_property
    def _required(self) -> frozenset[str]:
        nodes = (each for node in self._targets for each in node.in_place)
        return frozenset(fold_key(name) for node in nodes for name in node.required)

    def forbids(self, name: str) -> bool:
        """Whether the property `name` is not allowed, or may be a misspelling of a required one."""
        if any(node.declares(name) for node in self._targets):
            return any(node.forbids(name) for node in self._targets)
        return fold_key(name) in self._required or any(
            each.forbids(name) for node in self._targets for each in node.in_place
        )

    def drops_null(self, name: str) -> bool:
        """Whether null is dropped for the property `name`, because it is optional and not nullable."""
        return any(node.bars_null(name) and not node.requires(name) for node in self._targets)

    def coerce(
        self, value: JSONValue, path: Path = (), parse_text: ParseText = strict_json, work: WorkLimit | None = None
    ) -> tuple[JSONValue, tuple[Note, ...]]:
        """Change the value as little as possible to make it valid. Returns it and notes on the changes.

        `path` is its position in the arguments.
        """
        gave_up = work is not None and not work.coerces
        if gave_up or self.unusable_reason(value, work) or _accept(self._nodes, value):
            return value, ()
        return coerce(self._nodes, value, parse_text, path, self._tries, work)

    def unusable_reason(self, value: JSONValue, work: WorkLimit | None) -> str:
        """Return why a value cannot be validated at all. Empty: it can be validated."""
        reason = unusable_reason(value)
        return reason or ("" if work is None or work.allows(self._effort, value) else TOO_EXPENSIVE)


def _accept(nodes: Sequence[Subschema], value: JSONValue) -> bool:
    """Whether all schemas accept the value. A plain loop is fastest, because most values have only one schema."""
    for node in nodes:  # noqa: SIM110
        if not node.accepts(value):
            return False
    return True


@bounded_cache(MAX_CACHED_BYTES)
def _compile(source: bytes, any_value: bool) -> ArgumentSchema:
    return ArgumentSchema(msgspec.json.decode(source), any_value=any_value)
