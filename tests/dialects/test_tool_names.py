"""Tool names may be written in any language, in every dialect."""

from __future__ import annotations

import pytest

import toolspeak as ts
from tests.cases import check_each
from toolspeak.core.types import ToolCall
from toolspeak.dialects.registry import DIALECTS, render_calls

NAMES = (
    "get-weather",
    "météo",
    "获取天气",
    "погода_сейчас",
    "天気.取得",
    "मौसम_जानकारी",
    "อากาศวันนี้",
    "مناخ_اليوم",
    "날씨",
)
ARGUMENTS = {"город": "Köln", "n": 3}
PARAMETERS = {"type": "object", "properties": {"город": {"type": "string"}, "n": {"type": "integer"}}}


@pytest.mark.requirement("B3")
@check_each("dialect", DIALECTS)
@check_each("name", NAMES)
def test_a_name_of_any_language_is_read_in_every_dialect(name: str, dialect: str):
    tools = [ts.Tool(name, parameters=PARAMETERS)]
    text = render_calls(dialect, [ToolCall(name, ARGUMENTS)])
    for calls in (ts.parse(text, tools).calls, ts.parse(text, tools, dialect=dialect).calls):
        assert [(call.name, call.arguments) for call in calls] == [(name, ARGUMENTS)]
