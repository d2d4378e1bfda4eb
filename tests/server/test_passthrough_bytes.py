"""What a client gets byte for byte from an upstream of its own protocol, and what it never gets so.

The upstream is a server on the loopback that writes its bytes itself, cut anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.cases import check_each
from tests.server.asgi_client import Answer, ask, line, run
from tests.server.live_proxy import QUESTION, SCHEMAS, read_request, stream_type
from tests.upstreams.loopback_server import Heard, chunked, head, serving
from tests.upstreams.request_helpers import Instant
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.engine.planning.strategy import Settings
from toolspeak.key_value import MemoryState
from toolspeak.server.app import App
from toolspeak.server.proxy.upstream_router import Gateway
from toolspeak.upstreams.http.thin_transport import HttpUpstream

KEY = "sk-a-key/that-nobody-may-see"
TOOLS = [{"type": "function", "function": {"name": name, "parameters": given}} for name, given in SCHEMAS.items()]


class Stream:
    """What an upstream of one protocol writes: frames that say text, in odd ways, and the end."""

    def __init__(self, protocol: str, path: str, body: Mapping[str, Any], frames: Sequence[bytes], end: bytes) -> None:
        self.protocol = protocol
        self.path = path
        self.body = body
        self.frames = tuple(frames)
        self.end = end


def _chat(delta: str, rest: str = '"finish_reason":null', beside: str = "", model: str = "m-2026") -> bytes:
    named = f'{{"id": "up-1","object":"chat.completion.chunk", "created":17,"model":"{model}", "region" :"eu"'
    return f'data: {named},"choices":[{{"index":0, "delta":{delta},{rest}}}]{beside}}}\n\n'.encode()


OPENING = _chat('{"role" : "assistant","content":""}')
CHAT_END = _chat("{}", '"finish_reason":"stop"')
CHAT_USAGE = b'data: {"id":"up-1","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":10}}\n\n'
CHAT = Stream(
    "openai_chat",
    "/v1/chat/completions",
    {"model": "m", "messages": [{"role": "user", "content": QUESTION}], "stream": True},
    [
        OPENING,
        _chat('{"reasoning_content":"Let me see."}', beside=',"mood":"calm"'),
        _chat('{"content":"It rains, "}', beside=', "mood":"wet"'),
        _chat('{"content":"it p\\u00e4urs. "}', beside=', "mood":"wet"'),
        _chat('{"content":"Über alles. "}', beside=', "mood":"wet"'),
        _chat('{"content":"Over."}'),
    ],
    CHAT_END + CHAT_USAGE + b"data: [DONE]\n\n",
)


def _line(message: str, rest: str = '"done":false', model: str = "m:7b") -> bytes:
    line = f'{{"model":"{model}", "created_at":"2026-11-16T01:02:03.4Z","zone" :"eu","message":{message}, {rest}}}\n'
    return line.encode()


OLLAMA = Stream(
    "ollama",
    "/api/chat",
    {"model": "m", "messages": [{"role": "user", "content": QUESTION}]},
    [
        _line('{"role":"assistant","content":"","thinking":"Let me see."}'),
        _line('{"role":"assistant", "content":"It rains, ","mood":"wet"}'),
        _line('{"role":"assistant", "content":"Über alles."}'),
    ],
    _line(
        '{"role":"assistant","content":""}', '"done":true,"done_reason":"stop","prompt_eval_count":20,"eval_count":10'
    ),
)


def _response(parts: str, rest: str = "", named: str = '"modelVersion":"m-2026", "responseId" :"up-1"') -> bytes:
    candidate = f'{{"content":{{"parts":[{parts}],"role":"model"}},"index":0, "mood":"wet"{rest}}}'
    counts = '"usageMetadata":{"promptTokenCount":20,"candidatesTokenCount":10}'
    return f'data: {{"candidates" :[{candidate}],{counts},{named}}}\r\n\r\n'.encode()


GEMINI = Stream(
    "gemini",
    "/v1beta/models/m:streamGenerateContent?alt=sse",
    {"contents": [{"role": "user", "parts": [{"text": QUESTION}]}]},
    [
        _response('{"text":"Let me see.", "thought":true}'),
        _response('{"text":"It rains, "}'),
        _response('{"text":"Über"},{"text":" alles."}'),
    ],
    _response('{"text":""}', ',"finishReason":"STOP"'),
)
STREAMS = [pytest.param(stream, id=stream.protocol) for stream in (CHAT, OLLAMA, GEMINI)]


async def _answered(
    stream: Stream,
    body: Mapping[str, Any] | None = None,
    *,
    cut: int = 0,
    aliases: Mapping[str, str] | None = None,
    capability: str = "none",
    settings: Settings | None = None,
) -> tuple[Answer, Any]:
    """What the client gets, and what is on record of it. `cut`: the bytes come in pieces of this size."""
    wire = b"".join(stream.frames) + stream.end
    pieces = [wire[at : at + cut] for at in range(0, len(wire), cut)] if cut else [*stream.frames, stream.end]

    async def write(heard: Heard) -> None:
        assert read_request(stream.protocol, heard).stream
        opening = head(f"content-type: {stream_type(stream.protocol)}", "transfer-encoding: chunked")
        await heard.send(opening, *(chunked([piece], last=False) for piece in pieces), chunked([]))

    async with serving(write) as server:
        below = "/v1" if stream.protocol.startswith("openai") else ""
        url = f"http://127.0.0.1:{server.port}{below}"
        upstream = HttpUpstream(url, KEY, stream.protocol, world=Instant().world)
        capabilities = Capabilities()
        capabilities.override_model("m", capability)  # type: ignore[arg-type]
        wanted = settings or Settings()
        served = line("up", upstream, protocol=stream.protocol, settings=lambda model: wanted, models=("m",))
        app = App(Gateway([served], capabilities, MemoryState(), b"secret", aliases))
        try:
            answer = await ask(app, "POST", stream.path, body=body or stream.body)
            told = json.loads(answer.header("x-toolspeak"))
            return answer, (await ask(app, "GET", f"/toolspeak/requests/{told['id']}")).json
        finally:
            await app.close()


def _events(body: bytes) -> list[Any]:
    return [json.loads(part[6:]) for part in body.decode().split("\n\n") if part and part != "data: [DONE]"]


@check_each("cut", [0, 1, 7, 64, 100_000])
@check_each("stream", STREAMS)
def test_a_native_stream_comes_as_its_bytes_with_fields_that_nobody_knows(stream: Stream, cut: int):
    answer, _ = run(_answered(stream, cut=cut))
    said = b"".join(stream.frames)
    assert answer.status == 200
    assert answer.body[: len(said)] == said


@check_each("stream", STREAMS)
def test_the_record_and_the_tokens_of_a_stream_are_those_of_any_other(stream: Stream):
    _, record = run(_answered(stream))
    attempt = record["trace"]["attempts"][0]
    assert attempt["raw"].startswith("It rains, ") and attempt["raw"].isprintable()
    assert (attempt["reasoning"], attempt["finish_reason"]) == ("Let me see.", "stop")
    assert (attempt["usage"]["input_tokens"], attempt["usage"]["output_tokens"]) == (20, 10)


def test_the_end_of_lines_and_of_responses_names_the_model_as_their_beginning_does():
    line, response = run(_answered(OLLAMA))[0].body, run(_answered(GEMINI))[0].body
    last = json.loads(line.splitlines()[-1])
    assert (last["model"], last["done"], last["eval_count"]) == ("m:7b", True, 10)
    last = json.loads(response.split(b"\r\n\r\n")[-2][6:])
    assert (last["modelVersion"], last["responseId"]) == ("m-2026", "up-1")
    assert last["candidates"][0]["finishReason"] == "STOP"


OURS = {
    "lines, under another model": (
        OLLAMA,
        _line('{"role":"assistant","content":"x"}', '"done":false,"seen":1', "other"),
    ),
    "lines, of nobody": (OLLAMA, _line('{"content":"x"}', '"done":false,"seen":1')),
    "lines, of another shape": (
        OLLAMA,
        _line('{"role":"assistant","content":"x","thinking":1}', '"done":false,"seen":1'),
    ),
    "responses, with ratings": (GEMINI, _response('{"text":"x"}', ',"safetyRatings":[{}],"seen":1')),
    "responses, under another name": (GEMINI, _response('{"text":"x"}', named='"modelVersion":"m","seen":1')),
    "responses, with a part that says more": (GEMINI, _response('{"text":"x","partMetadata":{}}', ',"seen":1')),
    "responses, on several lines": (
        GEMINI,
        _response('{"text":"x"}', ',"seen":1').replace(b'"candidates"', b'\r\ndata: "candidates"'),
    ),
    "responses, of nobody": (GEMINI, _response('{"text":"x"}', ',"seen":1').replace(b'"role"', b'"rule"')),
}


@check_each(("stream", "frame"), [pytest.param(*row, id=name) for name, row in OURS.items()])
def test_lines_and_responses_that_say_more_than_text_are_ours(stream: Stream, frame: bytes):
    changed = Stream(stream.protocol, stream.path, stream.body, [*stream.frames, frame], stream.end)
    answer, record = run(_answered(changed))
    said = b"".join(stream.frames)
    assert answer.body.startswith(said)
    assert b"seen" not in answer.body
    assert record["trace"]["attempts"][0]["raw"].endswith("alles.x")


def test_a_client_that_wants_an_array_gets_one():
    listed = Stream("gemini", GEMINI.path.partition("?")[0], GEMINI.body, GEMINI.frames, GEMINI.end)
    answer, _ = run(_answered(listed))
    assert {each["modelVersion"] for each in json.loads(answer.body)} == {"m"}


def _event(kind: str, rest: str) -> bytes:
    return f'event: {kind}\ndata: {{"type":"{kind}", "mood" :"wet",{rest}}}\n\n'.encode()


def test_deltas_of_a_message_come_as_their_bytes_inside_blocks_of_ours():
    text = '"index":0,"delta":{"type":"text_delta", "text":"%s"}'
    deltas = [_event("content_block_delta", text % said) for said in ("It rains, ", "it pours. ", "Über alles.")]
    message = '"message":{"id":"up-1","model":"m-2026","usage":{"input_tokens":20,"output_tokens":1}}'
    opening = _event("message_start", message) + _event(
        "content_block_start", '"index":0,"content_block":{"type":"text"}'
    )
    stop = '"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":10}'
    end = _event("content_block_stop", '"index":0') + _event("message_delta", stop) + _event("message_stop", '"x":1')
    asked = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": QUESTION}], "stream": True}
    stream = Stream("anthropic", "/v1/messages", asked, [opening, *deltas], end)
    for cut in (0, 7, 100_000):
        answer, record = run(_answered(stream, cut=cut))
        before, said, behind = answer.body.partition(b"".join(deltas))
        assert said and b"mood" not in before + behind
        assert b'"model":"m"' in before and b'"stop_reason":"end_turn"' in behind
        usage = record["trace"]["attempts"][0]["usage"]
        assert (usage["input_tokens"], usage["output_tokens"]) == (20, 10)


def test_the_end_is_ours_and_calls_the_answer_as_its_beginning_does():
    answer, _ = run(_answered(CHAT))
    last = _events(answer.body[len(b"".join(CHAT.frames)) :])
    assert [(each["id"], each["created"], each["model"]) for each in last] == [("up-1", 17, "m-2026")]
    assert last[0]["choices"][0]["finish_reason"] == "stop"
    assert last[0]["toolspeak"]["plan"] == "pass"
    assert answer.body.endswith(b"data: [DONE]\n\n")


def test_usage_is_counted_and_told_to_who_wants_it():
    body = {**CHAT.body, "stream_options": {"include_usage": True}}
    (answer, record), (silent, _) = run(_answered(CHAT, body)), run(_answered(CHAT))
    assert _events(answer.body)[-1]["usage"]["completion_tokens"] == 10
    assert not any(event.get("usage") for event in _events(silent.body))
    usage = record["trace"]["attempts"][0]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (20, 10)


def _with(frames: Sequence[bytes], end: bytes = CHAT.end) -> Stream:
    return Stream(CHAT.protocol, CHAT.path, CHAT.body, frames, end)


def _names(body: bytes) -> set[tuple[str, str]]:
    return {(event["id"], event["model"]) for event in _events(body)}


def _text(body: bytes) -> str:
    deltas = [choice["delta"] for event in _events(body) for choice in event["choices"]]
    return "".join(delta.get("content") or delta.get("refusal") or "" for delta in deltas)


def _plan(answer: Answer) -> str:
    return json.loads(answer.header("x-toolspeak"))["plan"]


@check_each("asked", ["nick", "up:m"])
def test_an_answer_under_another_name_says_that_name_and_is_ours(asked: str):
    answer, _ = run(_answered(CHAT, {**CHAT.body, "model": asked}, aliases={"nick": "m"}))
    assert _text(answer.body) == "It rains, it päurs. Über alles. Over."
    assert {model for _, model in _names(answer.body)} == {asked}
    assert b"up-1" not in answer.body and b"m-2026" not in answer.body


LEAK = '<tool_call>\n{"name": "get_time", "arguments": {"city": "Oslo"}}\n</tool_call>'


@check_each("cut", [0, 7, 100_000])
def test_a_call_in_the_text_of_a_native_answer_is_still_found(cut: int):
    texts = ["Certainly, I ", "will look at ", "the clock.\n", LEAK]
    stream = _with([OPENING, *(_chat(json.dumps({"content": text})) for text in texts)])
    answer, record = run(_answered(stream, {**CHAT.body, "tools": TOOLS}, cut=cut, capability="openai"))
    calls = [call for event in _events(answer.body) for call in event["choices"][0]["delta"].get("tool_calls", ())]
    assert _plan(answer) == "native"
    assert [call["function"]["name"] for call in calls if "id" in call] == ["get_time"]
    assert json.loads("".join(call["function"]["arguments"] for call in calls)) == {"city": "Oslo"}
    assert b"tool_call>" not in answer.body
    assert len(_names(answer.body)) == 1
    assert record["warnings"] == ["tool calls read from text"]


def test_text_beside_native_tools_comes_as_its_bytes_until_a_call_does():
    texts = ["Certainly, I ", "will look at ", "the clock."]
    said = [_chat(f'{{"content":"{text}"}}') for text in texts]
    call = (
        '[{"index":0,"id":"c1","type":"function","function":{"name":"get_time","arguments":"{\\"city\\":\\"Oslo\\"}"}}]'
    )
    stream = _with([OPENING, *said, _chat(f'{{"tool_calls":{call}}}')])
    body = {**CHAT.body, "tools": TOOLS}
    answer, _ = run(_answered(stream, body, capability="openai", settings=Settings(retries=0)))
    assert said[1] + said[2] in answer.body
    assert b'"c1"' in answer.body
    assert _names(answer.body) == {("up-1", "m-2026")}


def test_an_emulated_answer_is_ours():
    body = {**CHAT.body, "tools": TOOLS}
    answer, _ = run(_answered(CHAT, body, settings=Settings(mode="force", retries=0)))
    assert _plan(answer) == "inline"
    assert b"up-1" not in answer.body and b"region" not in answer.body


UNQUOTED = {
    "a key": _chat('{"content":"x"}', beside=f',"seen":"{KEY}"'),
    "a key with escapes": _chat('{"content":"x"}', beside=',"seen":"{}"'.format(KEY.replace("/", "\\/"))),
    "a key with other escapes": _chat('{"content":"x"}', beside=',"seen":"{}"'.format(KEY.replace("s", "\\u0073"))),
    "bytes that are no text": _chat('{"content":"x"}', beside=',"seen":"?"').replace(b"?", b"\xff"),
    "the end of a line": _chat('{"content":"x"}', beside=',"seen":"\u2028"'),
    "another name": _chat('{"content":"x"}', beside=',"seen":1').replace(b"up-1", b"up-2"),
    "another model": _chat('{"content":"x"}', beside=',"seen":1', model="other"),
    "usage": _chat('{"content":"x"}', beside=',"usage":{"prompt_tokens":1,"completion_tokens":1},"seen":1'),
    "a refusal": _chat('{"refusal":"x"}', beside=',"seen":1'),
    "logprobs": _chat('{"content":"x"}', '"logprobs":{"content":[]},"finish_reason":null', ',"seen":1'),
    "another shape": _chat('{"content":[{"type":"text","text":"x"}]}', beside=',"seen":1'),
    "no kind": _chat('{"content":"x"}', beside=',"seen":1').replace(b"completion.chunk", b"something"),
    "a name for the event": b"event: seen\n" + _chat('{"content":"x"}', beside=',"seen":1'),
}


@pytest.mark.requirement("R-T2")
@check_each("frame", [pytest.param(frame, id=name) for name, frame in UNQUOTED.items()])
def test_an_event_that_says_what_we_would_not_is_ours(frame: bytes):
    before, after = _chat('{"content":"Before. "}'), _chat('{"content":" After."}')
    answer, _ = run(_answered(_with([OPENING, before, frame, after])))
    assert answer.body.startswith(OPENING + before)
    assert after in answer.body
    assert b"seen" not in answer.body
    assert _text(answer.body) == "Before. x After."
    assert _names(answer.body) == {("up-1", "m-2026")}


def test_who_speaks_is_told_where_the_upstream_does_not():
    said = _chat('{"content":"Hello."}')
    answer, _ = run(_answered(_with([said])))
    first, second, _ = _events(answer.body)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert second["choices"][0]["delta"] == {"content": "Hello."} and said in answer.body
    assert _names(answer.body) == {("up-1", "m-2026")}


def test_what_is_said_of_an_answer_stands_in_what_we_add_to_it():
    told = _chat('{"role":"assistant","content":""}', beside=',"system_fingerprint":"fp"')
    answer, _ = run(_answered(_with([told, _chat('{"content":"Hello."}')])))
    assert answer.body.startswith(told)
    assert _events(answer.body)[-1]["system_fingerprint"] == "fp"


def test_an_error_in_the_middle_ends_the_stream():
    said = _chat('{"content":"Hello."}')
    error = b'data: {"error":{"message":"out of memory"}}\n\n'
    answer, record = run(_answered(_with([OPENING, said, error], b"")))
    assert answer.body.startswith(OPENING + said)
    assert _events(answer.body)[-1]["error"]["message"] == "out of memory"
    assert record["error"] == "out of memory"
