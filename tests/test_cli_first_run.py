"""What a first run shows, and what it does before the server listens."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from io import StringIO
from pathlib import Path

import pytest

from tests.upstreams.embedded.test_hub import CONTENT, hub
from toolspeak import file_locks as locks
from toolspeak.cli.first_run import engine_tip, prepare_embedded
from toolspeak.config import load
from toolspeak.errors import ConfigError
from toolspeak.server.process.from_config import embedded_model
from toolspeak.upstreams.embedded import engine_build as engine
from toolspeak.upstreams.embedded import upstream
from toolspeak.upstreams.embedded.weights import WeightsError

URL = "http://127.0.0.1:8788"


@pytest.mark.parametrize("model", ["", "a.gguf"])
def test_a_file_that_is_no_adapter_is_told_before_anything_listens(model: str, tmp_path: Path):
    other, weights = tmp_path / "a.txt", tmp_path / "a.gguf"
    other.write_text("no adapter", encoding="utf-8")
    weights.write_bytes(b"GGUF")
    config = load({"adapter": str(other)}, env={"HOME": str(tmp_path)}, cwd=tmp_path)
    with pytest.raises(ConfigError, match="is not an adapter"):
        prepare_embedded(config, str(weights) if model else "")


def test_weights_that_may_not_be_read_are_told_and_no_mistake_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "a.gguf"
    file.write_bytes(b"GGUF")

    def refuse(*given: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # whoever runs tests as root may read all
    with pytest.raises(ConfigError, match="cannot be read: permission denied"):
        upstream.is_gguf(file)


@pytest.mark.requirement("H1")
def test_a_model_of_the_hub_is_fetched_before_anything_listens(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with hub("small-Q4_K_M.gguf") as server:
        environment = {"HOME": str(tmp_path), **server.environment()}
        config = load(env=environment, cwd=tmp_path)
        assert prepare_embedded(config, "owner/small-GGUF") == "small-GGUF"
        assert "fetching the weights of small-GGUF into " in capsys.readouterr().err
        asked = len(server.asked)
        assert prepare_embedded(config, "owner/small-GGUF") == "small-GGUF"
        assert (len(server.asked), capsys.readouterr().err) == (asked, "")
        with pytest.raises(WeightsError, match="has no model owner/other"):
            prepare_embedded(config, "owner/other")
    assert next((config.cache_folder / "hub").rglob("*.gguf")).read_bytes() == CONTENT


def test_a_first_start_says_what_it_downloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(upstream, "obtain_weights", lambda *given: tmp_path)
    prepare_embedded(load(env={"HOME": str(tmp_path)}, cwd=tmp_path), "")
    assert capsys.readouterr().err.startswith("fetching the weights of smollm2-135m (98 MB) into ")


@pytest.mark.parametrize(
    ("model", "quick", "could_be", "begun", "helps"),
    [
        ("smollm2-135m", False, True, False, True),
        ("smollm2-135m", False, True, True, False),
        ("smollm2-135m", False, False, False, False),
        ("smollm2-135m", True, True, False, False),
        ("another", False, True, False, False),
        ("", False, True, False, False),
    ],
)
def test_a_faster_engine_is_proposed_where_it_helps_until_its_build_was_begun(
    model: str, quick: bool, could_be: bool, begun: bool, helps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(engine, "installed_info", lambda: "CPU : AVX512_VNNI = 1" if quick else "")
    monkeypatch.setattr(engine, "could_have_byte_products", lambda: could_be)
    config = load(env={"HOME": str(tmp_path)}, cwd=tmp_path)
    if begun:
        engine.EngineBuilder(config.cache_folder, {}).folder.mkdir(parents=True)
    assert engine_tip(config, model).startswith("`toolspeak engine build` builds") == helps


def test_who_waits_for_another_first_start_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    said, another = StringIO(), ExitStack()

    class Terminal(StringIO):
        def write(self, text: str, /) -> int:
            if "waiting" in text:
                another.close()  # it is done, or has given up
            return said.write(text)

    with hub("small-Q4_K_M.gguf") as server:
        config = load(env={"HOME": str(tmp_path), **server.environment()}, cwd=tmp_path)
        folder = config.cache_folder / "hub" / "owner--small-GGUF"
        folder.mkdir(parents=True)
        another.enter_context(locks.file_lock(folder / ".lock"))
        monkeypatch.setattr(sys, "stderr", Terminal())
        assert prepare_embedded(config, "owner/small-GGUF") == "small-GGUF"
    first, second = said.getvalue().splitlines()
    assert first.startswith("fetching the weights of small-GGUF into ")
    assert second == "waiting for another process that is already fetching the weights"


def test_what_is_no_model_or_no_adapter_is_told_at_once(tmp_path: Path):
    config = load({"adapter": "none.gguf"}, env={"HOME": str(tmp_path)}, cwd=tmp_path)
    with pytest.raises(ConfigError, match="cannot find the adapter"):
        prepare_embedded(config, "")
    with pytest.raises(ConfigError, match="not a model that can run here"):
        prepare_embedded(load(env={"HOME": str(tmp_path)}, cwd=tmp_path), "what is this")


def test_a_file_that_is_no_model_is_told_before_anything_listens(tmp_path: Path):
    file = tmp_path / "mine.gguf"
    file.write_bytes(b"<html>")
    config = load(env={"HOME": str(tmp_path)}, cwd=tmp_path)
    with pytest.raises(ConfigError, match="is not a weights file"):
        prepare_embedded(config, str(file))
    file.write_bytes(b"GGUF and more")
    assert prepare_embedded(config, str(file)) == "mine"


@pytest.mark.parametrize(
    ("model", "upstream", "here"),
    [
        ("", "", ""),
        ("embedded:", "", ""),
        ("embedded", "", ""),
        ("model.gguf", "", "model.gguf"),
        ("hf:owner/name/file.gguf", "", "hf:owner/name/file.gguf"),
        ("owner/name:Q4_K_M", "", "owner/name:Q4_K_M"),
        ("embedded:owner/name", "", "owner/name"),
        ("owner/name", URL, None),
        ("ollama:owner/name", "", None),
        ("gpt-4", "", None),
    ],
)
def test_which_names_mean_a_model_that_runs_here(model: str, upstream: str, here: str | None, tmp_path: Path):
    assert embedded_model(load(env={"HOME": str(tmp_path)}, cwd=tmp_path), upstream, model) == here
