"""How a value that a model wrote almost right may be read: one row of `RULES` for each way, and what it proposes.

A rule only proposes; `alignment` keeps what makes the value fit. Nothing here reads JSON schema keywords.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..types import JSONValue, is_array, is_object
from .json_values import ParseText, fault, fold, json_text, suits
from .subschema import Subschema

#: Longest text read as a number; a double needs at most 24 characters, a UUID as an integer 39.
MAX_NUMBER_CHARS = 64
#: Largest integer that a double holds exactly (RFC 8259, section 6).
MAX_EXACT = 2**53

_NUMERIC = frozenset({"integer", "number"})
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": True, "false": False}
#: Names by which XML and its imitations wrap a single item.
_WRAPPERS = frozenset({"item", "element", "value", "entry"})


class Case(NamedTuple):
    """A value that does not fit, and what is wanted in its place."""

    value: JSONValue
    node: Subschema
    #: The types wanted, at least one.
    wanted: frozenset[str]
    root: bool
    parse: ParseText

    @property
    def text(self) -> str | None:
        """The value if it is a string where no string is wanted."""
        return self.value if isinstance(self.value, str) and "string" not in self.wanted else None


def _null_arguments(case: Case) -> Iterator[JSONValue]:
    missing = case.value is None or (isinstance(case.value, str) and not case.value.strip())
    if case.root and missing and "object" in case.wanted:
        yield {}


def _string_to_null(case: Case) -> Iterator[JSONValue]:
    if case.text is not None and "null" in case.wanted and case.text.strip() in ("null", "None"):
        yield None


def _string_to_boolean(case: Case) -> Iterator[JSONValue]:
    if case.text is not None and "boolean" in case.wanted:
        word = case.text.strip().casefold()
        yield from (_BOOLEANS[word],) if word in _BOOLEANS else ()


def _string_to_number(case: Case) -> Iterator[JSONValue]:
    if case.text is not None and case.wanted & _NUMERIC:
        number = _number(case.text, whole="number" not in case.wanted)
        yield from () if number is None else (number,)


def _number(text: str, *, whole: bool) -> int | float | None:
    text = text.strip()
    if len(text) > MAX_NUMBER_CHARS or not _NUMBER.fullmatch(text):
        return None
    if text.lstrip("+-").isdecimal():
        return int(text)
    number = float(text)
    if not whole:
        return number if math.isfinite(number) else None
    return int(number) if number.is_integer() and abs(number) <= MAX_EXACT else None


def _integral_float(case: Case) -> Iterator[JSONValue]:
    whole = isinstance(case.value, float) and case.value.is_integer() and abs(case.value) <= MAX_EXACT
    if whole and "integer" in case.wanted and "number" not in case.wanted:
        yield int(case.value)


def _json_in_string(case: Case) -> Iterator[JSONValue]:
    if case.text is None or not case.wanted & {"object", "array"} or case.text.lstrip()[:1] not in ("{", "[", '"'):
        return
    try:
        parsed = case.parse(case.text)
    except ValueError:
        return
    if isinstance(parsed, dict | list | str) and parsed != case.text and not fault(parsed):
        yield parsed


def _enum_case(case: Case) -> Iterator[JSONValue]:
    if isinstance(case.value, str):
        meant = case.node.choices.get(fold(case.value), [])
        yield from meant if len(meant) == 1 and meant[0] != case.value else ()


def _number_to_string(case: Case) -> Iterator[JSONValue]:
    if isinstance(case.value, int | float) and "string" in case.wanted and not suits(case.value, case.wanted):
        yield json_text(case.value)


def _array_of_one(case: Case) -> Iterator[JSONValue]:
    if is_array(case.value) and len(case.value) == 1 and "array" not in case.wanted:
        yield case.value[0]


def _indexed_object(case: Case) -> Iterator[JSONValue]:
    if not is_object(case.value) or not case.value or "object" in case.wanted:
        return
    key, inner = next(iter(case.value.items()))
    alone = len(case.value) == 1
    if "array" not in case.wanted:
        yield from (inner,) if alone and key in _WRAPPERS else ()
        return
    indices = [str(index) for index in range(len(case.value))]
    if case.value.keys() == set(indices):
        yield [case.value[index] for index in indices]
    if alone and is_array(inner):
        yield inner
    if alone and key in _WRAPPERS:
        yield [inner]


def _text_to_array(case: Case) -> Iterator[JSONValue]:
    if case.text is None or "array" not in case.wanted:
        return
    lines = [line.strip() for line in case.text.splitlines() if line.strip()]
    if not lines:
        yield []
        return
    item = case.node.item(0)
    kinds = item.wanted if item else frozenset[str]()
    if kinds and "string" not in kinds:
        parts = case.text.split(",")
        if len(lines) > 1:
            yield lines
        elif kinds & _NUMERIC and len(parts) > 1 and all(_number(part, whole=False) is not None for part in parts):
            yield parts
    yield [case.text]


def _single_to_array(case: Case) -> Iterator[JSONValue]:
    if "array" in case.wanted and not isinstance(case.value, str | None) and not suits(case.value, case.wanted):
        yield [case.value]


class Rule(NamedTuple):
    """One way to read a value. A `sure` one stands even where the value then breaks some other keyword."""

    code: str
    what: str
    propose: Callable[[Case], Iterator[JSONValue]]
    sure: bool = False


#: In the order they are tried: the first proposal that makes the value valid wins.
RULES = (
    Rule("null_arguments", "nothing was read as no arguments", _null_arguments),
    Rule("string_to_null", "a string was read as null", _string_to_null, sure=True),
    Rule("string_to_boolean", "a string was read as a boolean", _string_to_boolean, sure=True),
    Rule("string_to_number", "a string was read as a number", _string_to_number, sure=True),
    Rule("integral_float", "a whole number lost its fraction", _integral_float, sure=True),
    Rule("json_in_string", "JSON in a string was read", _json_in_string, sure=True),
    Rule("enum_case", "an option was spelled as the schema has it", _enum_case),
    Rule("number_to_string", "a number or boolean was read as a string", _number_to_string, sure=True),
    Rule("array_of_one", "the only item stands for its array", _array_of_one),
    Rule("indexed_object", "an object that wraps items was read as the items", _indexed_object),
    Rule("text_to_array", "a text was read as an array", _text_to_array),
    Rule("single_to_array", "a single value was put into an array", _single_to_array),
)
