"""Requests of the Messages API, written and read again: what went in comes out, but for the listed losses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocols.test_anthropic_request import HI, SCHEMA, THOUGHT, again, sent
from toolspeak.core.model import (
    Media,
    Message,
    Note,
    Opaque,
    Options,
    Request,
    ResponseFormat,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from toolspeak.protocols.anthropic import (
    DEFAULT_MAX_TOKENS,
    LOSSES,
    PROTOCOL,
    ROUTING_FIELDS,
    decode_request,
    needs_store,
)

NAMES = st.sampled_from(["f", "get_weather", "run"])
TEXTS = st.text(max_size=6)
FILLED = st.text(min_size=1, max_size=6)
IDS = st.sampled_from(["toolu_a", "toolu_b", "call-1"])
EXTRA = st.dictionaries(st.sampled_from(["x_one", "x_two"]), st.none() | st.integers(0, 9) | TEXTS, max_size=2)
MEDIA = st.builds(
    Media,
    st.sampled_from(["image", "audio", "video", "file"]),
    st.sampled_from(["http://x/y", "data:image/png;base64,QQ==", "data:text/plain;base64,QUJD", "data:x,y"]),
    EXTRA,
)
OPAQUE = st.sampled_from([Opaque("search_result", {"type": "search_result", "x": 1}), Opaque("signature", "abc")])
SIGNED = st.just(Opaque("thinking", THOUGHT))
PARTS = st.lists(st.builds(TextPart, TEXTS, EXTRA) | MEDIA | OPAQUE, max_size=3).map(tuple)
ARGUMENTS = st.dictionaries(TEXTS, st.integers(0, 9) | TEXTS | st.none(), max_size=2)
NOTES = st.sampled_from([(), (Note("trailing_comma"),)])
CALLS = st.lists(st.builds(ToolCall, NAMES, ARGUMENTS, IDS, NOTES), max_size=2).map(tuple)
RESULTS = st.lists(
    st.builds(ToolResult, IDS, TEXTS, TEXTS, st.booleans(), st.lists(MEDIA | OPAQUE, max_size=1).map(tuple), EXTRA),
    min_size=1,
    max_size=2,
).map(tuple)
MESSAGE = (
    st.builds(Message, st.sampled_from(["system", "user"]), PARTS, name=TEXTS, extra=EXTRA)
    | st.builds(Message, st.just("system"), PARTS, extra=st.just({"toolspeak_inline": True}))
    | st.builds(Message, st.just("assistant"), PARTS, TEXTS, CALLS)
    | st.builds(Message, st.just("assistant"), st.tuples(SIGNED, st.builds(TextPart, FILLED)), st.just("hm"), CALLS)
    | st.builds(Message, st.sampled_from(["tool", "user"]), PARTS, results=RESULTS)
)
TOOL = st.builds(
    Tool,
    NAMES,
    TEXTS,
    st.sampled_from([None, {"type": "object"}, {"anyOf": [{"properties": {"a": {}}}]}]),
    st.booleans(),
    st.sampled_from(["function", "custom"]),
    st.sampled_from(["", "fs"]),
    st.fixed_dictionaries({}, optional={"strict": st.booleans(), "cache_control": st.just({"type": "ephemeral"})}),
) | st.just(Tool("bash", kind="bash_20250124", extra={"type": "bash_20250124", "name": "bash"}))
CHOICE = st.builds(
    ToolChoice, st.sampled_from(["auto", "none", "required"]), st.lists(NAMES, max_size=2).map(tuple), st.booleans()
) | st.builds(ToolChoice, st.just("named"), NAMES.map(lambda name: (name,)), st.booleans())
FORMAT = st.none() | st.builds(
    ResponseFormat, st.none() | st.just(SCHEMA), st.sampled_from(["", "x"]), st.none() | st.booleans()
)
NUMBERS = st.none() | st.floats(0, 2)
OPTIONS = st.builds(
    Options,
    st.none() | st.integers(1, 9),
    NUMBERS,
    NUMBERS,
    st.none() | st.integers(0, 9),
    st.lists(st.sampled_from(["a", "\n", ""]), max_size=2).map(tuple),
    st.integers(1, 3),
    FORMAT,
    st.just({}) | st.just({"top_k": 1}),
    st.fixed_dictionaries(
        {},
        optional={
            "metadata": st.just({"user_id": "u"}),
            "api_base": TEXTS,
            "output_config": st.just({"effort": "low"}),
        },
    ),
)
REQUEST = st.builds(
    Request,
    TEXTS,
    st.lists(MESSAGE, max_size=4).map(lambda found: (*found, HI)),
    st.lists(TOOL, max_size=3).map(tuple),
    CHOICE,
    st.booleans(),
    OPTIONS,
    st.just(""),
)
replace = msgspec.structs.replace


def on_messages(change: Callable[[Message], Message]) -> Callable[[Request], Request]:
    return lambda request: replace(request, messages=tuple(map(change, request.messages)))


def on_tools(change: Callable[[Tool], Tool]) -> Callable[[Request], Request]:
    return lambda request: replace(request, tools=tuple(map(change, request.tools)))


def on_options(change: Callable[[Options], Options]) -> Callable[[Request], Request]:
    return lambda request: replace(request, options=change(request.options))


def on_parts(lost: Callable[[Any], bool]) -> Callable[[Request], Request]:
    def kept(parts: Any) -> Any:
        return tuple(part for part in parts if not lost(part))

    def change(message: Message) -> Message:
        results = tuple(replace(result, parts=kept(result.parts)) for result in message.results)
        return replace(message, parts=kept(message.parts), results=results)

    return on_messages(change)


def nameless(message: Message) -> Message:
    results = tuple(replace(result, name="") for result in message.results)
    return replace(message, name="", results=results)


def unsigned(message: Message) -> Message:
    signed = any(isinstance(part, Opaque) and part.kind == "thinking" for part in message.parts)
    return message if signed else replace(message, reasoning="")


def empty_messages(request: Request) -> Request:
    kept = tuple(one for one in request.messages if one.parts or one.calls or one.results)
    return replace(request, messages=kept)


def system_messages(request: Request) -> Request:
    """Those before all others are one, of nothing but text. The later ones are the user's."""
    prompt: tuple[Any, ...] = ()
    rest: list[Message] = []
    for message in request.messages:
        unmarked = message.role == "system" and "toolspeak_inline" not in message.extra
        if unmarked and not rest:
            prompt += tuple(part for part in message.parts if isinstance(part, TextPart))
        else:
            rest.append(replace(message, role="user") if unmarked else message)
    return replace(request, messages=((Message("system", prompt), *rest) if prompt else tuple(rest)))


