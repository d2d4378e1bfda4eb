"""From the compact record of a conversation to the messages that a model is sent.

An answer is kept as its final text and its rounds; protocols want a message for each step. `messages_of` gives them as
toolspeak's own values, `expand` as the fields of a request in the words of one protocol. Text and calls of a round
stand in one message, since strict chat templates want that; with `split` the text is a message of its own. What is
empty is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from ...core.types import JSONObject, Message, Request, TextPart, ToolResult
from ...errors import UsageError
from ...protocols import anthropic, gemini, ollama, openai_chat, openai_responses
from .transcript import Answer, CallRecord, Entry, Round, answered

#: Who writes a request of each protocol, and the fields of it that hold the conversation.
_WRITERS: Mapping[str, tuple[Callable[[Request], bytes], tuple[str, ...]]] = {
    "openai_chat": (openai_chat.encode_request, ("messages",)),
    "openai_responses": (openai_responses.encode_request, ("instructions", "input")),
    "anthropic": (anthropic.encode_request, ("system", "messages")),
    "gemini": (gemini.encode_request, ("systemInstruction", "contents")),
    "ollama": (ollama.encode_request, ("messages",)),
}
#: The protocols that a conversation can be expanded into.
PROTOCOLS = tuple(_WRITERS)
#: Some writers want to know of a model. Its name is in no field of the conversation.
_ANY = "model"
#: What a record says besides the common words is in those of no protocol, but where a message names one.
_NEUTRAL = "record"


def expand(entries: Iterable[Entry], protocol: str, *, split: bool = False) -> JSONObject:
    """The conversation as the fields of a request in this protocol.

    Raises:
        UsageError: there is no such protocol.
    """
    name = "openai_chat" if protocol == "openai" else protocol
    if name not in _WRITERS:
        raise UsageError(f"the protocol `{protocol:.80}` is not spoken", hint=f"use one of {', '.join(PROTOCOLS)}")
    write, fields = _WRITERS[name]
    request = Request(_ANY, messages_of(entries, split=split), protocol=_NEUTRAL)
    body: JSONObject = msgspec.json.decode(write(request))
    return {field: body[field] for field in fields if field in body}


def messages_of(entries: Iterable[Entry], *, split: bool = False) -> tuple[Message, ...]:
    """The conversation, a message for each step: of a round its text, its calls, their results, then the final text."""
    return tuple(message for entry in entries for message in _messages(entry, split))


def _messages(entry: Entry, split: bool) -> Iterator[Message]:
    if isinstance(entry, Message):
        yield entry
        return
    for made in entry.rounds:
        yield from _round(made, split)
    if entry.content:
        yield _said(entry, entry.content)


def _round(made: Round, split: bool) -> Iterator[Message]:
    calls = tuple(record.call for record in made.calls)
    if split and made.text and calls:
        yield Message("assistant", (TextPart(made.text),), made.reasoning)
        yield Message("assistant", calls=calls)
    elif made.text or calls:
        yield msgspec.structs.replace(_said(made, made.text), calls=calls)
    if calls:
        yield Message("tool", results=tuple(map(_result, made.calls)))


def _said(step: Round | Answer, text: str) -> Message:
    """What the model said in a step: as it came, where that is known."""
    if step.said is not None and step.said.text.strip() == text.strip():
        return step.said
    return Message("assistant", (TextPart(text),) if text else (), step.reasoning)


def _result(record: CallRecord) -> ToolResult:
    """The result of a call. Its name stands in the call; there are protocols that do not take it twice."""
    result = answered(record).result
    assert result is not None  # `answered` gives one to every call
    return msgspec.structs.replace(result, name="") if result.name else result
