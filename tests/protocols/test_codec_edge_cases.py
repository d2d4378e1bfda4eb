"""Corners of the codecs that no real request shows: what is empty, what is no JSON, what has only a name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases import check_each
from toolspeak.core.types import Message, Options, Request, ResponseFormat, TextPart, tools_from
from toolspeak.errors import UsageError
from toolspeak.protocols import gemini, openai_chat
from toolspeak.protocols.shared.fields import to_wire

HI = Message("user", (TextPart("Hi"),))


def test_a_message_that_says_nothing_is_no_content_for_gemini():
    sent = json.loads(gemini.encode_request(Request("m", (HI, Message("assistant"), HI))))
    assert [each["role"] for each in sent["contents"]] == ["user", "user"]


@check_each("form", [ResponseFormat(name="city"), ResponseFormat(name="city", strict=True)])
def test_a_format_may_have_a_name_and_no_schema(form: ResponseFormat):
    sent = json.loads(openai_chat.encode_request(Request("m", (HI,), options=Options(response_format=form))))
    assert sent["response_format"]["json_schema"]["name"] == "city"
    assert "schema" not in sent["response_format"]["json_schema"]


@check_each("value", [{"a": object()}, [object()]])
def test_what_is_no_json_is_the_callers_mistake(value: Any):
    with pytest.raises(UsageError, match="is not JSON"):
        to_wire(value)


class Plain:
    """No schema."""


class Broken:
    @staticmethod
    def model_json_schema() -> Any:
        raise RuntimeError("no")


class Odd:
    @staticmethod
    def model_json_schema() -> Any:
        return []


class Fine:
    """Looks something up."""

    @staticmethod
    def model_json_schema() -> Any:
        return {"type": "object", "title": "Fine", "properties": {}}


@check_each(
    ("given", "why"), [(Plain, "is not a tool"), (Broken, "cannot generate a JSON schema"), (Odd, "must be an object")]
)
def test_a_class_that_tells_no_schema_is_no_tool(given: type, why: str):
    with pytest.raises(UsageError, match=why):
        tools_from([given])


def test_a_class_is_the_same_tool_every_time():
    first, again = tools_from([Fine]), tools_from([Fine])
    assert first is not None and again is not None
    assert first[0] is again[0]
    assert (first[0].name, first[0].description) == ("Fine", "Looks something up.")
