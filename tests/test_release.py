"""`make release`: the version and the changelog of a release, and what it refuses."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cases import check_each

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "scripts" / "release.py"

pytestmark = pytest.mark.requirement("K5")


@pytest.fixture(scope="module")
def release() -> Any:
    spec = importlib.util.spec_from_file_location("release", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_unreleased_changes_become_the_section_of_the_version(release: Any):
    text = release.released("# Changelog\n\n## [Unreleased]\n\n- New.\n\n## [0.1.0] - 2026-01-01\n", "0.2.0")
    before, _, after = text.partition("## [0.2.0] - ")
    assert before == "# Changelog\n\n## [Unreleased]\n\n"
    assert after.partition("\n")[2] == "\n- New.\n\n## [0.1.0] - 2026-01-01\n"


@check_each("changelog", ["# Changelog\n", "## [Unreleased]\n\n## [0.1.0]\n- Old.\n"])
def test_a_release_without_changes_is_refused(changelog: str):
    command = [sys.executable, "-c", "import sys, release; release.released(sys.argv[1], '0.2.0')", changelog]
    run = subprocess.run(command, cwd=SCRIPT.parent, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (1, "error: the changelog has no unreleased changes\n")


@check_each("version", ["", "1", "0.2", "v0.2.0", "0.2.0-beta", "0.2.0; rm"])
def test_a_version_is_checked_first(version: str):
    run = subprocess.run([sys.executable, SCRIPT, version], capture_output=True, text=True, check=False)
    assert run.returncode == 1 and "make release VERSION=" in run.stderr


def test_the_dependencies_of_a_release_are_those_of_the_project(release: Any):
    listed = release.dependencies((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    names = {line.partition("==")[0] for line in listed.splitlines()}
    assert {"click", "msgspec", "sqlalchemy", "uvicorn", "xllamacpp"} <= names
    assert not {"pytest", "hypothesis", "ruff"} & names
