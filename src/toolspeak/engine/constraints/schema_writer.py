"""Write shapes as JSON schemas: plain ones for local servers, strict ones for OpenAI.

Only keywords that every inference engine documents are used. In strict schemas, optional properties become nullable,
and objects with arbitrary keys become strings that contain JSON. Argument coercion reverses both changes.
"""

from typing import assert_never

import msgspec

from ...core.types import JSONObject, JSONValue, Note
from .grammars import ANY_DEPTH
from .shapes import NULL, AnyValue, Array, Fixed, Ledger, Member, Number, Object, Shape, Text, Union, shape_of

#: Largest length bound in a schema: some releases of llama.cpp reject larger ones, others ignore them. Strings without
#: a bound stay unbounded, because a limit would truncate files that tools write and make one engine hundreds of times
#: slower. The token limit stops endless output. Arrays are always bounded.
MAX_LENGTH_BOUND = 1_999
#: String formats that every engine supports, and those that OpenAI's strict mode supports.
_FORMATS = frozenset({"date", "date-time", "time", "uuid"})
_STRICT_FORMATS = _FORMATS | {"duration", "email", "hostname", "ipv4", "ipv6"}
#: Documented limits of strict mode: nesting levels, properties, enum values, total length of names and enum values.
MAX_LEVELS, MAX_PROPERTIES, MAX_ENUM_VALUES, MAX_NAME_CHARS = 10, 5_000, 1_000, 120_000
#: Characters that mean the same in every engine's patterns. Portable patterns also have an anchor at each end.
_PATTERN_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-:/@,[]{}+*?.")
_LIMITS = (
    ("low", "minimum"),
    ("high", "maximum"),
    ("above", "exclusiveMinimum"),
    ("below", "exclusiveMaximum"),
    ("step", "multipleOf"),
)
_AS_TEXT = "A JSON object, written as text."
_SCALARS = Union((Text(), Number(), Fixed((True, False)), NULL))


class PlainSchemaWriter:
    formats = _FORMATS

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def write(self, shape: Shape, where: str, level: int = 0) -> JSONObject:
        """Return the schema of a shape. `level` is the number of enclosing objects."""
        schema = self._write(shape, where, level)
        return {**schema, "description": shape.about} if shape.about else schema

    def _write(self, shape: Shape, where: str, level: int) -> JSONObject:
        match shape:
            case AnyValue():
                return self.anything(where, level)
            case Fixed():
                return self.fixed(shape)
            case Text():
                return self.text(shape, where)
            case Number():
                kind = "integer" if shape.integer else "number"
                limits = {word: getattr(shape, name) for name, word in _LIMITS}
                return {"type": kind, **{word: limit for word, limit in limits.items() if limit is not None}}
            case Array():
                return self._array(shape, where, level)
            case Object():
                return self.object(shape, where, level + 1)
            case Union(options):
                return {"anyOf": [self.write(option, where, level) for option in options]}
            case _:
                assert_never(shape)

    def anything(self, where: str, level: int) -> JSONObject:
        """Return a schema for any value with limited nesting; the schema `true` would allow endless nesting."""
        shape: Shape = _SCALARS
        for _ in range(ANY_DEPTH):
            shape = Union((*_SCALARS.options, Array(shape), Object(extra=shape)))
        return self.write(shape, where, level)

    def fixed(self, shape: Fixed) -> JSONObject:
        # Remove duplicates, which strict mode rejects. In Python, unlike in JSON, True equals 1.
        values = list({(isinstance(value, bool), value): value for value in shape.values}.values())
        kinds = {_KINDS[type(value)] for value in values}
        if kinds == {"boolean"} and len(values) == 2:
            return {"type": "boolean"}
        if kinds == {"null"}:
            return {"type": "null"}
        return {"type": kinds.pop(), "enum": values} if len(kinds) == 1 else {"enum": values}

    def text(self, shape: Text, where: str) -> JSONObject:
        schema: JSONObject = {"type": "string", **self.lengths(shape, where)}
        is_anchored = shape.pattern[:1] == "^" and shape.pattern[-1:] == "$"
        if is_anchored and _PATTERN_CHARS.issuperset(shape.pattern[1:-1]):
            schema["pattern"] = shape.pattern
        elif shape.pattern:
            self.ledger.loosen("pattern", where)
        if shape.format in self.formats:
            schema["format"] = shape.format
        elif shape.format:
            self.ledger.loosen("format", where)
        return schema

    def lengths(self, shape: Text, where: str) -> JSONObject:
        schema: JSONObject = {"minLength": min(shape.low, MAX_LENGTH_BOUND)} if shape.low else {}
        if shape.high is not None and shape.high <= MAX_LENGTH_BOUND:
            schema["maxLength"] = shape.high
        elif shape.high is not None:
            self.ledger.loosen("maxLength", where)
        if shape.low > MAX_LENGTH_BOUND:
            self.ledger.loosen("minLength", where)
        return schema

    def _array(self, shape: Array, where: str, level: int) -> JSONObject:
        if shape.prefix:
            # Few engines support `prefixItems`, so every item may have the shape of any of these items.
            options = (*shape.prefix, *((shape.items,) if shape.high > len(shape.prefix) else ()))
            items: Shape = Union(tuple(dict.fromkeys(options))) if len(set(options)) > 1 else options[0]
            self.ledger.loosen("prefixItems", where)
        else:
            items = shape.items
        bounds = {"minItems": shape.low} if shape.low else {}
        return {"type": "array", "items": self.write(items, f"{where}[]", level), **bounds, "maxItems": shape.high}

    def object(self, shape: Object, where: str, level: int) -> JSONObject:
        schema: JSONObject = {"type": "object"}
        if shape.members or shape.extra is None:
            schema["properties"] = {each.name: self.member(each, where, level) for each in shape.members}
            schema["required"] = [each.name for each in shape.members if each.required]
        extra = False if shape.extra is None else self.write(shape.extra, f"{where}.*", level)
        return {**schema, "additionalProperties": extra}

    def member(self, member: Member, where: str, level: int) -> JSONObject:
        return self.write(member.shape, member.label or f"{where}.{member.name}", level)


