"""What a client knows beyond one request: how callers write requests, tools and answers of earlier turns.

A later turn may bring a tool's result without listing the tools again; they are then remembered, or made up
from the calls in the history.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from math import isfinite
from typing import TypeVar

import msgspec

from ..core.types import JSONObject, JSONValue, Message, Note, Options, Request, TextPart, Tool, ToolChoice, tools_from
from ..engine.planning.strategy import Settings
from ..engine.prompting.past_tools import has_tool_history, tools_of_history
from ..errors import UsageError
from ..key_value import SharedState, State
from ..protocols import openai_chat
from ..protocols.shared.fields import ROUTING_FIELDS
from ..protocols.shared.tools_cache import kept_tools

#: How long the tools of a call are remembered: a working day and the night behind it.
_REMEMBERED = 24 * 3600.0
#: Stands in the request for a message that need not be decoded.
_PLACE: JSONObject = {"role": "user", "content": ""}
#: Fields of chat completions that are kept as they are, and those of them that other protocols have as well.
_CHAT_WORDS = frozenset(
    "audio frequency_penalty function_call functions legacy logit_bias logprobs max_completion_tokens metadata"
    " modalities moderation parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_retention"
    " reasoning_effort response_format safety_identifier service_tier store stream_options tool_choice top_logprobs"
    " user verbosity web_search_options".split()
)
_SHARED: dict[str, frozenset[str]] = {
    "anthropic": frozenset({"metadata", "service_tier"}),
    "gemini": frozenset(),
    "ollama": frozenset({"logprobs", "top_logprobs"}),
    "openai_responses": frozenset(
        "metadata prompt_cache_key prompt_cache_retention safety_identifier service_tier store top_logprobs"
        " user".split()
    ),
}
_TOOLS = msgspec.json.Decoder(tuple[Tool, ...])
T = TypeVar("T")


def request_of(
    model: str,
    messages: Iterable[Message | Mapping[str, JSONValue]] | str,
    tools: Iterable[Tool | Mapping[str, JSONValue] | type] | None,
    choice: ToolChoice | str | Mapping[str, JSONValue] | None,
    stream: bool,
    fields: Mapping[str, JSONValue],
    protocol: str = openai_chat.PROTOCOL,
) -> Request:
    """A request from what a caller gives: plain dicts in OpenAI's shape, toolspeak values, or both mixed.

    `protocol` is what the upstream speaks: a field that chat completions do not know is one of its own.
    """
    if isinstance(messages, str):
        messages = (Message("user", (TextPart(messages),)),)
    listed = _listed(messages, "messages")
    if not listed:
        raise UsageError("`messages` is empty", hint='pass at least [{"role": "user", "content": "..."}]')
    body: dict[str, JSONValue] = {key: value for key, value in fields.items() if value is not None}
    for key, value in body.items():
        if isinstance(value, float) and not isfinite(value):
            raise UsageError(f"`{key}` must be a number that JSON has a word for, not {value}")
    plain = [_PLACE if isinstance(message, Message) else message for message in listed]
    body |= {"model": model or "model", "messages": plain, "stream": stream}
    if choice is not None and not isinstance(choice, ToolChoice):
        body["tool_choice"] = choice
    decoded = openai_chat.decode_request(body)
    pairs = zip(listed, decoded.messages, strict=True)
    request = msgspec.structs.replace(
        decoded,
        options=_with_own(decoded.options, protocol),
        messages=tuple(given if isinstance(given, Message) else read for given, read in pairs),
        tools=_tools(tools),
    )
    return msgspec.structs.replace(request, tool_choice=choice) if isinstance(choice, ToolChoice) else request


def _with_own(options: Options, protocol: str) -> Options:
    """The options with the fields that only the upstream's protocol knows apart from the others."""
    shared = _SHARED.get(protocol)
    if shared is None or not options.extra:
        return options
    foreign = _CHAT_WORDS - shared | ROUTING_FIELDS
    own = {key: value for key, value in options.extra.items() if key not in foreign}
    extra = {key: value for key, value in options.extra.items() if key in foreign}
    return msgspec.structs.replace(options, extra=extra, own=own)


@kept_tools
def _declared(tools: JSONValue) -> tuple[Tool, ...]:
    try:
        msgspec.json.encode(tools)
    except (TypeError, OverflowError):  # such as texts that are members of an enum, or of a class of their own
        with suppress(TypeError, ValueError, RecursionError):
            tools = json.loads(json.dumps(tools))
    return tools_from(tools) or ()


def _tools(tools: Iterable[Tool | Mapping[str, JSONValue] | type] | None) -> tuple[Tool, ...]:
    if not tools or isinstance(tools, tuple):
        return tools_from(tools) or ()
    return _declared(_listed(tools, "tools"))


def _listed(values: Iterable[T], what: str) -> list[T]:
    if isinstance(values, str | bytes | Mapping | Message | Tool):
        raise UsageError(f"`{what}` must be a list of {what}", hint="wrap a single one in a list")
    if not isinstance(values, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"`{what}` must be a list, not a `{type(values).__name__}`")
    return list(values)


