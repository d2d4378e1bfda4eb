"""How a retry differs from the request before it: the model's own dialect, native tools, another plan."""

from __future__ import annotations

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
    INLINE,
    NATIVE,
    NO_TOOLS,
    REFUSAL,
    TOOLS,
    WEATHER_CALL,
    Turn,
    action,
    decision,
    envelope,
    native,
    turn,
)
from tests.offline_turn import NONCE, STAMP, user
from toolspeak.core.events import Event, Failure
from toolspeak.core.types import Request, ToolCall, ToolChoice
from toolspeak.dialects.registry import render_calls
from toolspeak.engine.planning.capabilities import Profile, ProfileMatch
from toolspeak.engine.planning.strategy import Settings, plan
from toolspeak.engine.turn.engine import Engine

WRONG = [ToolCall("get_wether", {"city": "Oslo"})]
RIGHT = [ToolCall("get_weather", {"city": "Oslo"})]
AUTO = Settings()


def phases(turned: Turn) -> list[str]:
    return [attempt.phase for attempt in turned.outcome.trace.attempts]


def learned(*script: str | Sequence[Event], profile: Profile | None = None, **more: Any) -> Turn:
    """A turn with a model of which something was learned from use."""
    return Turn(engine("learned", profile or Profile(), **more), *script)


def untried(*script: str | Sequence[Event], **more: Any) -> Turn:
    """A turn with an upstream of which nothing is known."""
    return Turn(engine("unknown", Profile(), untried=True, **more), *script)


def engine(rule: str, profile: Profile, *, untried: bool = False, settings: Settings = AUTO, **more: Any) -> Engine:
    request = Request("m", tuple(ASKED), TOOLS, **more)
    chosen = plan(request, ProfileMatch(profile, rule, "a test says so"), settings, untried=untried)
    return Engine(request, chosen, settings, stamp=STAMP, nonces=lambda _: NONCE)


# ---- the model's own dialect


@pytest.mark.requirement("E4")
@check_each("dialect", ["hermes", "qwen_xml", "mistral", "invoke"])
def test_the_second_try_asks_in_the_dialect_that_the_model_wrote_by_itself(dialect: str):
    turned = turn(render_calls(dialect, WRONG), render_calls(dialect, RIGHT))
    assert (turned.calls, turned.outcome.requests) == (WEATHER_CALL, 2)
    assert "retry_dialect" in turned.notes
    assert dialect in next(note.detail for note in turned.reply.notes if note.code == "retry_dialect")
    assert render_calls(dialect, RIGHT)[:6] in turned.asked[1].messages[0].text
    assert "```json action" not in turned.asked[1].messages[0].text


def test_a_model_that_writes_what_it_was_asked_for_is_asked_in_the_same_way():
    turned = turn(action("get_wether", city="Oslo"), action(city="Oslo"))
    assert turned.calls == WEATHER_CALL
    assert "retry_dialect" not in turned.notes
    assert turned.asked[1].messages[:2] == turned.asked[0].messages


# ---- another plan


@pytest.mark.requirement("E4")
def test_the_third_try_asks_for_a_decision():
    turned = turn(REFUSAL, REFUSAL, decision(*WEATHER_CALL))
    assert (turned.calls, turned.outcome.requests) == (WEATHER_CALL, 3)
    assert phases(turned) == ["inline", "inline", "decision"]
    assert turned.notes.count("retry_plan") == 1
    assert not turned.reply.text


@pytest.mark.requirement("E4")
def test_the_third_try_uses_the_envelope_where_the_upstream_enforces_it():
    turned = turn(REFUSAL, REFUSAL, envelope("", *WEATHER_CALL), profile=CONSTRAINED)
    assert (turned.calls, phases(turned)) == (WEATHER_CALL, ["inline", "inline", "envelope"])


@pytest.mark.requirement("E3", "E4")
@check_each("last", [NO_TOOLS, REFUSAL, "", [Failure("overloaded", status=503)]])
def test_if_the_decision_brings_no_call_the_model_has_its_own_words(last: Any):
    turned = turn("I cannot access real-time data.", "I cannot access the weather.", last)
    assert (turned.calls, turned.outcome.requests) == ([], 3)
    assert turned.reply.text == "I cannot access the weather."
    assert turned.reply.failure is None
    assert any(warning.startswith("no usable tool call after 3 requests: ") for warning in turned.warnings)


def test_text_that_was_sent_is_not_repeated():
    sent = "Here is what I found so far, and it is long enough to be sent at once.\n\n"
    turned = turn(sent + action("get_wether"), action("get_wether"), NO_TOOLS, stream=True, chunk=5)
    assert turned.reply.text.strip() == sent.strip()


@pytest.mark.requirement("E4")
def test_a_demanded_call_that_the_decision_declines_is_an_error():
    turned = turn(ANSWER, ANSWER, NO_TOOLS, choice=ToolChoice("required"))
    assert turned.reply.failure is not None
    assert turned.reply.failure.kind == "tool_choice"
    assert not turned.reply.text


