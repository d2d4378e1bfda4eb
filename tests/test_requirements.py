"""Every listed behaviour has a test, and every mark names a listed behaviour."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.requirements import REQUIREMENTS

pytestmark = pytest.mark.no_cover
TESTS = Path(__file__).parent


def marked(source: str) -> Iterator[str]:
    """The ids in the `pytest.mark.requirement(...)` calls of a test file; decorators and `pytestmark` alike."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "requirement":
            for argument in node.args:
                # Anything but a plain string could hide an id from this check.
                assert isinstance(argument, ast.Constant), f"line {node.lineno}: write the id as a string"
                assert isinstance(argument.value, str), f"line {node.lineno}: write the id as a string"
                yield argument.value


@cache
def marks() -> dict[str, set[str]]:
    """Id -> the test files that carry it."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(TESTS.rglob("test_*.py")):
        if path != Path(__file__):
            for identifier in marked(path.read_text(encoding="utf-8")):
                found[identifier].add(path.relative_to(TESTS).as_posix())
    return found


def test_marks_are_found_on_functions_modules_and_parameters():
    source = """
import pytest
pytestmark = [pytest.mark.requirement("A"), pytest.mark.no_cover]
@pytest.mark.requirement("B", "C")
def test_x(): ...
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.requirement("D"))])
def test_y(x): ...
"""
    assert sorted(marked(source)) == ["A", "B", "C", "D"]


def test_every_behaviour_has_a_test():
    missing = REQUIREMENTS.keys() - marks().keys()
    assert not missing, f"no test carries {sorted(missing)}"


def test_every_mark_names_a_behaviour():
    unknown = {identifier: sorted(files) for identifier, files in marks().items() if identifier not in REQUIREMENTS}
    assert not unknown


def test_every_behaviour_is_one_sentence():
    for identifier, sentence in REQUIREMENTS.items():
        assert sentence.endswith("."), identifier
        assert len(sentence) <= 240, identifier
