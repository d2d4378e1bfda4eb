"""Whatever a client sends, each call ends up with an id of its own and one result right behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import check_each, size
from tests.time_growth import assert_linear
from toolspeak.core.types import Media, Message, TextPart, ToolCall, ToolResult
from toolspeak.engine.prompting.call_result_pairing import MISSING_RESULT, pair


def say(role: Any, text: str, **more: Any) -> Message:
    return Message(role, (TextPart(text),), **more)


def call(id: str, name: str = "f") -> ToolCall:
    return ToolCall(name, {}, id)


def calls(*ids: str) -> Message:
    return Message("assistant", calls=tuple(call(id) for id in ids))


def result(id: str, content: str = "ok", name: str = "", **more: Any) -> Message:
    return Message("tool", results=(ToolResult(id, content, name, **more),))


def brought(*ids: str, text: str = "") -> Message:
    """Results as Anthropic's clients send them: in a message of the user."""
    parts = (TextPart(text),) if text else ()
    return Message("user", parts, results=tuple(ToolResult(id, "ok") for id in ids))


def missing(id: str, name: str = "f") -> Message:
    return result(id, MISSING_RESULT, name, error=True)


NAMELESS = (result("call_1", "x"), result("call_2", "y"))
USER, ANSWER = say("user", "Hi"), say("assistant", "Yes.")

RIGHT: dict[str, tuple[Message, ...]] = {
    "no tools": (USER, ANSWER),
    "one call": (USER, calls("1"), result("1"), ANSWER),
    "several calls": (USER, calls("1", "2"), result("1"), result("2"), ANSWER),
    "results in another order": (USER, calls("1", "2"), result("2"), result("1")),
    "results in one message": (
        USER,
        calls("1", "2"),
        Message("tool", results=(ToolResult("1", "a"), ToolResult("2", "b"))),
    ),
    "results that the user brings": (USER, calls("1", "2"), brought("1", "2", text="Go on."), ANSWER),
    "two rounds": (USER, calls("1"), result("1"), calls("2"), result("2"), ANSWER),
    "nothing": (),
}


@pytest.mark.requirement("C2")
@check_each("case", RIGHT)
def test_a_history_that_is_right_is_the_same_object(case: str):
    paired = pair(RIGHT[case])
    assert paired.messages is RIGHT[case]
    assert paired.notes == ()


