"""`toolspeak engine`: what it says without building anything. What it builds is tested in `test_native_build`."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cases import check_each
from toolspeak.cli import engine, main
from toolspeak.file_locks import file_lock
from toolspeak.upstreams.embedded.engine_build import missing
from toolspeak.upstreams.embedded.weights import MERGED

ROOT = Path(__file__).parent.parent
REQUIREMENTS = ROOT / "src" / "toolspeak" / "upstreams" / "embedded"


@pytest.fixture(autouse=True)
def slow_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An engine that is slower than one built here would be."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(engine, "installed_info", lambda: "CPU : AVX2 = 1 |")
    monkeypatch.setattr(engine, "would_help", lambda: True)
    monkeypatch.setattr(engine, "missing", lambda environment: {})


def run(*arguments: str) -> Result:
    return CliRunner(catch_exceptions=False).invoke(main, ["engine", *arguments], prog_name="toolspeak")


def test_status_shows_the_engine_and_the_cached_files(tmp_path: Path):
    weights = tmp_path / "cache" / "toolspeak" / MERGED.file_name
    weights.parent.mkdir(parents=True)
    weights.write_bytes(bytes(2_000_000))
    state = tmp_path / "state" / "toolspeak" / "prompts" / "model" / "1.state"
    state.parent.mkdir(parents=True)
    state.write_bytes(bytes(1_000_000))
    result = run("status")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "features   CPU : AVX2 = 1 |" in result.stdout
    assert "own build  would be faster: run `toolspeak engine build`" in result.stdout
    assert f"2.0 MB {weights}" in result.stdout
    assert "1 file, 1.0 MB" in result.stdout
    found = json.loads(run("status", "--json").stdout)
    assert (found["byte_products"], found["build_helps"], found["build_needs"]) == (False, True, [])
    assert found["files"] == {str(weights): 2_000_000}
    assert found["prompt_states"] == {"files": 1, "bytes": 1_000_000}


def test_status_says_what_a_build_needs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(engine, "missing", lambda environment: {"a C++ compiler (c++)": "g++"})
    result = run("status")
    assert "would be faster, but needs a C++ compiler (c++)" in result.stdout
    assert result.stderr == ""


def test_status_says_that_a_build_runs_and_lists_no_files_of_its_own(tmp_path: Path):
    builder = engine.EngineBuilder(tmp_path / "cache" / "toolspeak", {})
    builder.folder.mkdir(parents=True)
    (builder.folder / "ggml-vocab.gguf").write_bytes(b"GGUF")
    assert f"interrupted; log: {builder.log}; would be faster" in run("status").stdout
    with file_lock(builder.folder / "lock"):
        assert f"own build  running now; log: {builder.log}\n" in run("status").stdout
        assert json.loads(run("status", "--json").stdout)["build"] == "running"
    (builder.folder / "failed").touch()
    result = run("status")
    assert "own build  failed; log: " in result.stdout
    assert "weights    0 files\n" in result.stdout


def test_a_build_outside_a_virtual_environment_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    result = run("build")
    assert (result.exit_code, "--outside-venv" in result.stderr) == (2, True)


def test_a_build_without_a_compiler_names_the_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(engine, "missing", lambda environment: {"a C++ compiler (c++)": "g++"})
    result = run("build", "--outside-venv")
    assert result.exit_code == 2
    assert "needs a C++ compiler" in result.stderr and "apt-get install g++" in result.stderr


def test_a_dry_run_prints_commands_and_runs_none(tmp_path: Path):
    result = run("build", "--dry-run")
    assert result.exit_code == 0
    commands = [shlex.split(line) for line in result.stdout.splitlines()]
    assert all("--require-hashes" in command for command in commands if {"download", "--target"} & set(command))
    assert any(
        "-DGGML_NATIVE=ON" in line for line in result.stdout.splitlines() if line.startswith("export CMAKE_ARGS")
    )
    assert not (tmp_path / "cache").exists()


def test_what_is_missing_is_named_with_its_package(tmp_path: Path):
    found = missing({"PATH": str(tmp_path)})
    assert found["a C++ compiler (c++)"] == "g++"
    assert "a C++ compiler (c++)" not in missing({"PATH": str(tmp_path), "CXX": f"{sys.executable} --flag"})


@check_each("file", sorted(REQUIREMENTS.glob("engine-*.txt")), ids=lambda file: file.stem)
def test_every_requirement_has_one_version_and_hashes(file: Path):
    requirements = re.sub(r"#.*\n", "", file.read_text(encoding="utf-8")).replace("\\\n", "").splitlines()
    assert requirements
    assert [
        line for line in requirements if not re.fullmatch(r"[a-z]+==\S+(\s+--hash=sha256:[0-9a-f]{64})+", line)
    ] == []


def test_the_sources_are_those_of_the_locked_version():
    lock = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
    locked = lock.partition("\nxllamacpp==")[2].partition("# via")[0]
    version, digest = re.findall(
        r"==(\S+)|sha256:(\w+)", (REQUIREMENTS / "engine-source.txt").read_text(encoding="utf-8")
    )
    assert locked.startswith(f"{version[0]} ") and digest[1] in locked, "change engine-source.txt to the locked version"
