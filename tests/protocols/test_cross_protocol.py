"""Requests on their way from one protocol to another: what has a word there is said, all else is left out and told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.cases import check_each
from toolspeak.core.types import (
    Media,
    Message,
    Options,
    Request,
    ResponseFormat,
    TextPart,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from toolspeak.errors import UsageError
from toolspeak.protocols import anthropic, gemini, ollama, openai_chat, openai_responses

MODULES: dict[str, Any] = {
    "anthropic": anthropic,
    "gemini": gemini,
    "ollama": ollama,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
}
USER = {"role": "user", "content": "hi"}


def responses(*items: dict[str, Any], **fields: Any) -> Request:
    return openai_responses.decode_request({"model": "m", "input": [USER, *items], **fields})


def chat(*messages: dict[str, Any], **fields: Any) -> Request:
    return openai_chat.decode_request({"model": "m", "messages": [USER, *messages], **fields})


def sent(request: Request, name: str) -> dict[str, Any]:
    return json.loads(MODULES[name].encode_request(request))


def codes(request: Request, name: str) -> list[str]:
    return [note.code for note in MODULES[name].request_notes(request)]


# ------------------------------------------------------------------------------------------------------- tools


@pytest.mark.requirement("A13", "G3")
def test_openais_search_among_files_is_not_geminis():
    theirs = responses(tools=[{"type": "file_search", "vector_store_ids": ["vs_1"]}])
    assert "tools" not in sent(theirs, "gemini")
    assert codes(theirs, "gemini") == ["tool_dropped"]
    ours = chat(tools=[{"type": "file_search", "fileSearchStoreNames": ["s"]}])
    assert sent(ours, "gemini")["tools"] == [{"fileSearch": {"fileSearchStoreNames": ["s"]}}]


@pytest.mark.requirement("A13", "G3")
def test_a_strict_tool_is_strict_for_chat_completions_too():
    schema = {"type": "object"}
    flat = responses(tools=[{"type": "function", "name": "f", "parameters": schema, "strict": True}])
    asked = anthropic.decode_request(
        {"model": "m", "messages": [USER], "tools": [{"name": "f", "input_schema": schema, "strict": True}]}
    )
    function = {"name": "f", "parameters": schema, "strict": True}
    for request in (flat, asked):
        assert sent(request, "openai_chat")["tools"] == [{"type": "function", "function": function}]
    loose = responses(tools=[{"type": "function", "name": "f", "parameters": schema, "strict": False}])
    assert "strict" not in sent(loose, "openai_chat")["tools"][0]["function"]


@pytest.mark.requirement("A13", "G3")
def test_the_grammar_of_a_custom_tool_is_said_as_each_of_openais_protocols_does():
    rules = {"syntax": "lark", "definition": "start: /a+/"}
    flat = {"type": "custom", "name": "run", "format": {"type": "grammar", **rules}}
    nested = {"type": "custom", "custom": {"name": "run", "format": {"type": "grammar", "grammar": rules}}}
    assert sent(responses(tools=[flat]), "openai_chat")["tools"] == [nested]
    assert sent(chat(tools=[nested]), "openai_responses")["tools"] == [flat]
    assert sent(responses(tools=[flat]), "openai_responses")["tools"] == [flat]
    assert sent(chat(tools=[nested]), "openai_chat")["tools"] == [nested]
    plain = {"type": "custom", "name": "run", "format": {"type": "text"}}
    assert sent(responses(tools=[plain]), "openai_chat")["tools"][0]["custom"]["format"] == {"type": "text"}


SEARCH, FUNCTION = {"type": "web_search"}, {"type": "function", "name": "f", "parameters": {"type": "object"}}


@pytest.mark.requirement("A13", "G3")
@check_each("name", ["anthropic", "gemini", "ollama", "openai_chat"])
def test_a_choice_of_a_tool_that_cannot_be_sent_is_refused(name: str):
    for choice in (SEARCH, {"type": "allowed_tools", "mode": "required", "tools": [SEARCH]}):
        with pytest.raises(UsageError, match="web_search"):
            sent(responses(tools=[SEARCH, FUNCTION], tool_choice=choice), name)


@pytest.mark.requirement("A13", "G3")
def test_a_choice_of_a_tool_that_cannot_be_sent_to_responses_is_refused():
    bash = {"type": "bash_20250124", "name": "bash"}
    function = {"name": "f", "input_schema": {"type": "object"}}
    asked = {"model": "m", "max_tokens": 1, "messages": [USER], "tools": [bash, function]}
    for tools in ([bash], [bash, function]):
        named = anthropic.decode_request({**asked, "tools": tools, "tool_choice": {"type": "tool", "name": "bash"}})
        for name in ("openai_responses", "openai_chat"):
            with pytest.raises(UsageError, match="`bash`"):
                sent(named, name)
    free = replace(anthropic.decode_request(asked), tool_choice=ToolChoice("auto", ("bash", "f"), parallel=False))
    wire = sent(free, "openai_responses")
    assert wire["tool_choice"]["tools"] == [{"type": "function", "name": "f"}]
    assert wire["parallel_tool_calls"] is False


@pytest.mark.requirement("A13", "G3")
def test_a_choice_among_several_tools_is_one_among_those_that_can_be_sent():
    both = {"type": "allowed_tools", "mode": "auto", "tools": [SEARCH, {"type": "function", "name": "f"}]}
    request = responses(tools=[SEARCH, FUNCTION], tool_choice=both)
    allowed = sent(request, "openai_chat")["tool_choice"]["allowed_tools"]["tools"]
    assert allowed == [{"type": "function", "function": {"name": "f"}}]
    calling = sent(request, "gemini")["toolConfig"]["functionCallingConfig"]
    assert calling == {"mode": "VALIDATED", "allowedFunctionNames": ["f"]}
    none = responses(tools=[SEARCH, FUNCTION], tool_choice={**both, "tools": [SEARCH]})
    assert sent(none, "openai_chat")["tool_choice"] == "none"
    assert sent(none, "gemini")["toolConfig"]["functionCallingConfig"] == {"mode": "NONE"}


# ---------------------------------------------------------------------------------------------------- messages

CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "1"}


@pytest.mark.requirement("G3")
@check_each("name", ["openai_chat", "ollama"])
@check_each(
    "between",
    [
        {"type": "web_search_call", "id": "ws_1"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm"}]},
        {"type": "hologram", "beam": 1},
    ],
    ids=lambda item: item["type"],
)
def test_nothing_stands_between_a_call_and_its_result(name: str, between: dict[str, Any]):
    request = responses(CALL, between, OUTPUT)
    messages = sent(request, name)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert "opaque_dropped" in codes(request, name)
    assert sent(request, "openai_responses")["input"][1:] == [CALL, between, OUTPUT]


@check_each("name", ["openai_chat", "ollama"])
def test_what_a_user_showed_and_cannot_be_sent_leaves_an_empty_message(name: str):
    request = responses({"role": "user", "content": [{"type": "hologram"}]})
    assert sent(request, name)["messages"][1] == {"role": "user", "content": ""}


# ------------------------------------------------------------------------------------------- how far to cache

MARK = {"cache_control": {"type": "ephemeral"}}
ASSISTANT = {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": {"name": "f"}}]}


def block(**said: Any) -> dict[str, Any]:
    return {**said, **MARK}


@pytest.mark.requirement("G3")
def test_a_mark_on_a_message_is_sent_to_anthropic_on_its_last_block():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    request = chat({"role": "user", "content": parts, **MARK}, {**ASSISTANT, **MARK})
    _, user, assistant = sent(request, "anthropic")["messages"]
    assert user == {"role": "user", "content": [parts[0], block(**parts[1])]}
    assert assistant["content"] == [block(type="tool_use", id="a", name="f", input={})]
    assert assistant.keys() == {"role", "content"}


@pytest.mark.requirement("G3")
def test_a_mark_on_a_system_message_is_sent_to_anthropic_on_its_text():
    rules = {"role": "system", "content": "Be brief.", **MARK}
    request = openai_chat.decode_request({"model": "m", "messages": [rules, USER]})
    assert sent(request, "anthropic")["system"] == [block(type="text", text="Be brief.")]
    assert sent(request, "openai_chat")["messages"][0] == rules


@pytest.mark.requirement("G3")
def test_a_mark_on_a_text_of_a_result_is_kept():
    result = {"role": "tool", "tool_call_id": "a", "content": [block(type="text", text="1")]}
    request = chat(ASSISTANT, result)
    assert sent(request, "openai_chat")["messages"][2] == result
    expected = block(type="tool_result", tool_use_id="a", content="1")
    assert sent(request, "anthropic")["messages"][2]["content"] == [expected]


@pytest.mark.requirement("G3")
def test_a_mark_on_a_picture_is_kept():
    shown = {"type": "image_url", "image_url": {"url": "https://x/y.png"}, **MARK}
    (picture,) = sent(chat({"role": "user", "content": [shown]}), "anthropic")["messages"][1]["content"]
    assert picture == block(type="image", source={"type": "url", "url": "https://x/y.png"})


def test_a_message_of_nothing_carries_no_mark():
    request = chat({"role": "assistant", "content": "", **MARK})
    assert sent(request, "anthropic")["messages"] == [USER]


# ---------------------------------------------------------------------------------------------- pictures and files


@pytest.mark.requirement("G3")
@check_each("name", ["anthropic", "gemini"])
@check_each("url", ["file:///etc/passwd", "data:image/png,notbase64", "ftp://x/y", "/tmp/x.png"])
def test_only_what_a_service_can_fetch_is_sent_to_it(name: str, url: str):
    shown = [{"type": "image_url", "image_url": {"url": url}}]
    request = chat(
        {"role": "user", "content": shown}, ASSISTANT, {"role": "tool", "tool_call_id": "a", "content": shown}
    )
    assert url not in json.dumps(sent(request, name))
    assert "media_dropped" in codes(request, name)


@check_each("url", ["https://x/y.png", "HTTP://x/y.png", "gs://bucket/y.png"])
def test_gemini_fetches_from_the_web_and_from_its_own_store(url: str):
    request = chat({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]})
    assert sent(request, "gemini")["contents"][1]["parts"][0]["fileData"]["fileUri"] == url
    assert codes(request, "gemini") == []


@pytest.mark.requirement("G3")
def test_a_file_keeps_its_name_between_openais_protocols():
    data = "data:application/pdf;base64,QQ=="
    inner = {"file_data": data, "filename": "a.pdf"}
    part = {"type": "input_file", **inner}
    assert sent(responses({"role": "user", "content": [part]}), "openai_chat")["messages"][1]["content"] == [
        {"type": "file", "file": inner}
    ]
    request = chat({"role": "user", "content": [{"type": "file", "file": inner}]})
    assert sent(request, "openai_responses")["input"][1]["content"] == [part]


@pytest.mark.requirement("G3")
def test_a_file_on_the_web_is_not_sent_to_chat_completions_as_its_data():
    part = {"type": "input_file", "file_url": "https://x/a.pdf", "filename": "a.pdf"}
    request = responses({"role": "user", "content": [{"type": "input_text", "text": "a"}, part]})
    assert sent(request, "openai_chat")["messages"][1] == {"role": "user", "content": "a"}
    assert codes(request, "openai_chat") == ["media_dropped"]


@pytest.mark.requirement("G3")
@check_each("name", ["gemini", "ollama"])
def test_ids_that_the_engine_made_are_not_sent_and_results_stand_in_the_order_of_their_calls(name: str):
    made = ["emulated_1_0", "emulated_1_1", "emulated_1_2"]
    calls = Message("assistant", calls=tuple(ToolCall("f", {}, one) for one in made))
    results = [ToolResult(one, one) for one in made]
    late = Message("user", (TextPart("Go on."),))
    apart = tuple(Message("tool", results=(result,)) for result in reversed(results))
    pairs = (Message("tool", results=(results[2], results[0])), Message("tool", results=(results[1],)))
    for told in ((*apart, late), pairs, (*apart[::-1],)):
        wire = MODULES[name].encode_request(Request("m", (late, calls, *told))).decode()
        places = [wire.index(f'"{one}"', wire.index("Go on.") + 1) for one in made]
        assert places == sorted(places)
        assert all(wire.count(one) == 1 for one in made)
    own = Message("assistant", calls=(ToolCall("f", {}, "a"), ToolCall("f", {}, "b")))
    kept = Request("m", (own, Message("tool", results=(ToolResult("b", "2"), ToolResult("a", "1")))))
    wire = MODULES[name].encode_request(kept).decode()
    assert wire.index('"2"') < wire.index('"1"')


PNG = "data:image/png;base64,QQ=="


def shown_by_tools() -> Request:
    """Two results of one turn, each with a picture, and what the user says to them."""
    uses = [{"type": "tool_use", "id": name, "name": "f", "input": {}} for name in "ab"]
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}
    said = [{"type": "text", "text": "1"}, picture]
    results = [{"type": "tool_result", "tool_use_id": name, "content": said} for name in "ab"]
    messages = [USER, {"role": "assistant", "content": uses}, {"role": "user", "content": results}]
    return anthropic.decode_request({"model": "m", "max_tokens": 1, "messages": messages})


@pytest.mark.requirement("G3")
def test_what_tools_show_stands_behind_all_results_for_chat_completions():
    request = shown_by_tools()
    pictures: list[Any] = []
    for name in "ab":
        pictures += [{"type": "text", "text": f"The result of the call `{name}`:"}]
        pictures += [{"type": "image_url", "image_url": {"url": PNG}}]
    results = [{"role": "tool", "tool_call_id": name, "content": "1"} for name in "ab"]
    behind = {"role": "user", "content": pictures}
    assert sent(request, "openai_chat")["messages"][2:] == [*results, behind]
    assert codes(request, "openai_chat") == ["media_moved"]
    thanks = replace(request.messages[0], parts=(TextPart("Thanks."),))
    apart = [replace(request.messages[2], results=(result,)) for result in request.messages[2].results]
    for told in ([replace(request.messages[2], role="user", parts=thanks.parts)], [*apart, thanks]):
        longer = replace(request, messages=(*request.messages[:2], *told))
        assert sent(longer, "openai_chat")["messages"][2:] == [*results, behind, {"role": "user", "content": "Thanks."}]
    first, second = request.messages[2].results
    mixed = replace(request.messages[2], results=(first, replace(second, parts=())))
    told = sent(replace(request, messages=(*request.messages[:2], mixed)), "openai_chat")["messages"]
    assert told[2:] == [*results, {"role": "user", "content": pictures[:2]}]


@pytest.mark.requirement("G3")
def test_what_nobody_but_a_user_may_show_is_left_out_for_chat_completions():
    picture = Media("image", PNG)
    messages = (
        Message("system", (TextPart("a"), picture)),
        Message("system", (picture,)),
        Message("user", (picture,)),
        Message("assistant", (picture, TextPart("b"))),
        Message("assistant", (picture,)),
    )
    shown = [{"type": "image_url", "image_url": {"url": PNG}}]
    plain = Request("m", messages)
    assert sent(plain, "openai_chat")["messages"] == [
        {"role": "system", "content": "a"},
        {"role": "user", "content": shown},
        {"role": "assistant", "content": "b"},
    ]
    assert codes(plain, "openai_chat") == ["media_dropped"]
    ours = replace(plain, protocol="openai_chat")
    assert sent(ours, "openai_chat")["messages"][4] == {"role": "assistant", "content": shown}
    assert codes(ours, "openai_chat") == []


@pytest.mark.requirement("G3")
def test_data_goes_to_anthropic_as_what_its_type_says():
    parts = (
        Media("file", PNG),
        Media("image", "data:application/pdf;base64,QQ=="),
        Media("image", "data:image/svg+xml;base64,QQ=="),
    )
    request = Request("m", (Message("user", parts),))
    blocks = sent(request, "anthropic")["messages"][0]["content"]
    assert [block["type"] for block in blocks] == ["image", "document"]
    assert "media_dropped" in codes(request, "anthropic")


@pytest.mark.requirement("G3")
def test_what_an_assistant_said_by_another_protocol_is_one_text_for_responses():
    said = Message("assistant", (TextPart("a"), TextPart("b")))
    assert sent(Request("m", (said,)), "openai_responses")["input"][0]["content"] == "ab"
    ours = sent(Request("m", (said,), protocol="openai_responses"), "openai_responses")["input"][0]["content"]
    assert ours == [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}]


@pytest.mark.requirement("G3")
def test_a_format_without_a_schema_is_json_of_any_shape_for_responses():
    request = Request(
        "m", (Message("user", (TextPart("a"),)),), options=Options(response_format=ResponseFormat(None, "x"))
    )
    assert sent(request, "openai_responses")["text"] == {"format": {"type": "json_object"}}


@pytest.mark.requirement("G3")
@check_each("name", ["openai_chat", "ollama"])
def test_what_stands_between_calls_keeps_them_not_from_their_results(name: str):
    def call(identifier: str) -> dict[str, Any]:
        return {"type": "function_call", "call_id": identifier, "name": "f", "arguments": "{}"}

    def output(identifier: str) -> dict[str, Any]:
        return {"type": "function_call_output", "call_id": identifier, "output": identifier}

    thought = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "Hm."}]}
    said = {"role": "assistant", "content": "And one more."}
    request = responses(call("a"), thought, call("b"), said, output("a"), output("b"), said, USER)
    messages = sent(request, name)["messages"]
    assert [message["role"] for message in messages] == "user assistant tool tool assistant user".split()
    assert [each["id"] for each in messages[1]["tool_calls"]] == ["a", "b"]
    assert messages[1]["content"] == "And one more."
    open_ended = sent(responses(call("a"), thought, call("b")), name)["messages"]
    assert [each["id"] for each in open_ended[-1]["tool_calls"]] == ["a", "b"]