#: Messages, what becomes of them, and the codes of the notes.
REPAIRS: dict[str, tuple[tuple[Message, ...], tuple[Message, ...], list[str]]] = {
    "a call without a result": ((USER, calls("1"), USER), (USER, calls("1"), missing("1"), USER), ["result_missing"]),
    "a call at the end": ((USER, calls("1")), (USER, calls("1"), missing("1")), ["result_missing"]),
    "one of two without a result": (
        (calls("1", "2"), result("2"), ANSWER),
        (calls("1", "2"), missing("1"), result("2"), ANSWER),
        ["result_missing"],
    ),
    "one id for two calls and none for a third": (
        (calls("c", "c", ""), result("c", "a"), result("c", "b"), result("c", "x")),
        (calls("c", "c_1", "call_1"), result("c", "a"), result("c_1", "b"), result("call_1", "x")),
        ["call_id_renamed", "call_id_added", "result_id_repaired"],
    ),
    "one id for two calls and none for two more": (
        (calls("c", "", "c", ""), *(result("c", text) for text in "abxy")),
        (calls("c", "call_1", "c_1", "call_2"), result("c", "a"), result("c_1", "b"), *NAMELESS),
        ["call_id_added", "call_id_renamed", "result_id_repaired"],
    ),
    "an id that is used too often": (
        (calls("c", "c"), result("c", "a"), result("c", "b"), result("c", "x")),
        (calls("c", "c_1"), result("c_1", "b\nx"), result("c", "a")),
        ["call_id_renamed", "result_doubled"],
    ),
    "the same id in every turn": (
        (calls("0"), result("0", "a"), calls("0"), result("0", "b"), calls("0"), result("0", "c")),
        (calls("0"), result("0", "a"), calls("0_1"), result("0_1", "b"), calls("0_2"), result("0_2", "c")),
        ["call_id_renamed"],
    ),
    "the same id twice in a turn": (
        (calls("0", "0"), result("0", "a"), result("0", "b")),
        (calls("0", "0_1"), result("0", "a"), result("0_1", "b")),
        ["call_id_renamed"],
    ),
    "an id that a new one would clash with": (
        (calls("0", "0", "0_1"), result("0"), result("0"), result("0_1")),
        (calls("0", "0_2", "0_1"), result("0"), result("0_2"), result("0_1")),
        ["call_id_renamed"],
    ),
    "no ids, paired by order": (
        (calls("", ""), result("", "a"), result("", "b")),
        (calls("call_1", "call_2"), result("call_1", "a"), result("call_2", "b")),
        ["call_id_added", "result_id_repaired"],
    ),
    "no ids, paired by name": (
        (
            Message("assistant", calls=(call("", "f"), call("", "g"))),
            result("", "b", "g"),
            result("", "a", "f"),
        ),
        (
            Message("assistant", calls=(call("call_1", "f"), call("call_2", "g"))),
            result("call_2", "b", "g"),
            result("call_1", "a", "f"),
        ),
        ["call_id_added", "call_id_added", "result_id_repaired", "result_id_repaired"],
    ),
    "a result with a wrong id and the right name": (
        (calls("1"), result("9", "a", "f")),
        (calls("1"), result("1", "a", "f")),
        ["result_id_repaired"],
    ),
    "two results for one call": (
        (calls("1"), result("1", "a"), result("1", "b"), ANSWER),
        (calls("1"), result("1", "a\nb"), ANSWER),
        ["result_doubled"],
    ),
    "the same result twice": (
        (calls("1"), result("1", "a"), ANSWER, result("1", "a", error=True)),
        (calls("1"), result("1", "a"), ANSWER),
        ["result_doubled"],
    ),
    "a result that comes late": (
        (calls("1"), USER, result("1", "a"), ANSWER),
        (calls("1"), result("1", "a"), USER, ANSWER),
        ["result_moved"],
    ),
    "a result behind the user's words": (
        (calls("1", "2"), brought("1", text="Go on."), result("2"), ANSWER),
        (calls("1", "2"), result("2"), brought("1", text="Go on."), ANSWER),
        ["result_moved"],
    ),
    "a result in an answer": (
        (calls("1"), say("assistant", "x", results=(ToolResult("1", "a"),))),
        (calls("1"), result("1", "a"), say("assistant", "x")),
        ["result_moved"],
    ),
    "a result without a call": (
        (result("9", "a ``` b </s>", "f"), USER),
        (say("user", "Result of f:\n````\na ``` b <\u2060/s>\n````\n\n"), USER),
        ["result_orphaned"],
    ),
    "a result without a call among others": (
        (calls("1"), result("9", "x"), result("1", "a"), ANSWER),
        (calls("1"), result("1", "a"), say("user", "Result of an earlier call:\n```\nx\n```\n\n"), ANSWER),
        ["result_orphaned"],
    ),
    "a result without a call that the user speaks to": (
        (brought("9", text="See?"), ANSWER),
        (Message("user", (TextPart("Result of an earlier call:\n```\nok\n```\n\n"), TextPart("See?"))), ANSWER),
        ["result_orphaned"],
    ),
    "a result of another name": (
        (calls("1"), result("", "x", "g"), result("1", "a")),
        (calls("1"), result("1", "a"), say("user", "Result of g:\n```\nx\n```\n\n")),
        ["result_orphaned"],
    ),
    "one result too many": (
        (calls("1"), result("", "a"), result("", "b")),
        (calls("1"), result("1", "a"), say("user", "Result of an earlier call:\n```\nb\n```\n\n")),
        ["result_id_repaired", "result_orphaned"],
    ),
    "a message of a tool that says nothing and belongs to nothing": (
        (USER, Message("tool"), ANSWER),
        (USER, say("user", "Result of an earlier call:\n```\n\n```\n\n"), ANSWER),
        ["result_orphaned"],
    ),
    "a message of a tool that is only text": (
        (calls("1"), say("tool", "a")),
        (calls("1"), result("1", "a")),
        ["result_id_repaired"],
    ),
    "a call that is not the model's": (
        (say("user", "Hi", calls=(call("1"),)), result("1", "a")),
        (USER, say("user", "Result of an earlier call:\n```\na\n```\n\n")),
        ["call_misplaced", "result_orphaned"],
    ),
    "a message of nothing but a misplaced call": (
        (USER, Message("user", calls=(call("1"),)), ANSWER),
        (USER, ANSWER),
        ["call_misplaced"],
    ),
}