def tool_messages(request: Request) -> Request:
    merged: list[Message] = []
    together = False
    for message in request.messages:
        answers = message.role == "tool" or (message.role == "user" and message.results and not message.parts)
        if answers and together:
            before = merged[-1]
            order = "".join("r" * len(one.results) + "p" * len(one.parts) for one in (before, message))
            if "toolspeak_order" in before.extra:
                order = before.extra["toolspeak_order"] + "r" * len(message.results) + "p" * len(message.parts)
            merged[-1] = replace(
                before,
                parts=before.parts + message.parts,
                results=before.results + message.results,
                extra={"toolspeak_order": order} if "pr" in order else {},
            )
        else:
            merged.append(message)
        together = bool(answers)
    named = [
        replace(one, role="user" if one.parts or not one.results else "tool") if one.role in ("tool", "user") else one
        for one in merged
    ]
    return replace(request, messages=tuple(named))


def loosened(tool: Tool) -> Tool:
    if not isinstance(tool.parameters, dict) or "anyOf" not in tool.parameters:
        return tool
    return replace(tool, parameters={"type": "object", "properties": {"a": {}}})


def allowed(request: Request) -> Request:
    choice = request.tool_choice
    if choice.mode == "named":
        return request
    if choice.mode == "none" or not choice.allowed:
        return replace(request, tool_choice=replace(choice, allowed=()))
    tools = tuple(tool for tool in request.tools if tool.name in choice.allowed)
    return replace(request, tools=tools, tool_choice=replace(choice, allowed=()))


def parallel(request: Request) -> Request:
    choice = request.tool_choice
    return replace(request, tool_choice=ToolChoice("none")) if choice.mode == "none" else request


def form(options: Options) -> Options:
    given = options.response_format
    return replace(options, response_format=ResponseFormat(given.schema) if given and given.schema else None)


def functions(tool: Tool) -> Tool:
    return replace(tool, kind="function") if tool.kind == "custom" else tool


