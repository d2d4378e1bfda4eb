"""Which plan is chosen, and the rule that chose it."""

from __future__ import annotations

from itertools import product
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import check_each
from toolspeak.core.types import Message, Request, TextPart, Tool, ToolCall, ToolChoice, ToolResult
from toolspeak.dialects import registry as table
from toolspeak.dialects.registry import DIALECTS, Dialect
from toolspeak.dialects.rendering import json_list
from toolspeak.engine.planning import strategy as strategy_module
from toolspeak.engine.planning.capabilities import Capabilities, Learned, Profile, ProfileMatch
from toolspeak.engine.planning.strategy import (
    DEFAULT_CONTRACT_BUDGET,
    UNKNOWN_RULES,
    Mode,
    Plan,
    Settings,
    Strategy,
    brief_strategy,
    plan,
    strategy,
)
from toolspeak.errors import ConfigError

HELLO = Message("user", (TextPart("hello"),))
CALLED = Message("assistant", calls=(ToolCall("ping", {}, "1"),))
RESULT = Message("tool", results=(ToolResult("1", "pong"),))
PING = Tool("ping")
SEARCH = Tool("web_search", kind="web_search")

NONE = ProfileMatch(Profile(), "unknown", "nothing is known")
OPENAI = ProfileMatch(Profile("openai"), "table.provider", "the table says so")
ADVANCED = ProfileMatch(Profile("advanced"), "table.provider", "the table says so")
CONSTRAINED = ProfileMatch(Profile(constraint="gbnf"), "table.provider", "the table says so")


def request(
    *messages: Message, tools: tuple[Tool, ...] = (PING,), choice: Any = "auto", stream: bool = False
) -> Request:
    return Request("m", messages or (HELLO,), tools, ToolChoice(choice), stream)


def brief(made: Plan) -> tuple[str, str]:
    return made.kind, made.rule


# ---- what passes and what is plain


@pytest.mark.requirement("C5")
@check_each("found", [NONE, OPENAI])
@check_each("mode", ["off", "fallback", "force", "auto"])
@check_each("chat_only", [False, True])
def test_without_tools_and_tool_history_nothing_is_touched(found: ProfileMatch, mode: Any, chat_only: bool):
    made = plan(request(tools=()), found, Settings(mode=mode, chat_only=chat_only))
    assert brief(made) == ("pass", "no_tools")
    assert (made.native, made.emulation, made.rescue) == (True, "", False)


@pytest.mark.requirement("A1", "A2")
@check_each("found", [NONE, OPENAI])
@check_each("messages", [(HELLO,), (HELLO, CALLED, RESULT)])
def test_off_passes_tools_as_they_are(found: ProfileMatch, messages: tuple[Message, ...]):
    made = plan(request(*messages), found, Settings(mode="off"))
    assert brief(made) == ("pass", "mode.off")
    assert not made.rescue


@pytest.mark.requirement("A6")
@check_each("found", [NONE, OPENAI, ADVANCED])
@check_each("mode", ["off", "fallback", "force", "auto"])
@check_each(
    "asked", [request(), request(HELLO, CALLED, RESULT), request(HELLO, CALLED, tools=()), request(RESULT, tools=())]
)
def test_chat_only_takes_tools_away_whatever_the_model_can_do(found: ProfileMatch, mode: Any, asked: Request):
    made = plan(asked, found, Settings(mode=mode, chat_only=True))
    assert brief(made) == ("plain", "chat_only")
    assert not made.native


# ---- auto


@pytest.mark.requirement("A1", "A5")
@check_each("found", [OPENAI, ADVANCED])
def test_auto_is_native_where_the_model_can(found: ProfileMatch):
    made = plan(request(), found, Settings())
    assert brief(made) == ("native", "table.provider")
    assert made.native
    assert made.why == "native tool calls: the table says so"


@pytest.mark.requirement("A5", "D6")
def test_auto_emulates_where_nothing_is_known():
    made = plan(request(), NONE, Settings())
    assert brief(made) == ("inline", "unknown")
    assert (made.native, made.emulation, made.second) == (False, "inline", "")
    assert made.why == "no native tool calls: nothing is known"


@pytest.mark.requirement("D7")
def test_a_native_answer_is_searched_where_calls_may_leak():
    tight = ProfileMatch(Profile("openai", leaks=False), "table.provider", "")
    assert plan(request(), OPENAI, Settings()).rescue
    assert not plan(request(), tight, Settings()).rescue
    assert not plan(request(), OPENAI, Settings(rescue=False)).rescue
    assert plan(request(), OPENAI, Settings(mode="fallback")).rescue
    assert not plan(request(), NONE, Settings()).rescue


