"""What an upstream refuses of ours is done without, in the same turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest

from tests.cases import check_each
from tests.engine.engine_helpers import ASKED, CONSTRAINED, INLINE, TOOLS
from tests.offline_turn import NONCE, Play, carry_out, engine_for
from toolspeak.core.events import Event, Failure, Finish, Noted, TextDelta
from toolspeak.core.types import Message, Options, Request, TextPart
from toolspeak.engine.planning.capabilities import Profile
from toolspeak.engine.planning.strategy import Settings
from toolspeak.engine.prompting.history import without_system
from toolspeak.engine.turn.upstream_limits import detect_limitation, refuses_system_role

SYSTEM = Failure("System role not supported", status=400)
FORM = Failure("Unknown field: response_format", status=400)


def message(role: str, text: str) -> Message:
    return Message(role, (TextPart(text),) if text else ())  # type: ignore[arg-type]


@check_each(
    ("failure", "profile", "grammar", "found"),
    [
        (SYSTEM, Profile(), {}, "system_role_refused"),
        (SYSTEM, Profile(system_role=False), {}, ""),
        (Failure("System role not supported", status=401), Profile(), {}, ""),
        (Failure("Something else", status=400), Profile(), {}, ""),
        (FORM, CONSTRAINED, {"response_format": {}}, "constraint_refused"),
        (Failure("bad", status=422, body="format: extra"), CONSTRAINED, {"format": {}}, "constraint_refused"),
        (Failure("failed to parse grammar", status=400), CONSTRAINED, {"extra": ""}, "constraint_refused"),
        (FORM, CONSTRAINED, {}, ""),
    ],
)
def test_a_failure_tells_what_was_refused(failure: Failure, profile: Profile, grammar: dict[str, object], found: str):
    request = Request("m", (message("system", "s"),), options=Options(grammar=grammar))
    conceded = detect_limitation(failure, request, profile)
    assert (conceded.code if conceded else "") == found


@check_each(("failure", "refuses"), [(None, False), (SYSTEM, True), (Failure("system role", status=404), False)])
def test_a_turn_that_failed_tells_whether_the_system_role_was_refused(failure: Failure | None, refuses: bool):
    assert refuses_system_role(failure) is refuses


def test_without_a_system_message_none_can_have_been_refused():
    assert detect_limitation(SYSTEM, Request("m", (message("user", "s"),)), Profile()) is None


def refusing(failure: Failure, is_refused: Callable[[Request], bool], answer: str) -> Play:
    """An upstream that refuses once, for as long as `is_refused` holds for the request."""

    def play(request: Request) -> str | list[Event]:
        return [failure] if is_refused(request) else answer

    return play


def has_system(request: Request) -> bool:
    return any(each.role == "system" for each in request.messages)


@pytest.mark.requirement("R-F47")
def test_the_contract_goes_to_the_user_where_a_system_message_is_refused():
    call = f'```json action {NONCE}\n{{"tool": "search", "parameters": {{"query": "x"}}}}\n```'
    _, outcome, asked = carry_out(engine_for(ASKED, TOOLS, INLINE), refusing(SYSTEM, has_system, call))
    assert [[each.role for each in request.messages] for request in asked] == [["system", "user"], ["user"]]
    assert "search" in asked[1].messages[0].text
    assert (outcome.failure, outcome.requests, [each.code for each in outcome.limitations]) == (
        None,
        2,
        ["system_role_refused"],
    )


@check_each(
    ("plan", "answer"),
    [
        ("decision", '{"tools":[{"name":"search","arguments":{"query":"x"}}]}'),
        ("envelope", '{"calls":[{"name":"search","arguments":{"query":"x"}}],"reply":""}'),
    ],
)
@pytest.mark.requirement("D6")
def test_a_form_that_is_refused_is_asked_for_by_words_alone(plan: Literal["decision", "envelope"], answer: str):
    def constrained(request: Request) -> bool:
        return bool(request.options.grammar)

    settings = Settings(mode="force", plan=plan, marks="fixed")
    engine = engine_for(ASKED, TOOLS, settings, profile=CONSTRAINED)
    events, outcome, asked = carry_out(engine, refusing(FORM, constrained, answer))
    assert [bool(request.options.grammar) for request in asked] == [True, False]
    assert outcome.limitations[0].profile_fields == {"constraint": ""}
    assert outcome.trace.why_no_call == ""
    assert "constraint_refused" in [event.note.code for event in events if isinstance(event, Noted)]


def test_what_did_not_help_is_not_learned():
    _, outcome, asked = carry_out(engine_for(ASKED, TOOLS, INLINE), lambda _: [SYSTEM])
    assert (len(asked), outcome.failure, outcome.limitations) == (2, SYSTEM, ())


def test_what_breaks_off_in_the_middle_is_no_refusal():
    played: list[Event] = [TextDelta("Well. "), SYSTEM, Finish("stop")]
    _, outcome, asked = carry_out(engine_for(ASKED, TOOLS, INLINE), lambda _: played)
    assert (len(asked), outcome.failure) == (1, SYSTEM)


@check_each(
    ("roles", "expected"),
    [
        ("u", [("user", "u0")]),
        ("su", [("user", "s0\n---\n\nu1")]),
        ("ssu", [("user", "s0\n\ns1\n---\n\nu2")]),
        ("s", [("user", "s0")]),
        ("sa", [("user", "s0"), ("assistant", "a1")]),
        ("us", [("user", "u0"), ("user", "s1")]),
    ],
)
def test_the_user_says_what_the_system_says(roles: str, expected: list[tuple[str, str]]):
    names = {"s": "system", "u": "user", "a": "assistant"}
    messages = tuple(message(names[role], f"{role}{at}") for at, role in enumerate(roles))
    assert [(each.role, each.text) for each in without_system(messages)] == expected


def test_a_system_message_that_says_nothing_is_left_out():
    assert without_system((message("system", ""), message("user", "Hi"))) == (message("user", "Hi"),)
