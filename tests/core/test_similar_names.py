"""The tool that a misspelt name probably means."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from toolspeak.core.parsing.tool_index import MAX_NAME_CHARS, MAX_NAMES, SimilarNames
from toolspeak.core.types import Tool


def index(*names: str) -> SimilarNames:
    return SimilarNames(tuple(Tool(name) for name in names))


SOME = index("read_file", "Send-Mail", "shell", "cat")
NEAR = [
    ("read_files", "read_file"),
    ("READ-FILE", "read_file"),
    ("raed_flie", "read_file"),
    ("send_mail", "Send-Mail"),
    ("act", "cat"),
    ("weather", ""),
    ("", ""),
    ("read_file" + "s" * 56, ""),
]


@check_each(("name", "meant"), NEAR)
def test_the_tool_that_was_probably_meant_is_found(name: str, meant: str):
    assert SOME.closest(name) == meant


def test_without_tools_nothing_is_similar():
    assert index().closest("read_file") == ""


def test_names_up_to_a_length_are_compared():
    longest, longer = "f" * MAX_NAME_CHARS, "g" * (MAX_NAME_CHARS + 1)
    assert index(longest).closest("f" * (MAX_NAME_CHARS - 1) + "x") == longest
    assert index(longest).closest(longest + "x") == ""
    assert index(longer).closest(longer[:-1]) == ""


def test_of_many_tools_only_the_first_are_compared():
    others = [f"tool_{'x' * 9}{n}" for n in range(MAX_NAMES - 1)]
    assert index(*others, "read_file").closest("read_fil") == "read_file"
    assert index(*others, "another_tool", "read_file").closest("read_fil") == ""


@pytest.mark.requirement("R-T12")
@check_each("mistake", ["{}s", "the_{}", "{}_tool", "functions_{}"])
def test_the_best_of_many_similar_tools_is_found(mistake: str):
    verbs = ("list", "create", "update", "delete", "search", "close", "merge", "review")
    things = ("issues", "pull_requests", "branches", "commits", "releases", "workflows", "comments", "discussions")
    names = [f"github_{verb}_{thing}_in_a_repository" for verb in verbs for thing in things]
    assert [index(*names).closest(mistake.format(name)) for name in names] == names
