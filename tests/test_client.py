"""The front door, as a user uses it: whole turns, streams, errors, cancelling, and what is remembered."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import toolspeak as ts
from tests.cases import check_each
from tests.upstreams.loopback_server import always, head, serving
from toolspeak.config import load
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.errors import UpstreamTimeout
from toolspeak.key_value import MemoryState
from toolspeak.upstreams.scripted import Turn, calls

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]
CALL = '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>'
#: The calls of these scripts carry no nonce.
FIXED: dict[str, Any] = {"marks": "fixed", "dialect": "hermes"}


def client(*turns: Any, **arguments: Any) -> tuple[ts.Client, ts.Scripted]:
    upstream = ts.Scripted(*turns)
    return ts.Client(upstream, config=load({}, env={}), **{**FIXED, **arguments}), upstream


@pytest.mark.requirement("A5", "A12", "A15")
def test_a_model_without_tool_calling_calls_a_tool():
    asked, upstream = client(f"Let me look.\n{CALL}")
    reply = asked.chat(QUESTION, tools=[WEATHER])
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("get_weather", {"city": "Paris"})]
    assert (reply.text.strip(), reply.finish_reason) == ("Let me look.", "tool_calls")
    assert (reply.requests, reply.warnings) == (1, ("tool calls emulated",))
    assert upstream.requests[0].tools == ()
    assert "get_weather" in upstream.requests[0].messages[0].text


@pytest.mark.requirement("A9")
def test_usage_is_summed_over_all_requests():
    asked, _ = client(Turn("{}", usage=ts.Usage(10, 1)), Turn("Hello.", usage=ts.Usage(20, 2, 5)), plan="decision")
    reply = asked.chat(QUESTION, tools=[WEATHER])
    assert (reply.text, reply.requests, reply.usage) == ("Hello.", 2, ts.Usage(30, 3, 5))


@pytest.mark.requirement("A11")
def test_calls_get_ids_of_their_own():
    asked, _ = client(CALL + CALL.replace("Paris", "Rome"))
    first, second = asked.chat(QUESTION, tools=[WEATHER]).tool_calls
    prefix, stamp, index = first.id.split("_")
    assert (prefix, index, second.id) == ("emulated", "0", f"emulated_{stamp}_1")
    assert stamp.isdigit()


def test_messages_may_be_text_dicts_and_values():
    asked, upstream = client("a", "b")
    asked.chat("Hi")
    asked.chat([ts.Message("system", (ts.TextPart("Be brief."),)), {"role": "user", "content": "Hi"}])
    assert [message.text for request in upstream.requests for message in request.messages] == ["Hi", "Be brief.", "Hi"]


@pytest.mark.requirement("C5")
def test_a_request_without_tools_passes_untouched():
    asked, upstream = client("Hello.")
    reply = asked.chat("Hi", temperature=0.5, seed=7, user="me")
    request = upstream.requests[0]
    assert (request.options.temperature, request.options.seed, request.options.extra) == (0.5, 7, {"user": "me"})
    assert (reply.text, reply.warnings, request.messages) == ("Hello.", (), (ts.Message("user", (ts.TextPart("Hi"),)),))


REFUSED = {
    "no messages": (lambda asked: asked.chat([]), "`messages` is empty"),
    "one message": (lambda asked: asked.chat({"role": "user", "content": "Hi"}), "must be a list of messages"),
    "one tool": (lambda asked: asked.chat("Hi", tools=WEATHER), "must be a list of tools"),
    "a bad mode": (lambda asked: asked.chat("Hi", mode="sometimes"), "mode"),
    "several answers": (lambda asked: asked.chat("Hi", extra_body={"n": 2}), "`n` above 1"),
    "several answers with tools": (lambda asked: asked.chat("Hi", tools=[WEATHER], extra_body={"n": 2}), "`n` above 1"),
}


@pytest.mark.requirement("C6")
@check_each("case", REFUSED)
def test_what_cannot_work_is_the_callers_mistake(case: str):
    asked, upstream = client("Hello.")
    act, message = REFUSED[case]
    with pytest.raises(ts.UsageError, match=message):
        act(asked)
    assert upstream.requests == []


@check_each(
    ("arguments", "message"),
    [
        ({"messages": None}, "`messages` must be a list, not a `NoneType`"),
        ({"messages": 5}, "`messages` must be a list, not a `int`"),
        ({"messages": b"Hi"}, "`messages` must be a list of messages"),
        ({"messages": ts.Message("user")}, "`messages` must be a list of messages"),
        ({"messages": [None]}, "message"),
        ({"messages": "Hi", "tools": 5}, "`tools` must be a list, not a `int`"),
        ({"messages": "Hi", "tools": "get_weather"}, "`tools` must be a list of tools"),
        ({"messages": "Hi", "tools": WEATHER}, "`tools` must be a list of tools"),
        ({"messages": "Hi", "tools": [5]}, "tool"),
        ({"messages": "Hi", "tool_choice": "required"}, "no usable tool is listed"),
        ({"messages": "Hi", "timeout": "x"}, "`timeout` must be a positive number of seconds"),
        ({"messages": "Hi", "timeout": 0}, "`timeout` must be a positive number of seconds"),
        ({"messages": "Hi", "timeout": True}, "`timeout` must be a positive number of seconds"),
        ({"messages": "Hi", "timeout": float("nan")}, "`timeout` must be a positive number of seconds"),
    ],
)
def test_arguments_of_the_wrong_kind_are_the_callers_mistake(arguments: dict[str, Any], message: str):
    asked, upstream = client("Hello.")
    for act in (asked.chat, asked.stream):
        with pytest.raises(ts.UsageError, match=message):
            act(**arguments)
    assert upstream.requests == []


@pytest.mark.requirement("C1")
def test_texts_of_the_callers_own_reach_the_model():
    templates = {"several": "Mehrere Aufrufe sind erlaubt.", "continuation": "Weiter."}
    asked, upstream = client("Hello.", templates=templates)
    asked.chat(_history("1"), tools=[WEATHER])
    assert "Mehrere Aufrufe sind erlaubt." in upstream.requests[0].messages[0].text
    assert upstream.requests[0].messages[-1].text.endswith("Weiter.")


@pytest.mark.requirement("C1")
@check_each(
    ("templates", "message"),
    [
        ({"nothing": "x"}, "unknown template `nothing`"),
        ({"subset": "x"}, "lacks the placeholder"),
        ({"several": 5}, "must map template names"),
        ([], "must map template names"),
    ],
)
def test_texts_that_cannot_be_used_are_refused_when_the_client_is_made(templates: Any, message: str):
    with pytest.raises(ts.UsageError, match=message):
        client("Hello.", templates=templates)


def test_an_unknown_setting_of_the_client_is_named():
    with pytest.raises(ts.UsageError, match=r"unknown argument `modus`.*did you mean `mode`"):
        ts.Client(ts.Scripted(), modus="auto")  # type: ignore[call-arg]


def test_a_misspelt_base_url_is_named_before_the_missing_key(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    arguments: dict[str, Any] = {"baseurl": "http://127.0.0.1:9000/v1"}
    with pytest.raises(ts.UsageError, match=r"unknown argument `baseurl`.*did you mean `base_url`"):
        ts.Client("openai:m", **arguments)
    with pytest.raises(ts.UsageError, match=r"unknown argument `toolz` \(use one of model, base_url"):
        ts.Client(ts.Scripted(), toolz=[])  # type: ignore[call-arg]


def test_a_model_that_is_none_is_named():
    with pytest.raises(ts.UsageError, match="not a `int`"):
        ts.Client(7)  # type: ignore[arg-type]
    with pytest.raises(ts.UsageError, match="unknown model"):
        ts.Client("nobody:nothing", config=load({}, env={}))
    with pytest.raises(ts.UsageError, match="only apply to a model given by name"):
        ts.Client(ts.Scripted(), base_url="http://127.0.0.1:1")


@pytest.mark.requirement("A10", "E3")
def test_a_call_that_is_demanded_and_never_made_is_an_error():
    asked, upstream = client("No.", "No.", "Never.")
    with pytest.raises(ts.ToolChoiceError, match="after 3 requests"):
        asked.chat(QUESTION, tools=[WEATHER], tool_choice="required")
    assert len(upstream.requests) == 3


@pytest.mark.requirement("A1")
def test_a_setting_of_one_turn_wins_over_that_of_the_client():
    asked, upstream = client("Hello.", "Hello.", mode="force")
    asked.chat(QUESTION, tools=[WEATHER], mode="off")
    asked.chat(QUESTION, tools=[WEATHER])
    assert [len(request.tools) for request in upstream.requests] == [1, 0]


@pytest.mark.requirement("H6")
def test_the_trace_tells_what_was_sent_what_came_and_why_there_is_no_call():
    asked, _ = client("Paris is lovely.")
    trace = asked.chat(QUESTION, tools=[WEATHER]).trace()
    assert trace.why_no_call == "the model answered without calling a tool"
    assert (trace.plan, trace.attempts[0].raw) == ("inline", "Paris is lovely.")
    assert trace.contract_tokens > 0


@pytest.mark.requirement("H6")
def test_without_tools_the_trace_says_that_none_reached_the_model():
    asked, _ = client("Hello.")
    assert asked.chat("Hi").trace().why_no_call == "no tools reached the model"


# ---- streaming


@pytest.mark.requirement("B8")
def test_a_stream_folds_into_the_same_reply():
    asked, _ = client(Turn(f"Let me look.\n{CALL}", chunk=3))
    stream = asked.stream(QUESTION, tools=[WEATHER])
    events = list(stream)
    folded = ts.fold(events)
    assert stream.reply.tool_calls == folded.tool_calls
    assert [type(event).__name__ for event in events if not isinstance(event, ts.TextDelta | ts.CallArgs)] == [
        "CallStart",
        "CallEnd",
        "Judged",
        "UsageSeen",
        "Finish",
    ]


def test_the_reply_of_a_stream_is_there_when_the_events_have_ended():
    asked, _ = client("Hello.")
    stream = asked.stream("Hi")
    with pytest.raises(ts.UsageError, match="not ended"):
        _ = stream.reply
    list(stream)
    assert stream.reply.text == "Hello."


def test_leaving_a_stream_early_cancels_it_upstream():
    asked, upstream = client(Turn("word " * 100, chunk=5))
    for event in asked.stream("Hi"):
        if isinstance(event, ts.TextDelta):
            break
    asked.close()
    assert upstream.cancelled == [0]


@pytest.mark.requirement("B8")
def test_a_stream_can_be_closed_in_the_middle_of_its_own_loop():
    asked, upstream = client(Turn("word " * 100, chunk=5))
    stream = asked.stream("Hi")
    seen = 0
    for _ in stream:
        seen += 1
        stream.close()
    assert (seen, upstream.cancelled) == (1, [0])
    with pytest.raises(ts.UsageError, match="closed before the end of the turn"):
        _ = stream.reply
    assert list(stream) == []


def _endless(closed: threading.Event) -> Callable[..., AsyncIterator[str]]:
    async def model(messages: list[dict[str, Any]]) -> AsyncIterator[str]:
        try:
            yield "one two three four five six seven eight nine ten. " * 8
            await asyncio.Event().wait()
        finally:
            closed.set()

    return model


def test_another_thread_can_close_a_stream_that_is_being_read():
    closed = threading.Event()
    with ts.Client(_endless(closed), config=load({}, env={})) as asked:
        stream = asked.stream("Hi")
        events = iter(stream)
        next(events)
        closer = threading.Timer(0.05, stream.close)
        closer.start()
        assert list(events) == []
        assert closed.is_set()
        closer.join()
        stream.close()


def test_another_task_can_close_a_stream_that_is_being_read():
    closed = threading.Event()

    async def main() -> tuple[int, int]:
        async with ts.AsyncClient(_endless(closed), config=load({}, env={})) as asked:
            stream = asked.stream("Hi")
            first = asyncio.Event()

            async def read() -> int:
                count = 0
                async for _ in stream:
                    count += 1
                    first.set()
                return count

            reading = asyncio.create_task(read())
            await first.wait()
            await asyncio.sleep(0)
            await asyncio.gather(stream.close(), stream.close())
            assert closed.is_set()
            return await reading, reading.cancelling()

    assert asyncio.run(main()) == (1, 0)


def test_a_task_that_is_cancelled_while_it_reads_is_cancelled():
    closed = threading.Event()

    async def main() -> bool:
        async with ts.AsyncClient(_endless(closed), config=load({}, env={})) as asked:
            reading = asyncio.create_task(asked.chat("Hi"))
            await asyncio.sleep(0.01)
            reading.cancel()
            await asyncio.wait([reading])
            return reading.cancelled()

    assert asyncio.run(main())
    assert closed.is_set()


def test_two_cannot_read_the_same_stream():
    async def main() -> None:
        async with ts.AsyncClient(_endless(threading.Event()), config=load({}, env={})) as asked:
            stream = asked.stream("Hi")
            batches = stream.batches()
            await anext(batches)
            reading = asyncio.ensure_future(anext(batches, None))
            await asyncio.sleep(0)
            with pytest.raises(ts.UsageError, match="already being read"):
                await anext(stream.batches())
            await stream.close()
            assert await reading is None

    asyncio.run(main())


def test_the_timeout_of_a_stream_begins_with_its_first_event():
    async def ready() -> str:
        return (await asked.chat("Hi", timeout=60)).text

    asked = ts.AsyncClient(ts.Scripted("Hello.", "Hello."), config=load({}, env={}))
    stream = asked.stream("Hi", timeout=60)  # outside of any loop

    async def main() -> str:
        return "".join([event.text async for event in stream if isinstance(event, ts.TextDelta)])

    assert asyncio.run(main()) == asyncio.run(ready()) == "Hello."


# ---- what an error tells


@pytest.mark.requirement("H6")
def test_an_error_brings_the_reply_with_its_trace():
    asked, _ = client("No.", "No.", "Never.")
    with pytest.raises(ts.ToolChoiceError, match=r"error\.reply\.trace\(\)") as raised:
        asked.chat(QUESTION, tools=[WEATHER], tool_choice="required")
    reply = vars(raised.value)["reply"]
    assert [attempt.raw for attempt in reply.trace().attempts] == ["No.", "No.", "Never."]
    assert (reply.requests, reply.finish_reason) == (3, "error")


@pytest.mark.requirement("H6")
def test_an_error_of_the_upstream_and_one_of_the_clock_bring_what_has_come():
    def model(messages: list[dict[str, Any]]) -> Iterator[str]:
        yield "Paris is a city. "
        raise RuntimeError("out of memory")

    with ts.Client(model, config=load({}, env={})) as asked, pytest.raises(ts.UpstreamError) as raised:
        asked.chat("Hi")
    assert vars(raised.value)["reply"].text == "Paris is a city. "
    slow = ts.Client(_endless(threading.Event()), config=load({}, env={}))
    with pytest.raises(UpstreamTimeout) as late:
        slow.chat("Hi", timeout=0.05)
    assert vars(late.value)["reply"].text.startswith("one two")


def test_a_closed_client_says_so():
    asked, _ = client("Hello.")
    with asked:
        assert asked.chat("Hi").text == "Hello."
    with pytest.raises(ts.UsageError, match="closed"):
        asked.chat("Hi")


def test_a_turn_that_takes_too_long_ends():
    async def model(messages: list[dict[str, Any]]) -> AsyncIterator[str]:
        yield "one "
        await asyncio.Event().wait()

    with ts.Client(model, config=load({}, env={})) as asked, pytest.raises(UpstreamTimeout, match="timeout"):
        asked.chat("Hi", timeout=0.05)


def test_an_error_of_the_model_reaches_the_caller_with_its_cause():
    def model(messages: list[dict[str, Any]]) -> str:
        raise RuntimeError("out of memory")

    with ts.Client(model, config=load({}, env={})) as asked, pytest.raises(ts.UpstreamError, match="out of memory"):
        asked.chat("Hi")


def test_the_asynchronous_client_does_the_same():
    async def main() -> tuple[str, list[str]]:
        upstream = ts.Scripted(CALL, f"Look:\n{CALL}")
        async with ts.AsyncClient(upstream, config=load({}, env={}), **FIXED) as asked:
            reply = await asked.chat(QUESTION, tools=[WEATHER])
            stream = asked.stream(QUESTION, tools=[WEATHER])
            kinds = [type(event).__name__ async for event in stream]
            assert stream.reply.tool_calls[0].name == "get_weather"
            return reply.tool_calls[0].name, kinds

    name, kinds = asyncio.run(main())
    assert (name, kinds[0], kinds[-1]) == ("get_weather", "TextDelta", "Finish")


# ---- memory


def _history(call_id: str) -> list[dict[str, Any]]:
    function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    return [
        *QUESTION,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call_id, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call_id, "content": "sunny"},
    ]


@pytest.mark.requirement("C3")
def test_tools_that_are_no_longer_listed_are_recalled_by_the_id_of_their_call():
    asked, upstream = client(CALL, CALL.replace("Paris", "Rome"))
    first = asked.chat(QUESTION, tools=[WEATHER])
    second = asked.chat(_history(first.tool_calls[0].id))
    assert second.tool_calls[0].arguments == {"city": "Rome"}
    assert [note.code for note in second.notes] == ["tools_recalled"]
    assert "days" in upstream.requests[1].messages[0].text


@pytest.mark.requirement("C3")
def test_tools_that_nobody_remembers_are_made_up_from_the_calls():
    asked, _ = client(CALL.replace("Paris", "Rome"))
    reply = asked.chat(_history("unheard_of"))
    assert reply.tool_calls[0].arguments == {"city": "Rome"}
    assert [note.code for note in reply.notes] == ["tools_guessed"]


@pytest.mark.requirement("C3")
@check_each(
    "how", [{"tool_choice": "none"}, {"sticky_tools": "never"}, {"chat_only": True}], ids=lambda how: next(iter(how))
)
def test_tools_are_not_recalled_where_no_call_is_wanted(how: dict[str, Any]):
    asked, _ = client(CALL)
    reply = asked.chat(_history("x"), **how)
    assert (reply.tool_calls, reply.text) == ((), CALL)


@pytest.mark.requirement("C3")
@check_each(("sticky", "found"), [("results", 0), ("always", 1)])
def test_behind_an_answer_tools_are_recalled_only_when_asked(sticky: Any, found: int):
    asked, _ = client(CALL)
    later = [*_history("x"), {"role": "assistant", "content": "Sunny."}, {"role": "user", "content": "And Rome?"}]
    assert len(asked.chat(later, sticky_tools=sticky).tool_calls) == found


@pytest.mark.requirement("C3")
def test_tenants_do_not_share_what_is_remembered():
    state = MemoryState()
    one, _ = client(CALL, state=state, tenant="one")
    two, _ = client(CALL, state=state, tenant="two")
    made = one.chat(QUESTION, tools=[WEATHER]).tool_calls[0].id
    assert [note.code for note in two.chat(_history(made)).notes] == ["tools_guessed"]


# ---- over the wire


def test_a_service_that_speaks_openais_protocol_is_reached_by_name():
    body = json.dumps({"choices": [{"message": {"content": CALL}, "finish_reason": "stop"}]}).encode()
    answer = head("Content-Type: application/json", f"Content-Length: {len(body)}") + body

    async def main() -> ts.Reply:
        async with serving(always(answer)) as server:
            asked = ts.AsyncClient(
                "openai:my-model", base_url=f"{server.url}/v1", api_key="sk-test", config=load({}, env={}), **FIXED
            )
            async with asked:
                return await asked.chat(QUESTION, tools=[WEATHER])

    reply = asyncio.run(main())
    assert reply.tool_calls[0].arguments == {"city": "Paris"}
    assert reply.warnings == ("tool calls emulated",)


@pytest.mark.requirement("D7")
def test_a_native_call_and_one_written_as_text_are_alike():
    native = calls(ts.ToolCall("get_weather", {"city": "Paris"}, "call_1"))
    for turn, warnings in ((native, ()), (CALL, ("tool calls read from text",))):
        upstream = ts.Scripted(turn, provider="vllm")
        known = Capabilities()
        known.override_provider("vllm", "openai")
        reply = ts.Client(upstream, config=load({}, env={}), known=known).chat(QUESTION, tools=[WEATHER])
        assert (reply.tool_calls[0].arguments, reply.warnings) == ({"city": "Paris"}, warnings)


def test_the_repr_of_a_client_names_its_model_and_nothing_secret():
    asked = ts.Client("openai:m", base_url="http://127.0.0.1:9", api_key="sk-secret", config=load({}, env={}))
    assert (repr(asked), asked.model) == ("Client(openai:m)", "m")


@pytest.mark.requirement("C3")
def test_a_state_file_that_the_configuration_names_is_used_by_every_client(tmp_path: Path):
    named = load({}, env={"TOOLSPEAK_STATE_FILE": str(tmp_path / "state.json")})
    first = ts.Client(ts.Scripted(CALL), config=named, **FIXED).chat(QUESTION, tools=[WEATHER])
    upstream = ts.Scripted("It is sunny.")
    second = ts.Client(upstream, config=named, **FIXED).chat(_history(first.tool_calls[0].id))
    assert second.notes[0].code == "tools_recalled"
    assert (tmp_path / "state.json").exists()


def test_without_a_name_no_state_file_is_written(tmp_path: Path):
    config = load({}, env={"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)})
    ts.Client(ts.Scripted(CALL), config=config, **FIXED).chat(QUESTION, tools=[WEATHER])
    assert list(tmp_path.rglob("*.json")) == []


def test_a_model_that_does_not_read_ahead_is_not_asked_about_announced_tools():
    upstream = ts.Scripted("Hello.")

    async def announce() -> None:
        async with ts.AsyncClient(upstream, config=load({}, env={}), **FIXED) as asked:
            await asked.read_ahead("Hi", [WEATHER])
        async with ts.AsyncClient(upstream, config=load({"compact": "summary"}, env={}), **FIXED) as asked:
            await asked.read_ahead("Hi", [WEATHER])

    asyncio.run(announce())
    assert upstream.requests == []
