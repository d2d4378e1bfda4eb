"""Patterns of calls: what they cover, and what they never cover."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each, size
from tests.time_growth import assert_linear
from toolspeak.core.types import JSONObject, JSONValue, Tool
from toolspeak.errors import UsageError
from toolspeak.tools.approval_patterns import matches, parse_pattern, parse_patterns

SHELL = Tool("shell", "", {"type": "object", "properties": {"command": {}, "timeout": {}}})


@check_each(
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
        # Nor however that is written: after a blank, in quotes, as names that the shell fills in.
        ("shell(cat docs/*)", "cat docs/a", True),
        ("shell(cat docs/*)", "cat docs/a/b.md", True),
        ("shell(cat docs/*)", "cat docs/a ../secret", False),
        ("shell(cat docs/*)", "cat docs/a\t../secret", False),
        ("shell(cat docs/*)", 'cat docs/".."/x', False),
        ("shell(cat docs/*)", "cat docs/'..'/x", False),
        ("shell(cat docs/*)", 'cat docs/.""./x', False),
        ("shell(cat docs/*)", "cat docs/.\\./x", False),
        ("shell(cat docs/*)", "cat docs/.[.]/x", False),
        ("shell(cat docs/*)", "cat docs/.?/x", False),
        ("shell(cat docs/*)", "cat docs/.*/x", False),
        ("shell(cat docs/.*)", "cat docs/../x", False),
        ("shell(cat docs/.*)", "cat docs/.hidden", True),
        ("shell(cat docs/*.)", "cat docs/..", False),
        ("shell(cat docs/*)", "cat docs/$PARENT/x", False),
        ("shell(cat docs/*)", "cat docs/{..,a}/x", False),
        ("shell(cat docs/*)", "cat docs/a ~/.netrc", False),
        ("shell(cat docs/*)", "cat docs/a ~root/x", False),
        ("shell(git log *)", "git log a..b", False),
        # A star that goes on with a path ends where the word does.
        ("shell(cat docs/*)", "cat docs/a /etc/passwd", False),
        ("shell(cat docs/*)", "cat docs/a secret", False),
        ("shell(cat docs/a*)", "cat docs/ab secret", False),
        ("shell(cp docs/* *.md)", "cp docs/a b c.md", True),
        ("shell(cp docs/* to *)", "cp docs/a b to c", False),
        ("shell(cat *)", "cat a b", True),
        # What is written out is what is meant.
        ('shell(git commit -m "*")', 'git commit -m "All that is new"', True),
        ('shell(git commit -m "*")', 'git commit -m "a" "b"', False),
        ("shell(cat ../docs/*)", "cat ../docs/a", True),
        ("shell(cat ../docs/*)", "cat ../docs/../a", False),
        ("shell(git log | head*)", "git log | head -5", True),
        ("shell(git log | head*)", "git log | head -5 | sh", False),
        ("shell(a && b)", "a && b", True),
    ],
)
def test_a_pattern_covers_what_it_says(rule: str, command: str, covered: bool):
    assert parse_pattern(rule).covers(SHELL, {"timeout": 3, "command": command}) is covered


def test_the_argument_compared_is_the_first_of_the_schema():
    assert not parse_pattern("shell(x*)").covers(SHELL, {"timeout": "xx"})
    assert not parse_pattern("shell(x*)").covers(SHELL, {"command": 7})
    assert parse_pattern("free(x*)").covers(Tool("free"), {"a": "xy", "b": "z"})
    assert not parse_pattern("free(x*)").covers(Tool("free"), {})


@check_each(
    "command",
    [
        "git push",
        "git push origin $B",
        "git  push origin main",
        "git \\\n push",
        "rm -rf ${HOME}",
        "rm x; true",
        "  rm x",
        "\trm x",
        "true; rm x",
        "true && rm x",
        "false || rm x",
        "ls | rm x",
        "true & rm x",
        "true\nrm x",
        "echo $(rm x)",
        "echo `rm x`",
        "(rm x)",
        "{ rm x; }",
        "cat <(rm x)",
        "true; rm $(cat list)",
        "echo $(rm `cat list`)",
        "rm <(x)",
        "rm a/../b",
        "/bin/rm x",
        "true; /bin/rm x",
        "\\rm x",
        "'rm' x",
        'bash -c "rm x"',
        "A=b sudo -n rm x",
        "if true; then rm x; fi",
        "ls | xargs -0 rm -f",
    ],
)
def test_a_rule_that_forbids_holds_however_the_command_is_reached(command: str):
    rules = parse_patterns(["shell(git push*)", "shell(rm *)"])
    assert any(rule.touches(SHELL, {"command": command}) for rule in rules)


@check_each("command", ["git pull", "echo rm", "rmdir x", "farm x", "git log --oneline; ls", "sudo", ""])
def test_a_rule_that_forbids_leaves_other_commands_alone(command: str):
    rules = parse_patterns(["shell(git push*)", "shell(rm *)", "read_file"])
    assert not any(rule.touches(SHELL, {"command": command}) for rule in rules)


@check_each(
    ("rule", "value", "touched"),
    [
        ("shell", "anything", True),
        ("shell(git push)", "true; git push", True),
        ("shell(git push)", "echo `git push`", True),
        ("shell(git push)", "git push origin", False),
        ("shell(docs/secret*)", "./docs//secret.txt", True),
        ("shell(docs/secret*)", "a/../docs/secret.txt", True),
        ("shell(docs/secret*)", "/srv/docs/secret.txt", True),
        ("shell(docs/secret*)", "docs/open.txt", False),
        ("shell(docs/*)", "src/docs/a", False),
        ("shell(rm *)", ["rm", "-rf", "x"], True),
        ("shell(rm 1*)", ["rm", 12], True),
        ("shell(12*)", 123, True),
        ("shell(12*)", None, False),
    ],
)
def test_a_rule_that_forbids_reads_paths_and_values_leniently(rule: str, value: JSONValue, touched: bool):
    assert parse_pattern(rule).touches(SHELL, {"command": value}) is touched


@given(st.text("ab*;$( `", max_size=12), st.text("ab;$( `/.'", max_size=20))
def test_what_a_rule_would_allow_it_also_forbids(glob: str, command: str):
    rule = parse_pattern(f"shell({glob})")
    arguments: JSONObject = {"command": command}
    assert rule.touches(SHELL, arguments) >= rule.covers(SHELL, arguments)


LENGTH = size(10_000, 100_000)


@pytest.mark.requirement("R-T12")
@pytest.mark.parametrize("unit", ["a;", "rm`", "(", "sudo ", "'\\\n", "/../"])
def test_forbidding_takes_time_linear_in_the_text(unit: str):
    rule = parse_pattern("shell(*rm*x*y)")
    assert_linear(lambda size: lambda: rule.touches(SHELL, {"command": unit * size}), LENGTH)


@check_each("text", ["", "(x)", "shell(x", "two words", "x" * 1001])
def test_what_is_no_pattern_is_refused(text: str):
    with pytest.raises(UsageError):
        parse_pattern(text)


def test_one_text_is_no_list_of_patterns():
    with pytest.raises(UsageError, match="wrap a single pattern"):
        parse_patterns("shell")


def test_a_pattern_shows_itself_as_it_was_written():
    assert [str(each) for each in parse_patterns(["shell", parse_pattern("shell(git *)")])] == ["shell", "shell(git *)"]


@given(st.text("ab*", max_size=12), st.text("ab", max_size=20))
def test_a_star_is_any_text_as_a_regular_expression_would_have_it(glob: str, text: str):
    expected = re.fullmatch(".*".join(re.escape(part) for part in glob.split("*")), text, re.DOTALL) is not None
    assert matches(glob, text) is expected


@pytest.mark.requirement("R-T12")
def test_matching_takes_time_linear_in_the_text():
    glob = "*a" * 200 + "*b*c"
    assert_linear(lambda size: lambda: matches(glob, "a" * size), 8_000_000)
