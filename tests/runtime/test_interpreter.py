"""The interpreter's model: created when it is needed, asked beside the upstream, and never the reason that a turn fails."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

import toolspeak as ts
from tests.agent_helpers import run
from tests.cases import check_each, only_at_full_size
from tests.server.asgi_client import line
from toolspeak import AsyncAgent, AsyncClient, Scripted, Tool
from toolspeak.agent.events import AgentResult
from toolspeak.config import load
from toolspeak.core.events import Event
from toolspeak.core.types import JSONObject, Request
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.engine.planning.strategy import Settings
from toolspeak.engine.rounds.transcript import AnswerStatus
from toolspeak.engine.turn.actions import INTERPRETED
from toolspeak.engine.turn.trace import TracedReply
from toolspeak.errors import ConfigError, UpstreamError
from toolspeak.key_value import MemoryState
from toolspeak.runtime import turn as turn_module
from toolspeak.runtime.model_resolution import InterpreterModel, ResolvedModel, resolve_interpreter
from toolspeak.runtime.probe_cache import ProbeStore
from toolspeak.runtime.prober import ProbeScheduler
from toolspeak.runtime.turn_factory import TurnFactory
from toolspeak.server.proxy.upstream_router import Gateway
from toolspeak.tools.approval import Approval, Question
from toolspeak.tools.base import CallContext, ToolOutput

DESCRIBED = "I will now call send_message with the text hello."
SEND: JSONObject = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
SETTINGS = Settings(mode="force", interpreter="embedded", retries=0)


def interpreting(request: Request) -> str:
    """Answer as the embedded model does."""
    assert request.options.frame is not None
    nonce = re.search(r'"nonce": ?"(\w+)"', request.options.frame.begin)
    assert nonce is not None
    call = '{"name":"send_message","arguments":{"text":"hello"}}'
    return f'{{"nonce":"{nonce[1]}","calls":[{call}],"reply":""}}'


class Model:
    """A client of a scripted model, with a scripted interpreter."""

    def __init__(self, *script: Any, interpreter: Any = interpreting, settings: Settings = SETTINGS) -> None:
        self.small = Small(interpreter)
        self.upstream = Scripted(*script)
        self.resolved = 0
        known = Capabilities()
        model = ResolvedModel("one", "m", "http://one.test", "openai_chat", self.upstream)
        store = MemoryState()
        interpreter = InterpreterModel(self._resolve, known)
        turns = TurnFactory(model, known, store, b"secret", interpreter=interpreter)
        self.client = AsyncClient.over(turns, settings, ProbeScheduler(known, ProbeStore(store)), interpreter.close)

    def _resolve(self) -> ResolvedModel:
        self.resolved += 1
        return ResolvedModel("embedded", "smollm2-135m", "", "openai_chat", self.small)

    async def reply(self, **more: Any) -> ts.Reply:
        return await self.client.chat("Say hello.", [Tool("send_message", parameters=SEND)], **more)


class Small(Scripted):
    """The interpreter's upstream."""

    def __init__(self, script: Any) -> None:
        super().__init__(script, again=True, provider="embedded")
        self.closed = False

    async def close(self) -> None:
        self.closed = True


@pytest.mark.requirement("E6")
def test_a_described_call_is_asked_of_the_interpreter_and_not_of_the_upstream():
    model = Model(DESCRIBED, DESCRIBED)

    async def main() -> None:
        for _ in range(2):
            reply = await model.reply()
            assert [call.arguments for call in reply.calls] == [{"text": "hello"}]
            assert INTERPRETED in reply.warnings and reply.requests == 1
        await model.client.close()

    run(main())
    assert (len(model.upstream.requests), len(model.small.requests), model.resolved) == (2, 2, 1)
    # The same tools have the same nonce, so that the prompt stays in the cache.
    assert model.small.requests[0].messages == model.small.requests[1].messages
    assert model.small.closed


def test_nothing_is_created_if_the_setting_is_off_or_no_tool_is_offered():
    off = Model(DESCRIBED, settings=Settings(mode="force", retries=0))
    assert run(off.reply()).calls == ()
    without = Model(DESCRIBED)
    assert run(without.client.chat("Say hello.")).text == DESCRIBED
    assert off.resolved == without.resolved == 0


async def endless() -> AsyncIterator[Sequence[Event]]:
    await asyncio.Event().wait()
    yield []


