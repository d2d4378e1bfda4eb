"""A name in another spelling means the tool, if it is the only one, wherever a call names its tool."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from tests.dialects.answer_helpers import by_character
from toolspeak import Tool, parse, render_calls
from toolspeak.core.types import ToolCall
from toolspeak.dialects.registry import DIALECTS

pytestmark = pytest.mark.requirement("B13")

PARAMETERS = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
SEARCH = Tool("web_search", parameters=PARAMETERS)
CALL = [("web_search", {"query": "cats"})]
FORMS = (
    "<{}><query>cats</query></{}>",
    "<{}>\n<Query>\ncats\n</Query>\n</{}>",
    '<{}>{{"query": "cats"}}</{}>',
    '{}(query="cats")',
    '{}\n{{"query": "cats"}}',
    '{}{{"query": "cats"}}',
    '{{"{}": {{"query": "cats"}}}}',
    '[{}]\n{{"query": "cats"}}\n[END_TOOL_REQUEST]',
)


@check_each("name", ["Web_Search", "web-search", "WEB_SEARCH"])
@check_each("dialect", DIALECTS)
def test_every_dialect_forgives_the_spelling_of_a_name(dialect: str, name: str):
    text = render_calls(dialect, [ToolCall(name, {"query": "cats"})])
    reply = parse(text, [SEARCH])
    assert [(call.name, call.arguments) for call in reply.calls] == CALL
    assert "name_spelling" in {note.code for note in reply.calls[0].notes}


@check_each("name", ["Web_Search", "web-search", "WEB_SEARCH"])
@check_each("form", FORMS)
def test_a_mark_that_is_the_name_may_be_spelled_otherwise(form: str, name: str):
    text = form.format(name, name)
    assert [(call.name, call.arguments) for call in parse(text, [SEARCH]).calls] == CALL
    assert by_character(text, tools=[SEARCH]) == parse(text, [SEARCH])


@check_each("text", ["<Web_Search><query>cats</query></Web_Search>", 'Web_Search(query="cats")'])
def test_a_spelling_that_two_tools_share_names_neither(text: str):
    assert not parse(text, [SEARCH, Tool("web-search", parameters=PARAMETERS)]).calls


@check_each(
    "text",
    [
        "Web_Search (query) finds pages.",
        "Web_Search: finds pages.",
        "Web_Searching(query)",
        "Web_Search <b>finds</b> pages.",
        "Web_Search\n<b>pages</b>",
        "Web_Search:\n{}",
    ],
)
def test_a_sentence_about_the_tool_is_text(text: str):
    assert not parse(text, [SEARCH]).calls
