"""Shapes as JSON schemas: the plain kind that local servers enforce, and the strict kind of OpenAI.

Both use only the keywords that are documented for every engine: an engine that meets another one answers with an
error or ignores it, and neither may happen. Strict schemas know no optional property, so that one becomes nullable,
and no object with free keys, so that one becomes JSON in a string. Whoever reads the arguments (`alignment`) takes
both back for every model, whether it was asked so or not.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from ...core.types import JSONObject, JSONValue, Note
from .gbnf import ANY_DEPTH
from .shapes import NULL, AnyValue, Array, Fixed, Ledger, Member, Number, Object, Shape, Text, Union, shape_of

#: A larger bound made some releases of llama.cpp refuse the whole schema, and is no bound at all in later ones. Nor is
#: a string bounded that the caller did not bound: a smaller bound would cut the files that tools write, and one engine
#: takes hundreds of times longer for every token behind any. Arrays always are; what never ends is ended by the token
#: limit, and read as cut off.
MAX_LENGTH_BOUND = 1_999
#: Formats that every engine knows, and those of strict mode.
_FORMATS = frozenset({"date", "date-time", "time", "uuid"})
_STRICT_FORMATS = _FORMATS | {"duration", "email", "hostname", "ipv4", "ipv6"}
#: Limits of strict mode, as documented: object levels, properties, enumerated values, characters of all names and
#: enumerated values.
MAX_LEVELS, MAX_PROPERTIES, MAX_ENUM_VALUES, MAX_NAME_CHARS = 10, 5_000, 1_000, 120_000
#: Characters that patterns of all engines agree on. Anchors must stand at both ends, groups and classes are plain.
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


class Plain:
    """Writes a shape as a plain JSON schema."""

    formats = _FORMATS

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def write(self, shape: Shape, where: str, level: int = 0) -> JSONObject:
        """The schema of a shape. `level` counts the objects around it."""
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
        """Any value, nested a few levels: a plain `true` would let a model nest for ever."""
        shape: Shape = _SCALARS
        for _ in range(ANY_DEPTH):
            shape = Union((*_SCALARS.options, Array(shape), Object(extra=shape)))
        return self.write(shape, where, level)

    def fixed(self, shape: Fixed) -> JSONObject:
        # Twice the same says nothing more, and strict mode refuses it. True is not 1, whatever Python thinks.
        values = list({(isinstance(value, bool), value): value for value in shape.values}.values())
        kinds = {_KINDS[type(value)] for value in values}
        if kinds == {"boolean"} and len(values) == 2:
            return {"type": "boolean"}
        if kinds == {"null"}:
            return {"type": "null"}
        return {"type": kinds.pop(), "enum": values} if len(kinds) == 1 else {"enum": values}

    def text(self, shape: Text, where: str) -> JSONObject:
        schema: JSONObject = {"type": "string", **self.lengths(shape, where)}
        if shape.pattern and _portable(shape.pattern):
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
            # Few engines know `prefixItems`, so each place may hold what any of them may.
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
    """A schema is too large for strict mode."""


class _Strict(Plain):
    """Writes a shape as a schema that OpenAI's strict mode takes; raises `_OverLimit` where it is too large."""

    formats = _STRICT_FORMATS

    def __init__(self, ledger: Ledger, levels: int) -> None:
        super().__init__(ledger)
        #: Objects that must stay objects: the frame around what the caller described.
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
        for word, given in (("minLength", shape.low), ("maxLength", shape.high)):
            if given:
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
        self.ledger.add("object_as_text", f"`{where}` is written as JSON in a string")
        return {"type": "string", "description": _AS_TEXT}

    def member(self, member: Member, where: str, level: int) -> JSONObject:
        schema = super().member(member, where, level)
        return schema if member.required or _takes_null(member.shape) else {"anyOf": [schema, {"type": "null"}]}

    def _count(self, *more: int) -> None:
        properties, values, chars = self._used = tuple(map(sum, zip(self._used, more, strict=True)))
        if properties > MAX_PROPERTIES or values > MAX_ENUM_VALUES or chars > MAX_NAME_CHARS:
            raise _OverLimit


_KINDS: dict[type, str] = {str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}


def _portable(pattern: str) -> bool:
    return pattern[:1] == "^" and pattern[-1:] == "$" and _PATTERN_CHARS.issuperset(pattern[1:-1])


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
    """The schema of a shape for servers that compile it to a grammar."""
    return Plain(ledger).write(shape, where)


def strict(shape: Shape, where: str, ledger: Ledger, levels: int = 1) -> JSONObject | None:
    """The schema of a shape for strict mode, or `None`, with a note, if it cannot have one.

    The outermost `levels` of objects are kept whatever it costs; what is inside may become JSON in a string.
    """
    if not isinstance(shape, Object) or (shape.extra is not None and not shape.members):
        ledger.add("not_strict", f"`{where}` is not strict: that needs an object with known properties")
        return None
    try:
        return _Strict(ledger, levels).write(shape, where)
    except _OverLimit:
        ledger.add("not_strict", f"`{where}` is not strict: its schema is too large")
        return None


def strict_schema(schema: JSONValue) -> tuple[JSONValue, tuple[Note, ...]]:
    """A tool's parameters for OpenAI's strict mode, and what that could not say.

    Optional properties become nullable; the nulls are taken out when the arguments are read. With the note
    `not_strict` the schema comes back as it was, and must not be sent as strict.
    """
    ledger = Ledger()
    found = strict(shape_of(schema, "arguments", ledger), "arguments", ledger)
    return schema if found is None else found, ledger.all()