@pytest.mark.requirement("A5")
def test_a_demand_for_a_call_that_is_not_enforced_natively_is_emulated():
    lax = ProfileMatch(Profile("openai", required=False), "probe", "a probe says so")
    assert brief(plan(request(choice="required"), lax, Settings())) == ("inline", "required")
    assert brief(plan(request(), lax, Settings())) == ("native", "probe")
    assert plan(request(choice="required"), OPENAI, Settings()).kind == "native"
    # What cannot be asked for by text stays where it may be called.
    assert plan(request(tools=(SEARCH,), choice="required"), lax, Settings()).kind == "native"


def test_native_without_a_call_to_find_stays_native_and_is_not_searched():
    for asked in (request(choice="none"), request(HELLO, CALLED, RESULT, tools=()), request(tools=(SEARCH,))):
        made = plan(asked, OPENAI, Settings())
        assert (*brief(made), made.rescue) == ("native", "table.provider", False)


# ---- emulation


@pytest.mark.requirement("A1", "A4")
@check_each("found", [NONE, OPENAI, ADVANCED])
def test_force_emulates_whatever_the_model_can_do(found: ProfileMatch):
    assert brief(plan(request(), found, Settings(mode="force"))) == ("inline", "mode.force")


@pytest.mark.requirement("A7")
@check_each(("wanted", "kind"), [("", "inline"), ("inline", "inline"), ("decision", "decision")])
@check_each("mode", ["force", "auto"])
def test_the_plan_asked_for_is_the_one_that_runs(mode: Any, wanted: Any, kind: str):
    made = plan(request(), NONE, Settings(mode=mode, plan=wanted))
    assert (made.kind, made.emulation) == (kind, kind)


@pytest.mark.requirement("A7")
def test_the_envelope_runs_only_when_asked_for_and_enforced():
    wanted = Settings(mode="force", plan="envelope")
    assert brief(plan(request(), CONSTRAINED, wanted)) == ("envelope", "mode.force")
    assert brief(plan(request(), CONSTRAINED, Settings(mode="force"))) == ("inline", "mode.force")
    made = plan(request(), NONE, wanted)
    assert brief(made) == ("inline", "envelope.unconstrained")
    assert made.why == (
        "mode is force; inline instead of the requested envelope, because the upstream is not known to enforce one"
    )


@pytest.mark.requirement("A7", "A12")
@check_each("mode", ["force", "fallback", "auto"])
def test_an_envelope_that_cannot_be_enforced_is_a_warning(mode: Mode):
    wanted = Settings(mode=mode, plan="envelope")
    assert plan(request(), CONSTRAINED, wanted).warning == ""
    assert plan(request(choice="none"), NONE, wanted).warning == ""
    warning = plan(request(), NONE, wanted).warning
    assert warning.startswith("the plan is inline instead of envelope")
    assert "set `constraint`" in warning
    assert strategy("nobody:m", settings=wanted).warning == warning
    assert strategy("nobody:m").warning == ""


@check_each("settings", [Settings(), Settings(mode="off"), Settings(mode="fallback"), Settings(plan="envelope")])
@check_each("found", [NONE, OPENAI, CONSTRAINED])
def test_the_brief_strategy_is_that_of_a_request_with_a_function(settings: Settings, found: ProfileMatch):
    untried = found.rule in UNKNOWN_RULES
    planned, told = plan(request(), found, settings, untried=untried), brief_strategy(found, settings)
    assert (told.native, told.plan, told.rule, told.warning) == (
        planned.native,
        planned.kind,
        planned.rule,
        planned.warning,
    )
    assert planned.why.startswith(told.why)


@check_each("mode", ["force", "auto"])
@check_each(
    ("asked", "rule"),
    [
        (request(choice="none"), "choice.none"),
        (request(HELLO, CALLED, RESULT, tools=()), "history_only"),
        (request(HELLO, CALLED, RESULT, tools=(), choice="none"), "history_only"),
        (request(tools=(SEARCH,)), "no_functions"),
        (request(tools=(SEARCH, Tool("a\n<|im_start|>"))), "no_functions"),
    ],
)
@pytest.mark.requirement("A9", "A13", "C3")
def test_emulation_without_a_call_to_ask_for_is_plain(mode: Any, asked: Request, rule: str):
    assert brief(plan(asked, NONE, Settings(mode=mode))) == ("plain", rule)


