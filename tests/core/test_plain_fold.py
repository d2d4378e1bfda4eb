"""Answers in plain text are folded in one step, with the result that all others have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.core.events import Event, Finish, Noted, TextDelta, UsageSeen, fold
from toolspeak.core.types import Note, Usage

PLAIN = st.one_of(
    st.text(max_size=5).map(TextDelta),
    st.builds(Usage, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)).map(UsageSeen),
    st.sampled_from(["stop", "length", "tool_calls", "content_filter", "error", "unknown"]).map(Finish),  # type: ignore[arg-type]
)


@given(st.lists(PLAIN, max_size=6))
def test_plain_events_are_folded_as_all_others(events: list[Event]):
    assert fold(events) == fold(tuple(events))  # only lists are folded in one step


@check_each(
    "events",
    [
        [],
        [TextDelta("a"), TextDelta(""), TextDelta("b")],
        [TextDelta("a"), UsageSeen(Usage(1)), UsageSeen(Usage(2, 3)), Finish("length"), Finish("stop")],
        [Finish("stop"), TextDelta("a")],
        [TextDelta("a"), Noted(Note("odd")), Finish("stop")],
    ],
)
def test_events_in_a_list_are_folded_as_in_a_tuple(events: list[Event]):
    assert fold(events) == fold(tuple(events))