class _OverLimit(Exception):
    """The schema is too large for strict mode."""


class _StrictSchemaWriter(PlainSchemaWriter):
    """Writer for OpenAI's strict mode. Raises `_OverLimit` if the schema is too large."""

    formats = _STRICT_FORMATS

    def __init__(self, ledger: Ledger, levels: int) -> None:
        super().__init__(ledger)
        #: Number of outer object levels that must stay objects, because they belong to the document itself.
        self._levels = levels
        self._used = (0, 0, 0)

    def anything(self, where: str, level: int) -> JSONObject:
        self.ledger.add("value_narrowed", f"`{where}` can only be text, a number, true, false or null")
        return self.write(_SCALARS, where, level)

    def fixed(self, shape: Fixed) -> JSONObject:
        schema = super().fixed(shape)
        self._count(0, len(shape.values), sum(len(value) for value in shape.values if isinstance(value, str)))
        return schema

    def lengths(self, shape: Text, where: str) -> JSONObject:
        for word, bound in (("minLength", shape.low), ("maxLength", shape.high)):
            if bound:
                self.ledger.loosen(word, where)
        return {}

    def object(self, shape: Object, where: str, level: int) -> JSONObject:
        if level > MAX_LEVELS or (shape.extra is not None and not shape.members):
            return self._as_text(where)
        if shape.extra is not None:
            self.ledger.add("keys_closed", f"`{where}` can only have its declared keys")
        before = self._used
        try:
            self._count(len(shape.members), 0, sum(len(each.name) for each in shape.members))
            closed = super().object(msgspec.structs.replace(shape, extra=None), where, level)
        except _OverLimit:
            if level <= self._levels:
                raise
            self._used = before
            return self._as_text(where)
        return {**closed, "required": [each.name for each in shape.members]}

    def _as_text(self, where: str) -> JSONObject:
        self.ledger.add("object_as_text", f"`{where}` is sent as a string that contains JSON")
        return {"type": "string", "description": _AS_TEXT}

    def member(self, member: Member, where: str, level: int) -> JSONObject:
        schema = super().member(member, where, level)
        return schema if member.required or _takes_null(member.shape) else {"anyOf": [schema, {"type": "null"}]}

    def _count(self, *more: int) -> None:
        properties, values, chars = self._used = tuple(map(sum, zip(self._used, more, strict=True)))
        if properties > MAX_PROPERTIES or values > MAX_ENUM_VALUES or chars > MAX_NAME_CHARS:
            raise _OverLimit


_KINDS: dict[type, str] = {str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}


def _takes_null(shape: Shape) -> bool:
    match shape:
        case AnyValue():
            return True
        case Fixed(values):
            return None in values
        case Union(options):
            return any(map(_takes_null, options))
        case _:
            return False


def plain(shape: Shape, where: str, ledger: Ledger) -> JSONObject:
    """Return the plain schema of a shape, for servers that compile schemas to grammars."""
    return PlainSchemaWriter(ledger).write(shape, where)


def strict(shape: Shape, where: str, ledger: Ledger, levels: int = 1) -> JSONObject | None:
    """Return the strict schema of a shape, or None, with a note, if strict mode cannot express it.

    The outermost `levels` of objects stay objects; deeper ones may become strings that contain JSON.
    """
    if not isinstance(shape, Object) or (shape.extra is not None and not shape.members):
        ledger.add("not_strict", f"`{where}` is not strict: strict mode requires an object with declared properties")
        return None
    try:
        return _StrictSchemaWriter(ledger, levels).write(shape, where)
    except _OverLimit:
        ledger.add("not_strict", f"`{where}` is not strict: its schema is too large")
        return None


def strict_schema(schema: JSONValue) -> tuple[JSONValue, tuple[Note, ...]]:
    """Convert a tool's parameters for OpenAI's strict mode; return them with notes on what it cannot express.

    Optional properties become nullable; coercion later removes the nulls. If there is a note `not_strict`, the schema
    is unchanged and must not be sent as strict.
    """
    ledger = Ledger()
    result = strict(shape_of(schema, "arguments", ledger), "arguments", ledger)
    return schema if result is None else result, ledger.all()
