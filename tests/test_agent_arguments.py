"""The arguments of an agent: one list for both classes, mistakes raise, context reaches the tools, and approval modes."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import toolspeak as ts
from tests.agent_helpers import agent, calling, content, look, model, run, sender
from tests.cases import check_each
from toolspeak import CallContext, ToolCall
from toolspeak.agent import KEYWORDS
from toolspeak.errors import UsageError
from toolspeak.runtime.options import AgentTurnOptions

pytestmark = pytest.mark.requirement("F13")


# ---- keywords


def test_both_agents_have_the_same_explicit_arguments():
    def arguments(kind: Any) -> list[Any]:
        listed = inspect.signature(kind.__init__).parameters.values()
        return [(each.name, each.kind, each.default, each.annotation) for each in listed if each.name != "client"]

    assert arguments(ts.Agent) == arguments(ts.AsyncAgent)
    assert {"instructions", "output_type", "approve", "approval", "mcp", "store", "context"} <= {*KEYWORDS}
    for name in ("run", "resume", "stream"):
        one, other = (inspect.signature(getattr(kind, name)).parameters for kind in (ts.Agent, ts.AsyncAgent))
        assert list(one.values()) == list(other.values())


def test_every_argument_is_documented():
    text = ts.AsyncAgent.__doc__ or ""
    own = [name for name in KEYWORDS if name not in AgentTurnOptions.__annotations__]
    assert [name for name in (*own, "options") if f"        {name}: " not in text] == []


@check_each(
    "options, words",
    [
        ({"max_round": 3}, "did you mean `max_rounds`"),
        ({"instruction": "x"}, "did you mean `instructions`"),
        ({"temperatur": 0.5}, "did you mean `temperature`"),
        ({"ouput_type": int}, "did you mean `output_type`"),
        ({"mcps": "x"}, "did you mean `mcp`"),
        ({"tool_choice": "required"}, "an agent lets the model choose"),
        ({"system_prompt": "Be kind."}, "use `instructions`"),
        ({"num_ctx": 8192}, "extra_body={'num_ctx': ...}"),
        ({"timeout": 5}, "max_seconds"),
        ({"context_window": 8192}, "override_model"),
        ({"response_format": int}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"temperature": "hot"}, "temperature"),
        ({"mode": "often"}, "mode"),
        ({"retries": -1}, "retries"),
        ({"parallel": "yes"}, "parallel"),
        ({"instructions": None}, "instructions"),
        ({"on_event": 5}, "on_event"),
        ({"approval": "always"}, "ask, auto, read-only"),
        ({"approval": "ask"}, "pass `approve`"),
        ({"approval": "auto", "approve": lambda question: True}, "asks no one"),
        ({"mcp": 5}, "`mcp` must describe"),
        ({"mcp": "/nowhere/mcp.json"}, "cannot read the MCP configuration"),
        ({"mcp": {"servers": {}}}, "no `mcpServers`"),
    ],
)
def test_mistakes_of_the_caller_raise_before_a_model_is_asked(options: dict[str, Any], words: str):
    for kind in (ts.Agent, ts.AsyncAgent):
        with pytest.raises(UsageError, match=words):
            kind(model(), **options)


def test_settings_and_request_fields_of_any_upstream_stay_possible():
    upstream = model("Hi.")
    run(agent(upstream, temperature=0.5, top_k=40, mode="off", extra_body={"min_tokens": 3}).run("Hello."))
    options = upstream.requests[0].options
    assert (options.temperature, options.extra["top_k"], options.extra["min_tokens"]) == (0.5, 40, 3)


# ---- context


@dataclass
class Database:
    rows: dict[str, str]


def lookup(key: str, call: CallContext[Database]) -> str:
    """Look up a row."""
    return call.deps.rows[key]


def plain(key: str, call: CallContext) -> str:
    """Look up a row, too."""
    return f"{key} {call.deps}"


LOOKUP = calling(ToolCall("lookup", {"key": "a"}))


def test_the_context_of_a_run_reaches_the_tools_that_declare_it():
    upstream = model(LOOKUP, "1", LOOKUP, "2", calling(ToolCall("plain", {"key": "x"})), "3")
    with ts.Agent(upstream, [lookup, plain], context=Database({"a": "default"})) as one:
        first = one.run("Go.", context=Database({"a": "for this run"}))
        second = one.run("Go.")
    assert [content(result.rounds[0].calls[0]) for result in (first, second)] == ["for this run", "default"]
    assert "call" not in upstream.requests[0].tools[0].parameters["properties"]
    with ts.Agent(model(calling(ToolCall("plain", {"key": "x"})), "3"), [plain]) as other:
        assert content(other.run("Go.").rounds[0].calls[0]) == "x None"


def test_the_context_is_neither_stored_nor_shown_to_the_model(tmp_path: Path):
    secret = Database({"a": "fine", "password": "hunter2"})
    upstream = model(LOOKUP, "Done.")
    with ts.Agent(upstream, [lookup], store=f"sqlite:///{tmp_path}/s.db") as one:
        result = one.run("Go.", context=secret)
    assert b"hunter2" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert "hunter2" not in repr(upstream.requests) + repr(result)


def test_a_stream_and_a_resumed_session_get_the_context_too():
    async def both() -> list[str]:
        upstream = model(LOOKUP, ts.UpstreamError("gone"), LOOKUP, "Done.")
        one = agent(upstream, lookup)
        events: list[Any] = [event async for event in one.stream("Go.", context=Database({"a": "streamed"}))]
        resumed = await one.resume(events[-1].result.session, context=Database({"a": "resumed"}))
        return [content(events[-1].result.rounds[0].calls[0]), content(resumed.rounds[0].calls[0])]

    assert run(both()) == ["streamed", "resumed"]


# ---- the result


def test_the_messages_of_a_result_are_those_of_this_run():
    async def both() -> Any:
        upstream = model("Hello.", calling(ToolCall("look", {"at": "x"}), text="Let me look."), "Nothing there.")
        one = agent(upstream, look)
        first = await one.run("Hi.")
        return await one.run("Look at x.", first.session)

    result = run(both())
    roles = {
        "openai": ["user", "assistant", "tool", "assistant"],
        "ollama": ["user", "assistant", "tool", "assistant"],
        "anthropic": ["user", "assistant", "user", "assistant"],
        "gemini": ["user", "model", "user", "model"],
    }
    for protocol, expected in roles.items():
        assert [each["role"] for each in result.messages(protocol)] == expected, protocol
    items = result.messages("responses")
    assert [each["type"] for each in items if "type" in each][-1] in ("message", "function_call_output")
    for protocol in (*roles, "responses"):
        text = json.dumps(result.messages(protocol))
        assert ("Look at x." in text, "nothing at x" in text, "Nothing there." in text) == (True, True, True)
        assert "Hello." not in text
    assert result.messages("openai") == ts.expand((*result.task, _answer(result)), "openai_chat")["messages"]
    with pytest.raises(UsageError, match="unknown protocol `morse`"):
        result.messages("morse")


def _answer(result: Any) -> Any:
    from toolspeak.engine.rounds.transcript import Answer

    return Answer(result.content, result.rounds)


# ---- approval


def test_with_auto_calls_with_side_effects_run_without_a_question():
    sent: list[str] = []
    upstream = model(calling(ToolCall("send", {"to": "Ann"})), "Sent.")
    assert run(agent(upstream, sender(sent), approval="auto").run("Send it.")).status == "complete"
    assert sent == ["Ann"]


def test_with_ask_the_function_decides():
    sent: list[str] = []
    upstream = model(calling(ToolCall("send", {"to": "Ann"})), "No.")
    denied = run(agent(upstream, sender(sent), approval="ask", approve=lambda question: False).run("Send it."))
    assert (sent, denied.rounds[0].calls[0].result.error) == ([], True)


def test_with_read_only_the_model_is_offered_only_read_only_tools():
    sent: list[str] = []
    upstream = model(calling(ToolCall("send", {"to": "Ann"})), "I cannot.")
    reading = ts.tool(read_only=True, name="read")(look)
    one = agent(upstream, sender(sent), look, reading, approval="read-only", approve=lambda question: True)
    result = run(one.run("Send it."))
    assert [tool.name for tool in upstream.requests[0].tools] == ["read", "read_more"]
    assert (sent, result.status) == ([], "complete")
