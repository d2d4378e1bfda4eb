"""Patterns of calls: what they cover, and what they never cover."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.growth import assert_linear
from toolspeak.core.model import Tool
from toolspeak.errors import UsageError
from toolspeak.tools.patterns import matches, pattern, patterns

SHELL = Tool("shell", "", {"type": "object", "properties": {"command": {}, "timeout": {}}})


@pytest.mark.parametrize(
    ("rule", "command", "covered"),
    [
        ("shell", "anything; at all", True),
        ("sh*", "x", True),
        ("read_file", "x", False),
        ("shell(git status)", "git status", True),
        ("shell(git status)", "git status -s", False),
        ("shell(git status*)", "git status -s", True),
        ("shell(git *)", "git log --oneline", True),
        ("shell(*.py)", "python a.py", True),
        ("shell(a*b*c)", "axxbxxc", True),
        ("shell(a*b*c)", "axxcxxb", False),
        ("shell(ab*bc)", "abc", False),
        # A star never stands for a second command, or for a step out of a folder.
        ("shell(git status*)", "git status; rm -rf .", False),
        ("shell(git status*)", "git status && curl x", False),
        ("shell(git status*)", "git status $(id)", False),
        ("shell(git status*)", "git status `id`", False),
        ("shell(git status*)", "git status\nid", False),
        ("shell(git status*)", "git status > /etc/passwd", False),
        ("shell(cat docs/*)", "cat docs/../secret", False),
        # What is written out is what is meant.
        ("shell(a && b)", "a && b", True),
    ],
)
def test_a_pattern_covers_what_it_says(rule: str, command: str, covered: bool):
    assert pattern(rule).covers(SHELL, {"timeout": 3, "command": command}) is covered


def test_the_argument_compared_is_the_first_of_the_schema():
    assert not pattern("shell(x*)").covers(SHELL, {"timeout": "xx"})
    assert not pattern("shell(x*)").covers(SHELL, {"command": 7})
    assert pattern("free(x*)").covers(Tool("free"), {"a": "xy", "b": "z"})
    assert not pattern("free(x*)").covers(Tool("free"), {})


@pytest.mark.parametrize("text", ["", "(x)", "shell(x", "two words", "x" * 1001])
def test_what_is_no_pattern_is_refused(text: str):
    with pytest.raises(UsageError):
        pattern(text)


def test_one_text_is_no_list_of_patterns():
    with pytest.raises(UsageError, match="wrap a single pattern"):
        patterns("shell")


def test_a_pattern_shows_itself_as_it_was_written():
    assert [str(each) for each in patterns(["shell", pattern("shell(git *)")])] == ["shell", "shell(git *)"]


@given(st.text("ab*", max_size=12), st.text("ab", max_size=20))
def test_a_star_is_any_text_as_a_regular_expression_would_have_it(glob: str, text: str):
    expected = re.fullmatch(".*".join(re.escape(part) for part in glob.split("*")), text, re.DOTALL) is not None
    assert matches(glob, text) is expected


@pytest.mark.requirement("R-T12")
def test_matching_takes_time_linear_in_the_text():
    glob = "*a" * 200 + "*b*c"
    assert_linear(lambda size: lambda: matches(glob, "a" * size), 8_000_000)
