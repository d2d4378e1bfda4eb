"""Arguments of the wrong type are the caller's mistake, and are told as such."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import toolspeak as ts
from tests.cases import check_each

#: The functions as somebody calls them whose code nobody checks.
LOOSE: Any = ts
URL = "http://127.0.0.1:1/v1"

WRONG: dict[str, Callable[[], object]] = {
    "a model that is nothing": lambda: LOOSE.strategy(None),
    "a model that is a number": lambda: LOOSE.strategy(3),
    "a base URL that is a number": lambda: LOOSE.strategy("openai:m", base_url=3),
    "settings that are a dict": lambda: LOOSE.strategy("openai:m", settings={"mode": "off"}),
    "a provider that can nothing": lambda: LOOSE.override_provider("p", None),
    "a provider that can a list": lambda: LOOSE.override_provider("p", ["openai"]),
    "a provider without a name": lambda: LOOSE.override_provider(None, "openai"),
    "a model that can nothing": lambda: LOOSE.override_model("p:m", None),
    "a model without a name": lambda: LOOSE.override_model(None, "none"),
    "a text that is nothing": lambda: LOOSE.parse(None),
    "a text that is bytes": lambda: LOOSE.parse(b"x"),
    "tools that are a number": lambda: LOOSE.parse("x", tools=3),
    "a tool that is nothing": lambda: LOOSE.parse("x", tools=[None]),
    "a dialect that is nothing": lambda: LOOSE.parse("x", dialect=None),
    "a dialect that is a list": lambda: LOOSE.parse("x", dialect=["auto"]),
    "a policy that is a list": lambda: LOOSE.parse("x", policy=["eager"]),
    "a nonce that is a number": lambda: LOOSE.parse("x", nonce=3),
    "untrusted text that is nothing": lambda: LOOSE.parse("x", untrusted=None),
    "untrusted text that is one text": lambda: LOOSE.parse("x", untrusted="x"),
    "untrusted text that is a number": lambda: LOOSE.parse("x", untrusted=[3]),
    "events that are nothing": lambda: LOOSE.fold(None),
    "events that are none": lambda: LOOSE.fold([3]),
    "a client without a model": lambda: LOOSE.Client(None),
    "a client with a number for an address": lambda: LOOSE.Client("openai:m", base_url=3),
    "a client with a number for a key": lambda: LOOSE.Client("openai:m", base_url=URL, api_key=3),
}


@check_each("call", WRONG.values(), ids=WRONG)
def test_an_argument_of_the_wrong_type_is_a_usage_error(call: Callable[[], object]):
    with pytest.raises(ts.UsageError, match=r"\w"):
        call()


def test_a_setting_that_cannot_be_used_has_an_error_of_its_own():
    with pytest.raises(ts.ConfigError):
        ts.Client("openai:m", base_url=URL, mode="sometimes")  # type: ignore[arg-type]


def test_an_error_that_ended_no_turn_has_no_reply():
    assert ts.ModelError("broken").reply is None