class Conversation:
    """The tools of earlier turns, and parts of answers; those of one tenant are nothing to another."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._shared = state if isinstance(state, SharedState) else None
        self._last: tuple[tuple[Tool, ...], str] | None = None

    @property
    def is_shared(self) -> bool:
        """Whether many processes share this memory, so that what is needed must be fetched first."""
        return self._shared is not None

    async def warm(self, tenant: str, messages: Iterable[Message] = (), items: Iterable[str] = ()) -> None:
        """Have what belongs to these messages and names at hand, where many processes share one memory."""
        if self._shared is not None:
            keys = _keys_of_results(tenant, messages)
            await self._shared.warm((*keys, *(_item_key(tenant, name) for name in items)))

    async def settle(self) -> None:
        """Wait until every process can go on with what was kept."""
        if self._shared is not None:
            await self._shared.settle()

    def remember(self, tenant: str, request: Request, call_ids: Iterable[str]) -> None:
        """Keep the tools of the calls that have just been made."""
        ids = tuple(call_ids)
        if not ids:
            return
        said = _Said()
        for message in request.messages:
            said.add(message)
        for call_id in ids:
            self._state.put(said.key(tenant, call_id), self._written(request.tools), _REMEMBERED)

    def _written(self, tools: tuple[Tool, ...]) -> str:
        """Tools as they are kept. Agents call with the same ones again and again."""
        if self._last is None or tools is not self._last[0]:
            self._last = (tools, msgspec.json.encode(tools).decode())
        return self._last[1]

    def recall(self, tenant: str, request: Request, settings: Settings) -> tuple[Request, tuple[Note, ...]]:
        """The request with the tools that it no longer lists, where they are wanted."""
        if request.tools or not _wanted(request, settings):
            return request, ()
        tools = self._remembered(tenant, request)
        note = Note("tools_recalled", f"{len(tools)} tools of an earlier turn")
        if not tools:
            tools = tools_of_history(request.messages)
            note = Note("tools_guessed", f"{len(tools)} tools were made up from the calls in the history")
        return (msgspec.structs.replace(request, tools=tools), (note,)) if tools else (request, ())

    def keep_item(self, tenant: str, name: str, item: JSONObject) -> None:
        """Keep a part of an answer under its name."""
        self._state.put(_item_key(tenant, name), item, _REMEMBERED)

    async def forget_items(self, tenant: str, names: Iterable[str]) -> None:
        """Keep these no more."""
        for name in names:
            key = _item_key(tenant, name)
            if self._shared is None:
                self._state.delete(key)
            else:  # which waits for a database
                await asyncio.to_thread(self._state.delete, key)

    async def renew(self, tenant: str, items: Iterable[str]) -> None:
        """Have these at hand as they are now, where another process may have deleted one."""
        if self._shared is not None:
            await self._shared.renew(_item_key(tenant, name) for name in items)

    def item(self, tenant: str, name: str) -> JSONObject | None:
        """The part of an earlier answer that has this name."""
        return self._state.get(_item_key(tenant, name))

    def _remembered(self, tenant: str, request: Request) -> tuple[Tool, ...]:
        for key in reversed(_keys_of_results(tenant, request.messages)):
            kept = self._state.get(key)
            if isinstance(kept, str):
                return _TOOLS.decode(kept)
        return ()


class _Said:
    """What users have said so far: it tells a conversation from others whose calls have the same ids."""

    def __init__(self) -> None:
        self._digest = blake2b(digest_size=16)

    def add(self, message: Message) -> None:
        """A message of the conversation; only what clients write and repeat is counted."""
        if message.role == "user" and (text := message.text):
            data = text.encode("utf-8", "surrogatepass")
            # With its length before it, so that no two conversations look alike, whatever stands in them.
            self._digest.update(len(data).to_bytes(8, "big") + data)

    def key(self, tenant: str, call_id: str) -> str:
        """Where the tools of a call that is made now are kept."""
        return f"tools/{tenant}/{self._digest.hexdigest()}/{call_id}"


def _keys_of_results(tenant: str, messages: Iterable[Message]) -> list[str]:
    """Where the tools of the calls are kept that these messages hold results of."""
    said, made, keys = _Said(), dict[str, str](), list[str]()
    for message in messages:
        made |= {call.id: said.key(tenant, call.id) for call in message.calls}
        # A client may have left out the call: nothing is said between it and its result.
        keys += [made.get(result.id) or said.key(tenant, result.id) for result in message.results]
        said.add(message)
    return keys


def _item_key(tenant: str, name: str) -> str:
    return f"items/{tenant}/{name}"


def _wanted(request: Request, settings: Settings) -> bool:
    """Whether calls may be offered again to a request that lists no tools."""
    if settings.chat_only or request.tool_choice.mode == "none" or not has_tool_history(request.messages):
        return False
    match settings.sticky_tools:
        case "never":
            return False
        case "always":
            return True
        case "results":
            return bool(request.messages[-1].results)
