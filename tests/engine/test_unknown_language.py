"""Answers in languages without refusal rules: how they are recognised, and the one decision request that checks them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import toolspeak as ts
from tests.cases import check_each
from tests.engine.engine_helpers import (
    NO_TOOLS,
    PLANS,
    WEATHER,
    WEATHER_CALL,
    Turn,
    decision,
    envelope,
    finished,
    turn,
)
from tests.offline_turn import user
from toolspeak.config import load
from toolspeak.core.events import Failure, Finish, ReasoningDelta, TextDelta
from toolspeak.core.types import Message, TextPart, Tool, ToolCall, ToolChoice, ToolResult
from toolspeak.engine.planning.strategy import Settings
from toolspeak.engine.refusals.unknown_language import concerns_tool, has_known_language, may_become_unknown
from toolspeak.engine.turn.actions import EMULATED

SETS = Path(__file__).parent.parent / "refusals"


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SETS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


ROWS = rows("unknown_languages")
#: No table covers Swedish and Thai. In a stream, only the opening of the Thai answer is held back.
SWEDISH = "Tyvärr har jag inte tillgång till väderdata i realtid."
THAI = "ขออภัย ฉันไม่สามารถเข้าถึงข้อมูลสภาพอากาศแบบเรียลไทม์ได้"
ASKED = [user("Hur är vädret i Oslo idag?")]
ASKED_IN_THAI = [user("วันนี้อากาศที่ออสโลเป็นอย่างไร")]
CALL = decision(*WEATHER_CALL)
CODE = "answer_checked"


def checked(*script: Any, plan: str = "inline", **arguments: Any) -> Turn:
    settings, profile = PLANS[plan]
    arguments.setdefault("messages", ASKED)
    return turn(*script, **{"settings": settings, "profile": profile, **arguments})


# ---- recognition


@pytest.mark.requirement("E5")
def test_refusals_in_languages_without_rules_are_found():
    found = [row["language"] for row in ROWS if checked(row["text"], CALL, messages=[user(row["request"])]).calls]
    assert len(ROWS) == 24
    assert sorted({row["language"] for row in ROWS} - set(found)) == []


@pytest.mark.requirement("E5")
def test_more_than_half_of_the_refusals_that_nothing_was_tuned_for_are_checked():
    made = [
        checked(row["text"], NO_TOOLS, messages=[user(row["request"])], tools=[Tool(row["tools"][0])])
        for row in rows("unknown_languages_unread")
    ]
    assert sum(CODE in each.notes for each in made) / len(made) > 0.5
    assert all(each.reply.text for each in made)


@check_each(
    ("text", "known"),
    [
        ("The weather in Paris is fine today.", True),
        ("В Москве сейчас холодно, и на улице снег.", True),
        ("今日は東京で雨が降っています。", True),
        ("आज दिल्ली में मौसम साफ है और धूप निकली है।", True),
        (SWEDISH, False),
        (THAI, False),
        ("На жаль, я не бачу ваш файл у цій теці.", False),
        ("माफ करा, मला ही माहिती मिळवता येत नाही.", False),
        ("42", None),
        ("", None),
        ("Paris, Lyon", None),
    ],
)
def test_a_language_is_known_by_its_script_or_its_common_words(text: str, known: bool | None):
    assert has_known_language(text) is known


def test_ordinary_answers_are_rarely_taken_for_an_unknown_language():
    texts = [row["text"] for name in ("answers", "blind_answers", "more_languages") for row in rows(name)]
    unknown = [text for text in texts if has_known_language(text) is False]
    assert len(unknown) <= len(texts) / 20, unknown


@check_each(
    ("text", "held"),
    [("ขอ", True), ("Ty", False), ("Изв", False), ("  ", False), (" ข", True), ("ข" * 159, True), ("ข" * 160, False)],
)
def test_an_opening_in_a_script_without_rules_is_held(text: str, held: bool):
    assert may_become_unknown(text) is held


LIBRARY = Tool(
    "slå_upp",
    "Hämtar böcker.",
    {"type": "object", "properties": {"författare": {"description": "Namnet på den som skrev"}, "n": {}, "x": True}},
)


@check_each(
    ("request", "tools", "concerned"),
    [
        ("Hur är vädret i Malmö?", [WEATHER], True),
        ("Яка сьогодні погода?", [WEATHER], True),
        ("Öppna anteckningar.txt åt mig", [Tool("read_file")], True),
        ("Vilka böcker finns här?", [LIBRARY], True),
        ("Vem är författaren?", [LIBRARY], True),
        ("Vad hände igår?", [LIBRARY], False),
        ("Berätta något som skrev historia", [LIBRARY], True),
        ("Skriv en dikt om katter", [WEATHER, LIBRARY], False),
        ("สภาพอากาศที่กรุงเทพ", [Tool("f", "บอกสภาพอากาศ")], True),
        ("แต่งกลอนให้หน่อย", [Tool("f", "บอกสภาพอากาศ")], False),
        ("vem kan", [Tool("f", "vem kan", {"properties": [1]})], False),  # words this short say nothing
        ("Vilka böcker finns?", [Tool("f", "x " * 30_000), Tool("g", "böcker")], False),  # too much to search
        ("", [WEATHER], False),
    ],
)
def test_a_request_concerns_a_tool_if_they_share_a_topic_or_a_word(request: str, tools: list[Tool], concerned: bool):
    assert concerns_tool(request, tools) is concerned


# ---- the check


@pytest.mark.requirement("E5")
@check_each("plan", ["native", "inline", "envelope"])
def test_one_decision_request_turns_the_answer_into_a_call(plan: str):
    first = envelope(SWEDISH) if plan == "envelope" else SWEDISH
    made = checked(first, CALL, plan=plan)
    assert (made.calls, made.reply.text, len(made.asked)) == (WEATHER_CALL, "", 2)
    assert made.notes.count(CODE) == 1
    assert EMULATED in made.warnings
    assert [each.phase for each in made.outcome.trace.attempts] == [plan, "decision"]
    assert made.reply.usage.input_tokens == 20


@pytest.mark.requirement("E5")
@check_each("plan", ["native", "inline", "envelope"])
@check_each("verdict", [NO_TOOLS, "No tool is needed.", decision(("get_weather", {"days": "x"})), ""])
def test_if_no_call_results_the_answer_stands_without_another_request(plan: str, verdict: str):
    first = envelope(SWEDISH) if plan == "envelope" else SWEDISH
    made = checked(first, verdict, "never asked", plan=plan)
    assert (made.calls, made.reply.text, len(made.asked)) == ([], SWEDISH, 2)
    assert (made.notes.count(CODE), made.reply.finish_reason, made.outcome.failure) == (1, "stop", None)
    assert (EMULATED in made.warnings) is (plan != "native")


@pytest.mark.requirement("E5")
def test_if_the_check_fails_the_answer_stands_with_a_warning():
    made = checked(SWEDISH, [Failure("busy", "overloaded", status=503), Finish("error")])
    assert (made.reply.text, made.outcome.failure) == (SWEDISH, None)
    assert "the check of the answer failed: busy" in made.warnings


@pytest.mark.requirement("E5")
@check_each("chunk", [0, 1, 5])
def test_in_a_stream_a_script_without_rules_is_held_back_and_checked(chunk: int):
    made = checked(THAI, CALL, messages=ASKED_IN_THAI, stream=True, chunk=chunk)
    assert (made.calls, made.reply.text) == (WEATHER_CALL, "")
    kept = checked(THAI, NO_TOOLS, messages=ASKED_IN_THAI, stream=True, chunk=chunk)
    assert (kept.calls, kept.reply.text, len(kept.asked)) == ([], THAI, 2)


@pytest.mark.requirement("E5")
def test_text_that_has_been_streamed_is_not_checked():
    made = checked(SWEDISH, CALL, stream=True, chunk=4)
    assert (made.calls, made.reply.text, len(made.asked)) == ([], SWEDISH, 1)
    long = THAI * 4
    made = checked(long, CALL, messages=ASKED_IN_THAI, stream=True, chunk=7)
    assert (made.calls, made.reply.text, len(made.asked)) == ([], long, 1)


def test_events_that_waited_for_the_checked_text_are_not_lost():
    first = finished(TextDelta(SWEDISH), ReasoningDelta("so."))
    made = checked(first, NO_TOOLS, plan="native")
    assert (made.reply.text, made.reply.reasoning) == (SWEDISH, "so.")


SENT = (Tool("send_email", "Skickar e-post.", side_effects=True),)
UNCHECKED: dict[str, dict[str, Any]] = {
    "switched off": {"settings": Settings(mode="force", check_other_languages=False)},
    "a request in a known language": {"messages": [user("What is the weather in Oslo like today?")]},
    "a request about something else": {"messages": [user("Vem skrev Pippi Långstrump?")]},
    "tools with side effects only": {"tools": SENT, "messages": [user("Skicka e-post till Anna")]},
    "a call that is forbidden": {"choice": ToolChoice("none")},
    "no tools": {"tools": ()},
}


@pytest.mark.requirement("E5")
@check_each("case", UNCHECKED)
def test_where_no_tool_could_help_nothing_is_checked(case: str):
    made = checked(SWEDISH, CALL, **UNCHECKED[case])
    assert (made.calls, made.reply.text, len(made.asked)) == ([], SWEDISH, 1)
    assert CODE not in made.notes


@pytest.mark.requirement("E5")
@check_each(
    "answer",
    [
        f"{SWEDISH[:-1]}?",
        "Tretton grader.",
        f"{SWEDISH} {'Det regnar mest på hösten där. ' * 14}",
        finished(TextDelta(SWEDISH), reason="length"),
    ],
    ids=["a question", "a few words", "a long answer", "an answer that was cut off"],
)
def test_answers_that_are_no_refusal_are_not_checked(answer: Any):
    made = checked(answer, CALL, "never asked")
    assert (made.calls, len(made.asked)) == ([], 1)


def test_an_answer_after_a_result_is_a_report():
    call = Message("assistant", calls=(ToolCall("get_weather", {"city": "Oslo"}, "c1"),))
    results = (ToolResult("c1", "get_weather", "rain"),)
    for messages in (
        [*ASKED, call, Message("tool", results=results)],
        [call, Message("user", (TextPart("?"),), results=results)],
    ):
        assert len(checked(SWEDISH, CALL, messages=messages).asked) == 1
    assert len(checked(SWEDISH, CALL, messages=[]).asked) == 1


def test_a_demanded_call_is_asked_for_again_and_not_checked():
    made = checked(SWEDISH, SWEDISH, SWEDISH, choice=ToolChoice("required"))
    assert (CODE in made.notes, made.notes.count("retry_no_call")) == (False, 2)


# ---- from outside


@pytest.mark.requirement("E5")
@check_each("verdict", [[{"name": "get_weather", "arguments": {"city": "Oslo"}}], []], ids=["a call", "no call"])
def test_a_client_with_default_settings_asks_once(verdict: list[Any]):
    """The model does not know our prompts: its decision carries no nonce."""
    upstream = ts.Scripted(SWEDISH, json.dumps({"tools": verdict}))
    reply = ts.Client(upstream, config=load({}, env={})).chat(ASKED[0].text, tools=[WEATHER])
    assert [call.arguments for call in reply.tool_calls] == [each["arguments"] for each in verdict]
    assert (reply.text, reply.requests) == ("" if verdict else SWEDISH, 2)
    assert CODE in [note.code for note in reply.notes]
