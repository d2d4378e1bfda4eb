"""The tutorials do what they say: every file and command is followed, with scripted models in place of vLLM and Ollama."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import only_at_full_size
from tests.follow_tutorial import BLOCK, TUTORIALS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [DOCS / "tutorials" / f"{name}.md" for name in TUTORIALS]
CHINESE = sorted((DOCS / "zh").glob("*.md"))
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")
#: What must be installed to follow a page: modules, and clients that `make test-clients` installs.
NEEDS = {
    "vllm-and-langchain": ("langchain", "langchain_openai"),
    "ollama-and-claude-code": (".clients/claude-code/installed.txt",),
    "local-agent-with-mcp": ("mcp",),
    "company-gateway": ("openai",),
}


def _missing(page: Path) -> list[str]:
    """Return what is not there."""
    return [
        need
        for need in NEEDS[page.stem]
        if not ((ROOT / need).exists() if "/" in need else importlib.util.find_spec(need))
    ]


def _namespaces() -> bool:
    unshare = shutil.which("unshare")
    return (
        unshare is not None
        and subprocess.run([unshare, "-rn", "true"], check=False, capture_output=True).returncode == 0
    )


@only_at_full_size
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_works_as_printed(page: Path, tmp_path: Path):
    if missing := _missing(page):
        pytest.skip(f"not installed: {', '.join(missing)}")
    if not _namespaces():
        pytest.skip("no network namespace can be made here (`unshare -rn`)")
    command = ["unshare", "-rn", sys.executable, "-m", "tests.follow_tutorial", str(page), str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, check=False, cwd=ROOT, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_tutorial_is_followed():
    assert sorted(page.stem for page in (DOCS / "tutorials").glob("*.md")) == sorted(TUTORIALS)


@pytest.mark.parametrize("page", [*PAGES, *CHINESE], ids=lambda page: page.relative_to(DOCS).as_posix())
def test_links_lead_somewhere(page: Path):
    links = LINK.findall(page.read_text(encoding="utf-8"))
    missing = [link for link, _ in links if link and not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", CHINESE, ids=lambda page: page.name)
def test_chinese_pages_have_the_commands_of_the_english_ones(page: Path):
    english = {*DOCS.rglob("*.md"), ROOT / "README.md"} - set(CHINESE)
    known = {command for path in english for command in _shown_commands(path)}
    assert sorted(_shown_commands(page) - known) == []


def _shown_commands(page: Path) -> set[str]:
    """Return the commands that a page shows, without prompts and comments."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    lines = [
        line.removeprefix("$ ") for kind, _, text in blocks if kind in ("", "console") for line in text.split("\n")
    ]
    return {re.sub(r" +#.*", "", line) for line in lines if line.strip()}


@pytest.mark.parametrize("page", CHINESE, ids=lambda page: page.name)
def test_samples_of_the_chinese_pages_run(page: Path):
    names: dict[str, object] = {}
    for kind, title, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "python" and not title:
            exec(compile(text, str(page), "exec"), names)  # noqa: S102 - our own documentation
