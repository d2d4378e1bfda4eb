"""A call may be written in YAML between marks. Its values end where YAML says so."""

from __future__ import annotations

import pytest

from tests.dialects.answer_helpers import Case, check, each
from toolspeak.dialects.yaml_calls import _MAX_LINE

pytestmark = pytest.mark.requirement("B3", "B12")

SAVE = (("save", {"path": "a.txt", "n": 3}),)
CALLS = [
    Case("a mapping of arguments", "<tool_call>\nname: save\narguments:\n  path: a.txt\n  n: 3\n</tool_call>", SAVE),
    Case("other keys", "<tool_call>\ntool: save\nargs:\n  path: a.txt\n  n: 3\n</tool_call>", SAVE),
    Case("an object", '<tool_call>name: save\nparameters: {"path": "a.txt", "n": 3}</tool_call>', SAVE),
    Case("flat arguments", "<tool_call>\nname: save\npath: a.txt\nn: 3\n</tool_call>", SAVE),
    Case("a fence", "```tool_call\nname: save\npath: a.txt\nn: 3\n```", SAVE),
    Case("no arguments", "<tool_call>\nname: ping\narguments:\n</tool_call>", (("ping", {}),)),
    Case(
        "two blocks, then text",
        "<tool_call>\nname: ping\n</tool_call>\n<tool_call>\nname: ping\n</tool_call> Done.",
        (("ping", {}), ("ping", {})),
        said="\n Done.",
    ),
    Case(
        "a closing tag in the middle of a line",
        "<tool_call>\nname: run\ncommand: grep '</tool_call>' src\n</tool_call>",
        (("run", {"command": "grep '</tool_call>' src"}),),
    ),
    Case(
        "a closing tag in a block of text",
        "<tool_call>\nname: run\ncommand: |\n  cat <<E\n  </tool_call>\n  E\n</tool_call>",
        (("run", {"command": "cat <<E\n</tool_call>\nE\n"}),),
    ),
]


@each(CALLS)
def test_yaml_between_marks_is_a_call(case: Case):
    check(case)


TEXTS = [
    Case("no name", "<tool_call>\nname: 3\npath: a\n</tool_call>"),
    Case("no YAML", "<tool_call>\nname: save it\n  as: a\n</tool_call>"),
    Case(
        "an unknown tool",
        "<tool_call>\nname: nothing\npath: a\n</tool_call>",
        verdicts=(("nothing", "text", "unknown_tool"),),
        codes={"unknown_tool"},
    ),
    Case("no end", "<tool_call>\nname: save\npath: a.t"),
    Case("a line that is too long", f"<tool_call>\nname: run\ncommand: {'x' * _MAX_LINE}\n</tool_call>"),
]


@each(TEXTS)
def test_what_is_no_whole_call_in_yaml_stays_text(case: Case):
    check(case._replace(said=case.text))
