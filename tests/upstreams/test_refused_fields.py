"""A field that an upstream refuses and that is ours is left out, at once and from then on."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.cases import check_each
from tests.upstreams.loopback_server import Heard, head, serving
from tests.upstreams.request_helpers import Instant, reply, request, run
from toolspeak.core.types import Options, Request
from toolspeak.errors import UpstreamError
from toolspeak.upstreams.http.service import RefusedFields, refused_field, without_fields
from toolspeak.upstreams.http.thin_transport import HttpUpstream

GOOD = b'{"choices":[{"index":0,"message":{"content":"Hi"},"finish_reason":"stop"}]}'
WORDS = {
    "stop": "Unsupported parameter: 'stop' is not supported with this model.",
    "stream_options": "Unrecognized request argument supplied: stream_options",
    "parallel_tool_calls": "property 'parallel_tool_calls' is unsupported",
    "max_tokens": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
}


def answer(status: str, body: bytes) -> bytes:
    return (
        head("Content-Type: application/json", "Connection: close", f"Content-Length: {len(body)}", status=status)
        + body
    )


def refusing(*fields: str) -> Any:
    """A service that does not know these fields."""

    async def respond(heard: Heard) -> None:
        found = next((field for field in fields if field in heard.json), None)
        if found is None:
            await heard.send(answer("200 OK", GOOD))
        else:
            await heard.send(answer("400 Bad", json.dumps({"error": {"message": WORDS[found]}}).encode()))

    return respond


def asked(options: Options, times: int, *fields: str, stream: bool = False) -> tuple[list[Any], list[list[str]]]:
    """The bodies that a service heard, and the notes of each reply."""

    async def talk() -> tuple[list[Any], list[list[str]]]:
        async with serving(refusing(*fields)) as server:
            upstream = HttpUpstream(server.url, world=Instant().world)
            replies = [
                await reply(upstream, msgspec.structs.replace(request(stream=stream), options=options))
                for _ in range(times)
            ]
            await upstream.close()
            return [heard.json for heard in server.heard], [[n.detail for n in each.notes] for each in replies]

    return run(talk())


@pytest.mark.requirement("R-F47", "D6")
def test_a_stop_sequence_of_ours_is_left_out_at_once_and_from_then_on():
    bodies, notes = asked(Options(stop=("\nx",), dispensable=("stop",)), 2, "stop")
    assert [body.get("stop") for body in bodies] == [["\nx"], None, None]
    assert notes == [["the upstream refuses `stop`: dropped"]] * 2


def test_a_stop_sequence_of_the_callers_is_an_error():
    with pytest.raises(UpstreamError, match="stop"):
        asked(Options(stop=("\nx",)), 1, "stop")


def test_several_fields_are_left_out_one_after_the_other():
    bodies, notes = asked(Options(max_tokens=5), 2, "stream_options", "max_tokens", stream=True)
    assert [("stream_options" in body, body.get("max_tokens")) for body in bodies] == [
        (True, 5),
        (False, 5),
        (False, None),
        (False, None),
    ]
    assert bodies[-1]["max_completion_tokens"] == 5
    assert len(notes[1]) == 2


def test_what_did_not_help_is_not_remembered():
    def both(heard: Heard) -> bytes:
        return answer("400 Bad", b'{"error":{"message":"cannot stop here"}}')

    async def talk() -> list[Any]:
        async def respond(heard: Heard) -> None:
            await heard.send(both(heard))

        async with serving(respond) as server:
            upstream = HttpUpstream(server.url, world=Instant().world)
            options = Options(stop=("x",), dispensable=("stop",))
            for _ in range(2):
                with pytest.raises(UpstreamError):
                    await reply(upstream, msgspec.structs.replace(request(), options=options))
            await upstream.close()
            return ["stop" in heard.json for heard in server.heard]

    assert run(talk()) == [True, False, True, False]


@check_each(
    ("status", "words", "found"),
    [
        (400, "`stop` is unknown", "stop"),
        (422, '{"loc":["body","stop"]}', "stop"),
        (400, "stopping is unknown", ""),
        (400, "stream_options is unknown", ""),  # it was not sent
        (500, "`stop` is unknown", ""),
    ],
)
def test_only_a_refusal_that_names_a_field_which_was_sent_counts(status: int, words: str, found: str):
    options = Options(stop=("x",), dispensable=("stop",))
    error = UpstreamError(words, upstream_status=status)
    assert refused_field(error, b'{"stop":["x"],"model":"m"}', Request("m", (), options=options)) == found


def test_what_the_caller_says_in_the_upstreams_words_is_the_callers():
    error = UpstreamError("no `store`", upstream_status=400)
    assert refused_field(error, b'{"store":false}', Request("m", ())) == "store"
    for options in (Options(own={"store": False}), Options(extra={"store": False})):
        assert refused_field(error, b'{"store":false}', Request("m", (), options=options)) == ""


def test_a_body_is_changed_only_where_it_must_be():
    assert json.loads(without_fields(b'{"max_tokens":5,"stop":["x"],"a":1}', ("max_tokens", "stop", "store"))) == {
        "max_completion_tokens": 5,
        "a": 1,
    }


def test_what_a_model_thought_is_not_sent_back_to_who_refuses_it():
    error = UpstreamError("('messages.1' : property 'reasoning_content' is unsupported)", upstream_status=400)
    sent = b'{"messages":[{"role":"user"},{"role":"assistant","content":"a","reasoning_content":"hm"}]}'
    assert refused_field(error, sent, Request("m", ())) == "reasoning_content"
    bare = without_fields(sent, ("reasoning_content",))
    assert json.loads(bare)["messages"] == [{"role": "user"}, {"role": "assistant", "content": "a"}]
    assert refused_field(error, bare, Request("m", ())) == ""
    assert refused_field(error, b'{"messages":"odd"}', Request("m", ())) == ""


def test_what_is_remembered_is_of_one_model_for_a_while_and_bounded():
    now = 0.0
    refused = RefusedFields(lambda: now)
    one, other = (Request(name, (), options=Options(dispensable=("stop",))) for name in ("a", "b"))
    refused.remember(one, ("stop",))
    refused.remember(one, ("stream_options",))
    assert refused.for_request(one) == ("stop", "stream_options")
    assert refused.for_request(other) == ()
    now = 25 * 3600.0
    assert refused.for_request(one) == ()
    now = 0.0
    for at in range(1100):
        refused.remember(Request(str(at), ()), ("store",))
    assert refused.for_request(one) == ()
    assert refused.for_request(Request("1099", ())) == ("store",)


@pytest.mark.requirement("D8")
def test_what_one_tenant_made_a_service_refuse_changes_nothing_for_others_until_three_agree():
    now = 0.0
    refused = RefusedFields(lambda: now)
    requests = [Request("m", (), tenant=tenant) for tenant in ("a", "b", "c", "d")]
    found: list[list[tuple[str, ...]]] = []
    for each in requests[:3]:
        refused.remember(each, ("store", "stream_options") if each.tenant == "a" else ("store",))
        found.append([refused.for_request(one) for one in requests])
    first, usual, none = ("store", "stream_options"), ("store",), ()
    assert found == [[first, none, none, none], [first, usual, none, none], [first, usual, usual, usual]]
    now = 25 * 3600.0
    assert refused.for_request(requests[3]) == ()


def answers(errors: dict[str, str], *requests: Request) -> list[dict[str, Any]]:
    """The bodies heard by a service that answers each of these fields with an error."""

    async def respond(heard: Heard) -> None:
        words = next((words for field, words in errors.items() if field in heard.json), "")
        body = json.dumps({"error": {"message": words}}).encode() if words else GOOD
        await heard.send(answer("400 Bad" if words else "200 OK", body))

    async def talk() -> list[dict[str, Any]]:
        async with serving(respond) as server:
            upstream = HttpUpstream(server.url, world=Instant().world)
            for each in requests:
                await reply(upstream, each)
            await upstream.close()
            return [heard.json for heard in server.heard]

    return run(talk())


def test_a_field_of_the_callers_is_tried_whatever_was_refused_before():
    ours = request(stream=True)
    theirs = msgspec.structs.replace(ours, options=Options(extra={"stream_options": {"include_usage": True}}))
    bodies = answers({"stream_options": WORDS["stream_options"]}, ours, ours, theirs, ours)
    assert ["stream_options" in body for body in bodies] == [True, False, False, True, False, False]


@check_each(
    ("words", "remembered"),
    [
        (WORDS["max_tokens"], True),
        ("max_tokens: Extra inputs are not permitted", True),
        ("this model does not support max_tokens", True),
        ("max_tokens is too large: 1000000000. The limit is 4096.", False),
        ("`max_tokens` must be positive", False),
    ],
)
def test_a_complaint_about_a_value_changes_no_other_request(words: str, remembered: bool):
    limited = msgspec.structs.replace(request(), options=Options(max_tokens=5))
    bodies = answers({"max_tokens": words}, limited, limited)
    expected = [True, False, False] if remembered else [True, False, True, False]
    assert ["max_tokens" in body for body in bodies] == expected
