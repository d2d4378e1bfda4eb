"""The process that runs the model: what the engine is told."""

from __future__ import annotations

import importlib

import pytest

from toolspeak.upstreams.embedded import model_process as child


def test_the_room_for_prompts_that_were_read_before_is_bounded(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("xllamacpp", reason="the embedded model is not installed")
    engine = importlib.import_module("xllamacpp")
    default = engine.CommonParams().cache_ram_mib
    monkeypatch.setattr(engine, "Server", lambda params: params)
    told: object = child._start_server(child.Recipe(path="none.gguf", name="m", key="k"))  # pyright: ignore[reportPrivateUsage]
    assert 0 < getattr(told, "cache_ram_mib") <= 128 < default  # noqa: B009  # the engine has no types
