"""Expands a stored conversation into request messages.

`messages_of` returns toolspeak messages; `expand` returns the request fields of one protocol. The text and the calls of
a round share a message, because strict chat templates require it. `split` separates them. Empty messages are omitted.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from ...core.types import JSONObject, Message, Request, TextPart, ToolResult, require
from ...errors import UsageError
from ...protocols import anthropic, gemini, ollama, openai_chat, openai_responses
from ...protocols.generated_images import generated_images
from .transcript import Answer, CallRecord, Entry, Round, with_result

#: The request encoder of each protocol, and the request fields that contain the conversation.
_ENCODERS: Mapping[str, tuple[Callable[[Request], bytes], tuple[str, ...]]] = {
    "openai_chat": (openai_chat.encode_request, ("messages",)),
    "openai_responses": (openai_responses.encode_request, ("instructions", "input")),
    "anthropic": (anthropic.encode_request, ("system", "messages")),
    "gemini": (gemini.encode_request, ("systemInstruction", "contents")),
    "ollama": (ollama.encode_request, ("messages",)),
}
PROTOCOLS = tuple(_ENCODERS)
_SHORT_NAMES = {"openai": "openai_chat", "responses": "openai_responses"}
#: Placeholder for the model name. Encoders require one, but it does not appear in the conversation fields.
_ANY_MODEL = "model"
#: Matches no real protocol, so encoders drop the extra fields of a stored message unless it names its protocol.
_NEUTRAL = "record"


def expand(entries: Iterable[Entry], protocol: str, *, split: bool = False) -> JSONObject:
    """Encode the conversation as request fields of this protocol.

    Raises:
        UsageError: the protocol is unknown.
    """
    encode, fields = _encoder(protocol)
    request = Request(_ANY_MODEL, messages_of(entries, split=split), protocol=_NEUTRAL)
    body: JSONObject = msgspec.json.decode(encode(request))
    return {field: body[field] for field in fields if field in body}


def expand_messages(entries: Iterable[Entry], protocol: str) -> list[JSONObject]:
    """Encode the conversation as a list of messages. Protocols with a separate field for system texts omit them.

    Raises:
        UsageError: the protocol is unknown.
    """
    return expand(entries, protocol).get(_encoder(protocol)[1][-1], [])


def _encoder(protocol: str) -> tuple[Callable[[Request], bytes], tuple[str, ...]]:
    name = _SHORT_NAMES.get(protocol, protocol)
    if name not in _ENCODERS:
        names = ", ".join((*PROTOCOLS, *_SHORT_NAMES))
        raise UsageError(f"unknown protocol `{protocol!s:.80}`", hint=f"use one of {names}")
    return _ENCODERS[name]


def messages_of(entries: Iterable[Entry], *, split: bool = False) -> tuple[Message, ...]:
    """Convert the conversation to messages. Each round becomes a message with text and calls, and one with results."""
    return tuple(message for entry in entries for message in _entry_messages(entry, split))


def _entry_messages(entry: Entry, split: bool) -> Iterator[Message]:
    if isinstance(entry, Message):
        yield entry
        return
    require(entry, Answer, "an entry of a conversation", "a `Message` or an `Answer`")
    for round_ in entry.rounds:
        yield from _round_messages(round_, split)
    if entry.content or (entry.said is not None and generated_images(entry.said)):
        yield _assistant_message(entry, entry.content)


def _round_messages(round_: Round, split: bool) -> Iterator[Message]:
    calls = tuple(record.call for record in round_.calls)
    if split and round_.text and calls:
        yield Message("assistant", (TextPart(round_.text),), round_.reasoning)
        yield Message("assistant", calls=calls)
    elif round_.text or calls:
        yield msgspec.structs.replace(_assistant_message(round_, round_.text), calls=calls)
    if calls:
        yield Message("tool", results=tuple(map(_result, round_.calls)))


def _assistant_message(step: Round | Answer, text: str) -> Message:
    """Return the assistant message of a round or answer. The upstream's original message is used if it was stored."""
    if step.said is not None and step.said.text.strip() == text.strip():
        return step.said
    return Message("assistant", (TextPart(text),) if text else (), step.reasoning)


def _result(record: CallRecord) -> ToolResult:
    """Return the result of a call without the tool name, which the call has already and some protocols reject here."""
    result = with_result(record).result
    assert result is not None  # guaranteed by `with_result`
    return msgspec.structs.replace(result, name="") if result.name else result
