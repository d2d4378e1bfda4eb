"""What clients of the proxy get from models without tool calling, with default settings.

Models that write calls as they were trained are understood at the first request. An answer is a call or words, never
white space or nothing. Upstreams that demand alternating roles get them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.cases import check_each, size
from tests.server.asgi_client import Answer, ask, run
from tests.server.live_proxy import ANSWER, between, cut_text, reached, service
from tests.server.protocol_clients import SPEAKERS, Chat, Seen, Speaker, sse
from tests.upstreams.loopback_server import Heard, Server, head, serving
from toolspeak.core.events import Event, Finish, TextDelta, UsageSeen
from toolspeak.core.types import Request, ToolCall, Usage
from toolspeak.dialects.registry import DIALECTS, render_calls
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.engine.planning.strategy import Settings
from toolspeak.key_value import MemoryState
from toolspeak.runtime.probe_cache import ProbeStore, ProbeTarget
from toolspeak.runtime.prober import ProbeScheduler
from toolspeak.server.app import App
from toolspeak.server.proxy.upstream_router import Gateway, UpstreamConfig
from toolspeak.upstreams.scripted import calls as native_calls

DEFAULT = Settings()
FACES = [pytest.param(speaker, id=speaker.name) for speaker in SPEAKERS]
STREAM = [pytest.param(True, id="stream"), pytest.param(False, id="whole")]

OSLO = ToolCall("get_weather", {"city": "Oslo", "days": 2})
BERGEN = ToolCall("get_weather", {"city": "Bergen", "days": 3})
#: A result that the arguments of the next call quote, with the same keys.
LISTING = json.dumps([{"city": "Bergen", "days": 3, "country": "Norway"}, {"city": "Rome", "country": "Italy"}])


class Trained:
    """A model that gives these answers in turn, whatever it was asked for; the last one again and again."""

    def __init__(self, *answers: str, piece: int = 7) -> None:
        self.asked: list[Request] = []
        self._answers = answers
        self._piece = piece

    def __call__(self, request: Request) -> list[Event]:
        text = self._answers[min(len(self.asked), len(self._answers) - 1)]
        self.asked.append(request)
        return said(text, self._piece)


def said(text: str, piece: int = 7) -> list[Event]:
    return [*map(TextDelta, cut_text(text, piece)), UsageSeen(Usage(20, 10)), Finish("stop")]


class Round:
    """One request of a client, and what it got."""

    def __init__(self, speaker: Speaker, stream: bool, answer: Answer) -> None:
        assert answer.status == 200, answer.body
        self.answer = answer
        self.seen: Seen = speaker.read(answer.body, stream)
        self.calls = [(name, arguments) for _, name, arguments in self.seen.calls]
        self.blocks = text_blocks(speaker, self.seen, answer.body, stream)
        assert self.seen.ended and not self.seen.error
        assert self.seen.reason == speaker.reasons[0 if self.calls else 1]


def text_blocks(speaker: Speaker, seen: Seen, body: bytes, stream: bool) -> list[str]:
    """Every block of text in an answer, empty ones included where the protocol has blocks."""
    match speaker.name:
        case "anthropic":
            return [block["text"] for block in seen.raw if block["type"] == "text"]
        case "openai_responses":
            events = [json.loads(data) for _, data in sse(body)] if stream else []
            begun = [each["item"] for each in events if each["type"] == "response.output_item.added"]
            items = [item for item in seen.raw if item["type"] == "message"]
            assert not stream or [item["type"] for item in begun] == [item["type"] for item in seen.raw]
            return ["".join(part["text"] for part in item["content"]) for item in items]
        case "gemini" if not stream:
            return [part["text"] for part in seen.raw if "text" in part]
        case _:  # pieces of one text; Gemini's last event and Ollama's messages always hold one, if an empty one
            return [seen.text] if seen.text else []


async def one_round(app: App, speaker: Speaker, stream: bool, body: Mapping[str, Any], **headers: str) -> Round:
    return Round(speaker, stream, await ask(app, "POST", speaker.path(stream), headers, body))


def pair(call: ToolCall) -> tuple[str, Any]:
    return call.name, call.arguments


def label(value: Any) -> str | None:
    return value.name if isinstance(value, Speaker) else None


# ---- calls as models were trained to write them

#: One character at a time, some, and all at once.
PIECES = (1, 7, 1000)
#: Dialect, client, size of the pieces. 0: the answer is not streamed. At small size, clients and pieces take turns.
DIALECT_CASES = [
    (dialect, speaker, piece)
    for at, dialect in enumerate(DIALECTS)
    for speaker in size((SPEAKERS[at % 5],), SPEAKERS)
    for piece in size((PIECES[at % 3], *([0] if at % 3 == 0 else [])), (*PIECES, 0))
]


@check_each(("dialect", "speaker", "piece"), DIALECT_CASES, ids=label)
@pytest.mark.requirement("B3", "G1", "R-E3")
def test_every_dialect_is_understood_at_the_first_request_of_each_round(dialect: str, speaker: Speaker, piece: int):
    async def talk() -> None:
        stream = bool(piece)
        model = Trained(*(render_calls(dialect, [call]) for call in (OSLO, BERGEN)), ANSWER, piece=piece or 7)
        async with between(model, "openai_chat", DEFAULT) as (app, server):
            body = speaker.ask(stream)
            for expected in (OSLO, BERGEN):
                each = await one_round(app, speaker, stream, body)
                assert (each.calls, each.blocks) == ([pair(expected)], [])
                body = speaker.tell(body, each.seen, {"get_weather": LISTING})
            last = await one_round(app, speaker, stream, body)
            assert (last.calls, last.blocks) == ([], [ANSWER])
            assert len(model.asked) == 3
            assert not any(heard.json.keys() & {"tools", "tool_choice"} for heard in server.heard)

    run(talk())


@check_each(("dialect", "speaker", "piece"), DIALECT_CASES, ids=label)
@pytest.mark.requirement("R-E4")
def test_a_call_that_repeats_a_tool_result_is_not_made(dialect: str, speaker: Speaker, piece: int):
    async def talk() -> None:
        stream, echo = bool(piece), render_calls(dialect, [BERGEN])
        model = Trained(render_calls(dialect, [OSLO]), echo, piece=piece or 7)
        async with between(model, "openai_chat", DEFAULT) as (app, _):
            body = speaker.ask(stream)
            first = await one_round(app, speaker, stream, body)
            assert first.calls == [pair(OSLO)]
            body = speaker.tell(body, first.seen, {"get_weather": f"A page says:\n\n{echo}\n\nThat is all."})
            second = await one_round(app, speaker, stream, body)
        assert (second.calls, len(model.asked)) == ([], 2)
        assert second.seen.text.strip()

    run(talk())


# ---- arguments that never fit

WRONG = render_calls("action", [ToolCall("get_weather", {"city": "Oslo", "days": "soon"})])
COMPLAINT = "`days` must be integer, not string"
EXPLAIN = re.compile(r"`toolspeak explain ([0-9a-f]{32})`")
#: How a call begins in each protocol.
CALL_MARKS = (b'"tool_calls"', b'"function_call"', b'"tool_use"', b'"functionCall"')


async def recorded(app: App, identifier: str) -> Any:
    found = await ask(app, "GET", f"/toolspeak/requests/{identifier}")
    assert found.status == 200, found.body
    return found.json


@check_each("stream", STREAM)
@check_each("speaker", FACES)
@check_each("own_id", ["", "my-own-id"])
@pytest.mark.requirement("E2", "E3", "H6")
def test_arguments_that_never_fit_end_in_words_that_name_the_request(speaker: Speaker, stream: bool, own_id: str):
    async def talk() -> None:
        model = Trained(WRONG)
        headers = {"x-request-id": own_id} if own_id else {}
        async with between(model, "openai_chat", DEFAULT) as (app, _):
            only = await one_round(app, speaker, stream, speaker.ask(stream), **headers)
            (words,) = only.blocks
            (identifier,) = EXPLAIN.findall(words)
            record = await recorded(app, identifier)
        assert only.calls == []
        assert words.startswith("The model tried to call `get_weather`, but its arguments do not fit the tool.")
        assert not [mark for mark in CALL_MARKS if mark in only.answer.body]
        assert only.answer.header("x-request-id") == (own_id or identifier)
        assert json.loads(only.answer.header("x-toolspeak"))["id"] == record["id"] == identifier
        assert [COMPLAINT in request.messages[-1].text for request in model.asked] == [False, True, True]

    run(talk())


@check_each("stream", STREAM)
@pytest.mark.requirement("A10", "H6")
def test_a_call_that_was_demanded_in_vain_is_an_error_that_names_the_request(stream: bool):
    async def talk() -> None:
        async with between(Trained("No."), "openai_chat", DEFAULT) as (app, _):
            body = {**Chat().ask(stream), "tool_choice": "required"}
            answer = await ask(app, "POST", Chat().path(stream), {}, body)
            (identifier,) = EXPLAIN.findall(answer.message)
            assert (answer.status, (await recorded(app, identifier))["status"]) == (502, 502)
            assert "trace()" not in answer.message

    run(talk())


@check_each("stream", STREAM)
@check_each("speaker", FACES)
@pytest.mark.requirement("E2")
def test_arguments_that_the_model_puts_right_are_a_call_and_nothing_else(speaker: Speaker, stream: bool):
    async def talk() -> None:
        model = Trained(WRONG, render_calls("action", [OSLO]))
        async with between(model, "openai_chat", DEFAULT) as (app, _):
            only = await one_round(app, speaker, stream, speaker.ask(stream))
        assert (only.calls, only.blocks, len(model.asked)) == ([pair(OSLO)], [], 2)

    run(talk())


# ---- white space beside calls

FENCES = [render_calls("action", [call]) for call in (OSLO, BERGEN)]


@check_each("stream", STREAM)
@check_each("speaker", FACES)
@check_each(
    ("answer", "blocks"),
    [
        ("\n\n".join(["", *FENCES, ""]), []),
        ("\n \n\t\n".join(["", *FENCES, ""]), []),
        ("\n".join(FENCES), []),
        ("\n\n".join(["I look it up.", *FENCES, "", ""]), ["I look it up."]),
        ("\n\n".join(["", "I look it up.", FENCES[0], "", FENCES[1]]), ["I look it up."]),
    ],
)
@pytest.mark.requirement("G3")
def test_white_space_beside_calls_reaches_no_client(answer: str, blocks: list[str], speaker: Speaker, stream: bool):
    async def talk() -> None:
        model = Trained(answer)
        async with between(model, "openai_chat", DEFAULT) as (app, _):
            only = await one_round(app, speaker, stream, speaker.ask(stream))
        assert only.calls == [pair(OSLO), pair(BERGEN)]
        assert ([block.strip() for block in only.blocks], len(model.asked)) == (blocks, 1)

    run(talk())


# ---- upstreams that demand alternating roles

GEMMA = "Conversation roles must alternate user/assistant/user/assistant/..."
MISTRAL = "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."
#: How servers refuse: the status, and the body as it comes.
REFUSALS: dict[str, tuple[str, Any]] = {
    "gemma": ("400 Bad Request", {"error": {"message": GEMMA, "type": "BadRequestError", "code": 400}}),
    "mistral": ("400 Bad Request", {"object": "error", "message": MISTRAL, "type": "BadRequestError", "code": 400}),
    "llama.cpp": (
        "500 Internal Server Error",
        {"error": {"code": 500, "message": f"Jinja Exception: {GEMMA}", "type": "server_error"}},
    ),
}
#: Refusal, streamed or not, user messages in a row.
ALTERNATION_CASES = size(
    [("gemma", True, 2), ("mistral", False, 2), ("llama.cpp", True, 2)],
    [(refusal, stream, neighbours) for refusal in REFUSALS for stream in (True, False) for neighbours in (1, 2)],
)
#: The settings that choose a plan, and what is known of the model.
PLANS: dict[str, tuple[Settings, dict[str, Any]]] = {
    "inline": (DEFAULT, {"capability": "none"}),
    "decision": (Settings(plan="decision"), {"capability": "none"}),
    "envelope": (Settings(plan="envelope"), {"capability": "none", "constraint": "json_schema"}),
    "native": (DEFAULT, {"capability": "openai"}),
    "fallback": (Settings(mode="fallback"), {"capability": "openai"}),
}
#: Upstream requests for a call and for an answer in words, where that is not one each.
REQUESTS = {"decision": (1, 2), "fallback": (1, 3)}
TURNS = 7


def alternates(body: Mapping[str, Any]) -> bool:
    """Whether the template of a model takes these messages: user and assistant in turn after one system message.

    With tools, calls and results do not count, as in Mistral's template. Without, they are unknown, as in Gemma's.
    """
    roles: list[str] = [
        "call" if "tools" in body and message.get("tool_calls") else message["role"] for message in body["messages"]
    ]
    roles = roles[1:] if roles[0] == "system" else roles
    counted = [role for role in roles if role not in ("call", "tool")] if "tools" in body else roles
    return counted == (["user", "assistant"] * len(counted))[: len(counted)]


class Strict:
    """A server whose chat template demands alternating roles. Its model calls a tool if it is told to."""

    def __init__(self, plan: str, refusal: str) -> None:
        self._plan = plan
        self._refusal = refusal
        self._answer = service("openai_chat", self._reply)
        self.calls = True
        self.accepted: list[Any] = []
        self.refused: list[Any] = []

    @property
    def requests(self) -> int:
        return len(self.accepted) + len(self.refused)

    async def __call__(self, heard: Heard) -> None:
        if alternates(heard.json):
            self.accepted.append(heard.json)
            await self._answer(heard)
            return
        self.refused.append(heard.json)
        status, error = REFUSALS[self._refusal]
        body = json.dumps(error).encode()
        headers = ("content-type: application/json", f"content-length: {len(body)}")
        await heard.send(head(*headers, status=status), body)

    def _reply(self, request: Request) -> Sequence[Event]:
        if request.tools:
            call = [*native_calls(OSLO), UsageSeen(Usage(20, 10)), Finish("tool_calls")]
            return call if self.calls else said(ANSWER)
        words = "\n".join(message.text for message in request.messages)
        forms = {"inline": "action", "fallback": "decision"}
        form = forms.get(self._plan, self._plan)
        if form == "decision" and '"tools"' not in words:  # the answer after the decision
            return said(ANSWER)
        empty = {"decision": '{"tools":[]}', "envelope": json.dumps({"calls": [], "reply": ANSWER})}
        return said(render_calls(form, [OSLO]) if self.calls else empty.get(form, ANSWER))


class StrictProxy:
    """A proxy to a strict server, and what it knows and learns of the model."""

    def __init__(self, server: Server, plan: str) -> None:
        settings, profile = PLANS[plan]
        upstream = reached(server, "openai_chat")
        self._url = upstream.base_url
        self._known = Capabilities()
        self._known.override_model("m", profile)
        line = UpstreamConfig(
            "strict", "", self._url, "openai_chat", lambda own: upstream, lambda model: settings, models=("m",)
        )
        self._probes = ProbeScheduler(self._known, ProbeStore(MemoryState()))
        self.app = App(Gateway([line], self._known, MemoryState(), b"a secret", probes=self._probes))

    @property
    def refused(self) -> dict[str, Any]:
        """What the server has rejected, as profile fields."""
        uses = self._probes.learning.use_of(ProbeTarget("", "m", self._url)).tenants.values()
        return {name: value for use in uses for name, value in use.refused.items()}


async def seven_turns(app: App, strict: Strict, stream: bool, neighbours: int) -> list[int]:
    """Ask seven questions, each in so many messages. Each is answered by a call, and its result by words.

    Returns how many upstream requests each request of the client took.
    """
    speaker, counts = Chat(), list[int]()
    body = {**speaker.ask(stream), "messages": [{"role": "system", "content": "Be brief."}]}

    async def answer(*messages: dict[str, Any], calls: bool) -> Round:
        body["messages"] = [*body["messages"], *messages]
        before = strict.requests
        strict.calls = calls
        each = await one_round(app, speaker, stream, body)
        counts.append(strict.requests - before)
        return each

    for turn in range(TURNS):
        asked = [{"role": "user", "content": f"Question {turn}.{at}"} for at in range(neighbours)]
        called = await answer(*asked, calls=True)
        assert (called.calls, called.blocks) == ([pair(OSLO)], [])
        body = speaker.tell(body, called.seen, {"get_weather": f"Windy on day {turn}."})
        answered = await answer(calls=False)
        assert (answered.calls, answered.blocks) == ([], [ANSWER])
        body["messages"].append({"role": "assistant", "content": ANSWER})
    return counts


@check_each("plan", PLANS)
@check_each(("refusal", "stream", "neighbours"), ALTERNATION_CASES)
@pytest.mark.requirement("R-F47", "D5")
def test_seven_turns_work_where_roles_must_alternate(plan: str, refusal: str, stream: bool, neighbours: int):
    async def talk() -> None:
        strict = Strict(plan, refusal)
        async with serving(strict) as server:
            proxy = StrictProxy(server, plan)
            first, *others = await seven_turns(proxy.app, strict, stream, neighbours)
            await proxy.app.close()
        # The plans that teach tools in the prompt alternate at once. The others learn it from the first refusal.
        learns = plan in ("native", "fallback") and neighbours > 1
        assert (bool(strict.refused), "alternates" in proxy.refused) == (learns, learns)
        assert first == 1 + len(strict.refused)
        to_call, to_answer = REQUESTS.get(plan, (1, 1))
        assert [to_call, *others] == [to_call, to_answer] * TURNS
        assert "system_role" not in proxy.refused
        asked = json.dumps(strict.accepted[-1])
        assert all(f"Question {turn}.{at}" in asked for turn in range(TURNS) for at in range(neighbours))

    run(talk())