@pytest.mark.requirement("A13")
@check_each("kind", ["function", "custom"])
def test_functions_and_custom_tools_can_be_asked_for(kind: str):
    assert plan(request(tools=(SEARCH, Tool("f", kind=kind))), NONE, Settings()).kind == "inline"


# ---- fallback


@pytest.mark.requirement("A1", "A3")
@check_each("found", [NONE, OPENAI])
def test_fallback_is_native_first_and_then_a_decision(found: ProfileMatch):
    made = plan(request(), found, Settings(mode="fallback"))
    assert (*brief(made), made.second, made.emulation) == ("fallback", "mode.fallback", "decision", "decision")
    assert made.native
    assert made.why == "mode is fallback: native first, then decision if the answer has no call"


@pytest.mark.requirement("A3")
def test_fallback_runs_the_plan_that_is_set():
    assert plan(request(), NONE, Settings(mode="fallback", plan="inline")).second == "inline"
    made = plan(request(), CONSTRAINED, Settings(mode="fallback", plan="envelope"))
    assert (made.rule, made.second) == ("mode.fallback", "envelope")
    made = plan(request(), NONE, Settings(mode="fallback", plan="envelope"))
    assert (made.rule, made.second) == ("envelope.unconstrained", "inline")


@pytest.mark.requirement("A3", "A9")
@check_each(
    ("asked", "rule"),
    [
        (request(choice="none"), "choice.none"),
        (request(HELLO, CALLED, RESULT, tools=()), "history_only"),
        (request(tools=(SEARCH,)), "no_functions"),
        (request(tools=(SEARCH, Tool("a\n<|im_start|>"))), "no_functions"),
    ],
)
def test_fallback_without_a_call_to_ask_for_is_native_alone(asked: Request, rule: str):
    made = plan(asked, NONE, Settings(mode="fallback"))
    assert (*brief(made), made.second, made.rescue) == ("native", rule, "", False)


# ---- the rest of a plan


@pytest.mark.requirement("B11")
@check_each(
    ("stream", "choice", "wanted", "expected"),
    [
        (True, "auto", "", "held"),
        (True, "auto", "live", "live"),
        (True, "required", "", "checked"),
        (True, "named", "", "checked"),
        (False, "auto", "", "checked"),
        (True, "auto", "checked", "checked"),
        (False, "required", "live", "live"),
    ],
)
def test_calls_are_held_while_they_are_short_and_checked_where_one_is_due(
    stream: bool, choice: str, wanted: Any, expected: str
):
    made = plan(request(stream=stream, choice=choice), NONE, Settings(stream_calls=wanted))
    assert made.stream_calls == expected


@check_each(("wanted", "expected"), [("", "hermes"), ("auto", "hermes"), ("action", "action"), ("glm", "glm")])
def test_the_dialect_asked_for_wins_over_the_profiles(wanted: str, expected: str):
    found = ProfileMatch(Profile(dialect="hermes"), "unknown", "")
    assert plan(request(), found, Settings(dialect=wanted)).dialect == expected


@pytest.mark.requirement("R-E3")
@check_each(
    ("wanted", "profile", "expected"),
    [
        ("auto", "auto", "nonce"),
        ("auto", "fixed", "fixed"),
        ("auto", "nonce", "nonce"),
        ("fixed", "auto", "fixed"),
        ("nonce", "fixed", "nonce"),
    ],
)
def test_marks_carry_a_nonce_unless_somebody_objects(wanted: Any, profile: Any, expected: str):
    found = ProfileMatch(Profile(marks=profile), "unknown", "")
    assert plan(request(), found, Settings(marks=wanted)).marks == expected


@pytest.mark.requirement("R-E3")
@check_each("name", DIALECTS)
def test_every_dialect_of_the_table_carries_a_nonce(name: str):
    assert plan(request(), NONE, Settings(dialect=name)).marks == "nonce"


def test_a_dialect_without_a_place_for_the_nonce_has_fixed_marks(monkeypatch: pytest.MonkeyPatch):
    silent = Dialect("silent", frozenset({"action"}), lambda calls, nonce: json_list(calls, None))
    monkeypatch.setitem(table.DIALECTS, "silent", silent)
    made = plan(request(), NONE, Settings(dialect="silent"))
    assert (made.marks, made.why) == ("fixed", "no native tool calls: nothing is known")
    made = plan(request(), NONE, Settings(dialect="silent", marks="nonce"))
    assert made.marks == "fixed"
    assert made.why.endswith("; the dialect does not support the requested nonce")
    strategy_module.carries_nonce.cache_clear()