@pytest.mark.requirement("E6")
@check_each(
    ("script", "reason"),
    [
        (ConfigError("xllamacpp is not installed"), "xllamacpp is not installed"),
        (UpstreamError("the model did not start"), "the model did not start"),
        (OSError("no space left"), "no space left"),
        (endless, "took longer than 0.2 seconds"),
    ],
)
def test_an_interpreter_that_fails_is_noted_and_the_turn_goes_on(
    script: Any, reason: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(turn_module, "INTERPRETER_SECONDS", 0.2)
    reply = run(Model(DESCRIBED, interpreter=(lambda _: script()) if script is endless else script).reply())
    assert (reply.text, reply.calls, reply.failure) == (DESCRIBED, (), None)
    (note,) = [note for note in reply.notes if note.code == "interpretation_failed"]
    assert reason in note.detail


@pytest.mark.requirement("E6")
def test_an_interpreter_that_never_answers_leaves_the_turn_half_of_its_time():
    model = Model(DESCRIBED, interpreter=lambda _: endless())
    reply = run(model.client.chat("Hi", [Tool("send_message", parameters=SEND)], timeout=0.5))
    assert reply.text == DESCRIBED
    (note,) = [note for note in reply.notes if note.code == "interpretation_failed"]
    assert "took longer than 0.2" in note.detail


def test_its_time_is_not_that_of_the_upstream(monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def slow(request: Request) -> str:
        now[0] += 100
        return interpreting(request)

    stream = Model(DESCRIBED, interpreter=slow).client.stream("Hi", [Tool("send_message", parameters=SEND)])

    async def main() -> None:
        async for _ in stream.batches():
            pass

    run(main())
    assert stream.reply.calls and stream.turn.upstream_seconds == 0


def test_a_configuration_that_cannot_work_is_told_when_the_server_starts():
    config, known = load({"adapter": "/nowhere.gguf"}), Capabilities()

    async def main(settings: Settings) -> None:
        interpreter = InterpreterModel(lambda: resolve_interpreter(config), known)
        one = line("one", Scripted(), settings=lambda _: settings)
        gateway = Gateway([one], known, MemoryState(), b"secret", interpreter=interpreter)
        gateway.start()
        await gateway.close()

    run(main(Settings()))
    with pytest.raises(ConfigError, match="nowhere"):
        run(main(SETTINGS))


@pytest.mark.requirement("E6")
@check_each(("settings", "started"), [(SETTINGS, 1), (Settings(), 0)])
def test_a_server_starts_the_interpreter_and_closes_it(settings: Settings, started: int):
    class Started(Small):
        starts = 0

        async def start(self) -> None:
            self.starts += 1

    small, known = Started(interpreting), Capabilities()

    async def main() -> None:
        interpreter = InterpreterModel(
            lambda: ResolvedModel("embedded", "smollm2-135m", "", "openai_chat", small), known
        )
        one = line("one", Scripted(), settings=lambda _: settings)
        gateway = Gateway([one], known, MemoryState(), b"secret", interpreter=interpreter)
        gateway.start()
        await asyncio.sleep(0)
        await gateway.close()

    run(main())
    assert (small.starts, small.closed) == (started, bool(started))


# ---- consent


class Send:
    """A tool that sends messages."""

    def __init__(self, side_effects: bool = True) -> None:
        self.tool = Tool("send_message", parameters=SEND, side_effects=side_effects)
        self.runs = 0

    async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
        self.runs += 1
        return ToolOutput("sent")


def ran(tool: Send, **more: Any) -> AgentResult:
    async def main() -> AgentResult:
        return await AsyncAgent(Model(DESCRIBED, "Done.").client, [tool], **more).run("Say hello.")

    return run(main())


@pytest.mark.requirement("E6")
@check_each(
    "approval",
    [{}, {"approval": "auto"}, {"approve": Approval(allow=["send_message"])}, {"approve": Approval(yes=True)}],
)
def test_an_interpreted_call_with_side_effects_is_refused_if_nobody_can_be_asked(approval: dict[str, Any]):
    tool = Send()
    result = ran(tool, **approval)
    record = result.rounds[0].calls[0]
    assert tool.runs == 0 and record.result is not None and record.result.error
    assert "another model read it" in record.result.content and "no one can approve it" in record.result.content
    status: AnswerStatus = "complete"
    assert result.status == status


@pytest.mark.requirement("E6")
@check_each("answer", [True, False])
def test_a_person_is_asked_although_the_tool_is_allowed(answer: bool):
    tool, asked = Send(), list[Question]()

    def ask(question: Question) -> bool:
        asked.append(question)
        return answer

    ran(tool, approve=Approval(ask, allow=["send_message"]))
    assert (tool.runs, len(asked)) == (int(answer), 1)
    assert "another model read it" in asked[0].reason


def test_an_interpreted_call_without_side_effects_just_runs():
    tool = Send(side_effects=False)
    ran(tool)
    assert tool.runs == 1


# ---- the embedded model itself


@pytest.mark.requirement("E6")
@pytest.mark.usefixtures("weights")
@only_at_full_size
def test_the_embedded_model_interprets():
    def model(_: object) -> str:
        return "<<get_weather>> city -> Bergen, days -> 3"

    properties: JSONObject = {"city": {"type": "string"}, "days": {"type": "integer"}}
    tool = Tool("get_weather", "The weather in a city.", {"type": "object", "properties": properties})

    async def main() -> TracedReply:
        async with AsyncClient(model, mode="force", interpreter="embedded", retries=0) as client:
            return await client.chat("How will it be in Bergen?", [tool])

    reply = asyncio.run(main())
    assert any(attempt.phase == "interpretation" and attempt.raw for attempt in reply.trace().attempts)
    assert all(call.arguments.get("city", "Bergen") == "Bergen" for call in reply.calls)
