"""What a recorded request is about: the question, the results it returns, and its conversation."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b

import msgspec

from ...core.types import JSONValue
from ...errors import ToolspeakError
from ..access.limits import read_object
from ..proxy.client_protocols import client_protocol
from .redaction import redact_text

_MAX_TEXT_CHARS, _MAX_QUESTION_CHARS = 2000, 80


class Headline(msgspec.Struct, frozen=True):
    """The beginning of a request's last user message, and more; without keys."""

    question: str = ""
    text: str = ""  # more of it, for the search
    results: Sequence[str] = ()  # names of the tools whose results end the request
    conversation: str = ""  # the same for all requests of a conversation
    messages: int = 0  # grows with each of them
    demands_call: bool = False


NO_HEADLINE = Headline()


def headline(protocol: str, body: bytes, fields: Mapping[str, JSONValue], secrets: Sequence[str]) -> Headline:
    """Return what a request is about; empty if its body is not valid."""
    try:
        request = client_protocol(protocol).decode(read_object(body), **fields)
    except ToolspeakError:
        return NO_HEADLINE
    messages = request.messages
    questions = [
        text for message in messages if message.role == "user" and (text := message.text[:_MAX_TEXT_CHARS].strip())
    ]
    # Cut after the redaction, which would not recognise half of a key.
    text = redact_text(" ".join(questions[-1].split()), secrets) if questions else ""
    names = {call.id: call.name for message in messages for call in message.calls}
    results: list[str] = []
    for message in reversed(messages):
        if message.role == "assistant" or (message.role == "user" and message.text.strip()):
            break
        results[:0] = [result.name or names.get(result.id, "a tool") for result in message.results]
    return Headline(
        text[:_MAX_QUESTION_CHARS],
        text,
        results,
        blake2b(questions[0].encode("utf-8", "replace"), digest_size=8).hexdigest() if questions else "",
        len(messages),
        request.tool_choice.demands,
    )
