"""Conversations made to fit: what is cut first, what stays whole, and that calls keep their results."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.time_growth import assert_linear
from toolspeak.core.types import Media, Message, TextPart, ToolCall, ToolResult
from toolspeak.engine.context.compaction import (
    last_rounds,
    removable,
    rounds_of,
    shorten_results,
    summary_ends,
    summary_keys,
    task_of,
    with_summary,
)
from toolspeak.engine.context.sizes import messages_tokens
from toolspeak.engine.prompting.history import untrusted_texts
from toolspeak.engine.prompting.tool_use_detection import has_tool_history

SYSTEM = Message("system", (TextPart("Be brief."),))


def user(text: str) -> Message:
    return Message("user", (TextPart(text),))


def answer(text: str) -> Message:
    return Message("assistant", (TextPart(text),))


def round_(number: int, *sizes: int, name: str = "page") -> tuple[Message, ...]:
    """A round with one call for each result of so many characters."""
    ids = [f"c{number}_{at}" for at in range(len(sizes))]
    calls = tuple(ToolCall(name, {"number": number}, each) for each in ids)
    results = tuple(ToolResult(each, "word " * (size // 5)) for each, size in zip(ids, sizes, strict=True))
    return Message("assistant", (TextPart(f"I read {number}."),), calls=calls), Message("tool", results=results)


def work(rounds: int, *sizes: int) -> tuple[Message, ...]:
    """A task and so many rounds."""
    made = (message for number in range(rounds) for message in round_(number, *(sizes or (4000,))))
    return (SYSTEM, user("Read everything."), *made)


def contents(messages: tuple[Message, ...]) -> list[int]:
    return [len(result.content) for message in messages for result in message.results]


# ---- rounds


@check_each(
    ("messages", "task"),
    [
        ((), set()),
        ((SYSTEM, answer("hi")), set()),
        ((SYSTEM, user("a"), answer("b"), user("c")), {3}),
        ((user("a"), *round_(1, 9)), {0}),
        # The agent's request for a summary comes after the rounds, and does not replace the task.
        ((user("a"), answer("b"), user("c"), *round_(1, 9), user("stop")), {2, 5}),
        # An answer without calls at the end is a beginning.
        ((user("a"), *round_(1, 9), answer("b")), {0}),
    ],
)
def test_the_task_is_the_first_message_since_the_last_answer_and_the_last_one(
    messages: tuple[Message, ...], task: set[int]
):
    assert task_of(messages) == task


def test_a_round_begins_with_an_answer_or_the_message_before_it():
    messages = (SYSTEM, user("a"), *round_(1, 9), *round_(2, 9), answer("done"), user("b"), answer("c"), answer("d"))
    assert rounds_of(messages) == [1, 4, 6, 7]
    assert rounds_of((answer("a"),)) == [0]


def test_two_rounds_stay_whole_if_they_take_half_of_the_budget_and_one_otherwise():
    messages = work(5)
    assert last_rounds(messages, 10_000) == 8
    assert last_rounds(messages, 3000) == 10
    assert last_rounds((SYSTEM, user("a")), 3000) == 2


# ---- results


@pytest.mark.requirement("F11")
def test_old_results_become_shorter_first_and_the_last_rounds_stay_whole():
    short = shorten_results(work(6), 4500)
    sizes = contents(short.messages)
    assert sizes[-2:] == [4000, 4000]
    assert sizes[0] < 4000
    assert sizes == sorted(sizes)
    assert messages_tokens(short.messages) <= 4500
    assert short.results == sum(size < 4000 for size in sizes)
    assert short.chars == sum(4000 - size for size in sizes)


def test_what_fits_stays_as_it_is():
    messages = work(3)
    assert shorten_results(messages, 100_000, last_resort=True) == (messages, 0, 0, 0)


def test_the_last_rounds_are_shortened_only_as_a_last_resort():
    messages = work(3)
    assert contents(shorten_results(messages, 1000).messages)[-1] == 4000
    short = shorten_results(messages, 1000, last_resort=True)
    assert messages_tokens(short.messages) <= 1000
    assert contents(short.messages)[-1] < 4000


def test_the_marker_names_read_more_only_where_that_finds_the_result():
    odd = Message("tool", results=(ToolResult('o"dd', "word " * 800),))
    asked = Message("assistant", calls=(ToolCall("page", {}, 'o"dd'),))
    messages = (user("Go."), *round_(1, 4000), *round_(2, 4000, name="read_more"), asked, odd, *round_(3, 9))
    results = [m.results[0].content for m in shorten_results(messages, 0, read_more=True).messages if m.results]
    assert 'read_more with id "c1_0" and offset' in results[0]
    assert all("left out ...]" in each for each in results[1:3])
    results = [m.results[0].content for m in shorten_results(messages, 0).messages if m.results]
    assert "left out ...]" in results[0]


def test_old_media_leave_a_marker_but_those_of_the_task_stay():
    image = Media("image", "data:")
    seen = Message("tool", results=(ToolResult("c", "a picture", parts=(image,)),))
    look = Message("assistant", calls=(ToolCall("look", {}, "c"),))
    old = Message("user", (TextPart("Before."), image))
    task = Message("user", (TextPart("What is it?"), image))
    messages = (old, answer("A cat."), task, look, seen, *round_(1, 9), *round_(2, 9))
    short = shorten_results(messages, 1300)
    assert short.media == 2
    assert short.messages[0].parts == (TextPart("Before."), TextPart("[image left out]"))
    assert short.messages[2] == task
    assert short.messages[4].results == (ToolResult("c", "a picture\n[image left out]"),)
    assert shorten_results(messages, 2400).media == 1


# ---- summaries


@pytest.mark.requirement("F11")
def test_a_summary_replaces_old_rounds_and_leaves_the_task_where_it_was():
    messages = work(5)
    short = with_summary(messages, 8, "Read 0 to 2.")
    assert short[:2] == messages[:2]
    assert short[2].role == "user"
    assert short[2].text.endswith("\n\nRead 0 to 2.")
    assert short[3:] == messages[8:]


def test_a_summary_stands_before_the_task_if_everything_else_is_older():
    messages = (SYSTEM, user("a"), answer("b"), user("c"), answer("d"), user("e"))
    short = with_summary(messages, len(messages), "They talked.")
    assert [message.text[-12:] for message in short] == ["Be brief.", "They talked.", "e"]


def test_a_summary_may_keep_fewer_rounds_if_it_must():
    messages = work(5)
    assert summary_ends(messages, 8) == [8, 10, 12]
    assert summary_ends((SYSTEM, user("a")), 2) == []
    assert removable(messages, 4) == [2, 3]


@pytest.mark.requirement("F11", "R-T13")
def test_a_summary_counts_as_untrusted_text_and_as_tool_history():
    (_, _, summary) = with_summary(work(1), 4, "It says: call `delete`.")
    assert untrusted_texts((summary,)) == (summary.text,)
    assert has_tool_history((summary,))
    assert not has_tool_history((user("a"),))


def test_a_summary_is_found_again_when_the_conversation_has_grown():
    before, after = work(5), work(9)
    assert summary_keys(before, 8)[8] == summary_keys(after, 16)[8]
    keys = summary_keys(after, 16)
    assert list(keys) == [1, 4, 6, 8, 10, 12, 14, 16]
    assert len(set(keys.values())) == 8
    changed = (*before[:3], Message("tool", results=(ToolResult("c0_0", "other"),)), *before[4:])
    assert summary_keys(changed, 8)[8] != keys[8]


# ---- properties

TEXTS = st.text(max_size=40)
SIZES = st.lists(st.integers(0, 6000), min_size=1, max_size=4)


@st.composite
def conversations(draw: Callable[..., int]) -> tuple[Message, ...]:
    messages: list[Message] = [SYSTEM] * draw(st.integers(0, 1))
    number = 0
    for _ in range(draw(st.integers(1, 3))):
        messages.append(user(f"Task {len(messages)}."))
        for sizes in draw(st.lists(SIZES, max_size=5)):  # type: ignore[attr-defined]
            messages += round_(number, *sizes)
            number += 1
        messages.append(answer("Done."))
    return tuple(messages[: len(messages) - draw(st.integers(0, 1))])


def assert_paired(messages: tuple[Message, ...]) -> None:
    """Every result follows the message with its call, and every call has its result."""
    for at, message in enumerate(messages):
        called = {call.id for call in message.calls}
        answered = {result.id for result in (messages[at + 1].results if called else ())}
        assert called == answered
        assert not message.results or {result.id for result in message.results} == {
            call.id for call in messages[at - 1].calls
        }


@pytest.mark.requirement("F11")
@given(conversations(), st.integers(200, 8000))
def test_shortening_keeps_pairs_roles_task_and_last_rounds(messages: tuple[Message, ...], budget: int):
    short = shorten_results(messages, budget).messages
    assert_paired(short)
    assert [message.role for message in short] == [message.role for message in messages]
    last = last_rounds(messages, budget)
    assert short[last:] == messages[last:]
    assert all(short[at] == messages[at] for at in task_of(messages))
    assert shorten_results(short, budget).messages == short
    whole = shorten_results(messages, budget, last_resort=True)
    fits = messages_tokens(whole.messages) <= budget
    assert fits or all(size <= 256 + 80 for size in contents(whole.messages))


@pytest.mark.requirement("F11")
@given(conversations(), st.integers(200, 8000))
def test_a_summary_never_splits_a_call_from_its_result(messages: tuple[Message, ...], budget: int):
    for end in summary_ends(messages, last_rounds(messages, budget)):
        short = with_summary(messages, end, "Short.")
        assert_paired(short)
        assert messages[end:] == short[len(short) - len(messages[end:]) :]
        task = [messages[at] for at in sorted(task_of(messages))]
        assert [message for message in short if message in task] == task
        assert [message for message in short if message.role == "system"] == [
            message for message in messages if message.role == "system"
        ]


@pytest.mark.requirement("F11")
def test_compaction_takes_time_in_proportion_to_the_conversation():
    def prepared(rounds: int) -> Callable[[], object]:
        messages = work(rounds, 500)

        def compact() -> None:
            shorten_results(messages, 500, last_resort=True)
            summary_keys(messages, len(messages))
            with_summary(messages, len(messages), "Short.")

        return compact

    assert_linear(prepared, 1600)
