"""Values without keys: one look at the JSON text tells whether there is anything to take out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolspeak.server.recording import shown
from toolspeak.server.recording.shown import cleaned

SECRETS = ["configured-canary", 'with "quotes" and \\', "mit Umlaut äöü", "short", ""]
PIECES = [
    *SECRETS,
    "tsk-",
    "0123456789",
    "?key=",
    "&key=",
    "&TO\u212aEN=",
    "Bearer ",
    "BEARER\t",
    "://",
    "@",
    " ",
    '"',
    "\\",
    "\n",
    "ä",
    "\ud800",
]
NAMES = ["api_key", "API_KEY", "api_\u212aey", "Headers", "proxy", "name", '"headers":']

texts = st.lists(st.sampled_from(PIECES), max_size=4).map("".join)
values: st.SearchStrategy[Any] = st.recursive(
    texts | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | texts, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.requirement("R-T2")
@given(values)
def test_what_looks_clean_as_a_whole_has_nothing_to_take_out(value: Any):
    by_part = shown._cleaned(value, SECRETS)  # pyright: ignore[reportPrivateUsage]
    assert json.dumps(cleaned(value, SECRETS)) == json.dumps(by_part)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": ["plain", ("text", 1.5)]}, {"a": ["plain", ("text", 1.5)]}),
        ({"a": {"Headers": {"b": "c"}}}, {"a": {"Headers": "***"}}),
        ({"a": {"headers": {}}}, {"a": {"headers": {}}}),
        ({"a": "the \"headers\": are 'Bearer x'"}, {"a": "the \"headers\": are 'Bearer ***'"}),
        (["so: mit Umlaut äöü", 'with "quotes" and \\'], ["so: ***", "***"]),
        ({"configured-canary": 2**70}, {"***": 2**70}),
        (["tsk-0123456789", "a?key=b"], ["***", "a?key=***"]),
    ],
)
def test_keys_are_taken_out_wherever_they_stand(value: Any, said: Any):
    assert cleaned(value, SECRETS) == said