def test_policy_retries_and_profile_are_handed_on():
    made = plan(request(), OPENAI, Settings(policy="strict", retries=0))
    assert (made.policy, made.retries, made.profile) == ("strict", 0, OPENAI.profile)


# ---- settings


@pytest.mark.requirement("A7")
def test_without_constraints_an_envelope_is_used_only_by_its_name():
    usual = msgspec.structs.replace(CONSTRAINED, profile=Profile(constraint="gbnf", plan="envelope"))
    assert plan(request(), usual, Settings()).kind == "envelope"
    made = plan(request(), usual, Settings(constrain=False))
    assert (made.kind, made.profile.constraint) == ("inline", "")
    made = plan(request(), usual, Settings(plan="envelope", constrain=False))
    assert (made.kind, made.profile.constraint) == ("envelope", "")


@check_each(
    ("allowed", "able", "why"),
    [
        (True, True, ""),
        (True, False, "one call at a time, because the model garbles a second one"),
        (False, True, "one call at a time, because `parallel` is false"),
        (False, False, "one call at a time, because `parallel` is false"),
    ],
)
def test_one_call_at_a_time_is_asked_for_if_the_settings_or_the_profile_say_so(allowed: bool, able: bool, why: str):
    match = ProfileMatch(Profile("openai", parallel=able), "probe", "a probe says so")
    made = plan(request(), match, Settings(parallel=allowed))
    assert made.profile.parallel is (allowed and able)
    assert why in made.why
    assert ("one call at a time" in made.why) is bool(why)


def test_the_defaults():
    assert msgspec.structs.asdict(Settings()) == {
        "mode": "auto",
        "plan": "",
        "dialect": "",
        "policy": "standard",
        "marks": "auto",
        "chat_only": False,
        "stream_calls": "",
        "text_before_calls": "keep",
        "retries": 2,
        "check_other_languages": True,
        "interpreter": "",
        "sticky_tools": "results",
        "contract": "compact",
        "contract_budget": DEFAULT_CONTRACT_BUDGET,
        "rescue": True,
        "constrain": True,
        "check_format": True,
        "parallel": True,
        "compact": "",
        "probe": "",
    }


@check_each(
    ("given", "message"),
    [
        ({"mode": "sometimes"}, "`mode` in the settings cannot be `sometimes` (use one of off, fallback, force, auto)"),
        ({"plan": "b"}, '`plan` in the settings cannot be `b` (use one of "", inline, decision, envelope)'),
        ({"retries": -1}, "`retries` in the settings cannot be `-1`"),
        ({"retries": 1000}, "`retries` in the settings cannot be `1000`"),
        ({"contract_budget": 0}, "`contract_budget` in the settings cannot be `0`"),
        ({"dialect": "klingon"}, "`dialect` in the settings cannot be `klingon`"),
        ({"chat_only": "yes"}, "`chat_only` in the settings cannot be `yes` (use true or false)"),
    ],
)
def test_settings_that_cannot_be_are_refused(given: dict[str, Any], message: str):
    with pytest.raises(ConfigError) as caught:
        Settings(**given)
    assert str(caught.value).startswith(message)


# ---- strategy


@pytest.mark.requirement("D3")
@check_each(
    ("model", "base_url", "native", "capability", "plan", "rule"),
    [
        ("deepinfra:deepseek-ai/DeepSeek-V3-0324", "", True, "openai", "native", "table.provider"),
        ("openai:gpt-4", "", True, "openai", "native", "table.provider"),
        ("anthropic:claude-sonnet", "", True, "advanced", "native", "table.provider"),
        ("ollama:llama3.2:latest", "", False, "none", "inline", "table.provider"),
        ("ollama:llama3.1:latest", "", True, "openai", "native", "table.model"),
        ("openai:my-model", "http://127.0.0.1:9000/v1", False, "none", "inline", "foreign_host"),
        ("mine:m", "", False, "none", "inline", "unknown"),
        ("m", "", False, "none", "inline", "unknown"),
    ],
)
def test_strategy_says_what_will_be_done_and_why(
    model: str, base_url: str, native: bool, capability: str, plan: str, rule: str
):
    said = strategy(model, base_url=base_url)
    assert (said.native, said.capability, said.plan, said.rule) == (native, capability, plan, rule)
    assert said.why


@pytest.mark.requirement("D4")
def test_strategy_obeys_settings_and_overrides():
    known = Capabilities()
    known.override_model("deepinfra:new-model", "none")
    assert strategy("deepinfra:new-model", known=known) == Strategy(
        False, "none", "inline", "override.model",
        "no native tool calls: set by an override for model `deepinfra:new-model`",
    )  # fmt: skip
    assert strategy("openai:gpt-4", settings=Settings(mode="force")).plan == "inline"


