"""Who tells how a call went that was made is not talked into making it again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.cases import check_each
from tests.engine.engine_helpers import PLANS, envelope, turn
from tests.offline_turn import user
from toolspeak.core.types import Message, TextPart, Tool, ToolCall, ToolChoice, ToolResult

EMAIL = Tool("send_email", "Send an e-mail.", {"type": "object", "properties": {"to": {"type": "string"}}})
TOOLS = (EMAIL, Tool("read_file", "Read a file."))
ASKED = user("Send Ann the minutes.")
CALLED = Message("assistant", calls=(ToolCall("send_email", {"to": "ann@example.org"}, "c1"),))
UNKNOWN = ToolResult("c1", "timeout: unknown whether sent", "send_email", error=True)
TOLD = Message("tool", results=(UNKNOWN,))
HISTORY = (ASKED, CALLED, TOLD)

#: What models say of a call that came to nothing.
REPORTS = {
    "unable": "I was unable to send the email.",
    "could not": "I couldn't send the email: the mailbox is full.",
    "now": "Sorry, I cannot send the email right now; the server says that the mailbox is full.",
    "the tool by its name": "The send_email tool is not working at the moment.",
    "the tool by its purpose": "The email tool is not available right now.",
    "leave to repeat it": "The email could not be sent. Should I retry?",
    "German": "Ich konnte die E-Mail nicht senden, das Postfach ist voll.",
    "German, the tool": "Das Tool send_email funktioniert gerade nicht.",
    "French": "Je n'ai pas pu envoyer le courriel.",
    "French, now": "Je ne peux pas envoyer le courriel : la boîte est pleine.",
    "Spanish": "No puedo enviar el correo: el buzón está lleno.",
    "Spanish, the tool": "La herramienta send_email no funciona ahora mismo.",
    "Chinese": "我无法发送这封邮件，对方的邮箱已满。",
    "Chinese, leave to repeat it": "邮件没有发送成功。需要我再试一次吗？",
    "Japanese": "メールボックスがいっぱいのため、メールを送信できません。",
    "Japanese, the tool": "send_email ツールは現在利用できません。",
}


def requests(said: str, messages: Sequence[Message], plan: str = "inline", choice: ToolChoice | None = None) -> int:
    settings, profile = PLANS[plan]
    text = envelope(said) if plan == "envelope" else said
    turned = turn(
        text, messages=messages, tools=TOOLS, settings=settings, profile=profile, choice=choice or ToolChoice()
    )
    return turned.outcome.requests


@pytest.mark.requirement("E1")
@check_each("case", REPORTS)
def test_a_report_about_a_call_that_was_made_is_an_answer(case: str):
    assert requests(REPORTS[case], HISTORY) == 1


@pytest.mark.requirement("E1")
@check_each("plan", ["native", "inline", "envelope"])
def test_it_is_one_in_every_plan_and_a_refusal_where_nothing_was_called(plan: str):
    assert requests(REPORTS["unable"], HISTORY, plan) == 1
    assert requests(REPORTS["unable"], [ASKED], plan) == 3


@pytest.mark.requirement("E1")
@check_each(
    "brought",
    [
        pytest.param(Message("user", results=(UNKNOWN,)), id="alone"),
        pytest.param(Message("user", (TextPart("<reminder>Be brief.</reminder>"),), results=(UNKNOWN,)), id="words"),
        pytest.param(Message("tool", (TextPart("550 mailbox full"),)), id="as the words of a tool"),
    ],
)
def test_results_count_however_they_are_brought(brought: Message):
    assert requests(REPORTS["unable"], (ASKED, CALLED, brought)) == 1


@pytest.mark.requirement("E1")
def test_to_have_no_tools_at_all_is_no_report():
    assert requests("I'm sorry, but I don't have access to any tools.", HISTORY) == 3
    assert requests("Ich habe hier leider keine Werkzeuge.", HISTORY) == 3


@pytest.mark.requirement("E1")
def test_results_of_an_earlier_question_excuse_nothing():
    later = (*HISTORY, Message("assistant", (TextPart("It is unclear."),)), user("Then send it to Bob."))
    assert requests(REPORTS["unable"], later) == 3


@pytest.mark.requirement("E1", "A10")
def test_where_a_call_is_demanded_a_report_is_not_enough():
    assert requests(REPORTS["unable"], HISTORY, choice=ToolChoice("required")) == 3


@pytest.mark.requirement("E1")
def test_what_is_only_announced_after_a_result_is_still_asked_for():
    assert requests("Now I'll read the file minutes.txt.", HISTORY) == 3


@pytest.mark.requirement("A10")
def test_one_request_is_told_as_one():
    turned = turn("I won't write a phishing mail.", messages=[ASKED], tools=TOOLS, choice=ToolChoice("required"))
    assert turned.outcome.failure is not None
    assert turned.outcome.failure.message.endswith("after 1 request: no call: the model declined")
