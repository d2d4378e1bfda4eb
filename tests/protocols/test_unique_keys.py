"""A body that names a key twice is refused in every protocol, and no other body is."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.core.types import JSONValue
from toolspeak.errors import UsageError
from toolspeak.protocols import anthropic, gemini, ollama, openai_chat, openai_responses
from toolspeak.protocols.shared.fields import parse_object

PROTOCOLS = {
    "anthropic": (anthropic, b'"messages":[{"role":"user","content":"hi"}]'),
    "gemini": (gemini, b'"contents":[{"role":"user","parts":[{"text":"hi"}]}]'),
    "ollama": (ollama, b'"messages":[{"role":"user","content":"hi"}]'),
    "openai_chat": (openai_chat, b'"messages":[{"role":"user","content":"hi"}]'),
    "openai_responses": (openai_responses, b'"input":"hi"'),
}


@pytest.mark.requirement("R-T21")
@check_each("name", PROTOCOLS)
def test_a_key_that_stands_twice_is_an_error_of_the_client_in_the_shape_of_its_protocol(name: str):
    module, said = PROTOCOLS[name]
    assert module.decode_request(b'{"model":"m","max_tokens":9,' + said + b"}")
    with pytest.raises(UsageError, match="`model` twice") as caught:
        module.decode_request(b'{"model":"m","max_tokens":9,"model":"n",' + said + b"}")
    status, body = module.encode_error(caught.value)
    assert status == 400
    assert "`model` twice" in repr(msgspec.json.decode(body))


TWICE = {
    "at once": b'{"a":1,"a":2}',
    "the same value": b'{"a":1,"a":1}',
    "far apart, spaced": b'{"a": 1, "b": [1, 2], "a": 2}',
    "in a list": b'{"b":[{"a":1},{"a":1,"a":2}]}',
    "an escaped key": rb'{"a":1,"\u0061":2}',
    "a colon as an escape beside it": rb'{"a":1,"a":2,"b":"\u003a"}',
    "a colon as another escape": rb'{"a":1,"a":2,"b":"\u003A"}',
    "a colon in the key": b'{"a:":1,"a:":2}',
    "an object that goes with it": b'{"a":{"b":{"c":1}},"a":{"b":{"c":1}}}',
    "behind a large number": b'{"n":' + b"1" * 400 + b',"a":1,"a":2}',
}


@check_each("body", TWICE.values(), ids=TWICE)
def test_a_key_that_stands_twice_is_found_wherever_it_hides(body: bytes):
    with pytest.raises(UsageError, match="twice in one object"):
        parse_object(body)
    with pytest.raises(UsageError, match="twice in one object"):
        parse_object(body.decode())


ONCE = {
    "compact": b'{"a":1,"b":{"a":1}}',
    "spaced": b'{ "a" : 1,\n "b" : [ { "a" : 1 } ] }',
    "colons in texts": b'{"a":":\\":","b":"\\": :"}',
    "escapes": rb'{"a":"\u00e9\/\u003c","b":1.50,"c":1e2}',
    "an escaped colon": rb'{"a":"\u003a","b":"\u003A"}',
    "an escaped colon beside a long number": rb'{"a":"\u003a","b":' + b"9" * 400 + b"}",
}


@check_each("body", ONCE.values(), ids=ONCE)
def test_a_key_that_stands_once_in_each_object_is_no_fault_however_it_is_written(body: bytes):
    assert parse_object(body) == msgspec.json.decode(body)


def test_a_body_that_is_nested_too_deeply_is_refused_also_when_it_must_be_looked_at_closely():
    with pytest.raises(UsageError, match="nested too deeply"):
        parse_object(rb'{"b":"\u003a","a":' + b"[" * 5000 + b"]" * 5000 + b"}")


KEYS = st.sampled_from(["a", "b", ":", "é", '"', "\\"])
TREES = st.recursive(
    st.none() | st.integers(-5, 5) | st.text('a:"\\é{', max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(KEYS, inner), max_size=3).map(tuple),
    max_leaves=12,
)


def _written(tree: JSONValue, ascii_only: bool, colon: str) -> tuple[str, bool]:
    """The tree as JSON, a tuple of pairs as an object; and whether an object names a key twice."""
    if not isinstance(tree, tuple | list):
        text = json.dumps(tree, ensure_ascii=ascii_only)
        return (text.replace(":", "\\u003a") if ascii_only else text), False
    values = [pair[1] for pair in tree] if isinstance(tree, tuple) else tree
    inner = [_written(value, ascii_only, colon) for value in values]
    twice = any(found for _, found in inner)
    if isinstance(tree, list):
        return f"[{','.join(text for text, _ in inner)}]", twice
    keys = [key for key, _ in tree]
    told = (json.dumps(key, ensure_ascii=ascii_only) + colon + text for key, (text, _) in zip(keys, inner, strict=True))
    return f"{{{','.join(told)}}}", twice or len(set(keys)) < len(keys)


@given(st.lists(st.tuples(KEYS, TREES), max_size=4).map(tuple), st.booleans(), st.sampled_from([":", ": ", " :"]))
def test_exactly_the_bodies_that_name_a_key_twice_are_refused(tree: JSONValue, ascii_only: bool, colon: str):
    body, twice = _written(tree, ascii_only, colon)
    if twice:
        with pytest.raises(UsageError, match="twice in one object"):
            parse_object(body)
    else:
        assert parse_object(body.encode()) == json.loads(body)
