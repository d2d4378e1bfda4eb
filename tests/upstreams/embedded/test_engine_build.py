"""What the engine of the embedded model was built for, and what the processor here could do."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cases import check_each
from toolspeak.upstreams.embedded import engine_build as engine
from toolspeak.upstreams.embedded.engine_build import (
    could_have_byte_products,
    has_byte_products,
    installed_info,
    prefers_8_bits,
)


@pytest.fixture(autouse=True)
def asked_anew() -> Generator[None]:
    installed_info.cache_clear()
    yield
    installed_info.cache_clear()


@check_each(
    ("told", "byte_products", "prefers"),
    [
        ("CPU : NEON = 1 | ARM_FMA = 1 | LLAMAFILE = 1 | OPENMP = 1 | REPACK = 1 | ", False, False),
        ("CPU : NEON = 1 | ARM_FMA = 1 | DOTPROD = 1 | OPENMP = 1 | REPACK = 1 | ", True, True),
        ("CPU : SSE3 = 1 | AVX = 1 | F16C = 1 | ", False, False),
        ("CPU : SSE3 = 1 | AVX = 1 | AVX2 = 1 | F16C = 1 | FMA = 1 | ", False, True),
        ("CPU : SSE3 = 1 | AVX2 = 1 | AVX512 = 1 | AVX512_VNNI = 1", True, True),
        ("CPU : AVX_VNNI = 0 | AVX2 = 0", False, False),
        ("Metal : EMBED_LIBRARY = 1 | CPU : NEON = 1 | DOTPROD = 1 | ", False, False),
        ("CPU : NEON = 1 | DOTPROD = 1 | CUDA : ARCHS = 900 | ", False, False),
        ("", False, False),
    ],
)
def test_byte_products_or_avx2_make_8_bits_the_better_choice_unless_there_is_a_gpu(
    told: str, byte_products: bool, prefers: bool
):
    assert (has_byte_products(told), prefers_8_bits(told)) == (byte_products, prefers)


@pytest.mark.parametrize(
    ("told", "quick"),
    [
        ("Features\t: fp asimd asimdhp asimddp\nCPU part\t: 0xd0c\n", True),
        ("flags\t\t: sse4_2 avx avx2 avx512f avx512_vnni\n", True),
        ("Features\t: fp asimd\n", False),
        ("flags\t\t: avx2\n", False),
    ],
)
def test_a_processor_is_known_by_what_the_system_tells_of_it(told: str, quick: bool, tmp_path: Path):
    (tmp_path / "cpuinfo").write_text(told, encoding="utf-8")
    assert could_have_byte_products(tmp_path / "cpuinfo") is quick


def test_where_the_system_does_not_tell_of_its_processor_nothing_is_promised(tmp_path: Path):
    assert could_have_byte_products(tmp_path / "cpuinfo") is False


def test_an_engine_that_cannot_be_queried_has_no_features(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    assert installed_info() == ""


def test_the_engine_that_is_installed_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("xllamacpp", exc_type=ImportError)
    engine.main()
    told = capsys.readouterr().out
    assert told.startswith("CPU : ") or " | CPU : " in told
    assert installed_info() == told.strip()
    monkeypatch.setattr(sys, "executable", "nothing")
    assert installed_info() == told.strip()


ENGINE = """
import os, signal

def get_system_info():
    return "CPU : AVX2 = 1 |"

def CommonParams():
    os.kill(os.getpid(), signal.SIGILL)
"""


def test_an_engine_counts_only_if_it_runs_a_model_on_this_processor(tmp_path: Path, weights: Path):
    assert installed_info("", str(weights)) == installed_info() != ""
    (tmp_path / "xllamacpp.py").write_text(ENGINE, encoding="utf-8")
    assert installed_info(str(tmp_path)) == "CPU : AVX2 = 1 |"
    assert installed_info(str(tmp_path), str(weights)) == ""
