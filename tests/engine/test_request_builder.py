"""What goes upstream in each phase, and when it is asked again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

import msgspec
import pytest

from tests.cases import check_each
from tests.offline_turn import NONCE, planned, user
from toolspeak.core.types import (
    Media,
    Message,
    Options,
    Request,
    ResponseFormat,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from toolspeak.engine.planning.capabilities import Profile
from toolspeak.engine.planning.strategy import Settings
from toolspeak.engine.turn.faults import Fault
from toolspeak.engine.turn.phases import PhaseName
from toolspeak.engine.turn.request_builder import RequestBuilder
from toolspeak.errors import UsageError

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Tool("get_weather", "The weather in a city.", CITY)
PING = Tool("ping", "Is anybody there?")
BROWSER = Tool("browser", kind="web_search")
TOOLS = (WEATHER, PING)
PICTURE = Media("image", "data:image/png;base64,AA==")
FORCE = Settings(mode="force")
EMULATING: tuple[PhaseName, ...] = ("inline", "decision", "envelope")
DOCUMENTS: tuple[PhaseName, ...] = ("decision", "envelope")


def asking(
    messages: tuple[Message, ...] = (user("How is it in Oslo?"),),
    tools: tuple[Tool, ...] = TOOLS,
    *,
    settings: Settings = FORCE,
    profile: Profile | None = None,
    choice: ToolChoice | None = None,
    options: Options | None = None,
    stream: bool = False,
    nonces: Callable[[int], str] = lambda counter: NONCE if counter == 0 else f"{NONCE}{counter}",
) -> RequestBuilder:
    request = Request("m", messages, tools, choice or ToolChoice(), stream, options or Options(), "openai_chat")
    plan = planned(request, settings, profile)
    return RequestBuilder(request, plan, settings, nonces=nonces, protocol="openai_chat")


def words(request: Request) -> str:
    return "\n".join(message.text for message in request.messages)


def dumped(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


@check_each("phase", EMULATING)
def test_it_is_told_whether_the_user_speaks_after_an_answer(phase: PhaseName):
    thanks = (user("How is it in Oslo?"), Message("assistant", (TextPart("Foggy."),)), user("Thanks!"))
    first, later = (asking(messages).build(phase).options for messages in (thanks[:1], thanks))
    assert (bool(first.described_tools), first.answered) == (True, False)
    assert (bool(later.described_tools), later.answered) == (True, True)


@check_each("phase", EMULATING)
def test_options_that_requests_share_tell_each_of_its_own_tools_and_choice(phase: PhaseName):
    shared = Options(seed=5)
    first = asking(tools=(WEATHER,), options=shared).build(phase).options
    other = asking(tools=(PING,), options=shared).build(phase).options
    demanded = asking(tools=(PING,), options=shared, choice=ToolChoice("required")).build(phase).options
    assert [each.described_tools for each in (first, other, demanded)] == [(WEATHER.name,), (PING.name,), (PING.name,)]
    assert [each.bound for each in (first, other, demanded)] == [False, False, True]


# ---- tools


def test_only_tools_that_a_prompt_can_teach_and_the_choice_allows_are_offered():
    asked = asking(tools=(WEATHER, BROWSER, PING), choice=ToolChoice(allowed=("ping",)))
    assert (asked.offered_tools, asked.readable_tools, asked.dropped_tools) == ((PING,), (WEATHER, PING), (BROWSER,))


def test_a_tool_that_is_declared_twice_is_read_once_and_two_of_one_name_are_an_error():
    asked = asking(tools=(PING, WEATHER, msgspec.structs.replace(PING)))
    assert asked.readable_tools == (PING, WEATHER)
    assert [note.code for note in asked.notes] == ["duplicate_tool"]
    with pytest.raises(UsageError, match="two tools are named `ping`"):
        asking(tools=(PING, WEATHER, Tool("ping", "Another.")))


@pytest.mark.requirement("C1")
def test_a_contract_tells_what_it_costs_and_which_tools_it_speaks_of():
    many = tuple(Tool(f"tool_{at}", "Does something useful. " * 10, CITY) for at in range(60))
    asked = asking(tools=many, settings=Settings(mode="force", contract_budget=500))
    asked.build("inline")
    assert 0 < asked.contract_tokens <= 500
    assert asked.offered_tools == many
    assert asked.describe == asked.readable_tools[-1].name == "describe_tools"
    assert any(note.code.startswith("tools") or "tool" in note.detail for note in asked.notes)
    assert asked.readable_tools[:-1] == many


def test_the_tools_take_at_most_half_of_a_known_context_window():
    many = tuple(Tool(f"tool_{at}", "Does something useful. " * 10, CITY) for at in range(300))
    for window, most in ((0, 8000), (4096, 2048), (100_000, 8000)):
        asked = asking(tools=many, settings=FORCE, profile=Profile(context_window=window))
        asked.build("inline")
        assert most / 2 < asked.contract_tokens <= most


# ---- phases


@pytest.mark.requirement("C5", "A2")
def test_a_relayed_request_is_the_request_itself():
    asked = asking(tools=(), settings=Settings(mode="off"))
    assert asked.build("relay").messages == (user("How is it in Oslo?"),)


@pytest.mark.requirement("C2", "C5")
def test_messages_are_paired_unless_the_request_passes_untouched():
    orphan = (user("Hi"), Message("tool", results=(ToolResult("nobody", "lost"),)))
    assert asking(orphan, settings=Settings(mode="off")).build("relay").messages == orphan
    assert asking(orphan).notes


@pytest.mark.requirement("D1")
@check_each("phase", ["native", "trial"])
def test_native_requests_carry_tools_choice_and_options_as_they_are(phase: PhaseName):
    options = Options(stop=("END",), response_format=ResponseFormat(CITY))
    choice = ToolChoice("required")
    asked = asking(tools=(WEATHER, BROWSER), settings=Settings(mode="fallback"), choice=choice, options=options)
    request = asked.build(phase)
    assert (request.tools, request.tool_choice, request.options) == ((WEATHER, BROWSER), choice, options)


@pytest.mark.requirement("A4")
@check_each("phase", [*EMULATING, "final"])
def test_no_other_request_speaks_of_tools_to_the_upstream(phase: PhaseName):
    called = Message("assistant", calls=(ToolCall("ping", {}, "1"),))
    messages = (user("Hi"), called, Message("tool", results=(ToolResult("1", "pong"),)))
    request = asking(messages, choice=ToolChoice("required"), stream=True).build(phase)
    assert (request.tools, request.tool_choice) == ((), ToolChoice())
    assert not any(message.calls or message.results or message.role == "tool" for message in request.messages)
    assert "pong" in words(request)
    assert request.stream is (phase != "decision")


@pytest.mark.requirement("C1")
@check_each("phase", EMULATING)
def test_a_model_without_a_system_role_reads_the_contract_in_the_first_user_message(phase: PhaseName):
    options = Options(response_format=ResponseFormat(CITY))
    asked = asking(profile=Profile(system_role=False), options=options)
    request = asked.build(phase)
    assert [message.role for message in request.messages] == ["user"]
    assert "get_weather" in request.messages[0].text
    assert request.messages[0].text.endswith("How is it in Oslo?")


@pytest.mark.requirement("C4")
@check_each("phase", [*EMULATING, "final"])
def test_media_that_the_model_cannot_take_become_text_in_every_phase(phase: PhaseName):
    messages = (Message("user", (TextPart("What is this?"), PICTURE)),)
    asked = asking(messages, profile=Profile(media=()))
    request = asked.build(phase)
    assert not any(isinstance(part, Media) for message in request.messages for part in message.parts)
    assert "[image left out" in words(request)
    assert [note.code for note in asked.notes].count("media_replaced") == 1
    passed = asking(messages).build(phase)
    assert PICTURE in passed.messages[-1].parts


# ---- options


@pytest.mark.requirement("C6", "B9")
@check_each(
    ("stop", "most", "sent"),
    [
        ((), 4, ("\n```json result",)),
        (("END",), 4, ("END", "\n```json result")),
        (("A", "B", "C", "D"), 4, ("A", "B", "C", "D")),
        (("A", "B"), 1, ("A", "B")),
        ((), 0, ()),
    ],
)
def test_the_callers_stop_sequences_come_first_and_ours_where_there_is_room(
    stop: tuple[str, ...], most: int, sent: tuple[str, ...]
):
    asked = asking(options=Options(stop=stop), profile=Profile(max_stop=most))
    assert asked.build("inline").options.stop == sent


@pytest.mark.requirement("C6")
@check_each("phase", [*DOCUMENTS, "final"])
def test_only_answers_that_may_hold_marks_are_stopped_at_results(phase: PhaseName):
    assert asking(options=Options(stop=("END",))).build(phase).options.stop == ("END",)


@pytest.mark.requirement("B9")
def test_a_stop_sequence_also_meets_a_result_that_carries_the_nonce():
    (stop,) = asking(settings=Settings(mode="force", dialect="hermes")).build("inline").options.stop
    assert f"\n<tool_response {NONCE}>".startswith(stop)


@pytest.mark.requirement("C6")
@check_each("schema", [None, CITY])
def test_inline_a_format_is_told_in_the_prompt(schema: Any):
    plain = asking().build("inline").messages[0].text
    asked = asking(options=Options(response_format=ResponseFormat(schema)))
    request = asked.build("inline")
    told = request.messages[0].text
    assert request.options.response_format is None
    assert told.startswith(plain.rstrip())
    assert f"one JSON {'value' if schema else 'object'} and nothing else" in told
    assert (dumped(CITY) in told) is (schema is not None)


@pytest.mark.requirement("C6")
def test_the_final_request_carries_the_format_and_the_decision_does_not():
    asked = asking(options=Options(response_format=ResponseFormat(CITY)))
    assert asked.build("decision").options.response_format is None
    assert asked.build("final").options.response_format == ResponseFormat(CITY)


@pytest.mark.requirement("A7", "C6")
@check_each(("wanted", "kind"), [(None, "string"), (ResponseFormat(), "object"), (ResponseFormat(CITY), "object")])
def test_the_format_is_the_schema_of_an_envelopes_reply(wanted: ResponseFormat | None, kind: str):
    asked = asking(profile=Profile(constraint="json_schema"), options=Options(response_format=wanted))
    request = asked.build("envelope")
    schema = request.options.grammar["response_format"]["json_schema"]["schema"]
    replies = [branch["properties"]["reply"] for branch in schema.get("anyOf", [schema])]
    assert kind in {reply.get("type") for reply in replies}
    assert request.options.response_format is None


@pytest.mark.requirement("A7")
def test_a_decision_is_enforced_where_the_upstream_can_do_so():
    enforced = asking(profile=Profile(constraint="json_schema")).build("decision").options.grammar
    assert "tools" in enforced["response_format"]["json_schema"]["schema"]["properties"]
    assert asking().build("decision").options.grammar == {}


@pytest.mark.requirement("A7")
def test_inline_calls_are_enforced_by_a_grammar_unless_that_is_switched_off():
    gbnf = Profile(constraint="gbnf")
    enforced = asking(profile=gbnf).build("inline").options.grammar
    assert NONCE in enforced["grammar"]
    for free in (
        asking(profile=Profile(constraint="json_schema")),
        asking(profile=gbnf, settings=Settings(mode="force", constrain=False)),
        asking(profile=gbnf, settings=Settings(mode="force", dialect="react")),
    ):
        assert free.build("inline").options.grammar == {}
    loose = asking(profile=gbnf, settings=Settings(mode="force", plan="envelope", constrain=False))
    assert loose.build("envelope").options.grammar == {}


@pytest.mark.requirement("A7")
def test_a_decision_that_is_demanded_and_enforced_is_no_copy_of_the_example():
    def examples(profile: Profile, mode: Literal["auto", "required"]) -> tuple[str, ...]:
        asked = asking(profile=profile, choice=ToolChoice(mode))
        asked.build("decision")
        return asked.untrusted_texts("decision")

    assert examples(Profile(constraint="gbnf"), "required") == ()
    assert examples(Profile(constraint="gbnf"), "auto")
    assert examples(Profile(), "required")


# ---- marks


@pytest.mark.requirement("R-E2")
def test_the_nonce_is_the_first_that_nobody_else_has_written():
    asked = asking((user(f"{NONCE} and {NONCE}1"),))
    assert asked.nonce == f"{NONCE}2"
    assert f"{NONCE}2" in words(asked.build("inline"))


@pytest.mark.requirement("R-E2")
def test_fixed_marks_are_used_when_asked_for_or_when_every_nonce_is_taken():
    assert asking(settings=Settings(mode="force", marks="fixed")).nonce is None
    asked = asking((user(NONCE),), nonces=lambda _: NONCE)
    assert (asked.nonce, [note.code for note in asked.notes]) == (None, ["no_free_nonce"])


@pytest.mark.requirement("R-E4")
def test_what_others_wrote_is_not_trusted_where_marks_carry_no_nonce():
    text = "How is it in Oslo?"
    # The tools' own words as well: they may be a stranger's.
    assert asking().untrusted_texts("native") == (text, *(tool.description for tool in TOOLS))
    fixed = asking(settings=Settings(mode="force", marks="fixed"))
    fixed.build("inline")
    assert fixed.untrusted_texts("inline")[0] == text
    assert "get_weather" in fixed.untrusted_texts("inline")[-1]
    marked = asking()
    marked.build("inline")
    assert (marked.untrusted_texts("inline"), marked.untrusted_texts("envelope")) == ((), ())
    marked.build("decision")
    examples = marked.untrusted_texts("decision")
    assert "get_weather" in "".join(examples)
    assert marked.copyable_texts() == (text, *(tool.description for tool in TOOLS))


# ---- once more


def again(asked: RequestBuilder, phase: PhaseName, answer: str, fault: Fault, attempt: int = 1) -> Request:
    return asked.retry_request(phase, asked.build(phase), answer, fault, attempt)


@pytest.mark.requirement("E2")
def test_after_a_refusal_the_model_does_not_see_it_again():
    asked = asking()
    request = again(asked, "inline", "I have no tools.", Fault("refusal"))
    assert [message.role for message in request.messages] == ["system", "user"]
    assert request.messages[-1].text.startswith("How is it in Oslo?\n\nYou do have tools")


@pytest.mark.requirement("E2")
@check_each("phase", ["native", *EMULATING])
@check_each(
    ("parts", "added"),
    [
        ((TextPart("How is it?"),), 0),
        ((PICTURE, TextPart("How is it?")), 0),
        ((TextPart("How is it?", {"cache_control": {"type": "ephemeral"}}),), 1),
        ((TextPart("How is it?"), PICTURE), 1),
    ],
)
def test_a_retry_goes_on_with_the_users_last_text_where_that_is_plain(
    phase: PhaseName, parts: tuple[TextPart | Media, ...], added: int
):
    asked = asking((Message("user", parts),))
    before, after = asked.build(phase).messages[-1], again(asked, phase, "", Fault("refusal")).messages[-1]
    assert after.text.startswith(f"{before.text}\n\nYou do have tools")
    assert len(after.parts) == len(before.parts) + added
    assert after.parts[: len(parts) - 1 + added] == before.parts[: len(parts) - 1 + added]


@pytest.mark.requirement("E2")
@check_each(("answer", "shown"), [("{'x'", "{'x'"), ("x" * 5000, "x" * 4000 + " [...]"), (" \n", None)])
def test_after_a_mistake_the_model_sees_what_it_wrote_shortened(answer: str, shown: str | None):
    request = again(asking(), "inline", answer, Fault("bad_arguments", "`city` is missing"))
    assert [message.text for message in request.messages if message.role == "assistant"] == ([shown] if shown else [])
    assert "`city` is missing" in request.messages[-1].text


@pytest.mark.requirement("E2")
def test_asking_again_ends_with_the_users_words_whoever_spoke_last():
    spoken = (user("Hi"), Message("assistant", (TextPart("I look."),)))
    request = again(asking(spoken), "inline", "", Fault("refusal"))
    assert [message.role for message in request.messages] == ["system", "user", "assistant", "user"]
    assert asking(())._request.messages == ()  # pyright: ignore[reportPrivateUsage]
    request = again(asking((), settings=Settings()), "native", "", Fault("no_call"))
    assert [message.role for message in request.messages] == ["user"]


@pytest.mark.requirement("E2")
@check_each(
    ("phase", "example"),
    [
        ("inline", f'```json action {NONCE}\n{{"tool":"get_weather","parameters":{{"city":"example city"}}}}\n```'),
        ("decision", f'{{"nonce":"{NONCE}","tools":[{{"name":"get_weather","arguments":{{"city":"example city"}}}}]}}'),
        (
            "envelope",
            f'{{"nonce":"{NONCE}","calls":[{{"name":"get_weather","arguments":{{"city":"example city"}}}}],"reply":""}}',
        ),
    ],
)
def test_a_retry_shows_how_a_call_looks_in_the_form_of_its_phase(phase: PhaseName, example: str):
    told = again(asking(), phase, "", Fault("no_call")).messages[-1].text
    assert example in told
    assert "function calling interface" not in told


@pytest.mark.requirement("E2")
def test_a_native_retry_asks_for_a_native_call():
    told = again(asking(settings=Settings(mode="fallback")), "native", "", Fault("no_call")).messages[-1].text
    assert "Use the function calling interface" in told


@pytest.mark.requirement("E2")
def test_the_last_retry_says_so():
    asked = asking()
    texts = [again(asked, "inline", "", Fault("no_call"), attempt).messages[-1].text for attempt in (1, 2)]
    assert ["This is the last attempt." in text for text in texts] == [False, True]


@pytest.mark.requirement("D3")
def test_schemas_of_native_tools_are_written_as_the_profile_wants_them():
    tool = Tool("f", parameters={"type": "object", "properties": {"n": {"type": "integer"}}})
    profile = Profile(capability="openai", transform="openai_strict")
    native = asking(tools=(tool,), settings=Settings(), profile=profile)
    (sent,) = native.build("native").tools
    assert sent.parameters["additionalProperties"] is False
    assert sent.parameters["required"] == ["n"]
    unknown = asking(tools=(tool,), settings=Settings(), profile=Profile(capability="openai", transform="nobody's"))
    assert unknown.build("native").tools == (tool,)
    assert [note.code for note in unknown.notes] == ["unknown_transform"]


# ---- what a model cannot do


@pytest.mark.requirement("C4")
@check_each("phase", ["native", "trial"])
def test_native_requests_hold_no_media_that_the_model_cannot_take(phase: PhaseName):
    messages = (
        Message("user", (TextPart("Look: "), PICTURE)),
        Message("assistant", calls=(ToolCall("ping", {}, "1"),)),
        Message("tool", results=(ToolResult("1", "Here.", parts=(PICTURE, Media("audio", "data:,"))),)),
    )
    asked = asking(messages, settings=Settings(), profile=Profile(capability="openai", media=("audio",)))
    shown = asked.build(phase).messages
    assert shown[0].text == "Look: [image left out: this model cannot read it]"
    assert shown[2].results[0].content == "Here.\n[image left out: this model cannot read it]"
    assert shown[2].results[0].parts == (Media("audio", "data:,"),)
    assert [note.code for note in asked.notes] == ["media_replaced"]


def test_media_that_the_model_takes_go_up_as_they_are():
    messages = (Message("user", (PICTURE,)),)
    asked = asking(messages, settings=Settings(), profile=Profile(capability="openai"))
    assert asked.build("native").messages[0] is messages[0]
    assert asked.notes == []


@pytest.mark.requirement("A10")
@check_each("phase", EMULATING)
def test_a_model_that_garbles_a_second_call_is_asked_for_one(phase: PhaseName):
    one, several = (
        asking(profile=Profile(parallel=parallel, constraint="json_schema")).build(phase) for parallel in (False, True)
    )
    given = asking(profile=Profile(constraint="json_schema"), choice=ToolChoice(parallel=False)).build(phase)
    assert one == given
    assert words(one) != words(several)


@check_each(("parallel", "told"), [(True, True), (False, False)])
def test_a_native_request_says_that_one_call_is_enough(parallel: bool, told: bool):
    profile = Profile(capability="openai", parallel=parallel)
    request = asking(settings=Settings(), profile=profile).build("native")
    assert request.tool_choice == ToolChoice(parallel=told)


@pytest.mark.requirement("R-F47")
def test_what_is_ours_in_a_request_is_told_from_what_is_the_callers():
    ours = asking(tools=(PING,)).build("inline").options
    assert (bool(ours.stop), ours.dispensable) == (True, ("stop",))
    theirs = asking(tools=(PING,), options=Options(stop=("x",))).build("inline").options
    assert theirs.dispensable == ()
    single = asking(
        tools=(PING,), choice=ToolChoice(parallel=False), settings=Settings(), profile=Profile(capability="openai")
    )
    assert single.build("native").options.dispensable == ("parallel_tool_calls",)


def test_without_a_system_role_the_user_says_what_the_system_says_in_a_final_request():
    messages = (Message("system", (TextPart("Be brief."),)), user("Hi"))
    asked = asking(messages, profile=Profile(system_role=False)).build("final")
    assert [message.role for message in asked.messages] == ["user"]
    assert "Be brief." in asked.messages[0].text
