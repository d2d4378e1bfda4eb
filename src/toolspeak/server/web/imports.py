"""Imported requests and answers: what the engine finds in an answer, as the inspector shows it. No model is asked."""

from typing import Literal, get_args

import msgspec

from ...core.parsing.acceptance import Policy
from ...core.types import JSONObject
from ...engine.planning.capabilities import Capabilities
from ...engine.planning.strategy import Settings
from ...engine.turn.trace import Trace
from ...errors import UsageError
from ...key_value import MemoryState
from ...parsing import parse
from ...upstreams.scripted import Scripted, Turn
from ..access.auth import Caller
from ..proxy.client_protocols import client_protocol
from ..proxy.exchange import RequestRecord
from ..proxy.upstream_router import Gateway, UpstreamConfig
from ..recording.entries import RecordingEntry
from ..recording.replay import replay_request
from ..recording.views import detail


class _Imported(msgspec.Struct, frozen=True):
    """A request and its answer: a text, or the `reply`, which is the body of a response."""

    protocol: Literal["openai_chat", "openai_responses", "anthropic", "gemini", "ollama"] = "openai_chat"
    request: JSONObject | None = None
    answer: str = ""
    reply: str = ""


async def inspect(body: JSONObject) -> JSONObject:
    """Return the question, the tools, and by policy what the engine makes of the answer. Raises UsageError."""
    try:
        imported = msgspec.convert(body, _Imported)
    except msgspec.ValidationError as error:
        raise UsageError(f"invalid import: {error}") from None
    fields: JSONObject = {"model": "imported"} if imported.protocol == "gemini" else {}
    sent = msgspec.json.encode(imported.request or _request_for(imported.answer))
    request = client_protocol(imported.protocol).decode(sent, **fields)
    turn = Turn(imported.reply.encode(), protocol=imported.protocol) if imported.reply else Turn(imported.answer)
    record = RequestRecord("imported", imported.protocol, request.model, "", 0, (), "", Trace("", "", ""))
    entry = RecordingEntry(record, body=sent, fields=fields)
    question = next((each.text for each in reversed(request.messages) if each.role == "user"), "")
    views = {
        policy: detail(await replay_request(entry, _gateway(turn, policy), Caller(), {})) for policy in get_args(Policy)
    }
    return {"question": question, "tools": msgspec.to_builtins(request.tools), "views": views}


def _request_for(answer: str) -> JSONObject:
    """Return a request for an answer without one. It offers all tools that the answer names."""
    names = dict.fromkeys(call.name for call in parse(answer, policy="eager").calls)
    tools = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in names]
    return {"model": "imported", "messages": [{"role": "user", "content": ""}], "tools": tools}


def _gateway(turn: Turn, policy: Policy) -> Gateway:
    """Return a gateway whose only model gives this answer."""
    settings = Settings(mode="force", policy=policy, marks="fixed", retries=0)
    about = ("import", "import", "", "openai_chat")
    config = UpstreamConfig(*about, lambda key: Scripted(turn), lambda name: settings, fixed="imported")
    return Gateway([config], Capabilities(), MemoryState(), b"import")
