"""Texts that show, define or describe calls, each beside a similar text that makes one."""

from __future__ import annotations

from typing import Any

import pytest

import toolspeak as ts
from tests.cases import check_each

pytestmark = pytest.mark.requirement("B7", "B14")


def tool(name: str, required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    types = {key: value if isinstance(value, dict) else {"type": value} for key, value in properties.items()}
    parameters = {"type": "object", "properties": types, "required": list(required)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = [
    tool("search", ("query",), query="string", limit="integer"),
    tool("read_file", ("path",), path="string", offset="integer"),
    tool("add_field", ("kind",), kind={"enum": ["string", "integer"]}),
    tool("print", ("text",), text="string"),
    tool("main"),
    tool("now"),
    tool("task", ("title",), title="string"),
    tool("shell", ("command",), command="string"),
]


def calls(text: str) -> list[tuple[str, Any]]:
    """The calls in a text, which must be the same however the text arrives."""
    whole = ts.parse(text, tools=TOOLS)
    scanner = ts.Scanner(tools=TOOLS)
    events = [event for char in text for event in scanner.feed(char)]
    streamed = ts.fold([*events, *scanner.close()])
    assert (streamed.calls, streamed.text, streamed.candidates) == (whole.calls, whole.text, whole.candidates)
    return [(call.name, call.arguments) for call in whole.calls]


#: Behind these words a call in Python's syntax is marked.
PYTHON_MARKS = ("", "Action: ", "Call: ", "<|python_tag|>", "[Calling tool: ")


@check_each("mark", PYTHON_MARKS)
@check_each(
    "text",
    [
        "search(query)",
        "search(query, limit=10)",
        "search(query, limit)",
        "search(query=query)",
        "search(query: string)",
        "search(query: string, limit: int)",
        "search(query=str)",
        "search(query=...)",
        "read_file(path[, offset])",
        "read_file(path?)",
    ],
)
def test_a_bare_word_that_names_its_parameter_or_a_type_makes_a_signature(mark: str, text: str):
    assert calls(mark + text + ("]" if mark.startswith("[") else "")) == []


@check_each("mark", PYTHON_MARKS)
@check_each(
    "text, expected",
    [
        ('search("query")', ("search", {"query": "query"})),
        ('search(query="query", limit=10)', ("search", {"query": "query", "limit": 10})),
        ('search(query="string")', ("search", {"query": "string"})),
        ("search(query=strings)", ("search", {"query": "strings"})),
        ("search(query=limit)", ("search", {"query": "limit"})),
        ("add_field(kind=string)", ("add_field", {"kind": "string"})),
    ],
)
def test_quoted_words_and_other_bare_words_are_values(mark: str, text: str, expected: tuple[str, Any]):
    assert calls(mark + text + ("]" if mark.startswith("[") else "")) == [expected]


@check_each("text", ["print(f(2)(4))", "[print(f(x))]", "print(items[0])"])
def test_an_argument_with_brackets_but_without_quotes_makes_a_python_call_code(text: str):
    assert calls(text) == []


@check_each("text, value", [("print(two words)", "two words"), ('print("f(2)(4)")', "f(2)(4)"), ("print(4)", "4")])
def test_words_and_literals_are_arguments_of_a_python_call(text: str, value: str):
    assert calls(text) == [("print", {"text": value})]


TAGGED = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
LISTED = '[{"name": "now", "arguments": {}}]'


@check_each(
    "text",
    [
        f'x = """{TAGGED}"""',
        f"x = '''{TAGGED}'''",
        f"calls = {LISTED}",
        f"calls={LISTED}",
        f"assert parse(x) == {LISTED}",
        'call = {"name": "now", "arguments": {}}',
        f"// {TAGGED}\nint x;",
        f"//{TAGGED}",
        f"# {TAGGED}",
        f"x = 1\n    # {TAGGED}\n",
        f"-{TAGGED}\n+{TAGGED}",
        f"@@ -1 +1 @@\n+{TAGGED}\n",
        f"\\{TAGGED}",
        f"Write \\{TAGGED}",
    ],
)
def test_strings_assignments_comments_and_lines_of_a_diff_are_code(text: str):
    assert calls(text) == []


@check_each(
    "text",
    [
        f'"{TAGGED}"',
        f"- {TAGGED}",
        f"* {TAGGED}",
        f"# Time\n{TAGGED}",
        f"## Time {TAGGED}",
        f"I look => {TAGGED}",
        f"Call: {LISTED}",
        f"a / b\n{TAGGED}",
        f"+1\n{TAGGED}",
    ],
)
def test_items_headings_and_signs_elsewhere_in_the_text_leave_calls_alone(text: str):
    assert calls(text) == [("now", {})]


@check_each(
    "text",
    [
        'if __name__ == "__main__":\n    main()',
        "if x:\n    now()\n",
        "for i in x:\n\tmain()",
        'def search(query):\n    return []\n\nsearch(query="x")',
        'Here it is:\n\ndef search(query): ...\n\nsearch(query="x")\n',
        "function now() {\n  return 1\n}\nnow()",
        "import time\n\nnow()",
        "class A:\n    def now(self): ...\n\nnow()",
        "#!/usr/bin/env python\nmain()",
    ],
)
def test_a_python_call_in_a_program_is_code(text: str):
    assert calls(text) == []


@check_each(
    "text",
    [
        "now()",
        "I look it up:\nnow()",
        "I look it up:\n\n    now()",
        "1. Time:\n   now()",
        "    now()",
        "The function tells the time.\nnow()",
        "I define what def means.\nnow()",
    ],
)
def test_a_python_call_behind_prose_counts(text: str):
    assert calls(text) == [("now", {})]


@check_each("text", [f"def f(): ...\n{TAGGED}", f"if x:\n    {TAGGED}", "import x\n\n[now()]"])
def test_a_program_does_not_hide_marked_calls_and_lists(text: str):
    assert calls(text) == [("now", {})]


@check_each(
    "text",
    [
        'search(query="x")?',
        'search(query="x"):',
        'now();\nsearch("x");',
        "now(), and so on",
        "[now()]?",
        "Call: now() was not answered.",
        "Action: now(), then rest.",
        "[Calling tool: now()] was printed in the log.",
        "See [Calling tool: now()] for this.",
        "[now()]\nis a list with one call.",
        "The list:\n\n[now()]\n\nshows it.",
        "[now()].\n\nand so on",
        "[Calling tool: now()]\nis a log line",
        "Call: now()\nis how it works",
    ],
)
def test_a_python_call_in_a_sentence_or_a_statement_is_text(text: str):
    assert calls(text) == []


@check_each(
    "text",
    [
        "now().",
        "[now()]\n",
        "[now()]\n\nI am waiting.",
        "[now()]\n\nok",
        "[now()]\n" + "\n" * 5000,
        "[now()]\n<think>x</think>",
        "[now()]\nObservation: 12:00",
        "Call: now()",
        "Call: now()\nI am waiting.",
        "Action: now()\nObservation: 12:00",
        "Thought: I look.\nAction: now()<|im_end|>",
        "I look [Calling tool: now({})]",
        "[Calling tool: now({})]\nI am waiting.",
        "[Calling tool: now({})] Done.",
        "Call: now() I am waiting.",
    ],
)
def test_a_python_call_alone_on_its_line_counts(text: str):
    assert calls(text) == [("now", {})]


@check_each(
    "text",
    [
        "[now()]\n[now()]",
        "[now()]\nnow()",
        f"[now()]\n{TAGGED}",
        "Action: now()\nAction: now()",
        "[Calling tool: now()] [Calling tool: now()]",
    ],
)
def test_calls_may_follow_one_another(text: str):
    assert calls(text) == [("now", {})] * 2


CALL = '{"name": "now", "arguments": {}}'


@check_each(
    "text",
    [
        '[{"name": "search", "description": "Searches", "parameters": {"type": "object"}}, {"name": "now", "parameters": {}}]',
        f'{{"messages": [{{"role": "assistant", "tool_calls": [{CALL}]}}]}}',
        '{"messages": [\n  {"role": "assistant",\n   "tool_calls": [{"function": {"name": "now", "arguments": "{}"}}]}\n]}',
        f'{{"choices": [{{"message": {{"tool_calls": [{CALL}]}}}}]}}',
        f'{{"jsonrpc": "2.0", "method": "tools/call", "params": {CALL}}}',
    ],
)
def test_a_call_inside_other_json_is_data(text: str):
    assert calls(text) == []


@check_each(
    "text",
    [CALL, f"I look: {CALL}", f"[{CALL}]", f"I look: [{CALL}]", f'{{"tool_calls": [{CALL}]}}'],
)
def test_json_that_is_only_the_call_counts(text: str):
    assert calls(text) == [("now", {})]


@check_each(
    "text",
    [
        f"<tool_response>\n{CALL}\n</tool_response>",
        f"It answered:\n<tool_result>{TAGGED}</tool_result>\n",
        "<observation>\n[now()]\n</observation>",
    ],
)
def test_a_call_inside_a_result_is_data(text: str):
    assert calls(text) == []


@check_each(
    "text",
    [
        f"<tool_response>\n12:00\n</tool_response>\n{TAGGED}",
        f"The tag <tool_response> holds results.\n{TAGGED}",
        f"{TAGGED}\n<tool_response>\n{CALL}\n</tool_response>",
        f"<|im_start|>assistant\n{TAGGED}",
    ],
)
def test_a_call_outside_a_result_counts(text: str):
    assert calls(text) == [("now", {})]


@check_each(
    "text",
    [
        "<search>Let me search for that.</search>",
        "<search>\nI will look it up now!\n</search>",
        "<shell>Let me look at the files first.</shell>",
        "<shell>Is this the right file?</shell>",
    ],
)
def test_a_sentence_between_the_tags_of_a_tool_is_a_remark(text: str):
    assert calls(text) == []


@check_each(
    "text, expected",
    [
        ("<search>weather in Paris</search>", ("search", {"query": "weather in Paris"})),
        ("<search>Who won the cup?</search>", ("search", {"query": "Who won the cup?"})),
        ("<search>Paris, France.</search>", ("search", {"query": "Paris, France."})),
        ("<print>I have finished the task.</print>", ("print", {"text": "I have finished the task."})),
        ("<search><query>Find all the files.</query></search>", ("search", {"query": "Find all the files."})),
        ("<shell>ls -la</shell>", ("shell", {"command": "ls -la"})),
    ],
)
def test_other_text_between_the_tags_of_a_tool_is_its_argument(text: str, expected: tuple[str, Any]):
    assert calls(text) == [expected]


@check_each(
    "text",
    [
        "<project>\n  <task>\n    <title>d</title>\n  </task>\n</project>",
        "<svg>\n<search>\n<query>q</query>\n</search>\n</svg>",
        '<svg xmlns="http://www.w3.org/2000/svg">\n<search>\n<query>q</query>\n</search>\n</svg>',
        f"<pre>\n{TAGGED}\n</pre>\nThat is it.",
    ],
)
def test_an_element_of_a_document_is_no_call(text: str):
    assert calls(text) == []


@check_each(
    "text",
    [
        f"<svg>\n<rect/>\n</svg>\n{TAGGED}",
        f"I draw an <svg> for you.\n{TAGGED}",
        f"<plan>\n{TAGGED}\n</plan>",
        "<actions>\n<now></now>\n</actions>",
        f"<pre/>\n{TAGGED}",
    ],
)
def test_calls_behind_a_document_and_in_other_elements_count(text: str):
    assert calls(text) == [("now", {})]
