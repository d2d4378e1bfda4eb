"""What servers say beside the protocol is read with care."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolspeak.engine.planning.probe_signs import Signs, asides_for, signs_in

PROPS = {"default_generation_settings": {"n_ctx": 4096}, "total_slots": 1}


@pytest.mark.requirement("D5")
@pytest.mark.parametrize(
    ("server", "said", "signs"),
    [
        ("ollama", {"capabilities": ["completion", "tools"]}, Signs("ollama", tools=True, media=())),
        ("ollama", {"capabilities": ["completion", "vision"]}, Signs("ollama", tools=False, media=("image",))),
        ("ollama", {"details": {}}, None),
        ("ollama", [], None),
        ("llama.cpp", {"status": "ok"}, None),
        ("llama.cpp", PROPS, Signs("llama.cpp")),
        (
            "llama.cpp",
            PROPS
            | {
                "chat_template_caps": {"supports_tools": True, "supports_system_role": False},
                "modalities": {"vision": True, "audio": False},
            },
            Signs("llama.cpp", tools=True, system_role=False, media=("image",)),
        ),
        ("llama.cpp", {"chat_template_caps": {"supports_tools": "yes"}}, Signs("llama.cpp")),
        ("llama.cpp", {"chat_template_caps": 1, "modalities": {"audio": True}}, Signs("llama.cpp", media=("audio",))),
    ],
)
def test_what_a_server_says_is_read(server: str, said: Any, signs: Signs | None):
    assert signs_in(server, json.dumps(said).encode()) == signs


@pytest.mark.parametrize("body", [b"", b"<html>", b"404 page not found", b"[" * 10_000, b"\xff"])
def test_what_is_no_answer_says_nothing(body: bytes):
    assert signs_in("ollama", body) is None
    assert signs_in("llama.cpp", body) is None


@given(st.recursive(st.none() | st.booleans() | st.text(max_size=9), lambda inner: st.lists(inner, max_size=3)))
def test_fields_of_any_kind_do_no_harm(value: Any):
    said = json.dumps({"capabilities": value, "chat_template_caps": value, "modalities": value}).encode()
    for server in ("ollama", "llama.cpp"):
        signs = signs_in(server, said)
        assert signs is None or signs.server == server


def test_only_ollama_refuses_for_certain():
    assert Signs("ollama", tools=False).refuses_tools
    assert not Signs("ollama", tools=True).refuses_tools
    assert not Signs("llama.cpp", tools=False).refuses_tools
    assert not Signs().refuses_tools


@pytest.mark.parametrize(
    ("protocol", "provider", "paths"),
    [
        ("ollama", "ollama", ["/api/show"]),
        ("openai_chat", "openai", ["/props", "/api/show"]),
        ("openai_chat", "ollama", ["/api/show", "/props"]),
        ("anthropic", "anthropic", []),
    ],
)
def test_who_is_asked_what(protocol: str, provider: str, paths: list[str]):
    asides = asides_for(protocol, provider, 'a"b')
    assert [aside.path for aside in asides] == paths
    assert all(json.loads(aside.payload) == {"model": 'a"b'} for aside in asides if aside.payload)