def test_a_decision_is_asked_for_again_as_a_decision():
    turned = turn(REFUSAL, REFUSAL, decision(*WEATHER_CALL), settings=DECISION)
    assert (turned.calls, phases(turned)) == (WEATHER_CALL, ["decision"] * 3)


@check_each(("retries", "expected"), [(1, ["inline"] * 2), (3, ["inline", "inline", "decision", "decision"])])
def test_the_number_of_requests_stays_bounded(retries: int, expected: list[str]):
    turned = turn(REFUSAL, settings=Settings(mode="force", retries=retries))
    assert phases(turned) == expected


def test_native_calls_are_asked_for_natively_once_more_and_then_as_a_decision():
    wrong = native("get_wether", city="Oslo")
    turned = turn(wrong, wrong, decision(*WEATHER_CALL), settings=AUTO, profile=NATIVE)
    assert (turned.calls, phases(turned)) == (WEATHER_CALL, ["native", "native", "decision"])
    assert "tool calls emulated" in turned.warnings


# ---- what was learned


@pytest.mark.requirement("D8", "E4")
def test_an_upstream_that_no_longer_calls_natively_is_asked_by_the_prompt():
    turned = learned(REFUSAL, action(city="Oslo"), profile=NATIVE)
    assert (turned.calls, phases(turned)) == (WEATHER_CALL, ["native", "inline"])


@pytest.mark.requirement("D8", "E4")
def test_an_upstream_that_no_longer_calls_in_text_is_asked_natively_as_well():
    turned = learned(REFUSAL, native(city="Oslo"))
    assert (turned.calls, phases(turned)) == (WEATHER_CALL, ["inline", "both"])
    assert [bool(request.tools) for request in turned.asked] == [False, True]
    assert "retry_native" in turned.notes


def test_a_model_that_wrote_a_call_as_text_is_not_asked_natively():
    turned = learned(action("get_wether", city="Oslo"), action(city="Oslo"))
    assert [bool(request.tools) for request in turned.asked] == [False, False]


def test_if_it_rejects_the_tools_it_is_asked_without_them():
    rejection = [Failure("unknown field", status=400)]
    turned = learned(REFUSAL, rejection, action(city="Oslo"))
    assert turned.calls == WEATHER_CALL
    assert [bool(request.tools) for request in turned.asked] == [False, True, False]


# ---- unknown upstreams


@pytest.mark.requirement("D3", "D8")
@check_each("answer", [native(city="Oslo"), action(city="Oslo"), render_calls("hermes", RIGHT)])
def test_an_unknown_upstream_gets_the_tools_natively_and_in_the_prompt_and_may_use_either(answer: Any):
    turned = untried(answer)
    assert (turned.calls, turned.outcome.requests) == (WEATHER_CALL, 1)
    assert turned.asked[0].tools == TOOLS
    assert "# Tools" in turned.asked[0].messages[0].text


def test_an_unknown_upstream_gets_only_functions_natively():
    request = Request("m", tuple(ASKED), (*TOOLS, BROWSER))
    chosen = plan(request, ProfileMatch(Profile(), "unknown", ""), AUTO, untried=True)
    turned = Turn(Engine(request, chosen, AUTO, stamp=STAMP, nonces=lambda _: NONCE), action(city="Oslo"))
    assert turned.asked[0].tools == TOOLS
    assert any("browser" in warning for warning in turned.warnings)


@pytest.mark.requirement("D3", "D8")
@check_each("status", [400, 404, 422, 500, 501])
def test_if_it_rejects_a_request_with_tools_it_is_asked_by_the_prompt_alone(status: int):
    for message, fields in (("something is wrong", {}), ("function calling is off", {"capability": "none"})):
        turned = untried([Failure(message, status=status)], action(city="Oslo"))
        assert turned.calls == WEATHER_CALL
        assert [bool(request.tools) for request in turned.asked] == [True, False]
        assert [each.profile_fields for each in turned.outcome.limitations] == [fields]


@check_each("status", [403, 503])
def test_a_forbidden_or_unavailable_feature_is_a_rejection_if_the_error_names_it(status: int):
    turned = untried([Failure("Function calling is not enabled", status=status)], action(city="Oslo"))
    assert turned.calls == WEATHER_CALL


@pytest.mark.requirement("D8")
@pytest.mark.parametrize(
    ("failure", "fields"),
    [
        (
            Failure("maximum context length is 4096 tokens, you sent 5000", status=400),
            {"context_window": 4096},
        ),
        (Failure("Payload Too Large", status=413), {}),
    ],
)
def test_if_the_tools_do_not_fit_twice_they_are_sent_in_the_prompt_alone(failure: Failure, fields: dict[str, Any]):
    turned = untried([failure], action(city="Oslo"))
    assert turned.calls == WEATHER_CALL
    assert [bool(request.tools) for request in turned.asked] == [True, False]
    assert [each.profile_fields for each in turned.outcome.limitations] == [fields]
    turned = untried([failure], [failure])
    assert (turned.reply.failure, turned.outcome.limitations) == (failure, ())


