"""A decision is read wherever it stands in an answer, and only with its mark."""

from __future__ import annotations

import pytest

from tests.cases import check_each
from tests.engine.engine_helpers import ASKED, DECISION, TOOLS
from tests.offline_turn import NONCE, carry_out, engine_for
from toolspeak.core.events import CallArgs, CallEnd, CallStart, Event, TextDelta, fold
from toolspeak.core.types import Request
from toolspeak.engine.turn.answer_readers import DecisionReader, ReadingRules

CALL = '"tools":[{"name":"get_weather","arguments":{"city":"Oslo"}}]'
MARKED = f'{{"nonce":"{NONCE}",{CALL}}}'
BARE = f"{{{CALL}}}"
NONE = f'{{"nonce":"{NONCE}","tools":[]}}'


def native(name: str, arguments: str) -> list[Event]:
    return [CallStart(0, name, "c"), CallArgs(0, arguments), CallEnd(0)]


def read(text: str, nonce: str | None = NONCE, chunk: int = 0, cut: bool = False) -> tuple[list[str], list[str]]:
    """The cities asked about, and the notes."""
    reading = DecisionReader(ReadingRules(TOOLS, nonce=nonce))
    size = chunk or len(text) or 1
    events: list[Event] = []
    for at in range(0, len(text), size):
        events += reading.feed(TextDelta(text[at : at + size]))
    reply = fold(events + reading.close(cut))
    return [str(call.arguments["city"]) for call in reply.calls], [note.code for note in reply.notes]


@pytest.mark.requirement("A7")
@check_each("chunk", [0, 1, 7])
@check_each(
    "around",
    [
        "I think: {} should do.",
        "Here it is:\n```json\n{}\n```\nTell me if not.",
        "Sure! {} Anything else?",
        "First I thought of {{}}, then: {} is it, is it not?",
    ],
)
def test_words_around_a_decision_do_not_hide_it(around: str, chunk: int):
    for document, nonce in ((MARKED, NONCE), (BARE, None)):
        text = around.replace("{}", document, 1) if "{{" not in around else around.replace(": {}", f": {document}")
        assert read(text, nonce, chunk) == (["Oslo"], ["decision_in_text"])


@check_each("document", [MARKED, f"\n{MARKED}\n", f"```json\n{MARKED}\n```"])
def test_a_decision_by_itself_needs_no_note(document: str):
    assert read(document) == (["Oslo"], [])


@check_each(
    "text",
    [
        f"I think: {BARE} should do.",  # without the mark
        f"I think: {NONE} should do.",
        "I think the tools are fine.",
        'The "tools" are: none.',
        f"I think: {MARKED[:-3]}",
        '"tools" {',
        "",
    ],
)
def test_what_is_no_decision_stays_none(text: str):
    assert read(text)[0] == []


def test_an_answer_that_was_cut_decides_nothing():
    assert read(f"I think: {MARKED} or maybe", cut=True)[0] == []


def test_the_last_decision_is_meant():
    later = MARKED.replace("Oslo", "Rome")
    assert read(f"First {MARKED} but no, rather {later} I say.") == (["Rome"], ["decision_in_text"])


def test_who_decides_for_none_in_the_end_has_decided():
    assert read(f"First {MARKED} but no, rather {NONE} I say.") == ([], [])


def test_what_was_thought_of_is_not_decided():
    assert read(f"<think>Maybe: {MARKED} or so.</think>No, nothing.")[0] == []


def test_of_many_documents_that_are_none_only_the_last_are_looked_at():
    assert read(f"I say {MARKED} and " + 'then {"tools": 1} and ' * 9) == ([], [])


def test_a_native_call_is_no_text():
    reading = DecisionReader(ReadingRules(TOOLS))
    events = [each for event in native("get_weather", '{"city":"Oslo"}') for each in reading.feed(event)]
    assert [call.name for call in fold(events + reading.close(False)).calls] == ["get_weather"]


def test_a_decision_among_words_needs_one_request():
    def play(request: Request) -> str:
        return f"I think: {MARKED} should do."

    events, outcome, asked = carry_out(engine_for(ASKED, TOOLS, DECISION), play)
    assert (len(asked), outcome.trace.why_no_call) == (1, "")
    assert fold(events).text == ""
