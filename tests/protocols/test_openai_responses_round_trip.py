"""Requests of the Responses API come back as they went, but for the losses that are listed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocols.round_trip_losses import (
    ANY_ARGUMENTS,
    EXTRA,
    FILLED,
    GRAMMAR_AS_FIELDS,
    KINDS,
    NO_CALL_NOTES,
    NO_MESSAGE_NAMES,
    NO_RESULT_ERRORS,
    NO_ROUTING,
    NO_SIDE_EFFECTS,
    NONE_ALLOWS_ALL,
    RESULTS_ALONE,
    SCHEMAS,
    TEXTS,
    Losing,
    calls,
    check_losses,
    check_round_trip,
    choices,
    is_from_protocol,
    no_choice_without_tools,
    on_messages,
    on_options,
    on_parts,
    on_tools,
    options,
    replace,
    requests,
    results,
    without_parts,
)
from toolspeak.core.types import Media, Message, Opaque, Options, Request, ResponseFormat, TextPart, Tool, ToolCall
from toolspeak.protocols.openai_responses import PROTOCOL, decode_request, encode_request
from toolspeak.protocols.openai_responses.items import reasoning_of

ONE_TEXT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
SEARCH = {"type": "web_search", "search_context_size": "low"}
THOUGHT = {"type": "summary_text", "text": "Hm"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [THOUGHT], "encrypted_content": "gA"}


def again(request: Request) -> Request:
    return decode_request(encode_request(request))


OWN_NAMES = st.sampled_from(["f", "run", "fs__read"])
MEDIA = st.builds(
    Media,
    st.sampled_from(["image", "audio", "video", "file"]),
    st.sampled_from(["http://x/y", "data:x;base64,QQ=="]),
    EXTRA,
)
OPAQUE = st.sampled_from(
    [
        Opaque("content:refusal", {"type": "refusal", "refusal": "no"}),
        Opaque("content:x", "abc"),
        Opaque("thinking", {"type": "thinking"}),
    ]
)
ITEMS = st.sampled_from(
    [
        Opaque("item:reasoning", REASONING),
        Opaque(
            "item:reasoning",
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "So"}]},
        ),
        Opaque("item:reasoning", {"type": "reasoning", "summary": [{"type": "summary_text", "text": "x"}]}),
        Opaque("item:web_search_call", {"type": "web_search_call", "id": "ws_1"}),
        Opaque("item:x", "abc"),
    ]
)
TEXT_PART = st.builds(TextPart, TEXTS, EXTRA)
PARTS = st.lists(TEXT_PART | MEDIA | OPAQUE, max_size=3).map(tuple)
CALLS = calls(ANY_ARGUMENTS, FILLED.map("c".__add__), OWN_NAMES)
RESULTS = results(MEDIA | OPAQUE, ids=TEXTS.map("r".__add__))
SAYS = st.builds(
    Message,
    st.just("assistant"),
    st.tuples(st.builds(TextPart, FILLED), TEXT_PART | MEDIA | OPAQUE | ITEMS, TEXT_PART | ITEMS),
    TEXTS,
    CALLS,
    extra=st.fixed_dictionaries({}, optional={"id": TEXTS, "phase": st.just("commentary")}),
)
ANSWERS = st.builds(Message, st.sampled_from(["tool", "user"]), PARTS, results=RESULTS)
ASKS = st.builds(Message, st.sampled_from(["system", "user"]), PARTS, name=TEXTS, extra=EXTRA) | st.builds(
    Message, st.just("system"), PARTS, extra=st.just({"role": "developer"})
)
#: Somebody else speaks between two turns of an assistant.
MESSAGES = st.lists(
    st.tuples(ASKS) | st.tuples(SAYS, ASKS) | st.tuples(SAYS, ANSWERS, ASKS) | st.tuples(ANSWERS),
    min_size=1,
    max_size=3,
).map(lambda blocks: tuple(message for block in blocks for message in block))
GUIDED = st.builds(
    lambda text, rest: (Message("system", (TextPart(text),), extra={"instructions": True}), *rest), FILLED, MESSAGES
)
DECLARED = st.fixed_dictionaries({}, optional={"strict": st.booleans(), "defer_loading": st.booleans()})
TOOL = (
    st.builds(Tool, st.sampled_from(["f", "run"]), TEXTS, SCHEMAS, st.booleans(), KINDS, extra=DECLARED)
    | st.builds(
        Tool,
        st.just("fs__read"),
        TEXTS,
        SCHEMAS,
        st.booleans(),
        KINDS,
        st.just("fs"),
        DECLARED | st.just({"beside": {"description": "Files."}}),
    )
    | st.just(Tool("web_search", kind="web_search", extra=SEARCH))
)
CHOICE = choices(OWN_NAMES, OWN_NAMES | st.just("web_search"))
OPTIONS = options(
    st.just({}) | st.just({"guided_json": {}}),
    {
        "user": TEXTS,
        "api_base": TEXTS,
        "store": st.booleans(),
        "stream_options": st.just({"include_obfuscation": False}),
        "text": st.just({"verbosity": "low"}),
    },
)
REQUEST = requests(MESSAGES | GUIDED, TOOL, CHOICE, OPTIONS, "", PROTOCOL)


def unless_ours(change: Callable[[Request], Request]) -> Callable[[Request], Request]:
    return lambda request: request if request.protocol == PROTOCOL else change(request)


def is_item(part: Any) -> bool:
    return isinstance(part, Opaque) and part.kind.startswith("item:")


def is_sent(part: Any) -> bool:
    if not isinstance(part, Opaque):
        return True
    return part.kind.startswith(("item:", "content:")) and isinstance(part.data, dict)


def is_bare(part: Any) -> bool:
    held = is_item(part) and ("encrypted_content" in part.data or "content" in part.data)
    return is_item(part) and part.kind == "item:reasoning" and not held


def reasoned(message: Message) -> list[Message]:
    texts = [
        reasoning_of(part.data) for part in message.parts if isinstance(part, Opaque) and part.kind == "item:reasoning"
    ]
    return [replace(message, reasoning="\n\n".join(filter(None, texts)))]


def marked_calls(request: Request) -> Request:
    """Calls of custom tools and of tools in namespaces come back with what says so."""
    tools = {tool.name: tool for tool in request.tools}

    def change(message: Message) -> list[Message]:
        marks: dict[str, Any] = {}
        calls: list[ToolCall] = []
        for at, call in enumerate(message.calls):
            tool = tools.get(call.name, Tool(call.name))
            given = call.arguments.get("input")
            mark: dict[str, Any] = {"namespace": tool.namespace} if tool.namespace else {}
            if tool.kind == "custom" and isinstance(given, str):
                mark["type"] = "custom_tool_call"
                call = replace(call, arguments={"input": given})
            if mark:
                marks[str(at)] = mark
            calls.append(call)
        extra = message.extra | ({"tool_calls": marks} if marks else {})
        return [replace(message, calls=tuple(calls), extra=extra)]

    return on_messages(change)(request)


def named_format(options: Options) -> Options:
    form = options.response_format
    if form is None:
        return options
    bare = form.schema is None
    return replace(options, response_format=ResponseFormat() if bare else replace(form, name=form.name or "reply"))


def no_text(message: Message) -> list[Message]:
    """An empty text is no part, unless it stands beside others or says more."""
    wire_name = [part for part in message.parts if not is_item(part)]
    if wire_name != [TextPart("")]:
        return [message]
    return [replace(message, parts=tuple(filter(is_item, message.parts)))]


def shows_nothing(message: Message) -> Message:
    if message.role != "assistant":
        return message
    return replace(message, parts=tuple(part for part in message.parts if not isinstance(part, Media)))


def one_text(message: Message) -> Message:
    """What an assistant says in several plain texts, and in nothing else, is one text."""
    wire_name = [part for part in message.parts if not is_item(part)]
    if message.role != "assistant" or not all(isinstance(part, TextPart) and not part.extra for part in wire_name):
        return message
    return replace(message, parts=(*filter(is_item, message.parts), TextPart(message.text)))


#: Each documented loss as what it does to a request; the rest are losses of the wire's own variety.
SUFFERED: Losing = {
    "tool message": on_messages(lambda one: [replace(one, parts=(), name="") if one.role == "tool" else one]),
    "opaque part": on_parts(lambda part: part if is_sent(part) else None),
    "sound and film": without_parts(lambda part: isinstance(part, Media) and part.kind in ("audio", "video")),
    "reasoning that is not stored": unless_ours(without_parts(is_bare)),
    "order of a message": on_messages(
        lambda one: [replace(one, parts=tuple(sorted(one.parts, key=lambda part: not is_item(part))))]
    ),
    "pictures of an assistant": unless_ours(on_messages(shows_nothing)),
    "several texts of an answer": unless_ours(on_messages(one_text)),
    "empty text": on_messages(no_text),
    "several results": RESULTS_ALONE,
    "reasoning text": on_messages(reasoned),
    "name of a message": NO_MESSAGE_NAMES,
    "result error": NO_RESULT_ERRORS,
    "call notes": NO_CALL_NOTES,
    "custom call": marked_calls,
    "custom tool": on_tools(lambda tool: replace(tool, parameters=ONE_TEXT) if tool.kind == "custom" else tool),
    "side effects": NO_SIDE_EFFECTS,
    "strict": unless_ours(
        on_tools(lambda tool: replace(tool, extra={"strict": False, **tool.extra}) if tool.kind == "function" else tool)
    ),
    "store": unless_ours(on_options(lambda options: replace(options, extra={"store": False, **options.extra}))),
    "tool_choice without tools": no_choice_without_tools,
    "allowed tools under none": NONE_ALLOWS_ALL,
    "stream_options": lambda request: (
        request
        if request.stream
        else on_options(
            lambda options: replace(
                options, extra={key: value for key, value in options.extra.items() if key != "stream_options"}
            )
        )(request)
    ),
    "stop, seed and n": on_options(lambda options: replace(options, stop=(), seed=None, n=1)),
    "format without a name": on_options(named_format),
    "routing fields": NO_ROUTING,
    "grammar": GRAMMAR_AS_FIELDS,
    "protocol": is_from_protocol(PROTOCOL),
}
#: Losses that only other requests suffer; each has a test of its own above or below.
ELSEWHERE = {
    "protocol-specific fields",
    "turns",
    "namespace",
    "input as a text",
    "instructions",
    "several texts of a result",
    "types of text",
}


@pytest.mark.requirement("G3")
@given(REQUEST)
def test_a_request_comes_back_as_it_went_but_for_the_listed_losses(request: Request):
    check_round_trip(request, again, SUFFERED)


def test_every_listed_loss_is_tested():
    check_losses(PROTOCOL, SUFFERED, ELSEWHERE)


def test_messages_of_an_assistant_right_behind_each_other_may_become_one():
    text, calls = Message("assistant", (TextPart("a"),)), Message("assistant", calls=(ToolCall("f", {}, "c"),))
    assert again(Request("m", (text, calls))).messages == (replace(text, calls=calls.calls),)
