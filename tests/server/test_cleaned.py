"""Values without keys: one look at the JSON text tells whether there is anything to take out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolspeak.server.recording import hidden
from toolspeak.server.recording.hidden import body_of, cleaned

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
NAMES = [
    "api_key",
    " api_key",
    "api-key\t",
    "headers\xa0",
    "authorization_token",
    "API_KEY",
    "api_\u212aey",
    "Headers",
    "proxy",
    "name",
    '"headers":',
]

texts = st.lists(st.sampled_from(PIECES), max_size=4).map("".join)
values: st.SearchStrategy[Any] = st.recursive(
    texts | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | texts, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.requirement("R-T2")
@given(values)
def test_what_looks_clean_as_a_whole_has_nothing_to_take_out(value: Any):
    by_part = hidden._cleaned(value, SECRETS)  # pyright: ignore[reportPrivateUsage]
    assert json.dumps(cleaned(value, SECRETS)) == json.dumps(by_part)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": ["plain", ("text", 1.5)]}, {"a": ["plain", ("text", 1.5)]}),
        ({"a": {"Headers": {"b": "c"}}}, {"a": {"Headers": "***"}}),
        (
            {" api_key ": "a", "api-key\n": "b", "\xa0Headers": ["c"]},
            {" api_key ": "***", "api-key\n": "***", "\xa0Headers": "***"},
        ),
        ({"mcp_servers": [{"authorization_token": "a"}]}, {"mcp_servers": [{"authorization_token": "***"}]}),
        ({"server_url": "https://a:b@c.example?token=d"}, {"server_url": "https://***@c.example?token=***"}),
        ({"a": {"headers": {}}}, {"a": {"headers": {}}}),
        ({"a": "the \"headers\": are 'Bearer x'"}, {"a": "the \"headers\": are 'Bearer ***'"}),
        (["so: mit Umlaut äöü", 'with "quotes" and \\'], ["so: ***", "***"]),
        ({"configured-canary": 2**70}, {"***": 2**70}),
        (["tsk-0123456789", "a?key=b"], ["***", "a?key=***"]),
    ],
)
def test_keys_are_taken_out_wherever_they_stand(value: Any, said: Any):
    assert cleaned(value, SECRETS) == said


@pytest.mark.requirement("R-T2")
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"model": "m"}', {"model": "m"}),
        (b'{"model": "m", the headers are', '{"model": "m", the headers are'),
        (b'{"n": 1, "api_key": "canary",}', '{"n": 1, "api_key*** (13 more bytes)'),
        (b"{'Authorization' : 'canary'", "{'Authorization*** (12 more bytes)"),
        (b'{"headers' + b" " * 100 + b': "canary",}', '{"headers*** (112 more bytes)'),
        (b'{"proxy\xc2\xa0": "canary",}', '{"proxy*** (15 more bytes)'),
        (
            b'{"a": "no headers", "a": "{\\"headers\\": {}}",}',
            '{"a": "no headers", "a": "{\\"headers*** (10 more bytes)',
        ),
        (b'{"a": "canar\\u0079",}', '{"a": "*** (14 more bytes)'),
        (b'{"a": "Gr\\u00fc\xc3\x9f', '{"a": "Gr\\u00fc\xdf'),
        ('{"api_key": "canary"}'.encode("utf-16-le"), '{"api_key*** (12 more bytes)'),
        (b"[" * 5000 + b'"api_key":"canary"', "[" * 5000 + '"api_key*** (10 more bytes)'),
    ],
)
def test_of_a_body_that_is_no_json_nothing_is_shown_behind_the_name_of_a_key(body: bytes, said: Any):
    assert body_of(body) == said