@pytest.mark.requirement("D8")
@pytest.mark.parametrize(("window", "sent"), [(0, True), (8000, True), (400, False)])
def test_tools_are_sent_twice_only_where_both_copies_fit_the_known_window(window: int, sent: bool):
    turned = Turn(engine("unknown", Profile(context_window=window), untried=True), action(city="Oslo"))
    assert turned.calls == WEATHER_CALL
    assert bool(turned.asked[0].tools) == sent


@check_each("failure", [Failure("overloaded", status=503), Failure("tools per day: quota exceeded", status=429)])
def test_other_failures_say_nothing_about_tools(failure: Failure):
    turned = untried([failure], action(city="Oslo"))
    assert turned.reply.failure == failure
    assert not turned.outcome.limitations


@pytest.mark.requirement("D8", "E4")
@check_each("answer", [REFUSAL, native(town=5), native("get_wether", city="Oslo")])
def test_a_faulty_answer_is_asked_for_again_with_native_tools(answer: Any):
    turned = untried(answer, native(city="Oslo"))
    assert (turned.calls, phases(turned)) == (WEATHER_CALL, ["both", "both"])
    assert turned.asked[1].tools == TOOLS


@check_each("answer", ["", "Let me check the weather for you with get_weather."])
def test_if_the_server_may_have_removed_a_call_it_is_asked_by_the_prompt_alone(answer: str):
    turned = untried(answer, action(city="Oslo"))
    assert (turned.calls, phases(turned)) == (WEATHER_CALL, ["both", "inline"])


@pytest.mark.requirement("D8", "E4")
@check_each("answer", [native(city="Oslo"), render_calls("hermes", RIGHT)])
def test_tools_that_do_not_fit_twice_are_sent_natively_alone_by_a_retry(answer: Any):
    for rule in ("unknown", "learned"):
        turned = Turn(engine(rule, Profile(context_window=400), untried=True), REFUSAL, answer)
        assert (turned.calls, turned.outcome.requests) == (WEATHER_CALL, 2)
        assert [bool(request.tools) for request in turned.asked] == [False, True]
        assert "# Tools" not in turned.asked[1].messages[0].text


def test_tools_that_were_rejected_are_not_sent_again_in_the_same_turn():
    turned = untried([Failure("tools are off", status=400)], REFUSAL, action(city="Oslo"))
    assert turned.calls == WEATHER_CALL
    assert [bool(request.tools) for request in turned.asked] == [True, False, False]


@pytest.mark.requirement("D8")
@check_each(
    "choice", [ToolChoice("required"), ToolChoice("named", ("get_weather",)), ToolChoice("auto", (), parallel=False)]
)
def test_native_tools_beside_the_prompt_come_with_the_choice(choice: ToolChoice):
    turned = untried(native(city="Oslo"), tool_choice=choice)
    assert (turned.calls, turned.outcome.requests) == (WEATHER_CALL, 1)
    assert turned.asked[0].tool_choice == choice
    assert ("parallel_tool_calls" in turned.asked[0].options.dispensable) != choice.parallel


def test_a_rejected_choice_is_no_rejection_of_tools():
    rejection = [Failure("tool_choice `required` is not supported", status=400)]
    turned = untried(rejection, action(city="Oslo"), tool_choice=ToolChoice("required"))
    assert turned.calls == WEATHER_CALL
    assert [each.profile_fields for each in turned.outcome.limitations] == [{}]


def test_an_ordinary_answer_of_an_unknown_upstream_costs_one_request():
    turned = untried(ANSWER)
    assert (turned.reply.text, turned.outcome.requests) == (ANSWER, 1)


@pytest.mark.requirement("R-E4")
@check_each("answer", [native(city="Rome"), render_calls("hermes", [ToolCall("get_weather", {"city": "Rome"})])])
def test_what_repeats_a_text_is_no_call_in_either_form(answer: Any):
    page = render_calls("hermes", [ToolCall("get_weather", {"city": "Rome"})])
    messages = (user(f"Summarise this page: {page}"),)
    request = Request("m", messages, TOOLS)
    for rule, profile, is_untried in (("unknown", Profile(), True), ("learned", NATIVE, False)):
        chosen = plan(request, ProfileMatch(profile, rule, ""), AUTO, untried=is_untried)
        turned = Turn(Engine(request, chosen, AUTO, stamp=STAMP, nonces=lambda _: NONCE), answer, ANSWER)
        assert not turned.calls


def test_forced_emulation_sends_no_native_tools():
    assert not Turn(engine("unknown", Profile(), untried=True, settings=INLINE), ANSWER).asked[0].tools