@pytest.mark.requirement("D6")
@given(model=st.text(max_size=30), base_url=st.text(max_size=30))
def test_strategy_never_fails(model: str, base_url: str):
    said = strategy(model, base_url)
    assert said.native == (said.plan == "native")


MODES: list[Mode] = ["off", "fallback", "force", "auto"]
PLANS: list[Literal["", "inline", "decision", "envelope"]] = ["", "inline", "decision", "envelope"]


@pytest.mark.requirement("A4", "A5")
def test_every_combination_gives_a_plan_that_keeps_the_promises():
    requests = [
        request(*messages, tools=tools, choice=choice)
        for messages in ((HELLO,), (HELLO, CALLED, RESULT))
        for tools in ((), (PING,), (SEARCH,))
        for choice in ("auto", "none", "required", "named")
    ]
    for asked, found, mode, wanted, chat_only in product(
        requests, (NONE, OPENAI, ADVANCED, CONSTRAINED), MODES, PLANS, (False, True)
    ):
        made = plan(asked, found, Settings(mode=mode, plan=wanted, chat_only=chat_only))
        carries = bool(asked.tools) or len(asked.messages) > 1
        assert (made.kind == "pass") == (not carries or (mode == "off" and not chat_only))
        assert not (mode == "force" and made.kind in ("native", "fallback"))
        assert (made.kind == "fallback") == bool(made.second)
        assert not (made.emulation and asked.tool_choice.mode == "none")
        assert not (made.emulation == "envelope" and not found.profile.constraint)
        assert not (made.rescue and not made.native)
        assert made.why
        assert made.rule


@check_each(("settings", "kind"), [(Settings(), "native"), (Settings(mode="force"), "inline")])
def test_a_plan_says_when_a_model_makes_one_call_at_a_time(settings: Settings, kind: str):
    request = Request("m", (), (Tool("f"),))
    for parallel in (True, False):
        planned = plan(
            request, ProfileMatch(Profile(capability="openai", parallel=parallel), "test", "a test"), settings
        )
        assert (planned.kind, planned.why.endswith("one call at a time, because the model garbles a second one")) == (
            kind,
            not parallel,
        )


@pytest.mark.requirement("A10")
@check_each(
    ("choice", "tools", "kind"),
    [
        (ToolChoice("required"), (PING,), "inline"),
        (ToolChoice("named", ("ping",)), (PING,), "inline"),
        (ToolChoice(), (PING,), "native"),
        (ToolChoice("required"), (SEARCH,), "native"),
    ],
)
def test_a_demand_that_is_not_enforced_natively_is_emulated(choice: ToolChoice, tools: tuple[Tool, ...], kind: str):
    found = ProfileMatch(Profile(capability="openai", required=False), "test", "a test")
    assert plan(Request("m", (HELLO,), tools, choice), found, Settings()).kind == kind


def test_a_plan_is_made_once_for_what_it_depends_on_and_the_kept_ones_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(strategy_module, "_MAX_CACHED_PLANS", 2)
    strategy_module._plan_cache.clear()  # pyright: ignore[reportPrivateUsage]
    found, settings = ProfileMatch(Profile(), "a", "b"), Settings()
    requests = [Request("m", (), (Tool("f"),), stream=stream) for stream in (False, True)]
    plans = [plan(request, found, settings) for request in requests]
    assert plan(Request("other", (), (Tool("g"), Tool("h"))), found, settings) is plans[0]
    assert plans[1].stream_calls == "held"
    assert plan(requests[0], ProfileMatch(Profile(), "c", "d"), settings).rule == "c"
    assert len(strategy_module._plan_cache) == 1  # pyright: ignore[reportPrivateUsage]


def test_settings_decide_how_a_doubtful_model_is_asked():
    match = Capabilities().find(
        "openai", "m", "https://models.example.com/v1", Learned({"capability": "openai"}, "seen")
    )
    assert plan(request(), match, Settings(), untried=True).tries_native
    for settings in (Settings(plan="decision"), Settings(plan="inline"), Settings(marks="nonce")):
        assert plan(request(), match, settings, untried=True).kind == "native"
    for each in (request(tools=()), request(choice="none")):
        assert plan(each, match, Settings(), untried=True).kind in ("native", "pass")
    decides = Capabilities().find(
        "openai", "m", "https://models.example.com/v1", Learned({"capability": "openai", "plan": "decision"}, "seen")
    )
    assert plan(request(), decides, Settings(), untried=True).kind == "native"
