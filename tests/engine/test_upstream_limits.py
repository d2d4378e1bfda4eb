"""What an upstream refuses of ours is done without, in the same turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest

from tests.cases import check_each
from tests.engine.engine_helpers import ASKED, CONSTRAINED, INLINE, PLANS, TOOLS, Turn, native
from tests.offline_turn import NONCE, STAMP, Play, carry_out, engine_for
from toolspeak.core.events import Event, Failure, Finish, Noted, TextDelta, fold
from toolspeak.core.types import Message, Options, Request, TextPart, ToolCall, ToolResult
from toolspeak.dialects.registry import render_calls
from toolspeak.engine.planning.capabilities import Profile, ProfileMatch
from toolspeak.engine.planning.strategy import Settings, plan
from toolspeak.engine.prompting.history import without_system
from toolspeak.engine.turn.engine import Engine
from toolspeak.engine.turn.upstream_limits import demands_alternation, detect_limitation, refuses_system_role

SYSTEM = Failure("System role not supported", status=400)
FORM = Failure("Unknown field: response_format", status=400)


#: How servers say that roles must alternate: Gemma, Mistral and newer Mistral templates, llama.cpp, and some hosts.
GEMMA = "Conversation roles must alternate user/assistant/user/assistant/..."
MISTRAL = "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."
DEVSTRAL = (
    "After the optional system message, conversation roles must alternate user and assistant roles except for tool "
    "calls and results."
)
LLAMA_CPP = f"Jinja Exception: {MISTRAL} at row 46, column 78"
ALTERNATION = [
    Failure(GEMMA, status=400),
    Failure(MISTRAL, status=400),
    Failure(DEVSTRAL, status=422),
    Failure(LLAMA_CPP, status=500),
    Failure("bad request", status=400, body='messages: roles must alternate between "user" and "assistant"'),
    Failure("does not support successive user or assistant messages (messages[1] and messages[2])", status=400),
    Failure('messages: found multiple "user" roles in a row', status=400),
    Failure("Unexpected role 'system' after role 'user'", status=400),
]


def message(role: str, text: str) -> Message:
    return Message(role, (TextPart(text),) if text else ())  # type: ignore[arg-type]


_ROLES = {"s": "system", "u": "user", "a": "assistant"}


def conversation(roles: str) -> tuple[Message, ...]:
    """Messages by the first letters of their roles, each with its own text."""
    return tuple(message(_ROLES[role], f"{role}{at}") for at, role in enumerate(roles))


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
    request = Request("m", (message("system", "s"),), options=Options(grammar=grammar, described_tools=("f",)))
    conceded = detect_limitation(failure, request, profile)
    assert (conceded.code if conceded else "") == found


@check_each(("failure", "refuses"), [(None, False), (SYSTEM, True), (Failure("system role", status=404), False)])
def test_a_turn_that_failed_tells_whether_the_system_role_was_refused(failure: Failure | None, refuses: bool):
    assert refuses_system_role(failure) is refuses


@pytest.mark.requirement("D8")
@check_each(
    "message",
    [
        "System role not supported",
        "system messages are not supported",
        "This model doesn't support system prompts.",
        "role `system` is not allowed",
        "Invalid role: system",
        "invalid value: 'system'",
        "The system_prompt field is invalid for this model",
        "unknown variant `system`, expected `user` or `assistant`",
        "Unexpected role",
        "unexpected role 'system'",
        "Only user and assistant roles are supported!",
        "Only 'user' and 'assistant' are allowed.",
        "messages[0].role: value is not a valid enumeration member; permitted: 'user', 'assistant'",
        '{"loc": ["body", "messages", 0, "role"], "msg": "Input should be \'user\' or \'assistant\'"}',
        "`messages[0].role` must be one of user, assistant",
        "Developer instruction is not enabled for models/gemma-3-27b-it",
    ],
)
def test_a_refused_system_role_is_recognised_in_many_wordings(message: str):
    for status in (400, 422, 500):
        answer = render_calls("hermes", [ToolCall("get_weather", {"city": "Oslo"})])
        for untried in (False, True):
            request = Request("m", tuple(ASKED), TOOLS)
            chosen = plan(request, ProfileMatch(Profile(), "unknown", ""), Settings(), untried=untried)
            engine = Engine(request, chosen, Settings(), stamp=STAMP, nonces=lambda _: NONCE)
            turned = Turn(engine, [Failure(message, status=status)], answer)
            assert turned.outcome.requests == 2
            assert [each.profile_fields for each in turned.outcome.limitations] == [{"system_role": False}]


@check_each(
    "message",
    [
        "messages[3].role: must be one of 'system', 'user', 'assistant'",
        "role: Input should be 'developer', 'system', 'user' or 'assistant'",
        "invalid value for temperature; see the system requirements",
        "the user has no assistant",
        "Internal error",
    ],
)
def test_other_errors_are_no_refused_system_role(message: str):
    assert not refuses_system_role(Failure(message, status=400))


@check_each("failure", ALTERNATION)
def test_alternation_is_never_taken_for_a_refused_system_role(failure: Failure):
    assert demands_alternation(failure)
    assert not refuses_system_role(failure)
    messages = (message("system", "s"), message("user", "a"), message("user", "b"))
    limitation = detect_limitation(failure, Request("m", messages, options=Options(described_tools=("f",))), Profile())
    assert limitation is not None
    assert limitation.code == "roles_must_alternate"


@check_each(
    ("failure", "roles", "profile", "found"),
    [
        (Failure(GEMMA, status=401), "uu", Profile(), ""),
        (Failure(GEMMA, status=400), "uu", Profile(alternates=True), ""),
        (Failure(GEMMA, status=400), "ua", Profile(), ""),
        # The template of a model without a system role counts a system message as a role out of order.
        (Failure(GEMMA, status=400), "su", Profile(), "system_role_refused"),
        (Failure(GEMMA, status=400), "su", Profile(system_role=False), ""),
        (Failure(MISTRAL, status=400), "su", Profile(), ""),
    ],
)
def test_alternation_is_repaired_only_where_something_can_be_changed(
    failure: Failure, roles: str, profile: Profile, found: str
):
    conceded = detect_limitation(failure, Request("m", conversation(roles)), profile)
    assert (conceded.code if conceded else "") == found


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
    assert [(each.role, each.text) for each in without_system(conversation(roles))] == expected


def test_a_system_message_that_says_nothing_is_left_out():
    assert without_system((message("system", ""), message("user", "Hi"))) == (message("user", "Hi"),)


# ---- alternating roles


def is_strict(request: Request, *, tools: bool) -> bool:
    """Whether a strict chat template accepts the roles: user and assistant in turn after an optional system message."""
    messages = request.messages[1:] if request.messages[0].role == "system" else request.messages
    if not tools:  # plain templates know no calls and no tool messages
        return [each.role for each in messages] == (["user", "assistant"] * len(messages))[: len(messages)]
    plain = [each.role for each in messages if not each.calls and not each.results and each.role != "tool"]
    return plain == (["user", "assistant"] * len(plain))[: len(plain)]


def strict(failure: Failure, answer: Callable[[Request], str | list[Event]], asked: list[Request]) -> Play:
    def play(request: Request) -> str | list[Event]:
        asked.append(request)
        return answer(request) if is_strict(request, tools=bool(request.tools)) else [failure]

    return play


CALL: dict[str, str | list[Event]] = {
    "inline": f'```json action {NONCE}\n{{"tool": "search", "parameters": {{"query": "x"}}}}\n```',
    "decision": f'{{"nonce":"{NONCE}","tools":[{{"name":"search","arguments":{{"query":"x"}}}}]}}',
    "envelope": f'{{"nonce":"{NONCE}","calls":[{{"name":"search","arguments":{{"query":"x"}}}}],"reply":""}}',
    "native": native("search", query="x"),
    "fallback": native("search", query="x"),
}
#: Seven turns as clients send them: plain, with system messages in the middle, with neighbours of one role, or with
#: the assistant first.
CONVERSATIONS = ["suauauauauauau", "uauauauauauau", "suausuauauuauau", "ssuuaauuaauuaauuaauusu", "auauauauauauau"]


@check_each("plan", PLANS)
@check_each("failure", ALTERNATION[:4])
@check_each("roles", CONVERSATIONS)
@pytest.mark.requirement("R-F47")
def test_every_plan_works_with_an_upstream_that_demands_alternation(plan: str, failure: Failure, roles: str):
    settings, profile = PLANS[plan]
    asked: list[Request] = []
    play = strict(failure, lambda _: CALL[plan], asked)
    turn = engine_for(list(conversation(roles)), TOOLS, settings, profile=profile)
    events, outcome, _ = carry_out(turn, play)
    assert outcome.failure is None
    assert [call.name for call in fold(events).calls] == ["search"]
    assert len(asked) == 1 + len(outcome.limitations)
    assert [each.profile_fields for each in outcome.limitations] in ([], [{"alternates": True}])
    if plan not in ("native", "fallback"):  # what toolspeak writes alternates at once
        assert len(asked) == 1
    for at in range(len(roles)):  # nothing that was said is lost
        said = f"{roles[at]}{at}"
        expected = plan != "decision" or roles[at] == "u"
        assert not expected or any(said in each.text for each in asked[-1].messages), said


@check_each("plan", ["inline", "decision", "envelope", "fallback"])
def test_retries_and_final_requests_alternate_too(plan: str):
    settings, profile = PLANS[plan]
    asked: list[Request] = []
    play = strict(ALTERNATION[1], lambda _: "I'm sorry, but I don't have access to any tools.", asked)
    turn = engine_for(list(conversation("suauauua")), TOOLS, settings, profile=profile)
    _, outcome, _ = carry_out(turn, play)
    assert outcome.failure is None
    assert len(asked) > 2


def test_alternation_that_merging_does_not_cure_is_reported_as_it_is():
    failure = Failure(MISTRAL, status=400)
    _, outcome, asked = carry_out(engine_for(list(conversation("suau")), TOOLS, INLINE), lambda _: [failure])
    assert (len(asked), outcome.failure, outcome.limitations) == (1, failure, ())


@check_each("plan", ["native", "fallback"])
def test_an_upstream_that_knows_no_results_is_asked_without_native_tools(plan: str):
    """Its template demands alternation of all messages, so merging does not help."""
    settings, profile = PLANS[plan]
    call = ToolCall("search", {"query": "x"}, "c1")
    messages = [
        *conversation("u"),
        Message("assistant", calls=(call,)),
        Message("tool", results=(ToolResult("c1", "found"),)),
    ]
    written = {"native": CALL["inline"], "fallback": CALL["decision"]}[plan]

    def play(request: Request) -> str | list[Event]:
        return [ALTERNATION[0]] if any(each.role == "tool" for each in request.messages) else written

    events, outcome, asked = carry_out(engine_for(messages, TOOLS, settings, profile=profile), play)
    assert outcome.failure is None
    assert [call.name for call in fold(events).calls] == ["search"]
    assert not asked[-1].tools


def test_only_a_rejection_can_demand_alternation():
    assert not demands_alternation(None)
    assert not demands_alternation(Failure(GEMMA, status=404))
    assert demands_alternation(Failure(GEMMA, status=400))
