"""What the linters do not check: sizes, docstrings, and that no module escapes the import contracts."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_cover
ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src" / "toolspeak").rglob("*.py"))
MOST_LINES_IN_A_FILE = 600
MOST_LINES_IN_A_FUNCTION = 50

by_file = pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT / "src").as_posix())


@by_file
def test_files_are_short(path: Path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES_IN_A_FILE


@by_file
def test_functions_are_short(path: Path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    long = [
        f"line {node.lineno}: {node.name} has {length} lines"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MOST_LINES_IN_A_FUNCTION
    ]
    assert not long


@by_file
def test_modules_say_what_they_are(path: Path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_every_module_stands_in_a_layer():
    layers = _contract("layers")["layers"]
    placed = {name.strip("() \n") for layer in layers for name in layer.replace("|", ":").split(":")}
    escaped = [module for module in _modules() if not any(_within(module, name) for name in placed)]
    assert not escaped, f"name them in the layers contract of pyproject.toml: {escaped}"


def _contract(identifier: str) -> dict[str, list[str]]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return next(each for each in config["tool"]["importlinter"]["contracts"] if each["id"] == identifier)


def _modules() -> Iterator[str]:
    """Every module but the two package fronts that only gather names."""
    for path in SOURCES:
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        module = ".".join(parts).removesuffix(".__init__")
        if module not in ("toolspeak", "toolspeak.core"):
            yield module


def _within(module: str, name: str) -> bool:
    return module == name or module.startswith(f"{name}.")
