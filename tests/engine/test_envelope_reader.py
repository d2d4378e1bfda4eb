"""The envelope document: calls first, then the reply, both while the document is still being written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from tests.core.chunking import ANY_TEXT, PLACES, cut, joined
from toolspeak.core.events import CallArgs, CallEnd, CallStart, Event, Judged, Noted, TextDelta, fold
from toolspeak.core.parsing.context import ParseContext
from toolspeak.core.types import JSONValue, Tool
from toolspeak.engine.turn.envelope_reader import EnvelopeReader

pytestmark = pytest.mark.requirement("A7", "B8")

TEXT = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
TOOLS = (Tool("f", parameters=TEXT), Tool("any"), Tool("mail", side_effects=True))
CALL = {"name": "f", "arguments": {"a": "x"}}


def read(*chunks: str, nonce: str | None = None) -> list[Event]:
    reader = EnvelopeReader(ParseContext(TOOLS, "standard", nonce))
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return events + reader.close()


def document(calls: JSONValue = (), reply: JSONValue = "", **more: JSONValue) -> str:
    return json.dumps({**more, "calls": calls, "reply": reply})


def made(events: Iterable[Event]) -> list[tuple[str, JSONValue]]:
    return [(call.name, call.arguments) for call in fold(events).calls]


def codes(events: Iterable[Event]) -> list[str]:
    return [note.code for note in fold(events).notes]


def verdicts(events: Iterable[Event]) -> list[tuple[str, str, str]]:
    return [(each.name, each.verdict, each.reason) for each in fold(events).candidates]


# ---- as it was asked for


def test_calls_are_announced_and_flow_while_the_document_is_written():
    reader = EnvelopeReader(ParseContext(TOOLS))
    assert reader.feed('{"calls": [{"name": "f"') == []
    assert reader.feed(', "arguments":') == [CallStart(0, "f")]
    assert reader.feed(' {"a": "long te') == [CallArgs(0, '{"a":"long te')]
    assert reader.feed("xt") == [CallArgs(0, "xt")]
    ended = joined(reader.feed('"}}, '))
    assert ended[:2] == [CallArgs(0, '"}'), CallEnd(0)]
    assert isinstance(ended[2], Judged)
    assert ended[2].candidate.dialect == "envelope"


def test_the_reply_flows_unescaped_before_the_document_ends():
    reader = EnvelopeReader(ParseContext(TOOLS))
    assert reader.feed('{"calls": [], "reply": "Hel') == [TextDelta("Hel")]
    assert reader.feed('lo\\n\\"you\\" there') == [TextDelta('lo\n"you" there')]
    assert reader.feed(" \\u00") == [TextDelta(" ")]
    assert reader.feed("e9") == [TextDelta("é")]
    assert reader.feed('"}') == []


def test_calls_and_reply_come_out_of_one_document():
    events = read(document([CALL, {"name": "any", "arguments": {}}], "One moment."))
    assert made(events) == [("f", {"a": "x"}), ("any", {})]
    assert (fold(events).text, codes(events)) == ("One moment.", [])


@check_each("text", ["{}", document(), '{"calls":[]}', '{"reply":""}', '{"calls":null,"reply":null}'])
def test_a_document_may_hold_nothing(text: str):
    assert read(text) == []


@check_each(
    "call",
    [
        {"tool": "f", "parameters": {"a": "x"}},
        {"arguments": {"a": "x"}, "name": "f"},
        {"name": " f ", "arguments": {"a": "x"}},
        {"id": "1", "extra": {"name": "any", "arguments": {}}, "more": ["f"], **CALL},
        {"name": "f", "arguments": '{"a": "x"}'},
    ],
)
def test_a_call_is_found_whatever_its_keys_are_called_and_whatever_stands_beside_them(call: JSONValue):
    assert made(read(document([call]))) == [("f", {"a": "x"})]


def test_the_decision_document_is_understood_as_well():
    assert made(read(json.dumps({"tools": [CALL]}))) == [("f", {"a": "x"})]


def test_keys_that_are_not_ours_are_ignored():
    text = document([CALL], "Hi", thought={"calls": [CALL], "reply": "no"}, list=[[{"name": "any"}]])
    events = read(text)
    assert (made(events), fold(events).text) == ([("f", {"a": "x"})], "Hi")


def test_the_reply_may_stand_first():
    events = read(json.dumps({"reply": "Hi", "calls": [CALL]}))
    assert (made(events), fold(events).text) == ([("f", {"a": "x"})], "Hi")


# ---- a reply in a form of its own


@pytest.mark.requirement("C6")
@check_each(
    "reply",
    [{"city": "Paris", "tags": ["a", "b\n", {}], "n": 1.5, "none": None}, [1, "two", [], True], 5, False, {}, []],
)
def test_a_reply_that_is_not_text_is_given_as_json(reply: JSONValue):
    for chunks in ([document([], reply)], list(document([], reply))):
        assert json.loads(fold(read(*chunks)).text) == reply


@pytest.mark.requirement("C6")
def test_a_reply_in_json_flows_as_well():
    reader = EnvelopeReader(ParseContext(TOOLS))
    assert fold(reader.feed('{"calls": [], "reply": {"city": "Par')).text == '{"city":"Par'


@pytest.mark.requirement("C6")
def test_no_reply_beside_calls_is_no_text():
    events = read(document([CALL], None))
    assert (made(events), fold(events).text, codes(events)) == ([("f", {"a": "x"})], "", [])


# ---- nonces


@pytest.mark.requirement("R-E2")
def test_a_document_with_the_nonce_counts():
    assert made(read(document([CALL], nonce_="", nonce="k7"), nonce="k7")) == [("f", {"a": "x"})]


@pytest.mark.requirement("R-E2")
@check_each(
    "text",
    [
        document([CALL], "Hi"),
        document([CALL], "Hi", nonce="k8"),
        document([CALL], "Hi", nonce=""),
        document([CALL], "Hi", nonce=None),
        document([CALL], "Hi", nonce=["k7"]),
        document([CALL], "Hi", nonce={"nonce": "k7"}),
        document([CALL], "Hi", deeper={"nonce": "k7"}),
        json.dumps({"calls": [CALL], "reply": "Hi", "nonce": "k7"}),
        json.dumps({"calls": [{"nonce": "k7", **CALL}], "reply": "Hi"}),
    ],
)
def test_without_the_nonce_before_it_nothing_is_a_call_and_the_reply_is_still_text(text: str):
    events = read(text, nonce="k7")
    assert verdicts(events) == [("f", "text", "no_nonce")]
    assert fold(events).text == "Hi"
    assert not any(isinstance(event, CallStart | CallArgs | CallEnd) for event in events)


# ---- what does not fit


@pytest.mark.requirement("R-E6")
@check_each("name", ["g", "", None, 5, ["f"], {"name": "f"}])
def test_only_exact_names_are_called(name: JSONValue):
    events = read(document([{"name": name, "arguments": {"a": "x"}}]))
    assert made(events) == []
    assert [(verdict, reason) for _, verdict, reason in verdicts(events)] == [
        ("text", "unknown_tool" if name == "g" else "no_name")
    ]


def test_a_call_without_a_name_is_none():
    assert verdicts(read(document([{"arguments": {"a": "x"}}]))) == [("", "text", "no_name")]


@pytest.mark.requirement("B5", "B11")
def test_a_call_that_does_not_fit_is_invalid():
    events = read(document([{"name": "f", "arguments": {}}, CALL]))
    assert [(event.index, event.valid) for event in events if isinstance(event, CallEnd)] == [(0, False), (1, True)]
    assert made(events) == [("f", {"a": "x"})]


@pytest.mark.requirement("R-E6")
@check_each(
    "call",
    [
        '{"name": "any", "name": "f", "arguments": {"a": "x"}}',
        '{"name": "any", "tool": "f", "arguments": {"a": "x"}}',
        '{"name": "any", "arguments": {}, "arguments": {"a": "x"}}',
        '{"name": "any", "arguments": {}, "parameters": {"a": "x"}}',
        '{"name": "any", "arguments": {"a": 1, "a": 2}}',
    ],
)
def test_a_call_that_says_two_things_is_refused(call: str):
    events = read(f'{{"calls": [{call}], "reply": ""}}')
    assert made(events) == []
    assert len([event for event in events if isinstance(event, CallStart)]) == 1
    assert "duplicate_key" in codes(events)


@check_each(
    "calls",
    [
        {"name": "f", "arguments": {"a": "x"}},
        {"arguments": {"name": "f", "arguments": {"a": "x"}}},
        {"x": [CALL]},
        [[CALL]],
        ["f"],
        [5],
        "f",
        True,
    ],
)
def test_something_else_in_the_place_of_a_call_is_noted_and_never_read_for_one(calls: JSONValue):
    events = read(document(calls, "Hi"))
    assert (made(events), verdicts(events), fold(events).text) == ([], [], "Hi")
    assert codes(events) == ["not_a_call"]


@pytest.mark.requirement("B4")
def test_a_repair_is_noted_with_its_call():
    events = read("""{"calls": [{'name': 'f', "arguments": {"a": "x",},}], "reply": "Hi"}""")
    assert made(events) == [("f", {"a": "x"})]
    assert {note.code for note in fold(events).calls[0].notes} == {"single_quotes", "trailing_comma"}
    assert sorted(codes(events)) == ["single_quotes", "trailing_comma"]


@pytest.mark.requirement("B4")
def test_a_repair_that_may_change_a_value_is_never_executed_where_it_changes_the_world():
    events = read('{"calls": [{"name": "mail", "arguments": {"to": "a", ...}}], "reply": ""}')
    assert made(events) == []
    assert "unsafe_repair" in codes(events)


@pytest.mark.requirement("B4")
def test_a_repair_of_the_reply_is_noted():
    events = read('{"calls": [], "reply": "two\nlines", }')
    assert fold(events).text == "two\nlines"
    assert sorted(codes(events)) == ["raw_control", "trailing_comma"]


def test_text_behind_the_document_is_noted():
    events = read(document([], "Hi"), " and", " more")
    assert fold(events).text == "Hi"
    assert events[-1] == Noted(fold(events).notes[-1])
    assert [(note.code, note.detail) for note in fold(events).notes] == [("trailing_text", "and more")]


# ---- cut and broken


@pytest.mark.requirement("B6")
@check_each(
    "text",
    [
        '{"calls": [{"name": "f"',
        '{"calls": [{"name": "f", "arguments": {"a": "x',
        '{"calls": [{"name": "f", "arguments": {"a": "x"}',
        '{"calls": [{"arguments": {"a": "x"}',
    ],
)
def test_a_document_that_is_cut_inside_a_call_ends_no_call(text: str):
    events = read(text)
    assert not any(isinstance(event, CallEnd) for event in events)
    assert [verdict for _, verdict, _ in verdicts(events)] == ["truncated"]
    assert not fold(events).complete
    assert "truncated_document" in codes(events)


def test_a_document_that_is_cut_elsewhere_keeps_what_it_said():
    events = read('{"calls": [{"name": "f", "arguments": {"a": "x"}}], "reply": "One mo')
    assert (made(events), fold(events).text) == ([("f", {"a": "x"})], "One mo")
    assert codes(events) == ["truncated_document"]


@pytest.mark.requirement("B11", "R-E6")
def test_a_document_that_breaks_inside_a_call_closes_it_as_valid_json():
    events = read('{"calls": [{"name": "any", "arguments": {"a": "x", "b": ' + "[" * 200)
    arguments = json.loads("".join(event.fragment for event in events if isinstance(event, CallArgs)))
    assert arguments == {"a": "x", "b": [[[[[[]]]]]]}  # deeper arrays are held
    assert [event.valid for event in events if isinstance(event, CallEnd)] == [False]
    assert {"broken_document", "too_deep", "arguments_invalid"} <= set(codes(events))
    assert made(events) == []


def test_a_document_that_breaks_elsewhere_says_so():
    events = read('{"calls": [], "reply": "Hi", "more": ' + "[" * 200 + ' "calls"')
    assert fold(events).text == "Hi"
    assert sorted(codes(events)) == ["broken_document", "too_deep"]


def test_it_knows_an_envelope_when_it_sees_one():
    reader = EnvelopeReader(ParseContext(TOOLS))
    reader.feed('{"city": "Paris", "deep": {"calls": []}')
    assert (reader.recognised, reader.finished) == (False, False)
    reader.feed(', "reply": 1')
    assert (reader.recognised, reader.finished) == (True, False)
    reader.feed("}")
    assert (reader.recognised, reader.finished) == (True, True)


# ---- laws

_WORDS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3),
    max_leaves=6,
)
_CALLS = st.lists(
    st.fixed_dictionaries({"name": st.just("any"), "arguments": st.dictionaries(_WORDS, _VALUES, max_size=3)}),
    max_size=3,
)


@given(_CALLS, _WORDS, st.booleans())
def test_every_document_gives_its_calls_and_its_reply_exactly(calls: list[JSONValue], reply: str, ascii_only: bool):
    text = json.dumps({"calls": calls, "reply": reply}, ensure_ascii=ascii_only)
    reader = EnvelopeReader(ParseContext(TOOLS))
    before = [event for char in text[:-1] for event in reader.feed(char)]
    events = before + reader.feed(text[-1]) + reader.close()
    assert made(events) == [(call["name"], call["arguments"]) for call in calls]
    assert fold(events).text == reply
    # All but what the last quote keeps back has left before the document ends.
    assert reply.startswith(fold(before).text)
    assert len(reply) - len(fold(before).text) <= 8


_ODD = st.sampled_from(
    [
        document([CALL, {"name": "any", "arguments": {"b": [1, {"c": "\U0001f600\n"}]}}], 'Hi \U0001f600 "there"\\'),
        document([CALL], {"a": ["\U0001f600"]}, nonce="k7"),
        '{"calls": [{"arguments": {"b": 1}, "name": "f"}, {"arguments": {"to": "a", ...}, "name": "mail"}]}',
        "{'calls': [{'name': 'f', 'arguments': {'a': 'x',}}, 5], 'reply': 'two\nlines'} and more text",
        '{"calls": [{"name": "mail", "arguments": {"to": "a", ...}}], "reply": "x", "reply": {"y": 1}, "calls": {}}',
        '{"calls": [], "reply": "\\ud83d\\ude00 \\ud83d \\u00e9 \\x"}',
        '{"calls": [{"name": "any", "arguments": {"a": "x", "b": ' + "[" * 70,
    ]
)


@given(_ODD | ANY_TEXT | ANY_TEXT.map(lambda text: document([CALL], text)), PLACES, st.none() | st.just("k7"))
def test_a_chunk_boundary_never_changes_the_result(text: str, places: Sequence[int], nonce: str | None):
    whole = joined(read(text, nonce=nonce))
    assert joined(read(*cut(text, places), nonce=nonce)) == whole
    assert joined(read(*text, nonce=nonce)) == whole


@given(
    st.lists(
        _ODD
        | ANY_TEXT
        | st.sampled_from(['{"calls":', "[", "{", '"name":"any"', '"arguments":', "}", "]", ",", '"reply":']),
        max_size=12,
    )
)
def test_no_text_does_harm(chunks: list[str]):
    events = read(*chunks)
    assert {call.name for call in fold(events).calls} <= {"f", "any", "mail"}


@check_each("text", ["\U0001f600", "é\\n", "a\\\\b"])
@check_each("escaped", [True, False])
def test_an_escape_may_be_cut_anywhere(text: str, escaped: bool):
    reply = json.dumps({"calls": [], "reply": text}, ensure_ascii=escaped)
    for at in range(len(reply)):
        assert fold(read(reply[:at], reply[at:])).text == text
