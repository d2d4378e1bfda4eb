"""Values without keys: one look at the JSON text tells whether there is anything to take out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.time_growth import assert_linear
from toolspeak.server.recording import redaction as hidden
from toolspeak.server.recording.redaction import parse_body, redact_text, redact_value

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
    "api_key",
    '"apiKey": "',
    '"AUTHORIZATION"',
    ":",
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
    by_part = hidden._redact(value, lambda text: redact_text(text, SECRETS))  # pyright: ignore[reportPrivateUsage]
    assert json.dumps(redact_value(value, SECRETS)) == json.dumps(by_part)


@check_each(
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
    assert redact_value(value, SECRETS) == said


def nested(value: Any, times: int) -> Any:
    """A value as JSON in a text, in JSON in a text ..."""
    for _ in range(times):
        value = {"arguments": json.dumps(value)}
    return value


KEYS = ["canary", 'can"ary', "can\\", 'can\\"ary\\\\', "can'ary", "can\nary", "{canary", "канарейка"]


@pytest.mark.requirement("R-T2")
@check_each("key", KEYS)
@check_each("name", ["api_key", "X-API-Key", "Authorization", " apikey "])
@check_each("times", [1, 2, 3, 4])
def test_keys_are_taken_out_of_json_within_texts(times: int, name: str, key: str):
    value = {"a": ["b", {name: key, "c": 'd "e" \\', "api_keys": "f"}], "my_api_key": "g", "h": 1}
    said = {"a": ["b", {name: "***", "c": 'd "e" \\', "api_keys": "f"}], "my_api_key": "g", "h": 1}
    assert redact_value(nested(value, times), []) == nested(said, times)


@pytest.mark.requirement("R-T2")
@check_each(
    ("text", "said"),
    [
        (
            'call it: <tool_call>{"api_key" : "canary"}</tool_call>',
            'call it: <tool_call>{"api_key" : "***"}</tool_call>',
        ),
        ("f({'api_key': 'canary'}, {\n  'b': 'c'})", "f({'api_key': '***'}, {\n  'b': 'c'})"),
        ('{"api_key": "canary', '{"api_key": "***'),
        ('{"a": "{\\"api_key\\": \\"cana"} and more', '{"a": "{\\"api_key\\": \\"***"} and more'),
        (
            '{"api_key": "one", "b": "c", "authorization": "two"}',
            '{"api_key": "***", "b": "c", "authorization": "***"}',
        ),
        ('{"api_key": "\\"api_key\\": \\"canary\\""}', '{"api_key": "***"}'),
        ('{"api_key": "", "b": "c"}', '{"api_key": "", "b": "c"}'),
        ('the "api_key" is a field, "authorization": too', 'the "api_key" is a field, "authorization": too'),
        ('{"my_api_key": "a", "headers": {"Accept": "b"}}', '{"my_api_key": "a", "headers": {"Accept": "b"}}'),
    ],
)
def test_in_a_text_the_text_of_a_field_that_holds_a_key_is_taken_out_and_nothing_else(text: str, said: str):
    assert redact_value(text, []) == redact_value({"a": [text]}, [])["a"][0] == said  # type: ignore[index,call-overload]


@check_each(
    "piece",
    [
        "\\",
        '"',
        '\\"',
        "api_key",
        '"api_key": "',
        '"api_key":"x",',
        '\\\\"api_key\\\\": \\\\"',
        'api_key" ',
        "api_key" + " " * 30 + ":",
    ],
)
def test_the_time_for_that_is_linear(piece: str):
    def made(size: int) -> Callable[[], object]:
        text = '"api_key": \\"' + piece * (size // len(piece))
        return lambda: redact_value(text, [])

    assert_linear(made, 400_000)


@pytest.mark.requirement("R-T2")
@check_each(
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
    assert parse_body(body) == said