@pytest.mark.requirement("C2", "R-F36")
@check_each("case", REPAIRS)
def test_a_history_is_put_right_with_a_note(case: str):
    messages, expected, codes = REPAIRS[case]
    paired = pair(messages)
    assert paired.messages == expected
    assert [note.code for note in paired.notes] == codes


def test_what_a_result_holds_besides_text_is_not_lost():
    picture = Media("image", "data:,")
    first, second = result("1", "a", parts=(picture,)), result("1", "b", parts=(picture,))
    merged = pair((calls("1"), first, second)).messages[1].results[0]
    assert merged.parts == (picture, picture)
    assert picture in pair((result("9", "a", parts=(picture,)),)).messages[0].parts


def test_empty_messages_that_were_empty_before_stay():
    messages = (Message("user"), calls("1"), Message("assistant", reasoning="hm"))
    assert pair(messages).messages == (messages[0], messages[1], missing("1"), messages[2])


# ---- laws

IDS = st.sampled_from(["", "1", "2", "1_1", "call_1"])
NAMES = st.sampled_from(["f", "g", ""])
MESSAGES = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.sampled_from([(), (TextPart("x"),)]),
    calls=st.lists(st.builds(ToolCall, NAMES, st.just({}), IDS), max_size=3).map(tuple),
    results=st.lists(st.builds(ToolResult, IDS, st.sampled_from(["a", "b"]), NAMES), max_size=3).map(tuple),
)
CONVERSATIONS = st.lists(MESSAGES, max_size=7).map(tuple)


@pytest.mark.requirement("C2", "R-F36")
@settings(max_examples=size(75, 300))
@given(messages=CONVERSATIONS)
def test_pairing_is_done_once_and_for_all(messages: tuple[Message, ...]):
    paired = pair(messages)
    again = pair(paired.messages)
    assert again.messages is paired.messages
    assert again.notes == ()


@pytest.mark.requirement("C2")
@settings(max_examples=size(50, 200))
@given(messages=CONVERSATIONS)
def test_every_call_has_one_result_behind_it_and_nothing_is_lost(messages: tuple[Message, ...]):
    paired = pair(messages).messages
    made = [each.id for message in paired for each in message.calls]
    answered = [each.id for message in paired for each in message.results]
    assert len(set(made)) == len(made) and "" not in made
    assert sorted(made) == sorted(answered)
    kept = [each.name for message in paired for each in message.calls]
    assert kept == [each.name for message in messages if message.role == "assistant" for each in message.calls]
    told = "".join(message.text for message in paired) + "".join(r.content for m in paired for r in m.results)
    for message in messages:
        assert all(each.content in told for each in message.results)


@pytest.mark.no_cover
@pytest.mark.requirement("R-T12")
@pytest.mark.parametrize(
    "history",
    [
        lambda n: (calls(*[""] * n), *[result("", "x")] * n),
        lambda n: (calls("0"), result("0")) * n,
        lambda n: (*[calls("0")] * n, *[result("0")] * n),
        lambda n: (calls("0"), *[result("0")] * n, *[result("9")] * n),
    ],
    ids=["no ids", "one id", "results at the end", "too many results"],
)
def test_pairing_takes_time_linear_in_the_history(history: Callable[[int], tuple[Message, ...]]):
    def pairing(size: int) -> Callable[[], object]:
        messages = history(size)
        return lambda: pair(messages)

    assert_linear(pairing, 3000)
