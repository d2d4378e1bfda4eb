"""Every keyword argument is listed once, typed and checked; `extra_body` carries the rest."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec
import pytest

import toolspeak as ts
from tests.cases import check_each
from toolspeak.engine.planning.strategy import Settings
from toolspeak.runtime.options import SETTINGS, SettingOptions, TurnOptions, split_options

pytestmark = pytest.mark.requirement("K1")


def test_the_options_are_the_settings():
    fields = {field.name: field.type for field in msgspec.structs.fields(Settings)}
    assert fields.keys() == SETTINGS
    for name, kind in SettingOptions.__annotations__.items():
        assert getattr(fields[name], "__origin__", fields[name]) == kind or fields[name] == kind, name


@check_each("method", [ts.Client, ts.AsyncClient, ts.Agent, ts.AsyncAgent, ts.Client.chat, ts.AsyncClient.stream])
def test_signatures_list_every_argument(method: Any):
    parameters = inspect.signature(method).parameters.values()
    assert not [each.name for each in parameters if each.kind is inspect.Parameter.VAR_KEYWORD]
    assert {"mode", "retries"} <= {each.name for each in parameters}


@check_each(
    ("options", "message"),
    [
        ({"toolz": []}, "unknown argument `toolz` .did you mean `tools`"),
        ({"temprature": 1}, "did you mean `temperature`"),
        ({"system": "Be kind."}, "begin `messages` with"),
        ({"n": 2}, "ask once per answer"),
        ({"zzz": 1}, "extra_body={'zzz': ...}"),
        ({"extra_body": [1]}, "`extra_body` must be a dict"),
        ({"seed": 1, "extra_body": {"seed": 2}}, "`seed` is given twice"),
        ({"mode": "forced"}, "did you mean `force`"),
    ],
)
def test_a_misspelt_argument_of_a_turn_is_an_error(options: dict[str, Any], message: str):
    upstream = ts.Scripted("Hi.")
    with pytest.raises(ts.ToolspeakError, match=message):
        ts.Client(upstream).chat("Hello", **options)
    assert upstream.requests == []


@check_each(
    ("options", "message"),
    [
        ({"tenent": "a"}, "did you mean `tenant`"),
        ({"temperature": 1}, "argument of `chat` and `stream`"),
        ({"max_retries": -1}, "`max_retries` must be a whole number"),
        ({"max_retries": True}, "`max_retries` must be a whole number"),
        ({"headers": {"X-Team: a": "b"}}, "header name"),
    ],
)
def test_a_misspelt_argument_of_a_client_is_an_error(options: dict[str, Any], message: str):
    with pytest.raises(ts.ToolspeakError, match=message):
        ts.Client("openai:m", base_url="http://127.0.0.1:9/v1", **options)


def test_fields_that_only_the_upstream_knows_go_into_extra_body():
    upstream = ts.Scripted("Hi.")
    ts.Client(upstream).chat("Hello", seed=1, user=None, extra_body={"top_a": 0.2})
    options = upstream.requests[0].options
    assert (options.seed, options.extra) == (1, {"top_a": 0.2})


def test_settings_are_separated_from_request_fields():
    assert split_options({"mode": "off", "seed": 3, "top_p": None}) == ({"mode": "off"}, {"seed": 3})


def test_turn_options_have_no_names_of_other_arguments():
    assert TurnOptions.__annotations__.keys().isdisjoint({"messages", "tools", "tool_choice", "timeout"})
