"""One turn through the engine: formats, native answers, asking again, marks, and what is told about it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.cases import check_each
from tests.engine.engine_helpers import (
    ANSWER,
    ASKED,
    BROWSER,
    CONSTRAINED,
    DECISION,
    ENVELOPE,
    INLINE,
    NATIVE,
    NO_TOOLS,
    PLANS,
    REFUSAL,
    TOOLS,
    UNSAFE,
    WEATHER_CALL,
    Turn,
    action,
    decision,
    emitted,
    envelope,
    finished,
    last_words,
    native,
    turn,
    with_options,
)
from tests.offline_turn import NONCE, STAMP, engine_for, planned, user
from toolspeak.core.events import (
    CallArgs,
    CallEnd,
    CallStart,
    Event,
    Failure,
    Finish,
    Noted,
    ReasoningDelta,
    TextDelta,
    UsageSeen,
)
from toolspeak.core.types import Media, Message, Note, Options, Request, ResponseFormat, TextPart, ToolChoice, Usage
from toolspeak.engine.planning.capabilities import Profile
from toolspeak.engine.planning.strategy import Settings
from toolspeak.engine.turn.actions import Done, StopAttempt
from toolspeak.engine.turn.engine import Engine
from toolspeak.errors import SchemaError

# ---- formats, stops, numbers


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WANTED = ResponseFormat(SCHEMA, "city")


@pytest.mark.requirement("C6")
def test_a_format_is_kept_inline_by_repairing_the_text():
    engine = with_options(Options(response_format=WANTED), INLINE, Profile())
    turned = Turn(engine, "Here you are:\n```json\n{'city': 'Oslo',}\n```")
    assert json.loads(turned.reply.text) == {"city": "Oslo"}
    assert (turned.outcome.requests, "format_repaired" in turned.notes) == (1, True)
    assert turned.asked[0].options.response_format is None
    assert json.dumps(SCHEMA, separators=(",", ":")) in turned.asked[0].messages[0].text


@pytest.mark.requirement("C6")
def test_a_call_comes_before_the_format():
    engine = with_options(Options(response_format=WANTED), INLINE, Profile())
    turned = Turn(engine, f"Let me see.\n{action(city='Oslo')}")
    assert (turned.calls, turned.outcome.requests) == (WEATHER_CALL, 1)


@pytest.mark.requirement("C6", "E2")
def test_an_answer_without_the_format_is_asked_for_again_and_then_an_error():
    engine = with_options(Options(response_format=WANTED), INLINE, Profile())
    turned = Turn(engine, "It is Oslo.", '{"city": "Oslo"}')
    assert (turned.reply.text, turned.outcome.requests) == ('{"city": "Oslo"}', 2)
    assert "retry_bad_format" in turned.notes
    turned = Turn(with_options(Options(response_format=WANTED), INLINE, Profile()), "It is Oslo.")
    assert (turned.reply.text, turned.reply.finish_reason, turned.outcome.requests) == ("", "error", 3)
    assert turned.outcome.failure is not None
    assert turned.outcome.failure.kind == "format"
    assert turned.outcome.failure.message.startswith("no answer in the requested format after 3 requests")


@pytest.mark.requirement("C6", "E3")
def test_what_is_returned_after_the_last_retry_has_the_form_asked_for_too():
    turned = Turn(with_options(Options(response_format=WANTED), INLINE, Profile()), REFUSAL)
    assert turned.outcome.failure is not None
    assert (turned.outcome.failure.kind, turned.reply.text, turned.outcome.requests) == ("format", "", 3)
    said = json.dumps({"city": f"{REFUSAL} I cannot look up the weather."})
    turned = Turn(with_options(Options(response_format=WANTED), INLINE, Profile()), f"{REFUSAL}\n```json\n{said}\n```")
    assert (turned.outcome.failure, json.loads(turned.reply.text)) == (None, json.loads(said))


@pytest.mark.requirement("B11")
@check_each("stream", [False, True])
@check_each("opening", ["\n\n", "I'm sorry,\n"])
def test_an_opening_before_a_call_is_no_refusal_whatever_the_call_comes_to(stream: bool, opening: str):
    turned = turn(f"{opening}{action()}\n\n", f"Again.\n{action(city='Oslo')}", stream=stream)
    assert (turned.calls, turned.outcome.requests) == (WEATHER_CALL, 2)
    assert turned.reply.text.strip() == (opening.strip() or "Again.")


@pytest.mark.requirement("C6", "B6")
def test_an_answer_that_is_cut_off_is_not_held_to_its_format():
    engine = with_options(Options(response_format=WANTED), INLINE, Profile())
    turned = Turn(engine, finished(TextDelta('{"city": "Os'), reason="length"))
    assert (turned.reply.text, turned.reply.finish_reason, turned.outcome.requests) == ('{"city": "Os', "length", 1)


@pytest.mark.requirement("C6")
def test_a_format_goes_up_with_the_final_request_of_two_phases():
    turned = Turn(with_options(Options(response_format=WANTED), DECISION, Profile()), NO_TOOLS, '{"city": "Oslo"}')
    assert [request.options.response_format for request in turned.asked] == [None, WANTED]
    assert turned.reply.text == '{"city": "Oslo"}'


@pytest.mark.requirement("C6")
def test_a_format_is_the_schema_of_the_reply_in_an_envelope():
    turned = Turn(with_options(Options(response_format=WANTED), ENVELOPE, CONSTRAINED), envelope({"city": "Oslo"}))
    enforced = turned.asked[0].options.grammar["response_format"]["json_schema"]["schema"]
    replies = [branch["properties"]["reply"] for branch in enforced["anyOf"]]
    assert [reply["properties"] for reply in replies if reply["type"] == "object"] == [SCHEMA["properties"]]
    assert turned.asked[0].options.response_format is None
    assert (json.loads(turned.reply.text), turned.outcome.requests) == ({"city": "Oslo"}, 1)


@pytest.mark.requirement("C6")
def test_a_format_goes_up_with_native_tools():
    turned = Turn(with_options(Options(response_format=WANTED), Settings(), NATIVE), "{}")
    assert turned.asked[0].options.response_format == WANTED


# ---- formats without tools


def without_tools(
    *,
    settings: Settings | None = None,
    profile: Profile | None = None,
    messages: Sequence[Message] = (),
    response_format: ResponseFormat = WANTED,
    stream: bool = False,
) -> Engine:
    settings = settings or Settings()
    options = Options(response_format=response_format)
    request = Request("m", tuple(messages or ASKED), stream=stream, options=options)
    return Engine(request, planned(request, settings, profile), settings, stamp=STAMP, nonces=lambda _: NONCE)


@pytest.mark.requirement("C8")
@check_each("stream", [False, True])
@check_each(
    "answer",
    [
        "Sure! Here you are:\n\n```json\n{'city': 'Oslo',}\n```\nAnything else?",
        '<think>The user wants {"city": "Bergen"}.</think>\nIt is {"city": "Oslo"}.',
    ],
)
def test_without_tools_a_format_is_taught_and_the_json_extracted(answer: str, stream: bool):
    turned = Turn(without_tools(stream=stream), answer, chunk=7)
    assert (turned.reply.text, turned.outcome.requests) == ('{"city":"Oslo"}', 1)
    assert {"format_taught", "format_repaired"} <= set(turned.notes)
    (request,) = turned.asked
    assert json.dumps(SCHEMA, separators=(",", ":")) in request.messages[0].text
    assert (request.messages[-1], request.options.response_format) == (ASKED[-1], WANTED)
    assert turned.outcome.trace.contract_tokens > 0


@pytest.mark.requirement("C8", "C5")
@check_each("stream", [False, True])
@check_each("answer", ['{"city": "Oslo"}', ' \n{ "city" : "<think>\\u00e9</think>" }\n\n', '{"city":"[x]","a":[1, 2]}'])
def test_a_valid_answer_passes_byte_for_byte(answer: str, stream: bool):
    turned = Turn(without_tools(stream=stream), answer, chunk=3)
    assert (turned.reply.text, turned.reply.finish_reason) == (answer, "stop")
    assert "format_repaired" not in turned.notes


@pytest.mark.requirement("C8", "E2")
def test_without_tools_a_wrong_answer_is_asked_for_again_with_the_problem():
    turned = Turn(without_tools(stream=True), '{"town": "Oslo"}', "It is Oslo.", '{"city": "Oslo"}', chunk=2)
    assert (turned.reply.text, turned.outcome.requests) == ('{"city": "Oslo"}', 3)
    assert turned.notes.count("retry_bad_format") == 2
    assert turned.reply.usage == Usage(30, 15)
    first, second = (last_words(request) for request in turned.asked[1:])
    assert "city" in first
    assert "not JSON" in second


@pytest.mark.requirement("C8", "E3")
@check_each(("retries", "requests"), [(0, 1), (2, 3)])
def test_without_tools_an_answer_that_never_fits_is_a_typed_failure(retries: int, requests: int):
    turned = Turn(without_tools(settings=Settings(retries=retries), response_format=ResponseFormat()), "It is Oslo.")
    assert turned.outcome.failure is not None
    assert (turned.outcome.failure.kind, turned.reply.text, turned.outcome.requests) == ("format", "", requests)


@pytest.mark.requirement("C8", "B6")
@check_each("reason", ["length", "content_filter"])
def test_without_tools_an_answer_that_is_cut_off_is_not_held_to_its_format(reason: str):
    turned = Turn(without_tools(), finished(TextDelta('{"city": "Os'), reason=reason))
    assert (turned.reply.text, turned.reply.finish_reason, turned.outcome.requests) == ('{"city": "Os', reason, 1)


@pytest.mark.requirement("C8", "C5")
@check_each(
    ("settings", "profile", "last"),
    [
        (Settings(mode="off"), Profile(), "user"),
        (Settings(check_format=False), Profile(), "user"),
        (Settings(), CONSTRAINED, "user"),
        (Settings(mode="force"), CONSTRAINED, "user"),
        (Settings(), Profile(), "assistant"),
    ],
)
def test_a_format_passes_untouched_if_it_is_enforced_or_not_ours_to_check(
    settings: Settings, profile: Profile, last: str
):
    messages = [*ASKED, *([Message("assistant", (TextPart("{"),))] if last == "assistant" else [])]
    turned = Turn(without_tools(settings=settings, profile=profile, messages=messages), "It is Oslo.")
    assert (turned.reply.text, turned.outcome.requests, turned.notes) == ("It is Oslo.", 1, [])
    assert turned.asked[0].messages == tuple(messages)


@pytest.mark.requirement("C8")
def test_constraints_that_are_switched_off_do_not_count_as_enforced():
    turned = Turn(without_tools(settings=Settings(constrain=False), profile=CONSTRAINED), 'It is {"city": "Oslo"}.')
    assert turned.reply.text == '{"city":"Oslo"}'


@pytest.mark.requirement("C8", "C6")
def test_native_tools_and_the_tools_of_the_past_do_not_change_the_check():
    options = Options(response_format=WANTED)
    native_turn = Turn(with_options(options, Settings(), NATIVE), "It is Oslo.", 'It is {"city": "Oslo"}.')
    assert (native_turn.reply.text, native_turn.outcome.requests) == ('{"city":"Oslo"}', 2)
    decided = Turn(with_options(options, DECISION, Profile()), NO_TOOLS, "Oslo.", '{"city": "Oslo"}')
    assert (decided.reply.text, decided.outcome.requests) == ('{"city": "Oslo"}', 3)
    unchecked = Turn(with_options(options, Settings(check_format=False), NATIVE), "It is Oslo.")
    assert (unchecked.reply.text, unchecked.notes) == ("It is Oslo.", [])
    none = Turn(with_options(options, INLINE, Profile(), ToolChoice("none")), 'It is {"city": "Oslo"}.')
    assert none.reply.text == '{"city":"Oslo"}'


@pytest.mark.requirement("C8")
@check_each("error", ["`response_format` is not supported", "json_schema: unknown type", "Unknown field: 'format'"])
def test_an_upstream_that_rejects_the_format_is_asked_without_it(error: str):
    turned = Turn(without_tools(), [Failure("bad request", status=400, body=error)], 'It is {"city": "Oslo"}.')
    assert (turned.reply.text, turned.outcome.requests) == ('{"city":"Oslo"}', 2)
    assert [request.options.response_format for request in turned.asked] == [WANTED, None]
    assert turned.asked[1].messages == turned.asked[0].messages
    (limitation,) = turned.outcome.limitations
    assert (limitation.code in turned.notes, limitation.profile_fields) == (True, {"response_format": False})
    learned = Turn(without_tools(profile=Profile(response_format=False)), '{"city": "Oslo"}')
    assert (learned.asked[0].options.response_format, learned.outcome.requests) == (None, 1)


@pytest.mark.requirement("C8")
def test_an_upstream_without_a_system_role_gets_the_format_in_the_users_message():
    refusal = Failure("bad request", status=400, body="the system role is not supported")
    turned = Turn(without_tools(profile=Profile(response_format=False)), [refusal], '{"city": "Oslo"}')
    assert [message.role for message in turned.asked[1].messages] == ["user"]
    assert "JSON schema" in turned.asked[1].messages[0].text
    assert turned.reply.text == '{"city": "Oslo"}'


@pytest.mark.requirement("C8")
def test_a_refused_grammar_does_not_end_the_check_of_the_format():
    refusal = [Failure("bad request", status=400, body="grammar is not supported")]
    engine = with_options(Options(response_format=WANTED), DECISION, CONSTRAINED)
    turned = Turn(engine, refusal, NO_TOOLS, 'It is {"city": "Oslo"}.')
    assert turned.reply.text == '{"city":"Oslo"}'


DECLINED = "I'm sorry, but I can't help with that."
MARKED: list[Event] = [Noted(Note("refusal", "marked")), TextDelta("No, never."), Finish("stop")]


@pytest.mark.requirement("C8", "E5")
@check_each("stream", [False, True])
@check_each("answer", [DECLINED, [TextDelta(DECLINED), Finish("stop")], MARKED])
def test_a_refusal_for_safety_is_not_asked_again_for_the_format(stream: bool, answer: Any):
    turned = Turn(without_tools(stream=stream), answer)
    expected = "No, never." if answer is MARKED else DECLINED
    assert (turned.reply.text, turned.outcome.requests, turned.outcome.failure) == (expected, 1, None)
    assert turned.notes.count("refusal") == 1
    told = [type(event) for event in turned.events if isinstance(event, Noted | TextDelta)]
    assert told.index(Noted) < told.index(TextDelta)


@pytest.mark.requirement("C8", "E5")
@check_each("answer", ['{"town": "I can\'t help with that."}', "I don't have access to the internet.", "It is Oslo."])
def test_other_answers_without_the_format_are_asked_again(answer: str):
    turned = Turn(without_tools(), answer, '{"city": "Oslo"}')
    assert (turned.reply.text, turned.outcome.requests, "refusal" in turned.notes) == ('{"city": "Oslo"}', 2, False)


@pytest.mark.requirement("C8", "B15")
def test_a_schema_is_checked_before_anything_is_asked():
    with pytest.raises(SchemaError, match="the response format cannot be used"):
        without_tools(response_format=ResponseFormat("no schema"))
    odd = ResponseFormat({"type": "object", "properties": {"city": {"type": "str"}}})
    assert "schema_relaxed" in Turn(without_tools(response_format=odd), "{}").notes


@pytest.mark.requirement("C8")
def test_a_long_conversation_is_reminded_of_the_format():
    messages = [user("x" * 30_000)]
    turned = Turn(without_tools(messages=messages), '{"city": "Oslo"}')
    assert last_words(turned.asked[0]).endswith("Answer with JSON only, as described at the beginning.")


@pytest.mark.requirement("C4")
def test_what_the_model_cannot_take_is_told_as_text():
    picture = Message("user", (TextPart("What is this?"), Media("image", "data:image/png;base64,AA==")))
    turned = turn(ANSWER, messages=[picture], profile=Profile(media=()))
    assert "[image left out" in last_words(turned.asked[0])
    assert "media_replaced" in turned.notes
    assert turn(ANSWER, messages=[picture]).asked[0].messages[-1].parts[-1] == picture.parts[-1]


# ---- native answers


@pytest.mark.requirement("D7")
def test_a_call_in_the_text_of_a_native_answer_is_rescued_unless_that_never_happens_there():
    said = 'Sure.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
    turned = turn(said, settings=Settings(), profile=NATIVE)
    assert (turned.calls, turned.reply.text.strip()) == (WEATHER_CALL, "Sure.")
    assert turned.outcome.warnings == ("tool calls read from text",)
    trusted = Profile(capability="openai", leaks=False)
    turned = turn(said, settings=Settings(), profile=trusted)
    assert (turned.calls, turned.reply.text) == ([], said)


@pytest.mark.requirement("D7")
def test_a_native_call_is_not_told_as_rescued():
    turned = turn(finished(*native(city="Oslo")), settings=Settings(), profile=NATIVE)
    assert (turned.calls, turned.outcome.warnings, turned.reply.finish_reason) == (WEATHER_CALL, (), "tool_calls")


@pytest.mark.requirement("D6")
@check_each("plan", ["native", "fallback"])
@check_each("status", [400, 404, 422, 501])
def test_an_upstream_that_does_not_take_tools_is_asked_without_them(plan: str, status: int):
    settings, profile = PLANS[plan]
    refusal = [Failure("bad request", status=status, body='{"error": "m does not support tools"}')]
    answer = action(city="Oslo") if plan == "native" else decision(*WEATHER_CALL)
    turned = turn(refusal, answer, settings=settings, profile=profile)
    assert (turned.calls, turned.outcome.requests, turned.outcome.failure) == (WEATHER_CALL, 2, None)
    assert ("native_unsupported" in turned.notes, turned.asked[1].tools) == (True, ())
    assert turned.outcome.warnings == ("tool calls emulated",)


@pytest.mark.requirement("D6")
@check_each(
    ("settings", "answer"),
    [
        (Settings(), [Failure("no tools", status=401)]),
        (Settings(), [Failure("context too long", status=400)]),
        (Settings(), [TextDelta("Well, "), Failure("tools broke", status=500)]),
        (Settings(), [ReasoningDelta("Hm."), Failure("tools broke", status=500)]),
        (INLINE, [Failure("no tools", status=400)]),
    ],
)
def test_any_other_failure_ends_the_turn(settings: Settings, answer: list[Event]):
    turned = turn(answer, settings=settings, profile=NATIVE)
    assert (turned.outcome.requests, turned.outcome.failure, turned.reply.finish_reason) == (1, answer[-1], "error")
    assert turned.events[-2:] == [answer[-1], Finish("error")]


@pytest.mark.requirement("B11")
def test_a_failure_in_the_middle_of_an_answer_keeps_what_has_left_and_stops_the_attempt():
    engine = engine_for(ASKED, TOOLS, INLINE, stream=True)
    engine.start()
    assert emitted(engine.feed(1, TextDelta("Oslo is "))) == [TextDelta("Oslo is ")]
    broken = Failure("the connection broke", kind="truncated")
    actions = engine.feed(1, broken)
    assert actions[0] == StopAttempt(1)
    assert emitted(actions) == [UsageSeen(Usage()), broken, Finish("error")]
    assert isinstance(actions[-1], Done)
    assert actions[-1].outcome.failure == broken


@pytest.mark.requirement("B6")
@check_each("stream", [False, True])
def test_a_native_call_in_which_the_upstream_fails_is_no_call(stream: bool):
    broken = [CallStart(0, "get_weather", "a"), CallArgs(0, '{"city": "Os'), Failure("gone", "truncated")]
    turned = turn(broken, settings=Settings(), profile=NATIVE, stream=stream)
    assert (turned.calls, turned.reply.finish_reason, turned.reply.complete) == ([], "error", False)
    assert not any(isinstance(event, CallEnd) for event in turned.events)


@pytest.mark.requirement("B6", "B9")
def test_a_native_call_that_is_open_when_a_result_is_invented_is_no_call():
    answer = [
        *native(city="Oslo"),
        CallStart(1, "search", "b"),
        CallArgs(1, '{"query": "x'),
        TextDelta("\n<tool_response>\n4 degrees\n</tool_response>\n"),
        CallArgs(1, 'yz"}'),
        CallEnd(1),
    ]
    for stream in (False, True):
        turned = turn(finished(*answer), settings=Settings(), profile=NATIVE, stream=stream)
        assert (turned.calls, turned.reply.text.strip()) == (WEATHER_CALL, "")


# ---- asking again


@pytest.mark.requirement("E2", "E3")
def test_after_the_last_retry_the_models_own_text_is_returned_with_a_warning():
    turned = turn(REFUSAL)
    assert (turned.reply.text, turned.reply.finish_reason, turned.outcome.requests) == (REFUSAL, "stop", 3)
    assert turned.outcome.warnings == (
        "tool calls emulated",
        "no usable tool call after 3 requests: refusal: it says that it has no tools",
    )
    assert turned.notes.count("retry_refusal") == 2


@pytest.mark.requirement("E2")
def test_each_retry_says_what_to_do_in_stronger_words_and_the_last_one_asks_for_a_decision():
    turned = turn(action("get_wether", city="Oslo"))
    first, second, third = map(last_words, turned.asked)
    assert "get_weather" in second
    assert "You must" not in second
    assert "You must" in third
    assert "This is the last attempt." in third
    assert first == ASKED[0].text
    assert [len(request.messages) for request in turned.asked] == [2, 4, 4]
    assert [attempt.phase for attempt in turned.outcome.trace.attempts] == ["inline", "inline", "decision"]


@pytest.mark.requirement("E2")
@check_each(("retries", "requests"), [(0, 1), (1, 2), (4, 5)])
def test_the_number_of_retries_is_a_setting(retries: int, requests: int):
    turned = turn(REFUSAL, settings=Settings(mode="force", retries=retries))
    assert (turned.outcome.requests, turned.reply.text) == (requests, REFUSAL)


@pytest.mark.requirement("E1")
def test_an_ordinary_answer_is_not_asked_for_again():
    assert turn(ANSWER).outcome.requests == 1


@pytest.mark.requirement("E1", "B6")
def test_a_call_that_is_broken_off_without_a_limit_is_asked_for_again():
    call = action(city="Oslo")
    turned = turn(call[: call.index("Os")], call)
    assert (turned.calls, turned.outcome.requests) == (WEATHER_CALL, 2)
    assert "retry_truncated" in turned.notes


# ---- marks


@pytest.mark.requirement("R-E2")
def test_a_nonce_that_stands_in_the_conversation_is_replaced_by_the_next():
    turned = turn(action(city="Oslo").replace(NONCE, f"{NONCE}1"), messages=[user(f"What is {NONCE}?")])
    assert turned.calls == WEATHER_CALL
    assert f"{NONCE}1" in turned.asked[0].messages[0].text


@pytest.mark.requirement("R-E2")
def test_without_a_free_nonce_fixed_marks_are_used_and_noted():
    turned = turn(
        '```json action\n{"tool": "get_weather", "parameters": {"city": "Oslo"}}\n```',
        messages=[user(f"What is {NONCE}?")],
        nonces=lambda _: NONCE,
    )
    assert turned.calls == WEATHER_CALL
    assert "no_free_nonce" in turned.notes


@pytest.mark.requirement("R-E2")
def test_a_native_call_in_place_of_a_written_one_counts_unless_marks_are_strict():
    answer = finished(TextDelta(ANSWER), *native(city="Oslo"), reason="tool_calls")
    turned = turn(answer)
    assert (turned.calls, turned.reply.finish_reason, turned.reply.text) == (WEATHER_CALL, "tool_calls", ANSWER)
    assert "unmarked" in turned.notes
    strict = turn(answer, settings=Settings(mode="force", marks="nonce", retries=0))
    assert (strict.calls, strict.reply.finish_reason) == ([], "stop")


# ---- why there is no call


@pytest.mark.requirement("H6")
@check_each(
    ("script", "arguments", "why"),
    [
        ([ANSWER], {"tools": (), "settings": INLINE}, "no tools reached the model"),
        ([ANSWER], {"settings": Settings(chat_only=True)}, "no tools reached the model"),
        ([ANSWER], {"tools": (BROWSER,)}, "no tools reached the model"),
        (
            [ANSWER],
            {"tools": (BROWSER,), "profile": NATIVE, "settings": Settings()},
            "the model answered without calling a tool",
        ),
        ([ANSWER], {"settings": Settings(mode="off")}, "the model answered without calling a tool"),
        ([ANSWER], {"choice": ToolChoice("none")}, "`tool_choice` is none"),
        ([[Failure("gone")]], {}, "the upstream failed: gone"),
        ([REFUSAL], {}, "the model refused: it says that it has no tools"),
        ([UNSAFE], {"choice": ToolChoice("required")}, "a call was required, but there was none: the model declined"),
        ([finished(TextDelta("Once upon a"), reason="length")], {}, "the answer was cut off by the token limit"),
        ([ANSWER], {}, "the model answered without calling a tool"),
        ([action(city="Oslo")], {}, ""),
    ],
)
def test_why_there_is_no_call_is_said_in_one_line(script: list[Any], arguments: dict[str, Any], why: str):
    turned = turn(*script, **arguments)
    assert turned.outcome.trace.why_no_call == why
    assert bool(turned.outcome.trace.no_call_code) is bool(why)


@pytest.mark.requirement("H6")
def test_a_candidate_that_was_not_taken_is_named():
    bad = decision(("get_weather", {"days": 1}))
    turned = turn(bad, NO_TOOLS, ANSWER, settings=DECISION)
    why = "`get_weather` was not accepted as a call: it is weakly marked and does not match the tool's schema"
    assert (turned.outcome.trace.why_no_call, turned.outcome.trace.no_call_code) == (why, "does_not_fit")


# ---- order


def interleaved(*endings: Event) -> list[Event]:
    """Two native calls whose arguments come in turns."""
    return finished(
        CallStart(0, "get_weather", "a"),
        CallStart(1, "search", "b"),
        CallArgs(1, '{"query": "x"}'),
        CallArgs(0, '{"city": "Oslo"}'),
        *endings,
        reason="tool_calls",
    )


@pytest.mark.requirement("A10", "B8")
@check_each("stream", [False, True])
@check_each("endings", [(CallEnd(0), CallEnd(1)), (CallEnd(1), CallEnd(0)), (CallEnd(1),), ()])
def test_calls_keep_the_order_in_which_they_began(stream: bool, endings: tuple[Event, ...]):
    arguments: dict[str, Any] = {"settings": Settings(), "profile": NATIVE, "stream": stream}
    turned = turn(interleaved(*endings), **arguments)
    assert [call.id for call in turned.reply.calls] == ["a", "b"]
    turned = turn(interleaved(*endings), choice=ToolChoice(parallel=False), **arguments)
    assert [call.id for call in turned.reply.calls] == ["a"]


@pytest.mark.requirement("B6", "B8")
@check_each("stream", [False, True])
def test_a_whole_call_behind_one_that_was_cut_off_still_counts(stream: bool):
    cut = [CallStart(0, "get_weather", "a"), CallArgs(0, '{"city": "Os'), *native("search", 1, "b", query="x")]
    turned = turn(finished(*cut, reason="length"), settings=Settings(), profile=NATIVE, stream=stream)
    assert [call.id for call in turned.reply.calls] == ["b"]
    assert turned.reply.finish_reason == "length"


@pytest.mark.requirement("A10")
def test_a_call_that_is_not_allowed_keeps_no_other_back():
    calls = [CallStart(0, "search", "a"), *native(index=1, id="b", city="Oslo"), CallEnd(0)]
    choice = ToolChoice("required", ("get_weather",))
    turned = turn(finished(*calls), settings=Settings(), profile=NATIVE, choice=choice)
    assert [call.id for call in turned.reply.calls] == ["b"]


# ---- the record


@pytest.mark.requirement("A9")
def test_the_trace_tells_every_request_and_what_was_made_of_it():
    first = action("get_wether", city="Oslo")
    turned = turn(first, action(city="Oslo"))
    one, two = turned.outcome.trace.attempts
    assert (one.phase, one.raw, one.request, one.finish_reason) == ("inline", first, turned.asked[0], "stop")
    assert one.fault is not None
    assert (one.fault.kind, two.fault) == ("unknown_tool", None)
    assert [candidate.verdict for candidate in two.candidates] == ["call"]
    assert (one.usage, turned.outcome.trace.plan) == (Usage(10, 5), "inline")
    assert turned.outcome.trace.contract_tokens > 0


def test_notes_of_the_caller_and_of_the_requests_are_told_once():
    request = Request("m", tuple(ASKED), TOOLS)
    engine = Engine(
        request,
        planned(request, INLINE),
        INLINE,
        stamp=STAMP,
        nonces=lambda _: NONCE,
        notes=(Note("recalled", "from memory"),),
    )
    turned = Turn(engine, REFUSAL)
    assert turned.events[0] == Noted(Note("recalled", "from memory"))
    assert turned.notes.count("recalled") == 1
