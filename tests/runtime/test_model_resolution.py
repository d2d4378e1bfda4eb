"""What answers for a model, by whatever a caller calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import toolspeak as ts
from tests.cases import check_each
from toolspeak.config import load
from toolspeak.errors import ConfigError
from toolspeak.plugins import Plugins
from toolspeak.runtime.model_resolution import codec_of, resolve_model
from toolspeak.upstreams.function import FunctionUpstream
from toolspeak.upstreams.http.thin_transport import HttpUpstream


class NoPlugins(Plugins):
    """None is installed but the one given."""

    def __init__(self, **factories: Callable[..., Any]) -> None:
        super().__init__("none")
        self._factories = factories

    def upstream(self, name: str) -> Callable[..., Any] | None:
        return self._factories.get(name)


def config(**environment: str) -> Any:
    return load({}, env=environment)


def test_a_name_is_a_service_at_its_providers_own_place_with_its_key():
    reached = resolve_model("openai:gpt-x", "", "", config(OPENAI_API_KEY="sk-1"), NoPlugins())
    assert isinstance(reached.upstream, HttpUpstream)
    assert (str(reached), reached.base_url, reached.protocol) == (
        "openai:gpt-x",
        "https://api.openai.com/v1",
        "openai_chat",
    )
    assert "sk-1" not in repr(reached)


def test_a_base_url_is_taken_as_it_is():
    reached = resolve_model("openai:m", "http://127.0.0.1:9000/v1", "", config(), NoPlugins())
    assert reached.base_url == "http://127.0.0.1:9000/v1"


@check_each(
    ("protocol", "codec"),
    [
        ("openai", "openai_chat"),
        ("openai_responses", "openai_responses"),
        ("anthropic", "anthropic"),
        ("gemini", "gemini"),
        ("ollama", "ollama"),
    ],
)
def test_every_protocol_of_the_configuration_is_spoken(protocol: str, codec: str):
    reached = resolve_model("m:x", "http://127.0.0.1:9", "", load({"protocol": protocol}, env={}), NoPlugins())
    assert reached.protocol == codec


@check_each("protocol", ["openai", "openai_chat", "openai_responses", "anthropic", "gemini", "ollama"])
@check_each("model", ["openai:m", "anthropic:m", "nobody:m"])
def test_a_client_may_speak_every_protocol_with_any_service(model: str, protocol: str):
    spoken = "openai_chat" if protocol == "openai" else protocol
    reached = resolve_model(model, "http://127.0.0.1:9", "", config(), NoPlugins(), protocol)
    assert reached.protocol == spoken
    # What the caller says wins over the setting.
    loaded = load({"protocol": "ollama"}, env={})
    assert resolve_model(model, "http://127.0.0.1:9", "", loaded, NoPlugins(), protocol).protocol == spoken
    ts.Client(model, base_url="http://127.0.0.1:9", protocol=protocol, config=loaded).close()


def test_an_address_in_place_of_a_model_says_how_to_write_it():
    with pytest.raises(ts.UsageError) as caught:
        resolve_model("http://me:secret@127.0.0.1:8000/v1", "", "", config(), NoPlugins())
    assert 'base_url="http://<redacted>@127.0.0.1:8000/v1"' in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_protocol_that_is_not_spoken_says_what_to_do():
    with pytest.raises(ts.UsageError, match="OpenAI-compatible service"):
        codec_of("smtp")


def test_a_function_is_a_model():
    def parrot(messages: list[dict[str, Any]]) -> str:
        return messages[-1]["content"]

    reached = resolve_model(parrot, "", "", config(), NoPlugins())
    assert isinstance(reached.upstream, FunctionUpstream)
    assert str(reached) == "callable:parrot"


def test_an_upstream_of_the_callers_own_is_taken_as_it_is():
    own = ts.Scripted("Hello.", base_url="http://own.test")
    reached = resolve_model(own, "", "", config(), NoPlugins())
    assert (reached.upstream, str(reached), reached.base_url) == (own, "scripted:scripted", "http://own.test")


def test_a_service_of_the_callers_own_says_which_model_to_ask_for():
    own = HttpUpstream("http://own.test/v1", model="tiny", provider="groq")
    reached = resolve_model(own, "", "", config(), NoPlugins())
    assert (str(reached), reached.base_url, reached.protocol) == ("groq:tiny", "http://own.test/v1", "openai_chat")
    with pytest.raises(ts.UsageError, match="the upstream has no model") as caught:
        resolve_model(HttpUpstream("http://own.test/v1"), "", "", config(), NoPlugins())
    assert 'model="..."' in caught.value.hint


def test_a_plugin_serves_the_provider_that_it_names():
    given: dict[str, str] = {}

    def factory(**arguments: str) -> ts.Scripted:
        given.update(arguments)
        return ts.Scripted("Hello.", provider="mine")

    reached = resolve_model("mine:m", "http://mine.test", "k", config(), NoPlugins(mine=factory))
    assert given == {"model": "m", "base_url": "http://mine.test", "api_key": "k"}
    assert (str(reached), reached.protocol) == ("mine:m", "openai_chat")


def _raises(**arguments: str) -> ts.Scripted:
    raise LookupError(f"no place for {arguments['api_key']}")


def _leaves(**arguments: str) -> ts.Scripted:
    raise SystemExit(3)


@check_each(
    ("factory", "message"),
    [
        (_raises, r"`mine` raised LookupError: no place for \*\*\* "),
        (_leaves, "`mine` raised SystemExit: 3"),
        (lambda: None, "`mine` raised TypeError"),
        (lambda **_: {"open": 1}, "`mine` returned a `dict`, which is not an upstream"),
        (lambda **_: None, "`mine` returned a `NoneType`, which is not an upstream"),
    ],
)
def test_a_plugin_that_makes_no_upstream_is_named(factory: Callable[..., Any], message: str):
    with pytest.raises(ConfigError, match=message):
        resolve_model("mine:m", "http://mine.test", "sk-secret", config(), NoPlugins(mine=factory))


def test_what_a_plugin_says_about_its_use_is_passed_on():
    def factory(**arguments: str) -> ts.Scripted:
        raise ts.UsageError("the model must be named in full")

    with pytest.raises(ts.UsageError, match="named in full"):
        resolve_model("mine:m", "", "", config(), NoPlugins(mine=factory))


@check_each(
    ("model", "env", "resolved"),
    [
        ("openai/gpt-4o", {"OPENAI_API_KEY": "k"}, "openai:gpt-4o"),
        ("OpenAI/gpt-4o", {"OPENAI_API_KEY": "k"}, "openai:gpt-4o"),
        ("openrouter/openai/gpt-4o", {"OPENROUTER_API_KEY": "k"}, "openrouter:openai/gpt-4o"),
        ("ollama/llama3:8b", {}, "ollama:llama3:8b"),
    ],
)
def test_a_slash_names_the_provider_where_no_base_url_is_given(model: str, env: dict[str, str], resolved: str):
    assert repr(ts.Client(model, config=load({}, env=env))) == f"Client({resolved})"


@check_each(
    ("model", "options", "message"),
    [
        ("openai:gpt-4o", {}, "OPENAI_API_KEY is not set"),
        ("anthropic:claude", {}, "ANTHROPIC_API_KEY is not set"),
        ("nobody/gpt-4o", {}, "unknown model"),
        ("openai:gpt-4o", {"api_key": "k"}, ""),
        ("openai:gpt-4o", {"headers": {"Authorization": "Bearer k"}}, ""),
        ("openai:gpt-4o", {"base_url": "http://127.0.0.1:9/v1"}, ""),
        ("ollama:llama3", {}, ""),
    ],
)
def test_a_missing_key_is_reported_at_once(model: str, options: dict[str, Any], message: str):
    try:
        ts.Client(model, config=load({}, env={}), **options)
    except ts.ToolspeakError as error:
        assert message and message in str(error)
    else:
        assert not message
