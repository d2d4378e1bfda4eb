"""Builds requests from the caller's arguments, and remembers the tools and items of earlier turns.

A client may send a tool result without listing the tools again. The tools are then recalled, or reconstructed from the
calls in the history.
"""

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
from ..engine.prompting.tool_use_detection import has_tool_history, tools_of_history
from ..errors import UsageError
from ..key_value import SharedState, State
from ..protocols import openai_chat
from ..protocols.openai_chat.messages import decode_messages
from ..protocols.shared.fields import ROUTING_FIELDS
from ..protocols.shared.resent_values import cached_tools

#: Seconds for which to remember tools: enough to continue a conversation the next morning.
_RETENTION_SECONDS = 24 * 3600.0
#: Stands in for a message that is already decoded.
_PLACEHOLDER: JSONObject = {"role": "user", "content": ""}
#: Fields of OpenAI chat completions that are forwarded unchanged.
_CHAT_FIELDS = frozenset(
    "audio frequency_penalty function_call functions legacy logit_bias logprobs max_completion_tokens metadata"
    " modalities moderation parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_retention"
    " reasoning_effort response_format safety_identifier service_tier store stream_options tool_choice top_logprobs"
    " user verbosity web_search_options".split()
)
#: Chat completions fields that other protocols also have, by protocol.
_SHARED_FIELDS: dict[str, frozenset[str]] = {
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


def build_request(
    model: str,
    messages: Iterable[Message | Mapping[str, JSONValue]] | str,
    tools: Iterable[Tool | Mapping[str, JSONValue] | type] | None,
    choice: ToolChoice | str | Mapping[str, JSONValue] | None,
    stream: bool,
    fields: Mapping[str, JSONValue],
    protocol: str = openai_chat.PROTOCOL,
) -> Request:
    """Build a request from plain dicts in OpenAI's format, toolspeak values, or a mix of both.

    `protocol` is the upstream's protocol. Fields that are unknown in chat completions are assumed to belong to it.
    """
    if isinstance(messages, str):
        messages = (Message("user", (TextPart(messages),)),)
    message_list = _as_list(messages, "messages")
    if not message_list:
        raise UsageError("`messages` is empty", hint='pass at least [{"role": "user", "content": "..."}]')
    body: dict[str, JSONValue] = {key: value for key, value in fields.items() if value is not None}
    for key, value in body.items():
        if isinstance(value, float) and not isfinite(value):
            raise UsageError(f"`{key}` must be a finite number, not {value}")
    plain = [_PLACEHOLDER if isinstance(message, Message) else message for message in message_list]
    if choice is not None and not isinstance(choice, ToolChoice):
        body["tool_choice"] = choice
    if body:
        body |= {"model": model or "model", "messages": plain, "stream": stream}
        decoded = openai_chat.decode_request(body)
    else:  # only the messages need decoding
        messages = decode_messages(plain, "messages")
        decoded = Request(model or "model", messages, stream=stream, protocol=openai_chat.PROTOCOL)
    pairs = zip(message_list, decoded.messages, strict=True)
    return msgspec.structs.replace(
        decoded,
        options=_with_own(decoded.options, protocol),
        messages=tuple(original if isinstance(original, Message) else plain for original, plain in pairs),
        tools=_tools(tools),
        tool_choice=choice if isinstance(choice, ToolChoice) else decoded.tool_choice,
    )


def _with_own(options: Options, protocol: str) -> Options:
    """Separate the fields of the upstream's protocol from those of chat completions."""
    shared = _SHARED_FIELDS.get(protocol)
    if shared is None or not options.extra:
        return options
    foreign = _CHAT_FIELDS - shared | ROUTING_FIELDS
    own = {key: value for key, value in options.extra.items() if key not in foreign}
    extra = {key: value for key, value in options.extra.items() if key in foreign}
    return msgspec.structs.replace(options, extra=extra, own=own)


@cached_tools
def _declared(tools: JSONValue) -> tuple[Tool, ...]:
    try:
        msgspec.json.encode(tools)
    except (TypeError, OverflowError):  # for example string enums or other subclasses of str
        with suppress(TypeError, ValueError, RecursionError):
            tools = json.loads(json.dumps(tools))
    return tools_from(tools) or ()


def _tools(tools: Iterable[Tool | Mapping[str, JSONValue] | type] | None) -> tuple[Tool, ...]:
    if not tools or isinstance(tools, tuple):
        return tools_from(tools) or ()
    return _declared(_as_list(tools, "tools"))


def _as_list(values: Iterable[T], what: str) -> list[T]:
    if isinstance(values, str | bytes | Mapping | Message | Tool):
        raise UsageError(f"`{what}` must be a list of {what}", hint="wrap a single value in a list")
    if not isinstance(values, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"`{what}` must be a list, not a `{type(values).__name__}`")
    return list(values)


class ToolMemory:
    """Remembers the tools and items of earlier turns, separately for each tenant."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._shared = state if isinstance(state, SharedState) else None
        self._last: tuple[tuple[Tool, ...], str] | None = None

    @property
    def is_shared(self) -> bool:
        """Whether several processes share this memory. Entries must then be fetched with `warm` first."""
        return self._shared is not None

    async def warm(self, tenant: str, messages: Iterable[Message] = (), items: Iterable[str] = ()) -> None:
        """Fetch the entries for these messages and items, if the memory is shared."""
        if self._shared is not None:
            keys = _result_keys(tenant, messages)
            await self._shared.warm((*keys, *(_item_key(tenant, name) for name in items)))

    async def settle(self) -> None:
        """Wait until all stored entries are visible to every process."""
        if self._shared is not None:
            await self._shared.settle()

    def remember(self, tenant: str, request: Request, call_ids: Iterable[str]) -> None:
        ids = tuple(call_ids)
        if not ids:
            return
        digest = _UserTextDigest()
        for message in request.messages:
            if message.role == "user":
                digest.add(message)
        prefix, tools = digest.key(tenant, ""), self._encode_tools(request.tools)
        for call_id in ids:
            self._state.put(prefix + call_id, tools, _RETENTION_SECONDS)

    def _encode_tools(self, tools: tuple[Tool, ...]) -> str:
        """Encode tools as JSON. The last result is cached, because agents send the same tools repeatedly."""
        if self._last is None or tools is not self._last[0]:
            self._last = (tools, msgspec.json.encode(tools).decode())
        return self._last[1]

    def recall(self, tenant: str, request: Request, settings: Settings) -> tuple[Request, tuple[Note, ...]]:
        """Add the tools of an earlier turn to a request without tools, if the settings allow it."""
        if request.tools or not _should_recall(request, settings):
            return request, ()
        stored = map(self._state.get, reversed(_result_keys(tenant, request.messages)))
        tools = next((_TOOLS.decode(each) for each in stored if isinstance(each, str)), ())
        note = Note("tools_recalled", f"{len(tools)} tools recalled from an earlier turn")
        if not tools:
            tools = tools_of_history(request.messages)
            note = Note("tools_guessed", f"{len(tools)} tools reconstructed from the calls in the history")
        return (msgspec.structs.replace(request, tools=tools), (note,)) if tools else (request, ())

    def keep_item(self, tenant: str, name: str, item: JSONObject) -> None:
        self._state.put(_item_key(tenant, name), item, _RETENTION_SECONDS)

    async def forget_items(self, tenant: str, names: Iterable[str]) -> None:
        for name in names:
            key = _item_key(tenant, name)
            if self._shared is None:
                self._state.delete(key)
            else:  # waits for a database
                await asyncio.to_thread(self._state.delete, key)

    async def renew(self, tenant: str, items: Iterable[str]) -> None:
        """Fetch items again, because another process may have deleted them."""
        if self._shared is not None:
            await self._shared.renew(_item_key(tenant, name) for name in items)

    def item(self, tenant: str, name: str) -> JSONObject | None:
        """Return an item of an earlier answer by name; None if it is unknown."""
        return self._state.get(_item_key(tenant, name))


class _UserTextDigest:
    """Digest of all user messages so far. Distinguishes conversations whose calls have the same ids."""

    def __init__(self) -> None:
        self._digest = blake2b(digest_size=16)

    def add(self, message: Message) -> None:
        """Add a message. Only user text counts, because clients repeat it unchanged."""
        if message.role == "user" and (text := message.text):
            data = text.encode("utf-8", "surrogatepass")
            # The length prefix keeps messages apart: "a", "bc" and "ab", "c" get different digests.
            self._digest.update(len(data).to_bytes(8, "big") + data)

    def key(self, tenant: str, call_id: str) -> str:
        """Return the storage key for the tools of a call made after the messages so far."""
        return f"tools/{tenant}/{self._digest.hexdigest()}/{call_id}"


def _result_keys(tenant: str, messages: Iterable[Message]) -> list[str]:
    """Return the storage keys for the tools of all calls whose results are in these messages."""
    digest, call_keys, keys = _UserTextDigest(), dict[str, str](), list[str]()
    for message in messages:
        call_keys |= {call.id: digest.key(tenant, call.id) for call in message.calls}
        # If the client omitted the call, the digest is still right: no user text comes between a call and its result.
        keys += [call_keys.get(result.id) or digest.key(tenant, result.id) for result in message.results]
        digest.add(message)
    return keys


def _item_key(tenant: str, name: str) -> str:
    return f"items/{tenant}/{name}"


def _should_recall(request: Request, settings: Settings) -> bool:
    if settings.chat_only or request.tool_choice.mode == "none" or not has_tool_history(request.messages):
        return False
    sticky = settings.sticky_tools
    return sticky == "always" or (sticky == "results" and bool(request.messages[-1].results))
