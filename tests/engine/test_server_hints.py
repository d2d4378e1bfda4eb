"""What servers say beside the protocol is read with care."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.engine.planning.server_hints import (
    ServerHints,
    hint_requests,
    loaded_request,
    parse_loaded_context,
    parse_server_hints,
)

PROPS = {"default_generation_settings": {"n_ctx": 4096}, "total_slots": 1}


@pytest.mark.requirement("D5")
@check_each(
    ("server", "said", "signs"),
    [
        ("ollama", {"capabilities": ["completion", "tools"]}, ServerHints("ollama", tools=True, media=())),
        ("ollama", {"capabilities": ["completion", "vision"]}, ServerHints("ollama", tools=False, media=("image",))),
        ("ollama", {"details": {}}, None),
        ("ollama", [], None),
        ("llama.cpp", {"status": "ok"}, None),
        ("llama.cpp", PROPS, ServerHints("llama.cpp", context=4096)),
        (
            "ollama",
            {"capabilities": ["tools"], "parameters": 'stop   "<|im_end|>"\nnum_ctx                        8192\n'},
            ServerHints("ollama", tools=True, media=(), context=8192),
        ),
        (
            "ollama",  # what a model was trained with is not what Ollama gives it
            {"capabilities": [], "parameters": 7, "model_info": {"llama.context_length": 131072}},
            ServerHints("ollama", tools=False, media=()),
        ),
        ("vllm", {"data": [{"id": "m", "max_model_len": 8192}]}, ServerHints("vllm", context=8192)),
        ("vllm", {"data": [{"id": "other", "max_model_len": 8192}, 7]}, None),
        ("vllm", {"data": [{"id": "m", "max_model_len": True}]}, None),
        ("vllm", {"data": {}}, None),
        (
            "llama.cpp",
            PROPS
            | {
                "chat_template_caps": {"supports_tools": True, "supports_system_role": False},
                "modalities": {"vision": True, "audio": False},
            },
            ServerHints("llama.cpp", tools=True, system_role=False, media=("image",), context=4096),
        ),
        ("llama.cpp", {"chat_template_caps": {"supports_tools": "yes"}}, ServerHints("llama.cpp")),
        (
            "llama.cpp",
            {"chat_template_caps": 1, "modalities": {"audio": True}},
            ServerHints("llama.cpp", media=("audio",)),
        ),
    ],
)
def test_what_a_server_says_is_read(server: str, said: Any, signs: ServerHints | None):
    assert parse_server_hints(server, json.dumps(said).encode(), "m") == signs


@check_each("body", [b"", b"<html>", b"404 page not found", b"[" * 10_000, b"\xff"])
def test_what_is_no_answer_says_nothing(body: bytes):
    assert parse_server_hints("ollama", body) is None
    assert parse_server_hints("llama.cpp", body) is None


@given(st.recursive(st.none() | st.booleans() | st.text(max_size=9), lambda inner: st.lists(inner, max_size=3)))
def test_fields_of_any_kind_do_no_harm(value: Any):
    said = json.dumps({"capabilities": value, "chat_template_caps": value, "modalities": value}).encode()
    for server in ("ollama", "llama.cpp"):
        signs = parse_server_hints(server, said)
        assert signs is None or signs.server == server


@check_each(
    ("model", "listed", "context"),
    [
        ("qwen3:8b", [{"name": "a:b", "context_length": 1}, {"name": "qwen3:8b", "context_length": 32768}], 32768),
        ("qwen3", [{"name": "qwen3:latest", "context_length": 4096}], 4096),
        ("qwen3", [{"name": "qwen3:latest"}], None),
        ("qwen3", [{"name": "qwen3:latest", "context_length": -1}], None),
        ("qwen3", [], None),
        ("qwen3", None, None),
    ],
)
def test_a_loaded_model_has_a_window(model: str, listed: Any, context: int | None):
    assert parse_loaded_context(json.dumps({"models": listed}).encode(), model) == context


def test_only_ollama_is_asked_about_loaded_models():
    request = loaded_request("ollama")
    assert request is not None
    assert (request.path, request.payload) == ("/api/ps", b"")
    assert loaded_request("llama.cpp") is None


def test_only_ollama_refuses_for_certain():
    assert ServerHints("ollama", tools=False).refuses_tools
    assert not ServerHints("ollama", tools=True).refuses_tools
    assert not ServerHints("llama.cpp", tools=False).refuses_tools
    assert not ServerHints().refuses_tools


@check_each(
    ("protocol", "provider", "paths"),
    [
        ("ollama", "ollama", ["/api/show"]),
        ("openai_chat", "openai", ["/props", "/api/show", "/v1/models"]),
        ("openai_chat", "ollama", ["/api/show", "/props"]),
        ("anthropic", "anthropic", []),
    ],
)
def test_who_is_asked_what(protocol: str, provider: str, paths: list[str]):
    asides = hint_requests(protocol, provider, 'a"b')
    assert [aside.path for aside in asides] == paths
    assert all(json.loads(aside.payload) == {"model": 'a"b'} for aside in asides if aside.payload)
