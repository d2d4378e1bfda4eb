"""No dialect holds back a call that was asked for: its name and its text are emitted soon after they are written."""

from __future__ import annotations

from typing import Any

import pytest

from scripts.streaming_delays import TEXT, measure, streaming_table
from tests.cases import check_each
from toolspeak.dialects.registry import DIALECTS

pytestmark = pytest.mark.requirement("B8", "B11")

#: The most characters between what is written and what is emitted.
MOST = 64

STRING: dict[str, Any] = {"type": "string"}
NULL: dict[str, Any] = {"type": "null"}
SCHEMAS: dict[str, dict[str, Any]] = {
    "a string": STRING,
    "a string or null": {"anyOf": [STRING, NULL]},
    "types": {"type": ["string", "null"]},
    "limits": {**STRING, "minLength": 1, "maxLength": 9999, "pattern": "clocks", "format": "uri"},
    "a broken limit": {**STRING, "maxLength": 9},
    "a limited string or null": {"anyOf": [{**STRING, "minLength": 1}, NULL]},
}


@check_each("dialect", DIALECTS)
@check_each("schema", SCHEMAS)
def test_no_dialect_holds_a_text_back(dialect: str, schema: str):
    assert max(measure(dialect, SCHEMAS[schema])) <= MOST


def test_a_value_that_may_change_is_seen_as_held():
    assert measure("hermes", {"type": "array"}).first > len(TEXT)
    assert measure("hermes", {"type": "array"}).name <= MOST


def test_the_table_names_every_dialect():
    table = streaming_table()
    assert all(f"| `{name}` |" in table for name in DIALECTS)