#: Each loss of `LOSSES` as what it does to a request, in the order in which they come.
SUFFERED: dict[str, Callable[[Request], Request]] = {
    "protocol": lambda request: replace(request, protocol=PROTOCOL),
    "names": on_messages(nameless),
    "empty text": on_parts(lambda part: isinstance(part, TextPart) and not part.text),
    "opaque part": on_parts(lambda part: isinstance(part, Opaque) and isinstance(part.data, str)),
    "media": on_parts(
        lambda part: isinstance(part, Media) and (part.kind in ("audio", "video") or part.url == "data:x,y")
    ),
    "reasoning": on_messages(unsigned),
    "empty message": empty_messages,
    "several system messages": system_messages,
    "tool messages": tool_messages,
    "call notes": on_messages(lambda one: replace(one, calls=tuple(replace(call, notes=()) for call in one.calls))),
    "custom tool": on_tools(functions),
    "namespace": on_tools(lambda tool: replace(tool, namespace="")),
    "side effects": on_tools(lambda tool: replace(tool, side_effects=False)),
    "tool without a schema": on_tools(
        lambda tool: (
            replace(tool, parameters={"type": "object"}) if tool.kind == "function" and not tool.parameters else tool
        )
    ),
    "schema of choices": on_tools(loosened),
    "allowed tools": allowed,
    "tool_choice without tools": lambda request: (
        request if request.tools else replace(request, tool_choice=ToolChoice())
    ),
    "parallel under none": parallel,
    "max_tokens": on_options(lambda one: replace(one, max_tokens=one.max_tokens or DEFAULT_MAX_TOKENS)),
    "temperature": on_options(
        lambda one: replace(one, temperature=one.temperature if one.temperature is None else min(1, one.temperature))
    ),
    "stop": on_options(lambda one: replace(one, stop=tuple(word for word in one.stop if word.strip()))),
    "seed and n": on_options(lambda one: replace(one, seed=None, n=1)),
    "format": on_options(form),
    "routing fields": on_options(
        lambda one: replace(one, extra={key: value for key, value in one.extra.items() if key not in ROUTING_FIELDS})
    ),
    "grammar": on_options(lambda one: replace(one, grammar={}, extra={**one.extra, **one.grammar})),
}
#: Losses that only other requests suffer; each has a test of its own above.
ELSEWHERE = {"words of another protocol", "ids", "cache marks"}


@pytest.mark.requirement("G2", "G3")
@given(REQUEST)
def test_a_request_comes_back_as_it_went_but_for_the_listed_losses(request: Request):
    expected = request
    for suffer in SUFFERED.values():
        expected = suffer(expected)
    assert again(request) == expected
    assert again(expected) == expected


def test_every_listed_loss_is_tested():
    assert {loss.name for loss in LOSSES if loss.half == "request"} == SUFFERED.keys() | ELSEWHERE


# ------------------------------------------------------------------------------------------------------- real clients

CLIENTS = Path(__file__).parents[3] / "shared" / "clients" / "requests.jsonl"
#: The file stands for long lists by their beginning and this.
LEFT_OUT = re.compile(r"<\d+ more>")


def real_requests() -> list[Any]:
    if not CLIENTS.is_file():
        return []
    rows = [json.loads(line) for line in CLIENTS.read_text(encoding="utf-8").splitlines()]
    return [
        pytest.param(complete(row["body"]), id=f"{at}-{row['client']}")
        for at, row in enumerate(rows)
        if row["path"].startswith("/v1/messages")
    ]


def complete(value: Any) -> Any:
    match value:
        case list():
            return [complete(item) for item in value if not (isinstance(item, str) and LEFT_OUT.fullmatch(item))]
        case dict():
            return {key: complete(item) for key, item in value.items()}
        case _:
            return value


@pytest.mark.skipif(not CLIENTS.is_file(), reason="the shared requests are not beside the checkout")
@pytest.mark.requirement("G4")
@pytest.mark.parametrize("body", real_requests())
def test_what_real_clients_send_is_understood_and_survives(body: dict[str, Any]):
    request = decode_request(json.dumps(body).encode())
    assert len(request.messages) == len(body["messages"]) + ("system" in body)
    assert [tool.name for tool in request.tools] == [tool["name"] for tool in body.get("tools", [])]
    wire = sent(request)
    assert wire["messages"] == [plain(one) for one in body["messages"]]
    for key in body.keys() - {"messages", "stream", "tool_choice"}:
        assert wire[key] == body[key]
    assert again(request) == SUFFERED["max_tokens"](request)


def plain(wire: dict[str, Any]) -> dict[str, Any]:
    """A single text in a list goes out as that text."""
    match wire["content"]:
        case [{"type": "text", "text": words, **rest}] if not rest:
            return wire | {"content": words}
        case _:
            return wire


@pytest.mark.requirement("G5")
@pytest.mark.parametrize(
    ("thread", "needed"),
    [
        ({"type": "continue", "previous_message_id": "msg_1"}, True),
        ({"type": "create"}, False),
        (None, False),
        ("continue", False),
    ],
)
def test_a_request_that_goes_on_with_a_thread_needs_a_store(thread: Any, needed: bool):
    body = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}], "thread": thread}
    request = decode_request(body)
    assert needs_store(request) is needed
    assert not needs_store(msgspec.structs.replace(request, protocol="openai_chat"))
